"""`HoldfastStorage`: the storage of Strands, for snapshots of agents, stashes and memories.

Each key has a log of its own. The messages of an agent's snapshot are records; the rest of the
snapshot, and every other value, is one beside them.
"""

from __future__ import annotations

import asyncio
import copy
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from holdfast.engine.adapters import require
from holdfast.errors import AdapterClosed, BadSetting, HoldfastError
from holdfast.integrations.common.blocking import read_in_thread, write_in_thread
from holdfast.integrations.common.home import PeerHome
from holdfast.integrations.strands.value_logs import ValueLogs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self, TypeVar

    from holdfast.integrations.common.home import Delete
    from holdfast.ports import SessionStore

    _T = TypeVar("_T")


class HoldfastStorage:
    """Keeps the values of Strands in any store. A `Storage` of Strands.

        SnapshotSessionManager("thread-1", storage=HoldfastStorage(root=".sessions"))

    `root` is the address of a store, `store` an open one. A deleted value is in the trash; with
    `delete="erase"` it is gone. `search_strategy` is one of the SDK's; by default, it compares
    words.
    """

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        agent: str | None = None,
        owner: str = "",
        delete: Delete = "trash",
        search_strategy: Any = None,
    ) -> None:
        require("strands")
        try:
            from strands.storage import storage as theirs
        except ImportError as error:
            raise BadSetting(
                "this release of strands-agents has no `Storage`",
                hint="use `HoldfastSessionRepository`, or a newer release",
            ) from error
        self._theirs = theirs
        self._home = PeerHome(
            type(self).__name__, root=root, store=store, agent=agent, owner=owner, delete=delete
        )
        self._logs = ValueLogs(self._home)
        self._search_strategy = search_strategy
        self._prefix = ""
        if self._home.store.caveat:  # in memory
            self._ephemeral = theirs._EPHEMERAL

    async def write(self, key: str, data: bytes) -> None:
        """Store bytes under a key, durably. The log keeps those before them."""
        name = self._key(key)
        if not isinstance(data, bytes | bytearray | memoryview):
            raise self._problem(f"cannot store a {type(data).__name__} under `{key}`: pass bytes")
        value = bytes(data)
        await write_in_thread(self._explain(lambda: self._logs.write(self._prefix + name, value)))
        if self._search_strategy is not None:
            try:
                await self._search_strategy.index(self, name, data)
            except Exception as error:
                raise self._problem(f"stored `{key}`, but could not index it: {error}") from error

    async def read(self, key: str) -> bytes | None:
        """Return the bytes under a key; None where there are none."""
        name = self._prefix + self._key(key)
        return await read_in_thread(self._explain(lambda: self._logs.read(name)))

    async def delete(self, key: str) -> None:
        """Delete what is under a key. Does nothing where there is nothing."""
        name = self._prefix + self._key(key)
        await write_in_thread(self._explain(lambda: self._logs.delete(name)))

    async def list(self, query: str = "") -> list[str]:
        """Return the keys that begin with a text, sorted."""
        prefix = self._prefix + self._theirs._normalize_prefix(query)
        keys = await read_in_thread(self._explain(lambda: self._logs.keys(prefix)))
        return sorted(key[len(self._prefix) :] for key in keys)

    async def search(self, query: str) -> Any:
        """Return the keys whose values match a query, best first."""
        if self._search_strategy is not None:
            return await self._search_strategy.search(self, query)
        from strands.storage.search import KeywordSearchStrategy

        return await KeywordSearchStrategy().search(self, query)  # type: ignore[arg-type, unused-ignore]

    def namespace(self, prefix: str) -> Self:
        """Return the same storage for the keys below a prefix; it closes with this one."""
        below = self._theirs._normalize_prefix(prefix).rstrip("/")
        scoped = copy.copy(self)
        scoped._prefix = f"{self._prefix}{below}/" if below else self._prefix
        scoped._namespaced = self._theirs._NAMESPACED  # type: ignore[attr-defined]
        return scoped

    def clear(self) -> None:
        """Delete every key. It blocks: never call it on an event loop that others use."""
        self._explain(lambda: self._logs.delete_below(self._prefix))()

    def close(self) -> None:
        """Release the store. Using the storage afterwards is a `RuntimeError`."""
        self._home.close()

    async def aclose(self) -> None:
        """Release the store, off the event loop."""
        await asyncio.to_thread(self._home.close)

    def _key(self, key: str) -> str:
        found: str = self._theirs._normalize_key(key)
        return found

    def _problem(self, text: str) -> Exception:
        from strands.types.exceptions import StorageError

        error: Exception = StorageError(text)
        return error

    def _explain(self, call: Callable[[], _T]) -> Callable[[], _T]:
        def run() -> _T:
            with self._explaining():
                return call()

        return run

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Raise the framework's `StorageError` for an error of ours, with its hint."""
        try:
            yield
        except AdapterClosed:
            raise
        except HoldfastError as error:
            hint = f" ({error.hint})" if error.hint else ""
            raise self._problem(f"{error}{hint}") from error
