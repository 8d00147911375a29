"""The messages of a client of Chat Completions, and what may change in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.dialects.common.block_edit import shorten_message
from holdfast.core.dialects.common.client_items import ClientItems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import Block, Piece, Role


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
