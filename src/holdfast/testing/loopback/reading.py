"""A request in any dialect, read into pieces in the order the provider caches them.

Nothing here raises: a body that breaks the rules is counted and recorded like any other.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator, Mapping  # noqa: TC003  (fields of a struct)
from itertools import groupby
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.dialects.common.values import as_dict, as_dicts, as_number, as_text
from holdfast.core.dialects.gemini.validate import either, standard_base64
from holdfast.core.log.records import Json  # noqa: TC001  (a struct's field)
from holdfast.core.models.dialects import CacheTime  # noqa: TC001  (a struct's field)
from holdfast.core.models.messages import (
    Block,
    Image,
    Message,
    Prompt,
    Role,
    Text,
    Thinking,
    Tool,
    ToolAnswer,
    ToolCall,
    read_blocks,
    read_pieces,
    read_tools,
)
from holdfast.core.tokens.counting import MESSAGE_TOKENS, count_block, count_tool
from holdfast.core.tokens.images import image_rule
from holdfast.testing.loopback.binding.tool_changes import ADDITIONAL, read_definitions

if TYPE_CHECKING:
    from holdfast.core.tokens.counting import Counter

_SYSTEM_ROLES: Final = ("system", "developer")
_OUTPUT_FIELDS: Final = (
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "maxOutputTokens",
)
_LATE: Final = ("thinking", "tool_choice")


class Piece(msgspec.Struct, frozen=True):
    """The smallest part of a request that a cache tells from another."""

    place: Literal["tool", "system", "message"]
    wire: Any
    """As it was sent, but for its cache mark."""
    blocks: tuple[Block, ...] = ()
    tool: Tool | None = None
    role: Role = "user"
    mark: CacheTime | None = None
    opens: bool = False
    """True if a message, or the system text, begins here."""


class Heard(msgspec.Struct, frozen=True):
    """A request, read."""

    dialect: str
    model: str
    body: Json
    pieces: tuple[Piece, ...]
    output_max: int
    is_streamed: bool
    thinks: bool

    @property
    def has_marks(self) -> bool:
        """True if the cache of this API keeps what the request marks, and nothing else."""
        return _READERS[self.dialect].has_marks

    @property
    def prompt(self) -> Prompt:
        messages = groupby(
            (piece for piece in self.pieces if piece.place == "message"), key=lambda one: one.role
        )
        return Prompt(
            messages=tuple(
                Message(role, tuple(block for piece in group for block in piece.blocks))
                for role, group in messages
            ),
            system="\n".join(
                block.text
                for piece in self.pieces
                if piece.place == "system"
                for block in piece.blocks
                if isinstance(block, Text)
            ),
            tools=tuple(piece.tool for piece in self.pieces if piece.tool is not None),
            output_tokens=self.output_max,
        )

    def weigh(self, counter: Counter, factor: float = 1.0) -> list[int]:
        """The tokens up to the end of each piece."""
        images = image_rule(self.model, _READERS[self.dialect].maker)
        sums, total = [], 0
        for piece in self.pieces:
            if piece.tool is not None:
                total += count_tool(piece.tool, counter)
            total += sum(count_block(block, counter, images) for block in piece.blocks)
            total += MESSAGE_TOKENS * piece.opens
            sums.append(math.ceil(total * factor))
        return sums

    def chain(self) -> list[bytes]:
        """For each piece, a digest of everything up to its end: equal prefixes, equal digests."""
        digests = []
        before = _digest(b"", [self.dialect, self.model])
        was_message = False
        for piece in self.pieces:
            if piece.place == "message" and not was_message:
                was_message = True
                late = _READERS[self.dialect].late
                before = _digest(before, [self.body.get(name) for name in late]) if late else before
            before = _digest(before, piece.wire)
            digests.append(before)
        return digests


def read_request(dialect: str, body: Json, path: str = "") -> Heard:
    """Read a request. Gemini names the model, and streaming, in the path."""
    reader = _READERS[dialect]
    settings = reader.settings(body)
    wanted = (as_number(either(settings, name)) for name in _OUTPUT_FIELDS)
    named, _, method = path.rpartition("/")[2].partition(":")
    return Heard(
        dialect=dialect,
        model=as_text(body.get("model")) or (named if method else ""),
        body=body,
        pieces=tuple(_open_pieces(reader.pieces(body))),
        output_max=next((int(item) for item in wanted if item is not None and item > 0), 0),
        is_streamed=body.get("stream") is True or method.startswith("stream"),
        thinks=reader.thinks(body),
    )


def _open_pieces(pieces: Iterator[Piece]) -> Iterator[Piece]:
    before: tuple[str, str] | None = None
    for piece in pieces:
        here = (piece.place, piece.role)
        if piece.place != "tool" and here != before:
            piece = msgspec.structs.replace(piece, opens=True)
        before = here
        yield piece


def _digest(before: bytes, value: object) -> bytes:
    try:
        encoded = msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, RecursionError):
        encoded = repr(value).encode(errors="surrogatepass")
    return hashlib.sha256(before + encoded).digest()


# Anthropic Messages


def _anthropic(body: Json) -> Iterator[Piece]:
    pieces = [*_anthropic_head(body), *_anthropic_messages(body)]
    mark = _mark(body)
    if mark and pieces:
        pieces[-1] = msgspec.structs.replace(pieces[-1], mark=mark)
    yield from pieces


def _anthropic_head(body: Json) -> Iterator[Piece]:
    for declared in as_dicts(body.get("tools")):
        tool = next(iter(read_tools([declared])), None)
        yield Piece("tool", _without_marks(declared), tool=tool, mark=_mark(declared))
    for block in _as_blocks(body.get("system")):
        yield Piece("system", _without_marks(block), read_blocks([block]), mark=_mark(block))


def _anthropic_messages(body: Json) -> Iterator[Piece]:
    for message in as_dicts(body.get("messages")):
        role = _role(message)
        for defined in read_definitions(message):
            yield Piece("message", [role, defined], tool=next(iter(read_tools([defined])), None))
        for block in _as_blocks(message.get("content")):
            yield Piece(
                "message",
                [role, _without_marks(block)],
                _anthropic_block(block),
                role=role,
                mark=_mark(block) or _inner_mark(block),
            )


def _anthropic_block(block: Json) -> tuple[Block, ...]:
    if block.get("type") == "tool_addition":
        return ()  # read as tools
    if block.get("type") != "tool_result":
        return read_blocks([block])
    return (
        ToolAnswer(
            as_text(block.get("tool_use_id")),
            read_pieces(_content(block.get("content"))),
            is_error=block.get("is_error") is True,
        ),
    )


def _mark(value: Json) -> CacheTime | None:
    control = value.get("cache_control")
    if not isinstance(control, dict):
        return None
    return "1h" if control.get("ttl") == "1h" else "5m"


def _inner_mark(block: Json) -> CacheTime | None:
    marks = (_mark(item) for item in as_dicts(block.get("content")))
    return next((mark for mark in marks if mark), None)


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            name: _without_marks(item) if name == "content" else item
            for name, item in value.items()
            if name != "cache_control"
        }
    return [_without_marks(item) for item in value] if isinstance(value, list) else value


# OpenAI Chat Completions


def _chat(body: Json) -> Iterator[Piece]:
    yield from _tools(body)
    began = False
    for message in as_dicts(body.get("messages")):
        if message.get("role") in _SYSTEM_ROLES and not began:
            yield Piece("system", message, read_blocks(_content(message.get("content"))))
            continue
        began = True
        yield Piece("message", message, tuple(_chat_blocks(message)), role=_role(message))


def _chat_blocks(message: Json) -> Iterator[Block]:
    content = _content(message.get("content"))
    if message.get("role") == "tool":
        call_id = as_text(message.get("tool_call_id"))
        yield ToolAnswer(call_id, read_pieces(content), name=as_text(message.get("name")))
        return
    thought = as_text(message.get("reasoning_content"))
    if thought.strip():
        yield Thinking(text=thought)
    yield from read_blocks(content)
    for call in as_dicts(message.get("tool_calls")):
        function = as_dict(call.get("function"))
        yield _call(call.get("id"), function.get("name"), function.get("arguments"))


# OpenAI Responses


def _responses(body: Json) -> Iterator[Piece]:
    yield from _tools(body)
    instructions = as_text(body.get("instructions"))
    if instructions.strip():
        yield Piece("system", instructions, (Text(instructions),))
    given = body.get("input")
    items = [{"role": "user", "content": given}] if isinstance(given, str) else as_dicts(given)
    began = False
    for item in items:
        if item.get("role") in _SYSTEM_ROLES and not began:
            yield Piece("system", item, read_blocks(_content(item.get("content"))))
            continue
        began = True
        if item.get("type") == ADDITIONAL:
            for given in as_dicts(item.get("tools")):
                tool = next(iter(read_tools([given])), None)
                yield Piece("message", given, tool=tool, role="user")
            continue
        yield Piece("message", item, _item_blocks(item), role=_item_role(item))


def _item_role(item: Json) -> Role:
    kind = as_text(item.get("type", "message"))
    if kind == "message":
        return _role(item)
    return "user" if kind.endswith("_output") else "assistant"


def _item_blocks(item: Json) -> tuple[Block, ...]:
    match item.get("type", "message"):
        case "message":
            return read_blocks(_content(item.get("content")))
        case "function_call":
            return (_call(item.get("call_id"), item.get("name"), item.get("arguments")),)
        case "function_call_output":
            output = read_pieces(_content(item.get("output")))
            return (ToolAnswer(as_text(item.get("call_id")), output),)
        case _:
            return read_blocks([item])


# Gemini


def _gemini(body: Json) -> Iterator[Piece]:
    for group in as_dicts(body.get("tools")):
        for item in as_dicts(either(group, "functionDeclarations")):
            yield Piece("tool", item, tool=_read_tool(item))
    for part in as_dicts(as_dict(either(body, "systemInstruction")).get("parts")):
        yield Piece("system", part, _part_blocks(part))
    for content in as_dicts(body.get("contents")):
        role: Role = "assistant" if content.get("role") == "model" else "user"
        for part in as_dicts(content.get("parts")):
            yield Piece("message", [role, part], _part_blocks(part), role=role)


def _read_tool(given: Json) -> Tool:
    schema = as_dict(either(given, "parametersJsonSchema")) or as_dict(given.get("parameters"))
    return Tool(as_text(given.get("name")), as_text(given.get("description")), schema)


def _part_blocks(part: Json) -> tuple[Block, ...]:
    signature = as_text(either(part, "thoughtSignature"))
    call, answer = either(part, "functionCall"), either(part, "functionResponse")
    data = as_dict(either(part, "inlineData"))
    if isinstance(call, dict):
        made = _call(call.get("id"), call.get("name"), call.get("args"))
        return (msgspec.structs.replace(made, signature=signature),)
    if isinstance(answer, dict):
        said = as_dict(answer.get("response"))
        told = said.get("output", said.get("error"))
        is_text = isinstance(told, str) and len(said) == 1
        text = as_text(told) if is_text else msgspec.json.encode(said).decode() if said else ""
        about = (as_text(answer.get("id")), (Text(text),), "error" in said)
        return (ToolAnswer(*about, name=as_text(answer.get("name"))),)
    if data:
        return (Image(standard_base64(data.get("data")), as_text(either(data, "mimeType"))),)
    text = as_text(part.get("text"))
    if part.get("thought") is True:
        return (Thinking(text=text, signature=signature),) if text else ()
    return (Text(text),) if text else ()


# In common


def _tools(body: Json) -> Iterator[Piece]:
    for item in as_dicts(body.get("tools")):
        yield Piece("tool", item, tool=next(iter(read_tools([item])), None))


def _call(call_id: object, name: object, arguments: object) -> ToolCall:
    wire = {"type": "tool_use", "id": call_id, "name": name, "input": arguments}
    found = read_blocks([wire])[0]
    assert isinstance(found, ToolCall)
    return found


def _role(message: Json) -> Role:
    return "assistant" if message.get("role") == "assistant" else "user"


def _as_blocks(content: object) -> list[Json]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return as_dicts(content)


def _content(value: object) -> str | list[Json]:
    return value if isinstance(value, str) else as_dicts(value)


# By dialect


def _asks_to_think(body: Json) -> bool:
    return as_text(as_dict(body.get("thinking")).get("type")) in ("enabled", "adaptive")


def _wants_reasoning(body: Json) -> bool:
    return bool(body.get("reasoning")) or bool(body.get("include"))


def _generation(body: Json) -> Json:
    return as_dict(either(body, "generationConfig"))


def _includes_thoughts(body: Json) -> bool:
    thinking = as_dict(either(_generation(body), "thinkingConfig"))
    return either(thinking, "includeThoughts") is True


def _itself(body: Json) -> Json:
    return body


class _Reader(msgspec.Struct, frozen=True):
    """The places of things in the requests of one dialect."""

    pieces: Callable[[Json], Iterator[Piece]]
    thinks: Callable[[Json], bool]
    settings: Callable[[Json], Json] = _itself
    maker: str = "openai"
    """Whose pictures cost what they cost, where the model's name does not tell."""
    late: tuple[str, ...] = ()
    """Settings whose change makes a cache forget the messages, not tools and system."""
    has_marks: bool = False
    """True if requests mark what a cache is to keep."""


_READERS: Final[Mapping[str, _Reader]] = {
    "anthropic": _Reader(_anthropic, _asks_to_think, maker="anthropic", late=_LATE, has_marks=True),
    "openai-chat": _Reader(_chat, _asks_to_think),
    "openai-responses": _Reader(_responses, _wants_reasoning),
    "gemini": _Reader(_gemini, _includes_thoughts, _generation, maker="google"),
}
