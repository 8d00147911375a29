"""Verdicts about the reasoning in a request, and their record.

A seal is what a provider writes into a signature or a ciphertext, and reads when it comes back.
"""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

import msgspec

from holdfast.core.dialects.common.rule import Violation
from holdfast.core.log.records import Json  # noqa: TC001  (a struct's field)
from holdfast.core.text.typed import decode_typed
from holdfast.testing.loopback.faults import WireFailure  # noqa: TC001  (a struct's field)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.testing.loopback.asking import Answer


SIGNED: Final = b"loopback:"
_SECRET: Final = b"a loopback provider has no secrets to protect"
_MARK: Final = 12
"""Bytes that protect a seal: no test guesses them."""

Kind = Literal["thinking", "reasoning", "call", "text", "compaction"]


class Seal(msgspec.Struct, frozen=True, array_like=True):
    """Who made a block, and behind what."""

    kind: Kind
    model: str = ""
    account: str = ""
    number: int = 0
    """The request that it answered."""
    prefix: str = ""
    """The digest of everything before it."""
    before: str = ""
    """The name of the block of reasoning before it; empty for the first."""
    said: str = ""
    """The digest of its readable text; empty where none was shown."""
    user: str = ""
    """The end user, where the API binds to one."""
    head: str = ""
    """Of a compaction: the digest of system and tools."""
    role: str = ""
    """Of a compaction: the role of the last message that it stands for."""
    summary: str = ""
    """Of a compaction that cannot be read: what it stands for."""

    @property
    def name(self) -> str:
        """A short name by which later blocks refer to this one."""
        return hashlib.sha256(msgspec.json.encode(self)).hexdigest()[:16]


def write_seal(seal: Seal) -> str:
    """A seal as base64 text."""
    data = msgspec.json.encode(seal)
    return base64.b64encode(SIGNED + _protect(data) + data).decode()


def read_seal(text: str) -> Seal | None:
    """A seal that was written here; None for any other text, or one that was changed."""
    data = _decode(text)
    if not data.startswith(SIGNED):
        return None
    mark, data = data[len(SIGNED) :][:_MARK], data[len(SIGNED) :][_MARK:]
    if mark != _protect(data):
        return None
    try:
        return decode_typed(data, Seal)
    except msgspec.MsgspecError:
        return None


def is_sealed_here(text: str) -> bool:
    """Return whether a text claims to be a seal of a loopback, whole or not."""
    return _decode(text).startswith(SIGNED)


def digest(before: str, value: Any) -> str:
    """A digest of a value and of everything before it: values count, not their formatting."""
    try:
        data = msgspec.json.encode(value, order="sorted")
    except (TypeError, ValueError, RecursionError):
        data = repr(value).encode(errors="surrogatepass")
    return hashlib.sha256(before.encode() + data).hexdigest()[:24]


def digest_text(text: str) -> str:
    """A digest of a text; empty for none."""
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16] if text else ""


def _protect(data: bytes) -> bytes:
    return hashlib.sha256(_SECRET + data).digest()[:_MARK]


def _decode(text: str) -> bytes:
    """Google's package writes the base64 of addresses, however it came."""
    plain = text.replace("-", "+").replace("_", "/")
    try:
        return base64.b64decode(plain + "=" * (-len(plain) % 4), validate=True)
    except ValueError:
        # A seal that was cut off, or has other characters in it, still shows where it came from.
        return SIGNED if plain.startswith(_START) else b""


_START: Final = base64.b64encode(SIGNED).decode()


UNASKED: Final = "Let me think about this first."
"""The thinking of a model that thinks unasked, where the brain has none to show."""

REASONING_RULES: Final = frozenset(
    {
        *("prefix-bound", "thinking-signature", "thinking-unmodified", "thinking-first"),
        *("thinking-returned", "encrypted-content-verified", "encrypted-content-own-id"),
        *("reasoning-has-follower", "call-has-reasoning", "message-has-reasoning"),
        *("reasoning-not-stored", "reasoning-needs-id", "reasoning-content-returned"),
        *("call-signed", "call-signature", "compaction-block"),
    }
)
"""Rules that are about reasoning and what it is bound to."""


class Dropped(msgspec.Struct, frozen=True):
    """A block of reasoning that was sent and that the model did not get, or got against the
    rule."""

    path: str
    """Its place in the request."""
    reason: str
    """`prefix_binding_mismatch`, `model_binding_mismatch`, `organization_binding_mismatch`,
    `end_user_binding_mismatch`."""
    number: int = 0
    """The request whose reply it was part of; 0 where another provider made it."""


class Withheld(msgspec.Struct, frozen=True):
    """Reasoning that would have been valid in its place, and was not sent."""

    path: str
    """The place of the reply that it belongs to."""
    number: int
    """The request whose reply it was part of."""
    is_required: bool = False
    """True if the provider demands it at this place, or its documents do."""


class Reasoning(msgspec.Struct, frozen=True, kw_only=True):
    """The reasoning in one request, as the provider took it."""

    refused: str = ""
    """The rule about reasoning for which the request was refused; empty if it was not."""
    valid: tuple[int, ...] = ()
    """Blocks that the model was given: for each, the request whose reply it was part of."""
    dropped: tuple[Dropped, ...] = ()
    """Blocks that were left out before the model saw the request."""
    allowed: tuple[Dropped, ...] = ()
    """Blocks that fail the check and were passed on, as for accounts that are not held to it."""
    withheld: tuple[Withheld, ...] = ()
    """Blocks that would have been valid here, and were not sent."""


class ReasoningCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The reasoning in all requests of a loopback, counted."""

    calls: int
    """Requests, without those that only count tokens."""
    replies: int
    """Requests that the brain answered."""
    refused: int
    """Requests refused for their reasoning or for what it is bound to."""
    valid: int
    """Blocks that a model was given."""
    dropped: dict[str, int]
    """Blocks that were left out, by reason."""
    allowed: int
    """Blocks that failed the check and were passed on."""
    withheld: int
    """Blocks that would have been valid, and were not sent."""

    @classmethod
    def of(cls, requests: Iterable[Any]) -> ReasoningCounts:
        """Count over requests, as `Loopback.requests` has them."""
        asked = [item for item in requests if not item.only_counts]
        found = [item.reasoning for item in asked]
        return cls(
            calls=len(asked),
            replies=sum(item.is_answered for item in asked),
            refused=sum(bool(item.refused) for item in found),
            valid=sum(len(item.valid) for item in found),
            dropped=dict(Counter(block.reason for item in found for block in item.dropped)),
            allowed=sum(len(item.allowed) for item in found),
            withheld=sum(len(item.withheld) for item in found),
        )


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request as the rules about reasoning see it."""

    number: int
    model: str
    body: Json
    headers: dict[str, str]
    key: str
    """The API key."""
    account: str
    """Whose key it is."""
    variant: str
    tokens: int = 0
    is_old_account: bool = False
    checks_foreign: bool = False
    path: str = ""

    @property
    def betas(self) -> frozenset[str]:
        """The beta features asked for, in the header or, as on Bedrock, in the body."""
        named = self.headers.get("anthropic-beta", "").split(",")
        listed = self.body.get("anthropic_beta")
        more = listed if isinstance(listed, list) else []
        return frozenset(str(name).strip() for name in (*named, *more))


class Broken(msgspec.Struct, frozen=True):
    """A broken rule, with the answer to it."""

    rule: str
    failure: WireFailure
    where: str = ""

    @property
    def violation(self) -> Violation:
        return Violation(self.rule, self.failure.message, self.where)


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict about a request."""

    broken: tuple[Broken, ...] = ()
    valid: tuple[int, ...] = ()
    dropped: tuple[Dropped, ...] = ()
    allowed: tuple[Dropped, ...] = ()
    withheld: tuple[Withheld, ...] = ()
    prefix: str = ""
    """The digest of the whole request, which a reply is bound to."""
    last: str = ""
    """The name of the last block of reasoning that holds."""


class Thought(msgspec.Struct, frozen=True):
    """The thinking behind an answer."""

    text: str = ""
    """Empty if the model does not think."""
    is_hidden: bool = False
    """True if the reply has the block without its text."""


class Composed(msgspec.Struct, frozen=True, kw_only=True):
    """Additions of the wire to an answer."""

    thoughts: tuple[Json, ...] = ()
    """Blocks or items of reasoning, before the words."""
    notes: tuple[Json, ...] = ()
    """Blocks of reasoning right before the first call."""
    signature: str = ""
    """The signature of the first call, or of the words where there is none."""
    report: Json = {}
    """Fields of the reply itself."""
    is_all: bool = False
    """True if the answer's own words and calls are not sent."""
    instead: Json | None = None
    """The whole reply, where the address has one of its own."""


class Made(msgspec.Struct, frozen=True):
    """A reply with reasoning that went out whole."""

    number: int
    model: str
    account: str
    names: tuple[str, ...]
    """The names of its blocks of reasoning."""
    said: Any
    """Its words and the ids of its calls."""


class Ledger:
    """Replies with reasoning, to find what is missing in later requests. Safe to share."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._by_prefix: dict[str, list[Made]] = {}
        self._by_id: dict[str, Made] = {}

    def add(self, prefix: str, made: Made, ids: Iterable[str] = ()) -> None:
        """Remember a reply under what it answered, and under the ids of its parts."""
        with self._lock:
            self._by_prefix.setdefault(prefix, []).append(made)
            for part in ids:
                self._by_id[part] = made

    def behind(self, prefix: str) -> list[Made]:
        """Return the replies to a request with this digest."""
        with self._lock:
            return list(self._by_prefix.get(prefix, ()))

    def with_id(self, part: str) -> Made | None:
        """Return the reply that has a part with this id."""
        with self._lock:
            return self._by_id.get(part)


class Replying(msgspec.Struct, frozen=True, kw_only=True):
    """A reply in the making."""

    request: Request
    judged: Judged
    thought: Thought
    reply_id: str
    ledger: Any
    is_lost: bool = False
    """True if a fault keeps the reply from arriving whole."""

    def remember(self, names: tuple[str, ...], said: Any, ids: Iterable[str] = ()) -> None:
        """Enter the reply into the ledger, if the caller gets it."""
        if not self.is_lost:
            request = self.request
            made = Made(request.number, request.model, request.account, names, said)
            self.ledger.add(self.judged.prefix, made, ids)


class Binding(Protocol):
    """The rules of one API about reasoning."""

    judges: frozenset[str]
    """Rules of the validators that are judged here, where more is known."""

    def expand(self, body: Json, /) -> Json:
        """Return the request as the model is shown it: compactions as what they stand for."""

    def judge(self, request: Request, ledger: Ledger, /) -> Judged:
        """Judge the reasoning in a request."""

    def think(self, answer: Answer, request: Request, /) -> Thought:
        """Return the thinking behind an answer: asked for, or not."""

    def compose(self, answer: Answer, reply: Replying, /) -> Composed:
        """Seal the reasoning of an answer."""
