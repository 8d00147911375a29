"""The door: whatever a stranger sends is answered in linear time, and little of it is read."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.growth import RATIO_MAX, growth
from tests.support.runs import sample
from tests.surfaces.http.servers import token_for

from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.cli.serve.serve import build_server
from holdfast.surfaces.http.chat_endpoints import endpoint_paths
from holdfast.surfaces.http.guard import HEADERS_MAX, STRANGER_BODY_BYTES_MAX
from holdfast.surfaces.serve_settings import HttpSettings, ServeSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.surfaces.http.server import HttpServer

HOST = (b"host", b"127.0.0.1:8484")

HEADS: dict[str, Callable[[int], dict[str, Any]]] = {
    "many headers": lambda n: {"headers": [(b"h%d" % i, b"") for i in range(n)]},
    "one header often": lambda n: {"headers": [(b"cookie", b"a=b")] * n},
    "a long header": lambda n: {"headers": [(b"x", b"a" * n * 8)]},
    "a long token": lambda n: {"headers": [(b"authorization", b"Bearer " + b"a" * n * 8)]},
    "a long host": lambda n: {"headers": [(b"host", b"a" * n * 8)]},
    "a long origin": lambda n: {"headers": [(b"origin", b"http://" + b"a" * n * 8)]},
    "many cookies": lambda n: {"headers": [(b"cookie", b"a=b;" * n)]},
    "quotes in a cookie": lambda n: {"headers": [(b"cookie", b'a="' + b'\\"' * n + b'"')]},
    "octals in a cookie": lambda n: {"headers": [(b"cookie", b'a="' + b"\\1" * n + b'"')]},
    "a long type": lambda n: {"headers": [(b"content-type", b"a;" * n)]},
    "many parameters": lambda n: {"query_string": b"&".join(b"p%d=" % i for i in range(n))},
    "separators": lambda n: {"query_string": b"&" * n},
    "a long parameter": lambda n: {"query_string": b"next=" + b"%41" * n},
    "a long address": lambda n: {"tail": "/" + "a/" * n},
    "a body": lambda n: {"body": b"token=" + b"a&" * n},
    "a nested body": lambda n: {"body": b"[" * n},
}
"""What a stranger can make long, by size."""


class _Inline(ThreadPoolExecutor):
    """Runs what is given to a thread at once, so that its CPU counts."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        try:
            done.set_result(fn(*args, **kwargs))
        except Exception as error:
            done.set_exception(error)
        return done


@contextmanager
def locked_server() -> Iterator[HttpServer]:
    """Give a server that knows one token, with its console and MCP."""
    with MemoryStore() as store:
        unbounded = HttpSettings(requests_per_second=1e9, requests_burst=1 << 40)
        settings = ServeSettings(tokens=(token_for("*")[1],), server=unbounded)
        yield build_server(settings, store, "offline")


class Stranger:
    """Sends requests without a valid token straight to the application."""

    def __init__(self, server: HttpServer, loop: asyncio.AbstractEventLoop) -> None:
        self.app = server.app()
        self.loop = loop
        self.read = 0
        """Bytes of bodies that were asked for."""

    def ask(
        self,
        method: str = "GET",
        path: str = "/healthz",
        headers: Any = (),
        *,
        query_string: bytes = b"",
        tail: str = "",
        body: bytes = b"",
        chunk: int = 1 << 30,
    ) -> tuple[int, dict[str, str]]:
        pairs = list(headers)
        if not any(name == b"host" for name, _value in pairs):
            pairs.append(HOST)
        if body and not any(name == b"content-type" for name, _value in pairs):
            pairs.append((b"content-type", b"application/x-www-form-urlencoded"))
        scope = {
            "type": "http",
            "method": method,
            "path": path + tail,
            "raw_path": (path + tail).encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": query_string,
            "headers": pairs,
            "client": ("127.0.0.1", 1),
            "server": ("127.0.0.1", 8484),
        }
        pieces = [body[start : start + chunk] for start in range(0, len(body), chunk)] or [b""]
        answer: dict[str, Any] = {}

        async def receive() -> dict[str, Any]:
            piece = pieces.pop(0)
            self.read += len(piece)
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                told = message["headers"]
                answer["headers"] = {name.decode(): value.decode() for name, value in told}
                answer["status"] = message["status"]

        self.loop.run_until_complete(self.app(scope, receive, send))
        return answer["status"], answer["headers"]


