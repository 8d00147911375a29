"""What is moved out of a record, what stays in its place, and how it comes back."""

from __future__ import annotations

import base64
import hashlib
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.flow.effects import Emit, PutBlob
from holdfast.core.flow.events import OffloadFailed, OutputOffloaded
from holdfast.core.limits import (
    OFFLOAD_BINARY_CHARS,
    OFFLOAD_DETAILS_CHARS,
    OFFLOAD_TEXT_CHARS,
    PREVIEW_CHARS,
    REF_CHARS,
)
from holdfast.core.log.records import Compaction, OutputRef, ToolResult, User, encode, text_of
from holdfast.core.log.refs import bare, named_outputs, refs_of, restore
from holdfast.core.models.messages import Image, Other, Text, read_blocks
from holdfast.core.outputs.offload import Room, offload_content, offload_result, room_for
from holdfast.core.tokens.counting import Estimator
from holdfast.errors import BlobMissing, StoreUnavailable

PIXELS = bytes(range(256)) * 100
PICTURE = base64.b64encode(PIXELS).decode()


class Shelf:
    """Carries out what a flow asks: payloads are kept, or refused."""

    def __init__(self, *, is_full: bool = False) -> None:
        self.held: dict[str, bytes] = {}
        self.events: list[Any] = []
        self._is_full = is_full

    def run(self, flow: Any) -> Any:
        value: Any = None
        while True:
            try:
                effect = flow.send(value)
            except StopIteration as done:
                return done.value
            value = None
            match effect:
                case PutBlob(data) if self._is_full:
                    value = StoreUnavailable("cannot store a blob: No space left on device")
                    assert data
                case PutBlob(data):
                    value = hashlib.sha256(data).hexdigest()
                    self.held[value] = data
                case Emit(event):
                    self.events.append(event)
                case _:
                    raise AssertionError(effect)

    def get(self, ref: OutputRef) -> bytes:
        if ref.sha256 not in self.held:
            raise BlobMissing(f"blob {ref.sha256[:12]} is not in the store")
        return self.held[ref.sha256]


def result(content: Any, **more: Any) -> ToolResult:
    return ToolResult(id="r1", tool_use_id="c1", name="bash", content=content, **more)


def test_a_text_of_150000_characters_becomes_a_preview_and_is_there_whole() -> None:
    """The seed's case, with small details."""
    shelf = Shelf()
    text = "".join(f"line {number}: all is well\n" for number in range(7_000))[:150_000]
    stored = shelf.run(offload_result(result(text, details={"exitCode": 0}), Room()))
    assert len(text_of(stored.content)) <= PREVIEW_CHARS
    ref = stored.output_ref
    assert ref.sha256 == hashlib.sha256(text.encode()).hexdigest()
    assert shelf.held[ref.sha256].decode() == text
    assert (ref.bytes, ref.chars, ref.lines) == (150_000, 150_000, len(text.splitlines()))
    assert ref.sha256[:REF_CHARS] in text_of(stored.content)
    assert stored.details == {"exitCode": 0}
    assert [type(event) for event in shelf.events] == [OutputOffloaded]


