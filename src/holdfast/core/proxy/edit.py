"""A client's messages, with the cuts of a plan and nothing else changed.

What a plan keeps goes out as the client wrote it: the same objects, cache marks and unknown fields
included. What it shortened keeps its place and its fields, and gets the shorter text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.models.messages import Text, ToolAnswer, ToolCall, arguments_json
from holdfast.core.proxy import gemini_edit
from holdfast.core.proxy.atoms import leading_terms
from holdfast.core.proxy.branches import WIRE_FIELD, chains_of
from holdfast.core.proxy.joining.items import with_result_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.catalog import DialectName
    from holdfast.core.models.messages import Block, Piece
    from holdfast.core.projection.units import ContextUnit, MessagePart
    from holdfast.core.proxy.digests import Atom

_TEXTS: Final = frozenset(("text", "input_text", "output_text"))


class ConversationMap:
    """Which record each part of a client's messages is in the log."""

    def __init__(
        self,
        items: Sequence[Any],
        atoms: Sequence[Atom],
        chains: Sequence[bytes],
        path: Sequence[Record],
        dialect: DialectName,
    ) -> None:
        self.items = items
        self.dialect = dialect
        self.content_field = "parts" if dialect == "gemini" else "content"
        """The field of an item that holds its blocks."""
        self.static = 0 if dialect == "anthropic" else leading_terms(items)
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
        content = self.items[index].get(self.content_field)
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
) -> list[Any]:
    """The messages of a request that has these units; `whole` has each record's blocks uncut."""
    edited = _EditedItems(conversation)
    for unit in units:
        for part in unit.parts:
            if part.record in conversation.wires:
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

    def __init__(self, conversation: ConversationMap) -> None:
        self._from = conversation
        self._out: list[Any] = list(conversation.items[: conversation.static])
        self._open: tuple[int, list[Any]] | None = None
        """The index of an item whose blocks come one by one, and those so far."""
        self._results: set[int] = set()
        """The places of results that are ours."""

    def items(self) -> list[Any]:
        self._close()
        return _join_results(self._out, self._results, self._from.content_field)

    def add_round(self, part: MessagePart, *, is_whole: bool) -> None:
        """Add what the proxy has logged of a round, as the provider knows it."""
        self._close()
        items = self._from.wires[part.record]
        if part.role != "assistant":
            self._results.add(len(self._out))
            self._out += items if is_whole else with_result_text(items, _text_of(part))
            return
        if not is_whole:
            is_gemini = self._from.dialect == "gemini"
            items = (gemini_edit.shorten_reply if is_gemini else _shorten_reply)(items, part)
        self._out += self._with_marks(items, part.record)

    def _with_marks(self, items: Sequence[Json], record: str) -> list[Json]:
        """A reply of several rounds with the cache mark that the client set in it."""
        blocks = [
            block
            for index in self._from.places.get(record, ())
            for block in self._from.items[index].get("content") or ()
            if isinstance(block, dict) and block.get("cache_control")
        ]
        if not blocks or not items or self._from.dialect != "anthropic":
            return list(items)
        content = list(items[-1]["content"])
        if content[-1].get("type") not in ("thinking", "redacted_thinking"):
            content[-1] = {**content[-1], "cache_control": blocks[-1]["cache_control"]}
        return [*items[:-1], {**items[-1], "content": content}]

    def add_record(self, record: str) -> None:
        for index in self._from.places[record]:
            blocks = self._from.blocks_of(index, record)
            if blocks is None:
                self._close()
                self._out.append(self._from.items[index])
            else:
                content = self._from.items[index][self._from.content_field]
                self._add_blocks(index, [content[block] for block in blocks])

    def add_shortened(self, part: MessagePart) -> None:
        is_gemini = self._from.dialect == "gemini"
        if part.role == "assistant":
            self._close()
            items = [self._from.items[index] for index in self._from.places[part.record]]
            shorten = gemini_edit.shorten_reply if is_gemini else _shorten_reply
            self._out += shorten(items, part)
            return
        index = self._from.places[part.record][0]
        item = self._from.items[index]
        answer = next((block for block in part.blocks if isinstance(block, ToolAnswer)), None)
        pieces: Sequence[Block | Piece] = part.blocks if answer is None else answer.content
        blocks = self._from.blocks_of(index, part.record)
        content = item.get(self._from.content_field)
        if is_gemini:
            parts = content if isinstance(content, list) else []
            self._add_blocks(index, _shorten_gemini(parts, blocks, pieces, answer))
        elif answer is not None and self._from.dialect == "openai-responses":
            self._close()
            self._out.append({**item, "output": _shorten(item.get("output"), pieces, "input_text")})
        elif answer is not None and isinstance(content, list) and self._from.dialect == "anthropic":
            wanted = blocks if blocks is not None else range(len(content))
            for block in wanted:
                old = content[block]
                if isinstance(old, dict) and old.get("type") == "tool_result":
                    old = {**old, "content": _shorten(old.get("content"), pieces, "text")}
                self._add_blocks(index, [old])
        elif blocks is not None and isinstance(content, list):
            kept = [content[block] for block in blocks]
            self._add_blocks(index, _shorten(kept, pieces, self._text_type))
        else:
            self._close()
            shorter = _shorten(content, pieces, self._text_type)
            self._out.append({**item, "content": shorter})

    def add_text(self, part: MessagePart) -> None:
        """Add a text that stands for what was cut. Answers to calls that the client left open
        are the client's business."""
        texts = [block.text for block in part.blocks if isinstance(block, Text)]
        if not texts:
            return
        self._close()
        text = "\n\n".join(texts)
        if self._from.dialect == "gemini":
            self._out.append(gemini_edit.text_content(part.role, text))
            return
        if self._from.dialect == "openai-chat":
            self._out.append({"role": part.role, "content": text})
            return
        kind = "text" if self._from.dialect == "anthropic" else "input_text"
        message: Json = {"role": part.role, "content": [{"type": kind, "text": text}]}
        if self._from.dialect == "openai-responses":
            message = {"type": "message", **message}
        self._out.append(message)

    @property
    def _text_type(self) -> str:
        return "input_text" if self._from.dialect == "openai-responses" else "text"

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
        field = self._from.content_field
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


