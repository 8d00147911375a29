"""Units that cannot be taken apart, and every repair of a log that is not sound."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversations import PNG, messy_logs, said
from tests.support.runs import examples

from holdfast.core.limits import DATA_URI_CHARS_MAX
from holdfast.core.log.records import Assistant, Record, ToolResult, ToolUse, User
from holdfast.core.models.messages import (
    INTERRUPTED,
    Image,
    Other,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
)
from holdfast.core.projection.steps import MEANING, Flaw, Thread
from holdfast.core.projection.units import ContextUnit, messages_of
from holdfast.core.projection.view import turns_of
from holdfast.core.text.cut import scrub
from holdfast.core.tokens.counting import count_block

if TYPE_CHECKING:
    from collections.abc import Sequence


class Characters:
    """Counts a token for each character."""

    name = "characters"
    is_exact = True

    def count(self, text: str) -> int:
        return len(text)


CHARACTERS = Characters()


def call(call_id: str = "c1", name: str = "read", **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def asks(*calls: dict[str, Any]) -> Assistant:
    return Assistant(content=[{"type": "text", "text": "Let me see."}, *calls])


def result(call_id: str = "c1", content: Any = "done") -> ToolResult:
    return ToolResult(tool_use_id=call_id, content=content)


def thread_of(*records: Record) -> Thread:
    thread = Thread()
    for record in said(records):
        thread.feed(record)
    return thread


def flaws(thread: Thread) -> list[str]:
    return [repair.flaw for repair in thread.all_repairs()]


def shape(thread: Thread) -> list[str]:
    """Each unit as its blocks' kinds, one letter each: u(ser), a(ssistant), c(all), r(esult)."""
    return ["".join(_letter(part, block) for part in unit.parts for block in part.blocks)
            for unit in thread.units()]  # fmt: skip


def _letter(part: Any, block: Any) -> str:
    if isinstance(block, ToolCall):
        return "c"
    return "r" if isinstance(block, ToolAnswer) else part.role[0]


def answers(unit: ContextUnit) -> list[tuple[str, str]]:
    return [
        (block.call_id, "".join(one.text for one in block.content if isinstance(one, Text)))
        for part in unit.parts
        for block in part.blocks
        if isinstance(block, ToolAnswer)
    ]


def test_sound_log_is_grouped_and_not_repaired() -> None:
    """A question, a step with two parallel calls, an answer."""
    thread = thread_of(
        User(content="hi"),
        asks(call("c1"), call("c2")),
        result("c1"),
        result("c2"),
        Assistant(content="bye"),
    )
    assert shape(thread) == ["u", "accrr", "a"]
    assert thread.all_repairs() == []
    assert turns_of(thread.units()) == [0]


def test_interrupted_call_is_answered_honestly_and_not_rerun() -> None:
    """Two of three parallel results arrived before the crash."""
    thread = thread_of(
        User(content="hi"), asks(call("c1"), call("c2"), call("c3")), result("c1"), result("c3")
    )
    assert answers(thread.units()[1]) == [("c1", "done"), ("c2", INTERRUPTED), ("c3", "done")]
    assert flaws(thread) == ["interrupted-call"]


def test_results_are_put_in_the_order_of_their_calls() -> None:
    """Parallel results come in any order; the request has them in the calls' order."""
    thread = thread_of(asks(call("c1"), call("c2")), result("c2", "two"), result("c1", "one"))
    assert answers(thread.units()[0]) == [("c1", "one"), ("c2", "two")]
    assert flaws(thread) == []


def test_result_after_a_users_words_is_moved_to_its_call() -> None:
    """The user spoke while the tool ran."""
    thread = thread_of(asks(call()), User(content="wait"), result())
    assert shape(thread) == ["acr", "u"]
    assert flaws(thread) == ["moved-result"]


def test_result_before_its_call_is_moved_to_it() -> None:
    """Two lines changed places."""
    thread = thread_of(User(content="hi"), result(), asks(call()))
    assert shape(thread) == ["u", "acr"]
    assert flaws(thread) == ["moved-result"]


