"""`HoldfastHistoryProvider`: a history provider of Microsoft Agent Framework.

A message is a record, or several, and comes back as it went in. An agent may hand over messages
that are stored already, such as a whole transcript: only those after the overlap are new, by the
rule of the framework's own providers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final, Unpack

from holdfast.integrations.agent_framework.messages import (
    messages_from_record,
    records_from_message,
)
from holdfast.integrations.common.home import (
    FoldedLogs,
    StoreAdapter,
    StoreOptions,
    read_in_thread,
    write_in_thread,
)
from holdfast.integrations.common.originals import (
    SPOKEN,
    items_of,
    keep_original,
    keep_originals,
    read_original,
    reading_item,
    spell_item,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record
    from holdfast.integrations.common.originals import StoredItem

FORMAT_NAME: Final = "agent-framework"
_HOSTED: Final = '"hosted":false'
"""In a call of a newer release that runs where the agent does."""
_NAME: Final = "default"
"""The conversation of an agent that runs without a session."""
_REMEMBERED_MAX: Final = 64
"""Conversations that are held in memory; another one is read from its log."""

_Identity = tuple[str, ...]


class StoredHistory:
    """The messages of a log, each with what tells it from others."""

    def __init__(self) -> None:
        self.messages: list[Json] = []
        self.identities: list[_Identity] = []

    def add(self, items: Iterable[StoredItem]) -> None:
        """Take the next records of the log. Raises `BadItem`."""
        for item in items:
            with reading_item(item):
                for message in _messages_of(item):
                    self.identities.append(_identity(message))
                    self.messages.append(message)


def _messages_of(item: StoredItem) -> list[Json]:
    """Return the messages of a record: exactly those stored, else those that it amounts to."""
    kept = read_original(item.spelled)
    if kept is not None:
        if not all(isinstance(message["contents"], list) and message["role"] for message in kept):
            raise ValueError("a message without a role or contents")
        return kept
    if item.spelled is not None:
        raise ValueError("no JSON")
    record = item.record if item.kind in SPOKEN else None
    return [] if record is None else messages_from_record(record)


def _identity(message: Json) -> _Identity:
    """Return what the framework knows a message by: its id, or its role and contents."""
    if message.get("message_id") is not None:
        return ("id", str(message["message_id"]))
    contents = json.dumps(message["contents"], sort_keys=True, ensure_ascii=False)
    return ("content", str(message["role"]), contents)


def new_after(existing: Sequence[_Identity], incoming: Sequence[_Identity]) -> int:
    """Return how many of the incoming messages are stored already, by the framework's rule.

    All up to the end of the stored ones count, where these occur in full; else the longest end of
    the stored ones that the incoming messages begin with. The last thing that a user said may be
    said again: it alone is no overlap, unless it has an id.
    """
    if not existing:
        return 0
    count = len(existing)
    last = existing[-1]
    may_repeat = last[:2] == ("content", "user")
    for start in range(len(incoming) - count + 1):
        if incoming[start : start + count] == existing:
            if start == 0 and count == 1 and may_repeat:
                break
            return start + count
    for overlap in range(min(count, len(incoming)), 0, -1):
        if existing[-overlap:] == incoming[:overlap] and not (overlap == 1 and may_repeat):
            return overlap
    return 0


class HistoryProviderMethods(StoreAdapter):
    """Keeps the messages of an agent's sessions in any store. A `HistoryProvider`.

    `root` is the address of a store, `store` an open one. The other parameters are those of the
    framework's own providers: with `skip_excluded`, messages that a compaction excluded are stored
    and not loaded.
    """

    framework_base: ClassVar = "agent_framework:HistoryProvider"

    def __init__(
        self,
        source_id: str = "holdfast",
        *,
        load_messages: bool = True,
        store_inputs: bool = True,
        store_context_messages: bool = False,
        store_context_from: set[str] | None = None,
        store_outputs: bool = True,
        skip_excluded: bool = False,
        **where: Unpack[StoreOptions],
    ) -> None:
        from agent_framework import HistoryProvider

        super().__init__(**where)
        HistoryProvider.__init__(
            self,
            source_id,
            load_messages=load_messages,
            store_inputs=store_inputs,
            store_context_messages=store_context_messages,
            store_context_from=store_context_from,
            store_outputs=store_outputs,
        )
        self.skip_excluded = skip_excluded
        self._logs = FoldedLogs(self._home, _REMEMBERED_MAX, fold=self._load, advance=_advance)

    def key_for(self, session_id: str | None) -> SessionKey:
        """Return the key of a session of the framework in its store."""
        return self._home.key_for((session_id or _NAME,))

    async def get_messages(
        self, session_id: str | None, *, state: dict[str, Any] | None = None, **more: Any
    ) -> list[Any]:
        """Return the messages of a session, oldest first."""
        del state, more
        from agent_framework import Message

        # Out of text each time: a message belongs to the one who asked for it.
        spelled = await read_in_thread(lambda: self._read(session_id))
        return [Message.from_dict(message) for message in json.loads(spelled)]

    async def save_messages(
        self,
        session_id: str | None,
        messages: Sequence[Any],
        *,
        state: dict[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Store the messages that are new, durably, all or none. Raises `BadItem` for one that
        JSON cannot hold."""
        del state, more
        self._home.store  # noqa: B018 - refuses a closed provider, also for an empty list
        found = [message.to_dict() for message in messages]
        spelled = [spell_item(message) for message in found]
        if found:
            await write_in_thread(lambda: self._save(session_id, found, spelled))

    def _read(self, session_id: str | None) -> str:
        history = self._logs.find(self.key_for(session_id))
        found = [] if history is None else history.messages
        if self.skip_excluded:
            found = [message for message in found if not _is_excluded(message)]
        return json.dumps(found)

    def _save(self, session_id: str | None, found: list[Json], spelled: list[str]) -> None:
        incoming = [_identity(message) for message in found]

        def make(history: StoredHistory) -> list[Record]:
            known = new_after(history.identities, incoming)
            pairs = zip(found[known:], spelled[known:], strict=True)
            return [record for message, text in pairs for record in _records(message, text)]

        self._logs.append_new((session_id or _NAME,), make)

    def _load(self, key: SessionKey) -> StoredHistory:
        history = StoredHistory()
        history.add(self._home.items(key, FORMAT_NAME))
        return history


def _is_excluded(message: Json) -> bool:
    return bool((message.get("additional_properties") or {}).get("_excluded"))


def _records(message: Json, spelled: str) -> list[Record]:
    records = records_from_message(message)
    if len(records) > 1:
        return keep_originals(records, spelled, FORMAT_NAME)
    record = records[0] if records else None
    rebuild = _rebuild if _HOSTED in spelled else messages_from_record
    return [keep_original(record, spelled, FORMAT_NAME, rebuild)]


def _rebuild(record: Record) -> list[Json]:
    """Return the messages of a record as newer releases write them: a call says where it runs."""
    messages = messages_from_record(record)
    for content in (content for message in messages for content in message["contents"]):
        if content["type"] == "function_call":
            rest = content.pop("additional_properties")
            content.update(hosted=False, additional_properties=rest)
    return messages


def _advance(history: StoredHistory, records: list[Record]) -> None:
    history.add(items_of(records, FORMAT_NAME))
