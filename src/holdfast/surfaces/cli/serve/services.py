"""Services of the gateway: retention by its rules each hour, and the vectors of memory."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.engine.gateway.gateway import ServiceStatus
from holdfast.engine.retention import apply_retention
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from holdfast.core.retention import Retention
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.memory.vectors import VectorWorker

log = logging.getLogger("holdfast.retention")
PAUSE_SECONDS: Final = 3_600.0
"""Rules count in days: an hour more is none."""


class RetentionService:
    """Moves sessions to the trash by the rules of the settings, and says how many went."""

    def __init__(self, gateway: Gateway, retention: Retention) -> None:
        self._gateway = gateway
        self.rules = retention
        """The rules, which may be others by the next time."""
        self._status = ServiceStatus("retention", "stopped", since=gateway.now())
        self._task: asyncio.Task[None] | None = None
        self._count = 0

    @property
    def status(self) -> ServiceStatus:
        """The state, now."""
        return self._status

    async def start(self) -> None:
        """Apply the rules, now and each hour."""
        self._status = ServiceStatus("retention", "running", since=self._gateway.now())
        self._task = asyncio.create_task(self._run(), name="holdfast-retention")

    async def stop(self) -> None:
        """Apply them no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        self._status = ServiceStatus("retention", "stopped", since=self._gateway.now())

    async def close(self) -> None:
        """Do nothing: everything is stored."""

    async def look(self) -> None:
        """Apply the rules once."""
        store, now = self._gateway.store, self._gateway.now
        try:
            found = await run_in_thread(apply_retention, store, self.rules, clock=now)
        except HoldfastError as error:  # the next look may work
            log.warning("cannot apply the rules of retention: %s", error)
            self._status = ServiceStatus("retention", "failed", str(error), now())
            return
        self._count += len(found)
        for each in found:
            log.info("moved %s/%s to the trash (%s)", each.agent, each.id, each.why)
        detail = f"{self._count:,} sessions moved to the trash"
        self._status = ServiceStatus("retention", "running", detail, self._status.since)

    async def _run(self) -> None:
        while True:
            await self.look()
            await asyncio.sleep(PAUSE_SECONDS)


class VectorService:
    """Stops making vectors when the gateway stops, and says how many were made."""

    def __init__(self, worker: VectorWorker) -> None:
        self._worker = worker
        self._since = time.time()
        self._is_stopped = False

    @property
    def status(self) -> ServiceStatus:
        """The state, now."""
        if self._is_stopped:
            return ServiceStatus("vectors", "stopped", since=self._since)
        if self._worker.error:
            return ServiceStatus("vectors", "failed", self._worker.error, self._since)
        made = f"{self._worker.made:,} vectors made"
        return ServiceStatus("vectors", "running", made, self._since)

    async def start(self) -> None:
        """Do nothing: the first search that lacks vectors starts it."""

    async def stop(self) -> None:
        """Make no more of them."""
        self._is_stopped = True
        await run_in_thread(self._worker.close)

    async def close(self) -> None:
        """Do nothing: everything that was made is stored."""
