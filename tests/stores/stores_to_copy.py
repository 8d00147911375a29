"""Stores with something of everything, and what a person or a program can see of a store."""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import Assistant, SessionKey, ToolResult, User
from holdfast.core.history.access import Access
from holdfast.core.log.batch import new_header
from holdfast.core.log.records import SEAL, Compaction, Label, OutputRef, Rewind, encode
from holdfast.core.log.views import MESSAGE_KEY
from holdfast.core.memory.running_summary import Sidecar
from holdfast.core.owners import ANY_OWNER, NamedOwner, owner_of
from holdfast.errors import NoSuchRecord
from holdfast.ports import NewMessage
from holdfast.stores import ANY_HEAD, open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.core.log.records import Record
    from holdfast.ports import MessageState, QueuedMessage
    from holdfast.stores import SessionStore

KINDS = ("folder", "memory", "postgres")
PLAIN = SessionKey("main", "plain")
OWNED = SessionKey("helper", "owned")
DAMAGED = SessionKey("main", "damaged")
EMPTY = SessionKey("main", "empty")
BARE = SessionKey("main", "without-a-byte")
PAYLOAD = b"a large output \x00\xff" * 1_000
_STATES: tuple[MessageState, ...] = ("waiting", "answered", "failed", "dropped", "waiting")

_numbers = count(1)


def address_of(kind: str, folder: Path, postgres_address: str) -> str:
    """Return the address of a store of that kind that is not there yet."""
    number = next(_numbers)
    return {
        "folder": f"{folder}/store-{number}",
        "memory": "memory:",
        "postgres": f"{postgres_address}_{number}",
    }[kind]


def line(record: Record) -> bytes:
    return encode(record) + b"\n"


def said(text: str, number: int, **more: Any) -> User:
    return User(id=f"{number:018x}", ts=float(number), content=text, **more)


def damaged_log() -> bytes:
    """Return a log with every kind of damage that leaves whole lines."""
    batch = [said(f"of three {left}", 20 - left, more=left) for left in (2, 1, 0)]
    return b"".join(
        [
            b"\xef\xbb\xbf" + line(new_header(DAMAGED, now=1.0, label="mine", owner="ann")),
            *(b"\n", b" \t\r\n", line(said("one", 3)), b'{"type": "user", "id"\n'),
            *(b"\0" * 40 + b"\n", line(said("after a lost page", 5, more=1))),
            *(line(said("its end", 6, more=0)), bytes([SEAL]) + b"\n", b"\xff\xfe\n"),
            *(b"torn" + bytes([SEAL]) + b"\n", line(said("the same id", 3)), line(batch[0])),
            *(bytes([SEAL]) + b"\n", *map(line, batch), line(said("far", 30, parent="gone"))),
        ]
    )


def fill(store: SessionStore) -> None:
    """Put something of everything into a store."""
    store.create(PLAIN, label="Plain words")
    sha256 = store.blobs.put(PAYLOAD)
    first = store.append(
        PLAIN,
        [
            User(content="hello 漢字 \x00", extra={MESSAGE_KEY: "message-1"}),
            Assistant(content="hi", model="m", usage={"input": 3, "output": 2}),
        ],
        expect=ANY_HEAD,
    )
    ref = OutputRef(sha256=sha256, bytes=len(PAYLOAD), kind="text")
    result = ToolResult(tool_use_id="c", content="a preview", output_ref=ref)
    store.append(PLAIN, [User(content="left"), result], expect=ANY_HEAD)
    store.append(PLAIN, [Rewind(to=first.head)], expect=ANY_HEAD)
    store.append(PLAIN, [User(content="right")], expect=ANY_HEAD)
    store.append(
        PLAIN,
        [Compaction(summary="so far", first_kept=first.ids[0]), Label(label="Renamed")],
        expect=ANY_HEAD,
    )
    store.summaries.save(PLAIN, Sidecar(upto=store.head(PLAIN)))
    store.create(OWNED, owner=NamedOwner("ann"))
    store.append(OWNED, [User(content="mine")], expect=ANY_HEAD)
    store.extend_log(DAMAGED, damaged_log(), at=0)
    store.create(EMPTY)
    store.create_log(BARE, [])
    store.create(SessionKey("main", "gone"), owner=NamedOwner("bob"))
    store.remove(SessionKey("main", "gone"))
    store.notes("main").append(["Ship on Tuesdays."], session=str(PLAIN), once="flush 1")
    store.notes("main").put("folder/MEMORY.md", None, b"# Ours \xff\n")
    store.notes("helper", NamedOwner("ann")).append(["Ann likes tea."])
    store.notes("main", NamedOwner("bob")).append(["Bob is in the trash."])
    for number in range(5):
        store.audit.note(_access(number % 3))
    fill_queues(store)


