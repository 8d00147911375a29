"""The pictures of the console as numbers, in units of their drawing; the templates draw them."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.surfaces.console.layout import session_path
from holdfast.surfaces.formatting import one_line

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.projection.ledger import LedgerLine
    from holdfast.core.projection.project import Plan

_CELLS: Final = 200
"""Cells of a window: half a percent each."""
_COLUMNS: Final = 40
_RESERVES: Final = ("reserve", "reply")
"""Parts of a window that are kept free."""
_LABELS: Final = {
    "system": "system prompt",
    "tools": "tool schemas",
    "hidden": "measured by the provider, not in the log",
    "summary": "carry-over summary",
    "context": "injected context",
    "user": "user",
    "program": "added by programs",
    "assistant": "assistant",
    "tool_result": "tool results",
    "other": "other messages",
    "reserve": "reserve for errors of the estimate",
    "reply": "reserved for the reply",
}
_KINDS: Final = {
    "summary": "summary",
    "compaction": "summary",
    "context": "context",
    "user": "user",
    "assistant": "assistant",
    "tool_use": "assistant",
    "tool_result": "tool_result",
}
"""From the kind of a record to the category in the picture."""


class CellRun(NamedTuple):
    """Cells in a row that stand for one record, or one part."""

    kind: str
    address: str
    words: str
    cells: list[tuple[int, int]]
    """Column and row of each."""


class WindowPicture(NamedTuple):
    """A context window: what is in it, half a percent to a cell."""

    runs: list[CellRun]
    parts: list[tuple[str, str, int]]
    """Category, label and tokens."""
    whole: int
    free: int
    marks: list[tuple[str, int, int]]
    """Name of a threshold, with the column and row of its cell."""
    rows: int = _CELLS // _COLUMNS


def categories(plan: Plan) -> list[tuple[str, str, int]]:
    """Return the parts of the window that are used, in the order of the request, as category,
    label and tokens. Their sum is the request and its reserves."""
    sizes: Counter[str] = Counter()
    for line in plan.ledger:
        sizes[_category(line)] += line.after
    found = plan.tokens
    sizes["other"] += found.messages - sum(sizes.values())  # what no single record takes
    sizes |= {"system": found.system, "tools": found.tools, "hidden": found.hidden}
    sizes |= {"reply": plan.budget.output_reserve, "reserve": plan.budget.dynamic_reserve}
    return [(kind, label, sizes[kind]) for kind, label in _LABELS.items() if sizes[kind] > 0]


def _category(line: LedgerLine) -> str:
    return line.speaker or _KINDS.get(line.kind, "other")


def draw_window(key: SessionKey, plan: Plan, mask: Callable[[str], str]) -> WindowPicture:
    """Return the window of a request as cells: parts from the start, reserves at the end."""
    parts, whole = categories(plan), plan.window.tokens
    spans = _spans(key, plan, parts, mask)
    starts = [span[0] for span in spans]
    cells: list[CellRun] = []
    for number in range(_CELLS):
        at = number * whole / _CELLS
        place = bisect_right(starts, at)
        is_taken = place > 0 and at < spans[place - 1][1]
        kind, address, words = spans[place - 1][2:] if is_taken else ("free", "", "free")
        cells.append(CellRun(kind, address, words, [(number % _COLUMNS, number // _COLUMNS)]))
    runs = [
        CellRun(kind, address, words, [cell for run in together for cell in run.cells])
        for (kind, address, words), together in groupby(cells, key=lambda run: run[:3])
    ]
    budget = plan.budget
    marks = [
        (name, tokens, min(_CELLS - 1, tokens * _CELLS // whole))
        for name, tokens in (
            ("compaction", budget.static + plan.limits.compact_at),
            ("budget", budget.static + budget.tokens),
        )
    ]
    return WindowPicture(
        runs,
        parts,
        whole,
        max(0, whole - sum(size for _kind, _label, size in parts)),
        [
            (f"{name} at {tokens:,}", cell % _COLUMNS, cell // _COLUMNS)
            for name, tokens, cell in marks
        ],
    )


def _spans(
    key: SessionKey,
    plan: Plan,
    parts: list[tuple[str, str, int]],
    mask: Callable[[str], str],
) -> list[tuple[float, float, str, str, str]]:
    """Return what stands where: from, to, category, address and words."""
    whole = plan.window.tokens
    reserved = sum(size for kind, _label, size in parts if kind in _RESERVES)
    used = sum(size for kind, _label, size in parts if kind not in _RESERVES)
    spans: list[tuple[float, float, str, str, str]] = []
    at = 0
    for kind, label, size in parts:
        if kind in _RESERVES and at < max(used, whole - reserved):
            at = max(used, whole - reserved)
        end = at + size
        words = f"{label}: {size:,} tokens, {size / whole:.1%}"
        for line in plan.ledger if kind not in _RESERVES else ():
            if _category(line) == kind and line.after and line.record not in ("", "(new)"):
                name = one_line(mask(f"{line.kind} {line.name}".strip()), 60)
                address = session_path(key, f"/records/{line.record}")
                spans.append((at, at + line.after, kind, address, f"{name}: {line.after:,} tokens"))
                at += line.after
        spans.append((at, end, kind, "", words))
        at = end
    return spans
