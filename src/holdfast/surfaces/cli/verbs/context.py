"""`context`: shows the next request, and the fate of every record."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.log.listing import title_of
from holdfast.core.models.messages import AddedTools, Image, Text, Thinking, ToolAnswer, ToolCall
from holdfast.core.projection.ledger import LedgerLine, totals
from holdfast.core.projection.steps import MEANING
from holdfast.engine.operations.context import ReadRequest
from holdfast.engine.workspace.request_preview import (
    RequestFacts,
    RequestTerms,
    preview,
    read_request,
    report_request,
    terms_of_session,
    whole_ledger,
)
from holdfast.surfaces.answers import Cell, Row, ledger_row
from holdfast.surfaces.cli.command import option, place, takes
from holdfast.surfaces.cli.conversations import (
    ReadsConversations,
    conversation,
    system_and_tools,
)
from holdfast.surfaces.formatting import count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.models.messages import Block, Message
    from holdfast.core.projection.project import Plan
    from holdfast.surfaces.cli.app import App


class ContextCommand(ReadsConversations, frozen=True, kw_only=True):
    """Shows the next request."""

    example = """example:
  holdfast context my-project --window 32000 --dialect anthropic --explain"""
    asked: Annotated[
        ReadRequest,
        takes(
            session_key=place(
                "a session of the store, or a transcript; FILE#NAME is one of several in it",
                "SESSION|FILE",
            ),
            dialect=option("", "NAME"),
            prompt=option("", "TEXT"),
            output=option("", "N"),
            idle=option("", "SECONDS"),
        ),
    ]
    system: Annotated[str | None, option("a file with the system prompt", "FILE")] = None
    tools: Annotated[
        str | None, option("a JSON file with the tools, in any provider's format", "FILE")
    ] = None
    floor: Annotated[int, option(f"refuse windows below this ({WINDOW_FLOOR_TOKENS:,})", "N")] = (
        WINDOW_FLOOR_TOKENS
    )
    explain: Annotated[
        bool, option("show the fate of every record, those before an earlier cut too")
    ] = False
    is_raw: Annotated[bool, option("do not mask secrets in the request")] = False

    def run(self, app: App) -> RequestFacts:
        window, asked = self.window, self.asked
        found = conversation(app, asked.session_key, window=window, format_=self.format)
        system, tools = system_and_tools(found, self.system, self.tools)
        terms = RequestTerms(
            window=window,
            model=self.model or found.model,
            provider=found.provider,
            dialect=asked.dialect,
            system=system,
            tools=tools,
            prompt=asked.prompt,
            output=asked.output,
            floor=self.floor,
            idle=asked.idle,
        )
        with app.out.busy("projecting"):
            if found.key is None:
                prepared = preview(found.records, terms)
                return RequestFacts(prepared, whole_ledger(prepared.plan, found.records))
            told = terms_of_session(app.store, found.key)
            if told.model == terms.model:
                terms = msgspec.structs.replace(terms, own=told.own)
            return read_request(app.store, found.key, terms, is_whole=self.explain)

    def plain(self, found: RequestFacts) -> Any:
        return report_request(found, found.prepared.request)

    def show(self, found: RequestFacts, app: App) -> None:
        plan, ledger, out = found.plan, found.ledger, app.out
        out.table(("part", ">tokens", "what it is"), _sums(plan))
        out.line()
        if self.explain:
            rows = [(*ledger_row(line), line.back) for line in _join_runs(ledger)]
            out.table(("record", "kind", "action", ">before", ">after", "why", "back"), rows)
            out.line()
            if plan.repairs:
                out.table(
                    ("repair", "record", "what was done", "detail"),
                    [(r.flaw, r.record, MEANING[r.flaw], r.detail) for r in plan.repairs],
                )
                out.line()
        out.table((">#", "role", "record", "says"), _messages(plan.prompt.messages, out.mask))
        for action, (records, before, after) in totals(ledger).items():
            if action != "silent":
                out.note(f"{count(records, 'record')} {action}: {before:,} → {after:,} tokens")
        if found.unlisted:
            out.note(f"{count(found.unlisted, 'more record')}, older or on other branches")
        for warning in plan.warnings:
            out.warn(warning)
        if plan.repairs:
            repairs = count(len(plan.repairs), "repair")
            out.note(f"{repairs} in the outgoing copy; the log is unchanged")
        if plan.decisions:
            out.note("nothing was stored: the next turn would append these decisions")
        if not self.explain:
            out.note("--explain shows the fate of every record; --json prints the request")


def _join_runs(ledger: Sequence[LedgerLine]) -> list[LedgerLine]:
    """Return the ledger with one line for each run of records that left the view together."""
    joined = []
    for _, group in groupby((line for line in ledger if line.action != "silent"), _run_of):
        run = list(group)
        first, last = run[0], run[-1]
        if first is not last:
            first = LedgerLine(
                record=f"{first.record} … {last.record}",
                kind=count(len(run), "record"),
                action=first.action,
                before=sum(line.before for line in run),
                why=first.why,
                back="`holdfast log` shows them",
            )
        joined.append(first)
    return joined


def _run_of(line: LedgerLine) -> tuple[str, str]:
    """Name the run that a line belongs to: neighbours that were summarised for one reason."""
    return (line.action, line.why) if line.action == "summarised" else ("", line.record)


def _sums(plan: Plan) -> list[Row]:
    tokens, budget, window = plan.tokens, plan.budget, plan.window
    rows: list[Row] = [
        ("window", f"{window.tokens:,}", f"{window.source} ({window.confidence})"),
        ("− output", f"{budget.output_reserve:,}", "reserved for the reply"),
        ("− system", f"{budget.system:,}", "the system prompt"),
        ("− tools", f"{budget.tools:,}", f"{len(plan.prompt.tools)} schemas"),
        ("− reserve", f"{budget.dynamic_reserve:,}", "for errors of the estimate"),
    ]
    if budget.hidden:
        rows.append(("− hidden", f"{budget.hidden:,}", "measured by the provider, not in the log"))
    share = f"{tokens.messages / budget.tokens:.0%} of it used" if budget.tokens else ""
    rows.append((Cell("budget", "name"), f"{budget.tokens:,}", f"× {budget.ratio:g}; {share}"))
    rows.append(
        (Cell("messages", "name"), f"{tokens.messages:,}", f"{tokens.basis}, by {tokens.counter}")
    )
    return rows


def _messages(messages: tuple[Message, ...], mask: Callable[[str], str]) -> list[Row]:
    return [
        (
            str(number),
            Cell(message.role, "good" if message.role == "user" else "name"),
            message.record,
            title_of("  ".join(_gist(block, mask) for block in message.blocks)),
        )
        for number, message in enumerate(messages)
    ]


def _gist(block: Block, mask: Callable[[str], str]) -> str:
    """Return a block in a few words; it is masked before it is cut."""
    match block:
        case Text(text):
            return mask(text)[:200]
        case ToolCall(name=name):
            return f"→ {name}"
        case ToolAnswer(name=name, content=content):
            texts = " ".join(mask(part.text)[:100] for part in content if isinstance(part, Text))
            return f"← {name}: {texts}"
        case Image(media_type=kind):
            return f"[{kind or 'image'}]"
        case Thinking():
            return "[thinking]"
        case AddedTools(names):
            return f"[added tools: {', '.join(names)}]"
        case other:  # documents and provider-specific blocks are shown by their kind
            return f"[{other.kind}]"
