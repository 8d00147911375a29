"""Repairs after a refusal that is about no size: found by what is new, not by its wording.

What no answered request of this model had goes first: its media, then all media together with
earlier reasoning, then what was said since the newest reply. A field beside the conversation is
left out where the refusal names it. Each repair is a record before the next request is sent, so
that neither this process nor a later one sends the same again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.common.values import as_dict
from holdfast.core.dialects.registry import render_body
from holdfast.core.failures.numbers import find_named_field
from holdfast.core.flow.effects import Append, Emit
from holdfast.core.flow.events import EpochBegun
from holdfast.core.log.records import Assistant, Epoch, Undo
from holdfast.core.models.messages import MESSAGE_FIELDS, Other, Thinking, ToolAnswer, ToolCall
from holdfast.core.models.replies import Reply
from holdfast.core.refusals import (
    REFUSAL,
    REFUSED,
    find_given_up,
    find_unanswered,
    is_media,
    new_records,
    turn_of,
)
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence
    from typing import Literal

    from holdfast.core.failures.classify import Failure
    from holdfast.core.flow.effects import Flow
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.units import MessagePart

REPAIRS_MAX: Final = 3
"""The most additional calls for one reply where anything but the size was refused: four in all."""

_CONTENT_STATUS: Final = (None, 400, 404, 413, 415, 422)
"""Statuses with which a request can be refused for what is in it."""
_WORDS_STATUS: Final = tuple(status for status in _CONTENT_STATUS if status != 404)
"""Those for which words may be left out: an address that is not there is no fault of them."""
_CONTENT_ACTIONS: Final = frozenset(
    (
        "shrink_or_drop_images",
        "fix_parameters",
        "repair_surrogates_and_retry_once",
        "remap_tool_ids",
        "strip_or_restore_thinking_and_retry_once",
        "restore_signature_or_use_documented_skip_value",
        "externalise_or_truncate_that_string",
        "decide_by_own_estimate",
    )
)
REASONING_ACTIONS: Final = frozenset(
    (
        "strip_or_restore_thinking_and_retry_once",
        "restore_signature_or_use_documented_skip_value",
    )
)
_IN_MESSAGES: Final = lazy_pattern(r"\b(?:messages|contents|input)\W{0,2}(?:\d+\b)")
"""A path into the conversation."""


class Repair(msgspec.Struct, frozen=True):
    """A change to the view, or to the fields beside it, after a refusal."""

    step: Literal["drop-media", "drop-thinking", "drop-field", "leave-out"]
    detail: str
    media: tuple[str, ...] = ()
    left_out: dict[str, str] = {}
    fields: tuple[str, ...] = ()
    drops_reasoning: bool = False
    brings_back: bool = False
    """Undo the repairs before it: what they left out was not the cause."""


def find_repair(failure: Failure, plan: Plan, done: Sequence[Repair]) -> Repair | None:
    """Return the next repair after a refusal; None where no repair is left."""
    field = find_named_field(failure.message)
    if field and _has_field(plan, field):
        return Repair("drop-field", f"without the field `{field}`", fields=(field,))
    has_fields = not any(repair.fields for repair in done)
    done = [repair for repair in done if not repair.fields]
    if len(done) >= REPAIRS_MAX or not _is_about_content(failure):
        return None
    parts = plan.parts_sent
    if failure.action in REASONING_ACTIONS and has_reasoning(parts):
        return Repair("drop-thinking", "without earlier thinking", drops_reasoning=True)
    given_up = find_given_up(plan.records)
    earlier = words_of(parts, given_up) if given_up and not done else {}
    if earlier:
        # Whatever is new, nothing helped that message: it would be refused again.
        detail = f"without what {_count(earlier)} said that was refused before"
        return Repair("leave-out", detail, left_out=earlier)
    fresh = new_records(plan.records, plan.target)
    added = {part.record: "" for part in parts if part.source == "tools" and part.record in fresh}
    if added:
        return Repair("leave-out", "with the added tools among the others", left_out=added)
    new = media_of(parts, fresh)
    if new and not any(repair.step == "drop-media" for repair in done):
        return Repair("drop-media", f"without the new media of {_count(new)}", new)
    media = media_of(parts)
    if media:
        return Repair(
            "drop-media",
            f"without the media of {_count(media)}",
            media,
            drops_reasoning=has_reasoning(parts),
        )
    if has_reasoning(parts):
        return Repair("drop-thinking", "without earlier thinking", drops_reasoning=True)
    fields = _fields_of_replies(plan) if has_fields else ()
    if fields:
        return Repair("drop-field", "without fields of earlier replies", fields=fields)
    gone = {record for repair in done for record in repair.left_out}
    words = words_of(parts, find_unanswered(plan.records) - gone)
    if words and failure.status in _WORDS_STATUS:
        detail = f"without what {_count(words)} said"
        return Repair("leave-out", detail, left_out=words, brings_back=not given_up)
    return None


def _fields_of_replies(plan: Plan) -> tuple[str, ...]:
    """Return the paths of unknown fields that go back to their host."""
    names = {
        name: None
        for part in plan.parts_sent
        for block in part.blocks
        if isinstance(block, Other) and block.kind == MESSAGE_FIELDS
        for name in as_dict(block.raw.get("fields"))
    }
    return tuple(path for path in map("messages.{}".format, names) if _has_field(plan, path))


def _has_field(plan: Plan, field: str) -> bool:
    """Return whether a request has the field, and would be another one without it."""
    without = (*plan.target.without, field)
    again = msgspec.structs.replace(plan.target, without=without)
    return render_body(plan.prompt, plan.target) != render_body(plan.prompt, again)


def _is_about_content(failure: Failure) -> bool:
    """Return whether a request may have been refused for what is in its messages."""
    if failure.status not in _CONTENT_STATUS:
        return False
    if failure.kind == "ambiguous":
        return failure.status is not None or failure.subclass == "unspecific"
    is_request = failure.kind in ("invalid_request", "payload_too_large")
    if not is_request or failure.action not in _CONTENT_ACTIONS:
        return False
    return not _is_parameter(failure)


def _is_parameter(failure: Failure) -> bool:
    """Return whether the refusal is about a field beside the conversation."""
    return failure.subclass == "parameter" and not _IN_MESSAGES.search(failure.message)


def apply(plan: Plan, repair: Repair, done: Sequence[str]) -> Flow[str]:
    """Store a repair; returns its record. Where the words are left out, the media that were left
    out for nothing come back: the model has answered them before."""
    undone = [Undo(target=record) for record in done] if repair.brings_back else []
    epoch = repair_record(plan, repair)
    stored = yield Append((*undone, epoch))
    yield Emit(EpochBegun(stored[-1].id, epoch.cause, epoch.detail, epoch.reasoning or 0))
    record: str = stored[-1].id
    return record


def repair_record(plan: Plan, repair: Repair) -> Epoch:
    """Return the record of a repair of the request of a plan."""
    target = plan.target
    return Epoch(
        cause=REFUSED,
        detail=f"the provider refused it; sent {repair.detail}",
        reasoning=_count_ended(plan, repair) or None,
        drops_reasoning=repair.drops_reasoning,
        media=list(repair.media),
        left_out=repair.left_out,
        fields=list(repair.fields),
        provider=target.provider or None,
        model=target.model or None,
    )


def take_back(repairs: Sequence[str]) -> Flow[None]:
    """Undo repairs that did not help: what they left out was not what the provider refused."""
    if repairs:
        yield Append([Undo(target=record, reason="it was refused again") for record in repairs])


def end_turn(plan: Plan, why: str, refusal: Reply) -> Flow[Reply]:
    """Take the newest turn out of view, with a note, and store the refusal as its reply."""
    target, epoch = plan.target, policy_record(plan, why)
    record = Assistant(
        content=refusal.content,
        provider=target.provider or None,
        model=target.model or None,
        usage=refusal.raw_usage,
        stop_reason=refusal.stop_reason or None,
        extra={**refusal.extra, REFUSAL: True},
    )
    # In one append: half of it would send again what was flagged.
    stored = yield Append((epoch, record))
    yield Emit(EpochBegun(stored[0].id, epoch.cause, epoch.detail, 0))
    return msgspec.structs.replace(
        refusal, record=stored[-1].id, provider=refusal.provider or target.provider
    )


def policy_record(plan: Plan, why: str) -> Epoch:
    """Return the record that takes the newest turn of a plan out of view."""
    shown = {part.record for part in plan.parts_sent}
    return Epoch(
        cause=REFUSED,
        detail=f"the provider refused to answer under its policy: {why}",
        left_out=turn_of(plan.records, shown, why),
        provider=plan.target.provider or None,
        model=plan.target.model or None,
    )


def refusal_reply(failure: Failure) -> Reply:
    """Return the reply to a request that was refused under a policy, with the provider's words."""
    said = " ".join(failure.message.split())[:_SAID_CHARS]
    text = (
        f"[The provider refused to answer this under its policy: {said or 'no reason was given'}]"
    )
    return Reply(
        content=[{"type": "text", "text": text}],
        stop="refusal",
        stop_reason=failure.subclass or "policy",
    )


