"""The source and the draft: what every importer relies on."""

from __future__ import annotations

import gzip
import json
import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.samples import SAMPLES, claude_user, jsonl, only, skipped

from holdfast.core.limits import ID_CHARS_MAX, LABEL_CHARS_MAX, LINE_BYTES_MAX, NESTING_MAX
from holdfast.core.log.ids import is_name
from holdfast.core.log.records import User, decode, encode, text_of
from holdfast.errors import UsageError
from holdfast.importers import read_transcript
from holdfast.importers.common import base
from holdfast.importers.common.base import Draft, Source, names_for, session_name, unique_names
from holdfast.importers.common.parsing import NOT_JSON, parse, seconds

NAME, LINES = SAMPLES["claude-code"]


def test_damaged_lines_are_counted_and_the_rest_is_read() -> None:
    """A torn line, garbage and values that are no objects do not cost their neighbours."""
    torn = LINES + b'{"type":"user","mess\n\x00\x00\xff\n42\n"text"\n'

    found = only(torn)

    assert len(found.records) == 3
    assert skipped(found)["damaged line"] == 2
    assert skipped(found)["line that is not an object"] == 2


def test_objects_that_lost_the_newline_between_them_are_all_read() -> None:
    """Two writers of one file may glue their lines together."""
    glued = LINES.replace(b"\n", b"", 1)

    assert len(only(glued).records) == 3


