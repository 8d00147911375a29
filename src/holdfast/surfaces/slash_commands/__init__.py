"""The table of slash commands, shared by every surface.

A command takes the chat context and its argument, and returns a `CommandAnswer`. A surface offers
each audience its own set; a command outside of it is unknown there. An unknown command is refused
with the nearest name; it is never sent to the model.
"""

from __future__ import annotations

import difflib
import warnings
from typing import TYPE_CHECKING, Final

from holdfast.core.flow.effects import Cancelled
from holdfast.core.log.listing import title_of
from holdfast.errors import HoldfastError, HoldfastWarning, StoreError, TurnInProgress
from holdfast.surfaces.answers import (
    SHELL,
    Cell,
    CommandAnswer,
    answer,
    dim,
    keep_lines,
    line,
    mask_answer,
    refuse,
)
from holdfast.surfaces.chat_context import size_text
from holdfast.surfaces.slash_commands import context, memory, sessions, timers, turns
from holdfast.surfaces.slash_commands.command import Choice, SlashCommand, WrongArgument, for_guest

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.surfaces.chat_context import Audience, ChatContext, Surface
    from holdfast.surfaces.slash_commands.command import DuringTurn

_NEAR: Final = 0.5
"""A typo shares at least half of its letters with the command that was meant."""


def is_command(text: str) -> bool:
    """Return True for a command, False for a message to the model."""
    words = text.strip()
    return (words.startswith("/") and not words.startswith("//")) or is_goodbye(words)


def is_goodbye(text: str) -> bool:
    return text.strip().casefold() in ("quit", "exit")


def as_message(text: str) -> str:
    """Return the message to the model; a leading `//` stands for one slash."""
    words = text.strip()
    return words[1:] if words.startswith("//") else words


def commands_for(surface: Surface, audience: Audience) -> tuple[SlashCommand, ...]:
    """Return the commands that a surface offers to an audience, in the order of `/help`."""
    return tuple(command for command in COMMANDS if command.is_for(surface, audience))


def find(word: str, commands: Iterable[SlashCommand] | None = None) -> SlashCommand | None:
    """Find a command by its name or an alias, in any case; among all without `commands`."""
    wanted = word.lstrip("/").casefold()
    among = COMMANDS if commands is None else commands
    return next((each for each in among if wanted in (each.name, *each.aliases)), None)


def run_command(text: str, chat: ChatContext) -> CommandAnswer:
    """Run a command of the chat's set. An error becomes the answer, and the session stays open.

    While a turn of the session runs, a command does what its `during_turn` says. Every surface
    shows the answer, so secrets are masked here.
    """
    names = {command.name for command in _set_of(chat)}
    if chat.surface == "terminal" and chat.audience == "operator":
        names.add(SHELL)
    return mask_answer(keep_lines(_run(text, chat), names), chat.redactor)


def complete(line: str, chat: ChatContext) -> Iterator[tuple[Choice, bool]]:
    """Yield completions of a line, masked as answers are; True marks the name of a command."""
    if not line.startswith("/"):
        return
    word, space, rest = line[1:].partition(" ")
    offered = _set_of(chat)
    if not space:
        for known in offered:
            if known.name.startswith(word.casefold()):
                yield Choice(known.name, known.help), True
        return
    command = find(word, offered)
    wanted = rest.rpartition(" ")[2].casefold()
    seen: set[str] = set()
    for choice in command.choices(chat) if command is not None else ():
        if choice.text in seen or not choice.text.casefold().startswith(wanted):
            continue
        seen.add(choice.text)
        if chat.redactor.text(choice.text) == choice.text:
            yield Choice(choice.text, chat.redactor.text(choice.about)), False


def _set_of(chat: ChatContext) -> tuple[SlashCommand, ...]:
    return commands_for(chat.surface, chat.audience)


