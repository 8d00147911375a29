"""The page of the context over time: a column for each call, with its cache, cost and cuts."""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from holdfast.core.log.records import Assistant, Compaction, ModelChange, Prune, Rewind
from holdfast.core.models.totals import call_cost, is_call
from holdfast.core.models.usage import Usage, read_usage
from holdfast.core.models.window import window_in
from holdfast.providers.known_models.lookup import price_of
from holdfast.surfaces.console.charts import WIDTH, legend, pattern_sheet
from holdfast.surfaces.console.html import Html, join, tag
from holdfast.surfaces.console.layout import (
    gist,
    moment,
    number,
    page,
    page_route,
    row,
    session_path,
    table,
    tokens,
)
from holdfast.surfaces.console.plans import cost_text, facts_of, heading
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
    title, top = heading(call, key, "/context/time")
    body: list[object] = [top, tag("h2", "Over time")]
    if not columns:
        body.append(tag("p", "No call with a known size yet."))
        return page(title, *body)
    window, spent = found.last.context_window, found.spent
    priced = [column.cost for column in columns if column.cost is not None]
    body += [
        tag(
            "p",
            f"{number(spent.calls)} calls on every branch, summaries and notes included, ",
            tag("b", cost_text(spent), id="cost"),
            f" by list prices. {spent.cache_share or 0:.0%} of their input came from the prompt "
            f"cache. The window is {tokens(window.tokens)}.",
        ),
        tag(
            "p",
            f"Shown: {number(len(columns))} calls of the path, ",
            tag("b", money(sum(priced)), id="shown-cost"),
            f", {number(len(columns) - len(priced))} of them without a price.",
        ),
        pattern_sheet(),
        _skyline(call, key, columns, window),
        legend(
            [
                (kind, label, tokens(sum(column.layers[place] for column in columns)))
                for place, (kind, label) in enumerate(_LAYERS)
            ]
        ),
    ]
    body.append(
        tag(
            "p",
            "▼ cut · ○ idle for five minutes or more · ■ another model or window · "
            "dashed: the window" + (" · line: the cost of the calls shown" if priced else ""),
            class_="dim",
        )
    )
    if earlier:
        address = session_path(key, "/context/time", before=earlier)
        body.append(tag("p", tag("a", "Earlier calls", href=address)))
    body.append(tag("details", tag("summary", "The numbers as a table"), _numbers(key, columns)))
    return page(title, *body)


def _skyline(call: HttpCall, key: SessionKey, columns: list[CallColumn], window: Window) -> Html:
    most = max(sum(column.layers) for column in columns)
    whole = window.tokens
    is_near = most * 4 > whole  # else the line of the window would press the columns flat
    scale = (_HEIGHT - _TOP) / max(1, most, whole if is_near else 0)
    step = WIDTH / max(12, len(columns))
    shapes: list[Html] = []
    for place, column in enumerate(columns):
        y = float(_HEIGHT)
        parts: list[Html] = [tag("title", f"Call {place + 1}: {column.words}")]
        for (kind, _label), size in zip(_LAYERS, column.layers, strict=True):
            height = size * scale
            y -= height
            parts.append(
                tag(
                    "rect",
                    x=round(place * step, 2),
                    y=round(y, 2),
                    width=round(step * 0.85, 2),
                    height=round(height, 2),
                    fill=f"url(#p-{kind})",
                )
            )
        if any("compaction" in mark or "prune" in mark for mark in column.marks):
            parts.append(_cut_mark(place * step + step * 0.4))
        if column.gap >= _COLD_SECONDS:
            parts.append(_idle_mark(place * step + step * 0.4))
        if any(mark.startswith("model ") for mark in column.marks):
            parts.append(_model_mark(place * step + step * 0.4))
        mask = call.workspace.mask
        shapes.append(
            tag(
                "a",
                *parts,
                href=session_path(key, "/context/changes", record=column.record),
                aria_label=mask(f"Call {place + 1}: {column.words}"),
                class_="column",
            )
        )
    if is_near:
        shapes += _window_line(columns, window, step, scale)
    shapes += _cost_line(columns, step)
    return tag(
        "svg",
        *shapes,
        viewBox=f"0 0 {WIDTH} {_HEIGHT}",
        class_="skyline",
        role="group",
        aria_label="Tokens of each call, the window and the sum of their costs; a triangle marks a "
        "cut before a call, a circle an idle time, a square another model or window",
    )


def _window_line(
    columns: list[CallColumn], window: Window, step: float, scale: float
) -> list[Html]:
    """The window of each call, as a line that steps where another one was learned or chosen."""
    shapes: list[Html] = []
    for place, column in enumerate(columns):
        level = round(_HEIGHT - (column.window or window).tokens * scale, 2)
        x = place * step
        shapes.append(
            tag("line", x1=round(x, 2), x2=round(x + step, 2), y1=level, y2=level, class_="mark")
        )
    level = round(_HEIGHT - (columns[0].window or window).tokens * scale, 2)
    return [*shapes, tag("text", "window", x=4, y=level - 4, class_="label")]


def _cost_line(columns: list[CallColumn], step: float) -> list[Html]:
    """The sum of the costs of the calls shown, on an axis of its own that ends at the whole."""
    total = sum(column.cost or 0.0 for column in columns)
    if not total:
        return []
    points, so_far = [], 0.0
    for place, column in enumerate(columns):
        so_far += column.cost or 0.0
        y = _HEIGHT - so_far / total * (_HEIGHT - _TOP)
        points.append(f"{place * step + step * 0.4:.1f},{y:.1f}")
    x = min(WIDTH - 4, len(columns) * step)
    return [
        tag("polyline", points=" ".join(points), class_="sum"),
        tag(
            "text",
            f"these calls: {money(total)}",
            x=round(x, 1),
            y=_TOP - 8,
            class_="label end",
        ),
    ]


def _cut_mark(x: float) -> Html:
    return tag("path", d=f"M{x - 5:.1f} 4 h10 l-5 9 z", class_="cut")


def _idle_mark(x: float) -> Html:
    return tag("circle", cx=round(x, 1), cy=18, r=4, class_="idle")


def _model_mark(x: float) -> Html:
    return tag("rect", x=round(x - 4, 1), y=14, width=8, height=8, class_="turned")


def _numbers(key: SessionKey, columns: list[CallColumn]) -> Html:
    heads = ("call", "time", "model", ">in", ">cached", ">out", ">cost", ">sum", "before it")
    sums = accumulate(column.cost or 0.0 for column in columns)
    rows = [
        row(
            tag(
                "a",
                f"{place + 1}",
                href=session_path(key, "/context/changes", record=column.record),
            ),
            moment(column.ts),
            gist(column.model, 40),
            number(column.usage.prompt),
            f"{column.usage.cached_read / column.usage.prompt:.0%}",
            number(column.usage.output or 0),
            "" if column.cost is None else money(column.cost),
            money(so_far) if so_far else "",
            join("; ".join(column.marks)),
            numbers=(3, 4, 5, 6, 7),
        )
        for place, (column, so_far) in enumerate(zip(columns, sums, strict=True))
    ]
    return table(heads, rows, "Calls, oldest first")


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
