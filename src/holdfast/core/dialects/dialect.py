"""A dialect as one value: everything that differs from one API to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.dialects.common.client import ClientBody, ClientItems
    from holdfast.core.dialects.common.reading import StreamReader, TokenCounts
    from holdfast.core.dialects.common.rounds import Rounds
    from holdfast.core.dialects.common.rule import ProviderRule, Violation
    from holdfast.core.dialects.common.speaking import AgentApi
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import DialectVariant, ReasoningPolicy, Target
    from holdfast.core.models.messages import Message, Prompt
    from holdfast.core.models.replies import Reply


MessageWriter: TypeAlias = "Callable[[Message], list[Json]]"
"""Writes messages, one after the other, each as its items without marks. An item depends on its
message and on those before it, so a longer conversation begins with the items of the shorter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamEnds:
    """The ends of a stream of events, as far as dialects differ in them."""

    openings: tuple[str, ...] = ()
    """Types of events that say nothing yet; an error after them may still be answered by a smaller
    request. No set: the type of an event that deviates may be anything."""
    has_last_event: bool = False
    """True where an event says that the reply is whole, so that a stream without it broke off."""
    is_closed_by_done: bool = False
    """True where the counts follow the event that ends the reply, and `[DONE]` follows both."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One API. Its limits, which hosts vary, are in the registry (`DialectVariant`)."""

    name: str

    render: Callable[[Prompt, Target, list[list[Json]]], Json]
    """The body of a request with the items of each message, as `message_writer` writes them; no
    other body has them. The same prompt and target give the same bytes."""
    write_head: Callable[[Prompt, Target], tuple[list[Json], list[Json]]]
    """The system prompt and the tools, as they stand before every message."""
    message_writer: Callable[[Prompt, Target], MessageWriter]
    """Writes the messages of a prompt, or of any with the same head and longer conversation."""
    without_reasoning: Callable[[Json], Json | None]
    """An item without reasoning, which is not part of the prefix that reasoning is bound to; None
    where nothing else is in it."""
    rules: tuple[ProviderRule, ...]
    """Everything that `validate` looks at."""
    validate: Callable[[object, Target], list[Violation]]
    """Return what the provider would refuse in a request of any origin. Never raises."""
    reasoning: ReasoningPolicy
    """The reasoning that must or may go back."""

    is_reply: Callable[[Json], bool]
    """Tells a response of this API, an error included, from other JSON."""
    read: Callable[[Json, Target], Reply]
    """The reply in the JSON of a response. Raises `ReplyFailed` for an error. A call has the id
    that the host gave it, which may be none."""
    stream: Callable[[], StreamReader]
    """Puts the events of one streamed response together."""
    ends: StreamEnds
    report_usage: Callable[[TokenCounts], Json]
    """Token counts as the provider spells them, for models that have no provider to count."""

    body: ClientBody
    """Requests that others wrote."""
    items: ClientItems
    """The conversation in a request that others wrote, and what may change in it."""
    rounds: Rounds
    """Rounds of one reply in which the proxy answers calls."""
    agent: AgentApi
    """The part of the API that an agent answers."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DialectEntry:
    """One package of this folder. Its limits are light; what reads and writes is not."""

    variants: tuple[DialectVariant, ...]
    """The provider's own first, then those of hosts."""
    load: Callable[[], Dialect]
    """Imports the dialect."""

    @property
    def own(self) -> DialectVariant:
        """The provider's own variant."""
        return self.variants[0]
