"""A proxy between a browser and a server, whose connections a test can cut."""

from __future__ import annotations

import contextlib
import socket
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self


class CuttingProxy:
    """Passes bytes on in both directions, until `cut`."""

    def __init__(self, port: int) -> None:
        """`port` is that of the server on this machine."""
        self._target = ("127.0.0.1", port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._mutex = threading.Lock()
        self.is_down = False
        """New connections are closed at once."""
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cut()
        self._listener.close()

    def cut(self) -> None:
        """End every connection, as a network does, and refuse new ones."""
        self.is_down = True
        with self._mutex:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                if self.is_down:
                    client.close()
                    continue
                server = socket.create_connection(self._target)
                with self._mutex:
                    self._open |= {client, server}
                for pair in ((client, server), (server, client)):
                    threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65_536):
                target.sendall(data)
        for connection in (source, target):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        with self._mutex:
            self._open.discard(source)
        source.close()
