"""The page of health: the server, the store, the memory index, and errors over time."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast import __version__
from holdfast.core.failures.classify import Symptoms, classify
from holdfast.core.log.records import CallFailure
from holdfast.core.text.timestamps import iso_utc
from holdfast.engine.memory.indexer import session_stamp
from holdfast.errors import HoldfastError
from holdfast.surfaces.console import verification
from holdfast.surfaces.console.html import Html, join, tag
from holdfast.surfaces.console.layout import (
    facts,
    gist,
    moment,
    number,
    page,
    page_route,
    row,
    table,
)
from holdfast.surfaces.formatting import count, size_text
from holdfast.surfaces.http.problems import TITLES
from holdfast.surfaces.http.route import HttpQuery, Route

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def show_health(call: HttpCall, metrics: Metrics) -> HttpAnswer:
    """The server, the store, the index, and the errors that were seen, for one owner."""
    query: HealthQuery = call.query
    body: list[object] = [tag("h1", "Health"), _server(call, metrics)]
    try:
        infos = call.store.sessions(owner=call.owner, limit=_SESSIONS_MAX + 1)
        body += [
            _sessions(infos),
            _measurements(call, infos[:_SESSIONS_MAX]) if query.measure else _offer(call),
            _errors(call, infos[:_CALL_SESSIONS]),
        ]
    except HoldfastError as error:
        said = call.workspace.mask(str(error))
        body.append(tag("p", f"The store does not answer: {said}", class_="problem"))
    if call.client.is_operator:
        body.append(_statuses(metrics))
    return page("Health", *body, here="/health")


def _server(call: HttpCall, metrics: Metrics) -> Html:
    pairs: list[tuple[str, object]] = [("version", __version__)]
    if call.client.is_operator:
        pairs.append(("running since", moment(metrics.start_time)))
        pairs.append(("sessions are in", call.workspace.mask(call.store.describe())))
        for service in call.gateway.services:
            status = service.status
            told = [tag("span", status.state, class_=f"state {status.state}")]
            said = call.workspace.mask(status.detail)
            pairs.append((status.name, [*told, " since ", moment(status.since), f" {said}"]))
        pairs.append(("metrics", tag("a", "/metrics", href="/metrics")))
        pairs.append(("API", tag("a", "/openapi.json", href="/openapi.json")))
    if caveat := call.store.caveat:
        pairs.append(("note", caveat))
    return tag("section", tag("h2", "Server"), facts(*pairs))


def _sessions(infos: list[SessionInfo]) -> Html:
    has_more = len(infos) > _SESSIONS_MAX
    infos = infos[:_SESSIONS_MAX]
    damaged = sum(bool(info.damaged) for info in infos)
    which = f"the newest {number(_SESSIONS_MAX)}" if has_more else number(len(infos))
    return tag(
        "section",
        tag("h2", "Sessions"),
        facts(
            ("sessions", tag("a", which, href="/")),
            ("records", number(sum(info.records for info in infos))),
            ("size of their logs", size_text(sum(info.bytes for info in infos))),
            (
                "with damage found by a listing",
                tag("a", number(damaged), href="/?state=damaged"),
            ),
        ),
        tag("p", tag("a", "Verify the sessions", href="/health/verify"), ": read them whole.")
        if infos
        else None,
    )


def _offer(call: HttpCall) -> Html:
    title = _measure_title(call)
    return tag(
        "section",
        tag("h2", title),
        tag("p", tag("a", "Measure now", href="/health?measure=true", id="measure")),
    )


def _measurements(call: HttpCall, infos: list[SessionInfo]) -> Html:
    pairs = [*_disk(call), *_index(call, infos)]
    return tag("section", tag("h2", _measure_title(call)), facts(*pairs))


def _measure_title(call: HttpCall) -> str:
    return "Disk and memory index" if call.client.is_operator else "Memory index"


def _disk(call: HttpCall) -> Iterator[tuple[str, object]]:
    if not call.client.is_operator:
        return  # the files and tables are those of all owners
    found = call.store.disk_use()
    if found is None:
        yield "disk", "this store does not report its size"
        return
    yield "disk", f"{'' if found.is_whole else 'at least '}{size_text(found.bytes)}"
    yield "free", "this store does not report it" if found.free is None else size_text(found.free)


def _index(call: HttpCall, infos: list[SessionInfo]) -> Iterator[tuple[str, object]]:
    try:
        sources = {
            source.name: source
            for source in call.store.search_index.sources()
            if source.kind == "session"
        }
    except HoldfastError as error:
        yield "memory index", f"does not answer: {error.code}"
        return
    known = {info.key: sources.get(str(info.key)) for info in infos}
    late = [
        info
        for info in infos
        if (source := known[info.key]) is None or source.stamp != session_stamp(info)
    ]
    yield "sessions up to date in the index", f"{number(len(infos) - len(late))} of {len(infos)}"
    newest = max((source.newest or 0.0 for source in known.values() if source), default=0.0)
    yield "newest words in it", moment(newest)
    if late:
        oldest = min(info.last_active for info in late)
        yield "behind since", join(moment(oldest), "; the next search of them brings it up to date")


def _errors(call: HttpCall, infos: list[SessionInfo]) -> Html:
    found: dict[tuple[str, str], list[_SeenError]] = {}
    for seen in (*_message_errors(call), *_call_errors(call, infos)):
        found.setdefault((seen.name, seen.source), []).append(seen)
    title = tag("h2", "Errors over time")
    looked = join(
        f"Messages that failed or wait for another try, up to {number(_MESSAGES_MAX)} of them, and "
        f"calls without a reply in the newest {_CALL_RECORDS} records of the newest "
        f"{_CALL_SESSIONS} sessions. Days are of UTC; the names are those of ",
        tag("code", "holdfast classify"),
        ".",
    )
    if not found:
        return tag("section", title, tag("p", "None. ", tag("span", looked, class_="dim")))
    today = int(time.time() // _DAY_SECONDS)
    days = [today - back for back in range(_DAYS - 1, -1, -1)]
    heads = ("error", "of", ">before", *(f">{iso_utc(day * _DAY_SECONDS)[5:10]}" for day in days))
    rows = [
        _error_row(call, name, source, seen, days)
        for (name, source), seen in sorted(found.items(), key=lambda item: -len(item[1]))
    ]
    shown = table((*heads, ">all", "newest", "its reason"), rows, "Errors by class and day")
    return tag("section", title, shown, tag("p", looked, class_="dim"))


def _error_row(
    call: HttpCall, name: str, source: str, seen: list[_SeenError], days: list[int]
) -> Html:
    by_day = [sum(int(each.ts // _DAY_SECONDS) == day for each in seen) for day in days]
    newest = max(seen, key=lambda each: each.ts)
    numbers = [len(seen) - sum(by_day), *by_day, len(seen)]
    address = "/inbox?state=failed" if source == "messages" else "/"
    return row(
        gist(call.workspace.mask(name), 60),
        tag("a", source, href=address),
        *map(number, numbers),
        moment(newest.ts),
        gist(call.workspace.mask(newest.reason), 200),
        numbers=tuple(range(2, 2 + len(numbers))),
    )


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


def _statuses(metrics: Metrics) -> Html:
    errors = metrics.errors()
    title = tag("h2", "Answers of this process that are errors")
    since = tag(
        "p", "Since ", moment(metrics.start_time), "; ", tag("a", "metrics", href="/metrics")
    )
    if not errors:
        return tag("section", title, tag("p", "None."), since)
    rows = [
        row(f"{status} {TITLES.get(status, '')}", number(amount), numbers=(1,))
        for status, amount in errors.items()
    ]
    whole = count(sum(errors.values()), "answer")
    return tag("section", title, table(("status", ">answers"), rows, whole), since)


def health_routes(server: HttpServer) -> tuple[Route, ...]:
    """Return the routes of the page, and of verification."""

    def show(call: HttpCall) -> HttpAnswer:
        return show_health(call, server.metrics)

    return (
        page_route("GET", "/health", "Health", show, query=HealthQuery, action="list"),
        *verification.ROUTES,
    )
