"""The ledger: the fate of every record, and the reason, as data; surfaces draw it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.models.messages import ToolAnswer, ToolCall
from holdfast.core.projection.steps import MEANING, Thread

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.projection.draft import ViewDraft
    from holdfast.core.projection.steps import ViewRepair
    from holdfast.core.projection.units import ContextUnit, MessagePart
    from holdfast.core.projection.view import Form


Action = Literal["kept", "trimmed", "cleared", "summarised", "dropped", "injected", "silent"]
"""`silent`: a record that no model ever sees, such as a label or a decision."""
MESSAGE_KINDS: Final = frozenset(("user", "assistant", "tool_result", "tool_use"))
"""The kinds of records that a model sees."""


class LedgerLine(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record's line in the ledger."""

    record: str
    """The id of the record."""
    kind: str
    """The type of the record."""
    action: Action
    """The fate of the record in the request."""
    before: int = 0
    """Tokens of the record as the log has it."""
    after: int = 0
    """Tokens of it in the request."""
    why: str = ""
    """The reason for it."""
    back: str = ""
    """The way to get back what is not in the request."""
    name: str = ""
    """The tool, for calls and results."""
    speaker: str = ""
    """`program` where a program wrote a message in the user's role."""


def totals(ledger: tuple[LedgerLine, ...]) -> dict[str, tuple[int, int, int]]:
    """By action: how many records, tokens before, tokens after."""
    sums: dict[str, tuple[int, int, int]] = {}
    for line in ledger:
        count, before, after = sums.get(line.action, (0, 0, 0))
        sums[line.action] = (count + 1, before + line.before, after + line.after)
    return sums


def complete_ledger(
    ledger: Sequence[LedgerLine],
    earlier: Sequence[Record],
    weigh: Callable[[MessagePart], int],
) -> tuple[LedgerLine, ...]:
    """Return a ledger with the records before the view, which its projection did not look at.

    Records that it names without a size, because an earlier cut has covered them, get one.
    """
    known = {line.record for line in ledger}
    covered = {line.record for line in ledger if line.action == "summarised" and not line.before}
    thread = Thread()
    for record in earlier:
        if record.id in covered or record.id not in known:
            thread.feed(record)
    parts = _by_record(thread.units())
    before = [
        _earlier_line(record, parts.get(record.id, []), weigh)
        for record in earlier
        if record.id not in known
    ]
    weighed = [
        msgspec.structs.replace(
            line, before=sum(map(weigh, parts[line.record])), name=_name(parts[line.record])
        )
        if line.record in covered and line.record in parts
        else line
        for line in ledger
    ]
    lines = [*before, *weighed]
    order = {record.id: place for place, record in enumerate(earlier)}
    places, at = [], len(order)
    for line in reversed(lines):  # what is not a record stands before what follows it
        at = order.get(line.record, at)
        places.append(at)
    in_order = sorted(zip(reversed(places), lines, strict=True), key=lambda placed: placed[0])
    return tuple(line for _place, line in in_order)


def _earlier_line(
    record: Record, parts: list[MessagePart], weigh: Callable[[MessagePart], int]
) -> LedgerLine:
    if record.kind not in MESSAGE_KINDS:
        return LedgerLine(record=record.id, kind=record.kind, action="silent")
    return LedgerLine(
        record=record.id,
        kind=record.kind,
        action="summarised",
        before=sum(map(weigh, parts)),
        why="before an earlier cut",
        back=f"record {record.id}",
        name=_name(parts),
    )


def write_ledger(
    draft: ViewDraft, records: Sequence[Record], repairs: Sequence[ViewRepair]
) -> tuple[LedgerLine, ...]:
    """The ledger of a draft that fits."""
    repaired = {repair.record: repair for repair in repairs}
    gone = _by_record(draft.units[: draft.start])
    kept = _by_record(draft.units[draft.start :])
    pinned = _by_record(draft.opening)
    lines = [line for unit in draft.opening for line in _injected_lines(draft, unit)]
    for record in records:
        if record.id in kept or record.id in pinned:
            parts = kept.get(record.id) or pinned[record.id]
            lines.append(_shown_line(draft, record, parts, repaired.get(record.id)))
        elif record.id in gone:
            before = sum(map(draft.tokens_of_part, gone[record.id]))
            lines.append(
                LedgerLine(
                    record=record.id,
                    kind=record.kind,
                    action="summarised",
                    before=before,
                    why=draft.reasons[-1] if draft.reasons else "cut",
                    back=f"record {record.id}",
                    name=_name(gone[record.id]),
                )
            )
        else:
            lines.append(_unseen(draft, record, repaired.get(record.id)))
    lines += [line for unit in draft.closing for line in _injected_lines(draft, unit)]
    return tuple(lines)


def _by_record(units: Iterable[ContextUnit]) -> dict[str, list[MessagePart]]:
    found: dict[str, list[MessagePart]] = {}
    for unit in units:
        for part in unit.parts:
            if part.record and part.source != "injected":  # that has a line of its own
                found.setdefault(part.record, []).append(part)
    return found


def _shown_line(
    draft: ViewDraft, record: Record, parts: list[MessagePart], repair: ViewRepair | None
) -> LedgerLine:
    form = draft.forms.get(record.id)
    before = sum(map(draft.tokens_of_part, parts))
    after = sum(draft.tokens_of_part(draft.shape(part)) for part in parts)
    actions: dict[str | None, Action] = {None: "kept", "trim": "trimmed", "clear": "cleared"}
    return LedgerLine(
        record=record.id,
        kind=record.kind,
        action=actions[form.action if form else None],
        before=before,
        after=after,
        why=_why(draft, record.id, form) or (MEANING[repair.flaw] if repair else ""),
        back=f"record {record.id}" if form else "",
        name=_name(parts),
        speaker="program" if parts[0].source == "program" else "",
    )


def _why(draft: ViewDraft, record: str, form: Form | None) -> str:
    if form is None:
        return ""
    if draft.view.forms.get(record) == form:
        return "decided earlier"
    return "; ".join(draft.reasons)


def _unseen(draft: ViewDraft, record: Record, repair: ViewRepair | None) -> LedgerLine:
    """A record that is nowhere in the units."""
    boundary = draft.view.boundary
    if record.kind not in MESSAGE_KINDS:
        return LedgerLine(record=record.id, kind=record.kind, action="silent")
    if repair is not None:
        why, action = MEANING[repair.flaw], "dropped"
    elif boundary is not None:
        why, action = "before an earlier cut", "summarised"
    else:
        why, action = "nothing in it", "dropped"
    return LedgerLine(
        record=record.id,
        kind=record.kind,
        action="summarised" if action == "summarised" else "dropped",
        why=why,
        back=f"record {record.id}",
    )


def _injected_lines(draft: ViewDraft, unit: ContextUnit) -> Iterable[LedgerLine]:
    for part in unit.parts:
        if part.source == "injected":
            size = draft.tokens_of_part(part)
            what = "replaces what was cut" if part.record else "asked for by the provider's rules"
            yield LedgerLine(
                part.record, "summary" if part.record else "note", "injected", 0, size, what
            )


def _name(parts: list[MessagePart]) -> str:
    names = [
        block.name
        for part in parts
        for block in part.blocks
        if isinstance(block, ToolAnswer | ToolCall)
    ]
    return ", ".join(dict.fromkeys(names))
