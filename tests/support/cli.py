"""Run `holdfast` in this process: a started one costs its imports every time."""

from __future__ import annotations

import json
import logging
import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.surfaces.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest


@dataclass(frozen=True)
class Result:
    """What a command left behind."""

    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def run_in_process(
    args: list[str], capture: pytest.CaptureFixture[str], stdin: bytes = b""
) -> Result:
    """Run a command with real descriptors for its input and output."""
    reading, writing = os.pipe()
    kept_stdin = sys.stdin
    try:
        os.write(writing, stdin)
        os.close(writing)
        with os.fdopen(reading) as sys.stdin, _log_as_before():
            status = _status(args)
    finally:
        sys.stdin = kept_stdin
    captured = capture.readouterr()
    return Result(status, captured.out, captured.err)


@contextmanager
def _log_as_before() -> Iterator[None]:
    """Undo what a command does to the log of this process: its handler writes to a stream that the
    test closes, and every later line would be an error with its stack."""
    log = logging.getLogger("holdfast")
    before = log.handlers, log.level, log.propagate, log.disabled
    try:
        yield
    finally:
        log.handlers, level, log.propagate, log.disabled = before
        log.setLevel(level)


def _status(args: list[str]) -> int:
    try:
        return main(args)
    except SystemExit as stop:
        return int(stop.code or 0)
