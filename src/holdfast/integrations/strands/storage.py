"""`HoldfastStorage`: the storage of Strands, for snapshots of agents, stashes and memories.

Each key has a log of its own, with every value that it had. The newest snapshot of an agent is a
conversation: its messages are records, each stored once, and a snapshot that begins with the same
messages adds those that are new; the rest of it is a record beside them. Any other value is text or
base64 in records of their own.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import threading
from contextlib import contextmanager, suppress
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Unpack

import msgspec

from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log.records import Unknown
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.typed import decode_typed
from holdfast.engine.adapters import require
from holdfast.errors import AdapterClosed, BadSetting, HoldfastError, NoSuchSession
from holdfast.integrations.common.home import (
    DeletingOptions,
    PeerHome,
    RecentValues,
    StoreAdapter,
    move_head,
    read_in_thread,
    try_append,
    write_in_thread,
)
from holdfast.integrations.common.originals import (
    MessageLine,
    item_json,
    keep_original,
    keep_originals,
    original_json,
    read_original,
    reading_item,
    spell_item,
)
from holdfast.integrations.strands.messages import (
    messages_from_line,
    messages_from_record,
    records_from_message,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Self, TypeVar

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record
    from holdfast.integrations.common.home import PeerName

    _T = TypeVar("_T")


_SDK_JSON: Final = json.JSONEncoder(ensure_ascii=False)
"""Writes JSON as the SDK does."""
_MESSAGES_START: Final = b'"messages": ['
_RAW_LIST: Final = list[msgspec.Raw]
_RAW_OBJECT: Final = dict[str, msgspec.Raw]


class Snapshot(NamedTuple):
    """A snapshot in two pieces that give back its bytes."""

    messages: list[bytes]
    """The JSON of each message, as it is in the snapshot."""
    rest: Json
    """The snapshot with no messages in it."""
    same: int = 0
    """The number of messages that are known to be those that were there before."""


def take_apart(data: bytes) -> Snapshot | None:
    """Return a snapshot in pieces; None for bytes that the pieces would not give back.

    The messages stay as they are: of a long conversation, all but the last were there before.
    """
    try:
        top = decode_typed(data, _RAW_OBJECT)
        inner = decode_typed(bytes(top["data"]), _RAW_OBJECT)
        messages = [bytes(raw) for raw in decode_typed(bytes(inner["messages"]), _RAW_LIST)]
        rest: Json = {name: json.loads(bytes(raw)) for name, raw in top.items() if name != "data"}
        rest = {name: rest.get(name) for name in top}
        rest["data"] = {
            name: [] if name == "messages" else json.loads(bytes(raw))
            for name, raw in inner.items()
        }
        if put_together(rest, messages) != data:
            return None
    except (msgspec.MsgspecError, ValueError, TypeError, KeyError, RecursionError):
        return None
    return Snapshot(messages, rest)


def take_end_apart(data: bytes, known: list[bytes]) -> Snapshot | None:
    """Return a snapshot in pieces that begins with known messages; None for another one.

    Of a long conversation, only what is new is read: the rest is compared as bytes.
    """
    start = data.find(_MESSAGES_START) + len(_MESSAGES_START)
    before = b", ".join(known)
    if not before or not data.startswith(before, start):
        return None
    end = start + len(before)
    if data[end : end + 2] == b", ":
        end += 2
    added = take_apart(data[:start] + data[end:])
    if added is None or (data[end - 2 : end] == b", ") != bool(added.messages):
        return None
    # No byte of JSON is NUL: it stands where the messages begin.
    if put_together(added.rest, [b"\0"]).find(b"\0") != start:
        return None
    return Snapshot([*known, *added.messages], added.rest, len(known))


def put_together(rest: Json, messages: list[bytes]) -> bytes:
    """Return the JSON of a snapshot, as the SDK writes it."""
    inner = {name: spell(value) for name, value in rest["data"].items()}
    inner["messages"] = b"[%b]" % b", ".join(messages)
    top = {name: spell(value) for name, value in rest.items()}
    top["data"] = _join(inner)
    return _join(top)


def _join(fields: dict[str, bytes]) -> bytes:
    return b"{%b}" % b", ".join(b"%b: %b" % (spell(name), raw) for name, raw in fields.items())


def spell(value: Any) -> bytes:
    """Return the JSON of a value, as the SDK writes it."""
    return _SDK_JSON.encode(value).encode(errors="surrogatepass")


FORMAT_NAME: Final = "strands_snapshot"
KEY_FIELD: Final = "storage_key"
"""The field of a header that holds the key whose values are in the log, as JSON in a text."""
_VALUE: Final = "peer_value"
_STATE: Final = "peer_state"
_PART_BYTES: Final = 1024 * 1024
"""Of a value in one record; a larger value is several."""
_NEWEST: Final = lazy_pattern(
    r"session/([^/]+)/scopes/agent/([^/]+)/snapshots/snapshot_latest\.json"
)
_DEFAULT_AGENT: Final = "default"
_REMEMBERED_MAX: Final = 64
"""Conversations whose messages are held in memory, so that a snapshot is not compared with a log
that is read again."""


class _Path(msgspec.Struct, dict=True):
    """The conversation of a log, up to a head."""

    head: str
    values: list[Any]
    """The messages; one that was written here is its JSON."""
    ends: list[str]
    """The last record of each message."""
    root: str
    rest: str | None = None
    """The JSON of the newest snapshot without its messages; None where no snapshot is newest."""

    @cached_property
    def messages(self) -> list[bytes]:
        """The JSON of each message, as the SDK writes it: for anyone who compares it."""
        return [value if isinstance(value, bytes) else spell(value) for value in self.values]

    def snapshot(self) -> bytes | None:
        """Return the newest snapshot; None where none is newest."""
        if self.rest is None:
            return None
        rest = json.loads(self.rest)
        if any(isinstance(value, bytes) for value in self.values):
            return put_together(rest, self.messages)
        rest["data"]["messages"] = self.values
        return spell(rest)


class _ValueLine(MessageLine, gc=False):
    """A line of a log of values: a message, or a snapshot without its messages."""

    format: str = ""
    json: str = ""

    @property
    def fields(self) -> Json:
        """The fields of a snapshot without its messages."""
        return {"format": self.format, "json": self.json}


class ValueLogs:
    """Reads and writes the values of keys."""

    def __init__(self, home: PeerHome) -> None:
        self._home = home
        self._paths: RecentValues[SessionKey, _Path] = RecentValues(_REMEMBERED_MAX)
        self._places: RecentValues[str, SessionKey] = RecentValues(_REMEMBERED_MAX)
        """The log of each key that was written here."""
        self._lock = threading.RLock()

    def write(self, key: str, data: bytes) -> None:
        """Store the value of a key, durably and whole."""
        with self._lock:
            if self._append_next(key, data):
                return
            snapshot = take_apart(data) if _NEWEST.fullmatch(key) else None
            name = self._name_for(key)
            main = self._home.key_for(name[:1]) if _NEWEST.fullmatch(key) and name[1:] else None
            session = self._ensure(key, name, main)
            while not self._append(session, self._path(session), data, snapshot):
                self._paths.forget(session)  # another writer was faster
            self._places.put(key, session)

    def read(self, key: str) -> bytes | None:
        """Return the value of a key; None where there is none."""
        session = self._home.key_for(self._name_for(key))
        is_newest = _NEWEST.fullmatch(key) is not None
        if not self._home.exists(session, is_read_whole=is_newest):
            return None
        if is_newest:
            with self._lock:
                path = self._path(session)
            found = path.snapshot()
            if found is not None:
                return found
        parts: list[bytes] = []
        for record in self._home.store.back(session):
            if record.kind == _VALUE:
                with reading_item(record):
                    parts.append(_bytes_of(record))
                    number = int(record.extra["part"])
                if number == 0:
                    return b"".join(reversed(parts))
        return None  # made, and not written yet

    def delete(self, key: str) -> None:
        """Delete a key with all the values that it had."""
        session = self._home.key_for(self._name_for(key))
        with self._lock:
            self._paths.forget(session)
            self._places.forget(key)
            self._home.remove(session)

    def delete_below(self, prefix: str) -> None:
        """Delete every key that begins with a text."""
        for key in self.keys(prefix):
            self.delete(key)

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with a text."""
        found = []
        for header in self._home.headers():
            spelled = header.extra.get(KEY_FIELD)
            if isinstance(spelled, str) and json.loads(spelled).startswith(prefix):
                found.append(json.loads(spelled))
        return found

    def _name_for(self, key: str) -> PeerName:
        """Return the name of the log of a key.

        The newest snapshot of a session has the session's own name, unless another program made
        a session of that name.
        """
        newest = _NEWEST.fullmatch(key)
        if newest:
            name = newest.groups()[:1] if newest[2] == _DEFAULT_AGENT else newest.groups()
            try:
                header = self._home.store.header(self._home.key_for(name))
                if header.extra.get(KEY_FIELD) == json.dumps(key):
                    return name
            except NoSuchSession:
                return name
        return ("strands storage", key)

    def _ensure(self, key: str, name: PeerName, main: SessionKey | None) -> SessionKey:
        session = self._home.key_for(name)
        if not self._home.exists(session):
            label = None if _NEWEST.fullmatch(key) else key
            self._home.ensure(
                name, label=label, spawned_by=main, extra={KEY_FIELD: json.dumps(key)}
            )
        return session

    def _append_next(self, key: str, data: bytes) -> bool:
        """Add a value to the log that was written here before; False where it is another by
        now."""
        session = self._places.get(key)
        path = None if session is None else self._paths.get(session)
        if session is None or path is None:
            return False
        snapshot = None
        if _NEWEST.fullmatch(key):
            snapshot = take_end_apart(data, path.messages) or take_apart(data)
        with suppress(NoSuchSession):
            if self._append(session, path, data, snapshot):
                return True
        self._paths.forget(session)
        return False

    def _append(
        self, session: SessionKey, path: _Path, data: bytes, snapshot: Snapshot | None
    ) -> bool:
        """Add a value to a log that ends with a path; False where another writer was faster."""
        store = self._home.store
        if snapshot is None:
            return self._append_value(session, path, data)
        same = snapshot.same
        for before, after in islice(
            zip(path.messages, snapshot.messages, strict=False), same, None
        ):
            if before != after:
                break
            same += 1
        made = _message_records(snapshot.messages[same:])
        if made is None or len(made[1]) >= BATCH_RECORDS_MAX:
            return self._append_value(session, path, data)
        counts, records = made
        rest = spell_item(snapshot.rest)
        state = {"format": FORMAT_NAME, "of": "agent", "json": rest}
        records.append(Unknown(type=_STATE, extra=state))
        to = path.ends[same - 1] if same else path.root
        if same < len(path.messages):
            if not move_head(store, session, to, path.head, records):
                return False
            self._paths.forget(session)
            return True
        stored = try_append(self._home.store, session, records, path.head)
        if stored is None:
            return False
        ends = [stored[end - 1].id for end in counts]
        newest = _Path(stored[-1].id, snapshot.messages, path.ends + ends, path.root, rest)
        newest.messages = snapshot.messages
        self._paths.put(session, newest)
        return True

    def _path(self, session: SessionKey) -> _Path:
        head = self._home.store.head(session)
        known = self._paths.get(session)
        if known is not None and known.head == head:
            return known
        values: list[Any] = []
        ends: list[str] = []
        root = last = ""
        state: _ValueLine | Record | None = None
        for line in self._home.lines(session, _ValueLine):
            root = root or line.id
            last = line.id
            kind = line.type if isinstance(line, _ValueLine) else line.kind
            if kind in (_VALUE, _STATE):
                state = line if kind == _STATE else None
                continue
            messages, is_rest = _messages_of(line)
            if is_rest and ends:
                ends[-1] = line.id  # the rest of the message before it
            values += messages
            ends += [line.id] * len(messages)
        path = _Path(last, values, ends, root, None if state is None else _rest_in(state))
        self._paths.put(session, path)
        return path

    def _append_value(self, session: SessionKey, path: _Path, data: bytes) -> bool:
        stored = try_append(self._home.store, session, _value_records(data), path.head)
        if stored is not None:
            newest = msgspec.structs.replace(path, head=stored[-1].id, rest=None)
            self._paths.put(session, newest)
        return stored is not None


