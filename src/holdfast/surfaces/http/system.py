"""Routes about the server itself: health, readiness, metrics, and the document of all routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

from holdfast import __version__
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError
from holdfast.surfaces.http import metrics
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import Given, HttpAnswer, JsonObject, Route

if TYPE_CHECKING:
    from holdfast.surfaces.http.route import HttpCall
    from holdfast.surfaces.http.server import HttpServer


class Health(Given, frozen=True):
    """The process runs."""

    status: Literal["ok"]
    """Always `ok`."""
    version: str
    """The version of Holdfast."""


def _health(_call: HttpCall) -> HttpAnswer:
    """Answers as long as the process does; `/readyz` also asks the store."""
    return HttpAnswer(Health("ok", __version__))


def _ready(call: HttpCall) -> HttpAnswer:
    try:
        call.store.queues.counts("inbox")
        call.store.sessions(limit=1)
    except HoldfastError as error:
        raise Problem(503, "the store does not answer", code=error.code) from error
    return HttpAnswer(Health("ok", __version__))


def _never(_call: HttpCall) -> HttpAnswer:
    raise AssertionError("the server answers these itself")


async def run(route: Route, call: HttpCall, server: HttpServer) -> HttpAnswer:
    """HttpAnswer for the server."""
    if route.path == "/openapi.json":
        return HttpAnswer(server.document())
    if route.path == "/metrics":
        text = await run_in_thread(server.metrics.text, call.gateway)
        return HttpAnswer(text.encode(), media_type=metrics.MEDIA_TYPE)
    return await run_in_thread(_ready, call) if route.path == "/readyz" else _health(call)


ROUTES: Final = (
    Route("GET", "/healthz", "The process runs", _health, Health, is_open=True),
    Route("GET", "/readyz", "The store answers", _ready, Health, is_open=True),
    Route(
        "GET",
        "/metrics",
        "Counts for Prometheus",
        _never,
        "text/plain",
        scope="admin",
        is_for_operator=True,
    ),
    Route("GET", "/openapi.json", "This document", _never, JsonObject, is_open=True),
)
