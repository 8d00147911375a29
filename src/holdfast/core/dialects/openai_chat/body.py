"""A client's request to Chat Completions, and the errors that both APIs of OpenAI have."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.client_body import ClientBody

if TYPE_CHECKING:
    from holdfast.core.log.records import Json

_SERVER_ERRORS: Final = 500
"""Statuses from here on say that the request itself was well."""


class ChatBody(ClientBody):
    """Instructions are the first messages."""

    upstream = "openai"
    items_field = "messages"
    turn_paths = ("/v1/chat/completions",)

    def find_turn(self, path: str) -> str | None:
        return "" if path.endswith("/chat/completions") else None

    def write_error(self, status: int, message: str, code: str) -> Json:
        return openai_error(status, message, code)


def openai_error(status: int, message: str, code: str) -> Json:
    """The body of an error of OpenAI's."""
    kind = "server_error" if status >= _SERVER_ERRORS else "invalid_request_error"
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}
