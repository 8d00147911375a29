"""Pages within any cap: the newest survives, pairs stay together, replies say what happened."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.core.secrets.planted_secrets import TOKENS
from tests.support.runs import sample

from holdfast.core.history.access import OPERATOR, Caller
from holdfast.core.history.capped_json import text_within
from holdfast.core.history.page import (
    TOO_LARGE,
    Gathering,
    render_page,
    scope_of,
    units_back,
    units_forward,
)
from holdfast.core.history.sanitise import call_names, clean_record
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Compaction, Label, ToolResult, ToolUse, User
from holdfast.core.secrets.redaction import Redactor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

    from holdfast.core.log.records import Record

KEY = SessionKey("main", "s")
PHRASE = "correct horse battery staple"
SECRETS = (PHRASE, TOKENS["OpenAI"], TOKENS["Anthropic"])


def call(number: int, *call_ids: str, text: str = "") -> Assistant:
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    calls = [{"type": "tool_use", "id": one, "name": "f", "input": {"a": text}} for one in call_ids]
    return Assistant(id=f"{number:04}", ts=float(number), content=[*blocks, *calls])


def ids(units: Any) -> list[list[str]]:
    return [[record.id for record in unit.records] for unit in units]


def page_text(
    records: Sequence[Record], cap: int, *, include_tools: bool = True, limit: int = 1_000
) -> str:
    redactor = Redactor({"PHRASE": PHRASE})
    gathering = Gathering(limit, cap)
    units = units_back(reversed(records), include_tools=include_tools)
    for unit in units:
        names = call_names(unit.records)
        gathering.take(unit, (clean_record(one, redactor, names) for one in unit.records))
        if gathering.is_done:
            break
    page = gathering.page(str(KEY), "tree of main/s", has_older=next(units, None) is not None)
    return text_within(render_page(page, KEY, cap), cap)


# Units


def test_a_call_and_its_results_are_one_unit() -> None:
    records: list[Record] = [
        User(id="0001", content="go"),
        call(2, "a", "b"),
        Label(id="0003", label="between"),
        ToolResult(id="0004", tool_use_id="a", content="1"),
        ToolResult(id="0005", tool_use_id="b", content="2"),
        Assistant(id="0006", content="done"),
    ]
    together = [["0006"], ["0002", "0004", "0005"], ["0001"]]

    assert ids(units_back(reversed(records), include_tools=True)) == together
    assert ids(units_forward(records, include_tools=True)) == together[::-1]
    assert ids(units_back(reversed(records), include_tools=False)) == [["0006"], ["0002"], ["0001"]]


def test_calls_stored_by_themselves_stay_with_their_results() -> None:
    """The seed's shape: a message, its calls, their results, each a record."""
    records: list[Record] = [
        User(id="0001", content="go"),
        ToolUse(id="0002", tool_use_id="a", name="f"),
        ToolUse(id="0003", tool_use_id="b", name="f"),
        ToolResult(id="0004", tool_use_id="a", content="1"),
        ToolResult(id="0005", tool_use_id="b", content="2"),
    ]

    assert ids(units_back(reversed(records), include_tools=True)) == [
        ["0002", "0003", "0004", "0005"],
        ["0001"],
    ]
    assert ids(units_back(reversed(records), include_tools=False)) == [["0002", "0003"], ["0001"]]


def test_results_without_a_call_stand_alone() -> None:
    records: list[Record] = [
        ToolResult(id="0001", tool_use_id="a", content="1"),
        User(id="0002", content="x"),
        ToolResult(id="0003", tool_use_id="b", content="2"),
        ToolResult(id="0004", tool_use_id="c", content="3"),
    ]

    assert ids(units_back(reversed(records), include_tools=True)) == [
        ["0004"],
        ["0003"],
        ["0002"],
        ["0001"],
    ]
    assert ids(units_back(reversed(records), include_tools=False)) == [["0002"]]


def test_results_as_blocks_of_a_message_are_results() -> None:
    records: list[Record] = [
        call(1, "a"),
        User(id="0002", content=[{"type": "tool_result", "tool_use_id": "a", "content": "1"}]),
    ]

    assert ids(units_back(reversed(records), include_tools=True)) == [["0001", "0002"]]
    assert ids(units_back(reversed(records), include_tools=False)) == [["0001"]]


def test_results_among_other_blocks_go_with_the_tools() -> None:
    said = {"type": "text", "text": "and now?"}
    result = {"type": "tool_result", "tool_use_id": "a", "content": "1"}
    records: list[Record] = [User(id="0001", content=[result, said])]

    [whole] = units_back(reversed(records), include_tools=True)
    [bare] = units_back(reversed(records), include_tools=False)

    assert whole.records[0] is records[0]
    assert isinstance(bare.records[0], User)
    assert bare.records[0].content == [said]


# Sessions to search with


def _texts() -> SearchStrategy[str]:
    return st.one_of(
        st.sampled_from(
            ["", "short", "😀" * 300, "\x00" * 900, '"\\' * 500, "x" * 4_001, "漢" * 9]
        ),
        st.sampled_from(SECRETS).map(lambda secret: f"before {secret} after"),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    )