@pytest.mark.parametrize("over", [0, 1])
def test_the_limit_is_exact(over: int) -> None:
    text = "a line of text\n" * (OFFLOAD_TEXT_CHARS // 15) + "x" * over
    stored = Shelf().run(offload_result(result(text), Room()))
    assert (stored.output_ref is not None) is bool(over)


def test_details_over_the_limit_keep_their_scalars_and_a_ref() -> None:
    shelf = Shelf()
    details = {
        "status": "ok",
        "exitCode": 3,
        "error": "e" * 900,
        "killed": False,
        "success": None,
        "rows": list(range(OFFLOAD_DETAILS_CHARS)),
    }
    stored = shelf.run(offload_result(result("fine", details=details), Room()))
    ref = stored.details.pop("output_ref")
    assert msgspec.json.decode(shelf.held[ref["sha256"]]) == details
    assert stored.details.keys() == {"status", "exitCode", "error", "killed"}
    assert len(stored.details["error"]) == 500
    assert [one.kind for one in refs_of(stored)] == []
    whole = shelf.run(offload_result(result("fine", details=details), Room()))
    assert [one.kind for one in refs_of(whole)] == ["details"]


def test_a_result_that_takes_too_large_a_share_of_the_budget_is_moved_out() -> None:
    shelf = Shelf()
    room = room_for(8_000, Estimator())
    text = "the same words over and over\n" * 600
    stored = shelf.run(offload_result(result(text), room))
    assert stored.output_ref is not None
    assert room.tokens is not None
    assert Estimator().count(text_of(stored.content)) <= room.tokens
    small = shelf.run(offload_result(result(text[:2_000]), room))
    assert small.output_ref is None


def test_dense_text_is_weighed_not_measured() -> None:
    """As many characters as are fine in English are too many in another script."""
    room = room_for(16_000, Estimator())
    latin, han = "word " * 2_000, "汉字语言" * 2_500
    assert Shelf().run(offload_result(result(latin), room)).output_ref is None
    stored = Shelf().run(offload_result(result(han), room))
    assert stored.output_ref is not None
    assert room.tokens is not None
    assert Estimator().count(text_of(stored.content)) <= room.tokens


def test_when_the_disk_refuses_a_bounded_part_is_stored_and_an_event_says_so() -> None:
    shelf = Shelf(is_full=True)
    text = "begin\n" + "x" * 200_000 + "\nthe end"
    details = {"rows": ["r" * 100] * 1_000, "path": "/tmp/x"}
    stored = shelf.run(offload_result(result(text, details=details), Room()))
    said = text_of(stored.content)
    assert len(said) <= PREVIEW_CHARS
    assert said.startswith("begin")
    assert said.endswith("the end")
    assert "No space left" in said
    assert stored.output_ref is None
    assert stored.details["path"] == "/tmp/x"
    assert "could not be stored" in stored.details["left_out"]
    assert [type(event) for event in shelf.events] == [OffloadFailed, OffloadFailed]


BLOCKS: dict[str, dict[str, Any]] = {
    "anthropic": {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/jpeg", "data": PICTURE},
    },
    "openai": {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PICTURE}"}},
    "responses": {"type": "input_image", "image_url": f"data:image/png;base64,{PICTURE}"},
    "mcp": {"type": "image", "data": PICTURE, "mimeType": "image/webp"},
    "gemini": {"type": "inline", "inlineData": {"mimeType": "image/png", "data": PICTURE}},
    "document": {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": PICTURE},
    },
    "resource": {"type": "resource", "resource": {"blob": PICTURE, "mimeType": "audio/wav"}},
}


@pytest.mark.parametrize("name", BLOCKS)
def test_binary_leaves_the_log_and_is_there_in_the_view(name: str) -> None:
    shelf = Shelf()
    block = BLOCKS[name]
    content = [{"type": "text", "text": "look"}, block]
    stored = shelf.run(offload_result(result(content), Room()))
    assert len(encode(stored)) < 1_000
    assert stored.output_ref is None
    (ref,) = refs_of(stored)
    assert shelf.held[ref.sha256] == PIXELS
    assert "/" in ref.kind
    whole = restore(stored, shelf.get)
    assert isinstance(whole, ToolResult)
    assert read_blocks(whole.content) == read_blocks(content)
    shown = read_blocks(stored.content)[1]
    assert isinstance(shown, Text)
    assert ref.sha256[:REF_CHARS] in shown.text


def test_base64_that_nobody_would_write_comes_back_as_it_was_spelled() -> None:
    shelf = Shelf()
    odd = PICTURE.replace("+", "-").replace("/", "_")[:-3] + "\n"
    block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": odd}}
    stored = shelf.run(offload_result(result([block]), Room()))
    whole = restore(stored, shelf.get)
    assert isinstance(whole, ToolResult)
    assert isinstance(whole.content, list)
    assert whole.content[0]["source"]["data"] == odd


def test_small_pictures_stay() -> None:
    block = {"type": "image", "data": PICTURE[:400], "mimeType": "image/png"}
    assert Shelf().run(offload_content([block])) == [block]


def test_a_lost_picture_is_said_and_costs_nothing_else() -> None:
    shelf = Shelf()
    stored = shelf.run(
        offload_result(result([BLOCKS["mcp"], {"type": "text", "text": "hi"}]), Room())
    )
    shelf.held.clear()
    whole = restore(stored, shelf.get)
    assert isinstance(whole, ToolResult)
    shown = read_blocks(whole.content)
    assert [type(block) for block in shown] == [Text, Text]
    assert "cannot be shown" in text_of(whole.content)


def test_a_picture_that_cannot_be_kept_stays_where_it_is() -> None:
    content = [BLOCKS["anthropic"]]
    stored = Shelf(is_full=True).run(offload_result(result(content), Room()))
    assert stored.content == content


def test_refs_that_somebody_hands_in_are_taken_away() -> None:
    """Or a tool could have another session's payload shown by naming its hash."""
    foreign: dict[str, Any] = {"sha256": "0" * 64, "bytes": 9, "kind": "image/png"}
    block = {"type": "image", "data": "", "output_refs": {"data": foreign}}
    given = result(
        [block], details={"output_ref": foreign, "n": 1}, output_ref=OutputRef(**foreign)
    )
    stored = Shelf().run(offload_result(given, Room()))
    assert refs_of(stored) == ()
    assert stored.details == {"n": 1}
    assert refs_of(User(content=Shelf().run(offload_content([block])))) == ()


def test_a_large_block_of_another_kind_is_text_too() -> None:
    """A resource of an MCP server, for example."""
    shelf = Shelf()
    block = {"type": "resource", "resource": {"uri": "file:///x", "text": "words " * 30_000}}
    stored = shelf.run(offload_result(result([block, BLOCKS["mcp"]]), Room()))
    assert stored.output_ref is not None
    assert shelf.held[stored.output_ref.sha256] == msgspec.json.encode(block)
    assert [one["type"] for one in stored.content] == ["text", "image"]


def test_what_providers_do_not_know_is_not_sent_to_them() -> None:
    shelf = Shelf()
    stored = shelf.run(offload_result(result([BLOCKS["document"]]), Room()))
    whole = restore(stored, shelf.get)
    assert isinstance(whole, ToolResult)
    (block,) = read_blocks(whole.content)
    assert isinstance(block, Other)
    assert "output_refs" not in block.raw


def test_a_compaction_that_repeats_a_picture_does_not_store_it_again() -> None:
    shelf = Shelf()
    user = User(id="u1", content=shelf.run(offload_content([BLOCKS["anthropic"]])))
    whole = restore(user, shelf.get)
    assert isinstance(whole, User)
    made = bare(Compaction(summary="s", turn=[{"type": "user", "content": whole.content}]))
    assert len(encode(made)) < 1_000
    assert refs_of(made) == refs_of(user)
    again = restore(made, shelf.get)
    assert isinstance(again, Compaction)
    assert again.turn is not None
    assert isinstance(read_blocks(again.turn[0]["content"])[0], Image)


def test_a_compaction_names_the_newest_outputs() -> None:
    shelf = Shelf()
    results = [
        msgspec.structs.replace(
            shelf.run(offload_result(result(f"{number} " * 70_000), Room())), id=f"r{number}"
        )
        for number in range(20)
    ]
    before = Compaction(summary="", outputs=[{"ref": "a" * 16, "tool": "old", "chars": 1}])
    named = named_outputs([before, *results[:3]])
    assert named[0]["ref"] == "a" * 16
    assert len(named_outputs(results)) == 12
    assert named_outputs(results)[-1]["record"] == "r19"


_LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**6), 10**6),
    st.text(max_size=60),
    st.sampled_from(("PICTURE", "URI", "WORDS")),
)
_LARGE = {
    "PICTURE": PICTURE,
    "URI": f"data:image/png;base64,{PICTURE}",
    "WORDS": "word " * 40_000,
}


