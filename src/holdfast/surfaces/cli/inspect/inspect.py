"""`inspect`: the use of the context in a transcript, and what Holdfast would send instead."""

from __future__ import annotations

import shlex
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
from msgspec import Meta

from holdfast.config import agent_homes
from holdfast.core.adoption import is_adopted
from holdfast.core.dialects.registry import target
from holdfast.core.inspection.inspect import Inspection, inspect
from holdfast.core.log.records import Compaction
from holdfast.core.owners import NO_OWNER, owner_of
from holdfast.core.projection.steps import MEANING
from holdfast.core.window import Window
from holdfast.engine.session.prepare import cache_for
from holdfast.engine.simulation.savings import find_saving
from holdfast.engine.workspace.facts import default_dialect, last_call
from holdfast.errors import UsageError
from holdfast.importers.places import AGENTS, VARIABLES, find_transcripts, newest_files
from holdfast.providers.known_models.lookup import price_of, window_of
from holdfast.surfaces.bill import habits_table
from holdfast.surfaces.cli.command import option, pick, place
from holdfast.surfaces.cli.conversations import (
    Conversation,
    ReadsConversations,
    conversations,
    system_and_tools,
)
from holdfast.surfaces.cli.inspect.overview import by_cost, show_overview, show_savings
from holdfast.surfaces.cli.inspect.page import page
from holdfast.surfaces.cli.inspect.reports import (
    InspectReport,
    bars,
    doubles_table,
    fit_window,
    fits_table,
    top_tables,
)
from holdfast.surfaces.formatting import ago, count, local_time, money, size_text
from holdfast.surfaces.pages import page_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.models.totals import PriceFor
    from holdfast.engine.simulation.savings import Saving
    from holdfast.surfaces.cli.app import App


WINDOWS = (16_000, 32_000, 64_000, 128_000, 200_000, 1_000_000)
_CHART_CHARS = 72
"""Columns of a chart, in a terminal of 80."""
_CUTS_SHOWN = 12
"""Compactions whose place is told in words; the chart has all."""
_MANY = 5
"""With more conversations than this, each has a line instead of tables."""
_NEWEST: Final = 20
"""Files that are read without being asked for: enough to see where money goes, in seconds."""


