"""The page of health: the server, the store, the memory index, and errors over time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from holdfast import __version__
from holdfast.core.failures.classify import Symptoms, classify
from holdfast.core.log.records import CallFailure
from holdfast.core.owners import filter_text
from holdfast.core.text.timestamps import iso_utc
from holdfast.engine.memory.indexer import session_stamp
from holdfast.errors import HoldfastError
from holdfast.surfaces.console import verification
from holdfast.surfaces.console.layout import page_route, show
from holdfast.surfaces.http.problems import TITLES
from holdfast.surfaces.http.route import HttpQuery, Route

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.spending.budgets import BudgetUse
    from holdfast.ports import SessionInfo
    from holdfast.surfaces.http.metrics import Metrics
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall
    from holdfast.surfaces.http.server import HttpServer

_SESSIONS_MAX: Final = 1_000
"""The newest sessions, whose facts are added up."""
_MESSAGES_MAX: Final = 1_000
"""The newest messages with an error that are counted."""
_CALL_SESSIONS: Final = 25
_CALL_RECORDS: Final = 60
"""The newest records of the newest sessions, in which calls without a reply are looked for."""
_DAYS: Final = 7
"""Columns of days: a week."""
_DAY_SECONDS: Final = 86_400


class HealthQuery(HttpQuery, frozen=True):
    """The part that takes longer."""

    measure: bool = False
    """Also measure the disk and the memory index."""


class _SeenError(NamedTuple):
    name: str
    source: str
    ts: float
    reason: str


def _own_uses(call: HttpCall) -> list[BudgetUse]:
    """The budgets that a caller may see: all of them for an operator, else those of the token and
    of its owner."""
    owner = "" if call.client.is_operator else filter_text(call.owner)
    own = (("token", call.client.name), ("owner", owner))
    uses = call.gateway.meter.uses()
    return [use for use in uses if call.client.is_operator or (use.payer, use.name) in own]


def show_health(call: HttpCall, metrics: Metrics) -> HttpAnswer:
    """The server, the store, the index, and the errors that were seen, for one owner."""
    query: HealthQuery = call.query
    is_operator = call.client.is_operator
    values: dict[str, Any] = {"problem": ""}
    try:
        infos = call.store.sessions(owner=call.owner, limit=_SESSIONS_MAX + 1)
        today = int(time.time() // _DAY_SECONDS)
        days = [today - back for back in range(_DAYS - 1, -1, -1)]
        values |= {
            "sessions": _sum_up(infos),
            "has_budgets": call.gateway.meter.budgets is not None,
            "budgets": _own_uses(call),
            "is_measured": query.measure,
            # The files and tables are those of all owners.
            "disk": call.store.disk_use() if query.measure and is_operator else None,
            "index": _look_at_index(call, infos[:_SESSIONS_MAX]) if query.measure else None,
            "days": [f">{iso_utc(day * _DAY_SECONDS)[5:10]}" for day in days],
            "errors": _errors(call, infos[:_CALL_SESSIONS], days),
        }
    except HoldfastError as error:
        values["problem"] = call.workspace.mask(str(error))
    return show(
        call,
        "health.html",
        "Health",
        here="/health",
        version=__version__,
        is_operator=is_operator,
        start_time=metrics.start_time,
        store=call.store.describe(),
        caveat=call.store.caveat,
        services=[service.status for service in call.gateway.services],
        statuses=metrics.errors() if is_operator else {},
        titles=TITLES,
        messages_max=_MESSAGES_MAX,
        call_records=_CALL_RECORDS,
        call_sessions=_CALL_SESSIONS,
        **values,
    )


class _Sums(NamedTuple):
    number: int
    has_more: bool
    records: int
    bytes: int
    damaged: int


def _sum_up(infos: list[SessionInfo]) -> _Sums:
    has_more = len(infos) > _SESSIONS_MAX
    infos = infos[:_SESSIONS_MAX]
    return _Sums(
        len(infos),
        has_more,
        sum(info.records for info in infos),
        sum(info.bytes for info in infos),
        sum(bool(info.damaged) for info in infos),
    )


class _IndexState(NamedTuple):
    known: int = 0
    whole: int = 0
    newest: float = 0.0
    behind_since: float | None = None
    problem: str = ""


def _look_at_index(call: HttpCall, infos: list[SessionInfo]) -> _IndexState:
    try:
        sources = {
            source.name: source
            for source in call.store.search_index.sources()
            if source.kind == "session"
        }
    except HoldfastError as error:
        return _IndexState(problem=error.code)
    known = {info.key: sources.get(str(info.key)) for info in infos}
    late = [
        info
        for info in infos
        if (source := known[info.key]) is None or source.stamp != session_stamp(info)
    ]
    return _IndexState(
        len(infos) - len(late),
        len(infos),
        max((source.newest or 0.0 for source in known.values() if source), default=0.0),
        min((info.last_active for info in late), default=None),
    )


class _ErrorLine(NamedTuple):
    name: str
    source: str
    numbers: list[int]
    """Before the days, of each day, and in all."""
    newest: _SeenError


def _errors(call: HttpCall, infos: list[SessionInfo], days: list[int]) -> list[_ErrorLine]:
    found: dict[tuple[str, str], list[_SeenError]] = {}
    for seen in (*_message_errors(call), *_call_errors(call, infos)):
        found.setdefault((seen.name, seen.source), []).append(seen)
    lines = []
    for (name, source), all_seen in sorted(found.items(), key=lambda item: -len(item[1])):
        by_day = [sum(int(each.ts // _DAY_SECONDS) == day for each in all_seen) for day in days]
        numbers = [len(all_seen) - sum(by_day), *by_day, len(all_seen)]
        newest = max(all_seen, key=lambda each: each.ts)
        lines.append(_ErrorLine(name, source, numbers, newest))
    return lines


def _message_errors(call: HttpCall) -> Iterator[_SeenError]:
    for message in call.store.queues.messages(
        owner=call.owner, states=("failed", "waiting"), limit=_MESSAGES_MAX
    ):
        if message.reason or message.state == "failed":
            kind = classify(Symptoms(message=message.reason)).kind
            yield _SeenError(kind, "messages", message.changed, message.reason)


def _call_errors(call: HttpCall, infos: list[SessionInfo]) -> Iterator[_SeenError]:
    for info in infos:
        try:
            records = call.store.last(info.key, _CALL_RECORDS)
        except HoldfastError:
            continue  # removed, or damaged: the page of `verify` says so
        for record in records:
            if isinstance(record, CallFailure):
                symptoms = Symptoms(status=record.status, message=record.cause)
                kind = record.failure or classify(symptoms).kind
                yield _SeenError(kind, "calls", record.ts or 0.0, record.cause)


def health_routes(server: HttpServer) -> tuple[Route, ...]:
    """Return the routes of the page, and of verification."""

    def show(call: HttpCall) -> HttpAnswer:
        return show_health(call, server.metrics)

    return (
        page_route("GET", "/health", "Health", show, query=HealthQuery, action="list"),
        *verification.ROUTES,
    )