def _messages_of(line: _ValueLine | Record) -> tuple[list[Any], bool]:
    """Return the messages of a record, those stored or those that it amounts to; and whether it is
    the rest of the message before it."""
    if isinstance(line, _ValueLine):
        spelled = item_json(line.original, FORMAT_NAME)
        kept = read_original(spelled)
        return (messages_from_line(line) if kept is None else kept), spelled == ""
    spelled = original_json(line, FORMAT_NAME)
    kept = read_original(spelled)
    return (messages_from_record(line) if kept is None else kept), spelled == ""


def _rest_in(state: _ValueLine | Record) -> str | None:
    """Return the JSON of a snapshot without its messages; None for another state. Raises
    `BadItem`."""
    fields = state.fields if isinstance(state, _ValueLine) else state.extra
    if fields.get("format") != FORMAT_NAME:
        return None
    with reading_item(state):
        rest = str(fields["json"])
        json.loads(rest)["data"]["messages"]
    return rest


def _message_records(messages: list[bytes]) -> tuple[list[int], list[Record]] | None:
    """Return how many records there are up to the end of each message, and the records; None
    where a message is none, or would not come back as it is."""
    from strands.types.session import decode_bytes_values

    counts: list[int] = []
    records: list[Record] = []
    for raw in messages:
        try:
            message = json.loads(raw)
            if not isinstance(message, dict) or spell(message) != raw:
                return None
        except (ValueError, RecursionError):
            return None
        spelled = spell_item(message)
        made = records_from_message(decode_bytes_values(message))
        if len(made) == 1:
            made = [keep_original(made[0], spelled, FORMAT_NAME, messages_from_record)]
        else:
            made = keep_originals(made, spelled, FORMAT_NAME)
        records += made
        counts.append(len(records))
    return counts, records


