"""The cache lifetime that a session chooses, against the best one that is fixed.

    python benchmarks/pace.py [--quick] [--jobs 2]

Each session has 40 turns of four calls. Its user pauses for the same time before each turn, from a
minute to two hours. A session that chooses must never be dearer than the best fixed lifetime by
more than 5 %. Facts that later calls use must be in view as often as with no cut at all, less two
points, while the view is below four fifths of the budget.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.models import Price, price_of
from holdfast.records import Assistant, ToolResult, User
from holdfast.simulation import DoNothing, Holdfast, Run, Transcript, offer_for, simulate
from holdfast.tokens import Estimator

if TYPE_CHECKING:
    from holdfast.records import Record

PAUSES = (60, 120, 240, 290, 310, 360, 600, 900, 1_500, 1_900, 2_700, 3_500, 3_700, 5_400, 7_200)
WINDOWS = (32_000, 64_000, 200_000, 1_000_000)
MODELS = ("claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5", "gpt-6-sol", "")
"""The last is a host without a cache."""
TURNS = 40
ROUND_SECONDS = 20.0
DEARER_MAX = 1.05
RECALL_LOSS_MAX = 0.02
UNCACHED = Price(2.0, 10.0, 2.0, 2.0)


class Cell(msgspec.Struct, frozen=True):
    """One pace in one window at one price list."""

    model: str
    window: int
    pause: float
    ratio: float
    """The cost of choosing, as a multiple of the best fixed lifetime."""
    lost: float
    """Facts in view, below those of never cutting; 0 where the view is too full to compare."""

    @property
    def is_good(self) -> bool:
        return self.ratio <= DEARER_MAX and self.lost <= RECALL_LOSS_MAX


def session(pause: float, tokens: int) -> list[Record]:
    """A session whose calls use names of files that earlier results brought."""
    records: list[Record] = []
    now = 1_790_000_000.0
    words = "value of the field is checked before it is stored and reported " * (tokens // 12)
    for turn in range(TURNS):
        now += pause
        records.append(User(content=f"Please look at part {turn} of the work.", ts=now))
        for part in range(3):
            name = f"src/module_{turn}/file_{part}.py"
            back = f"src/module_{max(0, turn - 7 * part)}/file_0.py"
            call = {"path": name if part == 0 else back}
            block = {"type": "tool_use", "id": f"c{turn}-{part}", "name": "read", "input": call}
            records.append(Assistant(content=[block], ts=now + 5))
            now += ROUND_SECONDS
            text = f"{name}\n{words}"
            records.append(ToolResult(content=text, tool_use_id=f"c{turn}-{part}", ts=now))
        records.append(Assistant(content=f"Part {turn} is done.", ts=now + 5))
    return [
        msgspec.structs.replace(record, id=f"r{place:05d}") for place, record in enumerate(records)
    ]


def measure(model: str, window: int, pause: float) -> Cell:
    """Play one session with the lifetime that it chooses, and with each that is fixed."""
    static = min(18_000, window // 5)
    transcript = Transcript(session(pause, min(1_500, window // 60)), Estimator())
    price = price_of(model) if model else UNCACHED
    assert price is not None
    offer = offer_for(model, price=price)

    def play(policy: Holdfast | DoNothing, lifetimes: tuple[Any, ...]) -> Run:
        chosen = msgspec.structs.replace(offer, lifetimes=lifetimes) if lifetimes else None
        ttl = 300.0 if model else 0.0
        return simulate(
            transcript,
            policy,
            window=window,
            static=static,
            price=price,
            ttl_seconds=ttl,
            offer=chosen,
        )

    ours = play(Holdfast(), offer.lifetimes)
    fixed = [play(Holdfast(), (each,)) for each in offer.lifetimes] or [play(Holdfast(), ())]
    whole = play(DoNothing(), ())
    is_roomy = whole.tokens_sent and whole.overflows == 0
    lost = whole.recall.pooled_share - ours.recall.pooled_share if is_roomy else 0.0
    ratio = ours.cost / min(run.cost for run in fixed)
    return Cell(model or "no cache", window, pause, ratio, max(0.0, lost))


def measure_row(row: tuple[str, int, tuple[int, ...]]) -> list[Cell]:
    """Play every pause of a model in a window."""
    model, window, pauses = row
    return [measure(model, window, float(pause)) for pause in pauses]


def rows_of(*, quick: bool) -> list[tuple[str, int, tuple[int, ...]]]:
    """Return the rows of the grid; a quick grid has a few of each."""
    models, windows = (MODELS[1::2], WINDOWS[:1]) if quick else (MODELS, WINDOWS)
    pauses = (60, 600) if quick else PAUSES
    return [(model, window, pauses) for window in windows for model in models]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few cells of the grid")
    parser.add_argument("--jobs", type=int, default=1, help="rows that are played at once")
    args = parser.parse_args()
    print("| window | model | dearest | at a pause of | facts lost | within both goals |")
    print("|--:|---|--:|--:|--:|--:|", flush=True)
    cells: list[Cell] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for row in pool.map(measure_row, rows_of(quick=args.quick)):
            cells += row
            worst = max(row, key=lambda cell: cell.ratio)
            lost = max(cell.lost for cell in row)
            told = f"{worst.window:,} | {worst.model} | {worst.ratio:.3f} | {worst.pause:,.0f} s"
            good = sum(cell.is_good for cell in row)
            print(f"| {told} | {lost:.1%} | {good} of {len(row)} |", flush=True)
    good = sum(cell.is_good for cell in cells)
    print(f"\n{good} of {len(cells)} cells within 5 % and two points of recall")
    return 1 if good < len(cells) else 0


if __name__ == "__main__":
    sys.exit(main())
