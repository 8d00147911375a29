"""Data URIs anywhere in a log, in every dialect: what is sent is counted, and words stay."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.conversations import said
from tests.prompts import png
from tests.support.runs import examples

from holdfast.core.dialects.registry import VARIANTS, render_body, target, validate_body
from holdfast.core.limits import DATA_URI_CHARS_MAX
from holdfast.core.log.records import Assistant, Compaction, ToolResult, User
from holdfast.core.models.messages import Image, Text, ToolAnswer
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.tokens.counting import Estimator, count_prompt, count_results
from holdfast.core.tokens.images import image_rule
from holdfast.core.window import Window

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Block
    from holdfast.core.projection.project import Plan

TARGETS = [(name, variant) for name, variants in VARIANTS.items() for variant in variants]
MODELS = ("", "claude-sonnet-4-5", "gpt-5", "gemini-2.5-pro")


def uri_of(media: str, size: int, fill: int) -> str:
    if media == "image/png":
        return f"data:{media};base64,{png(20 + fill, 20, size)}"
    data = (HEADS[media] + bytes([fill]) * size)[:size]
    return f"data:{media};base64,{base64.b64encode(data).decode()}"


HEADS = {
    "image/png": b"",
    "image/jpeg": b"\xff\xd8\xff\xe0",  # cut off, so that nobody knows its size
    "image/svg+xml": b"<svg><path d='M0 0'/></svg>",
    "application/pdf": b"%PDF-1.4 ",
    "font/woff2": b"wOF2",
}
SIZES = (61, 900, 2_900, DATA_URI_CHARS_MAX, 30_000)
URIS = st.builds(
    uri_of, st.sampled_from(sorted(HEADS)), st.sampled_from(SIZES), st.integers(0, 255)
)
LARGE = "".join(f" icon {uri_of('image/png', 30_000, number)};" for number in range(6))
SHEETS = st.lists(URIS, max_size=6).map(lambda uris: "".join(f" icon {uri};" for uri in uris))
WORDS = "alpha beta "
CARRY = "the carry-over of before"


def plan_of(
    dialect: str, variant: str, model: str, sheets: tuple[str, str, str], window: int
) -> Plan:
    spoken, written, read = sheets
    call = {"type": "tool_use", "id": "c1", "name": "write", "input": {"css": written}}
    records: list[Record] = [
        Compaction(summary=CARRY, covers=("a", "b")),
        User(content=WORDS * 50 + spoken),
        Assistant(content=[call]),
        ToolResult(tool_use_id="c1", content=f"before {read} after"),
    ]
    aim = target(dialect, variant, model=model)
    cache = ProjectionCache(Scale(None, image_rule(model, aim.provider)))
    return project(ProjectionRequest(said(records), Window(window), aim, floor=0), cache)


def leaves(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from leaves(item)


def pieces(plan: Plan) -> Iterator[Block]:
    for message in plan.prompt.messages:
        for block in message.blocks:
            yield from block.content if isinstance(block, ToolAnswer) else (block,)


@pytest.mark.parametrize(("dialect", "variant"), TARGETS)
def test_what_is_counted_is_sent_and_no_picture_takes_words(dialect: str, variant: str) -> None:
    """Of any kind and size, in words, calls and results: the count is of this very request."""

    @examples(60)
    @given(
        st.sampled_from(MODELS),
        st.tuples(SHEETS, SHEETS, SHEETS),
        st.sampled_from([60_000, 200_000]),
    )
    @example("gpt-5", (LARGE, LARGE, LARGE), 60_000)
    def check(model: str, sheets: tuple[str, str, str], window: int) -> None:
        plan = plan_of(dialect, variant, model, sheets, window)
        tokens, images = plan.tokens, image_rule(model, plan.target.provider)
        counted = count_prompt(plan.prompt, Estimator(), images) * tokens.factor
        counted += count_results(plan.prompt.messages) * tokens.per_result
        assert tokens.total == pytest.approx(counted, abs=12 * len(plan.prompt.messages))
        assert tokens.total <= window
        body = render_body(plan.prompt, plan.target)
        assert validate_body(body, plan.target) == []
        sent = list(leaves(body))
        found = list(pieces(plan))
        takes_pictures = plan.target.dialect.images_max != 0
        texts = [piece.text for piece in found if isinstance(piece, Text)]
        assert all(any(text in leaf for leaf in sent) for text in texts)
        pictures = [piece for piece in found if isinstance(piece, Image)]
        held = sum(any(shot.data[:400] in leaf for leaf in sent) for shot in pictures)
        assert held == len(pictures) >= (6 if LARGE in sheets and takes_pictures else 0)
        everything = "".join(texts)
        assert everything.count(WORDS.strip()) == 50
        assert CARRY in everything

    check()