def test_orphan_result_is_left_out() -> None:
    """Its call is nowhere."""
    thread = thread_of(User(content="hi"), result("gone"), User(content="?"))
    assert shape(thread) == ["u", "u"]
    assert flaws(thread) == ["orphan-result"]


def test_first_real_result_of_a_call_wins() -> None:
    """A result stored twice is shown once."""
    thread = thread_of(asks(call()), result(content="first"), result(content="second"))
    assert answers(thread.units()[0]) == [("c1", "first")]
    assert flaws(thread) == ["duplicate-result"]


def test_result_after_the_next_reply_becomes_a_note() -> None:
    """The model was told of an interruption; what it was told is not rewritten."""
    before = thread_of(asks(call()), User(content="go on"), Assistant(content="ok"))
    after = thread_of(asks(call()), User(content="go on"), Assistant(content="ok"), result())
    assert after.units()[:3] == before.units()
    assert shape(after) == ["acr", "u", "a", "uu"]
    assert flaws(after) == ["interrupted-call", "late-result"]


def test_id_used_again_in_a_later_step_is_renamed_on_both_sides() -> None:
    """Pairs are by occurrence."""
    thread = thread_of(asks(call()), result(content="one"), asks(call()), result(content="two"))
    first, second = thread.units()
    assert answers(first) == [("c1", "one")]
    assert answers(second) == [("c1_2", "two")]
    assert flaws(thread) == ["reused-id"]


def test_id_used_twice_in_one_message_is_renamed() -> None:
    """Both calls are answered, in order."""
    thread = thread_of(asks(call(), call()), result(content="one"), result(content="two"))
    assert answers(thread.units()[0]) == [("c1", "one"), ("c1_2", "two")]


def test_blank_ids_are_made_and_matched_where_there_is_no_doubt() -> None:
    """One call open, one result without an id."""
    thread = thread_of(asks(call("")), result(" "))
    assert answers(thread.units()[0]) == [("call_1", "done")]
    assert flaws(thread) == ["blank-id", "blank-id"]


def test_blank_result_with_two_calls_open_is_nobodys() -> None:
    """To guess would be to lie."""
    thread = thread_of(asks(call("c1"), call("c2")), result(""))
    assert [text for _id, text in answers(thread.units()[0])] == [INTERRUPTED, INTERRUPTED]
    assert "orphan-result" in flaws(thread)


def test_blank_tool_name_gets_one() -> None:
    thread = thread_of(asks(call(name=" ")), result())
    names = [
        block.name for block in thread.units()[0].parts[0].blocks if isinstance(block, ToolCall)
    ]
    assert names == ["unnamed_tool"]
    assert flaws(thread) == ["blank-name"]


@pytest.mark.parametrize("content", [None, "", "  \n", [], [{"type": "text", "text": ""}]])
def test_message_without_content_is_left_out(content: Any) -> None:
    """Empty content is refused by every provider."""
    thread = thread_of(User(content=content), Assistant(content=content))
    assert thread.units() == []
    assert flaws(thread) == ["empty-message", "empty-message"]


@pytest.mark.parametrize("content", [None, "", " ", []])
def test_empty_result_says_so(content: Any) -> None:
    thread = thread_of(asks(call()), result(content=content))
    assert answers(thread.units()[0]) == [("c1", "(no output)")]
    assert flaws(thread) == ["empty-result"]


def test_lone_surrogates_are_replaced_and_reported() -> None:
    thread = thread_of(User(content="half \ud83d of it"), asks(call()), result(content="\udc00"))
    assert flaws(thread) == ["bad-unicode", "bad-unicode"]
    for unit in thread.units():
        str(unit.parts).encode()


