"""A real server behind TLS and behind a unix socket, by its settings."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import stat
import subprocess
import sys
import tempfile
from contextlib import ExitStack, closing, contextmanager
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import h11
import pytest
from tests.support.certificates import write_certificate

from holdfast.errors import BadSetting
from holdfast.surfaces.listening import _Connection, unix_socket
from holdfast.surfaces.serve_settings import load_settings

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def serve(root: Path, settings: Path, *more: str) -> Iterator[tuple[Any, str]]:
    command = [sys.executable, "-m", "holdfast", "serve", "--root", str(root), "--json", *more]
    process = subprocess.Popen(
        [*command, "--config", str(settings)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()
        yield process, json.loads(line)["listening"]
    finally:
        process.kill()
        process.communicate()


def ask(connection: http.client.HTTPConnection, path: str) -> Any:
    connection.request("GET", path)
    return json.load(connection.getresponse())


def who_serves(port: int, trusted: Path) -> str:
    """Return the name in the certificate of the server, which a client trusts."""
    context = ssl.create_default_context(cafile=str(trusted))
    with (
        socket.create_connection(("127.0.0.1", port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as connection,
    ):
        found: Any = connection.getpeercert()
        return str(found["subject"][0][0][1])


@pytest.mark.files_only("a process of its own uses the folder")
def test_a_server_speaks_tls_and_takes_a_new_certificate_while_it_runs(tmp_path: Path) -> None:
    """A client that trusts its certificate gets an answer, one that does not gets none, nor one
    without TLS. After SIGHUP new connections have the new certificate, and a broken one is refused
    and changes nothing."""
    certificate, key = write_certificate(tmp_path, "first")
    other, other_key = write_certificate(tmp_path, "second")
    settings = tmp_path / "serve.toml"
    named = f'certificate = "{certificate}"\ncertificate_key = "{key}"\n'
    settings.write_text(f"[server]\n{named}")
    with ExitStack() as stack:
        process, url = stack.enter_context(serve(tmp_path / "root", settings, "--port", "0"))
        assert url.startswith("https://127.0.0.1:")
        port = int(url.rsplit(":", 1)[1])
        context = ssl.create_default_context(cafile=str(certificate))
        held = stack.enter_context(
            closing(http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=60))
        )
        assert ask(held, "/healthz")["status"] == "ok"
        assert who_serves(port, certificate) == "first"
        with pytest.raises(ssl.SSLCertVerificationError):
            who_serves(port, other)
        plain = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        with closing(plain), pytest.raises((http.client.HTTPException, ConnectionError)):
            ask(plain, "/healthz")
        broken = key.read_bytes()
        key.write_bytes(other_key.read_bytes())
        process.send_signal(signal.SIGHUP)
        line = process.stderr.readline()
        while "not reloaded" not in line:
            line = process.stderr.readline()
        assert str(certificate) in line
        assert who_serves(port, certificate) == "first"
        certificate.write_bytes(other.read_bytes())
        process.send_signal(signal.SIGHUP)
        while "were reloaded" not in process.stderr.readline():
            pass
        assert who_serves(port, other) == "second"
        assert ask(held, "/healthz")["status"] == "ok", "an open connection goes on"
        assert broken != key.read_bytes()


@pytest.mark.files_only("a process of its own uses the folder")
def test_a_server_listens_at_a_unix_socket(tmp_path: Path) -> None:
    """It answers there, only its user and group may connect, and the socket goes with it. What a
    killed server left is replaced; a second server is refused while one listens."""
    with tempfile.TemporaryDirectory() as folder:  # such a path has at most 107 characters
        path = Path(folder) / "http.sock"
        settings = tmp_path / "serve.toml"
        settings.write_text(f'[server]\nsocket = "{path}"\n')
        for end in (signal.SIGKILL, signal.SIGTERM):
            with serve(tmp_path / "root", settings) as (process, url):
                assert url == f"unix:{path}"
                assert stat.S_IMODE(path.stat().st_mode) == 0o660
                connection = http.client.HTTPConnection("localhost", timeout=60)
                with closing(connection), socket.socket(socket.AF_UNIX) as connection.sock:
                    connection.sock.connect(str(path))
                    assert ask(connection, "/v1/sessions")["sessions"] == []
                with pytest.raises(BadSetting, match="another program listens"):
                    unix_socket(str(path), 0o600).__enter__()
                process.send_signal(end)
                process.wait(60)
            assert path.exists() == (end == signal.SIGKILL)


def test_a_path_that_is_no_socket_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for path in (file, tmp_path / "none" / "http.sock"):
        with pytest.raises(BadSetting, match="cannot listen at"):
            unix_socket(str(path), 0o600).__enter__()
    assert file.read_text() == "mine"


def test_settings_of_tls_are_whole(tmp_path: Path) -> None:
    """Both files, which belong together: else the server says which it cannot use."""
    certificate, key = write_certificate(tmp_path, "first")
    _other, other_key = write_certificate(tmp_path, "second")
    settings = tmp_path / "serve.toml"
    for given, problem in (
        (f'certificate = "{certificate}"', "takes two files"),
        (f'certificate = "{certificate}"\ncertificate_key = "{other_key}"', "cannot use"),
        (f'certificate = "{tmp_path}/none"\ncertificate_key = "{key}"', "No such file"),
        (f'certificate = "{settings}"\ncertificate_key = "{key}"', "cannot use"),
    ):
        settings.write_text(f"[server]\n{given}\n")
        with pytest.raises(BadSetting, match=problem):
            load_settings(str(settings)).check()
    assert os.path.isfile(certificate)


def test_headers_are_those_of_h11() -> None:
    """An answer has the headers that h11 gives it, whatever is asked and answered; what no header
    may be is refused."""
    asked = product(
        (b"GET", b"HEAD", b"POST"), (b"1.0", b"1.1"), (b"", b"connection: close\r\n"), (200, 204)
    )
    given = [
        [],
        [(b"content-length", b"0")],
        [(b"X-One", b"1"), (b"Transfer-Encoding", b"chunked"), (b"x-two", b"2")],
        [(b"connection", b"close"), (b"x-one", b"1"), (b"x-one", b"2")],
    ]
    for (method, version, close, status), headers in product(asked, given):
        head = b"%s / HTTP/%s\r\nhost: a\r\n%s\r\n" % (method, version, close)
        sent = []
        for connection in (h11.Connection(h11.SERVER), _Connection(65_536)):
            connection.receive_data(head)
            connection.next_event()
            answer = h11.Response(status_code=status, headers=headers)
            first, *lines = (connection.send(answer) or b"").split(b"\r\n")
            sent.append((first, sorted(lines)))
        assert sent[0] == sent[1], (head, status, headers)
    with pytest.raises(h11.LocalProtocolError):
        h11.Response(status_code=200, headers=[(b"x-one", b"1\r\nx-two: 2")])
