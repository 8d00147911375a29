"""`HoldfastSaver`, a checkpoint saver of LangGraph: blocking methods, and the same in threads."""

from __future__ import annotations

import random
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from holdfast.core.limits import TURN_WAIT_SECONDS
from holdfast.engine.session.drivers.lease import hold_lease
from holdfast.errors import BadItem, UsageError
from holdfast.integrations.common.home import (
    DeletingOptions,
    StoreAdapter,
    hold_turn,
    read_in_thread,
    write_in_thread,
)
from holdfast.integrations.langgraph.threads import (
    GraphThread,
    StoredCheckpoint,
    StoredWrite,
    ThreadLogs,
    pack,
    unpack,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence

    from holdfast.core.log.records import Record
    from holdfast.integrations.langgraph.threads import Packed, Place


_MESSAGEPACK: Final = "msgpack"
"""The kind of what LangGraph's serializer writes in MessagePack."""
_LIST_START: Final = b"\xdd"
"""Begins a list in MessagePack; its length follows, in four bytes."""


class SaverMethods(StoreAdapter):
    """The blocking methods of a saver, beside those of LangGraph's base class."""

    serde: Any

    def __init__(self, *, serde: Any = None, **where: Unpack[DeletingOptions]) -> None:
        super(StoreAdapter, self).__init__(serde=serde)  # type: ignore[call-arg]
        super().__init__(**where)
        self._threads = ThreadLogs(self._home)

    def get_tuple(self, config: Any) -> Any:
        """Return a checkpoint, the newest of a thread where none is named; None for none."""
        thread_id, ns, name = _read_config(config)
        thread = self._threads.read(thread_id)
        if thread is None:
            return None
        places = thread.places(ns)
        place = (ns, name) if name else next(iter(places), None)
        if place is None or place not in thread.checkpoints or place in thread.deleted:
            return None
        return _tuple(self.serde, thread_id, thread, place)

    def list(
        self,
        config: Any,
        *,
        filter: Mapping[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: Any = None,
        limit: int | None = None,
    ) -> Iterator[Any]:
        """Yield checkpoints, the newest of each thread first."""
        ns = name = until = None
        names = self._threads.names()
        if config is not None:
            about = config["configurable"]
            names, ns = [str(about["thread_id"])], about.get("checkpoint_ns")
            name = about.get("checkpoint_id")
        if before is not None:
            until = before["configurable"].get("checkpoint_id")
        left = limit
        for thread_id in names:
            thread = self._threads.read(thread_id)
            for place in thread.places(ns) if thread else ():
                if (name and place[1] != name) or (until and place[1] >= until):
                    continue
                assert thread is not None
                metadata = self._load(thread.checkpoints[place].metadata)
                if any(_look_up(metadata, key) != value for key, value in (filter or {}).items()):
                    continue
                if left is not None and left <= 0:
                    return
                left = None if left is None else left - 1
                yield _tuple(self.serde, thread_id, thread, place)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        """Store a checkpoint, and the values of the channels that have a new version."""
        from langgraph.checkpoint.base import get_checkpoint_metadata

        thread_id, ns, parent = _read_config(config)
        bare = {name: value for name, value in checkpoint.items() if name != "channel_values"}
        values = checkpoint["channel_values"]
        about = get_checkpoint_metadata(config, metadata)
        run = about.get("run_id")
        stored = StoredCheckpoint(
            ns,
            checkpoint["id"],
            parent,
            self._dump(bare),
            self._dump(about),
            run if isinstance(run, str) else None,
        )
        changed = {
            channel: (version, values[channel])
            for channel, version in new_versions.items()
            if channel in values
        }
        missing = [item for item in new_versions.items() if item[0] not in values]
        versions = checkpoint["channel_versions"]
        rest = {
            channel: (versions.get(channel), value)
            for channel, value in values.items()
            if channel not in new_versions
        }
        self._threads.change(
            thread_id,
            lambda thread: thread.checkpoint_records(
                stored, changed, self._dump, missing=missing, rest=rest, words=_words(stored, about)
            ),
        )
        return _config(thread_id, (ns, checkpoint["id"]))

    def put_writes(
        self, config: Any, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task; a repeated one is stored once."""
        from langgraph.checkpoint.base import WRITES_IDX_MAP

        thread_id, ns, name = _read_config(config)
        if name is None:
            raise UsageError(
                "cannot store writes: the config names no checkpoint",
                hint="pass the config that `put` returned",
            )
        stored = [
            StoredWrite(
                task_id, task_path, WRITES_IDX_MAP.get(channel, index), channel, self._dump(value)
            )
            for index, (channel, value) in enumerate(writes)
        ]
        self._threads.change(thread_id, _adder((ns, name), stored))

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with everything of it."""
        self._threads.delete(str(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Take away the checkpoints of some runs. The log keeps them."""
        runs = set(run_ids)
        for thread_id in self._threads.names() if runs else ():

            def of_runs(thread: GraphThread) -> list[Record]:
                found = [p for p in thread.places() if thread.checkpoints[p].run in runs]
                return thread.deletion_records(found)

            self._threads.change(thread_id, of_runs)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Take away all checkpoints of threads but the newest of each namespace, or all of them.

        The log keeps them, so that a `DeltaChannel` still finds its history.
        """
        if strategy not in ("keep_latest", "delete"):
            raise UsageError(
                f"cannot prune: {strategy!r:.40} is not a strategy",
                hint="pass `keep_latest` or `delete`",
            )

        def old(thread: GraphThread) -> list[Record]:
            seen: set[str] = set()
            found = []
            for place in thread.places():
                if strategy == "delete" or place[0] in seen:
                    found.append(place)
                seen.add(place[0])
            return thread.deletion_records(found)

        for thread_id in thread_ids:
            if self._threads.read(str(thread_id)) is not None:
                self._threads.change(str(thread_id), old)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy the checkpoints and writes of a thread into another one."""
        source = self._threads.read(str(source_thread_id))
        if source is None:
            return
        for place in sorted(source.places(), key=lambda place: place[1]):
            stored = source.checkpoints[place]
            checkpoint = _checkpoint(self.serde, source, place)
            config = _config(target_thread_id, place)
            config["configurable"]["checkpoint_id"] = stored.parent
            versions = checkpoint["channel_versions"]
            self.put(config, checkpoint, self._load(stored.metadata), versions)
            writes = source.writes(place)
            self._threads.change(str(target_thread_id), _adder(place, writes))

    def get_delta_channel_history(
        self, *, config: Any, channels: Sequence[str]
    ) -> dict[str, dict[str, Any]]:
        """Return what each channel was given since its last whole value, along the parents."""
        thread_id, ns, name = _read_config(config)
        thread = self._threads.read(thread_id)
        found: dict[str, dict[str, Any]] = {channel: {"writes": []} for channel in channels}
        if thread is None or not channels:
            return found
        newest = next(iter(thread.places(ns)), (ns, ""))
        target = thread.checkpoints.get((ns, name) if name else newest)
        parent, left = (target.parent if target else None), set(channels)
        seen: set[str] = set()
        while parent and left and parent not in seen:  # a parent may be made its own ancestor
            seen.add(parent)
            place = (ns, parent)
            if place not in thread.checkpoints:
                break
            for write in reversed(thread.writes(place)):
                if write.channel in left:
                    told = (write.task, write.channel, self._load(write.value))
                    found[write.channel]["writes"].insert(0, told)
            for channel, value in _values(self.serde, thread, place, left).items():
                found[channel]["seed"] = value
                left.discard(channel)
            parent = thread.checkpoints[place].parent
        return found

    def get_next_version(self, current: Any, channel: Any) -> str:
        """Return a version after another one, which no other branch has."""
        del channel
        number = 0 if current is None else int(str(current).split(".")[0])
        return f"{number + 1:032}.{random.random():016}"  # noqa: S311 - a name, and no secret

    @contextmanager
    def turn(self, thread_id: str, *, wait_seconds: float = TURN_WAIT_SECONDS) -> Iterator[None]:
        """Hold the turn of a thread while a block runs the graph, in whichever process.

        The graph goes on from the newest checkpoint when it starts: of two runs at once, each
        misses what the other adds. Raises `TurnInProgress` after `wait_seconds`.
        """
        key = self._home.ensure((str(thread_id),))
        with hold_lease(self._home.store, key, wait_seconds=wait_seconds):
            yield

    def _dump(self, value: Any) -> Packed:
        return pack(self.serde.dumps_typed(value))

    def _load(self, packed: Packed) -> Any:
        return _loads(self.serde, packed)


def _loads(serde: Any, packed: Packed) -> Any:
    """Return a stored value. Raises `BadItem` for one that is none."""
    return serde.loads_typed(_unpack(packed))


def _unpack(packed: Packed) -> tuple[str, bytes]:
    try:
        return unpack(packed)
    except (TypeError, ValueError) as error:
        raise BadItem(
            f"cannot read a stored value: {error}",
            hint="the log was changed by hand: `holdfast rewind` leads back to before that",
        ) from error


def _load_all(serde: Any, packed: Sequence[Packed]) -> list[Any]:
    """Return stored values. Those of LangGraph's own serializer are read as one list: in
    MessagePack, a list is its elements, one after the other."""
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    if type(serde) is not JsonPlusSerializer or {kind for kind, _data in packed} != {_MESSAGEPACK}:
        return [_loads(serde, value) for value in packed]
    pieces = [_unpack(value)[1] for value in packed]
    start = _LIST_START + len(pieces).to_bytes(4, "big")
    found: list[Any] = serde.loads_typed((_MESSAGEPACK, start + b"".join(pieces)))
    return found


def _adder(place: Place, writes: Sequence[StoredWrite]) -> Callable[[GraphThread], list[Record]]:
    """Return the change of a thread that adds writes."""
    return lambda thread: thread.write_records(place, writes)


def _values(
    serde: Any, thread: GraphThread, place: Place, channels: Any, bare: Any = None
) -> dict[str, Any]:
    """Return the values that channels have in a checkpoint."""

    def load(packed: Packed) -> Any:
        return _loads(serde, packed)

    def load_all(packed: Sequence[Packed]) -> list[Any]:
        return _load_all(serde, packed)

    bare = bare or load(thread.checkpoints[place].checkpoint)
    loose = thread.checkpoints[place].loose
    values = {channel: load(value) for channel, value in loose.items() if channel in channels}
    for channel, version in bare["channel_versions"].items():
        if channel in channels:
            for value in thread.value(place[0], channel, version, load, load_all):
                values[channel] = value
    return values


def _checkpoint(serde: Any, thread: GraphThread, place: Place) -> Any:
    """Return a checkpoint with the values of its channels."""
    bare = _loads(serde, thread.checkpoints[place].checkpoint)
    channels = {*bare["channel_versions"], *thread.checkpoints[place].loose}
    values = _values(serde, thread, place, channels, bare)
    return {**bare, "channel_values": values}


def _tuple(serde: Any, thread_id: str, thread: GraphThread, place: Place) -> Any:
    """Return everything of a checkpoint, as LangGraph wants it."""
    from langgraph.checkpoint.base import CheckpointTuple

    stored = thread.checkpoints[place]
    parent = None if stored.parent is None else (place[0], stored.parent)
    return CheckpointTuple(
        config=_config(thread_id, place),
        checkpoint=_checkpoint(serde, thread, place),
        metadata=_loads(serde, stored.metadata),
        parent_config=None if parent is None else _config(thread_id, parent),
        pending_writes=[
            (write.task, write.channel, _loads(serde, write.value))
            for write in thread.writes(place)
        ],
    )


def _look_up(metadata: Any, key: str) -> Any:
    """Return a value of the metadata by its name, or by the names that lead to it: `user.id`."""
    if key in metadata:
        return metadata[key]
    for part in key.split("."):
        metadata = metadata.get(part) if isinstance(metadata, dict) else None
    return metadata


def _words(stored: StoredCheckpoint, about: Mapping[str, Any]) -> str:
    """Return which checkpoint it is, in words; none for one that is encrypted."""
    if "+" in stored.metadata[0] or not isinstance(about.get("step"), int):
        return ""
    place = f" of {stored.ns}" if stored.ns else ""
    return f"step {about['step']}{place}, {about.get('source')}"


def _read_config(config: Any) -> tuple[str, str, str | None]:
    """Return the thread, the namespace and the checkpoint that a config names."""
    try:
        about = config["configurable"]
        thread_id = str(about["thread_id"])
    except (KeyError, TypeError) as error:
        raise UsageError(
            "the config names no thread",
            hint='pass {"configurable": {"thread_id": "…"}}',
        ) from error
    return thread_id, about.get("checkpoint_ns", "") or "", about.get("checkpoint_id") or None


def _config(thread_id: str, place: Place) -> dict[str, Any]:
    about = {"thread_id": thread_id, "checkpoint_ns": place[0], "checkpoint_id": place[1]}
    return {"configurable": about}


class AsyncSaverMethods(SaverMethods):
    """Keeps checkpoints in any store. It is a `BaseCheckpointSaver` of LangGraph.

    `root` is the address of a store, `store` an open one; `serde` is LangGraph's. `delete` says
    what `delete_thread` does: a thread in the trash can be restored, an erased one not.
    """

    framework_base: ClassVar = "langgraph.checkpoint.base:BaseCheckpointSaver"

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
