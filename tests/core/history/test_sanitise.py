"""One message as others may read it: nothing secret, nothing huge, and true about both."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversations import PNG
from tests.core.secrets.planted_secrets import TOKENS
from tests.strategies import json_objects, records_of

from holdfast.core.history.sanitise import (
    Shown,
    call_names,
    clean_record,
    fit_message,
    forms,
    is_result,
    matches,
)
from holdfast.core.limits import HISTORY_MESSAGE_SHARE
from holdfast.core.log.records import Assistant, OutputRef, Record, ToolResult, ToolUse, User
from holdfast.core.secrets.redaction import Redactor

REGISTERED = "correct horse battery staple"
KEY = TOKENS["OpenAI"]
CAP = int(HISTORY_MESSAGE_SHARE * 81_920)


def read(record: Record, *, cap: int = CAP, names: dict[str, str] | None = None) -> Shown:
    redactor = Redactor({"PHRASE": REGISTERED})
    return fit_message(clean_record(record, redactor, names or {}), cap)


def message(record: Record, **more: Any) -> Any:
    return json.loads(read(record, **more).json)


def text_in(record: Record) -> str:
    return str(message(record)["content"])


# What a message looks like


def test_a_message_has_its_id_time_role_and_content() -> None:
    assert message(User(id="r1", ts=3.5, content="hello", name="Ann")) == {
        "id": "r1",
        "ts": 3.5,
        "role": "user",
        "name": "Ann",
        "content": "hello",
    }


def test_a_result_names_its_tool_its_call_and_its_outputs() -> None:
    """Refs are the seed's words: the path is the hash."""
    ref = OutputRef(sha256="ab" * 32, bytes=150_000, kind="log", lines=900)
    details = {"exit_code": 1, "output_ref": {"sha256": "cd" * 32, "bytes": 9, "kind": "details"}}
    record = ToolResult(
        id="r2",
        tool_use_id="c1",
        content="preview",
        is_error=True,
        details=details,
        output_ref=ref,
    )

    assert message(record, names={"c1": "run"}) == {
        "id": "r2",
        "ts": 0.0,
        "role": "toolResult",
        "outputRef": {
            "path": "ab" * 32,
            "sha256": "ab" * 32,
            "bytes": 150_000,
            "kind": "log",
            "lines": 900,
        },
        "detailsRef": {"path": "cd" * 32, "sha256": "cd" * 32, "bytes": 9, "kind": "details"},
        "toolCallId": "c1",
        "toolName": "run",
        "isError": True,
        "content": "preview",
    }


def test_a_call_stored_by_itself_is_a_message_with_one_call() -> None:
    record = ToolUse(id="r3", tool_use_id="c1", name="ls", input={"path": "."})

    assert message(record)["content"] == [
        {"type": "tool_use", "id": "c1", "name": "ls", "input": {"path": "."}}
    ]


def test_nobody_can_hand_in_a_ref_or_a_role() -> None:
    """Fields of a record that only we may set are not taken from it."""
    record = User(id="r1", content="x", extra={"role": "system", "outputRef": {"path": "/etc"}})

    assert message(record)["role"] == "user"
    assert "outputRef" not in message(record)


# What is dropped


def test_what_no_reader_needs_goes_without_a_flag() -> None:
    """Details, usage, cost and signatures are no content: to drop them is no cut (1.7 #5)."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s" * 4_000}
    record = Assistant(
        id="r1",
        content=[
            {**thinking, "thinkingSignature": "s" * 4_000},
            {"type": "redacted_thinking", "data": "e" * 4_000},
            {"type": "reasoning", "summary": [], "encrypted_content": "e" * 4_000},
            {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "s" * 99},
        ],
        usage={"input_tokens": 3},
        extra={"cost": {"total": 1}, "details": "d" * 12_000},
    )

    found = read(record)

    assert not found.is_cut
    assert b"ssss" not in found.json
    assert b"eeee" not in found.json
    assert b"dddd" not in found.json
    assert b"usage" not in found.json
    assert json.loads(found.json)["content"][0] == {"type": "thinking", "thinking": "hm"}


def test_arguments_of_tools_mean_what_the_tool_means() -> None:
    """A field that is called `signature`, `usage` or `details` there is somebody's content."""
    given = {"signature": "def f(x)", "usage": "how to", "details": "why", "cost": 3, "data": "d"}
    record = Assistant(content=[{"type": "tool_use", "id": "c", "name": "doc", "input": given}])

    assert message(record)["content"][0]["input"] == given