def test_assistant_messages_in_a_row_become_one() -> None:
    """The calls of both are open together."""
    thread = thread_of(asks(call("c1")), asks(call("c2")), result("c1"), result("c2"))
    assert shape(thread) == ["acacrr"]
    assert flaws(thread) == ["merged-roles"]


def test_users_messages_in_a_row_are_one_message_and_two_units() -> None:
    """They can be cut apart, and are sent together."""
    thread = thread_of(User(content="one"), User(content="two"))
    assert shape(thread) == ["u", "u"]
    assert [len(message.blocks) for message in messages_of(thread.units())] == [2]


def test_call_that_stands_alone_is_a_step() -> None:
    """The seed format keeps calls as records of their own."""
    thread = thread_of(
        User(content="hi"), ToolUse(tool_use_id="c1", name="read", input={}), result()
    )
    assert shape(thread) == ["u", "cr"]
    assert flaws(thread) == []


def test_results_inside_a_users_message_are_results() -> None:
    """Anthropic's own message shape, appended as it is."""
    content = [
        {"type": "tool_result", "tool_use_id": "c1", "content": "done"},
        {"type": "text", "text": "and now?"},
    ]
    thread = thread_of(asks(call()), User(content=content))
    assert shape(thread) == ["acr", "u"]
    assert answers(thread.units()[0]) == [("c1", "done")]


def test_thinking_that_the_target_refuses_is_left_out() -> None:
    """And a message of nothing else with it."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    records = said(
        [
            Assistant(content=[thought, {"type": "text", "text": "so"}], model="other"),
            Assistant(content=[thought], model="other"),
        ]
    )
    thread = Thread(lambda record, block: record.model == block.model == "mine")
    for record in records:
        thread.feed(record)
    assert [type(block) for block in thread.units()[0].parts[0].blocks] == [Text]
    assert flaws(thread) == ["foreign-thinking", "foreign-thinking", "empty-message"]


SHOT = base64.b64encode(base64.b64decode(PNG) + bytes(DATA_URI_CHARS_MAX)).decode()
"""A picture that is too large to be a text."""


def test_a_large_data_uri_is_a_payload_with_a_ref() -> None:
    """As text it would be thousands of tokens and show nothing; what stands around it stays."""
    uri = f"data:image/png;base64,{SHOT}"
    thread = thread_of(User(content=f"see {uri} there"), asks(call()), result(content=uri))
    size = f"{len(base64.b64decode(SHOT)):,}"
    said = thread.units()[0].parts[0].blocks
    note = f"[image/png, {size} bytes, shown below; ref {thread.units()[0].parts[0].record}]"
    assert said == (Text(f"see {note} there"), Image(data=SHOT, media_type="image/png"))
    answer = thread.units()[1].parts[1].blocks[0]
    assert isinstance(answer, ToolAnswer)
    assert [type(piece) for piece in answer.content] == [Text, Image]
    assert flaws(thread) == ["payload-in-text", "payload-in-text"]


def test_a_large_data_uri_in_arguments_or_of_another_kind_is_a_note() -> None:
    """Nested as deep as it likes. A model's own message shows no pictures."""
    pdf = "data:application/pdf;base64," + "QUJD" * DATA_URI_CHARS_MAX
    shot = f"data:image/png;base64,{SHOT}"
    thread = thread_of(
        asks(call(files=[{"url": pdf}, {"url": shot}])), result(content=f"got {pdf}")
    )
    said, answered = thread.units()[0].parts
    asked = said.blocks[1]
    assert isinstance(asked, ToolCall)
    notes = [file["url"] for file in asked.arguments["files"]]
    assert all("left out; ref" in note and said.record in note for note in notes)
    answer = answered.blocks[0]
    assert isinstance(answer, ToolAnswer)
    (text,) = answer.content
    assert isinstance(text, Text)
    assert text.text.startswith("got [application/pdf, 12,000 bytes, left out; ref ")


