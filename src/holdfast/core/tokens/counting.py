"""Count tokens: texts by a counter, images by their rule, nothing twice.

Every gate asks here. A `Counter` counts plain text; where the model's own vocabulary is installed
it is exact (holdfast.providers.tokenizers), else `Estimator` stands in. Payloads (data URIs, the
base64 of pictures and documents) are never counted as text, wherever they are nested. Base64 that
is plain text, such as the output of a shell command, really is sent as text and is counted so.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, Protocol, assert_never

import msgspec

from holdfast.core.media import decode, read_pdf
from holdfast.core.models.messages import (
    AddedTools,
    Image,
    Other,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
    arguments_json,
)
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.tokens.estimate import estimate
from holdfast.core.tokens.images import (
    UNKNOWN_RULE,
    data_uris,
    image_tokens,
    is_image,
    payload_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.models.messages import Block, Message, Prompt, Tool
    from holdfast.core.tokens.images import ImageRule

MESSAGE_TOKENS: Final = 4
"""Role and delimiters of a message."""
CALL_TOKENS: Final = 8
"""A call's id and wrapping, beside its name and arguments."""
ANSWER_TOKENS: Final = 8
"""An answer's id and wrapping, beside its content."""
TOOL_TOKENS: Final = 12
"""A tool's wrapping, beside its name, description and schema."""
PAYLOAD_TOKENS: Final = 100
"""A payload that is neither a picture nor a document."""
PAGE_TOKENS: Final = 2_500
"""A page of a PDF, as text and as picture."""
PAGE_BYTES: Final = 50_000
"""Of a PDF that does not say how many pages it has."""
PAYLOAD_CHARS_MIN: Final = 64
"""A shorter text in a payload's place is left as text."""


class Counter(Protocol):
    """Counts the tokens of a plain text."""

    @property
    def name(self) -> str:
        """The vocabulary or method, for displays and ledgers."""

    @property
    def is_exact(self) -> bool:
        """Return whether these are the model's own tokens."""

    def count(self, text: str) -> int:
        """0 for the empty text and for no other."""


class Estimator:
    """Counts without a vocabulary: the stand-in where none is installed.

    Against exact o200k, on texts it was not fitted on, the totals of 18 classes of content are
    within -5 and +10 %; a piece of 4 KB is rarely more than 20 % too low (docs/tokens.md). Only the
    number of UTF-8 bytes is a hard upper bound, and the estimate never exceeds it.
    """

    name: Final = "estimate"
    """The name of the counter, as reports show it."""
    is_exact: Final = False
    """False: it is an estimate."""

    def count(self, text: str) -> int:
        return estimate(text)


def tokens_max(text: str) -> int:
    """The only hard upper bound: no byte-level vocabulary makes two tokens of one byte."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def count_block(block: Block, counter: Counter, images: ImageRule = UNKNOWN_RULE) -> int:
    """Count the tokens that a block adds to a request."""
    match block:
        case Text():
            return counter.count(block.text)
        case Image():
            return image_tokens(block, images)
        case ToolCall():
            arguments = arguments_json(block.arguments)
            return counter.count(block.name) + counter.count(arguments) + CALL_TOKENS
        case ToolAnswer():
            inside = sum(count_block(piece, counter, images) for piece in block.content)
            return inside + ANSWER_TOKENS
        case Thinking():
            return _count_thinking(block, counter, images)
        case AddedTools():
            return 0  # counted with the tools of the request
        case Other():
            return count_json(block.raw, counter, images)
        case _:
            assert_never(block)


def count_message(message: Message, counter: Counter, images: ImageRule = UNKNOWN_RULE) -> int:
    """Count the tokens that a message adds to a request."""
    return MESSAGE_TOKENS + sum(count_block(block, counter, images) for block in message.blocks)


def count_tool(tool: Tool, counter: Counter) -> int:
    """Count the tokens that offering a tool adds to a request."""
    schema = msgspec.json.encode(tool.parameters).decode()
    texts = (tool.name, tool.description, schema)
    return TOOL_TOKENS + sum(counter.count(text) for text in texts)


def count_prompt(prompt: Prompt, counter: Counter, images: ImageRule = UNKNOWN_RULE) -> int:
    """A whole request: system text, tools and messages, without the room for the reply."""
    system = counter.count(prompt.system) + MESSAGE_TOKENS if prompt.system else 0
    tools = sum(count_tool(tool, counter) for tool in prompt.tools)
    return (
        system + tools + sum(count_message(message, counter, images) for message in prompt.messages)
    )


def count_results(messages: Iterable[Message]) -> int:
    """Count the tool results: the calibration charges something for each."""
    return sum(isinstance(block, ToolAnswer) for message in messages for block in message.blocks)


def count_json(value: object, counter: Counter, images: ImageRule = UNKNOWN_RULE) -> int:
    """A JSON value's tokens, with the payloads in it counted as what they hold."""
    payloads: list[int] = []
    bare = _without_payloads(value, images, payloads)
    return sum(payloads) + counter.count(msgspec.json.encode(bare).decode())