class InspectCommand(ReadsConversations, frozen=True, kw_only=True):
    """Inspects conversations."""

    example = """examples:
  holdfast inspect
  holdfast inspect ~/.claude/projects/my-project/session.jsonl
  holdfast inspect my-project --window 32000 --html report.html"""
    what: Annotated[
        tuple[str, ...],
        place(
            "without one, the newest transcripts of the agents on this machine",
            "FILE|FOLDER|SESSION",
        ),
    ] = ()
    newest: Annotated[
        int | None, option("only the N files that were changed last", "N"), Meta(ge=1)
    ] = None
    system: Annotated[
        str | None, option("a file with the system prompt, to include it in the count", "FILE")
    ] = None
    tools: Annotated[
        str | None, option("a JSON file with the tools, to include them in the count", "FILE")
    ] = None
    replay: Annotated[
        int,
        Meta(ge=0),
        option(
            "replay the N most expensive with Holdfast, to show what they would have cost (5)", "N"
        ),
    ] = 5
    top: Annotated[int, Meta(ge=1), option("rows in each table (10)", "N")] = 10
    html: Annotated[str | None, option("write a page with charts", "FILE", read=page_file)] = None

    def run(self, app: App) -> list[InspectReport]:
        names = self.what or _offer_transcripts(app, self.newest)
        found = [
            each
            for name in names
            for each in conversations(app, name, format_=self.format, newest=self.newest)
        ]
        windows = (self.window.tokens,) if self.window else () if len(found) > _MANY else WINDOWS
        reports = []
        with app.out.progress("counting", len(found)) as advance:
            for each in found:
                reports.append(self._report(each, windows, app))
                advance(each.name)
        reports = self._with_savings(reports, found, app)
        if self.html:
            app.out.write_file(self.html, page(by_cost(reports)))
        return reports

    def _with_savings(
        self, reports: list[InspectReport], found: list[Conversation], app: App
    ) -> list[InspectReport]:
        """Return the reports; those of the most expensive conversations with what Holdfast would
        have made of them."""
        dearest = {id(each) for each in by_cost(reports)[: self.replay]}
        done = []
        with app.out.progress("replaying", len(dearest)) as advance:
            for report, each in zip(reports, found, strict=True):
                if id(report) in dearest:
                    saving = self._saving(each, report.inspection, app)
                    report = msgspec.structs.replace(report, saving=saving)
                    advance(each.name)
                done.append(report)
        return done

    def _saving(self, found: Conversation, looked: Inspection, app: App) -> Saving | None:
        model, key = self.model or found.model, found.key
        own = last_call(app.store, key).context_window if key else window_of(model, found.provider)
        return find_saving(
            found.records,
            looked,
            self.window or own,
            provider=found.provider,
            model=model,
            is_ours=key is not None and not is_adopted(found.records),
        )

    def _report(self, found: Conversation, windows: tuple[int, ...], app: App) -> InspectReport:
        model = self.model or found.model
        system, tools = system_and_tools(found, self.system, self.tools)
        aim = target(default_dialect(model), provider=found.provider, model=model)
        cache = cache_for(aim)
        looked = inspect(
            found.records,
            scale=cache.scale,
            system=system,
            tools=tools,
            price_for=_price_for(self.model, model),
            totals=found.totals,
            top=self.top,
        )
        # Ignore the compactions of other tools, to show what Holdfast would keep of the whole.
        whole = [record for record in found.records if not isinstance(record, Compaction)]
        more: dict[str, Any] = {"system": system, "tools": tools, "cache": cache}
        kept = [fit_window(whole, Window(size, "asked for"), aim, **more) for size in windows]
        return InspectReport(
            *(found.name, found.source, looked, kept, found.address, found.folder, found.label),
            agent=found.key.agent if found.key else found.source,
            owner=owner_of(app.store.header(found.key).owner) if found.key else NO_OWNER,
        )

    def plain(self, found: list[InspectReport]) -> Any:
        shown = [
            pick(report, "name", "source", "address", "project", "title")
            | msgspec.to_builtins(report.inspection)
            | pick(report.inspection, "doubled_tokens", "unseen_static")
            | pick(report, "kept", "saving", "waste")
            for report in found
        ]
        return shown[0] if len(shown) == 1 and self.what else shown

    def show(self, found: list[InspectReport], app: App) -> None:
        for report in found if len(found) <= _MANY else ():
            _show_report(report, app, self.top)
        if len(found) > 1:
            show_overview(found, app)
        else:
            show_savings(found, app)


def _offer_transcripts(app: App, newest: int | None) -> list[str]:
    """List the folders where agents keep transcripts, and return the newest files in them."""
    found = find_transcripts(agent_homes(VARIABLES))
    if not found:
        raise UsageError(
            f"found no transcripts of {', '.join(AGENTS)} in this home folder",
            hint="name a file, a folder or a session: holdfast inspect PATH; "
            "or watch a recorded agent: holdfast demo",
        )
    wanted = newest or _NEWEST
    files = sorted((file for folder in found for file in newest_files(folder)), reverse=True)
    if not app.out.is_json:
        app.out.table(
            ("agent", ">files", ">size", "last used"),
            ((f.agent, f"{f.files:,}", size_text(f.bytes), ago(f.newest)) for f in found),
        )
        app.out.line("all of one agent:")
        for folder in found:
            app.out.line(f"  holdfast inspect {shlex.quote(folder.path)}")
        app.out.line()
        if len(files) > wanted:
            app.out.note(f"the {wanted} newest of {len(files):,} files; --newest N takes others")
    return [path for _time, path in files[:wanted]]


def _price_for(asked: str | None, fallback: str) -> PriceFor:
    """Price each call by its own model; all by the one that was asked for, if one was."""
    if asked:
        return lambda _model, _provider, at: price_of(asked, at=at)
    return lambda model, provider, at: price_of(model or fallback, provider, at)


