"""The door: which hosts and origins are answered, how large and how slow a request may be."""

from __future__ import annotations

import asyncio
import sys
import time
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import HoldfastError
from holdfast.surfaces.http.outgoing import OutgoingAnswer
from holdfast.surfaces.http.problems import Problem, no_token, problem_of, send_problem

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping, MutableMapping

    Scope = MutableMapping[str, Any]
    Message = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[Message]]
    Send = Callable[[Message], Awaitable[None]]
    App = Callable[[Scope, Receive, Send], Awaitable[None]]

LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
_HEADERS: Final = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        b"connect-src 'self'; font-src 'self'; form-action 'self'; base-uri 'none'; "
        b"frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
)
_READ_HEADERS: Final = "holdfast.headers"
"""The headers of a request that were read, in its scope."""
HEAD_SECONDS: Final = 20.0
"""For the address and the headers of a request to arrive."""
HEADERS_MAX: Final = 200
"""Headers of one request. Browsers send about 20, proxies add a few; other servers take 100."""
STRANGER_BODY_BYTES_MAX: Final = 64 * 1024
"""The body of a client without a valid token, before it is refused: a login form fits."""
_LENGTH_DIGITS_MAX: Final = 18
"""Of a stated size; Python reads no numbers of thousands of digits."""
_BUCKETS_MAX: Final = 10_000
"""Clients whose rate is remembered."""


class GuardSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of what is let in."""

    hosts: tuple[str, ...] = ()
    """Host names beside those of the loopback address."""
    origins: tuple[str, ...] = ()
    """Origins of other pages that may send requests, such as `https://console.example`."""
    body_bytes_max: int = 10 * 1024 * 1024
    body_seconds: float = 30.0
    """The longest time that a body may take to arrive."""
    requests_per_second: float = 200.0
    """Of one client address, in the long run."""
    requests_burst: int = 1_000


class Guard:
    """Refuses what must not reach the routes, and sets the headers of every answer."""

    def __init__(
        self,
        app: App,
        settings: GuardSettings,
        is_known: Callable[[Mapping[str, str]], Awaitable[bool]] | None = None,
    ) -> None:
        """`is_known` says by the headers whether a client has a valid token. It is asked where that
        makes a difference; without it, every client is known."""
        self.inner = app
        """The application behind the door."""
        self._is_known = is_known
        self._buckets: dict[str, tuple[float, float]] = {}
        self.limit(settings)

    def limit(self, settings: GuardSettings) -> None:
        """Let in what these settings let in."""
        self._settings = settings
        self._hosts = frozenset((*LOOPBACK, *map(str.casefold, settings.hosts)))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.inner(scope, receive, send)
            return

        answer = OutgoingAnswer(scope, send)
        answer.on_start(_add_headers)
        try:
            self.check(scope)
            body = await self.read(scope, receive)
        except Problem as problem:
            await send_problem(problem, answer.send)
            return
        if body is None:
            return  # the client went away in the middle of its body

        rest = iter([{"type": "http.request", "body": body, "more_body": False}])

        async def receive_read() -> Message:
            return next(rest, None) or await receive()

        await self.inner(scope, receive_read, answer.send)

    def check(self, scope: Scope) -> None:
        """Raise for a request that must not get in: of another host, page, or too often."""
        if len(scope["headers"]) > HEADERS_MAX:
            raise Problem(
                431,
                f"the request has more than {HEADERS_MAX} headers",
                hint="send fewer; nothing was stored",
                headers={"Connection": "close"},
            )
        headers = read_headers(scope)
        asked = headers.get("host", "")
        if _host_name(asked) not in self._hosts:
            raise Problem(
                421,
                f"this server does not answer for the host `{asked[:100]}`",
                hint="use the address that the server printed, or add the name to its `hosts`",
            )
        origin = headers.get("origin")
        if origin is not None:
            self._check_origin(origin, asked)
        elif headers.get("sec-fetch-site") in ("cross-site", "same-site") and not _is_link(
            scope["method"], headers
        ):
            raise self._foreign("another site")
        self._check_rate((scope.get("client") or ("",))[0])

    def _check_origin(self, origin: str, host: str) -> None:
        """Another port of the same host is another page: any program of the machine may serve it,
        and browsers send it our cookies."""
        if origin in self._settings.origins:
            return
        scheme, _, address = origin.partition("://")
        if scheme not in ("http", "https") or address.casefold() != host.casefold():
            raise self._foreign(origin[:100])

    def _foreign(self, origin: str) -> Problem:
        return Problem(
            403,
            f"requests from a page of `{origin}` are refused",
            hint="add its origin to `origins` in the settings, if it is yours",
        )

    def _check_rate(self, address: str) -> None:
        settings, now = self._settings, time.monotonic()
        tokens, last = self._buckets.get(address, (float(settings.requests_burst), now))
        tokens = min(settings.requests_burst, tokens + (now - last) * settings.requests_per_second)
        if len(self._buckets) >= _BUCKETS_MAX:
            self._buckets.clear()
        self._buckets[address] = (tokens - 1 if tokens >= 1 else tokens, now)
        if tokens < 1:
            raise Problem(
                429,
                "too many requests from this address",
                hint="send fewer, or wait a second",
                headers={"Retry-After": "1"},
            )

    async def read(self, scope: Scope, receive: Receive) -> bytes | None:
        """Read the body, within the limits; None where the client went away."""
        headers = read_headers(scope)
        stated = headers.get("content-length", "")
        limit = STRANGER_BODY_BYTES_MAX
        if stated.isdecimal():
            size = int(stated) if len(stated) <= _LENGTH_DIGITS_MAX else sys.maxsize
            limit = await self._check_size(size, limit, headers)
        parts: list[bytes] = []
        size = 0
        try:
            async with asyncio.timeout(self._settings.body_seconds):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    limit = await self._check_size(size, limit, headers)
                    if not message.get("more_body"):
                        return b"".join(parts)
        except TimeoutError:
            raise Problem(
                400,
                f"the body did not arrive within {self._settings.body_seconds:g} s",
                hint="nothing was stored; send it again",
            ) from None

    async def _check_size(self, size: int, limit: int, headers: Mapping[str, str]) -> int:
        """Raise for a body that is larger than its sender may send; returns the limit from here
        on, which is that of strangers until a body is larger than that."""
        most = self._settings.body_bytes_max
        if size <= min(limit, most):
            return limit
        if most > STRANGER_BODY_BYTES_MAX and limit == STRANGER_BODY_BYTES_MAX:
            try:
                is_known = self._is_known is None or await self._is_known(headers)
            except HoldfastError as error:
                raise problem_of(error) from error
            if not is_known:
                raise no_token({"Connection": "close"})
        if size > most:
            raise _too_large(most)
        return most


def read_headers(scope: Scope) -> Mapping[str, str]:
    """Return the headers by their names in small letters; of several with one name, the first.

    A request's are read once. `dict(request.headers)` searches all pairs for each name.
    """
    found: dict[str, str] | None = scope.get(_READ_HEADERS)
    if found is None:
        found = scope[_READ_HEADERS] = {}
        for name, value in scope["headers"]:
            found.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))
    return found


def _add_headers(message: Message) -> None:
    """Add what every answer tells a browser."""
    present = {name.lower() for name, _value in message.get("headers", ())}
    extra = [pair for pair in _HEADERS if pair[0] not in present]
    message["headers"] = [*message.get("headers", ()), *extra]


def _is_link(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a person follows a link: the answer is a page of its own in the browser, which
    the site with the link cannot read, and nothing that a GET asks for changes anything."""
    asked = (headers.get("sec-fetch-mode"), headers.get("sec-fetch-dest"))
    return method in ("GET", "HEAD") and asked == ("navigate", "document")


def _too_large(limit: int) -> Problem:
    return Problem(
        413,
        f"the body is larger than {limit:,} bytes",
        hint="nothing was stored; send less, or raise `body_bytes_max` in the settings",
        headers={"Connection": "close"},
    )


def _host_name(host: str) -> str:
    """Return the name in a `Host` header, without its port; empty where it is more than that."""
    try:
        parts = urlsplit(f"//{host}")
        is_plain = parts.netloc == host and "@" not in host and (parts.port or 1) > 0
    except ValueError:
        return ""
    return (parts.hostname or "").casefold() if is_plain else ""


def check_address(host: str, *, are_tokens_needed: bool) -> None:
    """Raise where a server would be reached from outside without knowing who asks."""
    from holdfast.errors import BadSetting

    if host not in LOOPBACK and not are_tokens_needed:
        raise BadSetting(
            f"cannot listen on `{host}` without authentication: anyone could read every session",
            hint="make a token with `holdfast token new NAME`, or listen on 127.0.0.1",
        )
