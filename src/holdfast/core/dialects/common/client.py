"""A client's request in one dialect: its body, and the conversation in it with what may change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.common.digests import content_atoms, message_atoms
from holdfast.core.models.messages import Text, ToolCall, arguments_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from holdfast.core.dialects.common.digests import Atom
    from holdfast.core.log.records import Content, Json
    from holdfast.core.models.messages import Block, Piece, Role


OUTPUT_FIELDS: Final = ("max_completion_tokens", "max_output_tokens", "max_tokens")
_THINKING_TOKENS_MIN: Final = 1_024
"""Anthropic's least budget for thinking; it has to be below the limit of the reply."""
_THINKING_SHARE: Final = 0.75
"""Of a reply, for a budget of thinking that has to shrink: the rest is for the answer."""


class ClientBody(ABC):
    """The requests that clients of one API send, apart from their conversation."""

    upstream: str
    """The provider's own server, as the proxy names it."""
    items_field: str
    """The field that holds the conversation."""
    has_system_field = False
    """True where instructions are no items."""
    key_header = "authorization"
    """The header that names the client, by a key or as `Bearer KEY`."""
    turn_paths: tuple[str, ...]
    """The addresses at which the provider takes requests for a reply, as routes are written."""
    output_field = "max_tokens"
    """The field that limits a reply, where the body has none yet."""

    # Addresses

    @abstractmethod
    def find_turn(self, path: str) -> str | None:
        """The model that a path names, empty where the body does; None where no model replies."""

    def owns_request(self, path: str, headers: Mapping[str, str]) -> bool:
        """True where path or headers, which have small names, are those of the provider alone."""
        del path, headers
        return False

    def owns_path(self, path: str) -> bool:
        """True for paths beside those of turns that only this API has, on any server."""
        del path
        return False

    # Fields

    def read_items(self, body: Json) -> list[Any] | None:
        """The conversation; None where the body belongs to another dialect."""
        found = body.get(self.items_field)
        return found if isinstance(found, list) else None

    def read_output_limit(self, body: Json) -> int | None:
        """The tokens that a body allows for the reply; None where it does not say."""
        return first_count(body, OUTPUT_FIELDS)

    def limit_reply(self, body: Json, tokens: int) -> Json:
        """A body whose reply may take this many tokens. A budget for thinking is part of them: it
        shrinks too, and where it would be less than the least, there is no thinking."""
        limited = {**body, first_name(body, OUTPUT_FIELDS, self.output_field): tokens}
        thinking = body.get("thinking")
        if not isinstance(thinking, dict):
            return limited
        budget = thinking.get("budget_tokens")
        if not isinstance(budget, int) or budget < tokens:
            return limited
        less = max(_THINKING_TOKENS_MIN, int(_THINKING_SHARE * tokens))
        if less < tokens:
            return {**limited, "thinking": {**thinking, "budget_tokens": less}}
        return {name: value for name, value in limited.items() if name != "thinking"}

    def read_compaction_limit(self, body: Json) -> int | None:
        """The tokens from which on the provider is asked to compact the conversation itself; None
        where it is not asked."""
        del body
        return None

    def takes_tools(self, body: Json) -> bool:
        """True where a body that has tools can have more, and wants one reply."""
        return body.get("n") in (None, 1) and not body.get("background")

    def add_tools(self, body: Json, ours: list[Json]) -> Json:
        """A body with tools of ours, as they are rendered, behind the client's own."""
        return {**body, "tools": [*body["tools"], *ours]}

    def response_id(self, body: Json) -> str:
        """The id by which the next request may name this response; empty where none can."""
        del body
        return ""

    # Errors

    @abstractmethod
    def write_error(self, status: int, message: str, code: str) -> Json:
        """The body of an error, so that the client's SDK shows the message."""

    def write_error_event(self, status: int, message: str, code: str) -> bytes:
        """The event that ends a stream which broke off, as the provider itself would send it."""
        return b"data: " + msgspec.json.encode(self.write_error(status, message, code)) + b"\n\n"


def first_count(body: Json, names: tuple[str, ...]) -> int | None:
    """The first positive number under some names."""
    for name in names:
        value = body.get(name)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def first_name(body: Json, names: tuple[str, ...], default: str = "") -> str:
    """The first of some names that a body has."""
    return next((name for name in names if name in body), default or names[0])


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
        """The items of a reply with shorter texts and arguments; the rest as it came."""
        texts = iter([block.text for block in blocks if isinstance(block, Text)])
        calls = iter([block for block in blocks if isinstance(block, ToolCall)])
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


_TEXTS: Final = ("text", "input_text", "output_text")


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


def shorten_content(content: Any, pieces: Sequence[Block | Piece], text_type: str) -> Any:
    """The content of a message or a result with other texts; what is not text stays as it was."""
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


def shorten_message(
    item: Json, wanted: Sequence[int] | None, pieces: Sequence[Block | Piece], text_type: str
) -> Json | list[Any]:
    """A message with other texts, or those of its blocks that are `wanted`."""
    content = item.get("content")
    if wanted is not None and isinstance(content, list):
        kept: list[Any] = shorten_content([content[block] for block in wanted], pieces, text_type)
        return kept
    return {**item, "content": shorten_content(content, pieces, text_type)}
