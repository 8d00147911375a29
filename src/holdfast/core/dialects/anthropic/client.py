"""A client's request to the Messages API, and what may change in its messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.common.client import (
    ClientBody,
    ClientItems,
    shorten_content,
    shorten_message,
)
from holdfast.core.dialects.common.digests import THINKING
from holdfast.core.dialects.common.values import as_dict, as_dicts, as_number, as_text
from holdfast.core.dialects.common.writing import SILENT
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import Block, Piece, Role


COMPACTION_TOKENS: Final = 150_000
"""The provider's own trigger, where an edit states none."""
_OWN_PATH: Final = lazy_pattern(r"(.*)/(messages(/.*)?|complete)")
_ERROR_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}


class AnthropicBody(ClientBody):
    """The system prompt is a field, and so is a budget for thinking."""

    upstream = "anthropic"
    items_field = "messages"
    key_header = "x-api-key"
    turn_paths = ("/v1/messages",)
    has_system_field = True

    def find_turn(self, path: str) -> str | None:
        return "" if path.endswith("/messages") else None

    def owns_request(self, path: str, headers: Mapping[str, str]) -> bool:
        return "anthropic-version" in headers or _OWN_PATH.fullmatch(path) is not None

    def read_compaction_limit(self, body: Json) -> int | None:
        edits = as_dicts(as_dict(body.get("context_management")).get("edits"))
        triggers = [
            as_number(as_dict(edit.get("trigger")).get("value")) or COMPACTION_TOKENS
            for edit in edits
            if as_text(edit.get("type")).startswith("compact_")
        ]
        return int(min(triggers)) if triggers else None

    def write_error(self, status: int, message: str, code: str) -> Json:
        del code
        kind = _ERROR_TYPES.get(status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": message}}

    def write_error_event(self, status: int, message: str, code: str) -> bytes:
        return b"event: error\n" + super().write_error_event(status, message, code)


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
