"""The items of a client of the Responses API, and what may change in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.common.block_atoms import (
    THINKING,
    message_atoms,
    result_atom,
    without_marks,
)
from holdfast.core.dialects.common.block_edit import (
    shorten_content,
    shorten_message,
)
from holdfast.core.dialects.common.client_items import ClientItems
from holdfast.core.dialects.common.digests import Atom, call_atom, digest_as

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import Block, Piece, Role

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
