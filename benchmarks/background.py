"""How many cuts of real sessions find a summary that was written ahead, and what that costs.

    .venv/bin/python benchmarks/background.py [--data FOLDER] [--window N] [--json]

The sessions happened, so no turn is answered: each recorded reply is preceded by the request that
Holdfast would have sent, at the time of the reply. The offline model writes the summaries. One that
is written ahead is given the time it needs, as a model that answers or a tool that runs would.
Alarms ring by the clock of the recording. `full` writes ahead only where the view is nearly full.
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
from holdfast import Assistant, Session, Summary
from holdfast.engine.session.base import target_of
from holdfast.errors import CannotFit
from holdfast.events import BackgroundSummary, CallFinished, CompactionFinished
from holdfast.models import Price
from holdfast.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast import Record


class Tally(msgspec.Struct):
    """One setting over all sessions."""

    cuts: int = 0
    full: int = 0
    """Cuts because the view was full; the others found a cold cache."""
    paused: int = 0
    """Cuts in whose turn a model was asked for a summary."""
    full_paused: int = 0
    cold: int = 0
    cold_paused: int = 0
    calls: int = 0
    tokens: int = 0
    """Input of the calls for summaries."""
    drafts: int = 0
    """Calls that wrote ahead."""
    cost: float = 0.0
    """Dollars for the calls, at the price of `PRICE`."""
    ready: int = 0
    dropped: int = 0


PRICE = Price(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)
"""Of a million tokens, as Anthropic's Sonnet models have it."""
SETTINGS = ("at the cut", "full", "ahead")


class Alarms:
    """Alarms by the clock of a recording."""

    def __init__(self) -> None:
        self.due: tuple[float, Callable[[], None]] | None = None
        self.now = 0.0

    def set(self, seconds: float, work: Callable[[], None]) -> Alarms:
        self.due = (self.now + seconds, work)
        return self

    def cancel(self) -> None:
        self.due = None


def play(records: list[Record], window: int, tally: Tally, setting: str) -> None:
    now = [records[0].ts or 1.0]
    asked = [0]

    def count(event: Any) -> None:
        match event:
            case CallFinished(purpose="summary" | "draft") as call:
                tally.calls += 1
                tally.tokens += call.tokens
                tally.cost += call.cost or 0.0
                tally.drafts += call.purpose == "draft"
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
                tally.cold += reason == "cold"
                tally.cold_paused += reason == "cold" and asked[0] > 0

    store = MemoryStore(clock=lambda: now[0])
    with Session.open(
        "replay",
        model=holdfast.model("offline", window=window, price=PRICE),
        store=store,
        summary=Summary(ahead=setting != "at the cut"),
        checkpoints="off",
    ) as session:
        session.on(count)
        alarms = Alarms()
        session._writer.set_alarm = alarms.set
        for record in records:
            if alarms.due is not None and record.ts >= alarms.due[0] and setting == "ahead":
                (now[0], ring), alarms.due = alarms.due, None
                ring()
                _let_it_write(session)
            now[0] = max(now[0], record.ts)
            alarms.now = now[0]
            if isinstance(record, Assistant):
                asked[0] = 0
                try:
                    session.own_loop.prepare()
                except CannotFit:
                    return
                _let_it_write(session)
                record = msgspec.structs.replace(record, model=target_of(session).model)
            store.append(session.key, [msgspec.structs.replace(record, id="")], expect=None)
            if isinstance(record, Assistant):
                alarms.cancel()
                session._state.world.on_wait()  # the reply is whole
                _let_it_write(session)


def _let_it_write(session: Session) -> None:
    while session._state.run.drafts.is_running:
        time.sleep(0.001)


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
        for setting in SETTINGS:
            tally = found[f"{window} {setting}"] = Tally()
            for records in sessions:
                play(records, window, tally, setting)
            print(f"{window:,} {setting}: {tally}", file=sys.stderr)
    if options.json:
        print(json.dumps({"sessions": len(sessions), "found": msgspec.to_builtins(found)}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
