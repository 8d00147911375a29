"""Shared by the dialects when they write a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.media import kind_of
from holdfast.core.models.dialects import COMMON_IMAGES
from holdfast.core.models.generation import traits_of
from holdfast.core.models.messages import (
    EMPTY_RESULT,
    MESSAGE_FIELDS,
    AddedTools,
    Image,
    Other,
    Text,
    Thinking,
)
from holdfast.core.models.pace import CacheOffer
from holdfast.core.tokens.images import is_image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import DialectVariant, Target
    from holdfast.core.models.messages import Block, Message, Prompt, Tool, ToolAnswer


SILENT: Final = "(no reply)"
"""Stands for an assistant message of which this dialect can show nothing."""

NO_PARAMETERS: Final = {"type": "object", "properties": {}}

_ADDRESSES: Final = ("https://", "http://", "gs://")


def sendable(message: Message, target: Target) -> list[Block]:
    """A message's blocks without blanks and thinking the target may not see; never empty."""
    kept = [block for block in message.blocks if _is_shown(block, target)]
    return kept or [Text(SILENT)]


def _is_shown(block: Block, target: Target) -> bool:
    match block:
        case Thinking():
            return target.reads(block, is_ours=True)  # whose it is was asked before
        case Text():
            return bool(block.text.strip())
        case Other(kind=kind) if kind == MESSAGE_FIELDS:
            return is_of_host(block, target)
        case AddedTools():
            return False  # written behind the message, or in the head
        case _:  # nothing else is blank or bound to a model
            return True


def is_of_host(block: Other, target: Target) -> bool:
    """Return whether a block is of a reply of the same host, by the same API."""
    return (block.dialect, block.provider) == (target.dialect.name, target.provider)


def head_tools(prompt: Prompt, target: Target) -> list[Tool]:
    """The tools that stand before every message: those that no message adds."""
    if not target.adds_tools:
        return list(prompt.tools)
    added = {name for message in prompt.messages for name in _names_added(message)}
    return [tool for tool in prompt.tools if tool.name not in added]


def tools_added_in(message: Message, prompt: Prompt, target: Target) -> list[Tool]:
    """The tools that a message adds; none where the target is told of tools in the head alone."""
    names = _names_added(message) if target.adds_tools else ()
    return [tool for tool in prompt.tools if tool.name in names]


def _names_added(message: Message) -> tuple[str, ...]:
    added = (block.names for block in message.blocks if isinstance(block, AddedTools))
    return tuple(name for names in added for name in names)


def split(text: str, dialect: DialectVariant) -> list[str]:
    """A text in pieces that the API takes; whole where it may be."""
    limit = dialect.string_chars or len(text)
    return [text[at : at + limit] for at in range(0, len(text), limit or 1)] or [text]


def output_tokens(prompt: Prompt, target: Target) -> int:
    """Return the tokens of the reply, within what the model can give; 0 if unspecified."""
    if not target.output_max:
        return prompt.output_tokens
    return min(prompt.output_tokens, target.output_max)


def schema_of(tool: Tool) -> Json:
    """A tool's parameters; every API wants an object's schema even where there are none."""
    return dict(tool.parameters) if tool.parameters else dict(NO_PARAMETERS)


def media_type(image: Image) -> str:
    """Return the real media type of an image; providers refuse a wrong label."""
    return kind_of(image.data) or image.media_type or "image/png"


def data_uri(image: Image) -> str:
    return image.url or f"data:{media_type(image)};base64,{image.data}"


def is_sendable_image(image: Image, dialect: DialectVariant) -> bool:
    """Return whether the API takes a picture: of its types, and really one, or somewhere to
    fetch it."""
    if dialect.images_max == 0:
        return False
    if image.url:
        return image.url.startswith(_ADDRESSES)
    kind = media_type(image)
    return kind in dialect.image_types and (kind not in COMMON_IMAGES or is_image(image.data))


def image_note(image: Image) -> str:
    """Stands for a picture that this API does not take."""
    kind = "" if image.url else f" ({media_type(image)})"
    return f"[An image{kind} was here; this model cannot be shown it.]"


def text_of_other(block: Other) -> str:
    """A block that only another API knows: its text where it has one, else a note."""
    if block.words:
        return f"[The provider's summary of what came before:]\n{block.words}"
    raw = block.raw
    source = raw.get("source")
    inner = source.get("data") if isinstance(source, dict) and source.get("type") == "text" else ""
    for text in (raw.get("text"), raw.get("refusal"), inner):
        if isinstance(text, str) and text.strip():
            return text
    return f"[A block of type `{block.kind}` was here; this model cannot be shown it.]"


def plain(block: Block, dialect: DialectVariant) -> str | Image | None:
    """A block as text, or as the picture it is; nothing for calls, answers and thinking."""
    match block:
        case Text():
            return block.text
        case Image():
            return block if is_sendable_image(block, dialect) else image_note(block)
        case Other():
            return text_of_other(block)
        case _:  # calls, answers, thinking and added tools are no plain pieces
            return None


def answer_text(answer: ToolAnswer, dialect: DialectVariant, *, marks_errors: bool = True) -> str:
    """A result as one text, without its pictures. An error says so, where nothing else does."""
    texts = [piece for piece in _plain_pieces(answer, dialect) if isinstance(piece, str)]
    text = "\n".join(texts)
    if not text.strip():
        text = "(see the image)" if answer_images(answer, dialect) else EMPTY_RESULT
    if marks_errors and answer.is_error and not text[:20].lower().lstrip("[( ").startswith("error"):
        return f"Error: {text}"
    return text


def answer_images(answer: ToolAnswer, dialect: DialectVariant) -> list[Image]:
    return [piece for piece in _plain_pieces(answer, dialect) if isinstance(piece, Image)]


def _plain_pieces(answer: ToolAnswer, dialect: DialectVariant) -> Sequence[str | Image]:
    found = (plain(piece, dialect) for piece in answer.content)
    return [piece for piece in found if isinstance(piece, Image) or (piece and piece.strip())]


def cache_fields(target: Target) -> Json:
    """Return the fields for a target's host and lifetime; none for a host that takes none.

    `auto` outside of a session is the lifetime that a session begins with.
    """
    traits = traits_of(target.provider, target.model)
    if not traits.takes_cache_key:
        return {}
    fields: Json = {"prompt_cache_key": target.cache_key} if target.cache_key else {}
    if target.cache == "none":
        # In this mode only marked prefixes are written, and none is marked.
        is_charged = traits.charges_writes
        return {**fields, "prompt_cache_options": {"mode": "explicit"}} if is_charged else fields
    start = CacheOffer(traits.lifetimes_to_send).start
    name = start.name if start is not None and target.cache == "auto" else target.cache
    asked = next((each for each in traits.lifetimes_to_send if each.name == name), None)
    match asked.request if asked is not None else "none":
        case "options":
            fields["prompt_cache_options"] = {"ttl": name}
        case "retention":
            fields["prompt_cache_retention"] = name
        case _:
            pass  # this host is not asked for that lifetime
    return fields