def _shorten_gemini(
    parts: Sequence[Any],
    wanted: Sequence[int] | None,
    pieces: Sequence[Block | Piece],
    answer: ToolAnswer | None,
) -> list[Any]:
    """The parts of a record in a content of Gemini's, with the texts of a plan."""
    kept = [parts[place] for place in (range(len(parts)) if wanted is None else wanted)]
    if answer is None:
        return gemini_edit.shorten_parts(kept, pieces)
    return [
        gemini_edit.shorten_answer(part, pieces) if gemini_edit.is_answer(part) else part
        for part in kept
    ]


def _shorten_reply(items: Sequence[Json], part: MessagePart) -> list[Json]:
    """The items of a reply with shorter texts and arguments; the rest as the client wrote it."""
    texts = iter([block.text for block in part.blocks if isinstance(block, Text)])
    calls = iter([block for block in part.blocks if isinstance(block, ToolCall)])
    shorter = []
    for item in items:
        new = dict(item)
        if "arguments" in item:  # an item of the Responses API
            new["arguments"] = _arguments(next(calls, None), item["arguments"])
        if isinstance(item.get("content"), str) and item["content"].strip():
            new["content"] = next(texts, item["content"])
        elif isinstance(item.get("content"), list):
            new["content"] = [_shorten_block(block, texts, calls) for block in item["content"]]
        if isinstance(item.get("tool_calls"), list):
            new["tool_calls"] = [_shorten_call(call, calls) for call in item["tool_calls"]]
        shorter.append(new)
    return shorter


def _shorten_block(block: Any, texts: Iterator[str], calls: Iterator[ToolCall]) -> Any:
    if not isinstance(block, dict):
        return block
    if block.get("type") in _TEXTS and str(block.get("text", "")).strip():
        return {**block, "text": next(texts, block["text"])}
    if block.get("type") == "tool_use":
        call = next(calls, None)
        return block if call is None else {**block, "input": call.arguments}
    return block


def _shorten_call(call: Any, calls: Iterator[ToolCall]) -> Any:
    shorter = next(calls, None)
    function = call.get("function") if isinstance(call, dict) else None
    if shorter is None or not isinstance(function, dict):
        return call
    given = _arguments(shorter, function.get("arguments"))
    return {**call, "function": {**function, "arguments": given}}


def _arguments(call: ToolCall | None, given: Any) -> Any:
    """Arguments as text; as the client wrote them, where they are the same."""
    if call is None or (isinstance(given, str) and _reads_as(given, call.arguments)):
        return given
    return arguments_json(call.arguments)


def _reads_as(text: str, arguments: Json) -> bool:
    try:
        return bool(msgspec.json.decode(text) == arguments)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False


def _shorten(content: Any, pieces: Sequence[Block | Piece], text_type: str) -> Any:
    """The content of a message or a result with other texts; what is no text stays as it was."""
    texts = [piece.text for piece in pieces if isinstance(piece, Text)]
    if not isinstance(content, list):
        return "\n".join(texts)
    others = [
        block for block in content if not (isinstance(block, dict) and block.get("type") in _TEXTS)
    ]
    room = sum(not isinstance(piece, Text) for piece in pieces)
    kept = others[len(others) - room :] if room < len(others) else others
    marks = [
        block["cache_control"]
        for block in content
        if isinstance(block, dict) and block.get("cache_control") and block not in kept
    ]
    shown: list[Json] = [{"type": text_type, "text": text} for text in texts]
    if marks and shown:
        shown[-1]["cache_control"] = marks[-1]
    return [*shown, *kept]
