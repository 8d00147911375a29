"""Shared by every test run: examples, the quick sample, Ctrl-C, closed connections."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from tests.support.connections import every_connection_is_closed
from tests.support.databases import (
    SHARE,
    contents,
    every_store,
    is_on_postgres,
    postgres_schemas,
    pytest_generate_tests,
)
from tests.support.processes import forked_processes, spare_commands
from tests.support.runs import (
    EXAMPLES,
    RUN,
    SLOW_FILES,
    SLOW_SHARE,
    has_room,
    is_slow,
    sample,
)
from tests.support.servers import (
    empty_postgres_address,
    postgres_address,
    postgres_server,
    s3_blobs,
    s3_options,
    s3_server,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

# `deadline`, `too_slow`: on a slow or busy machine examples may take long; that says nothing about
# the code. `derandomize`: a change is judged by the same examples every time; the nightly run
# searches for new ones, and prints how to repeat what it finds.
for run, count in EXAMPLES.items():
    settings.register_profile(
        run,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
        max_examples=count,
        derandomize=run != "nightly",
        print_blob=run == "nightly",
    )
settings.load_profile(RUN)

__all__ = [
    "contents",
    "empty_postgres_address",
    "every_connection_is_closed",
    "every_store",
    "forked_processes",
    "postgres_address",
    "postgres_schemas",
    "postgres_server",
    "pytest_generate_tests",
    "s3_blobs",
    "s3_options",
    "s3_server",
]

# A shell ignores Ctrl-C for what it starts in the background, and so would every process that a
# test starts. Tests that send it must not depend on how they were started.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# The SDKs only talk to 127.0.0.1 here. A folder without certificates spares each of their clients
# reading all that this machine trusts, which takes longer than most tests.
os.environ.pop("SSL_CERT_FILE", None)
os.environ["SSL_CERT_DIR"] = str(Path(__file__).parent)

# Thousands of tests write durably, and wait for the disk of a machine that others use, too. What is
# in memory is there at once; a power cut is simulated, not waited for.
if "TMPDIR" not in os.environ and has_room("/dev/shm"):
    os.environ["TMPDIR"] = tempfile.tempdir = "/dev/shm"

if RUN == "quick":
    collect_ignore_glob = list(SLOW_FILES)


# The collector would look at all tests and modules again and again, and finds nothing there.
gc.set_threshold(50_000, 20, 20)


def pytest_collection_finish() -> None:
    """Leave what is there for all of the run to itself."""
    gc.freeze()


def pytest_configure(config: pytest.Config) -> None:
    is_worker, workers = hasattr(config, "workerinput"), config.getoption("numprocesses", None)
    if is_worker or not workers:  # workers inherit the environment, and run the tests themselves
        spare_commands()


def pytest_addoption(parser: pytest.Parser) -> None:
    text = "run all tests that run over this kind of store too, and no other"
    parser.addoption("--store", choices=["postgres"], help=text)
    text = "of the slow files, run a sample of the tests, or only what that leaves out"
    parser.addoption("--slow", choices=["sample", "rest"], help=text)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Keep the sample of this run; see `tests/support/runs.py`."""
    chosen = choose(items, config.getoption("store") == "postgres")
    kept = set(choose_slow(chosen, config.getoption("slow")))
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def choose(items: list[pytest.Item], is_postgres_alone: bool = False) -> list[pytest.Item]:
    as_written = [item for item in items if not is_on_postgres(item)]
    on_postgres = [item for item in items if is_on_postgres(item)]
    if is_postgres_alone:
        return _choose_cases(on_postgres)
    if RUN == "quick":
        ours = [item for item in as_written if not item.nodeid.startswith("examples/")]
        return _sample(ours, 1 / 8, lambda item: item.path)
    return _choose_cases(as_written) + _sample(on_postgres, SHARE, lambda _item: None)


def choose_slow(items: list[pytest.Item], part: str | None) -> list[pytest.Item]:
    """Leave out most tests of the slow files (`sample`), or every other test (`rest`)."""
    if part is None:
        return items
    slow = [item for item in items if is_slow(item.path)]
    left_out = set(slow).difference(_sample(slow, SLOW_SHARE, lambda item: item.path.parent))
    return [item for item in items if (item in left_out) == (part == "rest")]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was not tested: a line for each reason, with the number of tests."""
    reasons = Counter(
        str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        for report in terminalreporter.getreports("skipped")
    )
    if reasons:
        terminalreporter.section("not tested", sep="=")
    for reason, count in reasons.most_common():
        terminalreporter.write_line(f"{count:5} {reason.removeprefix('Skipped: ')}")


def _choose_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    shares: dict[float, list[pytest.Item]] = defaultdict(list)
    for item in items:
        marker = item.get_closest_marker("sampled")
        shares[marker.args[0] if marker else 1.0].append(item)
    return [item for share in shares for item in _sample(shares[share], share, _case)]


def _sample(
    items: list[pytest.Item], share: float, kind: Callable[[pytest.Item], object]
) -> list[pytest.Item]:
    return sample(items, share=share, name=lambda item: item.nodeid, kind=kind)


def _case(item: pytest.Item) -> object:
    """A test with its parameters, but for the one whose values are what a sample is taken of."""
    marker, call = item.get_closest_marker("sampled"), getattr(item, "callspec", None)
    if marker is None or call is None:
        return item.nodeid
    name = marker.args[1]
    others = sorted((other, id(value)) for other, value in call.params.items() if other != name)
    return item.nodeid.partition("[")[0], tuple(others)
