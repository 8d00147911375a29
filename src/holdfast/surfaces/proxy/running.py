"""A proxy that runs: until a signal, or in a thread while something else does."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import uvicorn

from holdfast.errors import BadSetting, HoldfastError
from holdfast.surfaces.http.guard import LOOPBACK
from holdfast.surfaces.listening import AnnouncingServer, make_protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Self

    from holdfast.surfaces.proxy.app import ProxyApp

_HEAD_BYTES_MAX: Final = 256 * 1024
"""Of the address and the headers: some clients send long lists of betas and metadata."""
_START_SECONDS: Final = 60.0
"""For a server to listen; it takes milliseconds, and more on a busy machine."""


def _server(
    proxy: ProxyApp, host: str, port: int, announce: Callable[[str], None]
) -> AnnouncingServer:
    if host not in LOOPBACK:
        raise BadSetting(
            f"the proxy cannot listen on `{host}`: it has no tokens, so anyone could use it",
            hint="listen on 127.0.0.1, and reach it through a tunnel of your own",
        )
    config = uvicorn.Config(
        proxy,
        host=host,
        port=port,
        log_level="critical",
        access_log=False,
        server_header=False,
        date_header=False,
        http=make_protocol(),
        h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
        timeout_graceful_shutdown=2,
        ws="none",
        lifespan="on",
        loop="asyncio",  # the one that the tests run on, whatever else is installed
    )
    return AnnouncingServer(config, announce)


def run_proxy(proxy: ProxyApp, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends it. `announce` gets the address once it listens."""
    server = _server(proxy, host, port, announce)
    try:
        server.run()
    except SystemExit as error:
        raise BadSetting(
            f"cannot listen on {host}:{port}",
            hint="another program may use the port: choose another with --port",
        ) from error
    if not server.started:
        raise HoldfastError(f"the proxy cannot listen on {host}:{port}", hint="choose another port")


class ProxyThread:
    """A proxy on a free port of this machine, for as long as a `with` block."""

    def __init__(self, proxy: ProxyApp) -> None:
        self.url = ""
        self._is_ready = threading.Event()
        self._server = _server(proxy, "127.0.0.1", 0, self._announce)
        self._thread = threading.Thread(target=self._run, name="holdfast-proxy", daemon=True)

    def _announce(self, url: str) -> None:
        self.url = url
        self._is_ready.set()

    def _run(self) -> None:
        try:
            self._server.run()
        finally:
            self._is_ready.set()

    def __enter__(self) -> Self:
        self._thread.start()
        self._is_ready.wait(_START_SECONDS)
        if not self.url:
            raise HoldfastError("the proxy did not start", hint="try again")
        return self

    def __exit__(self, *_: object) -> None:
        self._server.should_exit = True
        self._thread.join()
