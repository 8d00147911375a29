"""Fields beside the conversation that upstreams refused: no later request has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.dialects.common.fields import without_fields
from holdfast.core.failures.numbers import find_named_field

if TYPE_CHECKING:
    from holdfast.core.failures.classify import Failure
    from holdfast.core.log.records import Json
    from holdfast.engine.proxy.request import ClientRequest

_STATUS: Final = (400, 422)
_HOSTS_MAX: Final = 1_000
"""Hosts and models whose refused fields are remembered."""


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
