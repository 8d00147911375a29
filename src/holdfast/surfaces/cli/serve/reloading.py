"""Settings that are read again while the server runs: by SIGHUP, or by the API."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.engine.gateway.gateway import ServiceStatus
from holdfast.engine.gateway.open_sessions import TOKENS
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import BadSetting, HoldfastError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.surfaces.cli.serve.services import RetentionService
    from holdfast.surfaces.cli.serve.systemd import ServiceManager
    from holdfast.surfaces.gateway_agents import GatewayAgents
    from holdfast.surfaces.http.server import HttpServer
    from holdfast.surfaces.serve_settings import ServeSettings

_LIVE: Final = (
    "agents",
    "tokens",
    "budgets",
    "retention",
    "server.body_bytes_max",
    "server.body_seconds",
    "server.requests_per_second",
    "server.requests_burst",
    "server.certificate",
    "server.certificate_key",
)
"""Keys and tables that may change while the server runs; any other takes a restart."""
log: Final = logging.getLogger("holdfast.settings")


class SettingsService:
    """Holds the settings of a server, and reads them again."""

    def __init__(
        self,
        server: HttpServer,
        agents: GatewayAgents,
        settings: ServeSettings,
        *,
        read: Callable[[], ServeSettings],
        retention: RetentionService | None = None,
        manager: ServiceManager | None = None,
    ) -> None:
        """`read` reads them from where they are, and raises `BadSetting`."""
        self._server = server
        self._agents = agents
        self._settings = settings
        self._read = read
        self._retention = retention
        self._manager = manager
        self._status = ServiceStatus("settings", "stopped", since=server.gateway.now())
        self._lock = asyncio.Lock()
        self._has_terminal = _has_terminal()
        self._tasks: set[asyncio.Task[None]] = set()
        self.on_certificate: Callable[[str, str], object] = lambda _certificate, _key: None
        """Uses another certificate for connections from then on."""

    @property
    def status(self) -> ServiceStatus:
        """The state: `failed` where the newest settings were refused."""
        return self._status

    async def start(self) -> None:
        """Read the settings again at each SIGHUP."""
        self._set_status("running", "as they were at the start")
        with suppress(ValueError, RuntimeError):  # signals are the main thread's
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, self._on_hangup)

    async def stop(self) -> None:
        """Read them no more."""
        with suppress(ValueError, RuntimeError):
            asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
        self._set_status("stopped", "")

    async def close(self) -> None:
        """Do nothing: a reload is whole or did not happen."""

    def _on_hangup(self) -> None:
        if self._has_terminal and not _has_terminal():
            os.kill(os.getpid(), signal.SIGTERM)  # it was closed: no one asked for a reload
            return
        task = asyncio.create_task(self._reload_and_log(), name="holdfast-reload")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reload_and_log(self) -> None:
        with suppress(HoldfastError):  # it is in the log, and in the status
            await self.reload()

    async def reload(self) -> list[str]:
        """Read the settings, and let them take the place of the old ones: all of them or none."""
        async with self._lock:
            if self._manager is not None:
                self._manager.say_reloading()
            try:
                changed = await self._reload()
            except HoldfastError as error:
                log.error("the settings were not reloaded, the old ones stay in force: %s", error)
                self._set_status("failed", f"the newest were refused: {error}")
                hint = f"the old ones stay in force; {error.hint or 'correct them'}"
                raise BadSetting(f"the settings were not reloaded: {error}", hint=hint) from error
            else:
                named = ", ".join(changed) or "nothing"
                log.warning("the settings were reloaded; changed: %s", named)
                self._set_status("running", "reloaded")
            finally:
                if self._manager is not None:
                    self._manager.say_ready(f"settings: {self._status.detail}")
        return changed

    async def _reload(self) -> list[str]:
        server, old = self._server, self._settings
        new = await run_in_thread(self._read)
        needed = await server.tokens.are_needed()
        new.check(are_tokens_needed=needed)
        changed = [*_changes(msgspec.to_builtins(old), msgspec.to_builtins(new))]
        for key in changed:
            self._check_change(key, old, new)
        agents = await run_in_thread(partial(self._agents.make_others, new.agents))
        # Whatever can fail has been done.
        self._settings = new
        self._agents.take(agents)
        server.limit(new.server.guard())
        server.tokens.use(new.tokens)
        server.gateway.meter.budgets = new.budgets
        if self._retention is not None and new.retention is not None:
            self._retention.rules = new.retention
        if new.server.certificate:
            self.on_certificate(new.server.certificate, new.server.certificate_key)
        server.gateway.live.publish(TOKENS, "")
        await server.gateway.sessions.forget_all()
        return changed

    def _check_change(self, key: str, old: ServeSettings, new: ServeSettings) -> None:
        is_live = any(key == name or key.startswith(f"{name}.") for name in _LIVE)
        if key.startswith("retention"):
            is_live = old.retention is not None and new.retention is not None
        if key.startswith("server.certificate"):
            is_live = bool(old.server.certificate) == bool(new.server.certificate)
        if old.telegram is not None and key.startswith(f"agents.{old.telegram.agent}"):
            is_live = False
        if not is_live:
            raise BadSetting(
                f"`{key}` cannot change while the server runs",
                hint="restart the server to change it",
            )

    def _set_status(self, state: Any, detail: str) -> None:
        now = self._server.gateway.now()
        said = f"{detail} at {time.strftime('%Y-%m-%d %H:%M:%S', time.gmtime(now))} UTC"
        self._status = ServiceStatus("settings", state, said if detail else "", now)


def _has_terminal() -> bool:
    """Return whether someone sits at this process."""
    try:
        return os.isatty(0) and os.tcgetpgrp(0) > 0
    except OSError:
        return False


def _changes(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Yield the keys whose values differ, as they are written in the file."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        if old != new:
            yield place
        return
    for name in sorted(old.keys() | new.keys()):
        inner = f"{place}.{name}" if place else name
        if name not in old or name not in new:
            yield inner
        else:
            yield from _changes(old[name], new[name], inner)