def fill_queues(store: SessionStore) -> None:
    """Put messages in every state but `running` into queues of two owners."""
    for number, state in enumerate(_STATES):
        for queue, owner in (("inbox", "ann"), ("outbox", "bob")):
            key, lane = f"{queue}-{number}", f"{queue} {number % 4}"
            body = {"text": f"{state} 漢字 \x00"}
            session = str(OWNED) if owner == "ann" else ""
            store.queues.put(
                NewMessage(queue=queue, lane=lane, key=key, body=body, owner=owner, session=session)
            )
            found = store.queues.find(queue, owner_of(owner), key)
            assert found is not None
            match state:
                case "answered" | "failed":
                    claimed = store.queues.claim(queue, "w", 600, limit=9)
                    (held,) = [each for each in claimed if each.id == found.id]
                    assert store.queues.finish(held, state, reason="why", result={"n": number})
                    store.queues.release_all(queue)
                case "dropped":
                    store.queues.drop(found.id, "by a person")
                case _:
                    pass


def _access(number: int) -> Access:
    return Access(
        ts=float(number),
        action="erase",
        agent="main",
        session="plain",
        owner="ann",
        target=f"main/{number}",
        is_allowed=True,
        reason="it may",
    )


def view_of(store: SessionStore, key: SessionKey) -> dict[str, object]:
    """Return everything that can be seen of a session."""
    records = [entry.record for entry in store.read_all(key)]
    totals, info = store.totals(key), store.info(key)
    if not info.created:  # no record has a time: a folder then shows that of the file
        info = msgspec.structs.replace(info, last_active=0.0)
    return {
        "export": b"".join(store.export(key)),
        "info": info,
        "totals": (totals, totals.stated_cost),
        "verify": store.verify(key),
        "path": list(store.read(key)),
        "all": list(store.read_all(key)),
        "live": store.live(key),
        "branches": store.branches(key),
        "found": [_find(store, key, record.id) for record in records],
        "message": store.find_message(key, "message-1"),
        "summary": store.summaries.load(key),
    }


def _find(store: SessionStore, key: SessionKey, name: str) -> object:
    try:
        return store.find(key, name)
    except NoSuchRecord:
        return None  # of an append that never completed


def state_of(store: SessionStore) -> dict[str, object]:
    """Return everything that a copy must carry."""
    scopes = [(agent, owner) for agent in ("main", "helper") for owner in ("", "ann", "bob")]
    notes = {scope: store.notes(scope[0], owner_of(scope[1])) for scope in scopes}
    return {
        "sessions": {key: view_of(store, key) for key in sorted(store.keys())},
        "payloads": {sha256: store.blobs.get(sha256) for sha256 in store.blobs},
        "notes": {
            scope: {file.path: found.data(file.path) for file in found.files()}
            for scope, found in notes.items()
        },
        "marks": {scope: found.marks() for scope, found in notes.items()},
        "audit": store.audit.entries().accesses,
        "messages": [
            _comparable(each) for each in store.queues.copies(limit=1_000, owner=ANY_OWNER)
        ],
    }


class _Moment(float):
    """A time that is the same within a millisecond: stores keep it in another precision, and a
    number that both rounded could still be another one."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, float) and abs(float(self) - float(other)) <= 0.001

    __hash__ = float.__hash__


def _comparable(message: QueuedMessage) -> QueuedMessage:
    """Return a message whose times can be compared with those of another store."""
    times = {name: _Moment(getattr(message, name)) for name in ("created", "changed", "due")}
    return msgspec.structs.replace(message, since=None, **times)


def opener(kind: str, folder: Path, postgres_address: str) -> Callable[[], SessionStore]:
    """Return a function that opens one store, again and again where it outlives the object."""
    address = address_of(kind, folder, postgres_address)
    if kind == "memory":
        store = open_store(address)
        return lambda: store
    return lambda: open_store(address)
