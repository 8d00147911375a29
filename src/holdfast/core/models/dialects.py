"""What each provider's API takes: its limits, its call ids, whose thinking it takes back.

Plain facts, so that the projection can keep to them before anything is rendered. How a request
is written and judged is in providers/; where each number comes from is in docs/dialects.md.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.models.messages import Thinking, ToolCall
from holdfast.core.text.cut import scrub
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.models.messages import Prompt

Name = Literal["anthropic", "openai-chat", "openai-responses", "gemini"]
CacheTime = Literal["5m", "1h", "none"]

MEGABYTE: Final = 1_000_000
MEBIBYTE: Final = 1_048_576

COMMON_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
GEMINI_IMAGES: Final = ("image/png", "image/jpeg", "image/webp", "image/heic", "image/heif")

_SAFE: Final = "[a-zA-Z0-9_-]"
_SIGNATURE: Final = re.compile("[a-zA-Z0-9+/=_-]+")
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


class Dialect(msgspec.Struct, frozen=True):
    """A provider's API, or one host's flavour of it. A limit of 0 means: none is known."""

    name: Name
    flavour: str
    """Whose manners it has: the provider's own, or those of a host that imitates it."""
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
    image_types: tuple[str, ...] = COMMON_IMAGES
    string_chars: int = 0
    """One text in a request."""
    tools_max: int = 0
    messages_max: int = 0
    call_id_pattern: str = rf"{_SAFE}+"
    """What a call id looks like, whole; ids that do not fit are mapped."""
    call_id_chars: int = 64
    tool_name_chars: int = 64
    cache_marks: int = 0
    """Places in a request that may be marked for the provider's cache."""
    cache_lookback: int = 0
    """Blocks before a mark in which the provider looks for an earlier one."""
    replays_thinking: bool = True
    """Whether a model may get its earlier thinking back."""

    @property
    def full_name(self) -> str:
        """`openai-chat:mistral`; the dialect's own flavour goes without saying."""
        own = self is DIALECTS[self.name]
        return self.name if own else f"{self.name}:{self.flavour}"


_ANTHROPIC: Final = Dialect(
    name="anthropic",
    flavour="anthropic",
    body_bytes=32 * MEGABYTE,
    images_max=100,
    image_bytes=5 * MEBIBYTE,
    image_pixels=8_000,
    many_images=20,
    many_image_pixels=2_000,
    call_id_chars=128,
    tool_name_chars=128,
    cache_marks=4,
    cache_lookback=20,
)
_CHAT: Final = Dialect(
    name="openai-chat",
    flavour="openai",
    body_bytes=50 * MEGABYTE,
    images_max=500,
    string_chars=1_048_576,
    tools_max=128,
    messages_max=2_048,
    call_id_chars=40,
    replays_thinking=False,
)
_RESPONSES: Final = Dialect(
    name="openai-responses",
    flavour="openai",
    body_bytes=50 * MEGABYTE,
    images_max=500,
    string_chars=10_485_760,
    tools_max=128,
    call_id_chars=64,
)
_GEMINI: Final = Dialect(
    name="gemini",
    flavour="gemini",
    body_bytes=20 * MEBIBYTE,
    images_max=3_600,
    image_types=GEMINI_IMAGES,
    call_id_pattern=r"[^\s\x00-\x1f]+",
    call_id_chars=128,
)


def _like(dialect: Dialect, flavour: str, **changes: object) -> Dialect:
    return msgspec.structs.replace(dialect, flavour=flavour, **changes)


DIALECTS: Final[Mapping[str, Dialect]] = {
    one.name: one for one in (_ANTHROPIC, _CHAT, _RESPONSES, _GEMINI)
}
"""Each dialect in its provider's own flavour."""

FLAVOURS: Final[Mapping[str, Mapping[str, Dialect]]] = {
    "anthropic": {
        "anthropic": _ANTHROPIC,
        "bedrock": _like(
            _ANTHROPIC,
            "bedrock",
            body_bytes=20 * MEGABYTE,
            images_max=20,
            image_bytes=3_932_160,
            call_id_chars=64,
            tool_name_chars=64,
        ),
    },
    "openai-chat": {
        "openai": _CHAT,
        "mistral": _like(
            _CHAT,
            "mistral",
            images_max=8,
            image_bytes=10 * MEGABYTE,
            call_id_pattern="[a-zA-Z0-9]{9}",
            call_id_chars=9,
        ),
        "deepseek": _like(_CHAT, "deepseek", images_max=0, string_chars=0, replays_thinking=True),
        "kimi": _like(
            _CHAT,
            "kimi",
            call_id_pattern="[a-zA-Z0-9_.:-]+",
            call_id_chars=64,
            replays_thinking=True,
        ),
        "local": _like(_CHAT, "local", string_chars=0),
    },
    "openai-responses": {"openai": _RESPONSES},
    "gemini": {"gemini": _GEMINI, "vertex": _like(_GEMINI, "vertex")},
}


