"""One turn of a conversation at a time, whichever process runs it: the lease of its session."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from holdfast.engine.session.drivers.lease import TurnScope, take_turn

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.ports import SessionStore


@asynccontextmanager
async def hold_turn(
    store: SessionStore, key: SessionKey, wait_seconds: float
) -> AsyncIterator[None]:
    """Hold the turn of a session for a block, waiting for it in a thread.

    Raises `TurnInProgress` when the time is up. A caller that is cancelled gives its place up.
    """
    scope = TurnScope()
    taking = asyncio.ensure_future(asyncio.to_thread(take_turn, store, key, wait_seconds, scope))
    try:
        try:
            await asyncio.shield(taking)
        except asyncio.CancelledError:
            scope.is_cancelled.set()
            await asyncio.wait({taking})  # it ends at once, and is told what it holds
            raise
        yield
    finally:
        await asyncio.to_thread(scope.release)
