"""A transcript made ready for replay: what each call was sent, what it used, and when it was made.

The replay starts from what was said and done. What the source shortened, and what its provider
reported, belongs to the run that really happened and is left out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol, assert_never, overload

import msgspec

from holdfast.core.dialects.registry import target
from holdfast.core.evaluation.needs import facts_in
from holdfast.core.log.records import Assistant, ToolResult, ToolUse, User
from holdfast.core.log.replay import user_text, with_ids
from holdfast.core.models.messages import (
    AddedTools,
    Image,
    Other,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
)
from holdfast.core.narrative.digest import arguments_text
from holdfast.core.projection.sizes import Correction
from holdfast.core.projection.steps import Thread
from holdfast.core.projection.units import ContextUnit
from holdfast.core.text.fences import SUMMARY_LABEL
from holdfast.core.tokens.calibration import CLAUDE_BASE
from holdfast.core.tokens.counting import count_block

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.log.records import Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Block
    from holdfast.core.tokens.counting import Counter
    from holdfast.engine.simulation.prompt_cache import CacheRules

FAR_STEPS: Final = 10
"""A fact that was last seen more steps ago is far."""
_BROKEN: Final = frozenset(
    (
        *("orphan-result", "duplicate-result", "moved-result", "late-result"),
        *("interrupted-call", "blank-id", "reused-id", "blank-name", "empty-message"),
    )
)
"""Flaws for which a provider refuses a request that was not repaired."""

_PUT_IN: Final = (SUMMARY_LABEL, "[Cleared:")
"""Openings of texts with which Holdfast replaces others."""


class TranscriptPiece(msgspec.Struct, frozen=True, gc=False):
    """A block as it is sent."""

    key: bytes
    """Two pieces with the same key are the same bytes."""
    tokens: int
    """Its size."""
    facts: frozenset[int]
    """The numbers of the facts in it."""
    is_original: bool = True
    """True for what was said or found, whole or in part; not for a summary or list in its place."""


class Use(msgspec.Struct, frozen=True, gc=False):
    """A fact that a call used and that had come up before."""

    fact: int
    is_far: bool


class ReplayCall(msgspec.Struct, frozen=True):
    """A call to the model that was made."""

    records: int
    """Number of records before it."""
    at: float
    """When it was sent; 0 where the transcript does not say."""
    units: Sequence[ContextUnit]
    """The messages before the call, whole steps each."""
    uses: tuple[Use, ...]
    """Facts that the call used and that had come up before."""
    said: int
    """Number of the user's messages."""
    broken: frozenset[str]
    """Records that a provider would refuse as they are."""
    arrived: tuple[tuple[str, frozenset[int]], ...] = ()
    """The records that are new since the call before, with their facts."""
    rules: CacheRules | None = None
    """The cache as the call before asked for it, where that is chosen call by call."""


class Saying(msgspec.Struct, frozen=True):
    """A message of the user."""

    record: str
    keys: tuple[bytes, ...]
    lines: tuple[str, ...]
    chars: int


class FactCatalog(Protocol):
    """The facts that a replay looks for, each with a number."""

    @property
    def names(self) -> list[str]:
        """The facts by their number."""

    def find(self, text: str) -> frozenset[int]:
        """The facts that a text contains."""

    def uses_of(self, record: Assistant) -> frozenset[int]:
        """The facts that a reply uses."""


class CallFacts:
    """The facts in the arguments of tool calls."""

    def __init__(self, records: Sequence[Record]) -> None:
        used: set[str] = set()
        for record in records:
            if isinstance(record, Assistant):
                used |= facts_in(_calls_text(record))
        self._numbers = {fact: number for number, fact in enumerate(sorted(used))}

    @property
    def names(self) -> list[str]:
        return list(self._numbers)

    def find(self, text: str) -> frozenset[int]:
        numbers = self._numbers
        return frozenset(numbers[fact] for fact in facts_in(text) if fact in numbers)

    def uses_of(self, record: Assistant) -> frozenset[int]:
        return self.find(_calls_text(record))


class UnitsSoFar(Sequence[ContextUnit]):
    """The units before a call. All calls share one list: a copy for each would grow as a square."""

    def __init__(self, closed: list[ContextUnit], count: int, newest: list[ContextUnit]) -> None:
        self._closed, self._count, self._newest = closed, count, newest

    def __len__(self) -> int:
        return self._count + len(self._newest)

    @overload
    def __getitem__(self, place: int) -> ContextUnit: ...
    @overload
    def __getitem__(self, place: slice) -> list[ContextUnit]: ...
    def __getitem__(self, place: int | slice) -> ContextUnit | list[ContextUnit]:
        if isinstance(place, slice):
            start, stop, step = place.indices(len(self))
            old, new = self._closed[start : min(stop, self._count)], self._newest
            rest = new[max(0, start - self._count) : max(0, stop - self._count)]
            return [*old, *rest] if step == 1 else [self[at] for at in range(start, stop, step)]
        at = range(len(self))[place]
        return self._closed[at] if at < self._count else self._newest[at - self._count]


