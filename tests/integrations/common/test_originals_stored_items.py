"""Items of a framework, read without their records: the same as those of the records."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st
from tests import strategies
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import (
    ORIGINAL_FIELD,
    Assistant,
    Rewind,
    ToolResult,
    ToolUse,
    Unknown,
    User,
    decode,
)
from holdfast.integrations.common import originals
from holdfast.integrations.common.originals import (
    MessageLine,
    items_of,
    read_items,
    read_lines,
)
from holdfast.integrations.common.responses_items import items_from_line, items_from_record
from holdfast.integrations.strands.messages import messages_from_line, messages_from_record
from holdfast.ports import ANY_HEAD
from holdfast.stores import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from holdfast.core.log.damage import Flaw
    from holdfast.core.log.records import Record
    from holdfast.ports import SessionStore

FORM = "peer"
KEY = SessionKey("main", "s")
KEPT: list[Any] = [
    {"format": FORM, "json": '{"a":[1]}'},
    {"format": FORM, "json": ""},
    {"format": FORM},
    {"format": "other", "json": "{}"},
    {"format": FORM, "json": '{"original":"é\\ud800"}'},
    {"format": FORM, "json": 5},
    [FORM],
    None,
]
STEPS = st.lists(
    st.tuples(st.sampled_from(["one", "several", "rewind", "call"]), st.integers(0, len(KEPT) - 1)),
    max_size=12,
)


def record_of(kept: Any, number: int) -> Record:
    extra = {} if number % 3 == 0 else {ORIGINAL_FIELD: kept}
    made: Record = User(content=f"words {number}", extra=extra)
    return made if number % 4 else Unknown(type="peer_item", extra=extra)


def write(store: SessionStore, steps: list[tuple[str, int]]) -> None:
    """Write a log with appends of one record and of several, branches and doubled calls."""
    store.create(KEY, label="x")
    ids = [store.head(KEY)]
    for number, (step, choice) in enumerate(steps):
        records = [record_of(KEPT[choice], number)]
        if step == "several":
            records += [
                record_of(KEPT[(choice + more) % len(KEPT)], number + more) for more in (1, 2)
            ]
        elif step == "rewind":
            records = [Rewind(to=ids[choice % len(ids)])]
        elif step == "call":
            records = [ToolUse(tool_use_id=f"c{choice}", name="f", input={})]
        ids += store.append(KEY, records, expect=ANY_HEAD).ids


def check_same(store: SessionStore) -> None:
    """The items are those of the records, and so are the records."""
    entries = [e.record for e in store.read_all(KEY) if e.standing in ("path", "branch")]
    for is_everything, records in ((False, list(store.read(KEY))), (True, entries)):
        expected = list(items_of(records, FORM))
        found = list(read_items(store, KEY, FORM, is_everything=is_everything))
        assert [item[:3] for item in found] == [item[:3] for item in expected]
        assert [item.record for item in found] == records


@given(STEPS)
@example([])
@example([("several", 0), ("one", 1), ("several", 4)])
@example([("one", 0), ("rewind", 0), ("several", 2)])
@example([("one", 0), ("call", 1), ("call", 1), ("one", 3)])
@example([("one", 5), ("one", 6), ("one", 7)])
@examples(200)
def test_items_are_those_of_the_records(steps: list[tuple[str, int]]) -> None:
    store = MemoryStore()
    write(store, steps)
    check_same(store)


EDITS = st.lists(
    st.tuples(st.sampled_from(["lose", "repeat", "swap"]), st.integers(0, 30)), max_size=3
)


@given(STEPS, EDITS)
@example([("several", 0)], [("lose", 2)])
@example([("several", 0), ("one", 1)], [("lose", 2)])
@example([("several", 0), ("several", 1)], [("lose", 3)])
@example([("one", 0), ("one", 1)], [("repeat", 0)])
@example([("one", 0), ("one", 1)], [("swap", 0)])
@examples(200)
def test_lines_that_are_lost_repeated_or_swapped_count_as_in_the_log(
    steps: list[tuple[str, int]], edits: list[tuple[str, int]]
) -> None:
    """An append of several records that lacks one is absent, and a line that is there again is
    taken once: by the rules of the log, whichever way it is read."""
    sound = MemoryStore(clock=lambda: 1.5, entropy=random.Random(1).getrandbits)
    write(sound, steps)
    header, *rest = b"".join(sound.export(KEY)).splitlines(keepends=True)
    for edit, number in edits:
        if not rest:
            break
        place = number % len(rest)
        if edit == "lose":
            del rest[place]
        elif edit == "repeat":
            rest.insert(place, rest[place])
        else:
            rest[place], rest[place - 1] = rest[place - 1], rest[place]
    store = MemoryStore()
    store.extend_log(KEY, b"".join([header, *rest]), at=0)
    check_same(store)


@given(STEPS, st.integers(0, 1_000_000))
@example([("several", 0), ("one", 0), ("several", 1)], 1)
@examples(200)
def test_a_damaged_log_gives_every_item_that_its_records_give(
    steps: list[tuple[str, int]], seed: int
) -> None:
    """Bytes are changed, cut off or doubled. An item may be read whose record has other damage."""
    rng = random.Random(seed)
    sound = MemoryStore(clock=lambda: 1.5, entropy=rng.getrandbits)
    write(sound, steps)
    data = bytearray(b"".join(sound.export(KEY)))
    first = data.index(b"\n") + 1
    for _ in range(rng.randint(1, 3)):
        place = rng.randrange(first, len(data)) if first < len(data) else first
        match rng.randrange(4):
            case 0:
                data[place : place + 1] = bytes([rng.randrange(256)])
            case 1:
                del data[place:]
            case 2:
                data[place:place] = data[first:place]
            case _:
                data[place:place] = rng.choice([b"\n", b"\x00", b"\x18\n", b"{}\n", b" "])
    if not data.endswith(b"\n"):
        data += b"\n"
    store = MemoryStore()
    store.extend_log(KEY, bytes(data), at=0)
    told = [item[:3] for item in items_of(store.read(KEY), FORM) if item.spelled]
    found = [item[:3] for item in read_items(store, KEY, FORM) if item.spelled]
    places = iter(found)
    assert all(item in places for item in told)


def test_no_record_is_decoded_for_its_item(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A resume of any length decodes the records that keep no item, and no other."""
    decoded: list[bytes] = []

    def count(line: bytes) -> Record | Flaw:
        decoded.append(line)
        return decode(line)

    monkeypatch.setattr(originals, "decode", count)
    with JsonlStore(str(tmp_path)) as store:
        store.create(KEY)
        kept = {ORIGINAL_FIELD: KEPT[0]}
        for number in range(50):
            records = [User(content=f"{number}", extra=kept), User(content="and", extra=kept)]
            store.append(KEY, records, expect=ANY_HEAD)
        monkeypatch.setattr("holdfast.stores.lines.decode", None)  # of no store either
        items = list(read_items(store, KEY, FORM))
        assert [item.spelled for item in items] == [None, *['{"a":[1]}'] * 100]
        assert not decoded
        assert items[1].record is not None
        assert len(decoded) == 1


