"""The shape of a whole log: its branches, and what is wrong with it.

Two rules make the tree. A record follows the one its `parent` names, and where it names none or
one that is not there, the record before it. The head is the last record. So a plain log is one
branch, damage is bridged by itself, and a rewind is a record whose parent lies further back.

An `Outline` is made by showing it every line once, in order; what it remembers grows with the
branches and flaws of a log and not with its length. `Backtrack` applies the same rules from the
other end, one line at a time, for readers that want the newest records only.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol

from holdfast.core.findings import Finding, Flaw
from holdfast.core.ids import positional_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence


class Stands(Protocol):
    """What the tree needs to know of a record."""

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


@dataclass(frozen=True, slots=True)
class Place:
    """Where a record is, and who it is there. `digest` tells equal lines from different ones."""

    position: int
    digest: int


@dataclass(frozen=True, slots=True)
class Span:
    """A run of records that follow each other, by the positions of its first and last."""

    first: int
    last: int


@dataclass(slots=True)
class _Run:
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


@dataclass(frozen=True, slots=True)
class Branch:
    """A leaf of the tree and how it got there."""

    head: str
    position: int
    forked_from: str | None
    records: int
    """Records since the fork."""
    ts: float
    is_current: bool
    last_user: int | None = None
    """Position of the last user message since the fork: what people know a branch by."""
    title: str = ""


@dataclass(slots=True)
class Outline:
    """What a log looks like. Show it every line with `add`, then call `settle`."""

    findings: list[Finding] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    skipped: dict[int, Literal["open", "repeat"]] = field(default_factory=dict)
    """Positions of lines that parse but do not count: open batches and repeated lines."""
    renamed: set[int] = field(default_factory=set)
    """Positions of records that go by position because their id was taken."""
    reparented: dict[int, str | None] = field(default_factory=dict)
    """Records whose stored parent is not the true one, and which that is (None: the one before)."""
    head: str = ""
    header: str = ""
    """Id of the session header, where the first record is one."""
    on_record: Callable[[int, Stands], None] | None = None
    """Told of every record that counts, in order."""

    _runs: list[_Run] = field(default_factory=list)
    _batch: list[tuple[int, int, Stands]] = field(default_factory=list)
    _batch_left: int = 0
    _id_max: str = ""
    _unordered: set[str] = field(default_factory=set)

    def add(self, position: int, size: int, item: Stands | Flaw | None, preview: str = "") -> None:
        """The next line: a record, a flaw, or nothing (a seal)."""
        if item is None:
            self._drop_batch()
        elif isinstance(item, Flaw):
            self._add_flaw(position, size, item, preview)
        elif item.more is None:
            self._end_batch()
            self._add_record(position, size, item)
        else:
            self._add_to_batch(position, size, item)

    def end(self) -> None:
        """No more lines."""
        self._end_batch()

    @property
    def is_open(self) -> bool:
        """Whether the lines so far end inside an append of several records."""
        return bool(self._batch)

    @property
    def wanted(self) -> set[str]:
        """Ids whose places `settle` must be told; usually none."""
        jumps = {run.parent for run in self._runs if run.parent is not None}
        return jumps | self._unordered

    def settle(self, places: Mapping[str, Sequence[Place]]) -> None:
        """Resolve jumps and repeated ids, given all places of the wanted ids in order."""
        for record_id in sorted(self._unordered):
            self._note_repeats(record_id, places.get(record_id, ()))
        for run in self._runs:
            if run.parent is None:
                continue
            run.parent_position = self._nearest_before(run, places.get(run.parent, ()))
            if run.parent_position is None:
                self.reparented[run.first] = None
            elif run.parent_position in self.renamed:
                self.reparented[run.first] = positional_id(run.parent_position)
        self.findings.sort(key=lambda finding: finding.position)

    def path(self, head: int | None = None) -> list[Span]:
        """The records from the root to `head` (a position; the log's head by default)."""
        if not self._runs:
            return []
        position = self._runs[-1].last if head is None else head
        spans: list[Span] = []
        index: int | None = self._run_at(position)
        while index is not None:
            run = self._runs[index]
            spans.append(Span(run.first, position))
            if index == 0:
                break
            parent = run.parent_position
            position = self._runs[index - 1].last if parent is None else parent
            index = self._run_at(position)
        return spans[::-1]

    def branches(self) -> list[Branch]:
        """Every leaf, in the order the leaves were written."""
        continued = {run.parent_position for run in self._runs if run.parent_position is not None}
        for earlier, run in zip(self._runs, self._runs[1:], strict=False):
            if run.parent_position is None:
                continued.add(earlier.last)
        return [
            Branch(
                head=run.last_id,
                position=run.last,
                forked_from=run.parent,
                records=run.records,
                ts=run.last_ts,
                is_current=index == len(self._runs) - 1,
                last_user=run.last_user,
            )
            for index, run in enumerate(self._runs)
            if run.last not in continued
        ]

    # The rules, one by one.

    def _add_record(self, position: int, size: int, item: Stands) -> None:
        record_id = item.id or positional_id(position)
        if item.kind == "session":
            self._check_header(position, size, record_id)
        self._check_order(record_id)
        self.counts[item.kind] += 1
        run = self._runs[-1] if self._runs else None
        if run is None or (item.parent is not None and item.parent != run.last_id):
            parent = item.parent
            self._runs.append(_Run(position, record_id, parent, position, record_id, item.ts))
        else:
            run.last, run.last_id, run.last_ts = position, record_id, item.ts
            run.records += 1
        if item.kind == "user":
            self._runs[-1].last_user = position
        self.head = record_id
        if self.on_record is not None:
            self.on_record(position, item)

    def _add_flaw(self, position: int, size: int, flaw: Flaw, preview: str) -> None:
        self.findings.append(Finding(flaw.kind, position, size, flaw.detail, preview))
        if flaw.kind == "torn":
            self._drop_batch()
        elif self._batch and self._batch_left > 0:
            # Damage inside a batch that did complete takes the place of one of its records.
            self._batch_left -= 1
        else:
            self._end_batch()

    def _add_to_batch(self, position: int, size: int, item: Stands) -> None:
        assert item.more is not None
        if self._batch and item.more != self._batch_left - 1:
            self._end_batch()
        self._batch.append((position, size, item))
        self._batch_left = item.more
        if item.more == 0:
            self._end_batch()

    def _end_batch(self) -> None:
        """The batch is over: it counts if all its lines are there, damaged ones included."""
        if self._batch and self._batch_left > 0:
            self._drop_batch()
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
        if not self._runs:
            self.header = record_id
        else:
            detail = f"header of `{record_id}` inside the log"
            self.findings.append(Finding("late-header", position, size, detail))

    def _check_order(self, record_id: str) -> None:
        """Ids that only ever grow are unique; the others have to be looked up."""
        if record_id.startswith("@"):
            return
        if record_id > self._id_max:
            self._id_max = record_id
        else:
            self._unordered.add(record_id)

    def _nearest_before(self, run: _Run, places: Sequence[Place]) -> int | None:
        before = [
            place.position
            for place in places
            if place.position < run.first and place.position not in self.skipped
        ]
        if before:
            return before[-1]
        detail = f"`{run.first_id}` names parent `{run.parent}`"
        self.findings.append(Finding("missing-parent", run.first, 0, detail))
        return None

    def _note_repeats(self, record_id: str, places: Sequence[Place]) -> None:
        counted = [place for place in places if place.position not in self.skipped]
        for place in counted[1:]:
            if place.digest == counted[0].digest:
                self.skipped[place.position] = "repeat"
                detail = f"`{record_id}` again, the same line; taken once"
            else:
                self.renamed.add(place.position)
                detail = f"`{record_id}` again, another record; now {positional_id(place.position)}"
            self.findings.append(Finding("duplicate-id", place.position, 0, detail))

    def _run_at(self, position: int) -> int:
        return bisect_right(self._runs, position, key=lambda run: run.first) - 1


class Backtrack:
    """Follows the path from the head towards the root, given the lines newest first.

    `offer` says whether a line is on the path. It never needs a line again, unless a named parent
    turns out to be missing: then `missing` is the position to restart from, with `bridge`.
    """

    def __init__(self) -> None:
        self._wanted: str | None = None
        self._wanted_by: int | None = None
        self._bridged: set[int] = set()
        self._expected_more: int | None = None
        self._more_before_it: int | None = None
        self._is_sealed = False

    def offer(self, position: int, item: Stands | Flaw | None) -> bool:
        if item is None or isinstance(item, Flaw):
            self._pass_gap(item)
            return False
        if not self._is_committed(item.more):
            return False
        record_id = item.id or positional_id(position)
        if self._wanted is not None and record_id != self._wanted:
            return False
        self._wanted = None if position in self._bridged else item.parent
        self._wanted_by = position
        self._more_before_it = self._expected_more
        return True

    @property
    def missing(self) -> int | None:
        """After the last line: the record whose named parent never came, if there is one."""
        return self._wanted_by if self._wanted is not None else None

    def bridge(self) -> int:
        """Take the record before instead of the missing parent; restart from the result."""
        assert self._wanted is not None
        assert self._wanted_by is not None
        self._bridged.add(self._wanted_by)
        self._wanted = None
        self._expected_more, self._is_sealed = self._more_before_it, False
        return self._wanted_by

    def _is_committed(self, more: int | None) -> bool:
        expected, self._expected_more, self._is_sealed = self._expected_more, None, False
        if more is None:
            return True
        if more and more != expected:
            return False
        self._expected_more = more + 1
        return True

    def _pass_gap(self, item: Flaw | None) -> None:
        if item is None or item.kind == "torn":
            self._expected_more, self._is_sealed = None, True
        elif not self._is_sealed:
            # The flaw may have been a record of the batch that the lines above it belong to.
            self._expected_more = (self._expected_more or 0) + 1


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
