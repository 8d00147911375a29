"""An HTTP server that says when it listens."""

from __future__ import annotations

from typing import TYPE_CHECKING

import uvicorn

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable


class AnnouncingServer(uvicorn.Server):
    """Calls back with its address once it listens, and before it waits for open requests."""

    def __init__(
        self,
        config: uvicorn.Config,
        announce: Callable[[str], None],
        on_shutdown: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(config)
        self._announce = announce
        self._on_shutdown = on_shutdown

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            host = self.config.host
            port = self.servers[0].sockets[0].getsockname()[1]
            self._announce(f"http://{f'[{host}]' if ':' in host else host}:{port}")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._on_shutdown()
        await super().shutdown(sockets)