def dialect(name: str, flavour: str = "") -> Dialect:
    """A dialect by name, with a host's flavour: `dialect("openai-chat:mistral")` does as well."""
    base, _, said = name.partition(":")
    flavour = flavour or said
    flavours = FLAVOURS.get(base)
    if flavours is None:
        raise BadSetting(f"no dialect `{name}`", hint=_choices(base, list(FLAVOURS), "dialects"))
    if not flavour:
        return DIALECTS[base]
    if flavour not in flavours:
        raise BadSetting(
            f"the dialect `{base}` has no flavour `{flavour}`",
            hint=_choices(flavour, list(flavours), "flavours"),
        )
    return flavours[flavour]


def _choices(name: str, known: list[str], what: str) -> str:
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    guess = f"did you mean `{close[0]}`? " if close else ""
    return f"{guess}{what}: {', '.join(known)}"


class Target(msgspec.Struct, frozen=True):
    """Whom a request is for."""

    dialect: Dialect
    provider: str = ""
    """As the log names it."""
    model: str = ""
    thinking: bool = False
    """Whether the model is to think before it answers."""
    thinking_tokens: int = 0
    """What thinking may take; 0 leaves it to the dialect."""
    cache: CacheTime = "5m"
    """How long the provider is asked to keep what is marked."""
    output_max: int = 0
    """The most the model can reply; 0 where it is not known."""

    @property
    def flavour(self) -> str:
        return self.dialect.flavour

    def takes_back(self, thinking: Thinking) -> bool:
        """Whether this model may get this thinking: its own, whole, in a form its API reads."""
        return (
            self._made(thinking)
            and self.dialect.replays_thinking
            and _is_readable(thinking, self.dialect)
        )

    def signature_of(self, call: ToolCall) -> str:
        """A call's thought signature, where this model made it and it is whole; else nothing."""
        is_whole = _SIGNATURE.fullmatch(call.signature) is not None
        return call.signature if is_whole and self._made(call) else ""

    def _made(self, block: Thinking | ToolCall) -> bool:
        who = (block.provider, block.model)
        return bool(self.model) and who == (self.provider, self.model)


def target(
    name: str,
    flavour: str = "",
    *,
    provider: str = "",
    model: str = "",
    thinking: bool = False,
    thinking_tokens: int = 0,
    cache: CacheTime = "5m",
    output_max: int = 0,
) -> Target:
    """Whom a request is for, with the dialect by name."""
    return Target(
        dialect(name, flavour), provider, model, thinking, thinking_tokens, cache, output_max
    )


def _is_readable(thinking: Thinking, dialect: Dialect) -> bool:
    if any(scrub(text) != text for text in (thinking.text, thinking.redacted)):
        return False  # it cannot go back unchanged, so not at all
    match dialect.name:
        case "anthropic":
            # Some tools keep the signature of a text they threw away; that counts as modified.
            is_signed = _SIGNATURE.fullmatch(thinking.signature) is not None
            return bool(thinking.redacted) or (is_signed and bool(thinking.text))
        case "openai-responses":
            # Nothing is stored on the server, so an item without its content cannot be found.
            item = thinking.item or {}
            parts = (item.get("id"), item.get("encrypted_content"))
            return all(isinstance(part, str) and part for part in parts)
        case _:
            return bool(thinking.text)


class CallIds(msgspec.Struct, frozen=True):
    """Call ids as the log has them and as the wire has them, both ways.

    An id that the dialect accepts stays what it is; another gets one made from its hash. Each
    depends only on the ids before it, so that a longer conversation maps its beginning alike.
    """

    to_wire: dict[str, str]
    to_log: dict[str, str]

    @classmethod
    def of(cls, ids: Iterable[str], dialect: Dialect) -> CallIds:
        """Map ids in their order of appearance."""
        to_wire: dict[str, str] = {}
        to_log: dict[str, str] = {}
        for call_id in ids:
            if call_id in to_wire:
                continue
            wire, attempt = call_id, 0
            while wire in to_log or not accepts_call_id(wire, dialect):
                wire = _made_id(call_id, attempt, dialect)
                attempt += 1
            to_wire[call_id], to_log[wire] = wire, call_id
        assert len(to_wire) == len(to_log)
        return cls(to_wire, to_log)

    @classmethod
    def of_prompt(cls, prompt: Prompt, dialect: Dialect) -> CallIds:
        return cls.of(
            (
                block.id
                for message in prompt.messages
                for block in message.blocks
                if isinstance(block, ToolCall)
            ),
            dialect,
        )

    def wire(self, call_id: str) -> str:
        """The id to send for one of the log's."""
        return self.to_wire[call_id]

    def log(self, wire_id: str) -> str:
        """The log's id for one that came back; a new call's id is its own."""
        return self.to_log.get(wire_id, wire_id)


def accepts_call_id(call_id: str, dialect: Dialect) -> bool:
    """Whether the API would take an id as it is."""
    return (
        len(call_id) <= dialect.call_id_chars
        and _pattern(dialect.call_id_pattern).fullmatch(call_id) is not None
    )


def wire_name(name: str, dialect: Dialect) -> str:
    """A call's tool name in characters every API takes. Only history needs it."""
    safe = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[: dialect.tool_name_chars]
    if dialect.name == "gemini" and not re.match("[a-zA-Z_]", safe):
        safe = f"_{safe}"[: dialect.tool_name_chars]
    return safe if safe.strip("_") or name == safe != "" else "unnamed_tool"


def _made_id(call_id: str, attempt: int, dialect: Dialect) -> str:
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
