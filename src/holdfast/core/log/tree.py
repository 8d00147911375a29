"""The shape of a whole log: its branches, and what is wrong with it.

Of an append of several records, all lines count or none. The path is also found from the newest
line back, by the same rules.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from holdfast.core.log.damage import Finding, Flaw
from holdfast.core.log.ids import positional_id
from holdfast.core.log.replay import META

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


LOSSES: Final = frozenset(("nul", "oversize"))
"""Flaws that may stand for any number of lines."""

_UNKNOWN: Final = -1
"""No count: lines are lacking, and no one can tell how many."""


class Stands(Protocol):
    """The facts of a record that the tree needs."""

    @property
    def kind(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def ts(self) -> float: ...
    @property
    def parent(self) -> str | None: ...
    @property
    def more(self) -> int | None: ...
    @property
    def extra(self) -> dict[str, Any]: ...


ChainLine = tuple[int, int, "Stands"]
"""The position and the size of a record of an append of several, and itself. No class, because
most lines of a log have one."""


class Settled(NamedTuple):
    """The lines of appends that have ended, oldest first: those that are absent, and the others."""

    absent: Sequence[ChainLine] = ()
    counted: Sequence[ChainLine] = ()


NOTHING: Final = Settled()


class Chain(msgspec.Struct):
    """The append of several records that the lines so far end in, if they do."""

    _lines: list[ChainLine] = msgspec.field(default_factory=list)
    _left: int = 0
    """Lines that it still lacks."""
    _is_lost: bool = False
    _is_flawed: bool = False
    """A damaged line came after the newest record."""

    @property
    def is_open(self) -> bool:
        """True while what comes next may belong to it."""
        return self._left != 0

    def add(self, position: int, size: int, item: Stands | Flaw | None) -> Settled:
        """Take the next line and return what it settles. A record without `more` is none of it."""
        if item is None:
            return self.abandon()
        if isinstance(item, Flaw):
            return self._add_flaw(item)
        if item.more is None:
            return self.abandon()
        return self._add_record((position, size, item), item.more)

    def abandon(self) -> Settled:
        """End it; what is not complete is absent."""
        if self._left == 0:
            return NOTHING
        self._is_lost = True
        return self._end()

    def _add_record(self, line: ChainLine, more: int) -> Settled:
        absent: Sequence[ChainLine] = ()
        if self._left > 0 and more != self._left - 1:
            if self._is_flawed:
                self._is_lost = True
            else:
                absent = self.abandon().absent
        self._lines.append(line)
        self._left, self._is_flawed = more, False
        if more > 0:
            return Settled(absent) if absent else NOTHING
        ended = self._end()
        return Settled((*absent, *ended.absent), ended.counted) if absent else ended

    def _add_flaw(self, flaw: Flaw) -> Settled:
        if flaw.kind == "torn":
            return self.abandon()
        if flaw.kind == "missing":
            return self._end()
        if flaw.kind in LOSSES:
            self._left, self._is_lost = _UNKNOWN, True
        elif self._left > 0:
            self._left, self._is_flawed = self._left - 1, True
            if self._left == 0:
                return self._end()
        return NOTHING

    def _end(self) -> Settled:
        lines, is_lost = self._lines, self._is_lost
        self._lines, self._left, self._is_lost, self._is_flawed = [], 0, False, False
        return Settled(absent=lines) if is_lost else Settled(counted=lines)


def ends_chain(item: Stands | Flaw | None) -> bool:
    """Return whether a line leaves no append open, whatever came before it."""
    if item is None:
        return True
    return item.kind in ("torn", "missing") if isinstance(item, Flaw) else not item.more


class Place(msgspec.Struct, frozen=True):
    """A record's position and identity. `digest` tells equal lines from different ones."""

    position: int
    digest: int


class LogSpan(msgspec.Struct, frozen=True):
    """A run of records that follow each other, by the positions of its first and last."""

    first: int
    last: int


class _Run(msgspec.Struct):
    """Records that each follow the one before; a new run begins at a jump."""

    first: int
    first_id: str
    parent: str | None
    last: int
    last_id: str
    last_ts: float
    records: int = 1
    parent_position: int | None = None
    last_user: int | None = None

    def join(self, later: _Run) -> None:
        """Go on with a run that turned out to follow this one."""
        self.last, self.last_id, self.last_ts = later.last, later.last_id, later.last_ts
        self.records += later.records
        self.last_user = self.last_user if later.last_user is None else later.last_user


