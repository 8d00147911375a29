"""The tool `context`: small, of one shape, and its mistakes are answers."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.test_outputs import KEY, LOG, Desk

from holdfast.core.limits import EXCERPT_CHARS_MIN
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Compaction, Rewind, ToolResult, User
from holdfast.core.models.messages import ToolCall
from holdfast.core.secrets.redaction import Redactor
from holdfast.core.tokens.counting import Estimator, count_tool
from holdfast.engine.context_tool import (
    context_declaration,
    context_tool,
    describe_cuts,
    former_tool,
)
from holdfast.engine.outputs import Outputs
from holdfast.engine.tools import Toolbox
from holdfast.providers.tokenizers import counter_for

TOKENS_MAX = 200


def call(desk: Desk, name: str = "context", **arguments: Any) -> Any:
    cap = arguments.pop("cap", 20_000)
    tool = context_tool(
        desk.outputs, KEY, status=lambda: "half full", compact=str.upper, chars_max=cap
    )
    prepared = Toolbox([tool], unlisted=[former_tool(tool)]).prepare(ToolCall("c", name, arguments))
    assert isinstance(prepared, tuple), prepared
    function, bound = prepared
    return function.function(**bound)


def said(desk: Desk, count: int = 6) -> list[str]:
    """Records of a talk, oldest first."""
    kinds = (User, Assistant)
    return [
        desk.append(kinds[number % 2](content=f"said {number}\nline two of {number}"))
        for number in range(count)
    ]


def test_declaring_it_takes_at_most_200_tokens() -> None:
    """It is in every request from the first one on."""
    tool = context_declaration()
    assert tool.name == "context"
    properties = tool.parameters["properties"]
    assert list(properties) == ["action", "ref", "lines", "offset", "search", "focus"]
    assert all(one.get("description") or one.get("enum") for one in properties.values())
    for counter in (Estimator(), counter_for("gpt-5")):
        assert count_tool(tool, counter) <= TOKENS_MAX, counter


def test_a_declaration_without_a_session_is_that_of_every_session() -> None:
    """A loop of the caller's declares it before there is a session."""
    made = context_tool(Desk().outputs, KEY, status=str, compact=str, chars_max=300)
    assert made.tool == context_declaration()


def test_answers_begin_with_which_part_this_is() -> None:
    """One line about the part and the way on, then the part itself."""
    desk = Desk()
    ref = desk.offload(LOG, kind="log")[:16]
    answer = call(desk, ref=ref, lines="10:4000", cap=1_000)
    header, text = answer.content.split("\n", 1)
    assert header.startswith(f"[log, ref {ref}: characters ")
    following = re.search(r'go on with lines="(\d+):4000"', header)
    assert following is not None
    assert text.startswith("00010 ")
    more = call(desk, ref=ref, lines=f"{following[1]}:4000", cap=1_000)
    assert f"\n{int(following[1]):05} " in more.content


@given(st.integers(EXCERPT_CHARS_MIN, 3_000), st.sampled_from(["lines", "search", "offset"]))
def test_answers_are_within_the_room_of_their_session(size: int, by: str) -> None:
    """The first line counts."""
    desk = Desk()
    ref = desk.offload(LOG)[:16]
    asked: dict[str, Any] = {"lines": "5:", "search": "something", "offset": 12_345}
    answer = call(desk, ref=ref, cap=size, **{by: asked[by]})
    assert not answer.is_error
    assert size // 3 < len(answer.content) <= size


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"ref": "0" * 16}, "none of its records holds it"),
        ({"ref": "../../etc/passwd"}, "neither a hash nor the id"),
        ({"ref": "nowhere..gone"}, "record `gone` is not on the way"),
        ({"lines": "x"}, "not a range"),
        ({"lines": "1:2", "offset": 3}, "give offset or lines"),
        ({"search": "("}, "not a regular expression"),
        ({"ref": "", "lines": "1"}, "give ref, from a note"),
    ],
)
def test_mistakes_are_answers_that_say_what_to_do(arguments: dict[str, Any], told: str) -> None:
    """A model reads what was wrong and can try again; the turn goes on."""
    desk = Desk()
    ref = desk.offload(LOG)[:16]
    answer = call(desk, **{"ref": ref, **arguments})
    assert answer.is_error
    assert told in answer.content


