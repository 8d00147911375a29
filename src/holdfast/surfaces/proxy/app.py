"""The proxy as an ASGI application: what need not be changed is not changed."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.core.proxy.endpoints import (
    OWN_PATH,
    READABLE_ENCODINGS,
    ProxyProblem,
    error_json,
    find_endpoint,
    guess_client,
    request_headers,
    response_headers,
)
from holdfast.engine.proxy.encodings import find_unreadable, read_encodings
from holdfast.errors import BadSetting
from holdfast.surfaces.http.guard import Guard, GuardSettings
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.proxy.streaming import pass_on
from holdfast.surfaces.proxy.turns import TurnRunner
from holdfast.surfaces.proxy.upstream import UpstreamClient, leads_back

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, MutableMapping, Sequence

    from holdfast.core.proxy.endpoints import Endpoint
    from holdfast.engine.proxy.exchange import ProxyKeeper
    from holdfast.surfaces.http.guard import Receive, Scope, Send
    from holdfast.surfaces.proxy.addresses import Upstream

_log: Final = logging.getLogger(__name__)
BODY_BYTES_MAX: Final = 64 * 1024 * 1024
"""More than any provider takes: the largest limit of those we know is 50 MB."""
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
        self._settings = settings
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
        self._client: UpstreamClient | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        async with UpstreamClient(silent_seconds=self._settings.silent_seconds) as client:
            self._client = client
            await send({"type": "lifespan.startup.complete"})
            await receive()
        await send({"type": "lifespan.shutdown.complete"})

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        dialect = guess_client("", headers).name
        has_begun = False

        async def send_noting(message: MutableMapping[str, Any]) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

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
            await self._pass(endpoint, headers, scope, receive, send_noting)
        except Problem as problem:
            refused = ProxyProblem(problem.status, problem.detail, problem.hint or "")
            await send_problem(send, refused, dialect)
        except ProxyProblem as refused:
            await send_problem(send, refused, dialect)
        except Exception:
            if has_begun:
                raise  # the connection is closed, and no whole answer made up
            _log.exception("a request failed")
            failed = ProxyProblem(500, "an error of the proxy's own; its log says more", _REPORT)
            await send_problem(send, failed, dialect)

    async def _pass(
        self,
        endpoint: Endpoint,
        headers: Mapping[str, str],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        if headers.get("upgrade", "").casefold() == "websocket":
            raise ProxyProblem(
                426,
                "web sockets are not passed on",
                "send the same request over HTTP",
                code="no_web_sockets",
            )
        upstream = self.upstreams[endpoint.upstream]
        if leads_back(upstream, scope.get("server")):
            raise ProxyProblem(
                508,
                f"the upstream `{upstream.name}` is this proxy itself",
                "give --upstream the address of the provider",
                code="loop",
            )
        address = upstream.address(endpoint.path, scope["query_string"].decode("latin-1"))
        if endpoint.is_turn and scope["method"] == "POST":
            encodings = read_encodings(headers.get("content-encoding", ""))
            unreadable = find_unreadable(encodings)
            if not unreadable:
                await self._run_turn(endpoint, address, encodings, headers, scope, receive, send)
                return
            self._keeper.pass_unread(_unreadable(unreadable))
        await self._pass_unread(upstream, address, headers, scope, receive, send)

    async def _run_turn(
        self,
        endpoint: Endpoint,
        address: str,
        encodings: Sequence[str],
        headers: Mapping[str, str],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a request for a reply of a model."""
        assert self._client is not None
        body = await self._guard.read(scope, receive)
        if body is None:
            return
        runner = TurnRunner(
            self._client,
            self._keeper,
            self.upstreams[endpoint.upstream],
            endpoint,
            address,
            encodings=encodings,
            body_bytes_max=self._settings.body_bytes_max,
        )
        await runner.run(scope, headers, body, receive, send)

    async def _pass_unread(
        self,
        upstream: Upstream,
        address: str,
        headers: Mapping[str, str],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Pass a request and its answer on, and read neither."""
        assert self._client is not None
        passed = request_headers(scope["headers"], is_read=False)
        has_body = "content-length" in headers or "transfer-encoding" in headers
        content: bytes | AsyncIterator[bytes] = _chunks(receive) if has_body else b""
        if "content-length" in headers:  # a streamed body would be sent in chunks otherwise
            passed.append((b"content-length", headers["content-length"].encode("latin-1")))
        reply = await self._client.send(scope["method"], upstream, address, passed, content)
        try:
            await send(
                {
                    "type": "http.response.start",
                    "status": reply.status,
                    "headers": response_headers(reply.headers, {}),
                }
            )
            await pass_on(reply, None if has_body else receive, send)
        finally:
            await reply.close()


def _path_of(scope: Scope) -> str:
    """The path of a request, which may come with a whole address."""
    path = str(scope.get("raw_path", scope["path"].encode()).decode("latin-1").partition("?")[0])
    return urlsplit(path).path if path.startswith(("http://", "https://")) else path


def _unreadable(encodings: str) -> ProxyProblem:
    return ProxyProblem(
        415,
        f"requests with the encoding `{encodings}` cannot be read, so they cannot be logged",
        f"use {', '.join(READABLE_ENCODINGS)} or none; `--mode observe` passes them on",
        code="compressed_request",
    )


def _endpoint_of(
    path: str, headers: Mapping[str, str], upstreams: Mapping[str, Upstream]
) -> Endpoint:
    try:
        return find_endpoint(path, headers, upstreams)
    except BadSetting as error:
        raise ProxyProblem(404, str(error), error.hint or "") from error


async def _chunks(receive: Receive) -> AsyncIterator[bytes]:
    """The body of a client's request as it comes."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise asyncio.CancelledError
        yield message.get("body", b"")
        if not message.get("more_body"):
            return


async def send_problem(send: Send, problem: ProxyProblem, dialect: str) -> None:
    """Answer with an error in the client's dialect."""
    _log.warning("%s", problem.sentence, extra={"status": problem.status})
    more = [(b"upgrade", b"HTTP/1.1"), (b"connection", b"upgrade")] * (problem.status == 426)
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
