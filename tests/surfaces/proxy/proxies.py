"""A real proxy on a port of its own, in a thread of the test."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.proxy.app import ProxyApp, ProxySettings
from holdfast.surfaces.proxy.running import ProxyThread
from holdfast.surfaces.proxy.upstream import read_upstreams

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
        self._thread = ProxyThread(app)

    def start(self) -> None:
        self._thread.__enter__()

    def stop(self) -> None:
        self._thread.__exit__()

    def lead_to(self, address: str) -> None:
        """Give every upstream another address."""
        names = [f"{name}={address}" for name in self._upstreams]
        self._upstreams.update(read_upstreams(names))

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    @property
    def url(self) -> str:
        return self._thread.url

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
