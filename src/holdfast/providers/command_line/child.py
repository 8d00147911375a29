"""A child process whose output is read line by line, within bounds of time and memory.

It leads a process group of its own, which is ended with it, so that a cancelled call leaves no
process behind. What it started and let go of may hold the pipe open for ever; reading ends soon
after the child itself has.
"""

from __future__ import annotations

import os
import selectors
import signal
import subprocess
import threading
import time
from contextlib import suppress
from typing import IO, TYPE_CHECKING, Final, Literal

from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

LINE_BYTES_MAX: Final = 32 * 1024 * 1024
"""A longer line is left out: agents write whole tool results as one line, and none is this long."""
STDERR_CHARS: Final = 4_000
"""Of the errors, their end: the reason for an exit stands there."""
_PIECE_BYTES: Final = 65_536
"""One read of a pipe: Linux buffers this much."""
_POLL_SECONDS: Final = 0.2
"""The longest time until an exit is noticed that left the pipe open."""
_EXIT_SECONDS: Final = 30.0
"""Time to exit after closing its output, and of those who hold its output open after its exit."""
_GRACE_SECONDS: Final = 5.0
"""Time to end after being asked: agents write their session files then."""

Ending = Literal["exit", "timeout", "stop"]
"""Why a child has ended: by itself, because its time was up, or because it was stopped."""


class ChildProcess:
    """A started program. Use it in a `with` block, which ends and reaps it."""

    def __init__(
        self,
        command: Sequence[str],
        said: bytes,
        *,
        folder: str | None,
        environment: Mapping[str, str],
        timeout: float,
    ) -> None:
        self.ending: Ending = "exit"
        self.long_lines = 0
        """Lines that were left out for their length."""
        self._until = time.monotonic() + timeout
        self._wake_reader, self._wake = os.pipe()
        self._guard = threading.Lock()
        self._is_closed = False
        self._is_read = False
        """True once its output has ended."""
        self._errors = b""
        self._pipes: tuple[IO[bytes], ...] = ()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                cwd=folder,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            self._close_pipes()
            raise BadSetting(
                f"`{command[0]}` cannot be started: {error}",
                hint="install it, give its path (`cli:/path/to/program`), or check the folder",
            ) from error
        pipes = (self._process.stdin, self._process.stdout, self._process.stderr)
        self._pipes = tuple(pipe for pipe in pipes if pipe is not None)
        self._input, self._output, self._error_output = (pipe.fileno() for pipe in self._pipes)
        self._said = memoryview(said)
        for pipe in (self._input, self._error_output):
            os.set_blocking(pipe, False)

    def __enter__(self) -> ChildProcess:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def stop(self) -> None:
        """End the child, from any thread; its lines end soon."""
        with self._guard:
            if not self._is_closed:
                os.write(self._wake, b"x")

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of its output, without their ends, until it has ended."""
        rest = bytearray()
        is_skipping = False
        for piece in self._pieces():
            *whole, last = piece.split(b"\n")
            for part in whole:
                rest += part
                if is_skipping or len(rest) > LINE_BYTES_MAX:
                    self.long_lines += not is_skipping
                    is_skipping = False
                else:
                    yield bytes(rest)
                rest.clear()
            rest += last
            if len(rest) > LINE_BYTES_MAX:
                self.long_lines += not is_skipping
                is_skipping = True
                rest.clear()
        if rest and not is_skipping:
            yield bytes(rest)

    def end(self) -> int:
        """End and reap the child, if it runs, and return its exit code."""
        code = self._process.poll()
        if code is None and self._is_read:
            with suppress(subprocess.TimeoutExpired):
                code = self._process.wait(_EXIT_SECONDS)
        if code is None:
            self.ending = self.ending if self.ending == "timeout" else "stop"
            self._signal(signal.SIGTERM)
            try:
                self._process.wait(_GRACE_SECONDS)
            except subprocess.TimeoutExpired:
                self._signal(signal.SIGKILL)
            code = self._process.wait()
        if self.ending != "exit":
            self._signal(signal.SIGKILL)  # what it started and did not end
        if not self._is_closed:
            self._read_errors()
        self._close_pipes()
        return code

    @property
    def errors(self) -> str:
        """The end of what it wrote to its errors."""
        return self._errors.decode(errors="replace")[-STDERR_CHARS:].strip()

    def _pieces(self) -> Iterator[bytes]:
        """Yield the output as it comes, while the input is written and errors are read."""
        ended: float | None = None
        with selectors.DefaultSelector() as selector:
            selector.register(self._input, selectors.EVENT_WRITE)
            for pipe in (self._output, self._error_output, self._wake_reader):
                selector.register(pipe, selectors.EVENT_READ)
            while True:
                left = self._until - time.monotonic()
                ready = {key.fd for key, _ in selector.select(max(0.0, min(left, _POLL_SECONDS)))}
                if self._wake_reader in ready or left <= 0:
                    self.ending = "timeout" if left <= 0 else "stop"
                    return
                if self._input in ready and self._write():
                    selector.unregister(self._input)
                    self._pipes[0].close()
                if self._error_output in ready and self._read_errors():
                    selector.unregister(self._error_output)
                piece = os.read(self._output, _PIECE_BYTES) if self._output in ready else b""
                if piece:
                    yield piece
                is_over = not ready and ended is not None
                if is_over or (self._output in ready and not piece) or self._is_late(ended):
                    self._is_read = True
                    return
                if ended is None and self._process.poll() is not None:
                    ended = time.monotonic()

    @staticmethod
    def _is_late(ended: float | None) -> bool:
        return ended is not None and time.monotonic() - ended > _EXIT_SECONDS

    def _write(self) -> bool:
        """Write a piece of the input; True once all of it is written, or the child wants no more:
        its exit tells why."""
        try:
            self._said = self._said[os.write(self._input, self._said[:_PIECE_BYTES]) :]
        except BlockingIOError:
            return False
        except OSError:
            return True
        return not self._said

    def _read_errors(self) -> bool:
        """Read the errors that have come; True where there will be no more."""
        with suppress(BlockingIOError):
            while piece := os.read(self._error_output, _PIECE_BYTES):
                self._errors = (self._errors + piece)[-4 * STDERR_CHARS :]
            return True
        return False

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, number)

    def _close_pipes(self) -> None:
        with self._guard:
            if self._is_closed:
                return
            self._is_closed = True
            os.close(self._wake)
            os.close(self._wake_reader)
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.close()