_SAID_CHARS: Final = 300
"""Of the provider's reason, in the reply."""


def _count(records: Collection[str]) -> str:
    return "1 record" if len(records) == 1 else f"{len(records)} records"


def _count_ended(plan: Plan, repair: Repair) -> int:
    """Return the number of replies whose reasoning ends: all, or those behind the repair."""
    if repair.drops_reasoning:
        return len(plan.reasoning)
    changed = {*repair.media, *repair.left_out}
    order = [part.record for part in plan.parts_sent]
    first = next((place for place, name in enumerate(order) if name in changed), len(order))
    return len(set(order[first:]) & set(plan.reasoning))


def has_media(part: MessagePart) -> bool:
    """Return whether a part has a file, also one in a tool's result."""
    return any(
        is_media(block)
        or (isinstance(block, ToolAnswer) and any(is_media(piece) for piece in block.content))
        for block in part.blocks
    )


def has_reasoning(parts: Iterable[MessagePart]) -> bool:
    """Return whether parts have thinking, or calls with a signature of it."""
    return any(
        isinstance(block, Thinking) or (isinstance(block, ToolCall) and bool(block.signature))
        for part in parts
        for block in part.blocks
    )


def media_of(parts: Iterable[MessagePart], among: set[str] | None = None) -> tuple[str, ...]:
    """Return the records with media, of these records alone or of all."""
    names = dict.fromkeys(part.record for part in parts if part.record and has_media(part))
    return tuple(name for name in names if among is None or name in among)


def words_of(parts: Iterable[MessagePart], among: set[str]) -> dict[str, str]:
    """Return these records with the notes that take their place; the model's own replies stay."""
    return {
        part.record: _note(part)
        for part in parts
        if part.record in among and part.source not in ("assistant", "injected", "tools")
    }


def _note(part: MessagePart) -> str:
    what = "result" if part.source == "tool_result" else "message"
    return f"[This {what} was left out: the provider refused it; record {part.record} has it.]"
