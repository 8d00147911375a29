"""Messages of typed blocks, in no provider's dialect.

The log keeps blocks as JSON, exactly as they came. Here they get types, so that everything that
counts, cuts or renders them agrees on what they are. A block kind we do not know becomes `Other`
and keeps its JSON: its own provider may still want it back.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import msgspec

from holdfast.core.limits import REF_CHARS
from holdfast.core.log.refs import IN_BLOCK, note_of, original_of
from holdfast.core.text.cut import scrub, scrub_deep
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.strings import is_too_deep

if TYPE_CHECKING:
    from holdfast.core.log.records import Content, Json

Role = Literal["user", "assistant"]


_COMPACTIONS: Final = ("compaction", "compaction_summary")
"""Kinds of blocks and items that stand for the messages before them."""


class _Value(msgspec.Struct, frozen=True, gc=False):
    """A plain value; blocks hold no cycles, so the collector need not look at them."""


class Text(_Value, frozen=True, tag="text"):
    """Plain text of a message."""

    text: str
    """The text."""
    fields: dict[str, Any] | None = None
    """The other fields of a reply's block, for the API that it came from: citations, a phase, a
    signature."""


class Image(_Value, frozen=True, tag="image"):
    """A picture: base64 `data` of a `media_type`, or a `url` that the provider fetches."""

    data: str = ""
    media_type: str = ""
    url: str = ""
    note: str = ""
    """A text for the model beside it; empty for a picture that is as it came."""


class Thinking(_Value, frozen=True, tag="thinking"):
    """A model's reasoning. Only the model that made it may get it back, and only unchanged."""

    text: str = ""
    """The thought, as far as the provider shows it."""
    signature: str = ""
    """The provider's proof that it is unchanged."""
    redacted: str = ""
    """The encrypted content that the provider sent instead of text."""
    item: dict[str, Any] | None = None
    """A reasoning item of the Responses API, or the `reasoning_details` of Chat Completions, as it
    came."""
    provider: str = ""
    """The provider that made it."""
    model: str = ""
    """The model that made it; no other is given it back."""


class ToolCall(_Value, frozen=True, tag="tool_use"):
    """A model's call of a tool."""

    id: str
    """By which its result is matched."""
    name: str
    """The name of the tool."""
    arguments: dict[str, Any]
    """Parsed; empty where the model sent none."""
    signature: str = ""
    """Gemini's thought signature of this call."""
    provider: str = ""
    """Who signed it, like `model`; empty where there is no signature."""
    model: str = ""
    """The model that made it."""


MESSAGE_FIELDS: Final = "message_fields"
"""The kind of the block for the fields of a reply of Chat Completions that are unknown here. It
has no words, and goes back to the host that made it alone."""


class Other(_Value, frozen=True, tag="other"):
    """A block of a kind that only some provider knows: a document, a server tool's result."""

    kind: str
    raw: dict[str, Any]
    dialect: str = ""
    """The API of the reply that it is from, which gets it back unchanged; empty for others."""
    provider: str = ""
    """The host that made it, like `dialect`."""

    @property
    def words(self) -> str:
        """The readable text of a provider's own compaction, which stands for the messages before
        it; empty for every other kind of block."""
        if self.kind not in _COMPACTIONS:
            return ""
        said = self.raw.get("content")
        pieces = said if isinstance(said, list) else [{"text": said}]
        texts = [piece.get("text") for piece in pieces if isinstance(piece, dict)]
        return "\n".join(text for text in texts if isinstance(text, str) and text.strip())

    @property
    def is_opaque(self) -> bool:
        """True for a provider's own compaction that no one else can read: without it, the history
        that it stands for is lost."""
        is_encrypted = isinstance(self.raw.get("encrypted_content"), str)
        return self.kind in _COMPACTIONS and is_encrypted and not self.words


class AddedTools(_Value, frozen=True, tag="added_tools"):
    """Tools that the model may call from here on, at the end of a user's message."""

    names: tuple[str, ...]
    """Tools of the prompt, by name."""


Piece: TypeAlias = Text | Image | Other
"""A part of a tool result."""


class ToolAnswer(_Value, frozen=True, tag="tool_result"):
    """A tool's result as a block of the message that answers the calls."""

    call_id: str
    """The id of the call."""
    content: tuple[Piece, ...]
    """Texts and pictures."""
    is_error: bool = False
    """True where the tool failed."""
    name: str = ""
    """The name of the tool."""