class Branch(msgspec.Struct, frozen=True):
    """A leaf of the tree and how it got there."""

    head: str
    position: int
    forked_from: str | None
    records: int
    """Records since the fork."""
    ts: float
    is_current: bool
    last_user: int | None = None
    """Position of the last words of a user since the fork: what people know a branch by."""
    title: str = ""


class Outline(msgspec.Struct):
    """The shape of a log. Pass every line to `add`, then call `settle`."""

    findings: list[Finding] = msgspec.field(default_factory=list)
    counts: Counter[str] = msgspec.field(default_factory=Counter)
    skipped: dict[int, Literal["open", "repeat"]] = msgspec.field(default_factory=dict)
    """Positions of lines that parse but do not count: open batches and repeated lines."""
    renamed: set[int] = msgspec.field(default_factory=set)
    """Positions of records that go by position because their id was taken."""
    reparented: dict[int, str | None] = msgspec.field(default_factory=dict)
    """Records whose stored parent is not the true one, and which that is (None: the one before)."""
    head: str = ""
    header: str = ""
    """Id of the session header, where the first record is one."""
    on_record: Callable[[int, Stands], None] | None = None
    """Told of every record that counts, in order."""
    is_start: bool = True
    """True if no record came before the first line that is shown."""

    _runs: list[_Run] = msgspec.field(default_factory=list)
    _chain: Chain = msgspec.field(default_factory=Chain)
    _id_max: dict[int, str] = msgspec.field(default_factory=dict)
    """The greatest id so far, by length."""
    _unordered: set[str] = msgspec.field(default_factory=set)
    _named: dict[int, int] = msgspec.field(default_factory=dict)
    """Records that name their parent, and where it is, where that one may go by position."""

    def add(self, position: int, size: int, item: Stands | Flaw | None, preview: str = "") -> None:
        """The next line: a record, a flaw, or nothing (a seal)."""
        if isinstance(item, Flaw):
            self.findings.append(Finding(item.kind, position, size, item.detail, preview))
        elif item is not None and item.more is None:
            if self._chain.is_open:
                self._settle_chain(self._chain.abandon())
            self._add_record(position, size, item)
            return
        self._settle_chain(self._chain.add(position, size, item))

    def end(self) -> None:
        """No more lines."""
        self._settle_chain(self._chain.abandon())

    @property
    def is_open(self) -> bool:
        """True where the next line may belong to an append that the lines so far began."""
        return self._chain.is_open

    @property
    def missing_ids(self) -> set[str]:
        """Ids whose places `settle` must be told; usually none."""
        jumps = {run.parent for run in self._runs if run.parent is not None}
        return jumps | self._unordered

    def settle(self, places: Mapping[str, Sequence[Place]]) -> None:
        """Resolve jumps and repeated ids, given all places of the wanted ids in order."""
        for run in self._runs:
            if run.parent is not None:
                self._resolve(run, places.get(run.parent, ()))
        self._join_runs()
        self._note_repeats(places)
        for position, parent in self._named.items():
            if parent in self.renamed:
                self.reparented[position] = positional_id(parent)
            elif parent in self.skipped:
                self.reparented[position] = None
        self.findings.sort(key=lambda finding: finding.position)

    def path(self, head: int | None = None) -> list[LogSpan]:
        """The records from the root to `head` (a position; the log's head by default)."""
        position = self._runs[-1].last if self._runs and head is None else head
        spans: list[LogSpan] = []
        while position is not None and self._runs and position >= self._runs[0].first:
            run = self._run_at(position)
            spans.append(LogSpan(run.first, min(position, run.last)))
            position = run.parent_position
        return spans[::-1]

    def branches(self) -> list[Branch]:
        """Every leaf, in the order the leaves were written."""
        continued = {run.parent_position for run in self._runs}
        return [
            Branch(
                head=self._name(run.last, run.last_id),
                position=run.last,
                forked_from=self._fork_of(run),
                records=run.records,
                ts=run.last_ts,
                is_current=run is self._runs[-1],
                last_user=run.last_user,
            )
            for run in self._runs
            if run.last not in continued
        ]

    # The rules, one by one.

    def _add_record(self, position: int, size: int, item: Stands) -> None:
        record_id, kind = item.id or positional_id(position), item.kind
        if kind == "session":
            self._check_header(position, size, record_id)
        self._check_order(record_id)
        self.counts[kind] += 1
        run = self._runs[-1] if self._runs else None
        if run is None or (item.parent is not None and item.parent != run.last_id):
            parent = item.parent
            self._runs.append(_Run(position, record_id, parent, position, record_id, item.ts))
        else:
            if item.parent is not None and run.last_id in self._unordered:
                self._named[position] = run.last
            run.last, run.last_id, run.last_ts = position, record_id, item.ts
            run.records += 1
        if kind == "user" and item.extra.get(META) is not True:
            self._runs[-1].last_user = position
        self.head = record_id
        if self.on_record is not None:
            self.on_record(position, item)

    def _settle_chain(self, settled: Settled) -> None:
        for position, size, item in settled.absent:
            self.skipped[position] = "open"
            detail = (
                f"`{item.kind}` {item.id or positional_id(position)}, {item.more} more expected"
            )
            self.findings.append(Finding("open-batch", position, size, detail))
        for position, size, item in settled.counted:
            self._add_record(position, size, item)

    def _check_header(self, position: int, size: int, record_id: str) -> None:
        if self.is_start and not self._runs:
            self.header = record_id
        else:
            detail = f"header of `{record_id}` inside the log"
            self.findings.append(Finding("late-header", position, size, detail))

    def _check_order(self, record_id: str) -> None:
        """Ids of one length that only ever grow are unique; the others have to be looked up."""
        if record_id == self.header:
            # The session's id sorts anywhere; it must not make all records after it look odd.
            if self._runs:
                self._unordered.add(record_id)
        elif record_id > self._id_max.get(len(record_id), ""):
            self._id_max[len(record_id)] = record_id
        else:
            self._unordered.add(record_id)

    def _resolve(self, run: _Run, places: Sequence[Place]) -> None:
        """Find the parent that a run names: the nearest before it."""
        for index in range(bisect_left(places, run.first, key=_position) - 1, -1, -1):
            if places[index].position not in self.skipped:
                run.parent_position = self._named[run.first] = places[index].position
                return
        detail = f"`{run.first_id}` names parent `{run.parent}`"
        self.findings.append(Finding("missing-parent", run.first, 0, detail))
        self.reparented[run.first] = run.parent = None

    def _join_runs(self) -> None:
        """A run whose parent is missing follows the one before."""
        runs, self._runs = self._runs, []
        for run in runs:
            if self._runs and run.parent_position is None:
                self._runs[-1].join(run)
            else:
                self._runs.append(run)

    def _note_repeats(self, places: Mapping[str, Sequence[Place]]) -> None:
        counted = {
            record_id: [
                place for place in places.get(record_id, ()) if place.position not in self.skipped
            ]
            for record_id in self._unordered
        }
        again = [(place, record_id) for record_id in counted for place in counted[record_id][1:]]
        landings = {run.parent_position for run in self._runs}
        spans: list[LogSpan] = []
        for place, record_id in sorted(again, key=lambda one: one[0].position):
            run = self._run_at(place.position)
            if not spans or spans[-1].first != run.first:
                spans = self.path(run.last)
            first = next(item for item in counted[record_id] if _is_within(spans, item.position))
            # To leave out a record that a jump starts from or leads to would move what follows.
            is_plain = place.position != run.first and place.position not in landings
            self._note_repeat(
                record_id,
                place,
                is_same=is_plain and first is not place and first.digest == place.digest,
            )

    def _note_repeat(self, record_id: str, place: Place, *, is_same: bool) -> None:
        if is_same:
            self.skipped[place.position] = "repeat"
            detail = f"`{record_id}` again, the same line; taken once"
        else:
            self.renamed.add(place.position)
            detail = f"`{record_id}` again, another record; now {positional_id(place.position)}"
        self.findings.append(Finding("duplicate-id", place.position, 0, detail))

    def _run_at(self, position: int) -> _Run:
        return self._runs[bisect_right(self._runs, position, key=lambda run: run.first) - 1]

    def _fork_of(self, run: _Run) -> str | None:
        if run.parent is None or run.parent_position is None:
            return None
        return self._name(run.parent_position, run.parent)

    def _name(self, position: int, record_id: str) -> str:
        """A name that means the record there and no other of its id."""
        is_again = position in self.renamed or position in self.skipped
        return positional_id(position) if is_again else record_id


