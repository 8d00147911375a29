"""The command line as a program sees it: arguments and bytes in, status and bytes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.cli import Result, run_in_process
from tests.surfaces.chats import Seat

from holdfast.core.log.ids import SessionKey
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Cli", "Result", "cli"]


class Cli:
    """Runs commands on one root."""

    def __init__(self, root: Path, capture: pytest.CaptureFixture[str]) -> None:
        self.root = root
        self._capture = capture

    def __call__(self, *args: str, stdin: bytes = b"") -> Result:
        """Run a command in this process."""
        return run_in_process([*args, "--root", str(self.root)], self._capture, stdin)

    def log(self, session: str) -> bytes:
        """Return the bytes of a session's log, from any store."""
        with JsonlStore(self.root) as store:
            return b"".join(store.export(SessionKey("main", session)))

    def log_file(self, session: str) -> Path:
        return self.root / "agents" / "main" / "sessions" / f"{session}.jsonl"


@pytest.fixture(autouse=True)
def every_seat_is_closed() -> Iterator[None]:
    """Close the stores of the chats that a test opened."""
    yield
    while Seat.opened:
        Seat.opened.pop().store.close()


@pytest.fixture
def cli(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> Cli:
    return Cli(tmp_path / "root", capfd)
