"""The command line as a program sees it: arguments and bytes in, status and bytes out."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.surfaces.cli import main

if TYPE_CHECKING:
    from pathlib import Path


@dataclass(frozen=True)
class Result:
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


class Cli:
    """Runs commands on one root."""

    def __init__(self, root: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capture = capture

    def __call__(self, *args: str, stdin: bytes = b"") -> Result:
        """Run a command in this process, with real descriptors for its input and output."""
        reading, writing = os.pipe()
        kept_stdin = sys.stdin
        try:
            os.write(writing, stdin)
            os.close(writing)
            with os.fdopen(reading) as sys.stdin:
                status = self._status([*args, "--root", str(self.root)])
        finally:
            sys.stdin = kept_stdin
        captured = self._capture.readouterr()
        return Result(status, captured.out, captured.err)

    def log_file(self, session: str) -> Path:
        return self.root / "agents" / "main" / "sessions" / f"{session}.jsonl"

    @staticmethod
    def _status(args: list[str]) -> int:
        try:
            return main(args)
        except SystemExit as stop:
            return int(stop.code or 0)


@pytest.fixture
def cli(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path / "root", capfd)
