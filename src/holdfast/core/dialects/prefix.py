"""The prefix of a reply: what it was made from, and whether that still stands.

Providers bind a model's reasoning to the request that it answered: system prompt, tools and
messages, value for value. So each reply is stored with digests of its request as it was sent, and
its reasoning goes back only where the next request begins with just that. The reasoning itself is
no part of the digest, but of a chain: a block may be left out at the beginning of the chain or at
its end, never between two others.
"""

from __future__ import annotations

import functools
import hashlib
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.dialects.registry import find_dialect
from holdfast.core.log.records import Assistant
from holdfast.core.models.generation import traits_of
from holdfast.core.models.messages import Prompt, Thinking, ToolAnswer, read_blocks
from holdfast.core.text.typed import convert_typed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.core.dialects.dialect import MessageWriter
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Message, Tool


class WrittenMessages:
    """The messages of the newest request. Where the next one begins with them, only what is new is
    written; where it does not, everything is."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._head: tuple[Target, Prompt] | None = None
        self._writer: MessageWriter | None = None
        self.messages: tuple[Message, ...] = ()
        self.items: list[list[Json]] = []
        """The items of each message. No one changes them."""
        self.digests: list[str] = []
        """Those that `prefixes_of` has made of the items."""

    def go_on(self, prompt: Prompt, target: Target) -> list[list[Json]]:
        """Return the items of each message of a prompt. No one changes them."""
        head = target, msgspec.structs.replace(prompt, messages=(), stable=())
        known = self.messages
        if head != self._head or prompt.messages[: len(known)] != known:
            self._begin()
        writer = self._writer or find_dialect(target.dialect.name).message_writer(prompt, target)
        self._head = None  # a writer that fails in the middle cannot go on
        self.items = [*self.items, *map(writer, prompt.messages[len(self.messages) :])]
        self._head, self._writer, self.messages = head, writer, prompt.messages
        return self.items


def copy_json(value: Any) -> Any:
    """Return JSON of which no object or list is the original's."""
    return msgspec.to_builtins(value)  # copies both, and keeps the texts


_DIGEST_BYTES = 16
"""Enough that no two prefixes of a log meet by chance; it is stored with every reply."""


class SentRequest(msgspec.Struct, frozen=True, omit_defaults=True):
    """The request behind a reply, as the reply's record has it."""

    dialect: str
    """The API that it was written for."""
    system: str = ""
    """The digest of the system prompt."""
    tools: str = ""
    """The digest of the tools."""
    messages: str = ""
    """The digest of everything, reasoning aside."""
    reasoning: str = ""
    """The newest record whose reasoning was in it; empty where none was."""
    seen: str = ""
    """The newest record that was in it."""
    epoch: str = ""
    """Behind the proxy, where a client writes the messages: the decision that they were cut by;
    empty where they were sent as the client wrote them."""

    def to_json(self) -> Json:
        found: Json = msgspec.to_builtins(self)
        return found


def origin_of(record: Assistant) -> SentRequest | None:
    """Return the request behind a reply; None where the log does not have it."""
    if record.sent is None:
        return None
    try:
        return convert_typed(record.sent, SentRequest)
    except msgspec.ValidationError:
        return None  # written by a later version, or by hand: it proves nothing


class Prefixes(msgspec.Struct, frozen=True):
    """The digests of a request, from its head to its end."""

    dialect: str
    system: str
    tools: str
    before: tuple[str, ...]
    """The digest before each message, and at last that of the whole."""

    def make_origin(self, reasoning: str, seen: str) -> SentRequest:
        """Return the request as the record of its reply has it."""
        return SentRequest(self.dialect, self.system, self.tools, self.before[-1], reasoning, seen)


NO_PREFIXES = Prefixes("", "", "", ("",))
"""Those of a request that is not made yet."""


def prefixes_of(
    messages: Sequence[Message],
    system: str,
    tools: Sequence[Tool],
    target: Target,
    written: WrittenMessages | None = None,
) -> Prefixes:
    """Return the digests of a request as its dialect writes it, reasoning and marks aside.
    `written` has those of the request before."""
    prompt = Prompt(tuple(messages), system, tuple(tools))
    written = written or WrittenMessages()
    items, before = written.go_on(prompt, target), written.digests
    dialect = find_dialect(target.dialect.name)
    system_digest, tools_digest = head_of(prompt, target)
    start = _digest(f"{dialect.name} {system_digest} {tools_digest}".encode(), [])
    if before[:1] != [start]:
        before[:] = [start]
    for each in items[len(before) - 1 :]:
        bare = [kept for kept in map(dialect.without_reasoning, each) if kept is not None]
        before.append(_digest(before[-1].encode(), bare))
    return Prefixes(dialect.name, system_digest, tools_digest, tuple(before))


