"""A client's request to the Messages API."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.client_body import ClientBody
from holdfast.core.dialects.common.values import as_dict, as_dicts, as_number, as_text
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.log.records import Json

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
