"""Run `holdfast` in this process: a started one costs its imports every time."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.surfaces.cli import main

if TYPE_CHECKING:
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
        with os.fdopen(reading) as sys.stdin:
            status = _status(args)
    finally:
        sys.stdin = kept_stdin
    captured = capture.readouterr()
    return Result(status, captured.out, captured.err)


def _status(args: list[str]) -> int:
    try:
        return main(args)
    except SystemExit as stop:
        return int(stop.code or 0)
