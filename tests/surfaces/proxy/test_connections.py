"""Connections to upstreams: bodies as they were sent, whatever the framing and the packets."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples
from tests.surfaces.proxy.upstreams import RawUpstream

from holdfast.surfaces.proxy.connections import ConnectionPool
from holdfast.surfaces.proxy.upstream import Upstream, UpstreamClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable
    from pathlib import Path

    from holdfast.surfaces.proxy.connections import UpstreamConnection

    Answer = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

OK = b"HTTP/1.1 200 OK\r\n"


@asynccontextmanager
async def serving(answer: Answer, tls: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """A server that answers each connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await answer(reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls)
    port = server.sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}" if tls is None else f"https://localhost:{port}"
    finally:
        server.close()


async def head_of(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


async def read_all(connection: UpstreamConnection) -> bytes:
    parts = []
    while (piece := await connection.next_piece()) is not None:
        assert piece
        parts.append(piece)
    return b"".join(parts)


def make_pool(silent_seconds: float = 20.0) -> ConnectionPool:
    return ConnectionPool(connect_seconds=20.0, silent_seconds=silent_seconds)


def frame(parts: list[bytes], framing: str) -> bytes:
    body = b"".join(parts)
    if framing == "length":
        return OK + b"content-length: %d\r\n\r\n" % len(body) + body
    if framing == "close":
        return OK + b"connection: close\r\n\r\n" + body
    chunks = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts if part)
    early = b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
    return early + OK + b"transfer-encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


@examples(60)
@example([], "length", [1], [b"x"])
@example([b"data: 1\n\n", b"data: 2\n\n"], "chunked", [7], [])
@example([b"x" * 600_000], "close", [100_000], [b"y" * 300_000, b"", b"z"])
@example([b"x" * 600_000], "chunked", [65_536], [b"y"])
@given(
    st.lists(st.binary(max_size=2_000), max_size=6),
    st.sampled_from(["length", "close", "chunked"]),
    st.lists(st.integers(1, 5_000), min_size=1, max_size=4),
    st.lists(st.binary(max_size=2_000), max_size=4),
)
def test_bodies_arrive_as_they_were_sent(
    parts: list[bytes], framing: str, cuts: list[int], sent: list[bytes]
) -> None:
    """Both bodies are equal, however they are framed and cut; the connection is used again where
    the framing allows it."""
    got: list[bytes] = []
    connections: list[object] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while True:
            head = await head_of(reader)
            body = b""
            if b"chunked" in head:
                while size := int(await reader.readuntil(b"\r\n"), 16):
                    body += await reader.readexactly(size)
                    await reader.readexactly(2)
                await reader.readexactly(2)
            else:
                length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
                body = await reader.readexactly(int(length))
            got.append(body)
            data, at, number = frame(parts, framing), 0, 0
            while at < len(data):
                size = cuts[number % len(cuts)] if len(data) - at < 20_000 else 50_000
                writer.write(data[at : at + size])
                await writer.drain()
                at, number = at + size, number + 1
                if number < 20:
                    await asyncio.sleep(0)
            if framing == "close":
                return

    async def stream() -> AsyncIterator[bytes]:
        for piece in sent:
            yield piece

    async def play() -> None:
        pool = make_pool()
        async with serving(answer) as url:
            for body in (b"".join(sent), stream(), b"".join(sent)):
                origin, connection = await pool.ask("POST", f"{url}/v1/x?a=b", [], body)
                assert connection.status == 200
                assert await read_all(connection) == b"".join(parts)
                pool.give_back(origin, connection)
            pool.close()

    asyncio.run(play())
    assert got == [b"".join(sent)] * 3
    assert len(connections) == (3 if framing == "close" else 1)


@pytest.mark.parametrize(
    ("framing", "left_out", "came"), [("length", 2, b"onet"), ("chunked", 8, b"onetw")]
)
def test_a_body_that_breaks_off_is_an_error_after_what_came(
    framing: str, left_out: int, came: bytes
) -> None:
    """All that came is returned first, and never as if it were whole."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(frame([b"one", b"two"], framing)[:-left_out])

    async def play() -> None:
        got = b""
        async with serving(answer) as url:
            _, connection = await make_pool().ask("GET", url, [], b"")
            while len(got) < len(came):
                got += await connection.next_piece() or b""
            with pytest.raises(httpx2.HTTPError):
                await connection.next_piece()
            connection.close()
        assert got == came

    asyncio.run(play())


def test_an_answer_before_the_end_of_the_request_is_read() -> None:
    """A server may refuse a body that it has not read."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\n\r\nno")
        await writer.drain()
        await reader.read(1)
        await asyncio.sleep(0.2)

    async def endless() -> AsyncIterator[bytes]:
        while True:
            yield b"x" * 60_000
            await asyncio.sleep(0)

    async def play() -> None:
        pool = make_pool()
        async with serving(answer) as url:
            for body in (b"x" * 20_000_000, endless()):
                origin, connection = await pool.ask("POST", url, [], body)
                assert connection.status == 413
                assert await read_all(connection) == b"no"
                pool.give_back(origin, connection)
                assert connection.is_lost, "what was not read would stand before the next request"

    asyncio.run(play())


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", httpx2.RemoteProtocolError),
        (b"SSH-2.0-OpenSSH\r\n\r\n", httpx2.RemoteProtocolError),
        (OK + b"x-long: " + b"y" * 300_000, httpx2.RemoteProtocolError),
    ],
)
def test_what_is_no_answer_is_an_error(answer: bytes, error: type[Exception]) -> None:
    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(answer)

    async def play() -> None:
        async with serving(send) as url:
            with pytest.raises(error):
                await make_pool().ask("GET", url, [], b"")

    asyncio.run(play())


