"""The contents of a client of the Gemini API, and what may change in them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.dialects.common.client_items import ClientItems, is_reply
from holdfast.core.dialects.gemini import atoms, edit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.dialects.common.digests import Atom
    from holdfast.core.log.records import Content, Json
    from holdfast.core.models.messages import Block, Piece, Role


class GeminiItems(ClientItems):
    """A content has parts. Google's packages keep a streamed reply as several contents."""

    content_field = "parts"

    def read_atoms(self, items: Sequence[Any], first: int = 0) -> list[Atom]:
        return atoms.read_atoms(items, first)

    def reply_digests(self, content: Content) -> list[bytes]:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        return atoms.reply_digests(blocks)

    def join_replies(self, items: list[Any]) -> list[Any]:
        joined: list[Any] = []
        for item in items:
            last: Any = joined[-1] if joined else {}
            if is_reply(last) and is_reply(item):
                parts = [*(last.get("parts") or ()), *(item.get("parts") or ())]
                joined[-1] = {**last, "parts": parts}
            else:
                joined.append(item)
        return joined

    def last_boundary(self, items: Sequence[Any], place: int) -> int:
        while place > 0 and not _is_users(items[place]):
            place -= 1
        return place

    def shorten_reply(self, items: Sequence[Json], blocks: Sequence[Block]) -> list[Json]:
        return edit.shorten_reply(items, blocks)

    def shorten(
        self,
        item: Json,
        wanted: Sequence[int] | None,
        pieces: Sequence[Block | Piece],
        *,
        is_answer: bool,
    ) -> Json | list[Any] | None:
        given = item.get(self.content_field)
        parts = given if isinstance(given, list) else []
        kept = parts if wanted is None else [parts[place] for place in wanted]
        if not is_answer:
            return edit.shorten_parts(kept, pieces)
        return [
            edit.shorten_answer(part, pieces) if edit.is_answer(part) else part for part in kept
        ]

    def text_item(self, role: Role, text: str) -> Json:
        return edit.text_content(role, text)


def _is_users(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") in ("user", "function")