def _position(place: Place) -> int:
    return place.position


def _is_within(spans: Sequence[LogSpan], position: int) -> bool:
    index = bisect_right(spans, position, key=lambda span: span.first) - 1
    return index >= 0 and position <= spans[index].last


def settled_ids(records: Iterable[tuple[int, Stands]]) -> dict[int, str | None]:
    """For a stretch of a log: positions whose record repeats an id already used in it.

    None: the same record again, to be left out. Otherwise: the positional id it goes by.
    """
    first: dict[str, Stands] = {}
    repeats: dict[int, str | None] = {}
    for position, item in records:
        if not item.id:
            continue
        known = first.setdefault(item.id, item)
        if known is not item:
            repeats[position] = None if known == item else positional_id(position)
    return repeats


Item = TypeVar("Item", bound="Stands")


class Backtrack(Generic[Item]):
    """Follows the path from the head towards the root, given the lines newest first.

    `offer` takes a line and returns the records on the path that are certain by now, newest first;
    `finish` does so after the first line of the log. Lines of an append of several records are
    held until the line before it is seen, for a lost page may be there. No other line is needed
    again, unless a named parent turns out to be missing: then `missing` is the position of the
    record that names it, and `bridge` says where to start again.
    """

    def __init__(self) -> None:
        self._wanted: str | None = None
        self._wanted_by: int | None = None
        self._restart: int | None = None
        """The end of the lines among which `_wanted_by` was settled; None for the log's."""
        self._held: list[tuple[int, Item | Flaw | None]] = []
        self._held_end: int | None = None
        self._newer: int | None = None
        """The position of the line offered last."""

    def offer(self, position: int, item: Item | Flaw | None) -> list[tuple[int, Item]]:
        found = self.finish() if self._held and ends_chain(item) else []
        if not self._held:
            self._held_end = self._newer
        self._newer = position
        if item is None or isinstance(item, Flaw) or item.more is not None:
            self._held.append((position, item))
        elif self._is_next(position, item):
            found.append((position, item))
        return found

    def finish(self) -> list[tuple[int, Item]]:
        """Settle the lines held: no line before them belongs to them."""
        held, self._held = self._held, []
        complete = held if _is_whole(held) else _complete(held)
        return [
            (position, item)
            for position, item in complete
            if item is not None and not isinstance(item, Flaw) and self._is_next(position, item)
        ]

    @property
    def missing(self) -> int | None:
        """After `finish`: the record whose named parent never came, if there is one."""
        return self._wanted_by if self._wanted is not None else None

    def bridge(self) -> int | None:
        """Take the record before instead of the missing parent; restart from before the result."""
        assert self._wanted is not None
        self._wanted = None
        self._newer = self._restart
        return self._restart

    def _is_next(self, position: int, item: Item) -> bool:
        """Return whether a record is on the path, and go on from there."""
        if self._wanted_by is not None and position >= self._wanted_by:
            return False  # read again for the sake of its append
        if self._wanted is not None and self._wanted != (item.id or positional_id(position)):
            return False
        self._wanted, self._wanted_by = item.parent, position
        self._restart = self._held_end
        return True


def _is_whole(held: list[tuple[int, Item | Flaw | None]]) -> bool:
    """True for the lines of one complete append, newest first: nearly always."""
    return [getattr(item, "more", None) for _position, item in held] == list(range(len(held)))


def _complete(held: list[tuple[int, Item | Flaw | None]]) -> list[tuple[int, Item | Flaw | None]]:
    chain = Chain()
    counted = {
        line[0]
        for position, item in reversed(held)
        for line in chain.add(position, 0, item).counted
    }
    return [line for line in held if line[0] in counted]
