"""A client's conversation in one dialect: its items with their places, and what may change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects.common.block_atoms import content_atoms, message_atoms
from holdfast.core.dialects.common.block_edit import shorten_reply

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.dialects.common.digests import Atom
    from holdfast.core.log.records import Content, Json
    from holdfast.core.models.messages import Block, Piece, Role

SYSTEM_ROLES: Final = ("system", "developer")


class ClientItems(ABC):
    """The messages, contents or items of a client's request.

    What stays goes out as the client wrote it: the same objects, cache marks and unknown fields
    included. What is shortened keeps its place and its fields, and gets the shorter text.
    """

    content_field = "content"
    """The field of an item that holds its blocks."""
    is_reply_one_item = False
    """True where a reply is always one item."""

    def count_leading(self, items: Sequence[Any]) -> int:
        """The number of items at the beginning that are instructions and no conversation."""
        count = 0
        for item in items:
            if not isinstance(item, dict) or item.get("role") not in SYSTEM_ROLES:
                break
            count += 1
        return count

    # Atoms

    def read_atoms(self, items: Sequence[Any], first: int = 0) -> list[Atom]:
        """The atoms of items, in the order in which their records stand in a log.

        `first` is the index of the first item given, where those before it are known.
        """
        start = 0 if first else self.count_leading(items)
        return [
            atom
            for index, item in enumerate(items[start:], first + start)
            if isinstance(item, dict)
            for atom in self.item_atoms(item, index)
        ]

    def item_atoms(self, item: Json, index: int) -> list[Atom]:
        """The atoms of one item."""
        return message_atoms(item, index)

    def reply_digests(self, content: Content) -> list[bytes]:
        """The digests of a reply as the log has it; the client's next request repeats them."""
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
        return [atom.digest for atom in content_atoms("assistant", blocks, 0)]

    def join_replies(self, items: list[Any]) -> list[Any]:
        """The items with each reply in one of them, where clients keep it in several."""
        return items

    def last_boundary(self, items: Sequence[Any], place: int) -> int:
        """The last place up to `place` at which no reply is cut in two."""
        del items
        return place

    # Edits

    def shorten_reply(self, items: Sequence[Json], blocks: Sequence[Block]) -> list[Json]:
        """The items of a reply with shorter texts and arguments."""
        return shorten_reply(items, blocks)

    @abstractmethod
    def shorten(
        self,
        item: Json,
        wanted: Sequence[int] | None,
        pieces: Sequence[Block | Piece],
        *,
        is_answer: bool,
    ) -> Json | list[Any] | None:
        """Part of an item with other texts: blocks in its place, a whole item, or nothing.

        `wanted` are the blocks that belong to the record; None where all do. `is_answer` is True
        for the result of a call.
        """

    @abstractmethod
    def text_item(self, role: Role, text: str) -> Json:
        """An item with a text of ours."""

    def without_reasoning(self, item: Any) -> Any:
        """An item of a reply without reasoning that is bound to another prefix; None where nothing
        else is in it."""
        return item

    def with_marks(self, items: Sequence[Json], given: Sequence[Json]) -> list[Json]:
        """A reply of several rounds with the cache marks that the client set in its own items."""
        del given
        return list(items)


def is_reply(item: Any) -> bool:
    """Return whether an item is of the model, in whichever dialect."""
    return isinstance(item, dict) and (
        item.get("role") in ("assistant", "model") or str(item.get("type")).endswith("_call")
    )