def test_a_silent_server_ends_the_wait() -> None:
    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(OK + b"content-length: 9\r\n\r\nhalf")
        await reader.read(1)

    async def play() -> None:
        async with serving(send) as url:
            _, connection = await make_pool(0.2).ask("GET", url, [], b"")
            assert await connection.next_piece() == b"half"
            with pytest.raises(httpx2.ReadTimeout):
                await connection.next_piece()
            connection.close()

    asyncio.run(play())


def test_a_slow_reader_holds_the_server_back() -> None:
    """An answer that nobody reads is kept in the server, not in memory."""
    sent = 0

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await head_of(reader)
        writer.write(OK + b"connection: close\r\n\r\n")
        while sent < 200_000_000:
            writer.write(b"x" * 100_000)
            await writer.drain()
            sent += 100_000

    async def play() -> None:
        async with serving(send) as url:
            _, connection = await make_pool().ask("GET", url, [], b"")
            before = -1
            while before != sent:  # until it stands still
                before = sent
                for _ in range(50):
                    await asyncio.sleep(0.002)
            assert 0 < sent < 100_000_000
            assert len(await connection.next_piece() or b"") < 2_000_000
            connection.close()

    asyncio.run(play())


def test_a_connection_that_the_server_closed_is_not_used_again() -> None:
    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(OK + b"content-length: 1\r\n\r\nx")

    async def play() -> None:
        pool = make_pool()
        async with serving(send) as url:
            for _ in range(5):
                origin, connection = await pool.ask("GET", url, [], b"")
                assert await read_all(connection) == b"x"
                pool.give_back(origin, connection)
                while not connection.is_lost:
                    await asyncio.sleep(0.001)

    asyncio.run(play())


def test_bodies_pass_over_tls_on_connections_that_are_used_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with the providers: a certificate that is trusted, large bodies, one connection."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("NOT TESTED: openssl is not installed")
    names = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    made = ["-newkey", "rsa:2048", "-nodes", "-keyout", "key.pem", "-out", "cert.pem", "-days", "1"]
    command = [openssl, "req", "-x509", *made, *names]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "cert.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    connections: list[object] = []

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        while True:
            head = await head_of(reader)
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            writer.write(frame([await reader.readexactly(int(length)), b"end"], "chunked"))
            await writer.drain()

    async def play() -> None:
        pool = make_pool()
        async with serving(echo, context) as url:
            for size in (10, 2_000_000, 1):
                body = b"x" * size
                origin, connection = await pool.ask("POST", f"{url}/v1", [], body)
                assert await read_all(connection) == body + b"end"
                pool.give_back(origin, connection)
            pool.close()

    asyncio.run(play())
    assert len(connections) == 1


def test_uvloop_serves_as_well() -> None:
    """It knows fewer options, and its transports are its own."""
    uvloop: Any = pytest.importorskip("uvloop", reason="NOT TESTED: uvloop is not installed")

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await head_of(reader)
        writer.write(OK + b"content-length: 1\r\n\r\nx")

    async def play() -> None:
        async with serving(send) as url:
            _, connection = await make_pool().ask("GET", url, [], b"")
            assert await read_all(connection) == b"x"
            connection.close()

    uvloop.run(play())


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Behind a company's proxy, requests go through it."""
    with RawUpstream([OK + b"content-length: 2\r\nconnection: close\r\n\r\nhi"]) as company:
        monkeypatch.setenv("HTTP_PROXY", company.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)

        async def play() -> bytes | None:
            async with UpstreamClient() as client:
                upstream = Upstream("x", "http://provider.example")
                reply = await client.send("POST", upstream, f"{upstream.url}/v1", [], b"{}")
                data = await reply.read()
                await reply.close()
                return data

        assert asyncio.run(play()) == b"hi"
        assert company.requests[0].line == b"POST http://provider.example/v1 HTTP/1.1"
        assert company.requests[0].body == b"{}"
