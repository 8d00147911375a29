"""The units that a request is made of: parts of messages that are kept or cut together."""

from __future__ import annotations

from itertools import islice
from operator import is_
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.models.messages import Block, Message, Other, Role, Text

if TYPE_CHECKING:
    from collections.abc import Iterable

Source = Literal["user", "program", "context", "assistant", "tool_result", "injected", "tools"]
_USER_SIDE: Final = frozenset(("user", "program", "context"))


class MessagePart(msgspec.Struct, frozen=True, gc=False):
    """The contribution of one record to a message."""

    record: str
    source: Source
    role: Role
    blocks: tuple[Block, ...]
    is_failed: bool = False
    """True for a result whose record says that the call failed."""


class ContextUnit(msgspec.Struct, frozen=True, gc=False):
    """Parts that are kept or cut together."""

    parts: tuple[MessagePart, ...]

    @property
    def is_user(self) -> bool:
        """True for a user's message, for one that a program wrote, and for injected context."""
        return self.parts[0].source in _USER_SIDE

    @property
    def is_message(self) -> bool:
        """True for a message in the user's role, whether the user or a program wrote it."""
        return self.is_said or self.is_from_program

    @property
    def is_from_program(self) -> bool:
        """True for a message in the user's role that a program wrote."""
        return self.parts[0].source == "program"

    @property
    def is_said(self) -> bool:
        """True for the user's own words alone."""
        return self.parts[0].source == "user"

    @property
    def is_asked(self) -> bool:
        """True for the user's own words, and for context that stands before them."""
        return self.is_user and not self.is_from_program

    @property
    def first(self) -> str:
        """The record it starts with."""
        return self.parts[0].record


def opaque_in(unit: ContextUnit) -> ContextUnit | None:
    """The newest compaction in a unit that only its provider can read, without what is beside it;
    None where there is none. It stands for the history before it, so no cut leaves it out."""
    for part in reversed(unit.parts):
        if part.source != "assistant":
            continue
        for block in reversed(part.blocks):
            if type(block) is Other and block.is_opaque:
                alone = msgspec.structs.replace(part, blocks=(block,))
                return unit if unit.parts == (alone,) else ContextUnit((alone,))
    return None


def is_opaque(unit: ContextUnit) -> bool:
    """Return whether a unit is nothing but such a compaction."""
    return opaque_in(unit) is unit


def join_opening(
    summary: Iterable[ContextUnit], pinned: Iterable[ContextUnit]
) -> list[ContextUnit]:
    """The summary of a cut and the units that stay beside it. A provider does not read what is
    before its own compaction, so that is first."""
    pinned = list(pinned)
    first = [unit for unit in pinned if is_opaque(unit)]
    return [*first, *summary, *(unit for unit in pinned if unit not in first)]


def messages_of(units: Iterable[ContextUnit]) -> list[Message]:
    """The messages that units make: parts of one role in a row become one message."""
    return _join(units)[0]


def _join(units: Iterable[ContextUnit]) -> tuple[list[Message], list[int]]:
    """Return the messages of units, and for each unit the place of the message that it begins;
    -1 for one that goes on in a message of the unit before it."""
    messages: list[Message] = []
    places: list[int] = []
    blocks: list[Block] = []
    first: MessagePart | None = None
    for unit in units:
        is_new = True
        for part in unit.parts:
            if first is not None and part.role != first.role:
                messages.append(Message(first.role, tuple(blocks), first.record))
                first, blocks = None, []
            if is_new:
                places.append(len(messages) if first is None else -1)
                is_new = False
            first = first or part
            blocks.extend(part.blocks)
    if first is not None:
        messages.append(Message(first.role, tuple(blocks), first.record))
    return messages, places


class JoinedMessages:
    """The messages of the newest units. Where the next ones begin with them, only those from the
    newest unit on are made again: it may have grown."""

    def __init__(self) -> None:
        self._units: list[ContextUnit] = []
        self._messages: list[Message] = []
        self._places: list[int] = []

    def of(self, units: list[ContextUnit]) -> list[Message]:
        """Return `messages_of` units; no one changes the list."""
        known = self._units
        same = len(known) <= len(units) and all(map(is_, known, units))
        if same and len(known) == len(units):
            return self._messages
        start = len(known) if same else len(known) - 1
        if start > len(units) or not (same or all(map(is_, islice(known, start), units))):
            start = 0
        start = min(start, len(known) - 1)
        while start > 0 and self._places[start] < 0:
            start -= 1
        kept = self._places[start] if start > 0 else 0
        made, places = _join(islice(units, max(0, start), None))
        self._places = self._places[: max(0, start)] + [
            place + kept if place >= 0 else place for place in places
        ]
        self._messages = self._messages[:kept] + made
        self._units = units
        return self._messages


def note(text: str) -> ContextUnit:
    """A user message that Holdfast puts in."""
    return ContextUnit((MessagePart("", "injected", "user", (Text(text),)),))


LEAST_SUMMARY: Final = "[The beginning of this conversation is not shown.]"
"""The summary where a budget leaves room for no other: a summary is never empty."""
LAST_CUT: Final = "\0"
"""Stands for the last record that was cut, in words about the way back to it."""
NOTE_FIRST: Final = note(LEAST_SUMMARY)


def open_with_user(shown: list[ContextUnit]) -> list[ContextUnit]:
    """Units that begin with the user: a note stands in where they do not."""
    return shown if not shown or shown[0].parts[0].role == "user" else [NOTE_FIRST, *shown]