def _run(text: str, chat: ChatContext) -> CommandAnswer:
    word, _, rest = text.strip().partition(" ")
    command = find(word, _set_of(chat))
    if command is None:
        return _unknown(chat, word)
    try:
        turn = turns.running_turn(chat) if command.during_turn != "at once" else None
        if turn is not None and command.during_turn == "refused":
            return turns.refuse_during_turn(chat, command, turn)
        if turn is not None and not turns.wait_for_turn(chat):
            return refuse(
                f"/{command.name} was not done: the chat went on to another session meanwhile"
            )
        return command.run(chat, command.read(rest.strip(), str(chat.session.key)))
    except WrongArgument as error:
        return refuse(f"Usage: {command.usage}", error.hint)
    except Cancelled:
        return refuse(f"/{command.name} was cancelled.")
    except TurnInProgress as error:
        return turns.refuse_during_turn(chat, command, error)
    except (StoreError, OSError) as error:
        return _refuse_for_store(chat, command, error)
    except HoldfastError as error:
        return refuse(f"Error: {error}", error.hint)


def _refuse_for_store(
    chat: ChatContext, command: SlashCommand, error: StoreError | OSError
) -> CommandAnswer:
    """Report a failure of the store. To a guest without its words: they name paths and servers."""
    if chat.audience != "guest":
        return refuse(f"Error: {error}", getattr(error, "hint", "nothing was changed"))
    text = f"/{command.name} failed in a chat of a guest, session `{chat.session.key}`: {error}"
    warnings.warn(text, HoldfastWarning, stacklevel=2)
    return refuse(
        f"Error: /{command.name} failed, because the sessions cannot be read or written now",
        "try again later; the operator of this service can see the reason",
    )


def _unknown(chat: ChatContext, word: str) -> CommandAnswer:
    """Refuse a word outside the chat's set. A guest does not learn what others are offered."""
    offered = _set_of(chat)
    names = [name for command in offered for name in (command.name, *command.aliases)]
    near = difflib.get_close_matches(word.lstrip("/").casefold(), names, n=1, cutoff=_NEAR)
    guess = f"did you mean /{near[0]}?" if near else "/help lists them"
    if chat.audience != "guest" and find(word) is not None:
        guess = "not offered here; /help lists those that are"
    return refuse(
        f"Unknown command: {title_of(word)} ({guess})",
        "nothing was sent; to send a message that starts with a slash, type two slashes",
    )


def _names(chat: ChatContext) -> Iterable[Choice]:
    return (Choice(command.name, command.help) for command in _set_of(chat))


@for_guest("help", "list the commands", "at once", argument="[command]", choices=_names)
def _help(chat: ChatContext, argument: str) -> CommandAnswer:
    if not argument:
        return _menu.run(chat, argument)
    command = find(argument, _set_of(chat))
    if command is None:
        return _unknown(chat, argument)
    names = ", ".join(f"/{alias}" for alias in command.aliases)
    return answer(
        line(Cell(command.usage, "name"), f"  {command.help}"),
        *([f"also: {names}"] if names else []),
        dim(_DURING_TURN[command.during_turn]),
    )


@for_guest("menu", "list the commands", "at once", surfaces=("messenger",))
def _menu(chat: ChatContext, _argument: str) -> CommandAnswer:
    offered = _set_of(chat)
    width = max(len(command.usage) for command in offered)
    return answer(
        "Commands:",
        *(
            line("  ", Cell(f"{command.usage:<{width}}", "name"), f"  {command.help}")
            for command in offered
        ),
    )


@for_guest("start", "show the session of this chat", "at once", surfaces=("messenger",))
def _start(chat: ChatContext, _argument: str) -> CommandAnswer:
    known = chat.info()
    label = f" ({title_of(known.label)})" if known.label else ""
    return answer(
        line("Session: ", Cell(chat.session.key.session, "name"), f"{label}, {size_text(chat)}"),
        "Send a message, and it is answered in this session. /menu lists the commands.",
    )


@for_guest(
    "quit",
    "leave; everything is already stored",
    "at once",
    surfaces=("terminal",),
    aliases=("exit",),
)
def _quit(_chat: ChatContext, _argument: str) -> CommandAnswer:
    return answer("Goodbye.", then="quit")


_DURING_TURN: Final[dict[DuringTurn, str]] = {
    "at once": "while a turn runs: answered at once",
    "queued": "while a turn runs: done when it has ended",
    "refused": "while a turn runs: refused",
}

COMMANDS: Final = (
    _start,
    _menu,
    *sessions.COMMANDS,
    *context.COMMANDS,
    *memory.COMMANDS,
    *timers.COMMANDS,
    *turns.COMMANDS,
    _help,
    _quit,
)
"""Every command, in the order of `/help`. A new command is a row in the module of its subject."""
