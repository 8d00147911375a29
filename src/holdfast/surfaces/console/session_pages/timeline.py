"""The page of the context over time: a column for each call, with its cache, cost and cuts."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple

import msgspec

from holdfast.core.log.records import Assistant, Compaction, ModelChange, Prune, Rewind
from holdfast.core.models.totals import call_cost, is_call
from holdfast.core.models.usage import Usage, read_usage
from holdfast.core.models.window import window_in
from holdfast.providers.known_models.lookup import price_of
from holdfast.surfaces.console.layout import page_route
from holdfast.surfaces.console.plans import facts_of, show_session
from holdfast.surfaces.formatting import money
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.window import Window
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_CALLS: Final = 120
"""Columns of a picture."""
_RECORDS: Final = 2_000
"""Records that are looked at for them."""
_HEIGHT: Final = 240
"""Units of the picture, with room for the marks above the columns."""
_WIDTH: Final = 1_000
_LEVELS: Final = 5
"""The most lines behind the columns."""
_TOP: Final = 24
"""Units above the columns."""
_COLD_SECONDS: Final = 300.0
"""After which a prompt cache has forgotten, by default."""
_LAYERS: Final = (
    ("cached", "read from the cache"),
    ("written", "written to the cache"),
    ("plain", "not cached"),
    ("output", "reply"),
)


class TimeQuery(HttpQuery, frozen=True):
    """The place in time."""

    before: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Calls before this record; the newest by default."""


class CallColumn(msgspec.Struct, frozen=True):
    """One call, and what was decided before it."""

    record: str
    ts: float
    model: str
    usage: Usage
    cost: float | None
    marks: tuple[str, ...] = ()
    window: Window | None = None
    """The window that the session had recorded; a provider's refusal can make it smaller."""
    gap: float = 0.0
    """Seconds since the call before."""

    @property
    def layers(self) -> tuple[int, int, int, int]:
        usage = self.usage
        return (usage.cached_read, usage.cached_write, usage.plain_input, usage.output or 0)

    @property
    def has_cut(self) -> bool:
        return any("compaction" in mark or "prune" in mark for mark in self.marks)

    @property
    def has_turned(self) -> bool:
        return any(mark.startswith("model ") for mark in self.marks)

    @property
    def is_late(self) -> bool:
        return self.gap >= _COLD_SECONDS

    @property
    def words(self) -> str:
        """The column as a sentence."""
        cached = self.usage.cached_read / self.usage.prompt
        cost = "no price known" if self.cost is None else money(self.cost)
        cuts = f"; before it: {', '.join(self.marks)}" if self.marks else ""
        return (
            f"{self.usage.prompt:,} tokens in, {self.usage.output or 0:,} out, "
            f"{cached:.0%} from the cache, {cost}{cuts}"
        )


def collect_columns(
    call: HttpCall, key: SessionKey, before: str, model_default: str = ""
) -> tuple[list[CallColumn], str]:
    """Return the calls before a record, oldest first, and the record to go on from; empty at the
    beginning of the session."""
    records: list[Record] = []
    calls, last = 0, ""
    for record in call.store.back(key, before=before or None):
        if len(records) >= _RECORDS or calls > _CALLS:
            break
        records.append(record)
        calls += isinstance(record, Assistant)
        last = record.id
    else:
        last = ""
    found: list[CallColumn] = []
    marks: list[str] = []
    window: Window | None = None
    known: tuple[str, int | None] | None = None
    for record in reversed(records):
        is_known = False
        if isinstance(record, ModelChange):
            is_known = known == (record.model, record.window)
            known = record.model, record.window
            window = window_in([record], record.model)
        mark = _mark(record)
        if mark and not is_known:  # a model that is stated again changes nothing
            marks.append(call.workspace.mask(mark))
        column = _column(call, record, model_default)
        if column is None:
            continue
        gap = column.ts - found[-1].ts if found else 0.0
        if gap >= _COLD_SECONDS:
            marks.append(
                f"idle for {gap / 60:,.0f} min, so that a prompt cache of five minutes is cold"
            )
        found.append(msgspec.structs.replace(column, marks=tuple(marks), window=window, gap=gap))
        marks = []
    return found[-_CALLS:], last


