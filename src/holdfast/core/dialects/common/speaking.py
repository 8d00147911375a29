"""Replies of an agent in the words of a client's API: whole, and as a stream of events."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from holdfast.core.dialects.common.reading import TokenCounts
from holdfast.core.models.replies import Stop  # noqa: TC001  (a struct's field)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.log.records import Json

STILL_HERE: Final = b": still here\n\n"
"""A comment between events: it tells proxies and clients that the stream lives."""


class AgentReply(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of an agent to one message, with everything that an API writes of it."""

    id: str
    """The number of the answer, without the prefix of an API."""
    model: str
    """The name that the client asked for."""
    created: int
    """The time of the request, in seconds since 1970."""
    text: str = ""
    stop: Stop = "end"
    counts: TokenCounts = TokenCounts(prompt=0, read=0, written=0, output=0)
    """The tokens of all calls of the turn."""


class ListedModel(msgspec.Struct, frozen=True):
    """A model that a client may ask for."""

    id: str
    created: int
    """In seconds since 1970."""
    stamp: str
    """The same time as RFC 3339 writes it."""


class ReplyStream(Protocol):
    """Writes one reply as events. The text comes in pieces, the rest with the end."""

    def begin(self) -> bytes:
        """Return the events before the text."""

    def say(self, text: str) -> bytes:
        """Return the events of a piece of the text."""

    def end(self, reply: AgentReply) -> bytes:
        """Return the events after the text."""


class AgentApi(ABC):
    """The part of an API that an agent answers."""

    fields: frozenset[str]
    """Fields of a body that an agent takes."""
    tuning_fields: frozenset[str]
    """Fields that tune a model. The settings of an agent decide about these."""
    plain_values: Mapping[str, Any]
    """Fields that say nothing where they have this value."""

    def wants_stream(self, body: Json, address: str) -> bool:
        """Return whether a request asks for events."""
        del address
        return body.get("stream") is True

    @abstractmethod
    def write(self, reply: AgentReply) -> Json:
        """Return a whole reply."""

    @abstractmethod
    def open_stream(self, reply: AgentReply, body: Json) -> ReplyStream:
        """Return the writer of a stream; `reply` is the answer before its text."""

    @abstractmethod
    def write_model(self, model: ListedModel) -> Json:
        """Return one model."""

    @abstractmethod
    def list_models(self, models: Sequence[ListedModel]) -> Json:
        """Return the list of models."""
