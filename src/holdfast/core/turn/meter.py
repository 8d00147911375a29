"""The meter: a line for the model about how full its context is, when the view passes a mark.

It is a record like any other context, behind what was said before it, so no prefix changes. A mark
is told once in an epoch, and a cut is told too; without marks nothing is told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.flow.effects import Append, Read
from holdfast.core.log.records import METER, Compaction, InjectedContext, Prune
from holdfast.core.turn.compact import fit
from holdfast.core.turn.run import Bounds
from holdfast.errors import CannotFit, ModelError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Record
    from holdfast.core.projection.project import Plan
    from holdfast.core.turn.run import RunState

_CUT: Final = f"{METER}: cut"


def tell_fill(run: RunState) -> Flow[None]:
    """Append the line that the next request is to have, if it is to have one."""
    marks = run.options.limits.marks
    if not marks:
        return
    try:
        plan, _newest = yield from fit(run, Bounds())
    except (CannotFit, ModelError):
        return  # the call that follows says what is wrong
    records: Sequence[Record] = yield Read(run.window)
    line = _due_line(records, plan, marks)
    if line is not None:
        yield Append((line,))


def _due_line(
    records: Sequence[Record], plan: Plan, marks: Sequence[float]
) -> InjectedContext | None:
    """Return the line for the highest mark that was passed in this epoch and not told."""
    told, is_cut = _lines_since_cut(records)
    used, limit = plan.tokens_before, plan.limits.compact_at
    passed = [mark for mark in sorted(marks) if used >= mark * limit]
    is_new = bool(passed) and not told & {_name(mark) for mark in marks if mark >= passed[-1]}
    tells_cut = is_cut and not told
    if not is_new and not tells_cut:
        return None
    percent = f"{used / limit:.0%}" if limit else "100%"
    line = f"{percent} of the room until the next cut is used: {used:,} of {limit:,} tokens."
    if tells_cut:
        line = f"The older part of this conversation was cut. {line}"
    return InjectedContext(text=line, source=_name(passed[-1]) if passed else _CUT)


def _lines_since_cut(records: Sequence[Record]) -> tuple[set[str], bool]:
    """Return the lines since the newest cut or prune, and whether that was a cut."""
    told: set[str] = set()
    for record in reversed(records):
        if isinstance(record, Compaction | Prune):
            return told, isinstance(record, Compaction)
        if isinstance(record, InjectedContext) and record.is_meter:
            told.add(record.source)
    return told, False


def _name(mark: float) -> str:
    return f"{METER}: {mark:.0%}"
