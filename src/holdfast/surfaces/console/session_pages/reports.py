"""The pages of `inspect` and `evaluate`: where the tokens of a session went, and what later replies
lacked under a policy. The numbers are those of the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from holdfast.core.adoption import ORIGIN
from holdfast.core.dialects.registry import target
from holdfast.core.evaluation.needs import NEED_KINDS
from holdfast.core.evaluation.report import describe_cut
from holdfast.core.log.records import Assistant
from holdfast.core.models.window import model_in
from holdfast.core.projection.inspection import inspect
from holdfast.core.window import Window
from holdfast.engine.session.prepare import cache_for
from holdfast.engine.simulation.evaluate import (
    EVALUATION_WINDOW,
    EvaluationSource,
    EvaluationTerms,
    evaluate,
)
from holdfast.engine.simulation.sessions import NAMED_POLICIES
from holdfast.engine.workspace.facts import default_dialect, terms_of_proxy
from holdfast.engine.workspace.request_preview import session_records
from holdfast.errors import HoldfastError
from holdfast.providers.known_models.lookup import price_of
from holdfast.surfaces.console.charts import small_bar
from holdfast.surfaces.console.html import Html, tag
from holdfast.surfaces.console.layout import (
    facts,
    gist,
    number,
    page,
    page_route,
    row,
    session_path,
    table,
    tokens,
)
from holdfast.surfaces.console.plans import cost_text, heading
from holdfast.surfaces.console.sessions import select
from holdfast.surfaces.formatting import money
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.core.evaluation.losses import Loss
    from holdfast.core.evaluation.report import Evaluation
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.projection.inspection import Inspection
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_TOP: Final = 10
"""Rows of each table; the commands take `--top`."""
_LOSSES: Final = 50
"""Losses on the page; `--json` has all of them."""
_RECORDS_MAX: Final = 5_000
"""Counting and replaying a longer session takes minutes: a command does it, and no page."""
_MEANING: Final = {
    "holdfast": "as Holdfast would cut it now",
    "thrifty": "cut deep whenever the cache is cold",
    "balanced": "as by default",
    "faithful": "cut only where the window demands it",
    "recorded": "the cuts that are in the log",
    "nothing": "nothing is ever cut",
    "last": "keep the last turns",
    "trim": "drop the oldest tokens",
    "clear": "clear old tool results",
    "compact": "one summary when the window is full",
}


class EvaluateQuery(HttpQuery, frozen=True):
    """The policy to replay the session under; without one, nothing is computed."""

    policy: Literal["", "holdfast", "recorded", "nothing", "last", "trim", "clear", "compact"] = ""
    window: Annotated[int, msgspec.Meta(ge=1_000, le=100_000_000)] = EVALUATION_WINDOW.tokens


# Inspect


def show_inspection(call: HttpCall) -> HttpAnswer:
    """Tokens by kind, tool, file and record; results that came twice; the origin of an import."""
    key = call.session()
    title, top = heading(call, key, "/inspect")
    command = f"holdfast inspect {key} --json"
    body: list[object] = [top, tag("h2", "Where the tokens went"), _origin(call, key)]
    records = _records(call, key)
    if records is None:
        body.append(_too_long(command))
        return page(title, *body)
    looked = _inspect(call, key, records)
    body += [
        facts(
            ("in all", tag("span", tokens(looked.tokens), id="all-tokens")),
            ("counted by", looked.counter),
            ("turns", number(looked.turns)),
            ("steps", number(looked.steps)),
            ("same results again", tag("span", tokens(looked.doubled_tokens), id="doubled")),
            ("compactions", tag("span", number(looked.compactions), id="compactions")),
            ("calls", tag("span", number(looked.spent.calls), id="calls")),
            ("cost", tag("span", cost_text(looked.spent), id="bill")),
        ),
        *_groups(call, looked),
        *_items(call, key, looked),
        _command(command),
    ]
    return page(title, *body)


def _records(call: HttpCall, key: SessionKey) -> list[Record] | None:
    """Return the records of a session; None where there are too many for a page."""
    if call.store.info(key).records > _RECORDS_MAX:
        return None
    return session_records(call.store, key, None)


def _inspect(call: HttpCall, key: SessionKey, records: list[Record]) -> Inspection:
    provider, model = model_in(records)
    system, tools = terms_of_proxy(call.store, key, records)
    scale = cache_for(target(default_dialect(model), provider=provider, model=model)).scale
    return inspect(
        records,
        scale=scale,
        system=system,
        tools=tools,
        price_for=price_of,
        totals=call.store.totals(key),
        top=_TOP,
    )


def _origin(call: HttpCall, key: SessionKey) -> Html | None:
    """Tell where an adopted session came from, and whether it went on here."""
    first = next((record for record in call.store.read(key) if ORIGIN in record.extra), None)
    if first is None:
        return None
    told = call.workspace.mask(first.extra[ORIGIN])
    pairs = told.items() if isinstance(told, dict) else [("from", told)]
    newest = next(iter(call.store.last(key, 1)), None)
    is_used = newest is not None and ORIGIN not in newest.extra
    return tag(
        "section",
        tag("h3", "Adopted"),
        facts(
            *((str(name), gist(str(value), 120)) for name, value in pairs),
            ("since then", "it was used here" if is_used else "nothing was added here"),
        ),
        tag(
            "p",
            "Run `holdfast adopt` again to bring along what was added to its source since.",
            class_="dim",
        ),
    )


def _groups(call: HttpCall, looked: Inspection) -> list[object]:
    whole = max(1, looked.tokens)
    kinds = [
        row(
            kind.name,
            number(kind.tokens),
            _share(kind.tokens / whole),
            numbers=(1,),
        )
        for kind in looked.kinds
        if kind.tokens
    ]
    found: list[object] = [table(("kind", ">tokens", "share"), kinds, "Tokens by kind")]
    mask = call.workspace.mask
    if looked.tools:
        rows = [
            row(
                gist(mask(tool.name), 60),
                number(tool.count),
                number(tool.tokens),
                number(tool.largest),
                number(tool.errors),
                _share(tool.tokens / whole),
                numbers=(1, 2, 3, 4),
            )
            for tool in looked.tools[:_TOP]
        ]
        heads = ("tool", ">results", ">tokens", ">largest", ">errors", "share")
        found.append(table(heads, rows, "Tokens by tool"))
    if looked.files:
        rows = [
            row(gist(mask(file.name), 120), number(file.count), number(file.tokens), numbers=(1, 2))
            for file in looked.files[:_TOP]
        ]
        found.append(table(("file", ">times", ">tokens"), rows, "Tokens by file"))
    return found


def _share(share: float) -> list[object]:
    return [small_bar(share, f"{share:.0%} of all tokens"), f" {share:.0%}"]


def _items(call: HttpCall, key: SessionKey, looked: Inspection) -> list[object]:
    mask = call.workspace.mask
    found: list[object] = []
    if looked.biggest:
        rows = [
            row(
                _record_link(key, item.record),
                gist(mask(f"{item.kind} {item.name}".strip()), 60),
                number(item.tokens),
                gist(mask(item.says), 120),
                numbers=(2,),
            )
            for item in looked.biggest
        ]
        found.append(table(("record", "what", ">tokens", "says"), rows, "The biggest records"))
    if looked.doubles:
        rows = [
            row(
                gist(mask(copy.name or "?"), 60),
                number(copy.copies),
                number(copy.tokens),
                [[_record_link(key, record), " "] for record in copy.records[:_TOP]],
                numbers=(1, 2),
            )
            for copy in looked.doubles[:_TOP]
        ]
        heads = ("tool", ">copies", ">tokens that could be spared", "records")
        found.append(table(heads, rows, "The same result again"))
    return found


def _record_link(key: SessionKey, record: str) -> Html:
    return tag("a", tag("code", record), href=session_path(key, f"/records/{record}"))


def _too_long(command: str) -> Html:
    return tag(
        "div",
        tag(
            "p",
            f"This session has more than {number(_RECORDS_MAX)} records, and counting all of it "
            "takes longer than a page should. The command does it:",
        ),
        _command(command),
    )


def _command(command: str) -> Html:
    return tag("pre", tag("code", command), data_copy=True, tabindex="0")


# Evaluate


def show_evaluation(call: HttpCall) -> HttpAnswer:
    """The session under a policy: things that later replies needed and no longer had."""
    key, query = call.session(), call.query
    title, top = heading(call, key, "/evaluate")
    body: list[object] = [
        top,
        tag("h2", "What later replies lacked"),
        tag(
            "p",
            "The session is replayed call by call under a policy. A loss is something that a reply "
            "used, that had come up before, and that its request no longer had.",
        ),
        _form(key, query),
    ]
    if not query.policy:
        return page(title, *body)
    command = f"holdfast evaluate {key} --policy {query.policy} --window {query.window} --json"
    records = _records(call, key)
    if records is None:
        body.append(_too_long(command))
    elif not any(isinstance(record, Assistant) for record in records):
        body.append(tag("p", "The session has no reply yet, so there is nothing to evaluate."))
    else:
        source = EvaluationSource(str(key), records, model_in(records)[1], str(key))
        terms = EvaluationTerms(window=Window(query.window, "simulated"))
        try:
            report = evaluate([source], NAMED_POLICIES[query.policy](), terms)
        except HoldfastError as error:  # such as a window that has no room for the tools
            sentence = f"{error}; {error.hint}" if error.hint else str(error)
            body.append(tag("p", call.workspace.mask(sentence), class_="problem"))
            return page(title, *body)
        body += [_figures(report), _needs(report), _losses(call, key, report), _command(command)]
    return page(title, *body)


def _form(key: SessionKey, query: EvaluateQuery) -> Html:
    explained = [
        [tag("dt", tag("code", name)), tag("dd", _MEANING[name])] for name in NAMED_POLICIES
    ]
    return tag(
        "div",
        tag(
            "form",
            select("Policy", "policy", tuple(NAMED_POLICIES), query.policy or "holdfast"),
            tag(
                "label",
                "Window ",
                tag("input", type="number", name="window", value=query.window, min=1_000),
                " tok",
            ),
            tag("button", "Replay"),
            method="get",
            action=session_path(key, "/evaluate"),
            class_="bar",
        ),
        tag("details", tag("summary", "The policies"), tag("dl", *explained, class_="keys")),
    )


def _figures(report: Evaluation) -> Html:
    figures = report.figures
    return facts(
        ("policy", report.policy),
        ("window", tokens(report.window)),
        ("calls", number(figures.calls)),
        ("input cost", money(figures.cost)),
        ("read from the cache", f"{figures.read_share:.1%}"),
        ("cuts", number(figures.cuts)),
        ("overflows", number(figures.overflows)),
        ("losses", tag("b", number(len(report.losses)), id="losses")),
    )


def _needs(report: Evaluation) -> Html:
    rows = [
        row(
            kind,
            number(report.need_counts[kind]),
            number(report.loss_counts[kind]),
            numbers=(1, 2),
            id=f"need-{kind}",
        )
        for kind in NEED_KINDS
    ]
    return table(("needed", ">different", ">lost"), rows, "Needs of later replies, by kind")


def _losses(call: HttpCall, key: SessionKey, report: Evaluation) -> Html:
    if not report.losses:
        return tag("p", "No loss: every reply had what it needed.")
    rows = [_loss_row(call, key, loss) for loss in report.losses[:_LOSSES]]
    left = len(report.losses) - len(rows)
    heads = ("kind", "what", "last seen", "taken by", "needed by", "way back")
    return tag(
        "div",
        table(heads, rows, "Losses, in the order of the calls"),
        tag("p", f"{number(left)} more: the command shows all of them.") if left else None,
    )


def _loss_row(call: HttpCall, key: SessionKey, loss: Loss) -> Html:
    mask = call.workspace.mask
    seen = _record_link(key, loss.seen.record) if loss.seen.record else "nowhere"
    return row(
        loss.kind,
        gist(mask(loss.text), 200),
        seen,
        gist(mask(describe_cut(loss)), 120),
        [_record_link(key, loss.needed_by), f", call {number(loss.needed_call)}"],
        tag("code", gist(mask(loss.ways_back[0]), 120)) if loss.ways_back else "",
    )


ROUTES: Final = (
    page_route("GET", "/s/{agent}/{session}/inspect", "Inspect", show_inspection, action="context"),
    page_route(
        "GET",
        "/s/{agent}/{session}/evaluate",
        "Evaluate",
        show_evaluation,
        query=EvaluateQuery,
        action="context",
    ),
)
