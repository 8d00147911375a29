"""A client's messages, with the cuts of a plan and nothing else changed.

What a plan keeps goes out as the client wrote it: the same objects, cache marks and unknown fields
included. What it shortened keeps its place and its fields, and gets the shorter text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.dialects.common.client import SYSTEM_ROLES
from holdfast.core.models.messages import Other, Text, ToolAnswer
from holdfast.core.projection.units import is_opaque
from holdfast.core.proxy.branches import WIRE_FIELD, chains_of

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from holdfast.core.dialects.common.digests import Atom
    from holdfast.core.dialects.dialect import Dialect
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.messages import Block, Piece
    from holdfast.core.projection.units import ContextUnit, MessagePart


class ConversationMap:
    """Which record each part of a client's messages is in the log."""

    def __init__(
        self,
        items: Sequence[Any],
        atoms: Sequence[Atom],
        chains: Sequence[bytes],
        path: Sequence[Record],
        dialect: Dialect,
    ) -> None:
        self.items = items
        self.dialect = dialect
        self.static = dialect.items.count_leading(items)
        """Items at the beginning that are instructions, and stay."""
        self.wires = {record.id: wire for record in path if (wire := _wire_of(record)) is not None}
        """The messages of rounds that the proxy answered itself, of which the client knows less."""
        owners = _owners(atoms, chains, path)
        self._blocks: dict[int, dict[int | None, str]] = {}
        for atom, owner in zip(atoms, owners, strict=True):
            self._blocks.setdefault(atom.item, {})[atom.block] = owner
        self._attach_silent_items()
        self.places: dict[str, list[int]] = {}
        """The items of each record, in order."""
        for index in sorted(self._blocks):
            for owner in dict.fromkeys(self._blocks[index].values()):
                self.places.setdefault(owner, []).append(index)

    def _attach_silent_items(self) -> None:
        """Give items without an atom, such as reasoning, to the record that they go with."""
        later = ""
        for index in range(len(self.items) - 1, self.static - 1, -1):
            if index in self._blocks:
                later = next(iter(self._blocks[index].values()))
            elif later:
                self._blocks[index] = {None: later}
        for index in range(self.static, len(self.items)):
            if index not in self._blocks and index - 1 in self._blocks:
                self._blocks[index] = {None: list(self._blocks[index - 1].values())[-1]}

    def blocks_of(self, index: int, record: str) -> list[int] | None:
        """The blocks of an item that are a record's; None where the whole item is."""
        owners = self._blocks[index]
        if set(owners.values()) == {record}:
            return None
        content = self.items[index].get(self.dialect.items.content_field)
        owner = next(iter(owners.values()))
        found = []
        for block in range(len(content) if isinstance(content, list) else 0):
            owner = owners.get(block, owner)  # an empty text goes with what stands before it
            if owner == record:
                found.append(block)
        return found


def _owners(atoms: Sequence[Atom], chains: Sequence[bytes], path: Sequence[Record]) -> list[str]:
    ends = {chain.hex(): place + 1 for place, chain in enumerate(chains)}
    owners = [""] * len(atoms)
    start = 0
    for record in path:
        end = next((ends[chain] for chain in chains_of(record) if chain in ends), 0)
        if end > start:
            owners[start:end] = [record.id] * (end - start)
            start = end
    return owners


def _wire_of(record: Record) -> list[Json] | None:
    wire = record.extra.get(WIRE_FIELD)
    return wire if isinstance(wire, list) else None


def edit_items(
    conversation: ConversationMap,
    units: Sequence[ContextUnit],
    whole: Mapping[str, tuple[Block, ...]],
    stale: Collection[str] = (),
) -> list[Any]:
    """The messages of a request that has these units; `whole` has each record's blocks uncut, and
    `stale` the replies whose reasoning is bound to another prefix."""
    edited = _EditedItems(conversation, stale)
    for unit in units:
        for part in unit.parts:
            if is_opaque(unit):
                edited.add_opaque(part)
            elif part.record in conversation.wires:
                edited.add_round(part, is_whole=whole.get(part.record) == part.blocks)
            elif part.record not in conversation.places:
                edited.add_text(part)
            elif whole.get(part.record) == part.blocks:
                edited.add_record(part.record)
            else:
                edited.add_shortened(part)
    return edited.items()


