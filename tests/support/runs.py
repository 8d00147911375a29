"""How much a test run does: `quick`, `test` or `nightly`, from HOLDFAST_TESTS.

`make quick`, `make test` and `make nightly` set it; pytest alone means `test`, with all tests of
the slow files. `make test` runs some of those (`--slow sample`), `make slow` the others
(`--slow rest`).
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections import defaultdict
from fnmatch import fnmatch
from heapq import nsmallest
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from hypothesis import settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

T = TypeVar("T")

TESTS = Path(__file__).parents[1]

EXAMPLES = {"quick": 5, "test": 8, "nightly": 1_000}
"""Examples of a property in each run, of 100 that it stands for."""

SLOW_SHARE = 1 / 8
"""Of the tests of slow files in each folder, those of `make test`; `make slow` runs the others."""

SLOW_FILES = (
    "core/failures/test_classify_unseen.py",
    "engine/gateway/test_open_sessions.py",
    "engine/memory/test_vectors.py",
    "engine/proxy/test_fitting*.py",
    "engine/session/test_local_weights.py",
    "engine/session/test_real_*.py",
    "engine/session/test_session_background.py",
    "engine/simulation/*.py",
    "engine/spending/test_meter_kills.py",
    "engine/test_every_prefix.py",
    "importers/common/test_harness.py",
    "importers/test_real_transcripts.py",
    "integrations/test_lives.py",
    "integrations/test_round_trips.py",
    "lives/test_*lives.py",
    "providers/command_line/test_model.py",
    "providers/test_clients.py",
    "providers/test_embeddings.py",
    "providers/test_failures.py",
    "providers/test_local.py",
    "simulation/*.py",
    "stores/test_copying_sessions.py",
    "stores/jsonl/test_bounded_memory.py",
    "stores/jsonl/test_log_costs.py",
    "stores/jsonl/test_many_writers.py",
    "stores/notes/test_notes.py",
    "stores/postgres/*.py",
    "stores/test_damage.py",
    "stores/test_first_release.py",
    "surfaces/cli/test_adopt_first_turn.py",
    "surfaces/cli/chat/test_terminal.py",
    "surfaces/cli/test_help_completion.py",
    "surfaces/cli/demo/*.py",
    "surfaces/cli/test_evaluate*.py",
    "surfaces/cli/inspect/test_inspect.py",
    "surfaces/cli/test_mcp.py",
    "surfaces/cli/test_proxy*.py",
    "surfaces/cli/serve/*.py",
    "surfaces/cli/test_telegram*.py",
    "surfaces/console/test_browser.py",
    "surfaces/console/test_console.py",
    "surfaces/http/test_bad_input.py",
    "surfaces/http/test_kills.py",
    "surfaces/http/test_owners.py",
    "surfaces/http/test_schema.py",
    "surfaces/mcp/*.py",
    "surfaces/proxy/*.py",
    "surfaces/telegram/test_api.py",
    "surfaces/telegram/test_channel_long_chat.py",
    "surfaces/test_any_log.py",
    "surfaces/test_every_number.py",
    "surfaces/test_every_store.py",
    "surfaces/test_leaks.py",
    "surfaces/test_owners_commands.py",
    "engine/workspace/test_request_preview.py",
    "test_contributing.py",
    "test_demo_postgres.py",
    "test_docs.py",
    "test_examples.py",
    "test_linear.py",
    "test_deploy.py",
    "test_public_api.py",
    "test_pytest_plugin.py",
    "test_startup.py",
    "test_typescript_client.py",
    "testing/test_loopback*.py",
    "testing/test_recorder.py",
)
"""Real processes, servers, browsers and transcripts, and the SDKs, slow to import: left out of the
quick run, with the examples, each of which is a process."""

RUN = os.environ.get("HOLDFAST_TESTS", "test")
if RUN not in EXAMPLES:
    raise ValueError(f"HOLDFAST_TESTS is {RUN!r}; it can be one of {', '.join(EXAMPLES)}")


ROOM = 4 * 1024**3
"""Bytes that the files of a run may take: many times what they do."""


def has_room(folder: str) -> bool:
    """Return True where the files of a run fit into a folder."""
    try:
        return os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > ROOM
    except OSError:
        return False


def is_whole() -> bool:
    """Return True where every case runs, and no sample."""
    return RUN == "nightly"


def examples(count: int) -> settings:
    """Settings of a property that stands for `count` examples instead of 100."""
    return settings(max_examples=max(1, count * EXAMPLES[RUN] // 100))


def sample(
    items: Iterable[T],
    *,
    share: float,
    name: Callable[[T], str] = str,
    kind: Callable[[T], object] = lambda _: None,
) -> list[T]:
    """Return the share of each kind whose names hash lowest, in their order; `nightly`: all.

    Each kind keeps at least one. A name alone decides, so the sample is the same on every machine,
    and a new item can only replace one of its own kind.
    """
    every = list(items)
    if is_whole():
        return every
    names = [name(item) for item in every]
    kinds: dict[object, list[str]] = defaultdict(list)
    for item, named in zip(every, names, strict=True):
        kinds[kind(item)].append(named)
    chosen: set[str] = set()
    for members in kinds.values():
        chosen.update(nsmallest(ceil(share * len(members)), members, key=_rank))
    return [item for item, named in zip(every, names, strict=True) if named in chosen]


def is_slow(path: Path) -> bool:
    """Return True for one of the slow files."""
    inside = path.relative_to(TESTS).as_posix() if path.is_relative_to(TESTS) else ""
    return any(fnmatch(inside, pattern) for pattern in SLOW_FILES)


def is_in_share(name: str, share: float) -> bool:
    """Return True for about this share of all names; `nightly`: for all."""
    return is_whole() or int(_rank(name), 16) < share * 16**64


def _rank(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()