# What is cut


def test_case_3_exactly_4000_characters_stay_and_4001_are_cut() -> None:
    whole, longer = read(User(content="x" * 4_000)), read(User(content="x" * 4_001))

    assert json.loads(whole.json)["content"] == "x" * 4_000
    assert not whole.is_cut
    assert len(json.loads(longer.json)["content"]) <= 4_000
    assert longer.is_cut


def test_case_4_no_character_is_halved() -> None:
    text = text_in(User(content="a" * 3_999 + "😀" * 3_000))

    assert len(text) <= 4_000
    assert text.encode()  # no lone surrogate
    assert text.endswith("😀")


def test_case_13_the_error_at_the_end_survives() -> None:
    log = "line\n" * 10_000 + "ValueError: the last line"

    assert text_in(ToolResult(id="r9", tool_use_id="c", content=log)).endswith(
        "ValueError: the last line"
    )


def test_a_cut_says_how_much_and_where_the_rest_is() -> None:
    text = text_in(User(id="r7", content="x" * 50_000))

    assert "of 50,000 characters left out; ref r7" in text


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "text", "text": "x" * 9_000}],
        [{"type": "thinking", "thinking": "x" * 9_000}],
        [{"type": "toolCall", "partialJson": "x" * 9_000}],
        [{"type": "tool_use", "id": "c", "name": "write", "input": {"body": "x" * 60_000}}],
        [{"type": "tool_result", "content": [{"type": "text", "text": "x" * 9_000}]}],
        [{"type": "novel", "a": [{"b": {"c": "x" * 9_000}}]}],
        [{"x" * 9_000: 1}],
    ],
)
def test_every_text_is_cut_wherever_it_stands(content: Any) -> None:
    """Text, thinking, arguments, nested results, unknown fields and the names of fields."""
    found = read(Assistant(content=content))

    assert found.is_cut
    assert len(found.json) < 4_500
    assert b"left out; ref" in found.json


def test_names_that_a_cut_makes_alike_both_stay() -> None:
    fields = {"k" * 5_000 + middle + "k" * 5_000: middle for middle in "ab"}
    shown_fields = message(User(id="r1", content="", extra={"made": fields}))["made"]

    assert list(shown_fields.values()) == ["a", "b"]


# What is masked


