"""Tells systemd the state of the server, by the protocol of sd_notify(3): lines in a datagram.

A unit with `Type=notify` counts as started when the server says so, and one with `WatchdogSec` is
restarted when it says nothing any more.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.engine.gateway.gateway import ServiceStatus
from holdfast.surfaces.http.problems import Problem

if TYPE_CHECKING:
    from holdfast.config import ServiceManagerAddress
    from holdfast.surfaces.http.server import HttpServer

_READY_SECONDS: Final = 0.1
"""Between two looks whether the server is ready."""
log: Final = logging.getLogger("holdfast.systemd")


class ServiceManager:
    """Sends a service manager the state of this process. A manager that is gone hurts no one."""

    def __init__(self, address: str) -> None:
        """`address` is the path of its socket, or `@` and an abstract name."""
        self._address = f"\0{address[1:]}" if address.startswith("@") else address

    def say_ready(self, status: str = "") -> None:
        """The server answers."""
        self._send("READY=1", *([f"STATUS={status}"] if status else []))

    def say_reloading(self) -> None:
        """The settings are read again; `say_ready` ends it."""
        moment = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1_000
        self._send("RELOADING=1", f"MONOTONIC_USEC={moment}")

    def say_stopping(self) -> None:
        """The server ends."""
        self._send("STOPPING=1")

    def say_alive(self) -> None:
        """The server works."""
        self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        text = "\n".join(" ".join(line.splitlines()) for line in lines)
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out:
                out.setblocking(False)
                out.sendto(text.encode(), self._address)
        except OSError as error:
            log.warning("cannot tell the service manager `%s`: %s", lines[0], error)


class WatchdogService:
    """Tells the service manager that the server is ready, and again and again that it works."""

    def __init__(self, server: HttpServer, found: ServiceManagerAddress) -> None:
        self._server = server
        self.manager = ServiceManager(found.socket)
        self._seconds = found.watchdog_seconds
        self._status = ServiceStatus("systemd", "stopped", since=server.gateway.now())
        self._task: asyncio.Task[None] | None = None
        self.is_listening = False
        """Connections are taken."""

    @property
    def status(self) -> ServiceStatus:
        """The state, now."""
        return self._status

    async def start(self) -> None:
        """Say that the server is ready as soon as it is, and that it works from then on."""
        detail = f"told every {self._seconds / 2:g} s" if self._seconds else "no watchdog"
        self._status = ServiceStatus("systemd", "running", detail, self._server.gateway.now())
        self._task = asyncio.create_task(self._run(), name="holdfast-systemd")

    async def stop(self) -> None:
        """Say that the server ends. Its running turns have their time, and need no watchdog."""
        self.manager.say_stopping()
        self._status = ServiceStatus("systemd", "stopped", since=self._server.gateway.now())

    async def close(self) -> None:
        """Say nothing more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while not await self._is_ready():
            await asyncio.sleep(_READY_SECONDS)
        self.manager.say_ready("answers turns")
        while self._seconds:
            # Loops that ended do not come back; a store that does not answer may.
            if self._server.gateway.state != "stopped" or self._status.state == "stopped":
                self.manager.say_alive()
            await asyncio.sleep(self._seconds / 2)

    async def _is_ready(self) -> bool:
        try:
            await self._server.readiness.check()
        except Problem:
            return False
        return self.is_listening
