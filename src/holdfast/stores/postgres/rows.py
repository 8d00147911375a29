"""Values between Python and the tables: texts as bytes, records as rows."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.limits import ID_CHARS_MAX
from holdfast.core.log.keys import key_of
from holdfast.core.log.listing import Facts
from holdfast.core.log.records import Compaction, Label
from holdfast.core.models.totals import ModelTotals, SessionTotals
from holdfast.core.text.cut import scrub

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record

COUNTS: Final = ("turns", "calls", "tools", "unknown")
"""The totals that nearly every append changes: columns, which are cheaper to add to."""
_BY_MODEL: Final = ("replies", "helpers")
"""The totals that are kept for each model."""
_SUMS: Final = [name for name in SessionTotals.__struct_fields__ if name not in COUNTS]


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
    for record, record_id in zip(records, ids, strict=True):
        facts.add(0, record)
        totals.add(record)
        if isinstance(record, Label) and record.target is None:
            label = record.label
        elif isinstance(record, Compaction):
            boundary, kept = record_id, record.first_kept
    return Additions(
        title=b"" if is_titled else to_bytes(facts.title),
        label=None if label is None else to_bytes(label),
        created=facts.created or round(now, 3),
        last_active=max(facts.last_active, round(now, 3) if _has_new(records) else 0.0),
        messages=facts.messages,
        kept=None if kept is None else id_for_index(kept),
        boundary=None if boundary is None else id_for_index(boundary),
        counts=count_totals(totals),
        totals=encode_totals(totals),
        stated_cost=totals.stated_cost,
    )


def _has_new(records: Sequence[Record]) -> bool:
    """Return whether a record among them gets its time now."""
    return any(not record.ts for record in records)


def count_totals(totals: SessionTotals) -> tuple[int, ...]:
    """Return the totals that have columns."""
    return tuple([getattr(totals, name) for name in COUNTS])


def encode_totals(totals: SessionTotals) -> str | None:
    """Return the others that are not 0 as a flat object, which the server can add; None for none.

    `replies.6d.prompt` are the prompt tokens of the replies of model `m`, its name in hex.
    """
    flat = {
        name: value for name in _SUMS if isinstance(value := getattr(totals, name), int) and value
    }
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
