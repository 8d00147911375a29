"""The shape of a slash command."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.surfaces.answers import CommandAnswer
    from holdfast.surfaces.chat_context import Audience, ChatContext, Surface

    Run = Callable[[ChatContext, str], CommandAnswer]

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
    run: Callable[[ChatContext, str], CommandAnswer]
    """The function that runs it, with the words behind its name."""
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

    def is_for(self, surface: Surface, audience: Audience) -> bool:
        """Return True where a surface offers the command to an audience."""
        trust = _TRUST.index(audience) >= _TRUST.index(self.audience)
        return trust and surface in self.surfaces

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.argument}".rstrip()


def _for(audience: Audience) -> Callable[..., Callable[[Run], SlashCommand]]:
    def declare(
        name: str, help_: str, during_turn: DuringTurn, **more: Any
    ) -> Callable[[Run], SlashCommand]:
        return lambda run: SlashCommand(
            name, help_, run, audience=audience, during_turn=during_turn, **more
        )

    return declare


for_guest: Final = _for("guest")
for_owner: Final = _for("owner")
for_operator: Final = _for("operator")
"""Make a command of the function that runs it, for an audience and those who are trusted more."""
