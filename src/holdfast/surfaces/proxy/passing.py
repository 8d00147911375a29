"""The way of a request to its upstream and back. A conversation is logged, the rest unread."""

from __future__ import annotations

import asyncio
import os
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.core.proxy.endpoints import (
    READABLE_ENCODINGS,
    ProxyProblem,
    request_headers,
    response_headers,
)
from holdfast.engine.proxy.encodings import find_unreadable, read_encodings
from holdfast.surfaces.proxy.turns import TurnRunner, pass_on
from holdfast.surfaces.proxy.upstream import UpstreamClient, leads_back

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence

    from holdfast.core.proxy.endpoints import Endpoint
    from holdfast.engine.proxy.exchange import ProxyKeeper
    from holdfast.surfaces.http.guard import Receive, Scope, Send
    from holdfast.surfaces.proxy.upstream import Upstream

    ReadBody = Callable[[Scope, Receive], Awaitable[bytes | None]]
    """Reads a body within the limits; None where the client went away."""

FREE_PATHS: Final = ("/models", "/count_tokens")
"""The ends of paths that pass unread, and that no provider charges for."""
_PLANNING_BESIDE: Final = 4
"""Requests that are planned at the same time, beside one for each core: some wait for the disk."""


class PassedTurn(NamedTuple):
    """A request for a reply of a model, and where it goes."""

    endpoint: Endpoint
    keeper: ProxyKeeper
    address: str
    encodings: Sequence[str]


class RequestPassing:
    """Passes requests on to upstreams, and conversations through a keeper of sessions."""

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        read_body: ReadBody,
        *,
        silent_seconds: float,
        body_bytes_max: int,
    ) -> None:
        self.upstreams = upstreams
        self._read_body = read_body
        self._silent_seconds = silent_seconds
        self._body_bytes_max = body_bytes_max
        self._client: UpstreamClient | None = None
        # Threads that compute take turns: of many, each would end as late as the last one.
        self._planning = asyncio.Semaphore((os.cpu_count() or 1) + _PLANNING_BESIDE)

    @property
    def client(self) -> UpstreamClient:
        """The connections to upstreams."""
        assert self._client is not None, "use `connect`"
        return self._client

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[None]:
        """Hold connections for as long as the block runs."""
        async with UpstreamClient(silent_seconds=self._silent_seconds) as client:
            self._client = client
            yield

    async def run(
        self,
        endpoint: Endpoint,
        keeper: ProxyKeeper,
        headers: Mapping[str, str],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a request with what its upstream answers. Raises `ProxyProblem`."""
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
        is_turn = endpoint.is_turn and scope["method"] == "POST"
        if is_turn:
            encodings = read_encodings(headers.get("content-encoding", ""))
            unreadable = find_unreadable(encodings)
            if not unreadable:
                turn = PassedTurn(endpoint, keeper, address, encodings)
                await self._run_turn(turn, headers, scope, receive, send)
                return
            if keeper.is_budgeted:
                raise _not_counted(415, f"a request with the encoding `{unreadable}`")
            keeper.pass_unread(_unreadable(unreadable))
        may_cost = scope["method"] not in ("GET", "HEAD") and not endpoint.path.endswith(FREE_PATHS)
        if keeper.is_budgeted and may_cost and not is_turn:
            raise _not_counted(403, f"a request to {endpoint.path[:100]}")
        await self._pass_unread(upstream, address, headers, scope, receive, send)

    async def _run_turn(
        self,
        turn: PassedTurn,
        headers: Mapping[str, str],
        scope: Scope,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer a request for a reply of a model."""
        body = await self._read_body(scope, receive)
        if body is None:
            return
        runner = TurnRunner(
            self.client,
            turn.keeper,
            self.upstreams[turn.endpoint.upstream],
            turn.endpoint,
            turn.address,
            encodings=turn.encodings,
            body_bytes_max=self._body_bytes_max,
            planning=self._planning,
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
        passed = request_headers(scope["headers"], is_read=False)
        has_body = "content-length" in headers or "transfer-encoding" in headers
        content: bytes | AsyncIterator[bytes] = _chunks(receive) if has_body else b""
        if "content-length" in headers:  # a streamed body would be sent in chunks otherwise
            passed.append((b"content-length", headers["content-length"].encode("latin-1")))
        reply = await self.client.send(scope["method"], upstream, address, passed, content)
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


def _not_counted(status: int, what: str) -> ProxyProblem:
    return ProxyProblem(
        status,
        f"{what} cannot be counted, and there are budgets",
        f"requests for replies are, with {', '.join(READABLE_ENCODINGS)} or no encoding",
        code="not_counted",
    )


def _unreadable(encodings: str) -> ProxyProblem:
    return ProxyProblem(
        415,
        f"requests with the encoding `{encodings}` cannot be read, so they cannot be logged",
        f"use {', '.join(READABLE_ENCODINGS)} or none; `--mode observe` passes them on",
        code="compressed_request",
    )


async def _chunks(receive: Receive) -> AsyncIterator[bytes]:
    """The body of a client's request as it comes."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise asyncio.CancelledError
        yield message.get("body", b"")
        if not message.get("more_body"):
            return
