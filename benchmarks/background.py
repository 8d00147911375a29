"""How many cuts of real sessions find a summary that was written ahead, and what that costs.

    .venv/bin/python benchmarks/background.py [--data FOLDER] [--window N] [--json]

The sessions happened, so no turn is answered: each recorded reply is preceded by the request that
Holdfast would have sent, at the time of the reply. The offline model writes the summaries. One that
is written ahead is given the time it needs, as a model that answers or a tool that runs would.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

import msgspec
from benchmarks.offload import data_folder, read_sessions

import holdfast
from holdfast import Assistant, Session
from holdfast.errors import CannotFit
from holdfast.events import BackgroundSummary, CallFinished, CompactionFinished
from holdfast.stores import MemoryStore

if TYPE_CHECKING:
    from holdfast import Record


class Tally(msgspec.Struct):
    """One setting over all sessions."""

    cuts: int = 0
    full: int = 0
    """Cuts because the view was full; the others found a cold cache."""
    paused: int = 0
    """Cuts in whose turn a model was asked for a summary."""
    full_paused: int = 0
    calls: int = 0
    tokens: int = 0
    """Input of the calls for summaries."""
    ready: int = 0
    dropped: int = 0


def play(records: list[Record], window: int, tally: Tally, *, is_ahead: bool) -> None:
    now = [records[0].ts or 1.0]
    asked = [0]

    def count(event: Any) -> None:
        match event:
            case CallFinished(purpose="summary" | "draft") as call:
                tally.calls += 1
                tally.tokens += call.tokens
                asked[0] += call.purpose == "summary"
            case BackgroundSummary(outcome="ready"):
                tally.ready += 1
            case BackgroundSummary(outcome="dropped"):
                tally.dropped += 1
            case CompactionFinished(outcome="applied", reason=reason):
                tally.cuts += 1
                tally.full += reason == "full"
                tally.paused += asked[0] > 0
                tally.full_paused += reason == "full" and asked[0] > 0

    store = MemoryStore()
    with Session.open(
        "replay",
        model=holdfast.model("offline", window=window),
        store=store,
        clock=lambda: now[0],
        background_summary=is_ahead,
        checkpoints="off",
    ) as session:
        session.on(count)
        for record in records:
            now[0] = max(now[0], record.ts)
            if isinstance(record, Assistant):
                asked[0] = 0
                try:
                    session.prepare()
                except CannotFit:
                    return
                while session._state.run.drafts.is_running:
                    time.sleep(0.001)
                record = msgspec.structs.replace(record, model=session.target.model)
            store.append(session.key, [msgspec.structs.replace(record, id="")], expect=None)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", metavar="FOLDER")
    parser.add_argument("--window", type=int, action="append")
    parser.add_argument("--every", type=int, default=1, help="take every Nth session")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    folder = data_folder(options.data)
    sessions = [session.records for session in read_sessions(folder)][:: options.every]
    if not sessions:
        print(f"no transcripts in {folder}", file=sys.stderr)
        return 1
    found = {}
    for window in options.window or [32_000, 64_000]:
        for is_ahead in (False, True):
            tally = found[f"{window} {'ahead' if is_ahead else 'at the cut'}"] = Tally()
            for records in sessions:
                play(records, window, tally, is_ahead=is_ahead)
            print(f"{window:,} {is_ahead=} {tally}", file=sys.stderr)
    if options.json:
        print(json.dumps({"sessions": len(sessions), "found": msgspec.to_builtins(found)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