class _EditedItems:
    """The outgoing messages in the making."""

    def __init__(self, conversation: ConversationMap, stale: Collection[str]) -> None:
        self._from = conversation
        self._stale = stale
        self._items = conversation.dialect.items
        self._out: list[Any] = list(conversation.items[: conversation.static])
        self._open: tuple[int, list[Any]] | None = None
        """The index of an item whose blocks come one by one, and those so far."""
        self._results: set[int] = set()
        """The places of results that are ours."""

    def items(self) -> list[Any]:
        self._close()
        return _join_results(self._out, self._results, self._items.content_field)

    def add_round(self, part: MessagePart, *, is_whole: bool) -> None:
        """Add what the proxy has logged of a round, as the provider knows it."""
        self._close()
        wire = self._from.wires[part.record]
        if part.role != "assistant":
            self._results.add(len(self._out))
            rounds = self._from.dialect.rounds
            self._out += wire if is_whole else rounds.with_result_text(wire, _text_of(part))
            return
        if not is_whole:
            wire = self._items.shorten_reply(wire, part.blocks)
        given = [self._from.items[index] for index in self._from.places.get(part.record, ())]
        self._out += self._items.with_marks(self._strip_stale(wire, part.record), given)

    def add_opaque(self, part: MessagePart) -> None:
        """Add a compaction that only its provider can read, without the rest of its reply."""
        self._close()
        places = self._from.places.get(part.record, ())
        items = self._from.wires.get(part.record) or [self._from.items[at] for at in places]
        kinds = {block.kind for block in part.blocks if isinstance(block, Other)}
        self._out += [item for item in items if str(item.get("type")) in kinds][-1:]

    def add_record(self, record: str) -> None:
        for index in self._from.places[record]:
            blocks = self._from.blocks_of(index, record)
            if blocks is None:
                self._close()
                self._out += self._strip_stale([self._from.items[index]], record)
            else:
                content = self._from.items[index][self._items.content_field]
                self._add_blocks(index, [content[block] for block in blocks])

    def _strip_stale(self, items: list[Any], record: str) -> list[Any]:
        """The items of a reply, without reasoning that is bound to another prefix."""
        if record not in self._stale:
            return items
        found = map(self._items.without_reasoning, items)
        return [item for item in found if item is not None]

    def add_shortened(self, part: MessagePart) -> None:
        places = self._from.places[part.record]
        if part.role == "assistant":
            self._close()
            given = [self._from.items[index] for index in places]
            reply = self._items.shorten_reply(given, part.blocks)
            self._out += self._strip_stale(reply, part.record)
            return
        index = places[0]
        answer = next((block for block in part.blocks if isinstance(block, ToolAnswer)), None)
        pieces: Sequence[Block | Piece] = part.blocks if answer is None else answer.content
        blocks = self._from.blocks_of(index, part.record)
        shorter = self._items.shorten(
            self._from.items[index], blocks, pieces, is_answer=answer is not None
        )
        if isinstance(shorter, list):
            self._add_blocks(index, shorter)
        elif shorter is not None:
            self._close()
            self._out.append(shorter)

    def add_text(self, part: MessagePart) -> None:
        """Add a text that replaces what was cut. Answers to calls that the client left open
        are the client's business."""
        texts = [block.text for block in part.blocks if isinstance(block, Text)]
        if texts:
            self._close()
            self._out.append(self._items.text_item(part.role, "\n\n".join(texts)))

    def _add_blocks(self, index: int, blocks: list[Any]) -> None:
        if self._open is not None and self._open[0] == index:
            self._open[1].extend(blocks)
        else:
            self._close()
            self._open = (index, list(blocks))

    def _close(self) -> None:
        if self._open is None:
            return
        index, blocks = self._open
        item = self._from.items[index]
        field = self._items.content_field
        is_same = len(blocks) == len(item[field]) and all(
            new is old for new, old in zip(blocks, item[field], strict=True)
        )
        self._out.append(item if is_same else {**item, field: blocks})
        self._open = None


def _text_of(part: MessagePart) -> str:
    answers = [block for block in part.blocks if isinstance(block, ToolAnswer)]
    return "\n".join(
        piece.text for answer in answers for piece in answer.content if isinstance(piece, Text)
    )


def _join_results(items: list[Any], results: set[int], field: str) -> list[Any]:
    """The messages with results of ours in one message with what the user's side says beside them:
    some APIs want the results of all calls of a reply in the message that follows it."""
    joined: list[Any] = []
    is_open = False
    for place, item in enumerate(items):
        is_ours = place in results
        can_join = bool(joined) and _is_user(joined[-1]) and _is_user(item)
        if can_join and (is_open or is_ours):
            said = [*_blocks_in(joined[-1], field), *_blocks_in(item, field)]
            joined[-1] = {**joined[-1], field: said}
            is_open = True
        else:
            joined.append(item)
            is_open = is_ours
    return joined


def _is_user(item: Any) -> bool:
    return isinstance(item, dict) and item.get("role") == "user"


def _blocks_in(item: Json, field: str) -> list[Any]:
    said = item.get(field)
    return said if isinstance(said, list) else [{"type": "text", "text": said}]


def without_stale(conversation: ConversationMap, stale: Collection[str]) -> list[Any]:
    """A client's messages as they are, without reasoning that is bound to another prefix."""
    places = {index for record in stale for index in conversation.places.get(record, ())}
    found = (
        conversation.dialect.items.without_reasoning(item) if index in places else item
        for index, item in enumerate(conversation.items)
    )
    return [item for item in found if item is not None]


def is_in_order(edited: Sequence[Any], given: Sequence[Any], *, goes_on: bool = False) -> bool:
    """Return whether an edited conversation is still the client's: what stays of its messages is in
    their order, no instruction is new, and it ends as theirs does; or, where it goes on after them
    with calls that the proxy answered, with such an answer."""
    places = {id(item): index for index, item in enumerate(given)}
    kept = [places[id(item)] for item in edited if id(item) in places]
    if kept != sorted(set(kept)):
        return False
    if any(_role_of(item) in SYSTEM_ROLES and id(item) not in places for item in edited):
        return False
    if not given or not edited:
        return not given and not edited
    if goes_on:
        return id(edited[-1]) not in places
    return edited[-1] is given[-1] or _shape_of(edited[-1]) == _shape_of(given[-1])


def _role_of(item: Any) -> Any:
    return item.get("role") if isinstance(item, dict) else None


def _shape_of(item: Any) -> tuple[Any, Any]:
    return (_role_of(item), item.get("type") if isinstance(item, dict) else None)