class Transcript:
    """One session, with what every policy needs to know of it."""

    def __init__(
        self,
        records: Iterable[Record],
        counter: Counter,
        *,
        correction: Correction | None = None,
        to: Target | None = None,
        catalog: Callable[[Sequence[Record]], FactCatalog] | None = None,
    ) -> None:
        self.source = list(with_ids(list(records)))
        """The records as they were given; each has an id, by which its flaws are found."""
        kept = [
            (at, bare) for at, rec in enumerate(self.source) if (bare := _bare(rec)) is not None
        ]
        self.records = [bare for _at, bare in kept]
        self.places = [at for at, _bare_record in kept]
        """The index of each record in `source`."""
        self.counter = counter
        self.correction = correction or Correction(CLAUDE_BASE.factor, CLAUDE_BASE.per_result)
        self.target = to or _target_of(self.records)
        self._pieces: dict[int, tuple[Block, TranscriptPiece]] = {}
        self.catalog = (catalog or CallFacts)(self.records)
        self.sayings: list[Saying] = []
        self.calls = self._read_calls()

    @property
    def fact_names(self) -> list[str]:
        """Every fact that any call used, by its number."""
        return self.catalog.names

    def piece(self, block: Block) -> TranscriptPiece:
        """A block as it is sent; remembered by identity."""
        found = self._pieces.get(id(block))
        if found is None:
            found = self._pieces[id(block)] = (block, self._make_piece(block))
        return found[1]

    def pieces(self, units: Iterable[ContextUnit]) -> list[TranscriptPiece]:
        piece = self.piece
        return [piece(block) for unit in units for part in unit.parts for block in part.blocks]

    def tokens(self, units: Iterable[ContextUnit]) -> int:
        return sum(piece.tokens for piece in self.pieces(units))

    def tokens_of_text(self, text: str) -> int:
        return self.correction_tokens(self.counter.count(text))

    def correction_tokens(self, counted: int, *, is_result: bool = False) -> int:
        return round(self.correction.factor * counted + self.correction.per_result * is_result)

    def number_facts(self, text: str) -> frozenset[int]:
        """The facts in a text that some call uses."""
        return self.catalog.find(text)

    def _make_piece(self, block: Block) -> TranscriptPiece:
        key = hashlib.blake2b(msgspec.msgpack.encode(block), digest_size=12).digest()
        counted = count_block(block, self.counter)
        is_result = isinstance(block, ToolAnswer)
        tokens = self.correction_tokens(counted, is_result=is_result)
        text = text_in(block)
        return TranscriptPiece(key, tokens, self.number_facts(text), not text.startswith(_PUT_IN))

    def _read_calls(self) -> list[ReplayCall]:
        thread = Thread(lambda _reply, thinking: self.target.takes_back(thinking))
        calls: list[ReplayCall] = []
        closed: list[ContextUnit] = []
        seen: dict[int, int] = {}
        read = 0
        at = 0.0
        for place, record in enumerate(self.records):
            if isinstance(record, Assistant):
                position = thread.position
                arrived = self._arrivals(
                    thread.units(min(read, position))[max(0, read - position) :]
                )
                for _record, facts in arrived:
                    seen.update(dict.fromkeys(facts, len(calls)))
                closed += thread.closed_units(len(closed), position)
                units = UnitsSoFar(closed, position, thread.units(position))
                # The last unit may still get answers, so it is looked at again.
                read = max(0, len(units) - 1)
                broken = {
                    repair.record for repair in thread.all_repairs() if repair.flaw in _BROKEN
                }
                uses = self._uses(record, seen, len(calls))
                said = len(self.sayings)
                calls.append(ReplayCall(place, at, units, uses, said, frozenset(broken), arrived))
            at = max(at, record.ts)
            thread.feed(record)
            if isinstance(record, User):
                self._note_saying(record, thread)
        return calls

    def _arrivals(self, units: Sequence[ContextUnit]) -> tuple[tuple[str, frozenset[int]], ...]:
        """The records of units, with their facts."""
        parts = (part for unit in units for part in unit.parts)
        return tuple(
            (part.record, facts)
            for part in parts
            for block in part.blocks
            if (facts := self.piece(block).facts)
        )

    def _uses(self, record: Assistant, seen: dict[int, int], step: int) -> tuple[Use, ...]:
        used = self.catalog.uses_of(record)
        return tuple(
            Use(fact, step - seen[fact] > FAR_STEPS) for fact in sorted(used) if fact in seen
        )

    def _note_saying(self, record: User, thread: Thread) -> None:
        own = user_text(record)
        if not own:
            return
        part = next(
            (
                part
                for unit in reversed(thread.units(max(0, thread.position - 1)))
                for part in unit.parts
                if part.record == record.id
            ),
            None,
        )
        texts = [block for block in part.blocks if isinstance(block, Text)] if part else []
        if not texts:
            return
        lines = tuple(line.strip() for line in own.splitlines())
        keys = tuple(self.piece(text).key for text in texts)
        self.sayings.append(Saying(record.id, keys, lines, sum(map(len, lines))))


def text_in(block: Block) -> str:
    """Everything in a block that a model could read a fact from."""
    match block:
        case Text(text):
            return text
        case Thinking(text=text):
            return text
        case ToolCall(arguments=arguments):
            return arguments_text(arguments)
        case ToolAnswer(content=content):
            return "\n".join(piece.text for piece in content if isinstance(piece, Text))
        case Image() | AddedTools() | Other():
            return ""
        case _:
            assert_never(block)


def _bare(record: Record) -> Record | None:
    """A record without what belongs to the run that happened; None where nothing is left."""
    if isinstance(record, Assistant):
        if record.extra.get("synthetic") is True:
            return None
        return msgspec.structs.replace(record, usage=None)
    return record if isinstance(record, (User, ToolResult, ToolUse)) else None


def _target_of(records: Sequence[Record]) -> Target:
    models = [record for record in records if isinstance(record, Assistant) and record.model]
    if not models:
        return target("anthropic")
    last = models[-1]
    assert isinstance(last, Assistant)
    return target("anthropic", provider=last.provider or "", model=last.model or "")


def _calls_text(record: Assistant) -> str:
    if not isinstance(record.content, list):
        return ""
    inputs = (block.get("input") for block in record.content if block.get("type") == "tool_use")
    return "\n".join(map(arguments_text, inputs))
