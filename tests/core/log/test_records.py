"""The codec: what goes in comes out, what is no record is a value that says why."""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import (
    FRAGMENTS,
    json_objects,
    json_values,
    records,
    records_of,
    texts,
    unknown_fields,
    unknown_records,
)
from tests.support.runs import examples

from holdfast.core.limits import RECORD_NESTING_MAX
from holdfast.core.log.damage import Flaw, was_repaired
from holdfast.core.log.records import (
    BY_TYPE,
    MESSAGES,
    SEAL,
    Assistant,
    Flush,
    Header,
    OutputRef,
    Prune,
    PruneDecision,
    ToolResult,
    ToolUse,
    Unknown,
    User,
    decode,
    encode,
    encode_lines,
    from_json,
    text_of,
    to_json,
    tool_calls,
)
from holdfast.core.text.cut import scrub, scrub_deep
from holdfast.errors import BadRecord

if TYPE_CHECKING:
    from holdfast.core.log.records import Content, Record


# Round trips


@pytest.mark.parametrize("struct", BY_TYPE.values(), ids=BY_TYPE.keys())
@examples(50)
@given(st.data())
def test_decode_returns_what_encode_was_given(struct: type[Record], data: st.DataObject) -> None:
    """Records of every type survive, with fields that this version does not know."""
    record = data.draw(records_of(struct))
    assert decode(encode(record)) == record
    assert type(decode(encode(record))) is struct


@given(unknown_records())
def test_decode_carries_unknown_types(record: Unknown) -> None:
    """A type this version does not know comes back with everything it held."""
    assert decode(encode(record)) == record
    assert record.kind == record.type


@given(records())
def test_encode_writes_one_line_of_json_that_others_can_read(record: Record) -> None:
    """Any JSON parser reads the line; no newline and no seal is ever in it."""
    line = encode(record)
    assert b"\n" not in line
    assert bytes([SEAL]) not in line
    assert json.loads(line)["type"] == record.kind
    assert to_json(record) == json.loads(line)
    assert from_json(json.loads(line)) == record


@given(
    st.sampled_from([*BY_TYPE, "novel"]),
    unknown_fields(frozenset()),
    unknown_fields(frozenset({"sha256", "bytes", "kind", "lines"})),
    unknown_fields(frozenset({"record", "action", "tool_use_id"})),
)
@example("user", {"$extra": {"type": "assistant"}}, {}, {})
@example("tool_result", {}, {"$extra": {"bytes": 5}}, {})
@example("prune", {}, {}, {"$extra": {}})
@example("novel", {"$type": "x", "$extra": 5}, {}, {})
def test_encode_writes_back_the_fields_it_read(
    kind: str, extra: dict[str, Any], in_ref: dict[str, Any], in_decision: dict[str, Any]
) -> None:
    """A line of a later version, read and written again, says the same as before."""
    line = {
        **{name: value for name, value in extra.items() if name not in _VALID[kind]},
        **_VALID[kind],
    }
    if kind == "tool_result":
        line["output_ref"] = {"sha256": "0" * 64, "bytes": 9, **in_ref}
    if kind == "prune":
        line["decisions"] = [{"record": "r", "action": "trim", **in_decision}]
    record = decode(json.dumps(line).encode())
    # A name that this version knows may come with a value that it refuses.
    if isinstance(record, Flaw):
        assert record.kind == "shape"
        assert set(extra) & set(msgspec.structs.asdict(_sample(kind)))
        return
    again = json.loads(encode(record))
    assert again == {name: line[name] for name in line if name in again}
    assert all(_is_default(kind, name, line[name]) for name in line if name not in again)


