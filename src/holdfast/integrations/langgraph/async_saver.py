"""The asynchronous half of `HoldfastSaver`: the same methods, in threads."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from holdfast.core.limits import TURN_WAIT_SECONDS
from holdfast.engine.adapters import require
from holdfast.integrations.common.blocking import read_in_thread, write_in_thread
from holdfast.integrations.common.turns import hold_turn
from holdfast.integrations.langgraph.saver import SaverMethods

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence


class AsyncSaverMethods(SaverMethods):
    """Keeps checkpoints in any store. It is a `BaseCheckpointSaver` of LangGraph.

    `root` is the address of a store, `store` an open one; `serde` is LangGraph's. `delete` says
    what `delete_thread` does: a thread in the trash can be restored, an erased one not.
    """

    async def aget_tuple(self, config: Any) -> Any:
        """Return a checkpoint, as `get_tuple` does."""
        return await read_in_thread(lambda: self.get_tuple(config))

    async def alist(self, config: Any, **about: Any) -> AsyncIterator[Any]:
        """Yield checkpoints, as `list` does."""
        for found in await read_in_thread(lambda: [*self.list(config, **about)]):
            yield found

    async def aput(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint, as `put` does."""
        return await write_in_thread(lambda: self.put(config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store writes, as `put_writes` does."""
        await write_in_thread(lambda: self.put_writes(config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Delete a thread, as `delete_thread` does."""
        await write_in_thread(lambda: self.delete_thread(thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Take away checkpoints, as `delete_for_runs` does."""
        await write_in_thread(lambda: self.delete_for_runs(run_ids))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Take away checkpoints, as `prune` does."""
        await write_in_thread(lambda: self.prune(thread_ids, strategy=strategy))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy a thread, as `copy_thread` does."""
        await write_in_thread(lambda: self.copy_thread(source_thread_id, target_thread_id))

    @asynccontextmanager
    async def aturn(
        self, thread_id: str, *, wait_seconds: float = TURN_WAIT_SECONDS
    ) -> AsyncIterator[None]:
        """Hold the turn of a thread, as `turn` does."""
        key = await write_in_thread(lambda: self._home.ensure((str(thread_id),)))
        async with hold_turn(self._home.store, key, wait_seconds):
            yield

    async def aget_delta_channel_history(
        self, *, config: Any, channels: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        """Return the history of channels, as `get_delta_channel_history` does."""
        return await read_in_thread(
            lambda: self.get_delta_channel_history(config=config, channels=channels)
        )


@cache
def saver_class() -> type:
    """Return `HoldfastSaver`, made on first use: its base is a class of LangGraph."""
    require("langgraph")
    from langgraph.checkpoint.base import BaseCheckpointSaver

    return type(
        "HoldfastSaver",
        (AsyncSaverMethods, BaseCheckpointSaver),
        {"__doc__": AsyncSaverMethods.__doc__, "__module__": "holdfast.integrations.langgraph"},
    )
