"""A proxy without sockets: requests go through its ASGI application to an upstream in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.surfaces.proxy.app import ProxyApp, ProxySettings
from holdfast.surfaces.proxy.upstream import UpstreamClient, UpstreamReply, read_upstreams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping, Sequence

    import pytest

    from holdfast.engine.proxy.exchange import ProxyKeeper
    from holdfast.surfaces.proxy.upstream import Upstream

ADDRESS = b"127.0.0.1:8485"


class ClientAnswer(msgspec.Struct):
    """An answer as the client got it."""

    status: int
    headers: dict[str, str]
    chunks: list[bytes]

    @property
    def data(self) -> bytes:
        return b"".join(self.chunks)


class MemoryUpstream:
    """Answers with the packets that it was given last, and keeps what it was sent."""

    def __init__(self) -> None:
        self.packets: Sequence[bytes] = ()
        self.content_type = "text/event-stream"
        self.content_encoding = ""
        self.bodies: list[bytes] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []

    async def answer(
        self, headers: Sequence[tuple[bytes, bytes]], body: bytes | AsyncIterator[bytes]
    ) -> UpstreamReply:
        whole = body if isinstance(body, bytes) else b"".join([piece async for piece in body])
        self.bodies.append(whole)
        self.headers.append(list(headers))
        told = [(b"content-type", self.content_type.encode())]
        if self.content_encoding:
            told.append((b"content-encoding", self.content_encoding.encode()))
        return UpstreamReply(200, told, _Packets(self.packets))


class _Packets:
    def __init__(self, packets: Sequence[bytes]) -> None:
        self._left = list(packets)

    async def next_piece(self) -> bytes | None:
        return self._left.pop(0) if self._left else None

    async def close(self) -> None:
        self._left.clear()


class InProcessProxy:
    """The application of a proxy, called as a server would call it."""

    def __init__(
        self, keeper: ProxyKeeper, upstream: MemoryUpstream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def handle(
            _client: Any,
            _method: str,
            _upstream: Upstream,
            _address: str,
            headers: Sequence[tuple[bytes, bytes]],
            body: bytes | AsyncIterator[bytes],
        ) -> UpstreamReply:
            return await upstream.answer(headers, body)

        monkeypatch.setattr(UpstreamClient, "send", handle)
        self._app = ProxyApp(ProxySettings(upstreams=read_upstreams([])), keeper)

    async def __aenter__(self) -> InProcessProxy:
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._events.put_nowait({"type": "lifespan.startup"})
        told: asyncio.Queue[Any] = asyncio.Queue()
        scope = {"type": "lifespan"}
        self._life = asyncio.ensure_future(self._app(scope, self._events.get, told.put))
        await told.get()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._events.put_nowait({"type": "lifespan.shutdown"})
        await self._life

    async def post(
        self,
        path: str,
        body: bytes,
        headers: Sequence[tuple[bytes, bytes]] = (),
        *,
        hang_up_after: int | None = None,
    ) -> ClientAnswer:
        """Send a request, and return what a client would see, chunk by chunk; at most
        `hang_up_after` of them, after which the client is gone."""
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [
                (b"host", ADDRESS),
                (b"content-type", b"application/json"),
                (b"content-length", str(len(body)).encode()),
                *headers,
            ],
            "server": ("127.0.0.1", 8485),
            "client": ("127.0.0.1", 50_000),
        }
        answer = ClientAnswer(0, {}, [])
        is_asked = False
        is_gone = asyncio.Event()

        async def receive() -> dict[str, Any]:
            nonlocal is_asked
            if not is_asked:
                is_asked = True
                return {"type": "http.request", "body": body, "more_body": False}
            await is_gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {n.decode(): v.decode() for n, v in message["headers"]}
            elif message.get("body"):
                answer.chunks.append(message["body"])
                if len(answer.chunks) == hang_up_after:
                    is_gone.set()
                    await asyncio.Event().wait()  # until the request is cancelled

        await self._app(scope, receive, send)
        return answer