Block: TypeAlias = Text | Image | Thinking | ToolCall | ToolAnswer | AddedTools | Other
"""A part of a message: text, a picture, thinking, a tool call or its answer, added tools."""


class Message(_Value, frozen=True):
    """One message of a request, in no provider's shape."""

    role: Role
    """`user` or `assistant`."""
    blocks: tuple[Block, ...]
    """Its parts, in order."""
    record: str = ""
    """The record it was made from; of several, the first. Empty for what Holdfast adds."""


class Tool(_Value, frozen=True):
    """A tool as it is offered to a model."""

    name: str
    """The name by which the model calls it."""
    description: str = ""
    """The text that tells the model when to use it."""
    parameters: dict[str, Any] = {}
    """A JSON schema."""


class Prompt(_Value, frozen=True):
    """Everything a dialect renders.

    The messages keep these promises: the first is the user's and so is the last; roles alternate;
    each call of an assistant message is answered, once and in order, at the beginning of the next
    message, and there are no other answers; call ids are unique and not blank; no block is empty;
    thinking is the target's own, and whole; there are no lone surrogates.
    """

    messages: tuple[Message, ...]
    """The conversation, oldest first."""
    system: str = ""
    """The system prompt."""
    tools: tuple[Tool, ...] = ()
    """The tools that the model may call, with those that a message adds."""
    output_tokens: int = 0
    """Tokens that the reply may take."""
    stable: tuple[int, ...] = ()
    """Indexes of messages that end a prefix which later requests will repeat; oldest first."""


INTERRUPTED: Final = (
    "[Interrupted: this call was started and its outcome is unknown. "
    "It was not run again. Verify its effects before you repeat it.]"
)
"""The answer to a call whose result never arrived."""

_DECLARATIONS: Final = ("functionDeclarations", "function_declarations")
_SCHEMAS: Final = (
    *("input_schema", "parameters", "inputSchema"),
    *("parametersJsonSchema", "parameters_json_schema"),
)
"""The names that providers give to the schema of a tool's arguments."""
EMPTY_RESULT: Final = "(no output)"
_DATA_URI: Final = lazy_pattern(
    r"data:([\w.+-]+/[\w.+-]+)?(;[\w=.+-]+)*;base64,([A-Za-z0-9+/=_-]+)"
)


def read_blocks(
    content: Content, *, provider: str = "", model: str = "", dialect: str = ""
) -> tuple[Block, ...]:
    """The blocks of a stored message. Empty ones are left out, bad Unicode is mended.

    `dialect` names the API that a reply came from, where the log proves it.
    """
    if content is None:
        return ()
    if isinstance(content, str):
        return (Text(scrub(content)),) if content.strip() else ()
    read = (_read(block, provider, model, dialect) for block in content)
    return tuple(block for block in read if block is not None)


def read_pieces(content: Content) -> tuple[Piece, ...]:
    """The content of a tool result."""
    blocks = read_blocks(content)
    return tuple(
        block if isinstance(block, Text | Image | Other) else Other(_kind(block), _raw(block))
        for block in blocks
    )


def text_of_blocks(blocks: tuple[Block, ...] | tuple[Piece, ...]) -> str:
    """The plain text among blocks."""
    return "\n".join(block.text for block in blocks if isinstance(block, Text))


def read_tools(value: object) -> tuple[Tool, ...]:
    """Tools from JSON in the shape of any provider."""
    if isinstance(value, dict):
        inner = (value.get(name) for name in ("tools", *_DECLARATIONS, "functions"))
        value = next((item for item in inner if isinstance(item, list)), [value])
    if not isinstance(value, list):
        return ()
    return tuple(tool for item in value if isinstance(item, dict) for tool in _read_tool(item))


def _read_tool(value: Json) -> tuple[Tool, ...]:
    declared = next((value[name] for name in _DECLARATIONS if name in value), None)
    if isinstance(declared, list):
        return read_tools(declared)
    inner = value.get("function")
    inner = inner if isinstance(inner, dict) else value
    schemas = (inner.get(name) for name in _SCHEMAS)
    schema = next((item for item in schemas if isinstance(item, dict)), {})
    name = _string(inner.get("name"))
    return (Tool(name, _string(inner.get("description")), _clean(schema)),) if name else ()


