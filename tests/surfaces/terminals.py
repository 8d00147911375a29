"""A real pseudo-terminal with a real `holdfast` in it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from typing import TYPE_CHECKING

from tests.support.processes import COMMAND_ENVIRONMENT

if TYPE_CHECKING:
    from pathlib import Path
    from typing import Self

_ESCAPES = re.compile(rb"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07]*\x07|\x1b[@-Z\\-_=>]|\r")
_WHERE = b"\x1b[6n"
_PATIENCE_SECONDS = 60.0


class Terminal:
    """What a person would see and type. Use it as a context manager."""

    def __init__(self, *command: str, folder: Path, **environment: str) -> None:
        self._command = command or (sys.executable, "-m", "holdfast", "chat")
        self._folder = folder
        self._environment = environment
        self._seen = b""
        self._mark = 0
        self.status: int | None = None

    def __enter__(self) -> Self:
        self._fd, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 110, 0, 0))
        self._process = subprocess.Popen(
            self._command,
            stdin=other,
            stdout=other,
            stderr=other,
            cwd=self._folder,
            start_new_session=True,
            preexec_fn=_take_terminal,
            env={
                "PATH": "/usr/bin:/bin",
                "TERM": "xterm-256color",
                **COMMAND_ENVIRONMENT,
                **self._environment,
            },
        )
        os.close(other)
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        os.close(self._fd)

    @property
    def text(self) -> str:
        """Everything that was shown so far, without colours and movements."""
        return _ESCAPES.sub(b"", self._seen).decode(errors="replace")

    @property
    def raw(self) -> bytes:
        return self._seen

    def send(self, text: str) -> None:
        """Type something."""
        self._mark = len(self.text)
        os.write(self._fd, text.encode())

    def wait_for(self, words: str, *, anew: bool = True) -> str:
        """Wait until something is shown after what was typed last; gives what was."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while words not in (shown := self.text[self._mark if anew else 0 :]):
            if time.monotonic() > until or not self._read():
                raise AssertionError(f"{words!r} was not shown; what was: {self.text}")
        return shown

    def wait_for_end(self) -> int:
        """Wait until the program ends; gives its exit status."""
        until = time.monotonic() + _PATIENCE_SECONDS
        while self._read():
            assert time.monotonic() < until, self.text
        return self._process.wait(_PATIENCE_SECONDS)

    def _read(self) -> bool:
        """Take in what is shown; whether there may be more."""
        ready, _, _ = select.select([self._fd], [], [], 1.0)
        if not ready:
            return self._process.poll() is None
        try:
            data = os.read(self._fd, 65_536)
        except OSError:  # the other side is closed
            return False
        for _ in range(data.count(_WHERE)):
            os.write(self._fd, b"\x1b[20;1R")  # a terminal says where its cursor is
        self._seen += data
        return bool(data)


def _take_terminal() -> None:
    """The new process gets its signals from this terminal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