def test_packed_file_that_ends_early_is_read_as_far_as_it_goes() -> None:
    """What was there is carried, and the damage is told."""
    many = jsonl(*(claude_user(f"u{n}", f"u{n - 1}", f"message {n}") for n in range(2_000)))
    packed = gzip.compress(many)

    found = only(packed[: len(packed) // 2])

    assert 0 < len(found.records) < 2_000
    assert skipped(found)["cut-off gzip data"] == 1


def test_damage_inside_a_packed_file_costs_only_what_follows() -> None:
    """The pieces before it are there, as far as they were whole lines."""
    noise = Random(1)
    many = jsonl(
        *(claude_user(f"u{n}", f"u{n - 1}", noise.randbytes(1_000).hex()) for n in range(400))
    )
    packed = bytearray(gzip.compress(many))
    assert len(packed) > 300_000
    packed[200_000:200_400] = b"\xff" * 400

    found = only(bytes(packed))

    assert 0 < len(found.records) < 400
    assert skipped(found)["damaged gzip data"] == 1


def test_bytes_that_are_no_utf8_are_replaced_and_told() -> None:
    """A file in another encoding loses letters, not messages."""
    data = jsonl(claude_user("u1", None, "caf#")).replace(b"#", b"\xe9")

    found = only(data)

    assert found.records[0] == User(content="caf\ufffd", id="u1", ts=found.records[0].ts)
    assert skipped(found) == {"text with bytes that are not UTF-8": 1}


def test_invented_ids_avoid_the_ones_that_are_there() -> None:
    """A source may use for real what we would make up."""
    draft = Draft()
    draft.assistant([{"type": "tool_use", "id": "call-1", "name": "ls", "input": {}}])

    assert draft.call_id() == "call-2"
    assert draft.call_id("given") == "given"


def test_packed_members_one_after_the_other_are_one_file() -> None:
    """Programs that append to a packed file leave several members."""
    first, rest = LINES.split(b"\n", 1)

    assert len(only(gzip.compress(first + b"\n") + gzip.compress(rest)).records) == 3


def test_a_document_over_the_limit_is_refused_and_lines_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What must be parsed whole has a smaller limit, which the error names; lines have none."""
    monkeypatch.setattr(base, "DOCUMENT_BYTES_MAX", 1_000)
    document = json.dumps([{"role": "user", "content": "x" * 2_000}], indent=1).encode()
    with pytest.raises(UsageError, match=r"one JSON document of .* more than 1,000") as raised:
        read_transcript(document, "talk.json")
    assert raised.value.hint
    with pytest.raises(UsageError, match=r"one text of .* more than 1,000"):
        read_transcript(b"# aider chat started at 2024-01-01 10:00:00\n" + b"x" * 2_000, "talk.md")
    many = jsonl(*(claude_user(f"u{n}", f"u{n - 1}", f"{n}") for n in range(100)))
    assert len(only(many).records) == 100
    assert len(only(many[1:]).records) == 99  # the first line is damaged


def test_lines_are_parsed_one_at_a_time_and_their_flaws_told_once() -> None:
    """Reading some lines parses no more than those; reading them again counts nothing twice."""
    many = jsonl(*(claude_user(f"u{n}", f"u{n - 1}", "x" * 1_000) for n in range(5_000)))
    source = Source(many + b"garbage\n", "many.jsonl")
    tracemalloc.start()
    try:
        assert sum(1 for _line in source.lines) == 5_000
        _now, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < len(many) / 20
    next(iter(source.lines))
    assert sum(1 for _line in source.lines) == 5_000
    assert source.flaws == {("damaged line", "not JSON"): 1}


@pytest.mark.parametrize(("digits", "kept"), [(30, int("9" * 30)), (9_000, "9" * 9_000)])
def test_numbers_of_any_length_can_be_stored(digits: int, kept: object) -> None:
    """A number beyond 64 bits stays one; thousands of digits, which Python refuses, stay text."""
    data = b'[{"role":"user","content":[{"type":"odd","n":' + b"9" * digits + b"}]}]"

    (record,) = only(data, "x.json", "openai-chat").records

    assert isinstance(record, User)
    assert record.content == [{"type": "odd", "n": kept}]
    assert decode(encode(record)) == record


def test_bad_unicode_and_nan_are_mended() -> None:
    """Lone surrogates and NaN are no JSON for a strict reader; other programs write them."""
    data = b'[{"role":"user","content":"a\\ud800b"},{"role":"user","content":[{"x":NaN}]}]'

    found = only(data, "x.json", "openai-chat")

    assert [len(encode(record)) > 0 for record in found.records] == [True, True]
    assert decode(encode(found.records[0])) == User(content="a\ufffdb")


def test_a_message_too_large_for_a_log_is_listed() -> None:
    """Nothing is cut in silence: the message is left out and said so."""
    data = json.dumps([{"role": "user", "content": "x" * LINE_BYTES_MAX}]).encode()

    found = only(data, "x.json", "openai-chat")

    assert found.records == []
    assert skipped(found) == {"user message": 1}


def test_deep_nesting_does_not_stop_an_import() -> None:
    """Whatever a tool was given, the conversation around it is carried."""
    deep = "[" * 5_000 + "]" * 5_000
    data = f'{{"role":"user","content":"Hi"}}\n{{"role":"user","content":{deep}}}\n'.encode()

    found = read_transcript(data, "x.jsonl", format="openai-chat")[0]

    assert text_of(found.records[0].content) == "Hi"  # type: ignore[union-attr]
    for record in found.records:
        assert decode(encode(record)) == record


def test_only_what_is_nested_too_deeply_is_left_out() -> None:
    """A value of some hundred levels loses its bottom, and not the message that it is in."""
    deep = "[" * (NESTING_MAX + 20) + '"bottom"' + "]" * (NESTING_MAX + 20)
    block = f'{{"type":"novel","value":{deep}}}'
    data = f'{{"role":"user","content":"Hi"}}\n{{"role":"user","content":[{block}]}}\n'.encode()

    found = read_transcript(data, "x.jsonl", format="openai-chat")[0]

    assert len(found.records) == 2
    line = encode(found.records[1])
    assert b"nested too deeply" in line
    assert b"bottom" not in line
    assert decode(line) == found.records[1]


def test_ids_that_are_taken_or_not_allowed_are_left_to_the_store() -> None:
    """A store gives a new one; two records never share an id."""
    draft = Draft()
    for record_id in ("good", "good", "no spaces", "@12", "x" * (ID_CHARS_MAX + 1)):
        draft.user("Hi", record_id=record_id)

    assert [record.id for record in draft.records] == ["good", "", "", "", ""]


def test_a_label_is_one_line_and_no_longer_than_labels_are() -> None:
    """Titles come from models and people, of any length."""
    draft = Draft()
    draft.label = "A\ntitle " + "very " * 100

    label = draft.finish(Source(b"", "x"), "pi").label

    assert label.startswith("A title very")
    assert len(label) <= LABEL_CHARS_MAX


@given(st.text(max_size=200))
def test_any_text_leads_to_a_valid_session_id(text: str) -> None:
    """File names and foreign ids may hold anything."""
    assert is_name(session_name(text))
    assert is_name(Source(b"", text).stem) or session_name(Source(b"", text).stem)


@given(st.lists(st.text("aA-2", max_size=4), max_size=8))
def test_names_of_one_file_differ(names: list[str]) -> None:
    """No session of a file takes the name of another, in capitals or not."""
    made = unique_names(names)

    assert len({name.casefold() for name in made}) == len(names)
    assert all(map(is_name, made))


def test_the_first_of_many_keeps_the_plain_name() -> None:
    """So a file that grows a second conversation still brings the first under its old name."""
    assert names_for("run", 1) == ["run"]
    assert names_for("run", 3) == ["run", "run-2", "run-3"]
    assert all(len(name) <= ID_CHARS_MAX for name in names_for("x" * ID_CHARS_MAX, 12))


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("2026-03-01T10:00:00.000Z", 1772359200.0),
        ("2026-03-01T10:00:00.123456789+00:00", 1772359200.123456),
        ("2026-03-01 10:00:00", 1772359200.0),
        (1772359200, 1772359200.0),
        (1772359200123, 1772359200.123),
        (1772359200123456, 1772359200.123456),
        ("1772359200", 1772359200.0),
        (None, 0.0),
        (True, 0.0),
        ("yesterday", 0.0),
        (-5, 0.0),
        (float("nan"), 0.0),
        (10**400, 0.0),
        ("0001-01-01T00:00:00+14:00", 0.0),
        ([], 0.0),
    ],
)
def test_times_in_every_spelling(written: object, meant: float) -> None:
    """Seconds, milliseconds, microseconds and ISO texts mean the same moment."""
    assert seconds(written) == pytest.approx(meant, abs=1e-3)


def test_parse_tells_null_from_no_json() -> None:
    """`null` is a value; a text that is no JSON has none."""
    assert parse(b"null") is None
    assert parse(b"nul") is NOT_JSON
