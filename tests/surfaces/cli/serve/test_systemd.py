"""What a service manager is told: by a real process, over a real datagram socket."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

import pytest

from holdfast.config import service_manager
from holdfast.surfaces.cli.serve.systemd import ServiceManager

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).parents[4]
UNIT = REPOSITORY / "deploy" / "holdfast.service"


@contextmanager
def listening() -> Iterator[tuple[str, socket.socket]]:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with tempfile.TemporaryDirectory() as folder, made:
        path = f"{folder}/notify"
        made.bind(path)
        made.settimeout(60)
        yield path, made


def test_a_server_tells_systemd_how_it_is(tmp_path: Path) -> None:
    """READY when a turn would be answered, signs of life, RELOADING and READY around a reload that
    is refused as well as one that is not, STOPPING at the end. Its children do not inherit it."""
    settings = tmp_path / "serve.toml"
    settings.write_text("")
    with listening() as (path, manager):
        command = [sys.executable, "-m", "holdfast", "serve", "--root", str(tmp_path / "root")]
        process = subprocess.Popen(
            [*command, "--port", "0", "--json", "--config", str(settings)],
            env={**os.environ, "NOTIFY_SOCKET": path, "WATCHDOG_USEC": "400000"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["listening"]
            assert manager.recv(4_096).decode().startswith("READY=1\n")
            assert urlopen(f"{url}/readyz", timeout=60).status == 200
            for _ in range(3):
                assert manager.recv(4_096) == b"WATCHDOG=1"
            for text, status in (("[server]\nport = 'x'\n", "refused"), ("", "reloaded")):
                settings.write_text(text)
                process.send_signal(signal.SIGHUP)
                said = _news(manager, 2)
                assert said[0].startswith("RELOADING=1\nMONOTONIC_USEC=")
                assert said[1].startswith("READY=1\nSTATUS=settings: ")
                assert status in said[1]
            process.terminate()
            assert _news(manager, 1) == ["STOPPING=1"]
            assert process.wait(60) == 0
        finally:
            process.kill()
            process.communicate()


def _news(manager: socket.socket, number: int) -> list[str]:
    found: list[str] = []
    while len(found) < number:
        said = manager.recv(4_096).decode()
        found += [said] if said != "WATCHDOG=1" else []
    return found


def test_the_environment_says_who_is_told() -> None:
    """Only the process that is meant sends signs of life, and none that it starts is told."""
    pid = str(os.getpid())
    for given, seconds in (
        ({"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": pid}, 60.0),
        ({"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "60000000"}, 60.0),
        ({"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "60000000", "WATCHDOG_PID": "1"}, 0.0),
        ({"NOTIFY_SOCKET": "/run/x", "WATCHDOG_USEC": "soon"}, 0.0),
        ({"NOTIFY_SOCKET": "/run/x"}, 0.0),
    ):
        environ = {**given, "HOME": "/root"}
        found: Any = service_manager(environ)
        assert (found.socket, found.watchdog_seconds) == ("/run/x", seconds)
        assert environ == {"HOME": "/root"}
    assert service_manager({"WATCHDOG_USEC": "60000000"}) is None


def test_a_manager_that_is_gone_hurts_nobody(caplog: pytest.LogCaptureFixture) -> None:
    ServiceManager("/none/of/this").say_ready()
    assert "cannot tell the service manager" in caplog.text


def test_an_abstract_socket_is_reached() -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(f"\0holdfast-{os.getpid()}")
        ServiceManager(f"@holdfast-{os.getpid()}").say_ready("two\nlines")
        assert manager.recv(4_096) == b"READY=1\nSTATUS=two lines"


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    """Every key is one that systemd knows, and the command is one that we know."""
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed: apt install systemd")
    unit = UNIT.read_text()
    command = next(line for line in unit.splitlines() if line.startswith("ExecStart="))
    program, *words = command.partition("=")[2].split()
    assert program == "/opt/holdfast/bin/holdfast"
    asked = [sys.executable, "-m", "holdfast", *words, "--help"]
    assert subprocess.run(asked, capture_output=True, check=False).returncode == 0
    tried = tmp_path / UNIT.name
    tried.write_text(unit.replace(program, "/bin/true").replace("User=holdfast", "User=root"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tried)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    tried.write_text(tried.read_text().replace("Type=notify", "Type=notify\nWatchdog=60"))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(tried)], capture_output=True, text=True, check=False
    )
    assert "Watchdog" in done.stderr
