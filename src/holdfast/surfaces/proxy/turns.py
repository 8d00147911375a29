"""A conversation's request: logged, sent, made smaller where it was refused, its reply logged."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import msgspec

from holdfast.core.proxy.endpoints import (
    ProxyProblem,
    error_event,
    request_headers,
    response_headers,
    without_size,
)
from holdfast.engine.proxy.encodings import decode_body
from holdfast.engine.proxy.request import ClientRequest
from holdfast.engine.session.drivers.awaiting import run_in_thread

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from holdfast.core.proxy.endpoints import Endpoint
    from holdfast.engine.proxy.exchange import ProxyExchange, ProxyKeeper
    from holdfast.surfaces.http.guard import Receive, Scope, Send
    from holdfast.surfaces.proxy.upstream import Upstream, UpstreamClient, UpstreamReply


_HOLD_SECONDS: Final = 1.0
"""The longest time that an event waits for the one that decides about it."""
_ERRORS: Final = 400
"""Statuses from here on are refusals."""


class TurnRunner:
    """One request for a reply of a model."""

    def __init__(
        self,
        client: UpstreamClient,
        keeper: ProxyKeeper,
        upstream: Upstream,
        endpoint: Endpoint,
        address: str,
        *,
        encodings: Sequence[str] = (),
        body_bytes_max: int,
        planning: asyncio.Semaphore,
    ) -> None:
        """`planning` bounds the requests that are read and planned at the same time."""
        self._encodings = encodings
        self._planning = planning
        self._body_bytes_max = body_bytes_max
        self._client = client
        self._keeper = keeper
        self._upstream = upstream
        self._endpoint = endpoint
        self._address = address
        self._is_started = False
        """True once the client has status and headers."""
        self._problem: ProxyProblem | None = None

    async def run(
        self,
        scope: Scope,
        headers: Mapping[str, str],
        body: bytes,
        receive: Receive,
        send: Send,
    ) -> None:
        """Answer the request. Raises `ProxyProblem` where nothing was sent yet."""
        request = ClientRequest(
            dialect=self._endpoint.dialect,
            upstream=self._upstream.name,
            headers=dict(headers),
            session=self._endpoint.session,
            data=body,
            path_model=unquote(self._endpoint.model),
            can_join=_can_join(self._address),
        )
        await run_while_connected(self._run(request, scope, send), receive)
        if self._problem is not None:
            raise self._problem

    async def _run(self, request: ClientRequest, scope: Scope, send: Send) -> None:
        try:
            async with self._planning:
                exchange = await run_in_thread(self._begin, request)
        except ProxyProblem as problem:
            self._problem = problem
            return
        passed = request_headers(scope["headers"], is_read=exchange.is_logged)
        try:
            is_answered = False
            while not is_answered:
                if exchange.call.is_budgeted or exchange.is_changed:
                    await run_in_thread(exchange.hold)
                else:
                    exchange.hold()
                headers = exchange.request_headers(passed)
                reply = await self._client.send(
                    scope["method"], self._upstream, self._address, headers, exchange.body
                )
                try:
                    is_answered = await self._deliver(reply, exchange, send)
                finally:
                    await reply.close()
        except asyncio.CancelledError:
            await asyncio.shield(run_in_thread(exchange.break_off, "the client hung up"))
            raise
        except ProxyProblem as problem:
            await run_in_thread(exchange.break_off, problem.sentence)
            await self._tell(problem, exchange, send)
        finally:
            if exchange.call.is_open:
                reader = exchange.reader
                await run_in_thread(exchange.call.settle, reader.reply() if reader else None)

    def _begin(self, request: ClientRequest) -> ProxyExchange:
        """Log a request, and what a compressed one holds."""
        if self._encodings:
            data = decode_body(request.data, self._encodings, self._body_bytes_max)
            request = msgspec.structs.replace(request, data=data, sent=request.data)
        return self._keeper.begin(request)

    async def _tell(self, problem: ProxyProblem, exchange: ProxyExchange, send: Send) -> None:
        """Tell the client of a failure: by a status, or by an event where a stream has begun."""
        if not self._is_started:
            self._problem = problem
        elif exchange.reader is None or exchange.reader.is_between_events:
            await send_chunk(send, error_event(problem, self._endpoint.dialect))
        # The answer is left incomplete: the connection is closed, as the upstream's was.

    async def _deliver(self, reply: UpstreamReply, exchange: ProxyExchange, send: Send) -> bool:
        """Pass an answer on; False where a smaller request is to be sent instead."""
        if reply.status >= _ERRORS:
            data = await reply.read()
            if data is not None:
                if await run_in_thread(exchange.refuse, reply.status, _pairs(reply), data):
                    return False
                self._refuse_amid_stream(reply.status)
                await self._start(reply, exchange, send)
                await send({"type": "http.response.body", "body": data})
                return True
        reader = exchange.open(reply.header("content-type"), reply.header("content-encoding"))
        if not reader.is_stream:
            self._refuse_amid_stream(reply.status)
            return await self._deliver_whole(reply, exchange, send)
        return await self._deliver_stream(reply, exchange, send)

    async def _deliver_whole(
        self, reply: UpstreamReply, exchange: ProxyExchange, send: Send
    ) -> bool:
        parts: list[bytes] = []
        while (chunk := await reply.next_chunk()) is not None:
            parts.append(chunk)
            exchange.take(chunk)
        body = await run_in_thread(exchange.end_whole, b"".join(parts))
        if body is None:
            return False
        await self._start(reply, exchange, send)
        await send({"type": "http.response.body", "body": body})
        return True

    async def _deliver_stream(
        self, reply: UpstreamReply, exchange: ProxyExchange, send: Send
    ) -> bool:
        held: list[bytes] = []
        while (chunk := await self._next(reply, exchange, held, send)) is not None:
            state = exchange.take(chunk)
            if state == "refused" and not self._is_started:
                error = None if exchange.reader is None else exchange.reader.error
                if await run_in_thread(exchange.refuse, None, {}, msgspec.json.encode(error or {})):
                    return False
                state = "pass"
            held += exchange.pass_on(chunk)
            if state == "hold":
                continue
            if state == "last" and await self._end(exchange, held):
                await self._flush_some(reply, exchange, held, send)
                return False
            await self._flush(reply, exchange, held, send)
        if await self._end(exchange, held):
            await self._flush_some(reply, exchange, held, send)
            return False
        await self._flush(reply, exchange, held, send)
        if exchange.reader is not None and exchange.reader.is_cut_off:
            problem = ProxyProblem(
                502, "the upstream ended the stream before the reply was whole", "try again"
            )
            await send_chunk(send, error_event(problem, self._endpoint.dialect))
        await send({"type": "http.response.body", "body": b""})
        return True

    async def _end(self, exchange: ProxyExchange, held: list[bytes]) -> bool:
        """Store the reply that has ended; True where it goes on in that to another request."""
        async with self._planning:
            ending, goes_on = await run_in_thread(exchange.end_stream)
        held += ending
        return goes_on

    async def _flush_some(
        self, reply: UpstreamReply, exchange: ProxyExchange, held: list[bytes], send: Send
    ) -> None:
        """Pass on what there is of a reply that goes on."""
        if held:
            await self._flush(reply, exchange, held, send)

    def _refuse_amid_stream(self, status: int) -> None:
        """Raise where an answer that is no stream comes amid one."""
        if self._is_started:
            raise ProxyProblem(
                502, f"the upstream ended the reply with status {status}", "try again"
            )

    async def _next(
        self, reply: UpstreamReply, exchange: ProxyExchange, held: list[bytes], send: Send
    ) -> bytes | None:
        """Return the next chunk. What is held goes out if that takes long."""
        if not held:
            return await reply.next_chunk()
        coming = asyncio.ensure_future(reply.next_chunk())
        try:
            await asyncio.wait((coming,), timeout=_HOLD_SECONDS)
            if not coming.done():
                is_whole = exchange.reader is not None and exchange.reader.is_complete
                if is_whole and exchange.rounds is None:
                    await run_in_thread(exchange.finish)
                await self._flush(reply, exchange, held, send)
            return await coming
        finally:
            coming.cancel()

    async def _flush(
        self, reply: UpstreamReply, exchange: ProxyExchange, held: list[bytes], send: Send
    ) -> None:
        if not self._is_started:
            await self._start(reply, exchange, send)
        for chunk in held:
            await send_chunk(send, chunk)
        held.clear()

    async def _start(self, reply: UpstreamReply, exchange: ProxyExchange, send: Send) -> None:
        self._is_started = True
        await send(
            {
                "type": "http.response.start",
                "status": reply.status,
                "headers": response_headers(
                    without_size(reply.headers) if exchange.rounds else reply.headers,
                    exchange.headers(),
                ),
            }
        )


def _can_join(address: str) -> bool:
    """False for a stream of Gemini's that is one JSON list."""
    return ":streamGenerateContent" not in address or "alt=sse" in address


def _pairs(reply: UpstreamReply) -> dict[str, str]:
    return {
        name.decode("latin-1").lower(): value.decode("latin-1") for name, value in reply.headers
    }


async def run_while_connected(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Run a coroutine, and cancel it when the client hangs up."""
    task = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(_wait_for_disconnect(receive))
    try:
        await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            task.cancel()
        with suppress(asyncio.CancelledError):
            await task
    finally:
        task.cancel()
        gone.cancel()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def pass_on(reply: UpstreamReply, receive: Receive | None, send: Send) -> None:
    """Pass a body on, chunk by chunk. A body that breaks off breaks off for the client, too."""
    if receive is None:
        await _pass_chunks(reply, send)
    else:
        await run_while_connected(_pass_chunks(reply, send), receive)


async def _pass_chunks(reply: UpstreamReply, send: Send) -> None:
    while (chunk := await reply.next_chunk()) is not None:
        await send_chunk(send, chunk)
    await send({"type": "http.response.body", "body": b""})


async def send_chunk(send: Send, chunk: bytes) -> None:
    await send({"type": "http.response.body", "body": chunk, "more_body": True})