_VALID: dict[str, dict[str, Any]] = {
    "session": {"type": "session"},
    "user": {"type": "user", "content": "words"},
    "assistant": {"type": "assistant", "content": [{"type": "text", "text": "words"}]},
    "tool_result": {"type": "tool_result", "tool_use_id": "t"},
    "tool_use": {"type": "tool_use", "tool_use_id": "t"},
    "compaction": {"type": "compaction", "summary": "s"},
    "prune": {"type": "prune", "decisions": []},
    "rewind": {"type": "rewind", "to": "r"},
    "undo": {"type": "undo", "target": "c"},
    "checkpoint": {"type": "checkpoint", "state": {}},
    "flush": {"type": "flush"},
    "label": {"type": "label", "label": "l"},
    "model": {"type": "model", "model": "m"},
    "context": {"type": "context", "text": "t", "source": "s"},
    "failure": {"type": "failure", "cause": "refused"},
    "mode": {"type": "mode", "mode": "fresh"},
    "epoch": {"type": "epoch", "cause": "system"},
    "tools": {"type": "tools", "tools": [{"name": "look"}]},
    "call": {"type": "call", "key": "k", "state": "started", "call": "c", "reply": "r"},
    "novel": {"type": "novel"},
}


def _sample(kind: str) -> Record:
    record = from_json(_VALID[kind])
    assert not isinstance(record, Flaw)
    return record


def _is_default(kind: str, name: str, value: object) -> bool:
    """Whether a field may be left out because it says what its absence says."""
    missing = object()
    return bool(getattr(_sample(kind), name, missing) == value)


@given(st.lists(records(), max_size=6))
def test_encode_lines_is_each_record_on_its_line(batch: list[Record]) -> None:
    """Encoding many at once gives the same bytes as one after the other."""
    assert encode_lines(batch) == b"".join(encode(record) + b"\n" for record in batch)


@pytest.mark.parametrize(
    "odd",
    [
        User(content="\ud800"),
        User(content="x", extra={"new": 1}),
        ToolResult(tool_use_id="t", output_ref=OutputRef(sha256="0", bytes=1, extra={"new": 1})),
        Unknown(type="novel"),
        Prune(decisions=[PruneDecision(record="r", action="trim", extra={"new": 1})]),
    ],
)
def test_encode_lines_takes_the_slow_way_where_a_record_needs_it(odd: Record) -> None:
    """One record that its struct cannot write by itself does not spoil its neighbours."""
    batch = [User(content="a"), odd, User(content="b")]
    first, middle, last = encode_lines(batch).splitlines()
    assert (first, middle, last) == (encode(batch[0]), encode(odd), encode(batch[2]))
    assert decode(first) == batch[0]
    assert not isinstance(decode(middle), Flaw)


@given(texts(40), texts(20))
def test_encode_scrubs_surrogates_wherever_they_are(words: str, name: str) -> None:
    """Lone surrogates in text, keys and unknown fields never reach a file."""
    record = User(content=[{"text": words, name: [words]}], extra={f"x-{name}": {name: words}})
    stored = decode(encode(record))
    assert stored == User(
        content=[{"text": scrub(words), scrub(name): [scrub(words)]}],
        extra={f"x-{scrub(name)}": {scrub(name): scrub(words)}},
    )


# What cannot be stored


def _nested(depth: int) -> list[dict[str, Any]]:
    value: Any = "bottom"
    for _ in range(depth):
        value = [value]
    return [{"value": value}]


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {("a", "b"): 1},
        {"a": "\ud800", "b": object()},
        {None: 1},
        1j,
    ],
    ids=["object", "tuple-key", "object-behind-surrogate", "none-key", "complex"],
)
def test_encode_refuses_what_json_cannot_hold(value: object) -> None:
    """A value without a JSON form is an error that names the type and gives a way out."""
    record = User(content=[{"value": value}])
    with pytest.raises(BadRecord, match="`user` record holds what JSON cannot") as raised:
        encode(record)
    assert "blob" in str(raised.value.hint)
    with pytest.raises(BadRecord):
        encode_lines([User(content="x"), record])


@pytest.mark.parametrize("words", ["bottom", "\ud800"])
@pytest.mark.parametrize("levels", [RECORD_NESTING_MAX, 2_000, 100_000])
def test_encode_refuses_what_is_nested_too_deeply(words: str, levels: int) -> None:
    """The limit is ours: the interpreter's differs by version, and by who calls."""
    content: list[dict[str, Any]] = [{"first": words}, *_nested(levels)]
    with pytest.raises(BadRecord, match="nested too deeply"):
        encode(User(content=content))
    with pytest.raises(BadRecord, match="nested too deeply"):
        encode_lines([User(content=content)])


