"""Shorter forms: within their caps, with refs, and with the ends that matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversations import PNG, said
from tests.prompts import pdf, png

from holdfast.core.dialects.registry import find_variant, target
from holdfast.core.log.records import Assistant, Prune, PruneDecision, Record, ToolResult, User
from holdfast.core.models.messages import Image, Other, Text, Thinking, ToolAnswer, ToolCall
from holdfast.core.projection.policy import Policy, PromptCache
from holdfast.core.projection.project import project
from holdfast.core.projection.prune import (
    as_shown,
    can_clear,
    can_trim,
    chars_of,
    clear,
    shorten,
    trim,
)
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.steps import Thread
from holdfast.core.projection.units import MessagePart
from holdfast.core.window import Window

if TYPE_CHECKING:
    from holdfast.core.models.messages import Block, Piece


def result(*texts: str, is_error: bool = False, images: int = 0) -> MessagePart:
    pictures = (Image(data=PNG, media_type="image/png"),) * images
    content: tuple[Piece, ...] = (*(Text(text) for text in texts), *pictures)
    return MessagePart("r1", "tool_result", "user", (ToolAnswer("c1", content, is_error=is_error),))


def text_of(part: MessagePart) -> str:
    block = part.blocks[0]
    assert isinstance(block, ToolAnswer)
    return "\n".join(piece.text for piece in block.content if isinstance(piece, Text))


def test_trim_keeps_both_ends_and_names_the_record() -> None:
    """20,000 characters become 3,000, the marker among them."""
    shown = text_of(trim(result("A" + "x" * 19_998 + "Z")))
    assert len(shown) == 3_000
    assert shown.startswith("Ax")
    assert shown.endswith("xZ")
    assert "of 20,000 characters left out; record r1 has all of it" in shown


def test_blocks_of_a_result_are_trimmed_as_one_text() -> None:
    """`AAAAA` and `BBBBB` are one text with a line break."""
    assert text_of(trim(result("A" * 3_000, "B" * 3_000), 5_000)).startswith("A" * 2_000)
    assert "\n" in text_of(trim(result("AAAAA", "BBBBB"), 11))


def test_traceback_at_the_end_survives_trimming() -> None:
    log = "line\n" * 20_000 + "Traceback (most recent call last):\nValueError: the last line"
    assert text_of(trim(result(log))).endswith("ValueError: the last line")


LINES = {"en": "ERROR: disk full", "zh": "错误：磁盘已满，无法写入", "es": "no queda espacio"}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
@pytest.mark.parametrize(
    ("fields", "ending", "is_kept"),
    [
        ({}, "", False),
        ({"is_error": True}, "", True),
        ({"details": {"exit_code": 2}}, "", True),
        ({"details": {"exit_code": 0}}, "", False),
        ({}, "\nexit code 2", True),
    ],
)
def test_end_of_a_failed_result_survives_clearing(
    line: str, fields: dict[str, Any], ending: str, is_kept: bool
) -> None:
    """What went wrong is what the agent needs. Fields say so, and no word of a language."""
    text = "ok\n" * 900 + line + ending
    use = {"type": "tool_use", "id": "c1", "name": "run", "input": {}}
    thread = Thread()
    for record in (
        User(id="u", content="go"),
        Assistant(id="a", content=[use]),
        ToolResult(id="r1", tool_use_id="c1", content=text, **fields),
    ):
        thread.feed(record)
    part = next(part for unit in thread.units() for part in unit.parts if part.record == "r1")
    shown = text_of(clear(part))
    assert (line in shown) is is_kept
    assert "Record r1 has all of it" in shown
    assert len(shown) < 1_000


def test_cleared_result_still_names_what_it_held() -> None:
    text = "src/parser.py defines parse_line\n" * 200
    assert "src/parser.py parse_line" in text_of(clear(result(text)))


def test_short_results_are_left_alone() -> None:
    """To shorten them would make them longer."""
    assert not can_trim(result("x" * 4_000))
    assert can_trim(result("x" * 4_001))
    assert not can_clear(result("short"))
    assert can_clear(result("x" * 500))


def test_result_that_is_a_picture_can_be_pruned() -> None:
    """Its data counts as its length; a note of it says how many there were."""
    picture = Image(data="A" * 9_000, media_type="image/png")
    part = MessagePart("r1", "tool_result", "user", (ToolAnswer("c1", (picture,)),))
    assert can_trim(part)
    assert can_clear(part)
    assert not can_trim(result("x", images=1))
    assert "0 characters, 1 images." in text_of(clear(part))
    assert "900 characters." in text_of(clear(result("x" * 900)))


@pytest.mark.parametrize(
    ("record", "blocks", "content"),
    [
        (User(content="long"), (Text("lo…"),), [{"type": "text", "text": "lo…"}]),
        (
            User(content=[{"type": "text", "text": "long"}] * 2),
            (Text("lo…"), Text("…ng")),
            [{"type": "text", "text": "lo…"}, {"type": "text", "text": "…ng"}],
        ),
        (User(content="long"), (Text("lo…"), Image(data=PNG)), "long"),
        (Assistant(content="long"), (Text("lo…"),), "long"),
    ],
    ids=["text", "texts", "with a picture", "of the model"],
)
def test_cut_stores_a_users_words_as_they_are_shown(
    record: User | Assistant, blocks: tuple[Block, ...], content: Any
) -> None:
    """Where nothing but texts is left of a message; any other record is stored as it is."""
    shown = as_shown(record, MessagePart(record.id, "user", "user", blocks))
    assert type(shown) is type(record)
    assert getattr(shown, "content", None) == content


def test_arguments_are_shortened_in_proportion() -> None:
    """A call with a long text and little else does not keep all of it."""
    call = ToolCall("c1", "write", {"path": "a.py", "text": "line\n" * 2_000})
    part = MessagePart("a1", "assistant", "assistant", (Text("I write it."), call))
    for keep in (500, 2_000, 5_000):
        assert 0.5 * keep <= chars_of(shorten(part, keep)) <= 1.5 * keep
    assert shorten(part, 20_000) == part


def test_message_of_many_pictures_becomes_as_short_as_any_other() -> None:
    """Their notes are one text, cut like a text, and it names the record that has them."""
    part = MessagePart("u1", "user", "user", (Text("look"), *(Image(data=PNG),) * 60))
    (block,) = shorten(part, 400).blocks
    assert isinstance(block, Text)
    assert len(block.text) <= 400
    assert "characters left out; record u1 has all of it" in block.text
    assert shorten(part, 0).blocks == (Text("…"),)


def test_images_give_way_to_notes() -> None:
    """With their size, and the record that has them."""
    for shown in (trim(result("x", images=2), 2_000), clear(result("x" * 900, images=2))):
        block = shown.blocks[0]
        assert isinstance(block, ToolAnswer)
        assert not any(isinstance(piece, Image) for piece in block.content)
    words = MessagePart(
        "u1", "user", "user", (Text("look"), Image(data=PNG, media_type="image/png"))
    )
    assert clear(words).blocks[0] == Text("look")
    assert "Record u1 has it" in str(clear(words).blocks[1])


@given(
    st.lists(st.text(max_size=300), min_size=1, max_size=3),
    st.integers(0, 500),
    st.booleans(),
)
def test_trim_is_within_any_cap(texts: list[str], keep: int, is_error: bool) -> None:
    """For every cap from 0 up; something is always left, because nothing is refused."""
    shown = text_of(trim(result(*texts, is_error=is_error), keep))
    assert len(shown) <= max(keep, 1)
    assert shown


@given(st.integers(0, 5_000))
def test_shortened_parts_are_within_their_share(keep: int) -> None:
    """Texts and arguments by their length; thinking and pictures not at all."""
    blocks: tuple[Block, ...] = (
        Text("words " * 300),
        Thinking(text="hm", signature="s"),
        Image(data=PNG),
        Other("document", {"a": 1}),
        ToolCall("c1", "write", {"path": "a.py", "text": "line\n" * 500, "list": ["x" * 200, 7]}),
    )
    part = MessagePart("a1", "assistant", "assistant", blocks)
    shown = shorten(part, keep)
    assert not any(isinstance(block, Thinking | Image | Other) for block in shown.blocks)
    calls = [block for block in shown.blocks if isinstance(block, ToolCall)]
    assert calls[0].arguments["path"] == "a.py"
    assert calls[0].arguments["list"][1] == 7
    assert chars_of(shown) <= max(keep, 0) + 600


@given(st.lists(st.integers(1, 4_000), min_size=1, max_size=8), st.integers(0, 5_000))
def test_a_short_text_beside_long_ones_stays_whole(lengths: list[int], keep: int) -> None:
    """Agents put pages of their own in front of the words of a person, in one message."""
    texts = [chr(ord("a") + place) * length for place, length in enumerate(lengths)]
    part = MessagePart("u1", "user", "user", tuple(map(Text, texts)))
    shown = [block.text for block in shorten(part, keep).blocks if isinstance(block, Text)]
    assert [text for text in texts if len(text) <= keep // len(texts)] == [
        text for text in shown if text in texts and len(text) <= keep // len(texts)
    ]
    assert sum(map(len, shown)) <= max(keep, 1)


def conversation(*results: str, name: str = "read") -> list[Record]:
    records: list[Record] = [User(content="go")]
    for number, text in enumerate(results):
        call = {"type": "tool_use", "id": f"c{number}", "name": name, "input": {"n": number}}
        records += [Assistant(content=[call]), ToolResult(tool_use_id=f"c{number}", content=text)]
    return said([*records, User(content="and now?")])


def actions(records: list[Record], window: int = 64_000, **options: Any) -> dict[str, str]:
    request = ProjectionRequest(
        records,
        Window(window),
        target("anthropic"),
        prompt_cache=PromptCache(idle_seconds=9_999.0),
        policy=Policy(cold_prune=0.01, keep=0.01, quiet_steps=0, **options),
    )
    plan = project(request)
    return {line.record: line.action for line in plan.ledger if line.kind == "tool_result"}


def test_the_last_steps_are_protected() -> None:
    """Four results, three protected: the first may go and no other."""
    found = list(actions(conversation(*["x " * 2_400] * 4)).values())
    assert found[0] in ("trimmed", "cleared")
    assert found[1:] == ["kept"] * 3


def test_nothing_is_pruned_where_all_steps_are_protected() -> None:
    assert set(actions(conversation(*["x " * 2_400] * 3)).values()) == {"kept"}


def test_results_before_the_first_user_message_are_never_pruned() -> None:
    """What was read before anybody asked is what the agent works from."""
    call = {"type": "tool_use", "id": "c", "name": "read", "input": {}}
    first: list[Record] = [
        Assistant(content=[call]),
        ToolResult(tool_use_id="c", content="boot " * 1_500),
    ]
    rest = conversation(*["x " * 1_500] * 4)
    found = actions(said([*first, *rest]))
    assert found["r00001"] == "kept"
    assert found["r00004"] in ("trimmed", "cleared")


@pytest.mark.parametrize(
    ("options", "is_pruned"),
    [
        ({"allow": ("*",), "deny": ("browser*",)}, False),
        ({"allow": ("BROWSER.open",)}, True),
        ({"allow": ("read",)}, False),
        ({}, True),
    ],
)
def test_allow_and_deny_lists(options: dict[str, Any], is_pruned: bool) -> None:
    """Deny wins; an empty allow list is everything; case does not matter."""
    records = conversation(*["x " * 2_400] * 4, name="Browser.Open")
    found = actions(records, **options)
    assert (found["r00002"] != "kept") is is_pruned


def test_clearing_depends_on_need_alone() -> None:
    """However few results there are."""
    found = actions(conversation(*["word " * 3_000] * 6), window=24_000)
    assert set(found.values()) & {"cleared", "summarised"}


def picture(number: int, data: str = PNG) -> list[Record]:
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": data}}
    return [
        User(content=[{"type": "text", "text": f"see {number}"}, image]),
        Assistant(content="ok"),
    ]


def test_more_pictures_than_the_provider_takes_lose_the_oldest() -> None:
    """101 pictures where 100 are allowed; the log keeps them all."""
    records = said([record for number in range(101) for record in picture(number)])
    plan = project(ProjectionRequest(records, Window(1_000_000), target("anthropic")))
    images = sum(isinstance(b, Image) for m in plan.prompt.messages for b in m.blocks)
    assert images == 100
    assert plan.ledger[0].action == "cleared"
    assert plan.ledger[0].back == "record r00000"
    assert plan.decisions


def test_picture_that_a_trim_took_away_does_not_count() -> None:
    """A shortened message stays as short as it was decided, however many pictures there are."""
    records = said([one for number in range(101) for one in picture(number)])
    trim = PruneDecision(record="r00000", action="trim", keep=40)
    log = [*records, Prune(id="p", decisions=[trim])]
    plan = project(ProjectionRequest(log, Window(1_000_000), target("anthropic")))
    assert plan.ledger[0].action == "trimmed"
    assert plan.decisions == ()


def test_pictures_over_the_size_limit_give_way() -> None:
    """One of six megabytes where five are allowed."""
    limit = find_variant("anthropic").image_bytes
    records = said([*picture(0, png(padding=limit * 3 // 4)), *picture(1)])
    plan = project(ProjectionRequest(records, Window(1_000_000), target("anthropic")))
    assert [line.action for line in plan.ledger if line.kind == "user"] == ["cleared", "kept"]


def test_pictures_too_large_for_a_request_of_many_give_way() -> None:
    """21 pictures, one of them 3,000 pixels wide, where 2,000 are allowed for so many."""
    wide = png(3_000, 10)
    few = said([*picture(0, wide), *picture(1)])
    many = said([*picture(0, wide), *(one for n in range(20) for one in picture(n))])
    huge = said([*picture(0, png(9_000, 10)), *picture(1)])
    first = [
        project(ProjectionRequest(records, Window(1_000_000), target("anthropic"))).ledger[0].action
        for records in (few, many, huge)
    ]
    assert first == ["kept", "cleared", "cleared"]


def test_bodies_over_the_limit_lose_the_oldest_pictures_first() -> None:
    """Ten of four megabytes are forty, and the body may have thirty-two."""
    records = said([one for number in range(10) for one in picture(number, png(padding=3_000_000))])
    plan = project(ProjectionRequest(records, Window(1_000_000), target("anthropic")))
    kept = [line.action for line in plan.ledger if line.kind == "user"]
    assert kept[0] == "cleared"
    assert kept[-1] == "kept"
    assert 5 <= kept.count("kept") <= 7


def document(number: int, data: str) -> list[Record]:
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    block = {"type": "document", "source": source}
    return [
        User(content=[{"type": "text", "text": f"read {number}"}, block]),
        Assistant(content="ok"),
    ]


def test_more_pages_than_the_provider_takes_lose_the_oldest_document() -> None:
    """101 pages, where a request of this window may have 100; a larger window may have more."""
    records = said([*document(0, pdf(41)), *document(1, pdf(60))])
    about = target("anthropic")
    narrow = msgspec.structs.replace(about.dialect, pdf_window=1_000_000)
    found = [
        [line.action for line in project(request).ledger if line.kind == "user"]
        for request in (
            ProjectionRequest(records, Window(1_000_000), about),
            ProjectionRequest(
                records, Window(1_000_000), msgspec.structs.replace(about, dialect=narrow)
            ),
        )
    ]
    assert found == [["kept", "kept"], ["cleared", "kept"]]
    plan = project(ProjectionRequest(records, Window(1_000_000), about))
    assert plan.tokens.total > 101 * 2_000, "pages are counted, not bytes"


def test_document_that_alone_has_too_many_pages_is_left_out() -> None:
    records = said(document(0, pdf(240)))
    plan = project(ProjectionRequest(records, Window(200_000), target("anthropic")))
    texts = [block.text for m in plan.prompt.messages for block in m.blocks if type(block) is Text]
    assert any("read 0" in text for text in texts)
    assert any("record r00000 has it" in text for text in texts)
    assert not any(type(block) is Other for m in plan.prompt.messages for block in m.blocks)
