"""The cache lifetime that a session chooses, against the best one that is fixed.

    python benchmarks/pace.py [--quick] [--jobs 2]

Each session has 40 turns of four calls. Its user pauses for the same time before each turn, from a
minute to two hours. A session that chooses must never be dearer than the best fixed lifetime by
more than 5 %. Facts that later calls use must be in view as often as with no cut at all, less two
points, while the view is below four fifths of the budget.

What is sent depends on when the cache is cold, and not on what a token costs. So each course is
played once, and priced for every lifetime and price list under which the cache is cold at the same
calls.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.engine.simulation.policies import DoNothing, Holdfast, PolicyRequest, Terms
from holdfast.engine.simulation.simulate import Run, offer_for, simulate
from holdfast.engine.simulation.transcripts import ReplayCall, Transcript
from holdfast.models import Price, price_of
from holdfast.tokens import Estimator

if TYPE_CHECKING:
    from holdfast.core.log.records import Record

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


class Course(Protocol):
    """A policy on its way through a session."""

    def request(self, call: ReplayCall, *, idle: float | None) -> PolicyRequest: ...


class Starts(Protocol):
    """A policy that begins courses."""

    @property
    def name(self) -> str: ...

    def start(self, transcript: Transcript, terms: Terms) -> Course: ...


class PlayedOnce:
    """A policy whose requests are kept, by the calls at which the cache was cold."""

    def __init__(self, policy: Starts) -> None:
        self.name = policy.name
        self._policy = policy
        self._requests: dict[tuple[int, bytes], PolicyRequest] = {}

    def start(self, transcript: Transcript, terms: Terms) -> _Recalled:
        return _Recalled(self, transcript, terms)

    def find(self, course: _Recalled) -> PolicyRequest | None:
        return self._requests.get(course.key)

    def play(self, course: _Recalled) -> PolicyRequest:
        """Play a course from its beginning, or from where it was played to."""
        if course.played is None:
            course.played = self._policy.start(course.transcript, course.terms)
        for call, idle in course.moments[course.done :]:
            found = course.played.request(call, idle=idle)
        course.done = len(course.moments)
        self._requests[course.key] = found
        return found


class _Recalled:
    """One course, which is played as soon as it leaves those that were."""

    def __init__(self, once: PlayedOnce, transcript: Transcript, terms: Terms) -> None:
        self.transcript, self.terms = transcript, terms
        self.moments: list[tuple[ReplayCall, float | None]] = []
        self.done = 0
        self.played: Course | None = None
        self._once = once
        self._colds = b""
        step = terms.rules.step_tokens or 0
        self._step = step if step < 2 * terms.window.tokens else 0

    @property
    def key(self) -> tuple[int, bytes]:
        return self._step, self._colds

    def request(self, call: ReplayCall, *, idle: float | None) -> PolicyRequest:
        rules = call.rules or self.terms.rules
        self.moments.append((call, idle))
        self._colds += b"1" if rules.state(idle).is_cold else b"0"
        return self._once.find(self) or self._once.play(self)


class Replayed(msgspec.Struct, frozen=True):
    """One session in one window, to be priced."""

    transcript: Transcript
    window: int

    @classmethod
    def of(cls, window: int, pause: float) -> Replayed:
        records = session(pause, min(1_500, window // 60))
        return cls(Transcript(records, Estimator()), window)

    def run(self, model: str, policy: Any, lifetimes: tuple[Any, ...]) -> Run:
        """Play the session at a model's prices, with a choice among some lifetimes."""
        price = price_list(model)
        offer = msgspec.structs.replace(offer_for(model, price=price), lifetimes=lifetimes)
        return simulate(
            self.transcript,
            policy,
            window=self.window,
            static=min(18_000, self.window // 5),
            price=price,
            ttl_seconds=300.0 if model else 0.0,
            offer=offer if lifetimes else None,
        )


def measure(window: int, pause: float, models: tuple[str, ...] = MODELS) -> list[Cell]:
    """Play one session with the lifetime that it chooses, and with each that is fixed."""
    replayed = Replayed.of(window, pause)
    once = PlayedOnce(Holdfast(is_judged=False))
    whole = replayed.run("", DoNothing(), ())
    cells = []
    for model in models:
        lifetimes = offer_for(model, price=price_list(model)).lifetimes
        ours = replayed.run(model, once, lifetimes)
        fixed = [replayed.run(model, once, (each,)) for each in lifetimes]
        fixed = fixed or [replayed.run(model, once, ())]
        lost = whole.recall.pooled_share - ours.recall.pooled_share if not whole.overflows else 0.0
        ratio = ours.cost / min(run.cost for run in fixed)
        cells.append(Cell(model or "no cache", window, pause, ratio, max(0.0, lost)))
    return cells


def price_list(model: str) -> Price:
    price = price_of(model) if model else UNCACHED
    assert price is not None
    return price


def measure_one(place: tuple[int, float]) -> list[Cell]:
    return measure(*place)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few cells of the grid")
    parser.add_argument("--jobs", type=int, default=1, help="pauses that are played at once")
    parser.add_argument("--window", type=int, action="append", help="only this window; repeat")
    parser.add_argument("--pause", type=int, action="append", help="only this pause; repeat")
    args = parser.parse_args()
    windows = args.window or (WINDOWS[:1] if args.quick else WINDOWS)
    pauses = args.pause or ((60, 600) if args.quick else PAUSES)
    print("| window | model | dearest | at a pause of | facts lost | within both goals |")
    print("|--:|---|--:|--:|--:|--:|", flush=True)
    cells: list[Cell] = []
    with ProcessPoolExecutor(args.jobs) as pool:
        for window in windows:
            places = [(window, float(pause)) for pause in pauses]
            found = list(pool.map(measure_one, places))
            for row in zip(*found, strict=True):
                cells += row
                show(row)
    good = sum(cell.is_good for cell in cells)
    print(f"\n{good} of {len(cells)} cells within 5 % and two points of recall")
    return 1 if good < len(cells) else 0


def show(row: tuple[Cell, ...]) -> None:
    """Print one model in one window: its dearest pause, and how many are good."""
    worst = max(row, key=lambda cell: cell.ratio)
    lost = max(cell.lost for cell in row)
    told = f"{worst.window:,} | {worst.model} | {worst.ratio:.3f} | {worst.pause:,.0f} s"
    good = sum(cell.is_good for cell in row)
    print(f"| {told} | {lost:.1%} | {good} of {len(row)} |", flush=True)


if __name__ == "__main__":
    sys.exit(main())
