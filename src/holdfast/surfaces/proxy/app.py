"""The proxy as an ASGI application: what need not be changed is not changed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.core.proxy.endpoints import (
    OWN_PATH,
    ProxyProblem,
    error_json,
    find_endpoint,
    guess_client,
)
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import BadSetting, HoldfastError
from holdfast.surfaces.http.guard import Guard, GuardSettings, read_headers
from holdfast.surfaces.http.outgoing import OutgoingAnswer
from holdfast.surfaces.http.paying_clients import let_pay
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.proxy.passing import RequestPassing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.proxy.endpoints import Endpoint
    from holdfast.engine.proxy.exchange import ProxyKeeper
    from holdfast.surfaces.http.guard import Receive, Scope, Send
    from holdfast.surfaces.proxy.upstream import Upstream

_log: Final = logging.getLogger(__name__)
BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""More than any provider takes: the largest limit of those we know is 50 MB."""
_TEND_SECONDS: Final = 60.0
"""Between two looks at calls that were not settled."""
_REPORT: Final = "`--mode observe` changes nothing; please report it"


class ProxySettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the door and of the way to the upstreams."""

    upstreams: dict[str, Upstream]
    hosts: tuple[str, ...] = ()
    body_bytes_max: int = BODY_BYTES_MAX
    silent_seconds: float = 600.0
    """The longest silence of an upstream."""


class ProxyApp:
    """Passes requests on to upstreams, and conversations through the keeper of sessions."""

    def __init__(self, settings: ProxySettings, keeper: ProxyKeeper) -> None:
        self.upstreams: Mapping[str, Upstream] = settings.upstreams
        self._guard = Guard(
            self,
            GuardSettings(
                hosts=settings.hosts,
                body_bytes_max=settings.body_bytes_max,
                body_seconds=settings.silent_seconds,
                requests_per_second=1_000.0,
                requests_burst=10_000,
            ),
        )
        self._keeper = keeper
        self._passing = RequestPassing(
            settings.upstreams,
            self._guard.read,
            silent_seconds=settings.silent_seconds,
            body_bytes_max=settings.body_bytes_max,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with self._passing.connect():
            tending = asyncio.create_task(self._tend(), name="holdfast-budgets")
            await send({"type": "lifespan.startup.complete"})
            await receive()
            tending.cancel()
            await asyncio.wait([tending])
        await send({"type": "lifespan.shutdown.complete"})

    async def _tend(self) -> None:
        """Count the calls that nobody settles any more."""
        meter = self._keeper.meter
        while meter is not None:
            try:
                await run_in_thread(meter.tend)
            except HoldfastError as error:  # the next look may work
                _log.warning("cannot look after the budgets: %s", error)
            await asyncio.sleep(_TEND_SECONDS)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = read_headers(scope)
        dialect = guess_client("", headers).name
        answer = OutgoingAnswer(scope, send)
        send = answer.send
        try:
            self._guard.check(scope)
            path = _path_of(scope)
            if path == "/" and scope["method"] in ("HEAD", "GET"):
                await _send_json(send, 200, {"holdfast": "proxy"})
                return
            if path == f"{OWN_PATH}/health":
                await _send_json(send, 200, {"holdfast": "proxy", **self._keeper.describe()})
                return
            endpoint = _endpoint_of(path, headers, self.upstreams)
            dialect = endpoint.dialect
            with let_pay("", answer):
                await self._passing.run(endpoint, self._keeper, headers, scope, receive, send)
        except Problem as problem:
            refused = ProxyProblem(problem.status, problem.detail, problem.hint or "")
            await send_problem(send, refused, dialect)
        except ProxyProblem as refused:
            await send_problem(send, refused, dialect)
        except Exception:
            if answer.has_begun:
                raise  # the connection is closed, and no whole answer made up
            _log.exception("a request failed")
            failed = ProxyProblem(500, "an error of the proxy's own; its log says more", _REPORT)
            await send_problem(send, failed, dialect)


def _path_of(scope: Scope) -> str:
    """The path of a request, which may come with a whole address."""
    path = str(scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0])
    return urlsplit(path).path if path.startswith(("http://", "https://")) else path


def _endpoint_of(
    path: str, headers: Mapping[str, str], upstreams: Mapping[str, Upstream]
) -> Endpoint:
    try:
        return find_endpoint(path, headers, upstreams)
    except BadSetting as error:
        raise ProxyProblem(404, str(error), error.hint or "") from error


async def send_problem(send: Send, problem: ProxyProblem, dialect: str) -> None:
    """Answer with an error in the client's dialect."""
    _log.warning("%s", problem.sentence, extra={"status": problem.status})
    more = [(b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade")] * (problem.status == 426)
    more += [(name.encode(), value.encode()) for name, value in problem.headers.items()]
    await _send_json(send, problem.status, error_json(problem, dialect), more)


async def _send_json(
    send: Send, status: int, value: object, headers: list[tuple[bytes, bytes]] | None = None
) -> None:
    body = msgspec.json.encode(value)
    pairs = [
        (b"content-type", b"application/json"),
        (b"content-length", str(len(body)).encode()),
        *(headers or ()),
    ]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": body})