def _records() -> SearchStrategy[list[Record]]:
    """Sessions with calls, results, secrets and odd text, numbered in order."""

    def made(kinds: list[tuple[str, str, int]]) -> list[Record]:
        found: list[Record] = []

        def add(make: Any, **fields: Any) -> None:
            number = len(found) + 1
            found.append(make(id=f"{number:04}", ts=float(number), **fields))

        for kind, text, count in kinds:
            match kind:
                case "user":
                    add(User, content=text)
                case "assistant":
                    add(Assistant, content=[{"type": "thinking", "thinking": text}])
                case "compaction":
                    add(Compaction, summary=text)
                case "result":
                    add(ToolResult, tool_use_id="lone", content=text)
                case _:
                    made_calls = [f"c{len(found)}-{one}" for one in range(count)]
                    found.append(call(len(found) + 1, *made_calls, text=text))
                    for one in made_calls:
                        add(ToolResult, tool_use_id=one, content=text, name="f")
        return found

    kinds = st.sampled_from(["user", "assistant", "step", "step", "result", "compaction"])
    return st.lists(st.tuples(kinds, _texts(), st.integers(1, 4)), max_size=12).map(made)


def check(text: str, records: Sequence[Record], cap: int, *, include_tools: bool) -> None:
    """Everything that must be true of any reply."""
    assert len(text.encode()) <= cap
    assert not any(secret in text for secret in SECRETS)
    if cap < 2:
        assert text == ""
        return
    reply = json.loads(text)
    wanted = [unit.records for unit in units_back(reversed(records), include_tools=include_tools)][
        ::-1
    ]
    messages = [record for unit in wanted for record in unit]
    shown = reply.get("messages", [])
    if "bytes" in reply:
        assert reply["bytes"] == len(text.encode())
    if not shown:
        assert reply.get("truncated", bool(messages)) == bool(messages)
        return
    is_replaced = shown[-1]["content"] == TOO_LARGE
    assert is_replaced or shown[-1]["id"] == messages[-1].id
    if "count" in reply:
        assert reply["count"] == len(shown)
        assert reply["omittedCount"] == len(messages) - len(shown)
        assert reply["droppedMessages"] == (reply["omittedCount"] > 0 or is_replaced)
        assert reply["truncated"] == (reply["droppedMessages"] or reply["contentTruncated"])
        assert ("masked" in reply["notice"]) == reply["contentRedacted"]
        assert reply["hasMore"] == (reply["cursor"] is not None)
    if "contentRedacted" in reply:
        assert reply["contentRedacted"] >= ("[masked" in json.dumps(shown))
        is_planted = any(secret in str(record) for secret in SECRETS for record in messages)
        assert reply["contentRedacted"] <= is_planted
    if len(shown) > 1:
        # Whole units, the newest of them, in order: no call without its results.
        assert [one["id"] for one in shown] == [one.id for one in messages[-len(shown) :]]
        starts = {unit[0].id for unit in wanted}
        assert shown[0]["id"] in starts


@given(_records(), st.integers(0, 3_000), st.booleans())
def test_any_session_and_any_cap_give_a_true_reply(
    records: list[Record], cap: int, include_tools: bool
) -> None:
    """Within the cap, valid, the newest message present, flags and counts as it happened."""
    check(
        page_text(records, cap, include_tools=include_tools),
        records,
        cap,
        include_tools=include_tools,
    )


@given(_records(), st.integers(3_000, 200_000))
def test_large_caps_are_kept_as_well(records: list[Record], cap: int) -> None:
    check(page_text(records, cap), records, cap, include_tools=True)


@pytest.mark.parametrize("content", ["hello", "x" * 5_000, "\x00😀" * 3_000, PHRASE])
def test_every_small_cap_is_kept(content: str) -> None:
    records: list[Record] = [User(id=f"{n:018x}", ts=1.7e9 + n, content=content) for n in range(3)]
    room_for_one = False
    for cap in sample((*range(201), *range(201, 800, 13)), share=1 / 4):
        text = page_text(records, cap)
        check(text, records, cap, include_tools=True)
        has_one = bool(text and json.loads(text).get("messages"))
        # Where there is room for a message, there is one, and with more room it stays.
        assert has_one >= room_for_one
        room_for_one = has_one
    assert room_for_one
    assert json.loads(page_text(records, 93))["messages"]


def test_where_nothing_fits_the_seed_placeholder_stands() -> None:
    records: list[Record] = [User(id="r" * 100, ts=1.0, content="x" * 99)]
    text = page_text(records, 95)

    assert json.loads(text)["messages"] == [{"role": "assistant", "content": TOO_LARGE}]


def test_an_empty_session_is_not_truncated() -> None:
    for cap in (20, 60, 300, 1_000):
        assert json.loads(page_text([], cap)).get("truncated", False) is False


def test_a_unit_that_is_too_large_is_shrunk_together() -> None:
    """Fifty results of 4,000 characters: none is shown without its call."""
    names = [f"c{number}" for number in range(50)]
    records: list[Record] = [call(1, *names)]
    records += [
        ToolResult(id=f"{number + 2:04}", tool_use_id=name, content="x" * 4_000)
        for number, name in enumerate(names)
    ]

    reply = json.loads(page_text(records, 81_920))

    assert reply["count"] == 51
    assert reply["omittedCount"] == 0
    assert reply["contentTruncated"]
    assert not reply["droppedMessages"]


@pytest.mark.parametrize(
    ("caller", "words"),
    [
        (OPERATOR, "every session"),
        (Caller("main", "abc"), "tree of main/abc"),
        (Caller("main", "abc", visibility="self"), "self of main/abc"),
        (Caller("main", "abc", visibility="agent"), "agent main"),
        (Caller("main", "abc", visibility="all", agents=("a", "b")), "agent main and a, b"),
        (Caller("main", None), "tree of no session"),
    ],
)
def test_the_scope_is_said_in_words(caller: Caller, words: str) -> None:
    assert scope_of(caller) == words
