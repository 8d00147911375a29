"""The table of slash commands, shared by every surface.

A command takes the chat context and its argument, and returns a `CommandAnswer`. An unknown
command is refused with the nearest name; it is never sent to the model.
"""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Final

from holdfast.core.log.listing import title_of
from holdfast.errors import HoldfastError
from holdfast.surfaces.answers import Cell, CommandAnswer, answer, line, mask_answer, refuse
from holdfast.surfaces.slash_commands import context, memory, sessions
from holdfast.surfaces.slash_commands.command import Choice, SlashCommand, WrongArgument

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.surfaces.chat_context import ChatContext

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


def find(word: str) -> SlashCommand | None:
    """Find a command by its name or an alias, in any case."""
    wanted = word.lstrip("/").casefold()
    return next((each for each in COMMANDS if wanted in (each.name, *each.aliases)), None)


def run(text: str, chat: ChatContext) -> CommandAnswer:
    """Run a command. An error becomes the answer, and the current session stays open.

    Every surface shows the answer, so secrets are masked here.
    """
    return mask_answer(_run(text, chat), chat.redactor)


def _run(text: str, chat: ChatContext) -> CommandAnswer:
    word, _, rest = text.strip().partition(" ")
    command = find(word)
    if command is None:
        return _unknown(word)
    try:
        return command.run(chat, rest.strip())
    except WrongArgument as error:
        return refuse(f"Usage: {command.usage}", error.hint)
    except HoldfastError as error:
        return refuse(f"Error: {error}", error.hint)
    except OSError as error:
        return refuse(f"Error: {error}", "nothing was changed")


def _unknown(word: str) -> CommandAnswer:
    names = [name for command in COMMANDS for name in (command.name, *command.aliases)]
    near = difflib.get_close_matches(word.lstrip("/").casefold(), names, n=1, cutoff=_NEAR)
    guess = f"did you mean /{near[0]}?" if near else "/help lists them"
    return refuse(
        f"Unknown command: {title_of(word)} ({guess})",
        "nothing was sent; to send a message that starts with a slash, type two slashes",
    )


def _help(_chat: ChatContext, argument: str) -> CommandAnswer:
    if argument:
        command = find(argument)
        if command is None:
            return _unknown(argument)
        names = ", ".join(f"/{alias}" for alias in command.aliases)
        return answer(
            line(Cell(command.usage, "name"), f"  {command.help}"),
            *([f"also: {names}"] if names else []),
        )
    width = max(len(command.usage) for command in COMMANDS)
    return answer(
        "Commands:",
        *(
            line("  ", Cell(f"{command.usage:<{width}}", "name"), f"  {command.help}")
            for command in COMMANDS
        ),
    )


def _continue(_chat: ChatContext, _argument: str) -> CommandAnswer:
    return CommandAnswer(then="resume")


def _quit(_chat: ChatContext, _argument: str) -> CommandAnswer:
    return answer("Goodbye.", then="quit")


def _names(_chat: ChatContext) -> Iterable[Choice]:
    return (Choice(command.name, command.help) for command in COMMANDS)


COMMANDS: Final = (
    *sessions.COMMANDS,
    *context.COMMANDS,
    *memory.COMMANDS,
    SlashCommand("continue", "answer the turn that was interrupted", _continue),
    SlashCommand("help", "list the commands", _help, "[command]", choices=_names),
    SlashCommand("quit", "leave; everything is already stored", _quit, aliases=("exit",)),
)
"""Every command, in the order of `/help`. A new command is a row in the module of its subject."""