@pytest.fixture
def stranger() -> Iterator[Stranger]:
    loop = asyncio.new_event_loop()
    loop.set_default_executor(_Inline(1))
    with locked_server() as server:
        yield Stranger(server, loop)
    loop.close()


def every_address() -> list[tuple[str, str, bool]]:
    """Return method, path and whether no token is needed, of every route and of what is beside."""
    with locked_server() as server:
        found = [
            (route.method, route.path.replace("{agent}/{session}", "main/a"), route.is_open)
            for route in server._routes
        ]
    found += [
        (method, re.sub(r"{[^}]*}", "main", path), False)
        for path in endpoint_paths()
        for method in ("GET", "POST")
    ]
    return [*found, ("POST", "/mcp", False), ("GET", "/none", False), ("BREW", "/v1/x", False)]


ADDRESSES = every_address()
CASES = [
    *((*address[:2], shape) for address in ADDRESSES if address[2] for shape in HEADS),
    *sample(
        [(*address[:2], shape) for address in ADDRESSES if not address[2] for shape in HEADS],
        share=1 / 40,
    ),
]


def test_what_runs_before_authentication_is_linear(stranger: Stranger) -> None:
    """No head and no body of a stranger takes more than linear time, at any address."""
    for method, path, shape in CASES:
        make = HEADS[shape]

        def ask(size: int, method: str = method, path: str = path, make: Any = make) -> None:
            stranger.ask(method, path, **make(size))

        stranger.ask(method, path)  # what is made once for all, such as the document of the API
        is_steep = all(growth(ask) > RATIO_MAX for _ in range(3))
        assert not is_steep, (method, path, shape)


def test_every_address_refuses_a_stranger(stranger: Stranger) -> None:
    """Without a valid token, each address that is not open answers 401 with `WWW-Authenticate`."""
    for method, path, is_open in ADDRESSES:
        status, headers = stranger.ask(method, path)
        if path == "/readyz":
            assert status == 503  # open, and true: this server was never started
        elif is_open:
            assert status < 500, (method, path)
        elif path in ("/none", "/v1/x"):
            assert status in (404, 405)
        elif status != 303:  # a page leads to the form for the token
            assert (status, headers.get("www-authenticate")) == (401, "Bearer"), (method, path)


def test_the_number_of_headers_is_bounded(stranger: Stranger) -> None:
    """A request with more headers than that is refused, one with as many is answered."""
    extra = [(b"x%d" % number, b"") for number in range(HEADERS_MAX)]
    assert stranger.ask(headers=extra)[0] == 431
    assert stranger.ask(headers=extra[:-1])[0] == 200


def test_little_of_a_body_is_read_of_a_stranger(stranger: Stranger) -> None:
    """The body of a client without a token is not kept in memory: it gets 401 meanwhile."""
    body = b"x" * (20 * STRANGER_BODY_BYTES_MAX)
    for method, path, _is_open in ADDRESSES:
        stranger.read = 0
        status, headers = stranger.ask(method, path, body=body, chunk=1_000)
        assert (status, headers["connection"]) == (401, "close"), (method, path)
        assert stranger.read <= STRANGER_BODY_BYTES_MAX + 1_000
        stated = [(b"content-length", b"%d" % len(body))]
        stranger.read = 0
        assert stranger.ask(method, path, stated, body=body, chunk=1_000)[0] == 401
        assert stranger.read == 0


def test_a_link_from_another_site_opens_a_page(stranger: Stranger) -> None:
    """A person who follows a link is let in; all else that other sites send is refused."""

    def ask(method: str, site: str, mode: str, dest: str, *more: tuple[bytes, bytes]) -> int:
        told = {"sec-fetch-site": site, "sec-fetch-mode": mode, "sec-fetch-dest": dest}
        pairs = [(name.encode(), value.encode()) for name, value in told.items()]
        return stranger.ask(method, "/login", [*pairs, *more])[0]

    for site in ("cross-site", "same-site"):
        assert ask("GET", site, "navigate", "document") == 200
        assert ask("HEAD", site, "navigate", "document") == 200
        assert ask("POST", site, "navigate", "document") == 403
        assert ask("GET", site, "navigate", "document", (b"origin", b"http://x.example")) == 403
        for mode in ("cors", "no-cors", "navigate", "websocket", "same-origin"):
            for dest in ("iframe", "frame", "image", "script", "empty", "embed", "object"):
                assert ask("GET", site, mode, dest) == 403