@pytest.mark.parametrize("words", ["bottom", "\ud800"])
def test_what_is_nested_as_deeply_as_allowed_is_stored(words: str) -> None:
    """Text with any number of brackets is not nested at all."""
    around = 3  # the record, the list of blocks, the block
    content = [{"first": words + "[" * 10_000}, *_nested(RECORD_NESTING_MAX - around)]
    record = User(content=content)
    (line,) = encode_lines([record]).splitlines()
    assert line == encode(record)
    found = decode(line)
    assert isinstance(found, User)
    assert found.content == scrub_deep(content)
    deeper = line.replace(b'"bottom"', b'["bottom"]')
    assert decode(deeper) == Flaw("garbage", "nested too deeply")


@pytest.mark.parametrize("ts", [math.nan, math.inf, -math.inf])
def test_encode_of_a_time_that_is_no_number_can_be_read(ts: float) -> None:
    """A record with an impossible time is stored without it rather than lost."""
    line = encode(User(content="words", ts=ts))
    assert decode(line) == User(content="words")


# Whatever the bytes


def _check_any_bytes(line: bytes) -> None:
    """`decode` returns a value for any bytes."""
    record = decode(line)
    if isinstance(record, Flaw):
        assert record.detail
        return
    assert record.kind != ""
    # What was read can be written, and is then read the same.
    assert decode(encode(record)) == decode(encode(_read(encode(record))))


def _read(line: bytes) -> Record:
    record = decode(line)
    assert not isinstance(record, Flaw)
    return record


@examples(300)
@given(st.binary(max_size=80))
@example(b"")
@example(b"\xef\xbb\xbf{}")
@example(b"\xff\xfe{\x00")
@example(b'{"type":"user","content":1e999}')
@example(b'{"type":"user","content":"","type":"flush"}')
@example(b'{"type":"\\u0075ser","content":"","id":"a","id":"b"}')
@example(b'{"type":"flush","ts":' + b"9" * 400 + b"}")
@example(b'{"type":"flush","x":' + b"9" * 5_000 + b"}")
@example(b"[" * 100_000)
@example(b'{"type":"user","content":' + b"[" * 100_000)
@example(b'{"a":' * 100_000)
def test_decode_never_raises_on_random_bytes(line: bytes) -> None:
    """Bytes that mean nothing give a flaw with a reason."""
    _check_any_bytes(line)


@examples(400)
@given(records(), st.data())
def test_decode_never_raises_on_hurt_lines(record: Record, data: st.DataObject) -> None:
    """A real line with bytes changed, lost, put in or cut off gives a record or a flaw."""
    line = bytearray(encode(record))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(line)))
        until = data.draw(st.integers(at, min(at + 4, len(line))))
        line[at:until] = data.draw(
            st.sampled_from((b"", b"\x00", b"\xff", b'"', b"{", b"]", b"NaN", b"\\ud800", b"9"))
            | st.binary(max_size=3)
        )
    _check_any_bytes(bytes(line))


@given(json_values() | json_objects())
def test_decode_never_raises_on_any_json(value: object) -> None:
    """JSON of any shape gives a record or a flaw, with a type of ours or without."""
    _check_any_bytes(json.dumps(value).encode())
    if isinstance(value, dict):
        for kind in BY_TYPE:
            _check_any_bytes(json.dumps({**value, "type": kind}).encode())


# Flaws say why


