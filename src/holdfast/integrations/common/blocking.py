"""Blocking calls of a store, awaited: they run in threads and never on an event loop."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

_T = TypeVar("_T")


async def read_in_thread(read: Callable[[], _T]) -> _T:
    """Return what a read returns. A cancelled caller does not wait for it."""
    return await asyncio.to_thread(read)


async def write_in_thread(write: Callable[[], _T]) -> _T:
    """Return what a write returns, once its outcome is known.

    A caller that is cancelled meanwhile waits for it. Then the cancellation goes on, with a note
    that says whether the write was committed.
    """
    task = asyncio.ensure_future(asyncio.to_thread(write))
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError as error:
            cancelled = cancelled or error
    if cancelled is not None:
        failed = task.exception()
        outcome = "was committed" if failed is None else f"failed, and stored nothing: {failed}"
        cancelled.add_note(f"the write {outcome}")
        raise cancelled
    return task.result()
