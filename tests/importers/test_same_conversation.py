"""One conversation, stored by every tool that has calls, comes out the same."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.same_conversation import (
    ANSWER,
    ASK,
    CONVERSATIONS,
    GIVEN,
    OUTPUT,
    SAID,
    STREAMS,
    WITHOUT_CALLS,
)
from tests.importers.samples import FORMATS, detect, only, read, shape
from tests.importers.test_detection import JSON, spoiled
from tests.support.cases import check_all
from tests.support.runs import examples

from holdfast.core.log.records import Assistant, ToolResult, decode, encode

ALL = {**CONVERSATIONS, **STREAMS, **WITHOUT_CALLS}


@pytest.mark.parametrize("spelling", CONVERSATIONS)
def test_conversation_comes_out_the_same(spelling: str) -> None:
    """Who said what, the call with its arguments, and the result that answers it."""
    kind, data = CONVERSATIONS[spelling]

    found = only(data, "talk.json")

    assert detect(data, "talk.json") == kind == found.format
    user, (_who, said, (call_id, name, given)), (_what, answered, output), answer = shape(
        found.records
    )
    assert (user, said, name, given) == (("user", ASK), SAID, "ls", GIVEN)
    assert call_id
    assert (answered, output) == (call_id, OUTPUT)
    assert answer == ("assistant", ANSWER)


@pytest.mark.parametrize(
    "spelling", [name for name, (kind, _data) in CONVERSATIONS.items() if kind != "holdfast"]
)
def test_results_know_their_tool(spelling: str) -> None:
    """Most sources name it only in the call."""
    kind, data = CONVERSATIONS[spelling]
    results = [one for one in only(data).records if isinstance(one, ToolResult)]

    wanted = "list_directory" if kind == "antigravity" else "ls"
    assert [result.name for result in results] == [wanted]


def test_a_stream_keeps_words_and_calls_apart() -> None:
    """Where the source has two messages there are two records."""
    _kind, data = STREAMS["droid"]

    assert shape(only(data).records) == [
        ("user", ASK),
        ("assistant", SAID),
        ("assistant", "", ("t1", "ls", GIVEN)),
        ("result", "t1", OUTPUT),
        ("assistant", ANSWER),
    ]


def test_codex_events_are_used_where_there_are_no_items() -> None:
    """Some files hold only what the screen was told."""
    _kind, data = WITHOUT_CALLS["codex, events only"]

    assert shape(only(data).records) == [("user", ASK), ("assistant", ANSWER)]


@pytest.mark.parametrize(
    ("spelling", "usage"),
    [
        ("claude-code", {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 5}),
        ("pi", {"input": 3}),
        ("openhands", {"prompt_tokens": 3}),
        ("openinference", {"prompt_tokens": 100}),
        ("copilot", {"output_tokens": 4}),
        ("kimi", {"input_tokens": 5, "cache_read_input_tokens": 20, "output_tokens": 7}),
        ("opencode", {"input_tokens": 5, "output_tokens": 7, "cache_read_input_tokens": 20}),
    ],
)
def test_usage_is_carried_with_its_reply(spelling: str, usage: object) -> None:
    """In the provider's own spelling or a known one, with the reply it was reported for."""
    replies = [
        one for one in only(CONVERSATIONS[spelling][1]).records if isinstance(one, Assistant)
    ]

    assert replies[0].usage == usage


@pytest.mark.parametrize("spelling", ALL)
@given(path=st.lists(st.integers(0, 20), max_size=8), junk=JSON)
@examples(40)
def test_wrong_types_stop_nothing(spelling: str, path: list[int], junk: object) -> None:
    """Whatever stands in whatever place: records come out that can be stored, or none."""
    kind, data = ALL[spelling]

    for one in read(spoiled(data, path, junk), "talk.json", format=kind):
        for record in one.records:
            assert decode(encode(record)) == record


@pytest.mark.parametrize("spelling", ["claude-code", "openai-chat", "kimi", "opencode"])
def test_a_wrong_format_is_no_disaster(spelling: str) -> None:
    """Asked for the wrong format, an importer finds little, and does not fail."""

    def check(kind: str) -> None:
        for one in read(ALL[spelling][1], "talk.json", format=kind):
            for record in one.records:
                assert decode(encode(record)) == record

    check_all(FORMATS, check)
