"""The shape of a slash command."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.surfaces.answers import CommandAnswer
    from holdfast.surfaces.chat_context import ChatContext


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
    help: str
    run: Callable[[ChatContext, str], CommandAnswer]
    argument: str = ""
    aliases: tuple[str, ...] = ()
    choices: Callable[[ChatContext], Iterable[Choice]] = _no_choices

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.argument}".rstrip()
