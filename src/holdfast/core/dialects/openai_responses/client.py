"""A client's request to the Responses API, and what may change in its items."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.common.client import (
    ClientBody,
    ClientItems,
    shorten_content,
    shorten_message,
)
from holdfast.core.dialects.common.digests import (
    THINKING,
    Atom,
    call_atom,
    digest_as,
    message_atoms,
    result_atom,
    without_marks,
)
from holdfast.core.dialects.common.values import as_dicts, as_number
from holdfast.core.dialects.openai_chat.client import openai_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import Block, Piece, Role


class ResponsesBody(ClientBody):
    """The input may be a text, or be missing where the server holds the conversation."""

    upstream = "openai"
    items_field = "input"
    turn_paths = ("/v1/responses",)
    output_field = "max_output_tokens"

    def find_turn(self, path: str) -> str | None:
        return "" if path.endswith("/responses") else None

    def owns_path(self, path: str) -> bool:
        return re.search("/responses(/|$)", path) is not None

    def read_items(self, body: Json) -> list[Any] | None:
        found = body.get(self.items_field)
        if isinstance(found, str):
            return [{"type": "message", "role": "user", "content": found}]
        return [] if found is None else super().read_items(body)

    def read_compaction_limit(self, body: Json) -> int | None:
        limits = [
            as_number(edit.get("compact_threshold"))
            for edit in as_dicts(body.get("context_management"))
            if edit.get("type") == "compaction"
        ]
        stated = [int(limit) for limit in limits if limit is not None]
        return min(stated, default=None)

    def response_id(self, body: Json) -> str:
        found = body.get("id")
        return found if isinstance(found, str) else ""

    def write_error(self, status: int, message: str, code: str) -> Json:
        return openai_error(status, message, code)

    def write_error_event(self, status: int, message: str, code: str) -> bytes:
        del status
        event = {"type": "error", "code": code, "message": message, "param": None}
        return b"event: error\ndata: " + msgspec.json.encode(event) + b"\n\n"


# What a client sends for a kind may be no text: a tuple is searched without a hash of it.
_CALLS: Final = ("function_call", "custom_tool_call")
_OUTPUTS: Final = ("function_call_output", "custom_tool_call_output", "local_shell_call_output")


class ResponsesItems(ClientItems):
    """Reasoning, messages, calls and results are items of their own."""

    def shorten(
        self,
        item: Json,
        wanted: Sequence[int] | None,
        pieces: Sequence[Block | Piece],
        *,
        is_answer: bool,
    ) -> Json | list[Any] | None:
        if is_answer:
            return {**item, "output": shorten_content(item.get("output"), pieces, "input_text")}
        return shorten_message(item, wanted, pieces, "input_text")

    def without_reasoning(self, item: Any) -> Any:
        if not isinstance(item, dict):
            return item
        if item.get("type") in THINKING:
            return None
        # By its id the server knows an item, and misses the reasoning that it came with.
        is_named = item.get("type") in (*_CALLS, "message") and "id" in item
        return {name: value for name, value in item.items() if name != "id"} if is_named else item

    def text_item(self, role: Role, text: str) -> Json:
        content = [{"type": "input_text", "text": text}]
        return {"type": "message", "role": role, "content": content}

    def item_atoms(self, item: Json, index: int) -> list[Atom]:
        kind = item.get("type")
        if kind in THINKING:
            return []
        if kind in _CALLS:
            given = item.get("arguments") if kind == _CALLS[0] else {"input": item.get("input")}
            return [call_atom(item.get("name"), given, index)]
        if kind in _OUTPUTS:
            return [result_atom(item.get("output"), index)]
        if item.get("role") is None:
            return [Atom("assistant", digest_as("block", without_marks(item)), index)]
        return message_atoms(item, index)
