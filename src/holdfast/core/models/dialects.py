"""Whom a request is for, and call ids, tool names and earlier thinking that its API accepts.

The values for each API, and how it writes a request and a reply, are in `core/dialects/`.
"""

from __future__ import annotations

import functools
import hashlib
import re
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.models.messages import Text, Thinking, ToolCall
from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.models.messages import Message, Prompt, Thinking


_SIGNATURE: Final = lazy_pattern("[a-zA-Z0-9+/=_-]+")


@dataclass(frozen=True, slots=True)
class ReasoningPolicy(ABC):
    """The rule of one dialect for reasoning that goes back; `core/dialects/NAME/reasoning.py`."""

    def can_return(self, thinking: Thinking, *, is_ours: bool = False) -> bool:
        """Return whether a block can go back unchanged, in a form that the API reads. `is_ours`
        says that it is stored as it came."""
        texts = (thinking.text, thinking.redacted)
        # A block that cannot go back unchanged does not go back.
        return all(scrub(text) == text for text in texts) and self._is_readable(
            thinking, is_ours=is_ours
        )

    @abstractmethod
    def _is_readable(self, thinking: Thinking, *, is_ours: bool) -> bool:
        """Return whether the block has everything that the API asks for."""


@dataclass(frozen=True, slots=True)
class ReasoningAsText(ReasoningPolicy):
    """The API takes the text of earlier thinking."""

    def _is_readable(self, thinking: Thinking, *, is_ours: bool) -> bool:
        del is_ours
        return bool(thinking.text)


AS_TEXT: Final = ReasoningAsText()


def is_signature(value: str) -> bool:
    """Return whether a signature is whole: garbled ones are refused."""
    return _SIGNATURE.fullmatch(value) is not None


CacheTime = Literal["auto", "5m", "1h", "30m", "in_memory", "24h", "none"]
"""The lifetime of cached prefixes; `auto` is chosen by the pauses of a session and the prices of
its model."""

_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

COMMON_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")

_SAFE: Final = "[a-zA-Z0-9_-]"


class DialectVariant(msgspec.Struct, frozen=True):
    """A provider's API, or one host's variant of it: its limits, and the reasoning that it takes
    back. A limit of 0 means: none is known."""

    name: str
    """The name of the dialect."""
    variant: str
    """Whose quirks it has: the provider's own, or those of a host that imitates it."""
    body_bytes: int = 0
    """The encoded request."""
    images_max: int | None = None
    """Images in a request; none known where it is None, none allowed where it is 0."""
    image_bytes: int = 0
    """One image, as base64 text: that is what the wire carries."""
    image_pixels: int = 0
    """The longer edge of an image."""
    many_images: int = 0
    """With more images than this, each may have only `many_image_pixels`."""
    many_image_pixels: int = 0
    pdf_pages: int = 0
    """Pages of all PDFs in a request, for windows up to `pdf_window`."""
    pdf_window: int = 0
    image_types: tuple[str, ...] = COMMON_IMAGES
    string_chars: int = 0
    """One text in a request."""
    tools_max: int = 0
    messages_max: int = 0
    call_id_pattern: str = rf"{_SAFE}+"
    """The pattern of a whole call id; ids that do not match are mapped."""
    call_id_chars: int = 64
    tool_name_chars: int = 64
    cache_marks: int = 0
    """Places in a request that may be marked for the provider's cache."""
    cache_lookback: int = 0
    """Blocks before a mark in which the provider looks for an earlier one."""
    replays_thinking: bool = True
    """A model may get its earlier thinking back."""
    names_start_with_letter: bool = False
    """A tool name starts with a letter or an underscore."""
    reasoning: ReasoningPolicy = AS_TEXT
    """The reasoning that may go back."""
    is_host: bool = False
    """True for the variant of a host that imitates the API."""

    @property
    def full_name(self) -> str:
        """`openai-chat:mistral`; the dialect's own variant goes without saying."""
        return f"{self.name}:{self.variant}" if self.is_host else self.name


