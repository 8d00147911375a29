"""The messages of a client of Chat Completions, and what may change in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.dialects.common.block_atoms import message_atoms
from holdfast.core.dialects.common.block_edit import shorten_message, shorten_reply
from holdfast.core.dialects.common.client_items import ClientItems

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.dialects.common.digests import Atom
    from holdfast.core.log.records import Json
    from holdfast.core.models.messages import Block, Piece, Role


class ChatItems(ClientItems):
    """Calls are a field of a reply, and each result is a message."""

    is_reply_one_item = True

    def read_atoms(self, items: Sequence[Any], first: int = 0) -> list[Atom]:
        start = 0 if first else self.count_leading(items)
        return [
            atom
            for index, item in enumerate(items[start:], first + start)
            if isinstance(item, dict)
            for atom in message_atoms(item, index)
        ]

    def shorten_reply(self, items: Sequence[Json], blocks: Sequence[Block]) -> list[Json]:
        return shorten_reply(items, blocks)

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