@pytest.mark.parametrize(
    ("line", "kind", "detail"),
    [
        (b"", "garbage", "not JSON"),
        (b"hello", "garbage", "not JSON"),
        (b'{"type":"user","content":"cut of', "garbage", "not JSON"),
        (b'{"type":"user","content":"a\x01b"}', "garbage", "not JSON"),
        (b'{"type":"user","content":"x"} {}', "garbage", "not JSON"),
        (b"[" * 100_000, "garbage", "nested too deeply"),
        (b"\x00" * 7, "nul", "7 NUL bytes in a line of 7"),
        (b'{"type":"user","con\x00\x00', "nul", "2 NUL bytes in a line of 21"),
        (b'{"type":"user","content":"\xff"}', "utf-8", "byte 26 of the line"),
        (b'{"type":"user","content":"\xed\xa0\x80"}', "utf-8", "byte 26 of the line"),
        (b'{"type":"us\x18', "torn", "11 bytes of an append that never completed"),
        (b"\x18", "torn", "0 bytes of an append that never completed"),
        (b"[]", "shape", "expected an object, found a list"),
        (b'"words"', "shape", "expected an object, found a string"),
        (b"null", "shape", "expected an object, found null"),
        (b"true", "shape", "expected an object, found a boolean"),
        (b"1.5", "shape", "expected an object, found a number"),
        (b"NaN", "shape", "expected an object, found null"),
        (b"{}", "shape", "no `type`"),
        (b'{"type":""}', "shape", "no `type`"),
        (b'{"type":7}', "shape", "no `type`"),
        (b'{"type":"user"}', "shape", "user: Object missing required field `content`"),
        (b'{"type":"user","content":5}', "shape", "`$.content`"),
        (b'{"type":"user","content":["x"]}', "shape", "`$.content[0]`"),
        (b'{"type":"user","content":"x","id":5}', "shape", "`$.id`"),
        (b'{"type":"user","content":"x","ts":"now"}', "shape", "`$.ts`"),
        (b'{"type":"user","content":"x","more":-1}', "shape", "`$.more`"),
        (b'{"type":"novel","parent":5}', "shape", "novel: "),
        (b'{"type":"novel","parent":5}', "shape", "`$.parent`"),
        (b'{"type":"prune","decisions":5}', "shape", "`$.decisions`"),
        (b'{"type":"prune","decisions":[5]}', "shape", "`$.decisions[0]`"),
        (
            b'{"type":"prune","decisions":[{"record":"r","action":"burn","new":1}],"new":1}',
            "shape",
            "`$.decisions[0].action`",
        ),
        (
            b'{"type":"tool_result","tool_use_id":"t","output_ref":{"sha256":5,"bytes":1}}',
            "shape",
            "`$.output_ref.sha256`",
        ),
        (b'{"type":"tool_result","tool_use_id":"t","output_ref":5}', "shape", "`$.output_ref`"),
        (b'{"type":"user","content":"\\ud800","ts":[]}', "shape", "`$.ts`"),
    ],
)
def test_decode_says_what_is_wrong_and_where(line: bytes, kind: str, detail: str) -> None:
    """A flaw names its kind, and for a wrong shape the path to the field."""
    flaw = decode(line)
    assert isinstance(flaw, Flaw)
    assert flaw.kind == kind
    assert detail in flaw.detail


# Other writers


def test_decode_reads_the_seed_format() -> None:
    """The four record types of the seed, without ids and parents, open as they are."""
    lines = [
        b'{"type": "user", "content": "read it", "ts": 1.5}',
        b'{"type": "assistant", "content": [{"type": "text", "text": "ok"}, {"type": "tool_use",'
        b' "id": "t1", "name": "read", "input": {"path": "a"}}], "ts": 2.5}',
        b'{"type": "assistant", "content": "bare", "ts": 2.5}',
        b'{"type": "tool_use", "tool_use_id": "t1", "name": "read", "input": {"path": "a"},'
        b' "ts": 3.5}',
        b'{"type": "tool_result", "tool_use_id": "t1", "content": "text", "ts": 3.5}',
    ]
    call = {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}}
    assert [decode(line) for line in lines] == [
        User(content="read it", ts=1.5),
        Assistant(content=[{"type": "text", "text": "ok"}, call], ts=2.5),
        Assistant(content="bare", ts=2.5),
        ToolUse(tool_use_id="t1", name="read", input={"path": "a"}, ts=3.5),
        ToolResult(tool_use_id="t1", content="text", ts=3.5),
    ]


