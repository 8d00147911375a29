"""`HoldfastSession`: a session of the OpenAI Agents SDK.

An item of the SDK is a record of the log, and comes back exactly as it went in. `pop_item` and
`clear_session` move the head of the log: what they take away stays on a branch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Unpack

from holdfast.core.log.records import Unknown
from holdfast.engine.adapters import require
from holdfast.integrations.common.home import (
    StoreAdapter,
    StoreOptions,
    clear_path,
    move_head,
    read_in_thread,
    write_in_thread,
)
from holdfast.integrations.common.originals import ITEM_TYPE, MessageLine, StoredLine
from holdfast.integrations.common.responses_items import (
    items_from_line,
    items_from_record,
    records_from_items,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record


DECISION_TYPE: Final = "peer_decision"
"""The type of a record with a cut, or another decision about requests, in its field `decision`."""
_DECISION: Final = "decision"


class DecisionLine(StoredLine, gc=False):
    """A line with the decision that it keeps."""

    decision: Any = None


class HoldfastSession(StoreAdapter):
    """A `Session` of the SDK over any store. It also is the session of that name elsewhere.

    `root` is the address of a store, `store` an open one. `session_settings` are the SDK's.
    """

    def __init__(
        self, session_id: str, *, session_settings: Any = None, **where: Unpack[StoreOptions]
    ) -> None:
        require("openai_agents")
        from agents.memory.session_settings import SessionSettings, coerce_session_settings

        self.session_id = session_id
        self.session_settings = (
            SessionSettings()
            if session_settings is None
            else coerce_session_settings(session_settings)
        )
        super().__init__(**where)
        self._name = (session_id,)

    @property
    def key(self) -> SessionKey:
        """The key of the session in its store."""
        return self._home.key_for(self._name)

    async def get_items(self, limit: int | None = None, *, wrapper: Any = None) -> list[Any]:
        """Return the newest `limit` items, oldest first; all where no limit is set or it is
        negative."""
        del wrapper
        if limit is None:
            limit = self.session_settings.limit
        return await read_in_thread(lambda: self._read(limit))

    async def add_items(self, items: list[Any], *, wrapper: Any = None) -> None:
        """Store items durably, all or none. Raises `BadItem` for one that JSON cannot hold."""
        del wrapper
        self._home.store  # noqa: B018 - refuses a closed session, also for an empty list
        records = records_from_items(items)
        if records:
            await write_in_thread(lambda: self._home.append(self._name, records))

    async def pop_item(self, *, wrapper: Any = None) -> Any:
        """Take the newest item back and return it; None where there is none.

        The log keeps it, on a branch: `holdfast rewind` leads back to it.
        """
        del wrapper
        return await write_in_thread(self._pop)

    async def clear_session(self, *, wrapper: Any = None) -> None:
        """Begin again without items. The log keeps the old ones, on a branch."""
        del wrapper
        await write_in_thread(self._clear)

    async def _get_compaction_snapshot(
        self, limit: int, *, prune_prefix: Callable[[Any], bool] | None = None
    ) -> Any:
        """Return the newest items and a way to replace the last of them, for the SDK's
        `OpenAIResponsesCompactionSession`. Nothing is pruned: a log keeps everything."""
        del prune_prefix
        from agents.memory.session import _CompactionSnapshot

        newest = await read_in_thread(lambda: self._read(limit + 1))
        items = newest[-limit:] if limit > 0 else []

        async def replace_suffix(start: int, output: list[Any]) -> bool:
            expected = items[start:]
            if not expected:
                return False
            records = records_from_items(output)
            return await write_in_thread(lambda: self._replace(expected, records))

        return _CompactionSnapshot(items, len(newest) <= limit, replace_suffix)

    def decisions(self) -> list[Any]:
        """Return the cuts that were made for requests of this session."""
        if not self._home.exists(self.key, is_read_whole=True):
            return []
        lines = self._home.lines(self.key, DecisionLine)
        return [
            line.decision if isinstance(line, DecisionLine) else line.extra.get(_DECISION)
            for line in lines
            if (line.type if isinstance(line, DecisionLine) else line.kind) == DECISION_TYPE
        ]

    def keep(self, decisions: Sequence[Json]) -> None:
        """Store cuts that were made for requests of this session."""
        if decisions:
            records = [Unknown(type=DECISION_TYPE, extra={_DECISION: each}) for each in decisions]
            self._home.append(self._name, records)

    def _read(self, limit: int | None) -> list[Any]:
        store, key = self._home.store, self.key
        is_whole = limit is None or limit < 0
        if limit == 0 or not self._home.exists(key, is_read_whole=is_whole):
            return []
        if limit is None or limit < 0:
            items: list[Any] = []
            for found in self._home.lines(key, MessageLine):
                if isinstance(found, MessageLine):
                    items += items_from_line(found)
                else:
                    items += items_from_record(found)
            return items
        newest: list[Any] = []
        for record in store.back(key):
            newest += reversed(items_from_record(record))
            if len(newest) >= limit:
                break
        return newest[:limit][::-1]

    def _pop(self) -> Any:
        while True:
            ends = self._newest(1)
            if ends is None:
                return None
            items, before, head = ends
            if self._move(before, head, records_from_items(items[:-1])):
                return items[-1]

    def _clear(self) -> None:
        store, key = self._home.store, self.key
        if self._home.exists(key):
            clear_path(store, key, ITEM_TYPE)

    def _replace(self, expected: list[Any], records: list[Record]) -> bool:
        """Put records in the place of the newest items, if these still are the newest."""
        ends = self._newest(len(expected))
        if ends is None:
            return False
        items, before, head = ends
        kept = len(items) - len(expected)
        if items[kept:] != expected:
            return False
        return self._move(before, head, [*records_from_items(items[:kept]), *records])

    def _newest(self, count: int) -> tuple[list[Any], str, str] | None:
        """Return at least the newest `count` items, the record before them, and the head; None
        where there are fewer."""
        store, key = self._home.store, self.key
        if not self._home.exists(key):
            return None
        found: list[Any] = []
        head = ""
        for record in store.back(key):
            head = head or record.id
            if len(found) >= count:
                return found[::-1], record.id, head
            found += reversed(items_from_record(record))
        return None

    def _move(self, to: str, head: str, records: list[Record]) -> bool:
        return move_head(self._home.store, self.key, to, head, records)
