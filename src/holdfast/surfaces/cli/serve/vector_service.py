"""The vectors of memory as a service of the gateway: made while it runs, and not after."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.engine.gateway.gateway import ServiceStatus
from holdfast.engine.session.drivers.awaiting import run_in_thread

if TYPE_CHECKING:
    from holdfast.engine.memory.vectors import VectorWorker


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