@given(texts(40))
def test_decode_reads_lone_surrogates_that_others_escape(words: str) -> None:
    """Python and JavaScript write lone surrogates as escapes; they are read as U+FFFD."""
    line = json.dumps({"type": "user", "content": words, "new": [words]}).encode()
    assert decode(line) == User(content=scrub(words), extra={"new": [scrub(words)]})


REF = OutputRef(sha256="a" * 64, bytes=1, extra={"new": 1})
ORIGINALS: list[Any] = [
    {"format": "f", "json": '{"a":[1,"\\u00e9"]}'},
    {"format": "f", "json": '}],"original":{"x":1}}'},
    {"original": {"original": []}},
    *({}, [], 5, None, "original"),
]


@examples(200)
@given(records(), json_values(), st.booleans())
@example(User(content='said ,"original":{} here', id="a"), ORIGINALS[0], False)
@example(User(content="x", id="a"), ORIGINALS[1], True)
@example(User(content=[{"type": "text", "text": "t", "original": {"x": 1}}]), ORIGINALS[2], False)
@example(ToolUse(tool_use_id="c", name="f", input={"a": 1, "original": {}}), ORIGINALS[0], False)
@example(ToolUse(tool_use_id="c", name="f", input={"a": 1, "original": {}}), None, True)
@example(Assistant(content="x", extra={"author": "ann"}), ORIGINALS[0], False)
@example(ToolResult(tool_use_id="c", content="x", output_ref=REF), 5, False)
@example(User(content="x", extra={"$extra": {"type": "assistant"}}), ORIGINALS[0], False)
@example(Unknown(type="peer_item"), ORIGINALS[0], False)
def test_a_line_with_an_original_is_decoded_by_the_same_rules(
    record: Record, original: object, is_first: bool
) -> None:
    """Its last field is decoded by itself; that changes nothing, wherever the field really is."""
    plain = {**to_json(record), "original": original}
    if is_first:
        plain = {name: plain[name] for name in ("original", *plain)}
    line = msgspec.json.encode(plain)
    assert decode(line) == from_json(plain)
    found = decode(line)
    assert not isinstance(found, Flaw)
    assert "original" in found.extra
    assert msgspec.json.decode(encode(found)) == msgspec.json.decode(line)


@pytest.mark.parametrize("end", [b"", b"}}", b"]}", b"} ", b'},"id":"b"}', b'},"original":5}'])
def test_a_line_that_seems_to_have_an_original_is_read_as_any_other(end: bytes) -> None:
    """Damage, spaces, a field twice: the same finding as without the short way."""
    line = b'{"type":"user","content":"x","id":"a","original":{"format":"f","json":"{}"' + end
    try:
        expected = from_json(json.loads(line))
    except ValueError:
        expected = None
    found = decode(line)
    assert isinstance(found, Flaw) if expected is None else found == expected


def test_an_original_that_is_nested_too_deeply_is_a_flaw() -> None:
    deep = b"[" * (RECORD_NESTING_MAX + 5) + b"]" * (RECORD_NESTING_MAX + 5)
    assert isinstance(decode(b'{"type":"flush","id":"a","original":' + deep + b"}"), Flaw)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_decode_reads_numbers_that_are_none(value: float) -> None:
    """NaN and the infinities, which JSON does not have, are read as null."""
    line = json.dumps({"type": "assistant", "content": "x", "usage": {"cost": value}, "ts": value})
    assert decode(line.encode()) == Assistant(content="x", usage={"cost": None})
    assert was_repaired(line.encode())


