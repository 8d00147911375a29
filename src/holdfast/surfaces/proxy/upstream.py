"""Requests to the upstreams: their addresses, raw bytes both ways, and failures as sentences."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import urlsplit

import httpx2
import msgspec

from holdfast.config import names_network_proxy
from holdfast.core.proxy.endpoints import OWN_PATH, ProxyProblem
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadSetting
from holdfast.surfaces.http.guard import LOOPBACK
from holdfast.surfaces.proxy.connections import ConnectionPool

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
    from typing import Self

    from holdfast.surfaces.proxy.connections import Origin, UpstreamConnection

CONNECT_SECONDS: Final = 20.0
"""For a connection to an upstream, TLS included."""
SILENT_SECONDS: Final = 600.0
"""The longest silence of an upstream: models think for minutes, and the SDKs wait ten."""
_KEPT_CONNECTIONS: Final = 20
"""Idle connections that stay open. The pool looks at each of them for every request."""
_STATUS_MAX: Final = 599
"""The last status of HTTP; some guards of web pages answer robots with 999."""
_DRAINED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of an upstream's error; longer ones are passed on unread."""


class AnswerBody(Protocol):
    """The body of an answer, as it comes."""

    async def next_piece(self) -> bytes | None:
        """Return the next bytes as they came; None at the end. Raises `httpx2.HTTPError`."""

    async def close(self) -> None:
        """Let go of the connection."""


class UpstreamReply:
    """An upstream's answer, whose body is still to be read."""

    def __init__(self, status: int, headers: list[tuple[bytes, bytes]], body: AnswerBody) -> None:
        self.status = status
        self.headers = headers
        self._body = body

    def header(self, name: str) -> str:
        """The value of a header; of one that came several times, all of them."""
        wanted = name.lower().encode()
        found = [value for key, value in self.headers if key.lower() == wanted]
        return b", ".join(found).decode("latin-1")

    async def next_chunk(self) -> bytes | None:
        """Return the next bytes as they came; None at the end. Raises `ProxyProblem`."""
        try:
            return await self._body.next_piece()
        except httpx2.HTTPError as error:
            raise problem_of(error, "") from error

    async def read(self) -> bytes | None:
        """Return the whole body; None where it is longer than an error is."""
        length = self.header("content-length")
        if length.isdigit() and int(length) > _DRAINED_BYTES_MAX:
            return None
        parts: list[bytes] = []
        while (chunk := await self.next_chunk()) is not None:
            parts.append(chunk)
        return b"".join(parts)

    async def close(self) -> None:
        await self._body.close()


