"""What is asked for: the request can be read back, and nothing in it can be forged."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversations import digests_of, messy_logs
from tests.strategies import clean_texts, texts
from tests.support.runs import examples

from holdfast.core.compaction.summary_request import (
    FOCUS_CHARS,
    HEADINGS,
    SYSTEM,
    SummaryRequest,
    ask,
    ask_riding,
    overhead,
    parts,
    prose_of,
    read_ask,
)
from holdfast.core.log.records import Compaction, Record, Undo, User
from holdfast.core.narrative.carryover import carry_over
from holdfast.core.text.fences import TAGS, escape, is_wrapped, tag_text, unescape, unwrap
from holdfast.core.tokens.counting import Estimator

COUNTER = Estimator()
PIECE = tag_text("narrative", "User: fix it")


def test_request_can_be_read_back() -> None:
    """An offline model knows what it is asked for without guessing."""
    asked = ask(
        PIECE, previous="### Goal\nold", focus="the database", cap_tokens=1_500, part=2, parts=3
    )
    assert read_ask(asked) == SummaryRequest(
        1_500, "the database", "User: fix it", "### Goal\nold", 2, 3
    )
    assert read_ask(ask(PIECE, cap_tokens=80)) == SummaryRequest(80, "", "User: fix it")
    assert read_ask(ask_riding("tests", 1_200)) == SummaryRequest(1_200, "tests")


@pytest.mark.parametrize(
    "text",
    ["", "hello", "please write a summary", f"see: {ask_riding('', 9)}", "[Summary request: at"],
)
def test_other_messages_are_no_requests(text: str) -> None:
    """A message that mentions a request is not one."""
    assert read_ask(text) is None


@pytest.mark.parametrize("asked", [ask(PIECE, cap_tokens=900), ask_riding("", 900)])
def test_request_says_what_is_wanted(asked: str) -> None:
    """Every heading, the length, the language, no tools, and to go on rather than begin again."""
    assert all(f"### {heading}\n" in asked for heading in HEADINGS)
    assert "At most 900 tokens" in asked
    assert "in the language of the conversation" in asked
    assert "continue where the conversation stopped, not start again" in asked
    assert "tool" in asked + SYSTEM
    assert "data" in asked + SYSTEM


def test_focus_is_in_every_request() -> None:
    """Each piece is read with the same eyes, and the last message too."""
    pieces = [
        ask(PIECE, focus="schema of orders", cap_tokens=9, part=n, parts=3) for n in (1, 2, 3)
    ]
    assert all("schema of orders" in one for one in (*pieces, ask_riding("schema of orders", 9)))
    asked = read_ask(ask_riding("x" * 5_000, 900))
    assert asked is not None
    assert len(asked.focus) <= FOCUS_CHARS


def test_later_pieces_update_the_summary_so_far() -> None:
    """With a previous summary the request is to bring it up to date, not to begin anew."""
    assert "Bring the previous summary up to date" in ask(PIECE, previous="old", cap_tokens=9)
    first = ask(PIECE, cap_tokens=9)
    assert "previous summary" not in first
    assert "<previous_summary>" not in first


@examples(80)
@given(previous=texts(120), focus=texts(60), said=texts(120))
def test_nothing_in_a_request_is_forged(previous: str, focus: str, said: str) -> None:
    """Whatever is put between the tags, each tag opens and closes once."""
    pieces = parts(digests_of([User(content=said)]), 2_000, 1, COUNTER)
    asked = ask("".join(pieces), previous=previous, focus=focus, cap_tokens=100)
    for tag in TAGS:
        assert asked.count(f"<{tag}>") == asked.count(f"</{tag}>") <= 1
    assert read_ask(asked) is not None


@pytest.mark.parametrize("tag", TAGS)
def test_tags_in_data_are_escaped_and_come_back(tag: str) -> None:
    """What was escaped for the request is as it was when it is read."""
    for text in (f"</{tag}>", f"<{tag}>x", f"< / {tag.upper()} >"):
        assert f"<{tag}" not in escape(text).lower().replace(" ", "").replace("/", "")
        assert unescape(escape(text)) == text
    asked = read_ask(ask(PIECE, previous=f"a </{tag}> b", focus=f"</{tag}>", cap_tokens=5))
    assert asked is not None
    assert (asked.previous, asked.focus) == (f"a </{tag}> b", f"</{tag}>")


@examples(100)
@given(st.lists(st.sampled_from(
    ["<", ">", "/", "narrative", "conversation_so_far", "<narrative>", "</focus>", " ", "\n",
     "[Summary request: at most ", "[The conversation so far, shortened. ", "`" * 3, "x"]
), max_size=14).map("".join))  # fmt: skip
def test_unwrapping_leaves_no_wrapper(text: str) -> None:
    """Not even one that grows together where another was taken out; and doing it twice is once."""
    bare = unwrap(text)
    assert not is_wrapped(bare)
    assert unwrap(bare) == bare or "```" in text


@examples(40)
@given(records=messy_logs(), previous=clean_texts(400), focus=clean_texts(60))
def test_request_with_a_piece_is_within_what_was_reckoned(
    records: list[Record], previous: str, focus: str
) -> None:
    """The room of a piece and the overhead together are the whole request."""
    budget, cap = 3_000, 300
    taken = overhead(previous=previous, focus=focus, cap_tokens=cap, counter=COUNTER)
    for piece in parts(digests_of(records), budget - taken, 3, COUNTER):
        asked = ask(piece, previous=previous, focus=focus, cap_tokens=cap, part=1, parts=3)
        assert COUNTER.count(SYSTEM) + COUNTER.count(asked) <= budget


@pytest.mark.parametrize("previous", ["", "old", "### Goal\nold </focus> " * 400])
def test_overhead_is_all_of_a_request_but_its_narrative(previous: str) -> None:
    """Enough for a previous summary of any length and for one as long as its cap, and no waste."""
    cap, focus = 300, "the database"
    taken = overhead(previous=previous, focus=focus, cap_tokens=cap, counter=COUNTER)
    at_cap = next(text for n in range(1, 999) if COUNTER.count(text := "word " * n) >= cap)
    needed = [
        COUNTER.count(SYSTEM)
        + COUNTER.count(ask("", previous=carried, focus=focus, cap_tokens=cap, part=999, parts=999))
        for carried in (previous, at_cap)
    ]
    assert max(needed) <= taken <= 1.1 * max(needed)


def test_prose_of_a_session_is_that_of_its_newest_compaction() -> None:
    """Also where a later cut without a model carried it on."""
    prose = "### Goal\nShip it."
    made = carry_over([User(content="go")], cap_tokens=500, counter=COUNTER, prose=prose).text
    later = carry_over([User(content="on")], cap_tokens=500, counter=COUNTER, previous=made).text
    cuts: list[Record] = [
        Compaction(summary=made, method="model"),
        User(content="x"),
        Compaction(summary="shown", carry=later, method="extract"),
    ]
    assert prose_of(cuts[:1]) == prose_of(cuts) == prose
    assert prose_of([User(content="x")]) == ""


@pytest.mark.parametrize("undone_cuts", [(), ("b",), ("a",), ("a", "b")])
def test_prose_is_that_of_the_newest_cut_that_stands(undone_cuts: tuple[str, ...]) -> None:
    """A compaction that was undone is not brought up to date by the next one."""
    cuts = [Compaction(id=name, summary=f"### Goal\nThe goal of {name}.") for name in ("a", "b")]
    records: list[Record] = [*cuts, *(Undo(target=name) for name in undone_cuts)]
    left = [cut.summary for cut in cuts if cut.id not in undone_cuts]
    assert prose_of(records) == (left[-1] if left else "")
