"""The shape of a slash command.

A command that does what an operation does takes its help and its parameters from it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, field
from itertools import chain, repeat
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.text.typed import convert_typed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from holdfast.engine.operations.operation import Operation
    from holdfast.surfaces.answers import CommandAnswer
    from holdfast.surfaces.chat_context import Audience, ChatContext, Surface

DuringTurn = Literal["at once", "queued", "refused"]
"""The answer of a command while a turn of the session runs. `at once`: it changes nothing in that
session, or is meant for the turn itself. `queued`: it changes the session, and runs when the turn
has ended. `refused`: after the turn it would mean something else."""
EVERYWHERE: Final = ("terminal", "messenger", "api")
AT_LENGTH: Final = ("terminal", "api")
"""Surfaces with room for many commands."""
_TRUST: Final = ("guest", "owner", "operator")


class WrongArgument(Exception):
    """The argument of a command does not fit; the answer shows its usage and a hint."""

    def __init__(self, hint: str = "") -> None:
        super().__init__(hint)
        self.hint = hint


@dataclass(frozen=True, slots=True)
class Choice:
    """A completion for the argument of a command."""

    text: str
    about: str = ""


def _no_choices(_chat: ChatContext) -> Iterable[Choice]:
    return ()


def choices(*options: Choice) -> Callable[[ChatContext], Iterable[Choice]]:
    """Offer the same completions in every session."""
    return lambda _chat: options


@dataclass(frozen=True, slots=True)
class SlashCommand:
    """A command that a person types in a chat."""

    name: str
    """Its name, without the slash."""
    help: str
    """One line for the list of commands."""
    run: Callable[[ChatContext, Any], CommandAnswer]
    """The function that runs it, with what `read` returns."""
    argument: str = ""
    """The argument as help shows it."""
    _: KW_ONLY
    audience: Audience
    """The least trusted of those who may run it."""
    during_turn: DuringTurn
    """Its answer while a turn of the session runs."""
    surfaces: tuple[Surface, ...] = EVERYWHERE
    """The surfaces that offer it."""
    aliases: tuple[str, ...] = ()
    """Other names of it."""
    choices: Callable[[ChatContext], Iterable[Choice]] = _no_choices
    """Returns the arguments that can be completed."""
    operation: type[Operation[Any]] | None = None
    """The operation that its help and its parameters are from."""
    takes: tuple[str, ...] = ()
    """The parameters that it takes, in their order; the last has the rest of the line."""
    screen: Mapping[str, int] = field(default_factory=dict)
    """Parameters whose default is what fills a screen."""

    def is_for(self, surface: Surface, audience: Audience) -> bool:
        """Return True where a surface offers the command to an audience."""
        trust = _TRUST.index(audience) >= _TRUST.index(self.audience)
        return trust and surface in self.surfaces

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.argument}".rstrip()

    def read(self, argument: str, session: str) -> Any:
        """Read the words behind the name: the operation that is asked for, or a text where only
        chats have the command. Raises `WrongArgument`."""
        if self.operation is None:
            return argument
        fields = {each.name: each for each in msgspec.structs.fields(self.operation)}
        flags = [name for name in self.takes if isinstance(fields[name].default, bool)]
        names = [name for name in self.takes if name not in flags]
        given: dict[str, Any] = {"session_key": session} if "session_key" in fields else {}
        given |= self.screen
        for name in flags:
            words = argument.split()
            given[name] = f"--{name}" in words
            argument = " ".join(word for word in words if word != f"--{name}")
        parts = chain(argument.split(maxsplit=max(0, len(names) - 1)), repeat(""))
        given |= {
            name: part
            for name, part in zip(names, parts, strict=False)
            if part or fields[name].required
        }
        try:
            for name in names:
                if "dict" in str(fields[name].type) and given.get(name):
                    given[name] = msgspec.json.decode(given[name])
            values = {
                each.encode_name: given[name] for name, each in fields.items() if name in given
            }
            return convert_typed(values, self.operation, strict=False)
        except (msgspec.DecodeError, RecursionError) as error:
            schema = msgspec.json.schema(self.operation)["$defs"][self.operation.__name__]
            about = [schema["properties"][fields[name].encode_name] for name in names]
            raise WrongArgument(" ".join(each["description"] for each in about)) from error


def _for(audience: Audience) -> Callable[..., Callable[[Any], SlashCommand]]:
    def declare(
        name: str,
        about: str | type[Operation[Any]],
        during_turn: DuringTurn,
        *takes: str,
        **more: Any,
    ) -> Callable[[Any], SlashCommand]:
        """`about` is the operation, or the help of a command that only chats have."""
        if isinstance(about, str):
            help_ = about
        else:
            help_ = about.title[0].lower() + about.title[1:]
            more = {"argument": _usage(about, takes), **more, "operation": about, "takes": takes}
        return lambda run: SlashCommand(
            name, help_, run, audience=audience, during_turn=during_turn, **more
        )

    return declare


def _usage(operation: type[Operation[Any]], takes: tuple[str, ...]) -> str:
    """Return the argument of a command as help shows it."""
    fields = {each.name: each for each in msgspec.structs.fields(operation)}
    shown = (
        (f"--{name}" if isinstance(fields[name].default, bool) else name, fields[name].required)
        for name in takes
    )
    return " ".join(f"<{name}>" if is_needed else f"[{name}]" for name, is_needed in shown)


for_guest: Final = _for("guest")
for_owner: Final = _for("owner")
for_operator: Final = _for("operator")
"""Make a command of the function that runs it, for an audience and those who are trusted more."""
