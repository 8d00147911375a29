"""A client's request to the Responses API."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.dialects.common.client_body import ClientBody
from holdfast.core.dialects.common.values import as_dicts, as_number
from holdfast.core.dialects.openai_chat.body import openai_error

if TYPE_CHECKING:
    from holdfast.core.log.records import Json


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