def prefixes_later(
    messages: Sequence[Message],
    system: str,
    tools: Sequence[Tool],
    target: Target,
    written: WrittenMessages | None = None,
) -> Callable[[], Prefixes]:
    """Return what makes the digests of a request, once: no one asks for those of a plan that is not
    sent."""
    return functools.cache(lambda: prefixes_of(messages, system, tools, target, written))


def head_of(prompt: Prompt, target: Target) -> tuple[str, str]:
    """Return the digests of the system prompt and of the tools before every message."""
    system, tools = find_dialect(target.dialect.name).write_head(prompt, target)
    return _digest(b"", system), _digest(b"", tools)


def _digest(before: bytes, value: Any) -> str:
    data = msgspec.json.encode(value, order="deterministic")
    return hashlib.blake2b(before + data, digest_size=_DIGEST_BYTES).hexdigest()


def may_return(target: Target, record: Assistant, thinking: Thinking) -> bool:
    """Return whether a reply's reasoning may go back to a target, its prefix aside.

    Where both models leave reasoning unbound, it is given back to the model that made it. Where
    one of them checks, the whole chain goes back: a provider leaves out by itself what the model
    that is asked may not read.
    """
    provider, model = record.provider or "", record.model or ""
    sent = origin_of(record)
    if is_bound(target, record):
        is_ours = sent is not None and sent.dialect == target.dialect.name
        if not is_ours or provider != target.provider or not target.replays(thinking):
            return False
        maker, reader = traits_of(provider, model), traits_of(target.provider, target.model)
        is_family = maker.name.maker == reader.name.maker
        is_sent = maker.endpoint == "messages" or maker.name == reader.name or reader.reads(maker)
        return is_family and is_sent and target.reads(thinking, is_ours=True)
    is_ours = sent is not None
    if target.takes_back(thinking, is_ours=is_ours):
        return True
    maker, reader = traits_of(provider, model), traits_of(target.provider, target.model)
    is_due = reader.returns == "after_calls" and provider == target.provider
    return is_due and reader.reads(maker) and target.reads(thinking, is_ours=is_ours)


def ends_with_cut(target: Target, record: Record) -> bool:
    """Return whether a reply that a cut keeps goes back without all of its reasoning."""
    if not isinstance(record, Assistant):
        return False
    thinking = (block for block in read_blocks(record.content) if isinstance(block, Thinking))
    return any(
        is_bound(target, record) or not may_return(target, record, block) for block in thinking
    )


def is_bound(target: Target, record: Assistant) -> bool:
    """Return whether a reply's reasoning is valid behind its own prefix alone."""
    makers = (record.provider or "", record.model or ""), (target.provider, target.model)
    return any(traits_of(*maker).is_bound for maker in makers)


def provable(
    messages: Sequence[Message],
    prefixes: Prefixes,
    replies: Mapping[str, Assistant],
    target: Target,
) -> frozenset[str]:
    """Return the records whose reasoning may stand in a request: those behind their own prefix,
    as one chain from the newest of them back. `replies` are the replies with reasoning by id."""
    free: set[str] = set()
    behind: dict[str, str] = {}
    for index, message in enumerate(messages):
        record = replies.get(message.record) if message.role == "assistant" else None
        if record is None:
            continue
        if not is_bound(target, record):
            free.add(record.id)
            continue
        sent = origin_of(record)
        if sent is not None and sent.messages == prefixes.before[index]:
            behind[record.id] = sent.reasoning
    if _lacks_its_own(messages, replies, free | behind.keys(), target):
        return frozenset()
    chain: set[str] = set()
    link = next(reversed(behind), "")
    while link and link not in chain:
        chain.add(link)
        link = behind.get(link) or ""
        link = link if link in behind else ""
    return frozenset(free | chain)


def _lacks_its_own(
    messages: Sequence[Message], replies: Mapping[str, Assistant], valid: set[str], target: Target
) -> bool:
    """Return whether the results at the end are for a reply whose reasoning cannot come with them:
    a provider that demands it takes them only without any reasoning."""
    if len(messages) < 2 or traits_of(target.provider, target.model).returns != "with_results":
        return False
    asked, last = messages[-2], messages[-1]
    has_results = any(isinstance(block, ToolAnswer) for block in last.blocks)
    return has_results and asked.record in replies and asked.record not in valid
