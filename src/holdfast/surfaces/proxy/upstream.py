"""Requests to the upstreams: raw bytes both ways, and failures as sentences."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import httpx2

from holdfast.core.proxy.error_body import ProxyProblem
from holdfast.surfaces.http.guard import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from typing import Self

    from holdfast.surfaces.proxy.addresses import Upstream

CONNECT_SECONDS: Final = 20.0
"""For a connection to an upstream, TLS included."""
SILENT_SECONDS: Final = 600.0
"""The longest silence of an upstream: models think for minutes, and the SDKs wait ten."""
_KEPT_CONNECTIONS: Final = 20
"""Idle connections that stay open. The pool looks at each of them for every request."""
_DRAINED_BYTES_MAX: Final = 4 * 1024 * 1024
"""Of an upstream's error; longer ones are passed on unread."""


class UpstreamReply:
    """An upstream's answer, whose body is still to be read."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers: list[tuple[bytes, bytes]] = list(response.headers.raw)
        self._response = response
        self._chunks = response.aiter_raw()

    def header(self, name: str) -> str:
        value = self._response.headers.get(name, "")
        return str(value)

    async def next_chunk(self) -> bytes | None:
        """Return the next bytes as they came; None at the end. Raises `ProxyProblem`."""
        try:
            async for chunk in self._chunks:
                if chunk:
                    return chunk
        except httpx2.HTTPError as error:
            raise problem_of(error, "") from error
        return None

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
        await self._response.aclose()


class UpstreamClient:
    """Sends requests to upstreams. Keeps connections, and nothing of what goes through them."""

    def __init__(self, *, silent_seconds: float = SILENT_SECONDS) -> None:
        self._client = httpx2.AsyncClient(
            follow_redirects=False,
            timeout=httpx2.Timeout(
                silent_seconds, connect=min(CONNECT_SECONDS, silent_seconds), pool=None
            ),
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=_KEPT_CONNECTIONS),
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
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
            request = httpx2.Request(method, address, headers=[*headers], content=body)
            if not body and method in ("GET", "HEAD"):
                request.headers.pop("content-length", None)
            return UpstreamReply(await self._client.send(request, stream=True))
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise problem_of(error, upstream.name) from error


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
    what = f"{whose} broke the connection off: {str(error) or type(error).__name__}"
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