def arguments_json(arguments: dict[str, Any]) -> str:
    """A call's arguments as the one text that is counted, shown and sent."""
    return msgspec.json.encode(arguments).decode()


def _read(block: Json, provider: str, model: str, dialect: str = "") -> Block | None:
    if IN_BLOCK in block:
        note = note_of(block)
        if note is not None:
            return Text(note)
        original = original_of(block)
        if original is not None:
            picture = _read_image(block)
            ref = original.sha256[:REF_CHARS]
            told = f"[scaled down; the original has {original.bytes:,} bytes: ref {ref}]"
            return (
                msgspec.structs.replace(picture, note=told)
                if isinstance(picture, Image)
                else picture
            )
        block = {name: item for name, item in block.items() if name != IN_BLOCK}
    match block.get("type"):
        case "text" | "input_text" | "output_text":
            return _read_text(block, dialect)
        case "tool_use":
            return _read_call(block, provider, model)
        case "thinking" | "redacted_thinking" | "reasoning":
            return _read_thinking(block, provider, model)
        case "image" | "image_url" | "input_image":
            return _read_image(block)
        case kind:
            return Other(str(kind or "?"), _clean(block), dialect, provider if dialect else "")


def _read_text(block: Json, dialect: str) -> Text | Other | None:
    text = block.get("text")
    others = {name: item for name, item in block.items() if name not in ("type", "text")}
    if isinstance(text, str) and text.strip():
        return Text(scrub(text), _clean(others) if dialect and others else None)
    # An empty text that carries something is a block of its API's own kind.
    return Other("text", _clean(block), dialect) if dialect and others else None


def _read_call(block: Json, provider: str, model: str) -> ToolCall:
    call_id, name = block.get("id"), block.get("name")
    signature = _string(block.get("thought_signature"))
    return ToolCall(
        id=scrub(call_id) if isinstance(call_id, str) else "",
        name=scrub(name) if isinstance(name, str) else "",
        arguments=_read_arguments(block.get("input")),
        signature=signature,
        provider=provider if signature else "",
        model=model if signature else "",
    )


def _read_arguments(value: object) -> dict[str, Any]:
    """Arguments are an object; a text that holds one is read, anything else is wrapped."""
    if isinstance(value, str):
        text = value
        try:
            value = json.loads(text)
            if is_too_deep(value):
                return {"value": scrub(text)}
        except (ValueError, RecursionError):
            return {"value": scrub(text)} if text.strip() else {}
    if isinstance(value, dict):
        return _clean(value)
    return {} if value is None else {"value": scrub_deep(value)}


def _read_thinking(block: Json, provider: str, model: str) -> Thinking | None:
    if block.get("type") == "reasoning":
        return Thinking(item=_clean(block), provider=provider, model=model)
    # Signed text goes back byte for byte or not at all, so it is not mended here.
    details = block.get("reasoning_details")
    found = Thinking(
        text=_string(block.get("thinking")),
        signature=_string(block.get("signature")),
        redacted=_string(block.get("data")),
        item=_clean({"reasoning_details": details}) if isinstance(details, list) else None,
        provider=provider,
        model=model,
    )
    return found if found.text or found.signature or found.redacted or found.item else None


def _read_image(block: Json) -> Image | Other:
    source = block.get("source")
    if isinstance(source, dict):
        data, url = _string(source.get("data")), _string(source.get("url"))
        if data or url:
            return Image(data=data, media_type=_string(source.get("media_type")), url=url)
    # pi and OpenClaw keep the data beside the type; OpenAI has an address or a data URI.
    if isinstance(block.get("data"), str) and block["data"]:
        return Image(data=block["data"], media_type=_string(block.get("mimeType")) or "image/png")
    address = block.get("image_url")
    address = address.get("url") if isinstance(address, dict) else address
    if isinstance(address, str) and address:
        found = _DATA_URI.fullmatch(address)
        if found:
            return Image(data=found[3], media_type=found[1] or "image/png")
        return Image(url=address)
    return Other("image", _clean(block))


def _clean(value: Json) -> Json:
    cleaned = scrub_deep(value)
    assert isinstance(cleaned, dict)
    return cleaned


def _string(value: object) -> str:
    return value if isinstance(value, str) else ""


def _kind(block: Block) -> str:
    return str(block.__struct_config__.tag)


def _raw(block: Block) -> Json:
    raw: Json = msgspec.to_builtins(block)
    return raw
