"""A real proxy on a port of its own, in a thread of the test."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import uvicorn

from holdfast.engine.proxy.keeper import ProxyKeeper
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.proxy.addresses import read_upstreams
from holdfast.surfaces.proxy.app import ProxyApp, ProxySettings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.ports import SessionStore
    from holdfast.testing import Loopback


class RunningProxy:
    """A proxy in front of an upstream. It has the addresses of a loopback, for the SDK tests."""

    def __init__(self, upstream: str, store: SessionStore, **options: Any) -> None:
        settings = {
            name: options.pop(name)
            for name in ("hosts", "body_bytes_max", "silent_seconds")
            if name in options
        }
        self.store = store
        self.keeper = ProxyKeeper(store, **options)
        names = ("anthropic", "openai", "gemini", "other")
        upstreams = read_upstreams([f"{name}={upstream}" for name in names])
        self._upstreams: dict[str, Any] = dict(upstreams)
        app = ProxyApp(ProxySettings(upstreams=self._upstreams, **settings), self.keeper)
        config = uvicorn.Config(
            app,
            host="127.0.0.1",
            port=0,
            log_level="critical",
            server_header=False,
            date_header=False,
            http="h11",
            ws="none",
            lifespan="on",
            timeout_graceful_shutdown=1,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._started = threading.Event()

    def _run(self) -> None:
        async def main() -> None:
            task = asyncio.ensure_future(self._server.serve())
            while not self._server.started and not task.done():
                await asyncio.sleep(0.01)
            self._started.set()
            await task

        asyncio.run(main())

    def start(self) -> None:
        self._thread.start()
        assert self._started.wait(30)

    def stop(self) -> None:
        self._server.should_exit = True
        self._thread.join(30)

    def lead_to(self, address: str) -> None:
        """Give every upstream another address."""
        names = [f"{name}={address}" for name in self._upstreams]
        self._upstreams.update(read_upstreams(names))

    @property
    def port(self) -> int:
        port: int = self._server.servers[0].sockets[0].getsockname()[1]
        return port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def openai_url(self) -> str:
        return f"{self.url}/v1"


@contextmanager
def running_proxy(
    upstream: Loopback | str, store: SessionStore | None = None, **options: Any
) -> Iterator[RunningProxy]:
    """Run a proxy in front of a loopback, or of any address."""
    address = upstream if isinstance(upstream, str) else upstream.url
    proxy = RunningProxy(address, store or MemoryStore(), **options)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