def test_nothing_found_says_what_was_searched() -> None:
    """Nothing found is no mistake."""
    desk = Desk()
    answer = call(desk, ref=desk.offload(LOG)[:16], search="never")
    assert not answer.is_error
    assert "no line matches; the output has 125,000 characters" in answer.content


@given(st.integers(0, 5), st.integers(0, 5), st.booleans(), st.booleans())
def test_a_range_is_all_of_its_records_and_no_other(
    first: int, last: int, has_first: bool, has_last: bool
) -> None:
    """Either end may be left out; each record is named."""
    desk = Desk()
    ids = said(desk)
    first, last = min(first, last), max(first, last)
    ref = f"{ids[first] if has_first else ''}..{ids[last] if has_last else ''}"
    answer = call(desk, ref=ref)
    assert not answer.is_error
    told = [int(number) for number in re.findall(r"^said (\d)$", answer.content, re.MULTILINE)]
    wanted = range(first if has_first else 0, last + 1 if has_last else len(ids))
    assert told == list(wanted)
    assert all(f"[record {ids[number]}, " in answer.content for number in wanted)


def test_a_range_has_nothing_of_a_branch_that_was_left() -> None:
    """A rewind takes words back; they are not read as if they stood."""
    desk = Desk()
    start = desk.append(User(content="begin"))
    desk.append(User(content="taken back"))
    desk.append(Rewind(to=start))
    desk.append(User(content="instead"))
    told = call(desk, ref="..").content
    assert "begin" in told
    assert "instead" in told
    assert "taken back" not in told


def test_searching_without_a_ref_searches_every_record() -> None:
    """Whoever does not know where something stands looks everywhere."""
    desk = Desk()
    said(desk)
    answer = call(desk, search="two of 4")
    assert "line two of 4" in answer.content
    assert "1 match" in answer.content


def test_a_range_masks_secrets_and_reads_its_own_session_alone() -> None:
    """As for a single output."""
    desk = Desk(redactor=Redactor({"WORD": "hunter2-hunter2"}))
    other = SessionKey("main", "other")
    desk.store.create(other)
    foreign = desk.append(User(content="not yours"), key=other)
    desk.append(User(content="it is hunter2-hunter2"))
    assert "hunter2" not in call(desk, ref="..").content
    refused = call(desk, ref=f"..{foreign}")
    assert refused.is_error
    assert "not yours" not in refused.content


def test_status_and_compaction_are_those_of_the_session() -> None:
    """It passes the focus on, and says so where nothing can be compacted."""
    desk = Desk()
    assert call(desk, action="status").content == "half full"
    assert call(desk, action="compact", focus="the schema").content == "THE SCHEMA"
    tool = context_tool(desk.outputs, KEY, status=str)
    refused = tool.function(action="compact")
    assert refused.is_error
    assert "it is compacted when it is full" in refused.content


def test_calls_of_the_former_name_are_answered() -> None:
    """A preview of version 0.1 names `output_read`."""
    desk = Desk()
    ref = desk.offload(LOG)[:16]
    asked = {"ref": ref, "lines": "7", "max_chars": 500}
    assert "00007 something happened" in call(desk, "output_read", **asked).content
    found = call(desk, "output_read", ref=ref, pattern="^04000").content
    assert "4000:04000 something happened" in found
    tool = context_tool(Outputs(desk.store, desk.blobs), KEY, status=str)
    assert [one.name for one in Toolbox([tool], unlisted=[former_tool(tool)]).tools] == ["context"]


def test_the_newest_cut_says_how_to_read_everything_before_it() -> None:
    """By a range that `read` takes."""
    desk = Desk()
    ids = said(desk)
    assert describe_cuts([]) == ["Nothing was cut."]
    cuts = [Compaction(summary="s", covers=(ids[0], ids[1]))]
    cuts.append(Compaction(summary="t", covers=(ids[2], ids[3])))
    (line,) = describe_cuts(cuts)
    found = re.search('ref="([^"]+)"', line)
    assert found is not None
    told = call(desk, ref=found[1]).content
    assert "said 0" in told
    assert "said 3" in told
    assert "said 4" not in told


def test_an_output_in_a_range_is_named_by_its_ref() -> None:
    """So that the next call can read it."""
    desk = Desk()
    sha256 = desk.offload(LOG)
    desk.append(ToolResult(tool_use_id="u", content="short"))
    told = call(desk, ref="..").content
    assert f", ref {sha256[:16]}]" in told