def test_damaged_fields_leave_the_item() -> None:
    """Of a record that a hand has changed, the framework's item is still there."""
    store = MemoryStore()
    store.create(KEY)
    line = {"type": "user", "id": "zz", "content": 5, "original": KEPT[0]}
    size = store.info(KEY).bytes
    store.extend_log(KEY, msgspec.json.encode(line) + b"\n", at=size)
    *_, item = read_items(store, KEY, FORM)
    assert (item.id, item.spelled, item.record) == ("zz", '{"a":[1]}', None)


def test_a_blank_line_is_no_record() -> None:
    """It shifts no item to another record."""
    sound = MemoryStore()
    write(sound, [("one", 0), ("several", 4), ("one", 0)])
    first, *rest = b"".join(sound.export(KEY)).splitlines(keepends=True)
    store = MemoryStore()
    store.extend_log(KEY, b"".join([first, b"\n", rest[0], b"  \n", *rest[1:]]), at=0)
    check_same(store)
    lines = read_lines(store, KEY, MessageLine)
    assert [line.id for line in lines] == [record.id for record in store.read(KEY)]


def deep(levels: int) -> Any:
    value: Any = "end"
    for _ in range(levels):
        value = [value]
    return [{"type": "tool_use", "id": "c", "name": "f", "input": {"x": value}}]


LACKING: list[dict[str, Any]] = [
    {"type": "user"},
    {"type": "assistant"},
    {"type": "tool_result", "content": "x"},
    {"type": "user", "content": 5},
    {"type": "user", "content": "x", "ts": "late"},
    {"type": "user", "content": "x", "ts": None},
    {"type": "user", "content": ["x"]},
    {"type": "assistant", "content": deep(120)},
    {"type": "assistant", "content": deep(3)},
    {"type": "tool_result", "tool_use_id": None},
    {"type": "user", "content": None, "role": "system"},
    {"type": "user", "content": "x", "original": {"format": "openai-responses", "json": '{"a":1}'}},
    {"type": "user", "content": "x", "original": {"format": "openai-responses", "json": "{"}},
]


def check_lines(store: SessionStore) -> None:
    """What the lines of messages amount to is what their records amount to."""
    expected = [
        (record.id, items_from_record(record), messages_from_record(record))
        for record in store.read(KEY)
    ]
    found = [
        (line.id, items_from_line(line), messages_from_line(line))
        if isinstance(line, MessageLine)
        else (line.id, items_from_record(line), messages_from_record(line))
        for line in read_lines(store, KEY, MessageLine)
    ]
    assert found == expected


@given(st.lists(strategies.records() | st.builds(User, content=st.text()), max_size=6))
@example([User(content="a", extra={"role": "system"}), Assistant(content=deep(2))])
@example([ToolResult(tool_use_id="c", content=[{"type": "text", "text": ""}], is_error=True)])
@example(
    [Assistant(content=[{"type": "text", "text": "a"}, {"type": "thinking"}]), User(content=None)]
)
@example(
    [User(content=[{"type": "image", "source": {}}, {"text": "x"}, {}]), ToolResult(tool_use_id="")]
)
@examples(200)
def test_lines_of_messages_amount_to_what_their_records_do(told: list[Record]) -> None:
    store = MemoryStore()
    store.create(KEY)
    plain = [msgspec.structs.replace(record, id="", parent=None, more=None) for record in told]
    for record in plain:
        if record.kind not in ("session", "rewind"):
            store.append(KEY, [record], expect=ANY_HEAD)
    check_lines(store)


def test_lines_that_lack_something_are_read_by_the_rules() -> None:
    """A line that is not a record has no message, also where the rest of the log is plain."""
    for number, lacking in enumerate(LACKING):
        store = MemoryStore()
        store.create(KEY)
        store.append(KEY, [User(content="before")], expect=ANY_HEAD)
        line = msgspec.json.encode({"id": "zz", **lacking}) + b"\n"
        store.extend_log(KEY, line, at=store.info(KEY).bytes)
        assert lacking["type"], number
        check_lines(store)
