"""Values between Python and the tables: texts as bytes, records as rows."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import msgspec

from holdfast.core.limits import ID_CHARS_MAX
from holdfast.core.log.damage import Flaw
from holdfast.core.log.listing import Facts
from holdfast.core.log.records import Compaction, Header, Label
from holdfast.core.log.tree import Outline
from holdfast.core.log.views import key_of
from holdfast.core.models.totals import ModelTotals, SessionTotals
from holdfast.core.text.cut import scrub
from holdfast.stores.changes import this_process

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.log.tree import Stands

COUNTS: Final = ("turns", "calls", "tools", "unknown")
"""The totals that nearly every append changes: columns, which are cheaper to add to."""
_BY_MODEL: Final = ("replies", "helpers", "stated")
"""The totals that are kept for each model."""
_SUMS: Final = [
    name
    for name in SessionTotals.__struct_fields__
    if name not in (*COUNTS, *_BY_MODEL, "stated_cost")
]
"""The other totals that are numbers of things."""
FILL: Final = """UPDATE {s}.logs SET size = %s, head = %s, writer = %s, label = %s, title = %s,
  created = %s, last_active = %s, active_slot = floor(%s / 8.0), records = %s, messages = %s,
  damaged = %s, turns = %s, calls = %s, tools = %s, unknown = %s,
  totals = %s::jsonb, stated_cost = %s, parent_session = %s, reason = %s, owner = %s,
  live_from = (SELECT min(position) FROM {s}.records WHERE log = %s AND id = ANY (%s::bytea[])),
  is_plain = %s AND NOT EXISTS (SELECT FROM {s}.records WHERE log = %s AND id = ANY (%s::bytea[])
    GROUP BY id HAVING count(*) > 1)
  WHERE id = %s"""
"""Sets everything in the row of a log that depends on its lines."""
_LOOKED_UP_MAX: Final = 1_000
"""Ids out of order that are looked for a second time; in a log with more, no index is trusted."""


def to_bytes(text: str) -> bytes:
    """Return a text as it is stored: as in a line of a log, lone surrogates become U+FFFD."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return scrub(text).encode()


def to_text(data: bytes) -> str:
    """Return a stored text."""
    return bytes(data).decode()


def id_for_index(record_id: str) -> bytes | None:
    """Return an id for the index; None for one of another tool that is too long to be indexed."""
    return to_bytes(record_id) if 0 < len(record_id) <= ID_CHARS_MAX else None


def key_for_index(record: object) -> bytes | None:
    """Return the caller's key of a message for the index; None where it has none."""
    key = key_of(record)
    return digest_key(key) if key else None


def digest_key(key: str) -> bytes:
    """Return a key in the fixed length that an index takes."""
    return hashlib.sha256(to_bytes(key)).digest()


class Additions(NamedTuple):
    """The facts of a session that change with an append."""

    title: bytes
    label: bytes | None
    created: float
    last_active: float
    messages: int
    kept: bytes | None
    """The first record that the newest compaction keeps."""
    boundary: bytes | None
    """The newest compaction."""
    counts: tuple[int, ...]
    """The totals of `COUNTS`."""
    totals: str | None
    """The other totals."""
    stated_cost: float


def additions(
    records: Sequence[Record], ids: Iterable[str], now: float, *, is_titled: bool = False
) -> Additions:
    """Return the facts that an append of these records adds. One that has a title keeps it."""
    facts, totals = Facts(title="-" if is_titled else ""), SessionTotals()
    label, boundary, kept = None, None, None
    moment = round(now, 3)
    for record, record_id in zip(records, ids, strict=True):
        facts.add(0, record)
        # Totals are kept by week: a record that gets its time now is counted with it.
        totals.add(record if record.ts else msgspec.structs.replace(record, ts=moment))
        if type(record) is Label and record.target is None:
            label = record.label
        elif type(record) is Compaction:
            boundary, kept = record_id, record.first_kept
    has_new = not all(record.ts for record in records)  # one gets its time now
    return Additions(
        title=b"" if is_titled else to_bytes(facts.title),
        label=None if label is None else to_bytes(label),
        created=facts.created or moment,
        last_active=max(facts.last_active, moment) if has_new else facts.last_active,
        messages=facts.messages,
        kept=None if kept is None else id_for_index(kept),
        boundary=None if boundary is None else id_for_index(boundary),
        counts=count_totals(totals),
        totals=encode_totals(totals),
        stated_cost=totals.stated_cost,
    )