class _DirectBody:
    """A body on a connection of the proxy's own."""

    def __init__(
        self, pool: ConnectionPool, origin: Origin, connection: UpstreamConnection
    ) -> None:
        self._pool = pool
        self._origin = origin
        self._connection: UpstreamConnection | None = connection

    async def next_piece(self) -> bytes | None:
        return None if self._connection is None else await self._connection.next_piece()

    async def close(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            self._pool.give_back(self._origin, connection)


class _ClientBody:
    """A body that comes through another proxy, by httpx2."""

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._chunks = response.aiter_raw()

    async def next_piece(self) -> bytes | None:
        async for chunk in self._chunks:
            if chunk:
                return chunk
        return None

    async def close(self) -> None:
        await self._response.aclose()


class UpstreamClient:
    """Sends requests to upstreams. Keeps connections, and nothing of what goes through them.

    Where the environment names a proxy (`HTTPS_PROXY`), httpx2 finds the way through it.
    """

    def __init__(self, *, silent_seconds: float = SILENT_SECONDS) -> None:
        connect_seconds = min(CONNECT_SECONDS, silent_seconds)
        self._pool = ConnectionPool(connect_seconds=connect_seconds, silent_seconds=silent_seconds)
        self._client: httpx2.AsyncClient | None = None
        if names_network_proxy():
            self._client = httpx2.AsyncClient(
                follow_redirects=False,
                timeout=httpx2.Timeout(silent_seconds, connect=connect_seconds, pool=None),
                limits=httpx2.Limits(
                    max_connections=None, max_keepalive_connections=_KEPT_CONNECTIONS
                ),
            )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._pool.close()
        if self._client is not None:
            await self._client.aclose()

    async def send(
        self,
        method: str,
        upstream: Upstream,
        address: str,
        headers: Sequence[tuple[bytes, bytes]],
        body: bytes | AsyncIterator[bytes],
    ) -> UpstreamReply:
        """Send a request and return the beginning of the answer. Raises `ProxyProblem`."""
        try:
            if self._client is not None:
                return await _send_through(self._client, method, address, headers, body)
            origin, connection = await self._pool.ask(method, address, headers, body)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise problem_of(error, upstream.name) from error
        found = _DirectBody(self._pool, origin, connection)
        if connection.status > _STATUS_MAX:
            await found.close()
            what = f"the upstream `{upstream.name}` answered with the status {connection.status}"
            raise ProxyProblem(502, what, "HTTP has none above 599; check --upstream")
        return UpstreamReply(connection.status, connection.headers, found)


async def _send_through(
    client: httpx2.AsyncClient,
    method: str,
    address: str,
    headers: Sequence[tuple[bytes, bytes]],
    body: bytes | AsyncIterator[bytes],
) -> UpstreamReply:
    request = httpx2.Request(method, address, headers=[*headers], content=body)
    if not body and method in ("GET", "HEAD"):
        request.headers.pop("content-length", None)
    response = await client.send(request, stream=True)
    return UpstreamReply(response.status_code, list(response.headers.raw), _ClientBody(response))


def problem_of(error: Exception, name: str) -> ProxyProblem:
    """A failed exchange with an upstream as the client is told."""
    whose = f"the upstream `{name}`" if name else "the upstream"
    if isinstance(error, httpx2.ConnectTimeout | httpx2.PoolTimeout):
        what, hint = f"{whose} does not accept a connection", "check its address and the network"
        return ProxyProblem(504, what, hint, code="upstream_unreachable")
    if isinstance(error, httpx2.TimeoutException):
        what, hint = f"{whose} was silent for too long", "try again, or raise --silent-seconds"
        return ProxyProblem(504, what, hint, code="upstream_silent")
    if isinstance(error, httpx2.ConnectError):
        if _is_tls(error):
            what = f"the TLS connection to {whose} failed: {error}"
            hint = "check its certificate; SSL_CERT_FILE names the certificates to trust"
            return ProxyProblem(502, what, hint, code="upstream_tls")
        what = f"{whose} cannot be reached: {error}"
        hint = "check --upstream, and that the server runs"
        return ProxyProblem(502, what, hint, code="upstream_unreachable")
    if isinstance(error, httpx2.InvalidURL | httpx2.UnsupportedProtocol):
        return ProxyProblem(502, f"the address of {whose} cannot be used", "check --upstream")
    what = f"{whose} closed the connection: {str(error) or type(error).__name__}"
    return ProxyProblem(502, what, "try again", code="upstream_broke_off")


def _is_tls(error: BaseException | None) -> bool:
    for _ in range(10):  # an HTTP library wraps a transport, which wraps the socket
        if error is None:
            return False
        if isinstance(error, ssl.SSLError) or "SSL" in str(error) or "CERTIFICATE" in str(error):
            return True
        error = error.__cause__ or error.__context__
    return False


def leads_back(upstream: Upstream, server: tuple[str, int] | None) -> bool:
    """True where an upstream is the proxy itself."""
    parts = urlsplit(upstream.url)
    if server is None or (parts.port or (443 if parts.scheme == "https" else 80)) != server[1]:
        return False
    host = (parts.hostname or "").casefold()
    return host in (*LOOPBACK, "0.0.0.0", "::") or host == server[0].casefold()  # noqa: S104


UPSTREAMS: Final[Mapping[str, str]] = {
    "anthropic": "https://api.anthropic.com",
    "openai": "https://api.openai.com",
    "gemini": "https://generativelanguage.googleapis.com",
}
"""The providers' own servers, by the names that `--upstream` takes."""
_NAME: Final = lazy_pattern(r"[a-z0-9][a-z0-9_-]*")


class Upstream(msgspec.Struct, frozen=True):
    """A server that requests are passed on to."""

    name: str
    url: str

    def address(self, path: str, query: str = "") -> str:
        """The address for a client's path. A path that both have in common stands once, so that
        `openai=http://host/v1` serves a client whose base is `…/v1`."""
        parts = urlsplit(self.url)
        shared = parts.path.rstrip("/")
        if shared and (path == shared or path.startswith(f"{shared}/")):
            path = path[len(shared) :]
        asked = f"?{query}" if query else ""
        return f"{parts.scheme}://{parts.netloc}{shared}{path}{asked}"


def read_upstreams(given: Iterable[str]) -> dict[str, Upstream]:
    """Read `NAME=URL` options. The providers' own servers are the defaults."""
    found = dict(UPSTREAMS)
    for option in given:
        name, equals, url = option.partition("=")
        if not equals or _NAME.fullmatch(name) is None:
            raise BadSetting(
                f"`--upstream {option[:200]}` is not NAME=URL",
                hint="for example `--upstream openai=http://127.0.0.1:8000/v1`; a name has small "
                "letters, digits, `-` and `_`",
            )
        if name == OWN_PATH.strip("/"):
            raise BadSetting(
                f"an upstream cannot be called `{name}`: the proxy's own addresses begin so",
                hint="choose another name",
            )
        found[name] = url.strip()
    return {name: Upstream(name, _check_url(name, url)) for name, url in found.items()}


def _check_url(name: str, url: str) -> str:
    try:
        parts = urlsplit(url)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_good = is_good and not parts.query and not parts.fragment and (parts.port or 1) > 0
    except ValueError:
        is_good = False
    if not is_good or "@" in parts.netloc:
        raise BadSetting(
            f"the address of the upstream `{name}` cannot be used",
            hint="give `http://host:port` or `https://host/path`, without a password and a query; "
            "keys come from the client",
        )
    return url.rstrip("/")