def _show_report(report: InspectReport, app: App, top: int) -> None:
    looked, out = report.inspection, app.out
    out.line(f"{report.name} ({report.source})")
    times = f"{local_time(looked.started)} to {local_time(looked.ended)}"
    sizes = ((looked.records, "record"), (looked.turns, "turn"), (looked.steps, "step"))
    numbers = [count(number, noun) for number, noun in sizes]
    out.line(", ".join([*numbers, times if looked.started else "no times"]))
    if looked.models:
        out.line(f"models: {', '.join(looked.models)}")
    if looked.compactions:
        places = ", ".join(f"{calls:,}" for calls in looked.cuts[:_CUTS_SHOWN])
        more = ", …" if looked.cuts[_CUTS_SHOWN:] else ""
        out.line(f"{count(looked.compactions, 'compaction')}, after call {places}{more}")
    factor = f" × {looked.factor:g}" if looked.factor != 1 else ""
    out.line(f"{looked.tokens:,} tokens in all, counted by {looked.counter}{factor}")
    out.line()
    out.table(("tokens by kind", ">tokens", ">share", ""), bars(looked.kinds, looked.tokens))
    out.line()
    tables = [table for _title, table in top_tables(looked, top)]
    out.section(*tables, doubles_table(looked, top))
    _show_calls(looked, app)
    out.section(habits_table(looked.habits))
    counts = Counter(repair.flaw for repair in looked.repairs)
    if counts:
        out.table(
            ("what is broken", ">times", "what a request would do about it"),
            ((flaw, f"{times:,}", MEANING[flaw]) for flaw, times in counts.most_common()),
        )
        out.line()
    fits = fits_table(report.kept)
    out.table(fits.columns, fits.rows)
    if report.kept:
        out.note(
            "would send: the first request right after a cut to that window; it grows again with "
            "each step"
        )
    if looked.biggest:
        out.note(f"see a record in full: {report.command}")
    out.line()


def _show_calls(looked: Inspection, app: App) -> None:
    out, spent = app.out, looked.spent
    reported = [call.reported for call in looked.calls]
    sizes = [size for size in reported if size is not None]
    if not sizes:
        return
    out.line(f"context at each call, as reported (largest {max(sizes):,} tokens):")
    out.line(skyline(reported))
    if looked.cuts:
        out.line(cut_marks(looked.cuts, len(reported)))
    if looked.unseen_static:
        out.line(f"of it, {looked.unseen_static:,} were in the first request and not in the log")
    share = spent.cached_read / spent.prompt if spent.prompt else 0
    out.line(
        f"{count(spent.calls, 'call')}: {spent.prompt:,} tokens in, "
        f"{share:.1%} of them from the cache; {spent.output:,} out"
    )
    if looked.abandoned_calls:
        words = "on abandoned branches, or for summaries and notes"
        out.line(f"of them, {count(looked.abandoned_calls, 'call')} {words}")
    if spent.unknown:
        out.line(
            f"of them, {count(spent.unknown, 'call')} reported no usage and are not in the sums"
        )
    for each in spent.models if len(spent.models) > 1 or spent.unpriced else ():
        cost = "price unknown" if each.cost is None else money(each.cost)
        out.line(f"  {each.model or 'no model named'}: {count(each.calls, 'call')}, {cost}")
    if spent.cost is not None:
        out.line(f"cost {money(spent.cost)}; without a cache {money(spent.without_cache or 0.0)}")
        out.note(spent.price)
    out.line()


def skyline(values: Sequence[int | None], width: int = _CHART_CHARS) -> str:
    """Draw numbers as a row of blocks, scaled to the largest; what is not known is a gap."""
    columns = min(len(values), width)
    parts = [
        values[_place(i, columns, len(values)) : _place(i + 1, columns, len(values))]
        for i in range(columns)
    ]
    highest = [max((value for value in part if value is not None), default=None) for part in parts]
    top = max((value for value in highest if value is not None), default=1) or 1
    return "".join(
        "·" if value is None else "▁▂▃▄▅▆▇█"[min(7, value * 8 // (top + 1))] for value in highest
    )


def cut_marks(cuts: Sequence[int], calls: int, width: int = _CHART_CHARS) -> str:
    """Draw a mark below a skyline for each compaction."""
    columns = min(calls, width)
    marked = {min(cut * columns // max(calls, 1), columns - 1) for cut in cuts}
    line = "".join("✂" if place in marked else " " for place in range(columns))
    return f"{line.rstrip()}  compactions"


def _place(column: int, columns: int, values: int) -> int:
    return column * values // columns
