"""Statements of upstreams that hold for later requests: refused fields, and room for a reply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.common.fields import without_fields
from holdfast.core.dialects.registry import find_dialect
from holdfast.core.failures.numbers import find_named_field
from holdfast.core.window import Window

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.failures.classify import Failure
    from holdfast.core.log.records import Json
    from holdfast.core.projection.project import Plan
    from holdfast.engine.proxy.request import ClientRequest


_HOSTS_MAX: Final = 1_000
"""Hosts and models that are remembered."""
_REPLY_MIN: Final = 512
"""The shortest reply that is worth a request, in tokens: below it, the conversation gives way."""
_SPARE_SHARE: Final = 0.02
"""Of a request, added to our count of it: the provider's differs by a little from one to the
next."""
_STATED: Final = "stated with a refusal"


class ReplyLimit(msgspec.Struct, frozen=True):
    """The room for a reply of a model at an upstream."""

    most: int | None = None
    """Tokens that any reply may have."""
    window: Window | None = None
    """A window that holds request and reply together."""
    scale: float = 1.0
    """The provider's count of a request, as a multiple of ours."""

    def join(self, other: ReplyLimit) -> ReplyLimit:
        """Return this limit with what another one states."""
        most = self.most if other.most is None else other.most
        if other.window is None:
            return ReplyLimit(most, self.window, self.scale)
        return ReplyLimit(most, other.window, other.scale)


class ReplyLimits:
    """The limits that the upstreams of one proxy stated, by host and model."""

    def __init__(self) -> None:
        self._limits: dict[tuple[str, str], ReplyLimit] = {}

    def knows(self, request: ClientRequest) -> bool:
        """Return whether an upstream stated a limit for the model of a request."""
        return (request.upstream, request.model) in self._limits

    def learn(self, request: ClientRequest, limit: ReplyLimit) -> None:
        """Remember a limit by which a refused request was answered."""
        host = (request.upstream, request.model)
        self._limits[host] = self._limits.get(host, ReplyLimit()).join(limit)
        if len(self._limits) > _HOSTS_MAX:
            del self._limits[next(iter(self._limits))]

    def limit(self, request: ClientRequest, body: Json, count: Callable[[], int]) -> Json:
        """Return a body that asks for no longer reply than its upstream has room for. `count`
        counts the tokens of what is sent."""
        asks = find_dialect(request.dialect).body
        asked = asks.read_output_limit(body)
        most = None if asked is None else self.find_most(request, count)
        if asked is None or most is None or most >= asked:
            return body
        return asks.limit_reply(body, most)

    def find_most(self, request: ClientRequest, count: Callable[[], int]) -> int | None:
        """Return the tokens that the reply to a request can have at most; None where nothing was
        stated, or too little is left. `count` counts the request's."""
        known = self._limits.get((request.upstream, request.model), ReplyLimit())
        most = known.most
        if known.window is not None:
            left = known.window.tokens - int((1 + _SPARE_SHARE) * known.scale * count())
            most = left if most is None else min(most, left)
        return most if most is not None and most >= _REPLY_MIN else None


def read_limit(failure: Failure, refused: Plan) -> ReplyLimit | None:
    """Return the limit that a refusal of the reply's length stated; None where it stated none."""
    if not failure.limit:
        return None
    if failure.kind == "output_limit":
        return ReplyLimit(most=failure.limit)
    total = refused.tokens.total
    if not failure.input or not total:
        return None
    return ReplyLimit(window=Window(failure.limit, _STATED, "learned"), scale=failure.input / total)


_STATUS: Final = (400, 422)


class RefusedFields:
    """The fields that the upstreams of one proxy refused, by host and model."""

    def __init__(self) -> None:
        self._fields: dict[tuple[str, str], tuple[str, ...]] = {}

    def leave_out(self, request: ClientRequest, body: Json | None = None) -> Json | None:
        """Return a body, or the client's, without the fields that its host refused; None where it
        has none of them."""
        known = self._fields.get((request.upstream, request.model), ())
        if not known:
            return None
        whole = request.body if body is None else body
        found = without_fields(whole, known)
        return None if found == whole else found

    def learn(self, request: ClientRequest, body: Json | None, failure: Failure) -> Json | None:
        """Return the body that was refused without the field that the refusal names; None where it
        names none, or the body does not have it."""
        field = find_named_field(failure.message) if failure.status in _STATUS else ""
        whole = request.body if body is None else body
        if not field or (found := without_fields(whole, (field,))) == whole:
            return None
        host = (request.upstream, request.model)
        self._fields[host] = (*self._fields.get(host, ()), field)
        if len(self._fields) > _HOSTS_MAX:
            del self._fields[next(iter(self._fields))]
        return found
