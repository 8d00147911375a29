"""The pages of `inspect` and `evaluate`: where the tokens of a session went, and what later replies
lacked under a policy. The numbers are those of the commands."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal, NamedTuple

import msgspec

from holdfast.core.adoption import ORIGIN
from holdfast.core.dialects.registry import target
from holdfast.core.evaluation.needs import NEED_KINDS
from holdfast.core.inspection.inspect import inspect
from holdfast.core.log.records import Assistant
from holdfast.core.models.window import model_in
from holdfast.core.window import Window
from holdfast.engine.session.prepare import cache_for
from holdfast.engine.simulation.evaluate import (
    EvaluationSource,
    EvaluationTerms,
    evaluate,
)
from holdfast.engine.simulation.sessions import NAMED_POLICIES
from holdfast.engine.simulation.simulate import STATIC_TOKENS
from holdfast.engine.workspace.facts import default_dialect, terms_of_proxy
from holdfast.engine.workspace.request_preview import session_records
from holdfast.errors import HoldfastError
from holdfast.providers.known_models.lookup import price_of
from holdfast.surfaces.console.layout import page_route
from holdfast.surfaces.console.plans import cost_text, facts_of, show_session
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.core.evaluation.report import Evaluation
    from holdfast.core.inspection.inspect import Inspection
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_TOP: Final = 10
"""Rows of each table; the commands take `--top`."""
LOSSES_MAX: Final = 50
"""Losses on the page; `--json` has all of them."""
_RECORDS_MAX: Final = 5_000
"""Counting and replaying a longer session takes minutes: a command does it, and no page."""
_TOO_LONG: Final = (
    f"This session has more than {_RECORDS_MAX:,} records, and replaying all of it takes longer "
    "than a page should. The command does it:"
)
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
    window: Annotated[int, msgspec.Meta(ge=1_000, le=100_000_000)] | None = None
    """The session's own, unless another is asked for."""


# Inspect


def show_inspection(call: HttpCall) -> HttpAnswer:
    """Tokens by kind, tool, file and record; results that came twice; the origin of an import."""
    key = call.session()
    first = next((record for record in call.store.read(key) if ORIGIN in record.extra), None)
    origin = call.workspace.mask(first.extra[ORIGIN]) if first is not None else {}
    newest = next(iter(call.store.last(key, 1)), None)
    records = read_for_page(call, key)
    looked = inspect_session(call, key, records) if records is not None else None
    return show_session(
        call,
        key,
        "/inspect",
        "inspect.html",
        origin=origin if isinstance(origin, dict) else {"from": origin},
        is_used=newest is not None and ORIGIN not in newest.extra,
        looked=looked,
        cost=cost_text(looked.spent) if looked is not None else "",
        records_max=_RECORDS_MAX,
        rows_max=_TOP,
    )


def read_for_page(call: HttpCall, key: SessionKey) -> list[Record] | None:
    """Return the records of a session; None where there are too many for a page."""
    if call.store.info(key).records > _RECORDS_MAX:
        return None
    return session_records(call.store, key, None)


def inspect_session(call: HttpCall, key: SessionKey, records: list[Record]) -> Inspection:
    """Inspect a session as its model counts and its host charges."""
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


# Evaluate


class SessionReplayed(NamedTuple):
    """The session of a page under a policy, or why it was not replayed."""

    report: Evaluation | None = None
    problem: str = ""
    is_bad: bool = False
    """The policy or the window cannot be replayed."""
    static: int = STATIC_TOKENS
    """Tokens of the system prompt and the tools."""


def replay_session(call: HttpCall, key: SessionKey, policy: str, window: Window) -> SessionReplayed:
    """Replay a session as its inspection counts it."""
    records = read_for_page(call, key)
    if records is None:
        return SessionReplayed(problem=_TOO_LONG)
    if not any(isinstance(record, Assistant) for record in records):
        return SessionReplayed(problem="The session has no reply yet: there is nothing to replay.")
    static = inspect_session(call, key, records).static or STATIC_TOKENS
    source = EvaluationSource(str(key), records, model_in(records)[1], str(key))
    terms = EvaluationTerms(window=window, static=static)
    try:
        return SessionReplayed(evaluate([source], NAMED_POLICIES[policy](), terms), static=static)
    except HoldfastError as error:  # such as a window that has no room for the tools
        sentence = f"{error}; {error.hint}" if error.hint else str(error)
        return SessionReplayed(None, call.workspace.mask(sentence), is_bad=True, static=static)


def show_evaluation(call: HttpCall) -> HttpAnswer:
    """The session under a policy: things that later replies needed and no longer had."""
    key, query = call.session(), call.query
    window = query.window or facts_of(call, key).last.context_window.tokens
    done = SessionReplayed()
    if query.policy:
        done = replay_session(call, key, query.policy, Window(window, "simulated"))
    return show_session(
        call,
        key,
        "/evaluate",
        "evaluate.html",
        query=query,
        window=window,
        done=done,
        policies=tuple(NAMED_POLICIES),
        meaning=_MEANING,
        need_kinds=NEED_KINDS,
        losses_max=LOSSES_MAX,
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
