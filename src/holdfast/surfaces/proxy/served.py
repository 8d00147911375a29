"""The proxy within `holdfast serve`: tokens name the owner, and the server has the providers' keys.

Only requests for replies, counts of tokens and lists of models pass. Whatever else a provider
stores for an account, such as files and batches, belongs to the account, and not to an owner.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import TYPE_CHECKING, Final

from starlette.responses import Response

from holdfast.core.dialects.registry import all_dialects, find_dialect
from holdfast.core.owners import owner_text
from holdfast.core.proxy.endpoints import ProxyProblem
from holdfast.surfaces.proxy.app import BODY_BYTES_MAX, send_problem
from holdfast.surfaces.proxy.passing import FREE_PATHS, RequestPassing

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from contextlib import AbstractAsyncContextManager

    from starlette.requests import Request
    from starlette.types import Message, Receive, Scope, Send

    from holdfast.core.owners import Owner
    from holdfast.core.proxy.endpoints import Endpoint
    from holdfast.engine.proxy.exchange import ProxyKeeper
    from holdfast.surfaces.proxy.upstream import Upstream


class ServedUpstreams:
    """The upstreams of a server with tokens. Each owner has a keeper of its own."""

    def __init__(
        self,
        upstreams: Mapping[str, Upstream],
        keys: Mapping[str, str],
        make_keeper: Callable[[Owner], ProxyKeeper],
        *,
        silent_seconds: float,
    ) -> None:
        """`keys` are the providers' keys, by the names of the upstreams."""
        self.names: Collection[str] = frozenset(upstreams)
        self._keys = dict(keys)
        self._make_keeper = make_keeper
        self._keepers: dict[str, ProxyKeeper] = {}
        self._lock = threading.Lock()
        self._passing = RequestPassing(
            upstreams, _read_body, silent_seconds=silent_seconds, body_bytes_max=BODY_BYTES_MAX
        )

    def connect(self) -> AbstractAsyncContextManager[None]:
        """Hold connections for as long as the block runs."""
        return self._passing.connect()

    async def answer(
        self,
        endpoint: Endpoint,
        owner: Owner,
        headers: Mapping[str, str],
        request: Request,
        *,
        has_token: bool,
    ) -> Response:
        """Return the answer of an upstream, which is asked when the answer is sent. A client that
        `has_token` sends it where the key of an upstream would be."""
        if not endpoint.is_turn and not endpoint.path.endswith(FREE_PATHS):
            raise ProxyProblem(
                404,
                f"nothing is passed on to {endpoint.path[:100]}",
                "requests for replies, counts of tokens and lists of models are",
                code="not_passed",
            )
        if has_token and not self._keys.get(endpoint.upstream):
            raise ProxyProblem(
                403,
                f"the server has no key for `{endpoint.upstream}`, and passes no token on",
                f"the operator can name one in its settings: [upstreams.{endpoint.upstream}] key",
                code="no_key",
            )
        own = self._with_key(endpoint, headers)
        keeper = self._keeper_of(owner)
        return _PassedAnswer(self._passing, endpoint, keeper, own, await request.body())

    def _with_key(self, endpoint: Endpoint, headers: Mapping[str, str]) -> dict[str, str]:
        """The headers for an upstream: with the server's key where it has one, and then without
        anything that names a client to this server."""
        key = self._keys.get(endpoint.upstream, "")
        kept = {name: value for name, value in headers.items() if name != _COOKIE}
        if not key:
            return kept
        kept = {name: value for name, value in kept.items() if name not in key_headers()}
        name = find_dialect(endpoint.dialect).body.key_header
        return {**kept, name: f"Bearer {key}" if name == _BEARER else key}

    def _keeper_of(self, owner: Owner) -> ProxyKeeper:
        name = owner_text(owner)
        with self._lock:
            found = self._keepers.get(name)
            if found is None:
                found = self._keepers[name] = self._make_keeper(owner)
            return found


_BEARER: Final = "authorization"
_COOKIE: Final = "cookie"


@cache
def key_headers() -> frozenset[str]:
    """Return the headers by which clients of any API name themselves."""
    return frozenset(dialect.body.key_header for dialect in all_dialects())


@cache
def _client_headers() -> frozenset[bytes]:
    return frozenset(name.encode() for name in (*key_headers(), _COOKIE))


async def _read_body(_scope: Scope, receive: Receive) -> bytes | None:
    """Read a body that the door of the server has bounded."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        parts.append(message.get("body", b""))
        if not message.get("more_body"):
            return b"".join(parts)


class _PassedAnswer(Response):
    """An answer that comes from an upstream as it is sent."""

    def __init__(
        self,
        passing: RequestPassing,
        endpoint: Endpoint,
        keeper: ProxyKeeper,
        headers: Mapping[str, str],
        data: bytes,
    ) -> None:
        super().__init__()
        self._data = data
        self._passing = passing
        self._endpoint = endpoint
        self._keeper = keeper
        self._asked = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        left_out = _client_headers()
        kept = [pair for pair in scope["headers"] if pair[0].lower() not in left_out]
        own = [
            (name.encode(), self._asked[name].encode("latin-1", "replace"))
            for name in sorted(key_headers())
            if name in self._asked
        ]
        scope = {**scope, "headers": [*kept, *own]}
        body = iter([{"type": "http.request", "body": self._data, "more_body": False}])

        async def receive_read() -> Message:
            return next(body, None) or await receive()

        try:
            await self._passing.run(
                self._endpoint, self._keeper, self._asked, scope, receive_read, send
            )
        except ProxyProblem as problem:
            await send_problem(send, problem, self._endpoint.dialect)