BASE64 = st.binary(max_size=DATA_URI_CHARS_MAX * 3 // 4).map(lambda raw: base64.b64encode(raw))
MEDIA = st.sampled_from(["image/png", "image/svg+xml", "application/pdf", "font/woff2", ""])


@examples(60)
@given(st.lists(st.tuples(st.text(max_size=30), MEDIA, BASE64), min_size=1, max_size=8))
def test_a_small_data_uri_is_the_text_that_it_is(pieces: list[tuple[str, str, bytes]]) -> None:
    """What a tool returned and what the model wrote is what the model sees, and it is counted so:
    an agent that edits a style sheet writes its icons back, and not a note about them."""
    sheet = scrub("x" + "".join(f"{a}data:{m};base64,{d.decode()}" for a, m, d in pieces) + "y")
    thread = thread_of(User(content=sheet), asks(call(css=sheet)), result(content=sheet))
    spoken, (asked, answered) = thread.units()[0].parts[0], thread.units()[1].parts
    assert spoken.blocks == (Text(sheet),)
    written = asked.blocks[-1]
    assert isinstance(written, ToolCall)
    assert written.arguments == {"css": sheet}
    answer = answered.blocks[0]
    assert isinstance(answer, ToolAnswer)
    assert answer.content == (Text(sheet),)
    assert flaws(thread) == []
    assert count_block(Text(sheet), CHARACTERS) == len(sheet)


def test_an_svg_is_never_a_picture() -> None:
    """It is a text; providers take none as a picture."""
    svg = base64.b64encode(b"<svg>" + b"<path d='M0 0'/>" * DATA_URI_CHARS_MAX + b"</svg>").decode()
    uri = f"data:image/svg+xml;base64,{svg}"
    thread = thread_of(User(content=f"icon {uri}"), asks(call()), result(content=uri))
    blocks = [block for unit in thread.units() for part in unit.parts for block in part.blocks]
    pieces = [piece for block in blocks for piece in getattr(block, "content", (block,))]
    assert not any(isinstance(piece, Image) for piece in pieces)
    assert count_block(Other("x", {"url": uri}), CHARACTERS) >= len(uri)


def test_every_flaw_has_a_meaning() -> None:
    assert set(MEANING) == set(get_args(Flaw))


@examples(300)
@given(messy_logs())
def test_messages_of_any_log_are_sound(records: Sequence[Record]) -> None:
    """Roles alternate; every call is answered, once, in order, at once; nothing is empty."""
    thread = Thread(lambda _record, thinking: isinstance(thinking, Thinking))
    for record in records:
        thread.feed(record)
    messages = messages_of(thread.units())
    seen: set[str] = set()
    waiting: list[str] = []
    for number, message in enumerate(messages):
        assert message.blocks
        assert number == 0 or message.role != messages[number - 1].role
        found = [block.call_id for block in message.blocks if isinstance(block, ToolAnswer)]
        assert found == waiting
        assert all(isinstance(block, ToolAnswer) for block in message.blocks[: len(found)])
        waiting = [block.id for block in message.blocks if isinstance(block, ToolCall)]
        assert not seen.intersection(waiting)
        assert len(set(waiting)) == len(waiting)
        assert all(name.strip() for name in waiting)
        seen.update(waiting)
    assert not waiting


@examples(200)
@given(messy_logs())
def test_more_records_only_add_blocks(records: Sequence[Record]) -> None:
    """Whatever was closed stays as it was: the prefix of a request is the next one's."""
    thread = Thread()
    for record in records:
        closed = thread.closed_units(0, thread.position)
        thread.feed(record)
        assert thread.closed_units(0, len(closed)) == closed


@examples(200)
@given(messy_logs())
def test_feeding_at_once_and_one_by_one_agree(records: Sequence[Record]) -> None:
    """Looking at a thread does not change it."""
    looked, unlooked = Thread(), Thread()
    for record in records:
        looked.feed(record)
        looked.units(), looked.all_repairs()
        unlooked.feed(record)
    assert looked.units() == unlooked.units()
    assert looked.all_repairs() == unlooked.all_repairs()