PLACES: dict[str, Any] = {
    "text": lambda secret: User(content=f"use {secret} now"),
    "block": lambda secret: User(content=[{"type": "text", "text": secret}]),
    "thinking": lambda secret: Assistant(content=[{"type": "thinking", "thinking": secret}]),
    "arguments": lambda secret: Assistant(
        content=[{"type": "tool_use", "id": "c", "name": "f", "input": {"headers": [secret]}}]
    ),
    "arguments called signature": lambda secret: Assistant(
        content=[{"type": "tool_use", "id": "c", "name": "f", "input": {"signature": secret}}]
    ),
    "arguments called data": lambda secret: Assistant(
        content=[{"type": "tool_use", "id": "c", "name": "f", "input": {"data": secret}}]
    ),
    "arguments as text": lambda secret: Assistant(
        content=[{"type": "tool_use", "input": json.dumps({"a": secret})}]
    ),
    "name of a field": lambda secret: User(content=[{"type": "novel", secret: 1}]),
    "file name": lambda secret: User(content=[{"type": "file", "filename": f"/tmp/{secret}.txt"}]),
    "result": lambda secret: ToolResult(tool_use_id="c", content=secret),
    "nested result": lambda secret: User(
        content=[{"type": "tool_result", "content": [{"type": "text", "text": secret}]}]
    ),
    "unknown field": lambda secret: User(content="", extra={"novel": {"deep": [secret]}}),
    "tool name": lambda secret: ToolResult(tool_use_id="c", name=secret, content=""),
    "call id": lambda secret: ToolResult(tool_use_id=secret, content=""),
    "speaker": lambda secret: User(content="", name=secret),
    "model": lambda secret: Assistant(content="", model=secret),
    "record id": lambda secret: User(id=secret, content="x" * 9_000),
    "media type": lambda secret: User(
        content=[{"type": "image", "data": PNG, "mimeType": f"image/{secret}"}]
    ),
    "beside a picture": lambda secret: User(
        content=[{"type": "image", "data": PNG, "mimeType": "image/png", "title": secret}]
    ),
    "two blocks": lambda secret: Assistant(
        content=[
            {"type": "text", "text": "key " + secret[: len(secret) // 2]},
            {"type": "text", "text": secret[len(secret) // 2 :]},
        ]
    ),
}


@pytest.mark.parametrize("secret", [REGISTERED, KEY, TOKENS["GitHub"]])
@pytest.mark.parametrize("place", PLACES)
def test_a_secret_is_masked_wherever_it_stands(place: str, secret: str) -> None:
    found = read(PLACES[place](secret))

    assert secret not in json.dumps(json.loads(found.json), ensure_ascii=False)
    assert secret[len(secret) // 2 :] not in found.json.decode()
    assert found.is_redacted


def test_case_5_a_masked_key_says_that_it_is_masked() -> None:
    key = TOKENS["OpenAI"][:43]
    found = read(User(content=f"the key is {key}."))

    assert "[masked" in json.loads(found.json)["content"]
    assert found.is_redacted
    assert not found.is_cut


def test_case_6_a_key_across_the_cut_is_masked_whole() -> None:
    """Redaction comes first: no part of a key is left beside a marker."""
    for start in range(1_900, 2_030, 7):
        text = "x " * (start // 2) + KEY + " y" * 5_000
        shown_text = text_in(User(content=text))
        assert not any(KEY[at : at + 8] in shown_text for at in range(8, len(KEY) - 12))


def test_case_7_arguments_are_masked_and_shortened() -> None:
    given = {"path": "a.txt", "body": f"KEY={KEY}\n" + "x" * 60_000}
    record = Assistant(id="r1", content=[{"type": "tool_use", "name": "write", "input": given}])

    found = read(record)

    assert KEY.encode() not in found.json
    assert b"ref r1" in found.json
    assert found.is_redacted
    assert found.is_cut


def test_masks_are_not_there_where_nothing_was_masked() -> None:
    assert not read(User(content="nothing to hide")).is_redacted


# What is monstrous


def test_case_2_a_huge_unknown_field_is_cut_and_the_message_stays() -> None:
    """200,000 characters: the message is shown, its head and its tail among it."""
    record = User(id="r1", content="hello", extra={"novel": "h" + "x" * 199_998 + "t"})

    found = message(record)

    assert found["content"] == "hello"
    assert found["novel"].startswith("h")
    assert found["novel"].endswith("t")
    assert "ref r1" in found["novel"]


def test_ten_thousand_blocks_show_the_first_and_the_last() -> None:
    content = [{"type": "text", "text": f"block {number}"} for number in range(10_000)]

    found = read(Assistant(id="r1", content=content))
    texts = [block["text"] for block in json.loads(found.json)["content"]]

    assert found.is_cut
    assert len(found.json) <= CAP
    assert texts[0] == "block 0"
    assert texts[-1] == "block 9999"
    assert any("of 10,000 items left out; ref r1" in text for text in texts)


def test_two_thousand_levels_end_in_a_note() -> None:
    deep: Any = "bottom"
    for _level in range(2_000):
        deep = {"in": [deep]}
    found = read(User(id="r1", content="hello", extra={"deep": deep}))

    assert found.is_cut
    assert b"nested too deeply to be shown; ref r1" in found.json
    assert b"hello" in found.json


def test_a_text_of_millions_of_characters_shows_its_ends_and_its_length() -> None:
    """Its middle is not looked at, and still counted."""
    text = text_in(User(id="r1", content="first " + "x" * 5_000_000 + " last"))

    assert text.startswith("first ")
    assert text.endswith(" last")
    assert "of 5,000,011 characters left out; ref r1" in text


def test_a_message_of_too_many_texts_is_shown_as_one() -> None:
    """Forty thousand texts: the beginning and the end of them, masked like anything else."""
    row = [f"cell {number}" for number in range(200)]
    rows = [[f"first {KEY}", *row], *[row] * 198, [*row, f"{KEY} last"]]
    found = read(User(id="r1", content=[{"type": "novel", "rows": rows}]))

    assert found.is_cut
    assert found.is_redacted
    assert KEY.encode() not in found.json
    assert b"first [masked" in found.json
    assert b"] last" in found.json


def test_a_broad_and_deep_message_still_fits_its_share() -> None:
    broad: Any = "leaf " * 10
    for _level in range(9):
        broad = [broad] * 4
    found = read(User(id="r1", content=[{"type": "novel", "tree": broad}]))

    assert len(found.json) <= CAP
    assert found.is_cut


# Its own earlier output


@pytest.mark.parametrize("name", ["sessions_history", "sessions_list", "output_read"])
def test_results_of_our_own_tools_are_not_repeated(name: str) -> None:
    """Known by the call, as a record or as a block of a message."""
    call = Assistant(content=[{"type": "tool_use", "id": "c1", "name": name, "input": {}}])
    names = call_names([call])
    block = {"type": "tool_result", "tool_use_id": "c1", "content": "what was read"}
    for record in (
        ToolResult(tool_use_id="c1", content="what was read"),
        ToolResult(tool_use_id="c1", content=[{"type": "text", "text": "what was read"}]),
        User(content=[block]),
    ):
        found = read(record, names=names)
        assert b"what was read" not in found.json
        assert name.encode() in found.json
        assert found.is_cut


def test_what_our_tool_read_is_known_by_its_first_line() -> None:
    """Others have tools called `context`, whose results are shown."""
    names = {"c1": "context"}
    ours = "[log, ref 0123456789abcdef: lines 1 to 2, of 9 characters]\nwhat was read"
    for content in (ours, [{"type": "text", "text": ours}]):
        found = read(ToolResult(tool_use_id="c1", content=content), names=names)
        assert b"what was read" not in found.json
        assert found.is_cut
    theirs = read(ToolResult(tool_use_id="c1", content="[1] what was read"), names=names)
    assert b"what was read" in theirs.json


def test_a_text_about_our_tools_is_a_text() -> None:
    said = "sessions_history omitted: [left out: what `sessions_history` gave is not repeated"

    assert text_in(ToolResult(tool_use_id="c1", name="read_file", content=said)) == said


# Searching


def test_a_search_sees_what_may_be_seen() -> None:
    """All words, in any case, in any field, and never what is masked."""
    redactor = Redactor({"PHRASE": REGISTERED})
    record = Assistant(
        id="abc",
        content=[
            {"type": "text", "text": f"The Release is ready, {REGISTERED}"},
            {"type": "tool_use", "id": "c1", "name": "bash", "input": {"cmd": "make dist"}},
        ],
    )
    clean = clean_record(record, redactor, {})

    assert matches(clean, ["release", "DIST"])
    assert matches(clean, ["cmd"])
    assert not matches(clean, ["release", "absent"])
    assert not matches(clean, ["battery"])
    assert not matches(clean, ["tool_use"])
    assert not matches(clean, ["c1"])


def test_a_long_text_is_cut_around_the_match() -> None:
    redactor = Redactor()
    text = "head " + "x " * 10_000 + "NEEDLE" + " y" * 10_000
    clean = clean_record(User(id="r1", content=text), redactor, {})

    content = json.loads(fit_message(clean, CAP, ["needle"]).json)["content"]

    assert len(content) <= 4_000
    assert "NEEDLE" in content
    assert content.startswith("head ")
    assert "left out; ref r1" in content


# Laws


@given(
    st.one_of(*(records_of(kind) for kind in (User, Assistant, ToolResult, ToolUse))),
    st.integers(0, 3_000),
)
def test_any_record_becomes_a_message(record: Record, cap: int) -> None:
    """Whatever JSON it holds: valid JSON comes out, and forms grow smaller."""
    clean = clean_record(record, Redactor(), {})
    sizes = [len(one.json) for one in forms(clean)]
    found = json.loads(fit_message(clean, cap).json)

    assert found["role"] in ("user", "assistant", "toolResult")
    assert sizes[-1] <= max(400, sizes[0])
    assert is_result(record) in (True, False)


@given(json_objects(), st.sampled_from([REGISTERED, KEY]), st.integers(0, 5))
def test_no_secret_comes_out_of_any_object(value: dict[str, Any], secret: str, place: int) -> None:
    """Planted as a value, a name, or in the middle of a text, in blocks, arguments and extras."""
    planted = {**value, "planted": secret, secret: [value, f"a {secret} b"]}
    record = (
        User(content=[planted]),
        User(content="x", extra={"novel": planted}),
        Assistant(content=[{"type": "tool_use", "input": planted}]),
        ToolResult(tool_use_id="c", content=[{"type": "novel", "content": [planted]}]),
        Assistant(content=[{"type": "thinking", "thinking": json.dumps(planted)}]),
        Assistant(content=[{"type": "image", "source": planted}]),
    )[place]

    for one in forms(clean_record(record, Redactor({"PHRASE": REGISTERED}), {})):
        assert secret not in one.json.decode()
        assert one.is_redacted