def count_totals(totals: SessionTotals) -> tuple[int, ...]:
    """Return the totals that have columns."""
    return tuple([getattr(totals, name) for name in COUNTS])


def encode_totals(totals: SessionTotals) -> str | None:
    """Return the others that are not 0 as a flat object, which the server can add; None for none.

    `replies.6d.prompt` are the prompt tokens of the replies of model `m`, its name in hex.
    """
    flat = {name: value for name in _SUMS if (value := getattr(totals, name))}
    for group in _BY_MODEL:
        for model, sums in getattr(totals, group).items():
            for name in ModelTotals.__struct_fields__:
                if value := getattr(sums, name):
                    flat[f"{group}.{to_bytes(model).hex()}.{name}"] = value
    return json.dumps(flat) if flat else None


def decode_totals(flat: dict[str, int], stated_cost: float, *counts: int) -> SessionTotals:
    """Return the totals that were added up by the server."""
    totals = SessionTotals(stated_cost=stated_cost)
    for name, value in zip(COUNTS, counts, strict=True):
        setattr(totals, name, value)
    for path, value in flat.items():
        group, _, rest = path.partition(".")
        if rest:
            model, _, name = rest.rpartition(".")
            models = getattr(totals, group)
            sums = models.setdefault(to_text(bytes.fromhex(model)), ModelTotals())
            setattr(sums, name, int(value))
        else:
            setattr(totals, group, int(value))
    return totals


class LogFacts(msgspec.Struct):
    """The facts about the first `size` bytes of a log."""

    number: int = 0
    """The id of the log's row; 0 where there is none yet."""
    size: int = 0
    _facts: Facts = msgspec.field(default_factory=lambda: Facts(owner=""))
    _totals: SessionTotals = msgspec.field(default_factory=SessionTotals)
    _shape: Outline = msgspec.field(default_factory=Outline)
    _boundary: Compaction | None = None
    _is_indexed: bool = True
    """Every line so far is a record with an id that the index has."""

    def __post_init__(self) -> None:
        self._shape.on_record = self._count

    def add(self, line: bytes, item: Record | Flaw | None) -> tuple[Any, ...]:
        """Count the next line, and return its row. A seal and a blank line have no item."""
        position, name, key = self.size, None, None
        if position == 0:
            self._facts.owner = _owner_text(item)
        if item is None or isinstance(item, Flaw):
            self._is_indexed = False
        else:
            name, key = id_for_index(item.id), key_for_index(item)
            self._is_indexed = self._is_indexed and name is not None
            self._boundary = item if isinstance(item, Compaction) else self._boundary
        if line and not line.isspace():
            self._shape.add(position, len(line), item, "")
        self.size += len(line) + 1
        return self.number, position, name, key, line

    @property
    def is_open(self) -> bool:
        """True where the next line may belong to an append that the lines so far began."""
        return self._shape.is_open

    def parameters(self) -> tuple[Any, ...]:
        """Return what `FILL` takes."""
        facts, shape = self._facts, self._shape
        kept = [self._boundary.id, self._boundary.first_kept] if self._boundary else []
        looked_up = shape.missing_ids
        is_plain = self._is_indexed and not (shape.is_open or shape.findings)
        return (
            self.size,
            to_bytes(facts.head),
            to_bytes(str(this_process())),
            to_bytes(facts.label),
            to_bytes(facts.title),
            facts.created,
            facts.last_active,
            facts.last_active,
            facts.records,
            facts.messages,
            sum(finding.is_damage for finding in shape.findings),
            *count_totals(self._totals),
            encode_totals(self._totals) or "{}",
            self._totals.stated_cost,
            *map(_optional, (facts.parent_session, facts.reason, facts.owner)),
            self.number,
            _ids(kept),
            is_plain and len(looked_up) <= _LOOKED_UP_MAX,
            self.number,
            _ids(sorted(looked_up)) if is_plain and len(looked_up) <= _LOOKED_UP_MAX else [],
            self.number,
        )

    def _count(self, position: int, item: Stands) -> None:
        self._facts.add(position, item)
        self._totals.add(cast("Record", item))


def _owner_text(first: Record | Flaw | None) -> str | None:
    """Return the owner that the first line of a log says; None where it is damaged."""
    if first is None or isinstance(first, Flaw):
        return None
    return first.owner if isinstance(first, Header) else ""


def _optional(text: str | None) -> bytes | None:
    return None if text is None else to_bytes(text)


def _ids(names: Sequence[str | None]) -> list[bytes | None]:
    return [id_for_index(name) for name in names if name]
