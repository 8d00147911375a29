"""Routes about the server itself: health, readiness, metrics, and the document of all routes."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Final, Literal, Protocol

from holdfast import __version__
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError
from holdfast.surfaces.http import metrics
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import Given, HttpAnswer, JsonObject, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Json
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.surfaces.http.route import HttpCall

_LOOK_SECONDS: Final = 1.0
"""For which the store's last answer counts: anyone may ask whether the server is ready."""
_log: Final = logging.getLogger(__name__)


class Health(Given, frozen=True):
    """The process runs."""

    status: Literal["ok"]
    """Always `ok`."""
    version: str
    """The version of Holdfast."""


def _health(_call: HttpCall) -> HttpAnswer:
    """Answers as long as the process does; `/readyz` says whether a turn would be answered."""
    return HttpAnswer(Health("ok", __version__))


class Readiness:
    """Knows whether a turn can be answered: everything is loaded, the store answers and takes
    messages."""

    def __init__(self, gateway: Gateway, steps: Sequence[Callable[[], None]] = ()) -> None:
        """`steps` load what the first turn would wait for; each runs in a thread."""
        self._gateway = gateway
        self._steps = steps
        self._state: Literal["loading", "loaded", "failed"] = "loading"
        self._looking = asyncio.Lock()
        self._looked = 0.0
        self._failure: HoldfastError | None = None

    async def load(self) -> None:
        """Load everything, one step after the other."""
        try:
            for step in self._steps:
                await run_in_thread(step)
        except Exception:
            self._state = "failed"
            _log.exception("the server cannot answer turns")
        else:
            self._state = "loaded"

    async def check(self) -> None:
        """Raise `Problem` where a turn could not be answered now."""
        if self._state == "failed":
            raise Problem(503, "the server cannot answer turns", hint="its log says why")
        if self._state == "loading":
            raise Problem(503, "the server is loading", hint="ask again in a second")
        state = self._gateway.state
        if state == "stopped":
            raise Problem(503, "the server is stopping", hint="ask another one")
        async with self._looking:
            if time.monotonic() - self._looked >= _LOOK_SECONDS:
                self._failure = await run_in_thread(self._look)
                self._looked = time.monotonic()
        if self._failure is not None:
            raise Problem(503, "the store does not answer", code=self._failure.code)
        if state == "blocked":
            raise Problem(503, "the store does not take messages", hint="the server's log says why")

    def _look(self) -> HoldfastError | None:
        store = self._gateway.store
        try:
            store.queues.counts("inbox", owner=ANY_OWNER)
            store.sessions(limit=1, owner=ANY_OWNER)
        except HoldfastError as error:
            return error
        return None


def _never(_call: HttpCall) -> HttpAnswer:
    raise AssertionError("the server answers these itself")


class Served(Protocol):
    """The server, as far as it tells about itself."""

    metrics: metrics.Metrics
    readiness: Readiness

    @property
    def document(self) -> Callable[[], Json]:
        """Return the OpenAPI document."""
        ...


async def run(route: Route, call: HttpCall, server: Served) -> HttpAnswer:
    """Answer for the server itself."""
    if route.path == "/openapi.json":
        return HttpAnswer(server.document())
    if route.path == "/metrics":
        text = await run_in_thread(server.metrics.text, call.gateway)
        return HttpAnswer(text.encode(), media_type=metrics.MEDIA_TYPE)
    if route.path == "/readyz":
        await server.readiness.check()
    return _health(call)


ROUTES: Final = (
    Route("GET", "/healthz", "The process runs", _health, Health, is_open=True),
    Route("GET", "/readyz", "A turn can be answered", _never, Health, is_open=True),
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
