"""A transcript made ready for replay: what each call was sent, what it used, and when it was made.

The replay starts from what was said and done. What the source shortened, and what its provider
reported, belongs to the run that really happened and is left out.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final, assert_never

import msgspec

from holdfast.core.extract.digest import arguments_text
from holdfast.core.log.records import Assistant, ToolResult, ToolUse, User
from holdfast.core.log.speakers import user_text
from holdfast.core.models.dialects import Target, target
from holdfast.core.models.messages import Image, Other, Text, Thinking, ToolAnswer, ToolCall
from holdfast.core.projection.sizes import Correction
from holdfast.core.projection.steps import Thread
from holdfast.core.text.fences import SUMMARY_LABEL
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.tokens.counting import count_block

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.units import ContextUnit
    from holdfast.core.tokens.counting import Counter

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

# What counts as a fact is defined here and not taken from the carry: a list of names must not be
# judged by its own idea of a name.
_FACT: Final = lazy_pattern(
    r"\b[0-9a-f]{7,40}\b"
    r"|\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"
    r"|\b\d{4,}\b"
    r"|(?:~|\.{1,2})?(?:/[\w.@+-]+)+"
    r"|[\w@+-]{1,200}(?:/[\w.@+-]+)+"
    r"|\b[\w-]{1,200}\.(?:go|py|md|[jt]sx?|jsonl?|ya?ml|toml|sh|txt|rs|html|css|sql|lock|mod|sum|exs?"
    r"|svelte|rb|c|h|cpp|java)\b"
    r"|\b[A-Za-z]+(?:_[A-Za-z0-9]+)+\b"
    r"|\b[A-Za-z]{1,60}[a-z0-9]{1,60}(?:[A-Z][a-z0-9]*+)++\b"
    r"|\b\w+(?:\.\w+)+\b"
)
_QUOTED: Final = lazy_pattern(r"\"([^\"\n]{6,80})\"|`([^`\n]{4,80})`|'([^'\n]{6,80})'")
_FACT_CHARS_MIN: Final = 4


def facts_in(text: str) -> set[str]:
    """Paths, symbols, ids, numbers, and quoted strings, error messages among them."""
    found = {match.group().strip(".") for match in _FACT.finditer(text)}
    found.update(match[match.lastindex or 0] for match in _QUOTED.finditer(text))
    return {fact for fact in found if len(fact) >= _FACT_CHARS_MIN}


class TranscriptPiece(msgspec.Struct, frozen=True, gc=False):
    """A block as it is sent."""

    key: bytes
    """Two pieces with the same key are the same bytes."""
    tokens: int
    facts: frozenset[int]
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
    units: tuple[ContextUnit, ...]
    uses: tuple[Use, ...]
    said: int
    """Number of the user's messages."""
    broken: frozenset[str]
    """Records that a provider would refuse as they are."""


class Saying(msgspec.Struct, frozen=True):
    """A message of the user."""

    record: str
    keys: tuple[bytes, ...]
    lines: tuple[str, ...]
    chars: int


class Transcript:
    """One session, with what every policy needs to know of it."""

    def __init__(
        self,
        records: Iterable[Record],
        counter: Counter,
        *,
        correction: Correction | None = None,
        to: Target | None = None,
    ) -> None:
        self.records = [bare for record in records if (bare := _bare(record)) is not None]
        self.counter = counter
        self.correction = correction or Correction(1.12, 90.0)
        self.target = to or _target_of(self.records)
        self._pieces: dict[int, tuple[Block, TranscriptPiece]] = {}
        self._facts = _count_used_facts(self.records)
        self.sayings: list[Saying] = []
        self.calls = self._read_calls()

    @property
    def fact_names(self) -> list[str]:
        """Every fact that any call used, by its number."""
        return list(self._facts)

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
        return frozenset(self._facts[fact] for fact in facts_in(text) if fact in self._facts)

    def _make_piece(self, block: Block) -> TranscriptPiece:
        key = hashlib.blake2b(msgspec.msgpack.encode(block), digest_size=12).digest()
        counted = count_block(block, self.counter)
        is_result = isinstance(block, ToolAnswer)
        tokens = self.correction_tokens(counted, is_result=is_result)
        text = text_in(block)
        return TranscriptPiece(key, tokens, self.number_facts(text), not text.startswith(_PUT_IN))

    def _read_calls(self) -> list[ReplayCall]:
        thread = Thread(self.target.takes_back)
        calls: list[ReplayCall] = []
        seen: dict[int, int] = {}
        read = 0
        at = 0.0
        for place, record in enumerate(self.records):
            if isinstance(record, Assistant):
                units = tuple(thread.units())
                for unit in units[read:]:
                    for piece in self.pieces((unit,)):
                        seen.update(dict.fromkeys(piece.facts, len(calls)))
                # The last unit may still get answers, so it is looked at again.
                read = max(0, len(units) - 1)
                broken = {
                    repair.record for repair in thread.all_repairs() if repair.flaw in _BROKEN
                }
                uses = self._uses(record, seen, len(calls))
                calls.append(
                    ReplayCall(place, at, units, uses, len(self.sayings), frozenset(broken))
                )
            at = max(at, record.ts)
            thread.feed(record)
            if isinstance(record, User):
                self._note_saying(record, thread)
        return calls

    def _uses(self, record: Assistant, seen: dict[int, int], step: int) -> tuple[Use, ...]:
        used = self.number_facts(_calls_text(record))
        return tuple(
            Use(fact, step - seen[fact] > FAR_STEPS) for fact in sorted(used) if fact in seen
        )

    def _note_saying(self, record: User, thread: Thread) -> None:
        own = user_text(record)
        if not own:
            return
        part = next(
            (p for u in reversed(thread.units()) for p in u.parts if p.record == record.id), None
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
        case Image() | Other():
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


def _count_used_facts(records: Sequence[Record]) -> dict[str, int]:
    used: set[str] = set()
    for record in records:
        if isinstance(record, Assistant):
            used |= facts_in(_calls_text(record))
    return {fact: number for number, fact in enumerate(sorted(used))}
