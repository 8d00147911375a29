"""Find a dialect, and fit call ids, tool names and earlier thinking to what its API accepts.

The limits of each dialect are in `catalog`; how a request is written and judged, in providers/.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import re
from typing import TYPE_CHECKING, Final, Literal, assert_never

import msgspec

from holdfast.core.models.catalog import DIALECTS, VARIANTS, Dialect
from holdfast.core.models.messages import Thinking, ToolCall
from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.models.messages import Prompt

CacheTime = Literal["auto", "5m", "1h", "30m", "in_memory", "24h", "none"]
"""The lifetime of cached prefixes; `auto` is chosen by the pauses of a session and the prices of
its model."""

_SIGNATURE: Final = lazy_pattern("[a-zA-Z0-9+/=_-]+")
_LETTERS: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"


def dialect(name: str, variant: str = "") -> Dialect:
    """A dialect by name, with a host's variant: `dialect("openai-chat:mistral")` does as well."""
    base, _, said = name.partition(":")
    variant = variant or said
    variants = VARIANTS.get(base)
    if variants is None:
        raise BadSetting(f"no dialect `{name}`", hint=_choices(base, list(VARIANTS), "dialects"))
    if not variant:
        return DIALECTS[base]
    if variant not in variants:
        raise BadSetting(
            f"the dialect `{base}` has no variant `{variant}`",
            hint=_choices(variant, list(variants), "variants"),
        )
    return variants[variant]


def _choices(name: str, known: list[str], what: str) -> str:
    close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.5)
    guess = f"did you mean `{close[0]}`? " if close else ""
    return f"{guess}{what}: {', '.join(known)}"


class Target(msgspec.Struct, frozen=True):
    """Whom a request is for."""

    dialect: Dialect
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

    @property
    def variant(self) -> str:
        return self.dialect.variant

    def takes_back(self, thinking: Thinking) -> bool:
        """Return whether this model may get this thinking: its own, whole, in a form its API
        reads."""
        return (
            self._is_from(thinking)
            and self.dialect.replays_thinking
            and _is_readable(thinking, self.dialect)
        )

    def signature_of(self, call: ToolCall) -> str:
        """A call's thought signature, where this model made it and it is whole; else nothing."""
        is_whole = _SIGNATURE.fullmatch(call.signature) is not None
        return call.signature if is_whole and self._is_from(call) else ""

    def _is_from(self, block: Thinking | ToolCall) -> bool:
        who = (block.provider, block.model)
        return bool(self.model) and who == (self.provider, self.model)


def target(
    name: str,
    variant: str = "",
    *,
    provider: str = "",
    model: str = "",
    thinking: bool = False,
    thinking_tokens: int = 0,
    cache: CacheTime = "auto",
    output_max: int = 0,
) -> Target:
    """Whom a request is for, with the dialect by name."""
    return Target(
        dialect(name, variant), provider, model, thinking, thinking_tokens, cache, output_max
    )


def _is_readable(thinking: Thinking, dialect: Dialect) -> bool:
    if any(scrub(text) != text for text in (thinking.text, thinking.redacted)):
        return False  # it cannot go back unchanged, so not at all
    match dialect.thinking_form:
        case "signed":
            # Some tools keep the signature of a text they threw away; that counts as modified.
            is_signed = _SIGNATURE.fullmatch(thinking.signature) is not None
            return bool(thinking.redacted) or (is_signed and bool(thinking.text))
        case "encrypted":
            # Nothing is stored on the server, so an item without its content cannot be found.
            item = thinking.item or {}
            parts = (item.get("id"), item.get("encrypted_content"))
            return all(isinstance(part, str) and part for part in parts)
        case "text":
            return bool(thinking.text)
        case _:
            assert_never(dialect.thinking_form)


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
                wire = _make_id(call_id, attempt, dialect)
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
    """Return whether the API would take an id as it is."""
    return (
        len(call_id) <= dialect.call_id_chars
        and _pattern(dialect.call_id_pattern).fullmatch(call_id) is not None
    )


def wire_name(name: str, dialect: Dialect) -> str:
    """A call's tool name in characters every API takes. Only history needs it."""
    safe = re.sub(r"[^a-zA-Z0-9_-]", "_", name)[: dialect.tool_name_chars]
    if dialect.names_start_with_letter and not re.match("[a-zA-Z_]", safe):
        safe = f"_{safe}"[: dialect.tool_name_chars]
    return safe if safe.strip("_") or name == safe != "" else "unnamed_tool"


def _make_id(call_id: str, attempt: int, dialect: Dialect) -> str:
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
