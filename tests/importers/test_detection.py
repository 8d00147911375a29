"""Every format is recognised as itself, and nothing else is taken for a transcript."""

from __future__ import annotations

import copy
import gzip
import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.samples import FORMATS, SAMPLES, detect, jsonl, read
from tests.support.cases import check_all
from tests.support.runs import examples

from holdfast.core.log.ids import is_name
from holdfast.core.log.records import decode, encode
from holdfast.errors import UsageError
from holdfast.importers.common.base import holds_messages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SPEAKERS = {"role", "speaker", "sender"}
WITHOUT_BLOCKS = {
    *("memorybank", "goodai-ltm", "memorycode", "sharegpt"),
    *("antigravity", "openinference", "openhands", "chatgpt", "claude-web"),
}
"""Formats whose sample has no list of blocks to add one to."""


def test_there_is_a_sample_of_every_format() -> None:
    """A format without a sample would go untested here."""
    assert set(SAMPLES) == set(FORMATS)


def test_sample_is_recognised() -> None:
    """A small transcript is taken for what it is, and holds at least one message."""

    def check(kind: str) -> None:
        name, data = SAMPLES[kind]
        found = read(data, name)
        assert detect(data, name) == kind
        assert [one.format for one in found] == [kind]
        assert found[0].records
        assert is_name(found[0].name)

    check_all(FORMATS, check)


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b"\n\n", b"  \r\n"], ids=["BOM", "LF", "CRLF"])
def test_what_editors_put_before_the_text_changes_nothing(mark: bytes) -> None:
    """A byte order mark or blank lines at the beginning are no part of a transcript."""

    def check(kind: str) -> None:
        name, data = SAMPLES[kind]
        assert detect(mark + data, name) == kind
        assert [one.records for one in read(mark + data, name)] == [
            one.records for one in read(data, name)
        ]

    check_all(FORMATS, check)


def test_packed_and_utf16_files_are_the_same_transcript() -> None:
    """gzip is told by its first bytes, not by the name, and UTF-16 by its mark."""

    def check(kind: str) -> None:
        name, data = SAMPLES[kind]
        plain = [one.records for one in read(data, name)]
        assert [one.records for one in read(gzip.compress(data), name)] == plain
        assert [one.records for one in read(data.decode().encode("utf-16"), name)] == plain

    check_all(FORMATS, check)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "it is empty"),
        (b" \n\t\n", "it is empty"),
        (b"Dear diary,\nnothing happened.", "it begins with `Dear diary, nothing happened.`"),
        (("漢字 " * 100).encode(), "it begins with `漢字 漢字"),
        (b'{"name": "holdfast", "version": 1}', "the fields `name`, `version`"),
        (b"[1, 2, 3]", "a JSON list of 3 items"),
        (b"{}", "no fields"),
        (b"\x00\x01\x02\x03", "it is not text"),
        (b"\x7fELF\x02\x01\x01" + bytes(60), "it is not text"),
        (b"\x89PNG\r\n\x1a\n" + bytes(60), "it is not text"),
        (jsonl({"level": "info", "msg": "started"}), "`level`, `msg`"),
        (b'[{"id": 1, "title": "a to-do"}]', "of objects with the fields `id`, `title`"),
    ],
)
def test_other_files_are_refused_with_what_was_found(data: bytes, said: str) -> None:
    """The error says what the file looks like, and which formats are known."""
    assert detect(data, "some.file") is None
    with pytest.raises(UsageError, match=r"some\.file") as refused:
        read(data, "some.file")

    assert said in str(refused.value)
    assert refused.value.hint is not None
    if said in ("it is empty", "it is not text"):  # it has no format that could be named
        assert "--format" not in refused.value.hint
    else:
        assert all(kind in refused.value.hint for kind in FORMATS)


def test_unknown_format_is_refused_by_name() -> None:
    """A format that is asked for must be one of the table."""
    with pytest.raises(UsageError, match="unknown format `word`"):
        read(b"{}", "x", format="word")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**25), 10**25)
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(
        ["user", "assistant", "message", "text", "tool_use", "2026-03-01T10:00:00Z", "\ud800"]
    ),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(max_size=6)
            | st.sampled_from(["type", "role", "content", "id", "message", "tool_calls", "usage"]),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


def _spoil(value: object, path: list[int], junk: object) -> object:
    """The value with one part of it, reached by going down `path`, replaced by junk."""
    if not path or not isinstance(value, dict | list) or not value:
        return junk
    if isinstance(value, list):
        place = path[0] % len(value)
        return [_spoil(one, path[1:], junk) if at == place else one for at, one in enumerate(value)]
    name = sorted(value)[path[0] % len(value)]
    return {key: _spoil(one, path[1:], junk) if key == name else one for key, one in value.items()}


