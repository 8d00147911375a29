"""`holdfast proxy` beside no proxy, LiteLLM and headroom: what it costs, and how long it takes.

    .venv-bench-proxy/bin/python benchmarks/proxy.py [--quick] [--only cost|speed] [--write PAGE]

Times are ratios to the same request without a proxy, asked in turns in one run. Costs are those of
a simulated prompt cache over recorded sessions, so that part needs the transcripts
(`../shared/data`, or where HOLDFAST_DATA points). A peer that is not installed is named.
"""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.proxy_cost import (
    CALLS_MIN,
    Bill,
    add_up,
    play_direct,
    play_holdfast,
    play_through,
    read_sessions,
)
from benchmarks.proxy_processes import RecordingUpstream, running
from benchmarks.proxy_speed import memory_after, ratio, take_turns

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.proxy_cost import Recorded
    from benchmarks.proxy_processes import ProxyUnderTest

OURS = ("holdfast observe", "holdfast guard")
PEERS = ("litellm", "headroom")
FITS, SMALL = 1_000_000, 48_000
"""Windows in which every request fits, and in which at least 30 % do not."""
SAVES = 200_000


def start(
    names: tuple[str, ...], upstream: RecordingUpstream, stack: ExitStack, peers: Path
) -> list[ProxyUnderTest]:
    """Start what is installed; say what is not."""
    found = []
    for name in names:
        try:
            found.append(stack.enter_context(running(name, upstream.url, peers)))
        except (OSError, RuntimeError) as error:
            print(f"{name} is left out: {error}", file=sys.stderr)
    return found


def measure_cost(folders: list[Path], peers: Path, *, is_quick: bool) -> Iterator[str]:
    """The cost of the sessions in each mode, at each window, and through the peers."""
    sessions = list(read_sessions(folders, CALLS_MIN))
    if is_quick:
        sessions = sorted(sessions, key=lambda one: len(one.places))[:6]
    sizes: dict[bytes, int] = {}
    direct = add_up("direct", sessions, partial(play_direct, sizes=sizes))
    yield f"{len(sessions)} sessions, {direct.requests:,} requests, {direct.sent_tokens:,} tokens."
    yield from (
        "",
        "| window | | to direct | passed unchanged | largest request |",
        "|---:|---|---:|---:|---:|",
    )
    yield _cost_row(0, direct, direct)
    for window, modes in ((FITS, ("observe", "guard", "save")), (SAVES, ("guard", "save")),
                          (SMALL, ("guard", "save"))):  # fmt: skip
        for mode in modes:
            play = partial(play_holdfast, sizes=sizes, mode=mode, window=window)
            yield _cost_row(window, add_up(f"holdfast, {mode}", sessions, play), direct)
    yield from _peer_rows(sessions, sizes, peers, is_quick=is_quick)


def _peer_rows(
    sessions: list[Recorded], sizes: dict[bytes, int], peers: Path, *, is_quick: bool
) -> Iterator[str]:
    some = sorted(sessions, key=lambda one: len(one.places))[: 2 if is_quick else 6]
    direct = add_up("direct", some, partial(play_direct, sizes=sizes))
    yield from ("", f"Through the other proxies, {len(some)} of the sessions:", "")
    yield from (
        "| window | | to direct | passed unchanged | largest request |",
        "|---:|---|---:|---:|---:|",
    )
    with ExitStack() as stack:
        upstream = RecordingUpstream()
        for proxy in start(PEERS, upstream, stack, peers):
            play = partial(play_through, sizes=sizes, proxy=proxy, upstream=upstream)
            try:
                yield _cost_row(0, add_up(proxy.name, some, play), direct)
            except OSError as error:
                yield f"| – | {proxy.name} | failed: {error} | | |"
    play = partial(play_holdfast, sizes=sizes, mode="guard", window=FITS)
    yield _cost_row(FITS, add_up("holdfast, guard", some, play), direct)


def _cost_row(window: int, bill: Bill, direct: Bill) -> str:
    where = f"{window:,}" if window else "–"
    return (
        f"| {where} | {bill.name} | {bill.cost / direct.cost:.3f} | {bill.passed_share:.1%} | "
        f"{bill.largest:,} |"
    )


def measure_speed(peers: Path, *, is_quick: bool) -> Iterator[str]:
    """Times of one stream, of long histories, of 100 at once; memory."""
    columns = "first token p50 | p99 | whole stream p50 | p99 | widest gap p50 | p99"
    yield from (f"| what | | {columns} |", "|---|---|---:|---:|---:|---:|---:|---:|")
    rounds = 5 if is_quick else 30
    with ExitStack() as stack:
        upstream = RecordingUpstream()
        proxies = start(("direct", *OURS, *PEERS), upstream, stack, peers)
        cases = (
            ("2 KB", 2_000, rounds, 1),
            ("160 KB", 160_000, rounds, 1),
            ("5 MB", 5_000_000, max(3, rounds // 6), 1),
            ("100 at once", 2_000, max(2, rounds // 10), 100),
        )
        for what, size, count, at_once in cases:
            found = take_turns(proxies, size, count, at_once)
            for name, times in found.items():
                numbers = [
                    f"{ratio(times, found['direct'], field, share):.2f}"
                    for field in ("first", "whole", "gaps")
                    for share in (0.5, 0.99)
                ]
                yield f"| {what} | {name} | {' | '.join(numbers)} |"
        few, many = (100, 400) if is_quick else (1_000, 10_000)
        yield from (
            "",
            f"| memory, MB | after {few:,} | after {many:,} | ratio |",
            "|---|---:|---:|---:|",
        )
        for proxy in proxies[1:]:
            before, after = memory_after(proxy, few, many)
            yield f"| {proxy.name} | {before:.0f} | {after:.0f} | {after / before:.2f} |"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    options.add_argument("--quick", action="store_true")
    options.add_argument("--only", choices=("cost", "speed"))
    options.add_argument("--agents", nargs="*", default=["claude-code"])
    options.add_argument("--peers", type=Path, default=Path(sys.executable).parent)
    options.add_argument("--write", type=Path)
    given = options.parse_args()
    lines: list[str] = []

    def say(line: str) -> None:
        lines.append(line)
        print(line, flush=True)

    if given.only != "cost":
        say("## Speed\n")
        for line in measure_speed(given.peers, is_quick=given.quick):
            say(line)
    if given.only != "speed":
        say("\n## Cost\n")
        root = Path(os.environ.get("HOLDFAST_DATA") or Path(__file__).parents[2] / "shared/data")
        folders = [root / "agents" / agent for agent in given.agents]
        for line in measure_cost(folders, given.peers, is_quick=given.quick):
            say(line)
    if given.write:
        given.write.write_text("# The proxy, measured\n\n" + "\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
