"""Bad requests over a real socket: each gets a clear 4xx, and none is stored or hurts the server.

Servers and clients usually refuse to send such bytes, so that they are written by hand.
"""

from __future__ import annotations

import json
import select
import socket
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.surfaces.http.real import ServeProcess, read_answer, request

from holdfast.engine.access_tokens import hash_token

if TYPE_CHECKING:
    from collections.abc import Iterator

SENT = "/v1/sessions/main/a/messages"
A = "/v1/sessions/main/a"
DEEP = b"[" * 900 + b"]" * 900
TOKENS = {"good": "tg" * 20, "old": "to" * 20, "reads": "tr" * 20}
SETTINGS = """
[server]
body_seconds = 3
head_seconds = 3
connections_max = 100
body_bytes_max = 100000
requests_burst = 100000
"""


def message(text: bytes) -> bytes:
    return b'{"content": ' + text + b"}"


CASES: dict[str, tuple[bytes, int]] = {
    "unknown route": (request("GET", "/v1/nothing"), 404),
    "unknown method": (request("BREW", A), 405),
    "method of another address": (request("POST", A, b"{}"), 405),
    "unknown field": (request("POST", SENT, b'{"content": "x", "colour": 1}'), 400),
    "unknown parameter": (request("GET", "/v1/sessions?colour=1"), 400),
    "parameter twice": (request("GET", "/v1/sessions?limit=1&limit=2"), 400),
    "cursor of lists": (request("GET", "/v1/sessions?cursor=WzEuMCwiXHUwMDAwIiwiYSJd"), 400),
    "cursor of history": (request("GET", f"{SENT}?cursor=zz"), 400),
    "no such session": (request("GET", "/v1/sessions/main/none"), 404),
    "session in short": (request("GET", "/v1/sessions/main/"), 404),
    "no such record": (request("GET", f"{A}/records/zz"), 404),
    "too large": (request("POST", SENT, message(b'"' + b"x" * 200_000 + b'"')), 413),
    "size of thousands of digits": (request("POST", SENT, Content_Length="9" * 5_000), 400),
    "negative size": (request("POST", SENT, Content_Length="-1"), 400),
    "not JSON": (request("POST", SENT, b"content=x"), 400),
    "not said to be JSON": (request("POST", SENT, message(b'"x"'), Content_Type="text/plain"), 415),
    "bad UTF-8": (request("POST", SENT, message(b'"\xff"')), 400),
    "half a surrogate": (request("POST", SENT, message(b'"\\ud800"')), 400),
    "half a surrogate inside": (request("POST", SENT, message(b'[{"type": "\\udfff"}]')), 400),
    "deep extra": (request("POST", SENT, b'{"content": "x", "extra": {"a": ' + DEEP + b"}}"), 400),
    "deep block": (request("POST", SENT, message(b'[{"type": "text", "a": ' + DEEP + b"}]")), 400),
    "deeper": (request("POST", SENT, message(b"[" * 40_000)), 400),
    "deep state": (request("POST", f"{A}/checkpoint", b'{"fields": {"a":' + DEEP + b"}}"), 400),
    "number without end": (request("POST", SENT, message(b"9" * 5_000)), 400),
    "infinity": (request("POST", SENT, b'{"content": "x", "extra": {"a": 1e999}}'), 400),
    "not a number": (request("POST", f"{SENT}?wait=nan", message(b'"x"')), 400),
    "nothing said": (request("POST", SENT, message(b"[]")), 400),
    "odd block": (request("POST", SENT, message(b'[{"type": 1}]')), 400),
    "key too long": (request("POST", SENT, message(b'"x"'), Idempotency_Key="k" * 5_000), 400),
    "key of another one": (request("POST", SENT, message(b'"other"'), Idempotency_Key="k"), 409),
    "body in a GET": (request("GET", A, b'{"a": 1}'), 400),
    "slow body": (request("POST", SENT, message(b'"x"'), Content_Length=1_000), 400),
    "giant header": (request("GET", "/healthz", X="a" * 200_000), 431),
    "giant address": (request("GET", "/" + "a" * 200_000), 431),
    "bytes in an address": (request("GET", "/v1/sessions/main/\xff"), 400),
    "bad UTF-8 in an address": (request("GET", "/v1/sessions/main/%ff%fe"), 404),
    "NUL in an address": (request("GET", "/v1/sessions/main/%00"), 404),
    "NUL in a record": (request("GET", f"{A}/records/%00"), 404),
    "NUL in the trash": (request("POST", "/v1/trash/%00/restore"), 404),
    "way up": (request("GET", "/v1/sessions/main/%2e%2e"), 404),
    "way up twice encoded": (request("GET", "/v1/sessions/main/%252e%252e%252fetc"), 404),
    "way up with slashes": (request("GET", "/v1/sessions/..%2f..%2fetc%2fpasswd/x"), 404),
    "way up to a note": (request("GET", "/v1/memory/passage?citation=../../etc/passwd"), 404),
    "way up in an output": (request("GET", f"{A}/outputs/..%2f..%2fx"), 404),
    "way up in the trash": (request("POST", "/v1/trash/%2e%2e/restore"), 404),
    "bad percent": (request("GET", "/v1/sessions/main/%zz"), 404),
    "no host": (b"GET /healthz HTTP/1.0\r\n\r\n", 421),
    "two hosts": (request("GET", "/healthz", host="localhost\r\nHost: evil.example"), 400),
    "host of another": (request("GET", "/healthz", host="evil.example"), 421),
    "host below ours": (request("GET", "/healthz", host="localhost.evil.example"), 421),
    "host with a user": (request("GET", "/healthz", host="evil@localhost"), 421),
    "host with a path": (request("GET", "/healthz", host="localhost/x"), 421),
    "host with a bad port": (request("GET", "/healthz", host="localhost:x"), 421),
    "host of half an IPv6": (request("GET", "/healthz", host="[::1"), 421),
    "host as a number": (request("GET", "/healthz", host="2130706433"), 421),
    "origin of another": (request("GET", "/healthz", Origin="https://evil.example"), 403),
    "origin of another port": (request("POST", f"{A}/cancel", Origin="http://localhost:3000"), 403),
    "origin below ours": (request("GET", "/healthz", Origin="http://localhost.evil.example"), 403),
    "origin with a user": (request("GET", "/healthz", Origin="http://evil@localhost"), 403),
    "origin null": (request("GET", "/healthz", Origin="null"), 403),
    "origin of half an IPv6": (request("GET", "/healthz", Origin="http://[::1"), 403),
    "another site": (request("GET", "/healthz", Sec_Fetch_Site="cross-site"), 403),
    "window below the floor": (request("GET", f"{A}/status?window=1"), 422),
    "window for nothing": (request("GET", f"{A}/context?window=1"), 422),
    "policy that is none": (request("GET", f"{A}/context?policy=%5B%5D"), 400),
    "chunks of no size": (request("POST", SENT, Transfer_Encoding="chunked") + b"zz\r\n", 400),
    "unknown coding": (request("POST", SENT, b"{}", Transfer_Encoding="gzip"), 400),
    "no HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", 400),
}  # fmt: skip
FINE = {
    "IPv6": request("GET", "/healthz", host="[::1]:8484"),
    "upper case": request("GET", "/healthz", host="LOCALHOST:99"),
    "own origin": request("GET", "/healthz", host="localhost:1", Origin="http://localhost:1"),
    "HEAD of a stream": request("HEAD", "/v1/events"),
    "session": request("GET", A),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServeProcess]:
    folder = tmp_path_factory.mktemp("serve")
    with ServeProcess(str(folder / "store"), SETTINGS, folder) as started:
        made = started.send(request("PUT", A, b'{"label": "x"}'))
        assert made[0] == 200
        first = request("POST", f"{SENT}?wait=60", message(b'"first"'), Idempotency_Key="k")
        assert started.send(first)[0] == 200
        yield started