def _count_thinking(block: Thinking, counter: Counter, images: ImageRule) -> int:
    """Count thinking that is sent back: all of it, of which the text may be only a summary."""
    if block.item is not None:
        encrypted = block.item.get("encrypted_content")
        bare = {name: one for name, one in block.item.items() if name != "encrypted_content"}
        hidden = _sealed_tokens(encrypted) if isinstance(encrypted, str) else 0
        return hidden + count_json(bare, counter, images)
    return max(counter.count(block.text), _sealed_tokens(block.signature)) + _sealed_tokens(
        block.redacted
    )


def _sealed_tokens(encrypted: str) -> int:
    """Tokens of the thinking that a signature or an encrypted block holds."""
    return max(0, math.ceil((len(encrypted) - SEAL_CHARS) / SEALED_CHARS_PER_TOKEN))


SEAL_CHARS: Final = 250
"""Of a signature: what is there beside the encrypted thinking."""
SEALED_CHARS_PER_TOKEN: Final = 5.6
"""Base64 of encrypted thinking. Measured on Claude's signatures, see docs/tokens.md."""

_STRIPS: Final = lazy_pattern(
    r"claude-(3-7|sonnet-4|haiku-4|opus-4-[01](\D|$)|opus-4(-\d{8})?$)(?!-[6-9])"
)


def strips_thinking(model: str) -> bool:
    """Return whether the API itself leaves the thinking of earlier turns out, whatever is sent.

    Claude did until Opus 4.5: there, a new user message makes the next request smaller.
    """
    return _STRIPS.search(model.lower()) is not None


_MEDIA_NAMES: Final = ("media_type", "mimeType", "mime_type", "mediaType")
_DATA_NAMES: Final = frozenset(("data", "bytes", "base64", "file_data", "b64_json", "image_base64"))
_BASE64: Final = lazy_pattern(r"[A-Za-z0-9+/_-]+={0,2}")


def _without_payloads(value: object, images: ImageRule, payloads: list[int]) -> object:
    match value:
        case dict():
            media = next(
                (one for name in _MEDIA_NAMES if isinstance(one := value.get(name), str)), ""
            )
            return {
                name: _without_payload(name, item, media, images, payloads)
                for name, item in value.items()
            }
        case list() | tuple():
            return [_without_payloads(item, images, payloads) for item in value]
        case str():
            return _without_payload("", value, "", images, payloads)
        case _:
            return value


def _without_payload(
    name: object, item: object, media: str, images: ImageRule, payloads: list[int]
) -> object:
    """A field without its payload."""
    if not isinstance(item, str):
        return _without_payloads(item, images, payloads)
    if name in _DATA_NAMES and len(item) >= PAYLOAD_CHARS_MIN and _BASE64.fullmatch(item):
        payloads.append(_payload(item, media.lower(), images))
        return ""
    uri = next(data_uris(item), None) if item.startswith("data:") else None
    if uri is None or uri.end < len(item) or "svg" in uri.media_type:
        return item  # a text, whatever is in it
    payloads.append(_payload(uri.data, uri.media_type, images))
    return ""


def _payload(data: str, media: str, images: ImageRule) -> int:
    if is_image(data) or (media.startswith("image/") and "svg" not in media):
        return image_tokens(Image(data=data, media_type=media), images)
    if media == "application/pdf" or data.startswith("JVBERi"):
        return PAGE_TOKENS * _pages(data)
    return PAYLOAD_TOKENS


def _pages(data: str) -> int:
    decoded = decode(data)
    facts = None if decoded is None else read_pdf(decoded)
    if facts is not None and facts.pages:
        return facts.pages
    return max(1, math.ceil(payload_bytes(data) / PAGE_BYTES))
