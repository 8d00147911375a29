"""The page of the context over time: a column for each call, with its cache, cost and cuts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from holdfast.core.log.records import Assistant, Compaction, ModelChange, Prune, Rewind
from holdfast.core.models.prices import cost_of
from holdfast.core.models.usage import Usage, read_usage
from holdfast.providers.known_models.lookup import price_of
from holdfast.surfaces.console.charts import WIDTH, legend, pattern_sheet
from holdfast.surfaces.console.html import Html, join, tag
from holdfast.surfaces.console.layout import (
    gist,
    moment,
    number,
    page,
    problem_page,
    row,
    session_path,
    table,
    tokens,
)
from holdfast.surfaces.console.plans import heading, last_call
from holdfast.surfaces.formatting import money
from holdfast.surfaces.http.route import HttpQuery, Route

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_CALLS: Final = 120
"""Columns of a picture."""
_RECORDS: Final = 2_000
"""Records that are looked at for them."""
_HEIGHT: Final = 240
"""Units of the picture, with room for the marks above the columns."""
_TOP: Final = 24
"""Units above the columns."""
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


def collect_columns(call: HttpCall, key: SessionKey, before: str) -> tuple[list[CallColumn], str]:
    """Return the calls before a record, oldest first, and the record to go on from; empty at the
    beginning of the session."""
    found: list[CallColumn] = []
    marks: list[str] = []
    last = ""
    for place, record in enumerate(call.store.back(key, before=before or None)):
        if place >= _RECORDS or len(found) > _CALLS:
            break
        last = record.id
        if mark := _mark(record):
            marks.append(call.workspace.mask(mark))
        column = _column(call, record)
        if column is not None:
            if found and marks:
                newest = found[-1]
                found[-1] = msgspec.structs.replace(newest, marks=(*newest.marks, *marks[::-1]))
            marks = []
            found.append(column)
    else:
        last = ""
    return found[:_CALLS][::-1], last


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


def _column(call: HttpCall, record: Record) -> CallColumn | None:
    if not isinstance(record, Assistant):
        return None
    usage = read_usage(record.usage, record.provider or "")
    if usage is None:
        return None
    return CallColumn(
        record=record.id,
        ts=record.ts,
        model=call.workspace.mask(record.model or ""),
        usage=usage,
        cost=cost_of(usage, price_of(record.model, record.provider, record.ts)),
    )


def show_time(call: HttpCall) -> HttpAnswer:
    """The skyline of the session, and the same numbers as a table."""
    key = call.session()
    columns, earlier = collect_columns(call, key, call.query.before)
    title, top = heading(call, key, "/context/time")
    body: list[object] = [top, tag("h2", "Over time")]
    if not columns:
        body.append(tag("p", "No call with a known size yet."))
        return page(title, *body)
    window = last_call(call.store, key).window_tokens
    priced = [column.cost for column in columns if column.cost is not None]
    body += [
        tag(
            "p",
            f"{number(len(columns))} calls, ",
            tag("b", money(sum(priced)), id="cost"),
            f" by list prices, {number(len(columns) - len(priced))} without a price. "
            f"The window is {tokens(window)}.",
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
    if earlier:
        address = session_path(key, "/context/time", before=earlier)
        body.append(tag("p", tag("a", "Earlier calls", href=address)))
    body.append(tag("details", tag("summary", "The numbers as a table"), _numbers(key, columns)))
    return page(title, *body)


def _skyline(call: HttpCall, key: SessionKey, columns: list[CallColumn], window: int) -> Html:
    most = max(sum(column.layers) for column in columns)
    is_near = most * 4 > window  # else the line of the window would press the columns flat
    scale = (_HEIGHT - _TOP) / max(1, most, window if is_near else 0)
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
        level = round(_HEIGHT - window * scale, 2)
        shapes.append(tag("line", x1=0, x2=WIDTH, y1=level, y2=level, class_="mark"))
        shapes.append(tag("text", "window", x=4, y=level - 4, class_="label"))
    return tag(
        "svg",
        *shapes,
        viewBox=f"0 0 {WIDTH} {_HEIGHT}",
        class_="skyline",
        role="group",
        aria_label="Tokens of each call; a triangle marks a cut before it",
    )


def _cut_mark(x: float) -> Html:
    return tag("path", d=f"M{x - 5:.1f} 4 h10 l-5 9 z", class_="cut")


def _numbers(key: SessionKey, columns: list[CallColumn]) -> Html:
    heads = ("call", "time", "model", ">in", ">cached", ">out", ">cost", "before it")
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
            join("; ".join(column.marks)),
            numbers=(3, 4, 5, 6),
        )
        for place, column in enumerate(columns)
    ]
    return table(heads, rows, "Calls, oldest first")


ROUTES: Final = (
    Route(
        "GET",
        "/s/{agent}/{session}/context/time",
        "Over time",
        show_time,
        "text/html",
        query=TimeQuery,
        action="context",
        problem_page=problem_page,
    ),
)
