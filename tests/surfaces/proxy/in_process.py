"""A proxy without sockets: requests go through its ASGI application to an upstream in memory."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec

from holdfast.surfaces.proxy.addresses import read_upstreams
from holdfast.surfaces.proxy.app import ProxyApp, ProxySettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, MutableMapping, Sequence

    import pytest

    from holdfast.engine.proxy.keeper import ProxyKeeper

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
        self.bodies: list[bytes] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []

    async def answer(self, request: httpx2.Request) -> httpx2.Response:
        self.bodies.append(await request.aread())
        self.headers.append(list(request.headers.raw))
        told = {"content-type": self.content_type}
        return httpx2.Response(200, headers=told, stream=_Packets(self.packets))


class _Packets(httpx2.AsyncByteStream):
    def __init__(self, packets: Sequence[bytes]) -> None:
        self._packets = packets

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for packet in self._packets:
            yield packet


class InProcessProxy:
    """The application of a proxy, called as a server would call it."""

    def __init__(
        self, keeper: ProxyKeeper, upstream: MemoryUpstream, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        async def handle(_transport: Any, request: httpx2.Request) -> httpx2.Response:
            return await upstream.answer(request)

        monkeypatch.setattr(httpx2.AsyncHTTPTransport, "handle_async_request", handle)
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
        self, path: str, body: bytes, headers: Sequence[tuple[bytes, bytes]] = ()
    ) -> ClientAnswer:
        """Send a request, and return what a client would see, chunk by chunk."""
        path, _, query = path.partition("?")
        scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": query.encode(),
            "headers": [(b"host", ADDRESS), (b"content-type", b"application/json"), *headers],
            "server": ("127.0.0.1", 8485),
            "client": ("127.0.0.1", 50_000),
        }
        answer = ClientAnswer(0, {}, [])
        is_asked = False

        async def receive() -> dict[str, Any]:
            nonlocal is_asked
            if not is_asked:
                is_asked = True
                return {"type": "http.request", "body": body, "more_body": False}
            await asyncio.Event().wait()
            raise AssertionError("a client that waits hangs up")

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                answer.status = message["status"]
                answer.headers = {n.decode(): v.decode() for n, v in message["headers"]}
            elif message.get("body"):
                answer.chunks.append(message["body"])

        await self._app(scope, receive, send)
        return answer