def read(server: ServeProcess, path: str) -> Any:
    return json.loads(server.send(request("GET", path))[1])


@pytest.mark.files_only("it starts a process of its own on a folder")
def test_bad_requests_are_refused_clearly(server: ServeProcess) -> None:
    """The status fits, the answer says why, nothing is stored, and no traceback written."""
    before = read(server, A)["records"], read(server, "/v1/inbox")["counts"]
    wrong = {}
    for name, (data, status) in CASES.items():
        found, body = server.send(data)
        try:
            problem = json.loads(body)
            is_clear = problem["status"] == status and len(problem["detail"]) > 10
        except (KeyError, ValueError):
            is_clear = False
        if found != status or not is_clear:
            wrong[name] = (found, body[:300])
    assert wrong == {}
    for name, data in FINE.items():
        assert server.send(data)[0] == 200, name
    assert server.send(request("POST", SENT, message(b'"x"'), Content_Length=90), ends=True)[0] == 0
    assert (read(server, A)["records"], read(server, "/v1/inbox")["counts"]) == before
    assert "Traceback" not in server.log()
    assert {path: read(server, path)["status"] for path in ("/healthz", "/readyz")} == {
        "/healthz": "ok",
        "/readyz": "ok",
    }


@pytest.mark.files_only("it starts a process of its own on a folder")
def test_a_head_that_does_not_end_is_refused(server: ServeProcess) -> None:
    """Wherever it stops, and also where bytes keep coming, or come after another request. One that
    never began is closed without a word: a browser opens connections before it needs them."""
    head = request("GET", "/healthz", X="a" * 20)
    kept = request("GET", "/healthz").replace(b"Connection: close\r\n", b"")
    address = ("127.0.0.1", server.port)
    with ExitStack() as stack:
        opened = [
            stack.enter_context(socket.create_connection(address, timeout=30))
            for _place in range(len(head) // 3 + 2)
        ]
        for place, connection in enumerate(opened[:-2]):
            connection.sendall(head[: place * 3])
        silent, *stopped, after, dripping = opened
        after.sendall(kept)
        assert read_answer(after)[0] == 200
        after.sendall(head[:20])
        sent = 0
        while not select.select([dripping], [], [], 0.2)[0] and sent < 1_000:
            dripping.sendall(b"GET /" if not sent else b"a")
            sent += 1
        for connection in (*stopped, after, dripping):
            status, body = read_answer(connection)
            assert (status, json.loads(body)["status"]) == (408, 408)
            assert connection.recv(1) == b""
        assert sent > 1
        assert silent.recv(1) == b""
    assert server.send(request("GET", "/healthz"))[0] == 200


@pytest.mark.files_only("it starts a process of its own on a folder")
def test_too_many_connections_are_refused_clearly(server: ServeProcess) -> None:
    """With the time after which to come again; those that wait are not in the way for long."""
    address = ("127.0.0.1", server.port)
    with ExitStack() as stack:
        for _number in range(100):
            stack.enter_context(socket.create_connection(address, timeout=30))
        status, body = server.send(request("GET", "/healthz"))
        assert (status, json.loads(body)["status"]) == (503, 503)
    while server.send(request("GET", "/healthz"))[0] != 200:
        pass  # until the server has seen that they are gone


@pytest.mark.files_only("it starts a process of its own on a folder")
def test_every_name_is_checked(server: ServeProcess) -> None:
    """Wherever the document has the pattern of a name, another text is refused."""
    document = read(server, "/openapi.json")
    schemas = document["components"]["schemas"]
    taken, count = [], 0
    for path, operations in document["paths"].items():
        address = path.replace("{agent}", "main").replace("{session}", "a")
        for method, operation in operations.items():
            parts = [each["name"] for each in operation.get("parameters", ()) if is_name_of(each)]
            sent = [request(method.upper(), f"{address}?{name}=a%20b") for name in parts]
            for schema in bodies_of(operation, schemas):
                names = [name for name, each in schema["properties"].items() if is_name_of(each)]
                bodies = [json.dumps({name: "a b"}).encode() for name in names]
                sent += [request(method.upper(), address, body) for body in bodies]
            count += len(sent)
            taken += [data for data in sent if server.send(data)[0] != 400]
    assert taken == []
    assert count >= 4


def is_name_of(part: Any) -> bool:
    return part.get("in") != "path" and "^[A-Za-z0-9]" in json.dumps(part)


def bodies_of(operation: Any, schemas: Any) -> list[Any]:
    content = operation.get("requestBody", {}).get("content", {}).values()
    found = [each["schema"] for each in content]
    return [schemas[each["$ref"].rpartition("/")[2]] if "$ref" in each else each for each in found]


@pytest.mark.files_only("it starts a process of its own on a folder")
def test_a_server_with_open_streams_stops(tmp_path: Any) -> None:
    """Their clients reconnect to the next one: it does not wait for them to go."""
    settings = "[gateway]\ndrain_seconds = 3600.0"
    with ServeProcess(str(tmp_path / "store"), settings, tmp_path) as server, ExitStack() as stack:
        assert server.send(request("PUT", A, b'{"label": "x"}'))[0] == 200
        for path in ("/v1/events", f"{A}/events"):
            opened = socket.create_connection(("127.0.0.1", server.port), timeout=60)
            connection = stack.enter_context(opened)
            connection.sendall(request("GET", path))
            assert b"200 OK" in connection.recv(65536)
        assert server.stop() == 0


@pytest.mark.files_only("it starts a process of its own on a folder")
def test_tokens_that_do_not_fit_are_refused(tmp_path: Any) -> None:
    """No token, a wrong, an expired and a weaker one, and headers that are none."""
    rows = [
        f'[[tokens]]\nname = "{name}"\nsha256 = "{hash_token(token)}"\nowner = "ann"\n'
        f'scope = "{"read" if name == "reads" else "write"}"\n'
        + (f"expires = {time.time() - 1}\n" if name == "old" else "")
        for name, token in TOKENS.items()
    ]
    with ServeProcess(str(tmp_path / "store"), "\n".join(rows), tmp_path) as server:
        for header, reads, writes in [
            (None, 401, 401),
            ("Bearer", 401, 401),
            ("Bearer \xff", 401, 401),
            ("Basic eDp5", 401, 401),
            (f"Bearer {TOKENS['good']}x", 401, 401),
            (f"Bearer {TOKENS['old']}", 401, 401),
            (f"Bearer {TOKENS['reads']}", 200, 403),
            (f"bearer {TOKENS['good']}", 200, 200),
        ]:
            more: Any = {} if header is None else {"Authorization": header}
            assert server.send(request("GET", "/v1/sessions", **more))[0] == reads
            status, body = server.send(request("PUT", A, b'{"label": "x"}', **more))
            assert status == writes
            assert "hint" in json.loads(body) or status == 200
