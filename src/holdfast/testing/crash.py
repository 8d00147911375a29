"""A writer that can be killed at any moment, and what it had acknowledged by then.

    with KillableWriter(root, key) as writer:
        writer.wait_for(20)
        acknowledged = writer.kill()

The child is a Python process of its own. It appends turns to the session without a pause, single
records and batches in turn, and says what it has done on a pipe after each append has returned. So
whatever `kill` returns must be in the log, in this order, and the last append may be there too.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Final, Self

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Record, ToolResult, User
from holdfast.ports import ANY_HEAD
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH_FIELD: Final = "append"
"""The field of each record that numbers the append it was part of, from 0, and"""
SIZE_FIELD: Final = "records"
"""the one that says how many records that append has."""
_CODE: Final = "from holdfast.testing.crash import main; main()"
_LARGE_CHARS: Final = 500_000
"""Large enough that a write of it can be cut in several places."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """One append that returned: its number, and the ids of its records."""

    append: int
    """The number of the append."""
    ids: tuple[str, ...]
    """The ids of its records."""


class KillableWriter:
    """A child process that appends to a session until it is killed."""

    def __init__(
        self, root: str | os.PathLike[str], key: SessionKey, *, seed: int = 0, first: int = 0
    ) -> None:
        """`seed` chooses the sizes of what is written; `first` numbers the first append."""
        arguments = [os.fspath(root), key.agent, key.session, str(seed), str(first)]
        self.acknowledged: list[Acknowledged] = []
        self._process = subprocess.Popen(
            [sys.executable, "-c", _CODE, *arguments], stdout=subprocess.PIPE
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_for(self, appends: int) -> None:
        """Wait until that many appends are acknowledged."""
        while len(self.acknowledged) < appends:
            assert self._process.stdout is not None
            line = self._process.stdout.readline()
            assert line, f"the writer ended by itself with status {self._process.wait()}"
            self._take(line)

    def kill(self) -> list[Acknowledged]:
        """SIGKILL. Returns everything that was acknowledged before it."""
        if self._process.returncode is None:
            self._process.kill()
            rest, _ = self._process.communicate()
            for line in rest.splitlines(keepends=True):
                if line.endswith(b"\n"):
                    self._take(line)
        return self.acknowledged

    def _take(self, line: bytes) -> None:
        said = json.loads(line)
        self.acknowledged.append(Acknowledged(said["append"], tuple(said["ids"])))


def kill_at_random(
    root: str | os.PathLike[str], key: SessionKey, *, seed: int, first: int = 0
) -> list[Acknowledged]:
    """Let a writer work for a random while, kill it, and return what it had acknowledged."""
    chance = random.Random(seed)  # noqa: S311 - a seeded choice, no secret
    with KillableWriter(root, key, seed=seed, first=first) as writer:
        writer.wait_for(chance.randrange(12))
        time.sleep(chance.uniform(0, 0.004))
        return writer.kill()


def appends(seed: int, first: int) -> Iterator[list[Record]]:
    """Yield what the child appends, without end: a user's message, then a reply with its
    results."""
    chance = random.Random(seed)  # noqa: S311 - a seeded choice, no secret
    for number in count(first):
        is_large = chance.random() < 0.2
        text = f"append {number} " + "x" * chance.randrange(_LARGE_CHARS if is_large else 400)
        size = 1 if number % 2 == 0 else chance.randrange(2, 7)
        extra = {BATCH_FIELD: number, SIZE_FIELD: size}
        if size == 1:
            yield [User(content=text, extra=extra)]
            continue
        calls = [{"type": "tool_use", "id": f"{number}-{n}", "name": "ls"} for n in range(1, size)]
        results = [ToolResult(tool_use_id=f"{number}-{n}", extra=extra) for n in range(1, size)]
        reply = [{"type": "text", "text": text}, *calls]
        yield [Assistant(content=reply, extra=extra), *results]


def main() -> None:
    """The child: append until killed."""
    root, agent, session, seed, first = sys.argv[1:]
    key = SessionKey(agent, session)
    with JsonlStore(root) as store:
        for number, records in enumerate(appends(int(seed), int(first)), int(first)):
            done = store.append(key, records, expect=ANY_HEAD)
            said = {"append": number, "ids": done.ids}
            os.write(sys.stdout.fileno(), json.dumps(said).encode() + b"\n")
