"""Find what no answered request had: the suspects of a refusal, whatever its wording."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.dialects.prefix import origin_of
from holdfast.core.log.records import Assistant, Epoch, Undo, User
from holdfast.core.refusals.left_out import REFUSED, is_refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.dialects import Target


def new_records(records: Sequence[Record], target: Target) -> set[str]:
    """Return the records that were in no request which this model answered."""
    return _after(records, (target.provider, target.model))


def find_unanswered(records: Sequence[Record]) -> set[str]:
    """Return the records that were in no request which any model answered."""
    return _after(records, None)


def find_given_up(records: Sequence[Record]) -> set[str]:
    """Return the unanswered records of earlier messages that no repair could get answered: all
    that was tried for them was taken back."""
    unanswered = find_unanswered(records)
    repairs = {rec.id for rec in records if type(rec) is Epoch and rec.cause == REFUSED}
    found: set[str] = set()
    is_before = is_earlier = False
    for record in reversed(records):
        if record.id not in unanswered:
            break
        is_before = is_before or (is_earlier and type(record) is Undo and record.target in repairs)
        is_earlier = is_earlier or type(record) is User
        if is_before:
            found.add(record.id)
    return found


def _after(records: Sequence[Record], maker: tuple[str, str] | None) -> set[str]:
    found: set[str] = set()
    seen = ""
    for record in reversed(records):
        if record.id == seen:
            break
        if isinstance(record, Assistant) and not seen and not is_refusal(record):
            is_it = maker is None or (record.provider or "", record.model or "") == maker
            if is_it:
                sent = origin_of(record)
                seen = sent.seen if sent is not None else ""
                if not seen:
                    break
                continue
        found.add(record.id)
    return found


def turn_of(records: Sequence[Record], shown: set[str], why: str) -> dict[str, str]:
    """Return the records of the newest turn with the notes in their place: one for all of them."""
    turn: list[str] = []
    for record in reversed(records):
        if isinstance(record, Assistant) and not _has_calls(record):
            break
        if record.id in shown:
            turn.append(record.id)
    turn.reverse()
    if not turn:
        return {}
    note = (
        f"[A turn of {len(turn)} {'record' if len(turn) == 1 else 'records'} was left out: the "
        f"provider refused it under its policy ({why}). It is in the log from record {turn[0]} on.]"
    )
    return {name: "" if place else note for place, name in enumerate(turn)}


def _has_calls(record: Assistant) -> bool:
    return isinstance(record.content, list) and any(
        block.get("type") == "tool_use" for block in record.content
    )
