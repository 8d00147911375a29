"""The shape of a whole log: its branches, and what is wrong with it.

Two rules make the tree. A record follows the one its `parent` names, and where it names none or
one that is not there, the record before it. The head is the last record. An append of several
records counts once all its lines are there. A damaged line inside it takes the place of one of
them; a seal, a torn line or a record that does not continue it abandons it. A name means the
nearest earlier record that has it. A line that stands on its own path a second time is taken once;
any other record whose id was taken goes by its position.

An `Outline` is made by showing it every line once, in order; what it remembers grows with the
branches and flaws of a log and not with its length. `Backtrack` applies the same rules from the
other end, one line at a time, for readers that want the newest records only.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from typing import TYPE_CHECKING, Any, Literal, Protocol

import msgspec

from holdfast.core.log.damage import Finding, Flaw
from holdfast.core.log.ids import positional_id
from holdfast.core.log.speakers import META

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


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
    _batch: list[tuple[int, int, Stands]] = msgspec.field(default_factory=list)
    _batch_left: int = 0
    """Lines that the open batch still lacks."""
    _id_max: dict[int, str] = msgspec.field(default_factory=dict)
    """The greatest id so far, by length."""
    _unordered: set[str] = msgspec.field(default_factory=set)
    _named: dict[int, int] = msgspec.field(default_factory=dict)
    """Records that name their parent, and where it is, where that one may go by position."""

    def add(self, position: int, size: int, item: Stands | Flaw | None, preview: str = "") -> None:
        """The next line: a record, a flaw, or nothing (a seal)."""
        if item is None:
            self._drop_batch()
        elif isinstance(item, Flaw):
            self._add_flaw(position, size, item, preview)
        elif item.more is None:
            if self._batch:
                self._drop_batch()
            self._add_record(position, size, item)
        else:
            self._add_to_batch(position, size, item)

    def end(self) -> None:
        """No more lines."""
        self._drop_batch()

    @property
    def is_open(self) -> bool:
        """Return whether the lines so far end inside an append of several records."""
        return bool(self._batch)

    @property
    def lacking(self) -> int:
        """Return the number of lines that the open batch still lacks."""
        return self._batch_left if self._batch else 0

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

    def _add_flaw(self, position: int, size: int, flaw: Flaw, preview: str) -> None:
        self.findings.append(Finding(flaw.kind, position, size, flaw.detail, preview))
        if flaw.kind == "torn":
            self._drop_batch()
        elif self._batch:
            self._batch_left -= 1
            self._end_batch_if_complete()

    def _add_to_batch(self, position: int, size: int, item: Stands) -> None:
        assert item.more is not None
        if item.more != self._batch_left - 1:
            self._drop_batch()
        self._batch.append((position, size, item))
        self._batch_left = item.more
        self._end_batch_if_complete()

    def _end_batch_if_complete(self) -> None:
        if self._batch_left == 0:
            for position, size, item in self._batch:
                self._add_record(position, size, item)
            self._batch.clear()

    def _drop_batch(self) -> None:
        for position, size, item in self._batch:
            self.skipped[position] = "open"
            detail = (
                f"`{item.kind}` {item.id or positional_id(position)}, {item.more} more expected"
            )
            self.findings.append(Finding("open-batch", position, size, detail))
        self._batch.clear()

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


class Backtrack:
    """Follows the path from the head towards the root, given the lines newest first.

    `offer` says whether a line is on the path. It never needs a line again, unless a named parent
    turns out to be missing: then `missing` is the position to restart from, with `bridge`.
    """

    def __init__(self) -> None:
        self._wanted: str | None = None
        self._wanted_by: int | None = None
        self._more_before: int | None = None
        """The value of `more` in the line before that the line just seen would continue."""
        self._more_before_wanted: int | None = None
        self._damaged = 0
        """Damaged lines since then."""

    def offer(self, position: int, item: Stands | Flaw | None) -> bool:
        if item is None or isinstance(item, Flaw):
            self._pass_gap(item)
            return False
        if not self._is_committed(item.more):
            return False
        if self._wanted is not None and self._wanted != (item.id or positional_id(position)):
            return False
        self._wanted, self._wanted_by = item.parent, position
        self._more_before_wanted = self._more_before
        return True

    @property
    def missing(self) -> int | None:
        """After the last line: the record whose named parent never came, if there is one."""
        return self._wanted_by if self._wanted is not None else None

    def bridge(self) -> int:
        """Take the record before instead of the missing parent; restart from the result."""
        assert self._wanted is not None
        assert self._wanted_by is not None
        self._wanted = None
        self._more_before, self._damaged = self._more_before_wanted, 0
        return self._wanted_by

    def _is_committed(self, more: int | None) -> bool:
        """Return whether the lines after this one complete its append: a record, or damage
        alone."""
        more_before, self._more_before = self._more_before, None
        damaged, self._damaged = self._damaged, 0
        if more is None:
            return True
        if more > damaged and (more_before is None or more != more_before + damaged):
            return False
        self._more_before = more + 1
        return True

    def _pass_gap(self, item: Flaw | None) -> None:
        if item is None or item.kind == "torn":
            self._more_before, self._damaged = None, 0
        else:
            self._damaged += 1


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