def test_decode_leniently_keeps_unknown_types_and_nested_fields() -> None:
    """A line that only a lenient reader accepts is carried like any other."""
    unknown = decode(b'{"type":"novel","id":"r","ts":NaN,"words":"\\ud800"}')
    assert unknown == Unknown(type="novel", id="r", extra={"words": "\ufffd"})
    result = decode(
        b'{"type":"tool_result","tool_use_id":"\\udfff","output_ref":{"sha256":"s","bytes":1,"n":2}}'
    )
    reference = OutputRef(sha256="s", bytes=1, extra={"n": 2})
    assert result == ToolResult(tool_use_id="\ufffd", output_ref=reference)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (b'{"type":"user","content":"plain"}', False),
        (b'{"type":"user","content":"NaN \\ud83d\\ude00"}', False),
        (b'{"type":"user","content":"\\ud83d"}', True),
        (b'{"type":"user","content":"\\uDFFF"}', True),
        (b'{"type":"user","content":"x","cost":NaN}', True),
        (b'{"type":"user","content":"x","cost":-Infinity}', True),
    ],
)
def test_was_repaired_tells_strict_text_from_lenient(line: bytes, expected: bool) -> None:
    """Only text that a strict reader refuses counts as repaired."""
    assert was_repaired(line) is expected


def test_from_json_follows_the_rules_for_lines() -> None:
    """Parsed JSON becomes a record, or a flaw, as its line would."""
    assert from_json({"type": "user", "content": "x", "new": 1}) == User(
        content="x", extra={"new": 1}
    )
    assert from_json({"type": "novel", "id": "r"}) == Unknown(type="novel", id="r")
    assert from_json([]) == Flaw("shape", "expected an object, found a list")
    assert isinstance(from_json({"type": "user"}), Flaw)


def test_from_json_does_not_touch_its_argument() -> None:
    """The caller's value stays as it was."""
    value = {"type": "prune", "ts": None, "decisions": [{"record": "r", "action": "trim", "n": 1}]}
    before = json.dumps(value)
    assert not isinstance(from_json(value), Flaw)
    assert json.dumps(value) == before


# Reading a message


@pytest.mark.parametrize(
    ("content", "text", "calls"),
    [
        (None, "", 0),
        ("words", "words", 0),
        ([], "", 0),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}], "a\nb", 0),
        ([{"type": "text"}, {"type": "text", "text": 5}, {}], "", 0),
        ([{"type": "tool_use", "id": "t"}, {"type": "text", "text": "a"}], "a", 1),
        ([{"type": "tool_use"}, {"type": "tool_use"}], "", 2),
    ],
)
def test_text_and_calls_of_a_message(content: Content, text: str, calls: int) -> None:
    """The words are the text blocks, line by line; the calls are the tool-use blocks."""
    assert text_of(content) == text
    assert len(tool_calls(content)) == calls


def test_records_name_their_kind() -> None:
    """A record knows its type as the log spells it; the messages are among the known types."""
    assert {tag: _sample(tag).kind for tag in BY_TYPE} == {tag: tag for tag in BY_TYPE}
    assert set(MESSAGES) < set(BY_TYPE)
    assert Header().kind == "session"
    assert Flush().kind == "flush"


def test_records_write_only_what_they_say() -> None:
    """A field with its default value takes no room in the log."""
    assert encode(Header()) == b'{"type":"session"}'
    assert decode(b'{"type":"session"}') == Header(format="", version=0)
    assert encode(User(content="x", id="r")) == b'{"type":"user","id":"r","content":"x"}'
    assert encode(Unknown(type="novel", id="r")) == b'{"type":"novel","id":"r"}'


@pytest.mark.parametrize("fragment", FRAGMENTS)
def test_encode_carries_difficult_text(fragment: str) -> None:
    """Each piece of text that has broken something somewhere survives a round trip."""
    assert decode(encode(User(content=fragment))) == User(content=scrub(fragment))


@pytest.mark.parametrize(
    "record",
    [
        User(content=5),  # type: ignore[arg-type]
        ToolResult(tool_use_id=3, content="x"),  # type: ignore[arg-type]
        User(content="x", extra={"type": "other"}),
        Unknown(type="odd", extra={"id": "x"}),
    ],
)
def test_encode_lines_refuses_what_could_not_be_read_again(record: Record) -> None:
    """A record that a reader would not accept, or take for another, is refused before writing."""
    with pytest.raises(BadRecord):
        encode_lines([User(content="good"), record])