def spoiled(data: bytes, path: list[int], junk: object) -> bytes:
    """A transcript with junk in one place."""
    try:
        whole = json.loads(data)
    except ValueError:
        lines = _spoil([json.loads(line) for line in data.splitlines()], path, junk)
        return jsonl(*(lines if isinstance(lines, list) else [lines]))
    return json.dumps(_spoil(whole, path, junk)).encode()


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "aider"])
@given(path=st.lists(st.integers(0, 20), max_size=6), junk=JSON)
@examples(40)
def test_no_importer_fails_on_wrong_types(kind: str, path: list[int], junk: object) -> None:
    """Whatever stands in whatever place: records come out that can be stored, or none."""
    name, data = SAMPLES[kind]
    data = spoiled(data, path, junk)

    found = read(data, name, format=kind)

    for one in found:
        assert is_name(one.name)
        for record in one.records:
            assert decode(encode(record)) == record
    detect(data, name)


def _places(value: object, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every list and object in a value, with the way to it."""
    if isinstance(value, dict | list):
        yield path, value
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for name, item in items:
            yield from _places(item, (*path, name))


def _changed(document: Any, path: tuple[Any, ...], change: Callable[[Any], None]) -> Any:
    copied = copy.deepcopy(document)
    place = copied
    for name in path:
        place = place[name]
    change(place)
    return copied


def _counted(data: bytes, name: str, kind: str) -> int:
    return sum(one.count for each in read(data, name, format=kind) for one in each.skipped)


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind not in ("aider", "holdfast")])
def test_a_kind_that_an_importer_does_not_know_is_counted(kind: str) -> None:
    """A message or a block of a new kind, in every list of every sample: it is told with a count,
    whether it is kept or not. Our own logs may hold any kind of record."""
    name, data = SAMPLES[kind]
    lines = _lines_of(data)
    document = json.loads(data) if lines is None else lines
    before, tried = _counted(data, name, kind), 0
    for path, items in _places(document):
        objects = [one for one in items if isinstance(one, dict)] if isinstance(items, list) else []
        for field in ("type", "kind"):
            if not any(isinstance(one.get(field), str) for one in objects):
                continue
            new = {field: "novel_kind", "text": "words", "payload": {"words": "more"}}
            made = _changed(document, path, lambda place, new=new: place.append(new))  # type: ignore[misc]
            tried += 1
            spoilt = json.dumps(made).encode() if lines is None else jsonl(*made)
            assert _counted(spoilt, name, kind) > before, (path, field)
    for path, message in _places(document):
        if not isinstance(message, dict) or not SPEAKERS & set(message):
            continue
        for field in {"content", "parts"} & set(message):
            said = message[field]
            if not isinstance(said, str | list):
                continue
            blocks = [{"type": "text", "text": said}] if isinstance(said, str) else said
            new = {"novel": {"words": "more"}} | ({"type": "novel"} if field == "content" else {})
            more = {field: [*blocks, new]}
            made = _changed(document, path, lambda place, more=more: place.update(more))  # type: ignore[misc]
            tried += 1
            spoilt = json.dumps(made).encode() if lines is None else jsonl(*made)
            assert _counted(spoilt, name, kind) > before, (path, field)
    assert bool(tried) != (kind in WITHOUT_BLOCKS)


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "aider"])
def test_messages_beside_the_messages_are_counted(kind: str) -> None:
    """Another list of messages beside each list of messages of each sample that is one document."""
    name, data = SAMPLES[kind]
    if _lines_of(data) is not None:
        return
    document = json.loads(data)
    others = [{"role": "user", "content": f"What nobody has read, number {n}"} for n in range(3)]
    for path, value in _places(document):
        if not isinstance(value, dict) or not any(map(holds_messages, value.values())):
            continue
        made = _changed(document, path, lambda place: place.update(novel=others))
        before, after = _counted(data, name, kind), _counted(json.dumps(made).encode(), name, kind)
        assert after > before, path


MARK = "what7 was said"
FOREIGN_BLOCKS: list[dict[str, Any]] = [
    # Anthropic's API
    {"type": "tool_use", "id": "t9", "name": "read", "input": {"q": MARK}},
    {"type": "tool_result", "tool_use_id": "t9", "content": [{"type": "text", "text": MARK}]},
    {"type": "thinking", "thinking": MARK, "signature": "c2ln"},
    {"type": "server_tool_use", "id": "s9", "name": "web_search", "input": {"query": MARK}},
    {"type": "mcp_tool_use", "id": "m9", "name": "read", "server_name": "s", "input": {"q": MARK}},
    {
        "type": "web_search_tool_result",
        "tool_use_id": "s9",
        "content": [{"type": "web_search_result", "title": MARK, "url": "https://e.example"}],
    },
    {"type": "compaction", "content": MARK},
    # OpenAI's two
    {"type": "image_url", "image_url": {"url": f"https://e.example/{MARK}"}},
    {"type": "input_audio", "input_audio": {"data": MARK, "format": "wav"}},
    {"type": "refusal", "refusal": MARK},
    {"type": "output_text", "text": MARK, "annotations": []},
    {"type": "function_call", "call_id": "c9", "name": MARK, "arguments": "{}"},
    {"type": "function_call_output", "call_id": "c9", "output": MARK},
    # Gemini and Bedrock, which name the kind by the field
    {"functionCall": {"name": "read", "args": {"q": MARK}}},
    {"functionResponse": {"name": "read", "response": {"output": MARK}}},
    {"executableCode": {"language": "PYTHON", "code": MARK}},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": MARK}},
    {"toolUse": {"toolUseId": "t9", "name": "read", "input": {"q": MARK}}},
    {"toolResult": {"toolUseId": "t9", "content": [{"text": MARK}]}},
    # Vercel's AI SDK: messages of models and of screens
    {"type": "tool-call", "toolCallId": "c9", "toolName": "read", "input": {"q": MARK}},
    {"type": "tool-result", "toolCallId": "c9", "output": {"type": "text", "value": MARK}},
    {"type": "tool-result", "toolCallId": "c9", "toolName": "read", "result": [{"city": MARK}]},
    {"type": "tool-read", "toolCallId": "c9", "state": "output-available", "output": MARK},
    {"type": "dynamic-tool", "toolName": "read", "toolCallId": "c9", "output": MARK},
    {"type": "tool-invocation", "toolInvocation": {"toolCallId": "c9", "result": MARK}},
    {"type": "reasoning", "text": MARK},
    {"type": "source-url", "sourceId": "s", "url": f"https://e.example/{MARK}"},
    {"type": "data-weather", "data": {"city": MARK}},
    {"type": "file", "mediaType": "text/plain", "url": f"data:text/plain,{MARK}"},
    # Goose, pi, OpenCode, LangChain, and one that nobody has
    {"type": "toolRequest", "id": "c9", "toolCall": {"value": {"name": MARK}}},
    {"type": "toolResponse", "id": "c9", "toolResult": {"value": [{"text": MARK}]}},
    {"type": "toolCall", "id": "c9", "name": "read", "arguments": {"q": MARK}},
    {"type": "tool", "callID": "c9", "tool": "read", "state": {"output": MARK}},
    {"type": "patch", "hash": "h", "files": [MARK]},
    {"type": "non_standard", "value": {"words": MARK}},
    {"type": "novel", "payload": {"words": MARK}},
]
ROLES = ("", "system", "user", "assistant", "tool")
"""Of the message that has the block; empty for its own."""


@pytest.mark.parametrize("kind", [kind for kind in FORMATS if kind != "aider"])
def test_a_format_is_taken_only_if_its_blocks_are_understood(kind: str) -> None:
    """A block of each format in the messages of each other one, beside what they say or instead of
    it: the file is refused, or the block's words are carried, or it is counted."""
    name, data = SAMPLES[kind]
    lines = _lines_of(data)
    document = json.loads(data) if lines is None else lines
    before = sum(one.count for each in read(data, name) for one in each.skipped)
    for path, message in _places(document):
        if not isinstance(message, dict) or not SPEAKERS & set(message):
            continue
        for field, role, block in itertools.product(
            {"content", "parts"} & set(message), ROLES, FOREIGN_BLOCKS
        ):
            said = message[field]
            if not isinstance(said, str | list) or (role and "role" not in message):
                continue
            own = [{"type": "text", "text": said}] if isinstance(said, str) else said
            changed = {field: [*own, block] if role else [block]} | ({"role": role} if role else {})
            made = _changed(document, path, lambda place, changed=changed: place.update(changed))  # type: ignore[misc]
            spoilt = json.dumps(made).encode() if lines is None else jsonl(*made)
            if detect(spoilt, name) is None:
                continue
            found = read(spoilt, name)
            carried = [one.system for one in found]
            carried += [str(encode(record)) for one in found for record in one.records]
            if not any(MARK in text for text in carried):
                counted = sum(one.count for each in found for one in each.skipped)
                assert counted > before, (found[0].format if found else "", path, role, block)


def _lines_of(data: bytes) -> list[Any] | None:
    """The values of a file with one a line; None where it is one document."""
    try:
        json.loads(data)
    except ValueError:
        return [json.loads(line) for line in data.splitlines()]
    return None


@given(data=st.binary(max_size=200))
@examples(200)
def test_detection_never_fails(data: bytes) -> None:
    """Bytes are a transcript or they are not; finding out raises nothing."""
    assert detect(data, "x") is None or detect(data, "x") in FORMATS
    assert detect(b"\x1f\x8b" + data, "x.gz") is None or data
