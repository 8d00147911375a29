"""The messages of a client of the Messages API, and what may change in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.dialects.common.block_atoms import THINKING
from holdfast.core.dialects.common.block_edit import (
    shorten_content,
    shorten_message,
)
from holdfast.core.dialects.common.client_items import ClientItems
from holdfast.core.dialects.common.values import as_dict
from holdfast.core.dialects.common.writing import SILENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import Block, Piece, Role


class AnthropicItems(ClientItems):
    """Results are blocks of user messages; instructions have a field of their own."""

    is_reply_one_item = True

    def shorten(
        self,
        item: Json,
        wanted: Sequence[int] | None,
        pieces: Sequence[Block | Piece],
        *,
        is_answer: bool,
    ) -> Json | list[Any] | None:
        content = item.get("content")
        if not is_answer or not isinstance(content, list):
            return shorten_message(item, wanted, pieces, "text")
        kept = content if wanted is None else [content[block] for block in wanted]
        return [_shorten_answer(block, pieces) for block in kept] or None

    def text_item(self, role: Role, text: str) -> Json:
        return {"role": role, "content": [{"type": "text", "text": text}]}

    def without_reasoning(self, item: Any) -> Any:
        content = item.get("content") if isinstance(item, dict) else None
        if not isinstance(content, list):
            return item
        kept = [block for block in content if as_dict(block).get("type") not in THINKING]
        if len(kept) == len(content):
            return item
        return {**item, "content": kept or [{"type": "text", "text": SILENT}]}

    def with_marks(self, items: Sequence[Json], given: Sequence[Json]) -> list[Json]:
        marks = [
            block["cache_control"]
            for item in given
            for block in item.get("content") or ()
            if isinstance(block, dict) and block.get("cache_control")
        ]
        if not marks or not items:
            return list(items)
        content = list(items[-1]["content"])
        if content[-1].get("type") not in ("thinking", "redacted_thinking"):
            content[-1] = {**content[-1], "cache_control": marks[-1]}
        return [*items[:-1], {**items[-1], "content": content}]


def _shorten_answer(block: Any, pieces: Sequence[Block | Piece]) -> Any:
    if not isinstance(block, dict) or block.get("type") != "tool_result":
        return block
    return {**block, "content": shorten_content(block.get("content"), pieces, "text")}