def _mark(record: Record) -> str:
    match record:
        case Compaction(tokens_before=before, tokens_after=after):
            return f"compaction {before or 0:,} → {after or 0:,}"
        case Prune(decisions=decisions):
            return f"prune of {len(decisions)}"
        case Rewind():
            return "rewind"
        case ModelChange(model=model, window=window):
            return f"model {model[:60]}" + (f", window {window:,}" if window else "")
        case _:  # the rest leaves no mark in time
            return ""


def _column(call: HttpCall, record: Record, model_default: str) -> CallColumn | None:
    if not isinstance(record, Assistant) or not is_call(record):
        return None
    usage = read_usage(record.usage, record.provider or "")
    if usage is None:
        return None
    return CallColumn(
        record=record.id,
        ts=record.ts,
        model=call.workspace.mask(record.model or ""),
        usage=usage,
        cost=call_cost(record, price_of, model_default),
    )


def show_time(call: HttpCall) -> HttpAnswer:
    """The skyline of the session, and the same numbers as a table."""
    key = call.session()
    found = facts_of(call, key)
    columns, earlier = collect_columns(call, key, call.query.before, found.last.model)
    window = found.last.context_window
    costs = [column.cost or 0.0 for column in columns]
    return show_session(
        call,
        key,
        "/context/time",
        "time.html",
        columns=columns,
        spent=found.spent,
        window=window,
        shown_cost=sum(costs),
        unpriced=sum(column.cost is None for column in columns),
        drawn=_draw(columns, window) if columns else None,
        sums=[
            (kind, label, f"{sum(column.layers[place] for column in columns):,} tok")
            for place, (kind, label) in enumerate(_LAYERS)
        ],
        earlier=earlier,
        numbers=list(zip(columns, accumulate(costs), strict=True)),
    )


class _Bar(NamedTuple):
    column: CallColumn
    x: float
    middle: float
    parts: list[tuple[str, float, float]]
    """Category, top and height."""


class _Skyline(NamedTuple):
    """The picture, in its units."""

    bars: list[_Bar]
    width: float
    window_lines: list[tuple[float, float, float]]
    """The window of each call; it steps where another one was learned or chosen."""
    cost_points: str
    """The sum of the costs of the calls shown, on an axis of its own that ends at the whole."""
    cost_end: float
    levels: list[tuple[float, str]]
    """Lines behind the columns, with their tokens."""
    height: int = _HEIGHT
    top: int = _TOP


def _draw(columns: list[CallColumn], window: Window) -> _Skyline:
    most = max(1, *(sum(column.layers) for column in columns))
    is_near = most * 4 > window.tokens  # else the line of the window would press the columns flat
    whole = max(most, window.tokens) if is_near else most
    scale = (_HEIGHT - _TOP) / whole
    step = _WIDTH / max(12, len(columns))
    bars: list[_Bar] = []
    points: list[str] = []
    total, so_far = sum(column.cost or 0.0 for column in columns), 0.0
    for place, column in enumerate(columns):
        y, parts = float(_HEIGHT), []
        for (kind, _label), size in zip(_LAYERS, column.layers, strict=True):
            y -= size * scale
            parts.append((kind, round(y, 2), round(size * scale, 2)))
        middle = round((place + 0.4) * step, 1)
        bars.append(_Bar(column, round(place * step, 2), middle, parts))
        so_far += column.cost or 0.0
        if total:
            points.append(f"{middle},{_HEIGHT - so_far / total * (_HEIGHT - _TOP):.1f}")
    lines = [
        (
            round(place * step, 2),
            round((place + 1) * step, 2),
            round(_HEIGHT - (column.window or window).tokens * scale, 2),
        )
        for place, column in enumerate(columns)
    ]
    nice = 10 ** (len(str(whole)) - 1)
    unit = next(part * nice for part in (0.25, 0.5, 1, 2.5) if whole / (part * nice) <= _LEVELS)
    levels = [
        (round(_HEIGHT - number * unit * scale, 1), f"{number * unit:,.0f}")
        for number in range(1, int(whole / unit) + 1)
    ]
    end = round(min(_WIDTH - 4, len(columns) * step), 1)
    return _Skyline(
        bars, round(step * 0.85, 2), lines if is_near else [], " ".join(points), end, levels
    )


ROUTES: Final = (
    page_route(
        "GET",
        "/s/{agent}/{session}/context/time",
        "Over time",
        show_time,
        query=TimeQuery,
        action="context",
    ),
)
