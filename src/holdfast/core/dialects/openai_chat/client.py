"""A client's request to Chat Completions, what may change in its messages, and OpenAI's errors."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.common.client import ClientBody, ClientItems, shorten_message

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import Block, Piece, Role


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


class ChatItems(ClientItems):
    """Calls are a field of a reply, and each result is a message."""

    is_reply_one_item = True

    def shorten(
        self,
        item: Json,
        wanted: Sequence[int] | None,
        pieces: Sequence[Block | Piece],
        *,
        is_answer: bool,
    ) -> Json | list[Any] | None:
        del is_answer
        return shorten_message(item, wanted, pieces, "text")

    def text_item(self, role: Role, text: str) -> Json:
        return {"role": role, "content": text}