def _grown(value: Any) -> Any:
    """The value with what is too large to be drawn."""
    match value:
        case str():
            return _LARGE.get(value, value)
        case dict():
            return {name: _grown(item) for name, item in value.items()}
        case list():
            return list(map(_grown, value))
        case _:
            return value


_JSON = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "data", "a.b", "text", "source"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)
_BLOCK = st.dictionaries(
    st.sampled_from(["type", "text", "data", "source", "output_refs", "x"]), _JSON, max_size=4
)


@given(content=st.one_of(st.none(), st.text(), st.lists(_BLOCK, max_size=3)), details=_JSON)
def test_whatever_a_tool_returns_is_bounded_and_comes_back(content: Any, details: Any) -> None:
    shelf = Shelf()
    content, details = _grown(content), _grown(details)
    stored = shelf.run(offload_result(result(content, details=details), Room()))
    assert len(encode(stored)) < 3 * OFFLOAD_TEXT_CHARS + 20 * OFFLOAD_BINARY_CHARS
    for ref in refs_of(stored):
        assert len(shelf.held[ref.sha256]) == ref.bytes
    whole = restore(stored, shelf.get)
    assert isinstance(whole, ToolResult)
    if stored.output_ref is None and isinstance(content, list):
        plain = [{k: v for k, v in block.items() if k != "output_refs"} for block in content]
        assert isinstance(whole.content, list)
        back = [{k: v for k, v in block.items() if k != "output_refs"} for block in whole.content]
        assert back == plain