def _value_records(data: bytes) -> list[Record]:
    """Return the records that hold a value: as text where it is text."""
    try:
        text: str | None = data.decode()
    except UnicodeDecodeError:
        text = None
    pieces: list[dict[str, Any]] = []
    if text is None:
        for start in range(0, len(data), _PART_BYTES):
            piece = base64.b64encode(data[start : start + _PART_BYTES]).decode()
            pieces.append({"base64": piece})
    else:
        size = _PART_BYTES // 4  # characters, of up to four bytes each
        pieces = [{"text": text[at : at + size]} for at in range(0, len(text), size)]
    return [
        Unknown(type=_VALUE, extra={"format": FORMAT_NAME, "part": number, **piece})
        for number, piece in enumerate(pieces or [{"text": ""}])
    ]


def _bytes_of(record: Record) -> bytes:
    text = record.extra.get("text")
    if isinstance(text, str):
        return text.encode()
    return base64.b64decode(str(record.extra["base64"]))


class HoldfastStorage(StoreAdapter):
    """Keeps the values of Strands in any store. A `Storage` of Strands.

        SnapshotSessionManager("thread-1", storage=HoldfastStorage(root=".sessions"))

    `root` is the address of a store, `store` an open one. A deleted value is in the trash; with
    `delete="erase"` it is gone. `search_strategy` is one of the SDK's; by default, it compares
    words.
    """

    def __init__(self, *, search_strategy: Any = None, **where: Unpack[DeletingOptions]) -> None:
        require("strands")
        try:
            from strands.storage import storage as theirs
        except ImportError as error:
            raise BadSetting(
                "this release of strands-agents has no `Storage`",
                hint="use `HoldfastSessionRepository`, or a newer release",
            ) from error
        self._theirs = theirs
        super().__init__(**where)
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