class Target(msgspec.Struct, frozen=True):
    """Whom a request is for."""

    dialect: DialectVariant
    """The API that it is written for."""
    provider: str = ""
    """As the log names it."""
    model: str = ""
    """The name of the model."""
    thinking: bool = False
    """True if the model is to think before it answers."""
    thinking_tokens: int = 0
    """Tokens that thinking may take; 0 leaves it to the dialect."""
    cache: CacheTime = "auto"
    """The lifetime asked for cached prefixes."""
    output_max: int = 0
    """The most the model can reply; 0 where it is not known."""
    cache_key: str = ""
    """Names the conversation to hosts that route requests to the cache of their prefix."""
    adds_tools: bool = False
    """True where a tool can be added amid the conversation, and nothing before it changes."""
    without: tuple[str, ...] = ()
    """Fields beside the conversation that the host refused, by their paths in the body."""

    @property
    def variant(self) -> str:
        return self.dialect.variant

    def replays(self, thinking: Thinking) -> bool:
        """Return whether the API has a place for earlier thinking: a host that gave details of it
        takes them back."""
        return self.dialect.replays_thinking or thinking.item is not None

    def takes_back(self, thinking: Thinking, *, is_ours: bool = False) -> bool:
        """Return whether this model may get this thinking: its own, whole, in a form its API
        reads."""
        return (
            self._is_from(thinking)
            and self.replays(thinking)
            and self.reads(thinking, is_ours=is_ours)
        )

    def reads(self, thinking: Thinking, *, is_ours: bool = False) -> bool:
        """Return whether thinking is whole and in a form that the API accepts. `is_ours` says that
        it is stored as it came: its text may be empty then."""
        return self.dialect.reasoning.can_return(thinking, is_ours=is_ours)

    def signature_of(self, call: ToolCall) -> str:
        """A call's thought signature, where this model made it and it is whole; else nothing."""
        is_whole = is_signature(call.signature)
        return call.signature if is_whole and self._is_from(call) else ""

    def text_signature(self, text: Text) -> str:
        """A text's thought signature, where the reply is of this API; else nothing."""
        found = (text.fields or {}).get("thought_signature")
        return found if isinstance(found, str) and is_signature(found) else ""

    def _is_from(self, block: Thinking | ToolCall) -> bool:
        who = (block.provider, block.model)
        return bool(self.model) and who == (self.provider, self.model)


class CallIds(msgspec.Struct, frozen=True):
    """Call ids as the log has them and as the wire has them, both ways.

    An id that the dialect accepts stays what it is; another gets one made from its hash. Each
    depends only on the ids before it, so that a longer conversation maps its beginning alike.
    """

    to_wire: dict[str, str]
    to_log: dict[str, str]

    @classmethod
    def of(cls, ids: Iterable[str], dialect: DialectVariant) -> CallIds:
        """Map ids in their order of appearance."""
        mapped = cls({}, {})
        for call_id in ids:
            mapped.add(call_id, dialect)
        assert len(mapped.to_wire) == len(mapped.to_log)
        return mapped

    @classmethod
    def of_prompt(cls, prompt: Prompt, dialect: DialectVariant) -> CallIds:
        mapped = cls({}, {})
        for message in prompt.messages:
            mapped.add_calls(message, dialect)
        return mapped

    def add(self, call_id: str, dialect: DialectVariant) -> None:
        """Map the next id."""
        if call_id in self.to_wire:
            return
        wire, attempt = call_id, 0
        while wire in self.to_log or not accepts_call_id(wire, dialect):
            wire = _make_id(call_id, attempt, dialect)
            attempt += 1
        self.to_wire[call_id], self.to_log[wire] = wire, call_id

    def add_calls(self, message: Message, dialect: DialectVariant) -> None:
        """Map the ids of the calls in the next message."""
        for block in message.blocks:
            if type(block) is ToolCall:
                self.add(block.id, dialect)

    def wire(self, call_id: str) -> str:
        """The id to send for one of the log's."""
        return self.to_wire[call_id]

    def log(self, wire_id: str) -> str:
        """The log's id for one that came back; a new call's id is its own."""
        return self.to_log.get(wire_id, wire_id)


def accepts_call_id(call_id: str, dialect: DialectVariant) -> bool:
    """Return whether the API would take an id as it is."""
    return (
        len(call_id) <= dialect.call_id_chars
        and _pattern(dialect.call_id_pattern).fullmatch(call_id) is not None
    )


def wire_name(name: str, dialect: DialectVariant) -> str:
    """A call's tool name in characters every API takes. Only history needs it."""
    safe = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[: dialect.tool_name_chars]
    if dialect.names_start_with_letter and not re.match("[a-zA-Z_]", safe):
        safe = f"_{safe}"[: dialect.tool_name_chars]
    return safe if safe.strip("_") or name == safe != "" else "unnamed_tool"


def _make_id(call_id: str, attempt: int, dialect: DialectVariant) -> str:
    seed = call_id if attempt == 0 else f"{call_id}\x00{attempt}"
    number = int.from_bytes(hashlib.sha256(seed.encode(errors="surrogatepass")).digest()[:16])
    room = min(dialect.call_id_chars, 29)
    digits = []
    for _ in range(room if room < 16 else room - len("call_")):
        number, digit = divmod(number, len(_LETTERS))
        digits.append(_LETTERS[digit])
    return "".join(digits) if room < 16 else f"call_{''.join(digits)}"


@functools.cache
def _pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
