"""The shape of a log, against a slow and simple model of the same rules.

The model keeps every line and looks at all of them for every question. `Outline` sees each line
once from the front, `Backtrack` each line once from the back; all three must tell the same story.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.log.damage import Flaw, FlawKind
from holdfast.core.log.ids import positional_id
from holdfast.core.log.replay import META
from holdfast.core.log.tree import Backtrack, LogSpan, Outline, Place, settled_ids

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.log.tree import Stands


class Rec(NamedTuple):
    """A record as the tree sees it."""

    kind: str
    id: str
    ts: float = 1.0
    parent: str | None = None
    more: int | None = None
    is_meta: bool = False

    @property
    def extra(self) -> dict[str, bool]:
        return {META: True} if self.is_meta else {}


Item: TypeAlias = Rec | Flaw | None
T = TypeVar("T")

_STEP = 10
"""How far apart the lines of a made log are."""


# Logs to try


def rec(
    record_id: str = "",
    parent: str | None = None,
    more: int | None = None,
    *,
    kind: str = "user",
    ts: float = 1.0,
    is_meta: bool = False,
) -> Rec:
    return Rec(kind, record_id, ts, parent, more, is_meta)


GARBAGE = Flaw("garbage", "not JSON")
NUL = Flaw("nul", "5 NUL bytes")
TORN = Flaw("torn", "5 bytes")
GONE = Flaw("missing", "damage")
SEAL = None

_DAMAGE = tuple(Flaw(kind, "damage") for kind in get_args(FlawKind))
_BREAKS = (*_DAMAGE, GARBAGE, TORN, SEAL)
_TORN = tuple(item for item in _BREAKS if item is not None and item.kind == "torn")
_GONE = tuple(item for item in _DAMAGE if item.kind == "missing")
_LOST = tuple(item for item in (*_DAMAGE, NUL) if item.kind in ("nul", "oversize"))


class _Dice:
    """Choices read from bytes: many of them at the price of one, and zero is the plainest."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)
        self.is_over = not data

    def roll(self, *faces: T) -> T:
        value = next(self._data, None)
        self.is_over = value is None
        return faces[(value or 0) % len(faces)]


def _log(data: bytes) -> list[Item]:
    """Lines with every kind of trouble, several of them in one log."""
    dice = _Dice(data)
    lines: list[Item] = []
    while not dice.is_over:
        step = dice.roll("record", "record", "record", "batch", "break", "again", "stray")
        if step == "record":
            lines.append(_record(dice, lines))
        elif step == "batch":
            lines.extend(_batch(dice, lines))
        elif step == "break":
            lines.append(dice.roll(*_BREAKS))
        elif step == "again":
            lines.append(dice.roll(*lines) if lines else SEAL)
        else:
            lines.append(_record(dice, lines, more=dice.roll(0, 1, 2, 3)))
    return lines


def _record(dice: _Dice, lines: list[Item], more: int | None = None) -> Rec:
    """A record with a new id, a used one or none, after one before, behind or nowhere."""
    fresh = f"n{len(lines):03}"
    earlier = [
        item.id or positional_id(index * _STEP)
        for index, item in enumerate(lines)
        if isinstance(item, Rec)
    ]
    odd = ("a", "b", "zz", "@5", fresh, f"n{len(lines) + 1:03}")
    parent = dice.roll(None, None, dice.roll(*earlier, "gone"), dice.roll(*odd))
    return rec(
        dice.roll(fresh, fresh, fresh, fresh, "", "a", "b", "zz", "@5"),
        parent,
        more,
        kind=dice.roll("user", "assistant", "session", "rewind"),
        ts=dice.roll(1.0, 2.0),
        is_meta=dice.roll(False, False, True),
    )


def _batch(dice: _Dice, lines: list[Item]) -> list[Item]:
    """The lines of one append of several records, whole or hurt."""
    batch: list[Item] = []
    for more in range(dice.roll(1, 2, 3), -1, -1):
        fate = dice.roll("whole", "whole", "whole", "damaged", "lost", "broken off")
        if fate == "whole":
            batch.append(_record(dice, [*lines, *batch], more))
        elif fate == "damaged":
            batch.append(dice.roll(*_DAMAGE))
        elif fate == "broken off":
            return [*batch, dice.roll(*_BREAKS)]
    return batch


def logs() -> st.SearchStrategy[list[Item]]:
    return st.one_of(st.binary(max_size=40), st.binary(min_size=50, max_size=150)).map(_log)


# The model


class Line(NamedTuple):
    position: int
    item: Item


class Model:
    """What the rules say about a log, worked out the long way."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.lines = [Line(index * _STEP, item) for index, item in enumerate(items)]
        self.records = {
            line.position: line.item for line in self.lines if isinstance(line.item, Rec)
        }
        self.counted = [
            line.position
            for piece in _pieces(self.lines)
            if _is_whole(piece)
            for line in piece
            if isinstance(line.item, Rec)
        ]
        self.parents = {position: self._parent(position) for position in self.counted}
        again = {position: self._repeat(position) for position in self.counted}
        self.repeated = {position for position, what in again.items() if what == "repeat"}
        self.renamed = {position for position, what in again.items() if what == "renamed"}

    def name(self, position: int) -> str:
        return self.records[position].id or positional_id(position)

    def path(self, position: int | None) -> list[int]:
        """From the root to a record."""
        if position is None:
            return []
        return [*self.path(self.parents[position]), position]

    @property
    def leaves(self) -> list[int]:
        return [one for one in self.counted if one not in self.parents.values()]

    def before(self, position: int) -> int | None:
        """The record that counts and stands next before a place."""
        return max((one for one in self.counted if one < position), default=None)

    def named_parent(self, position: int) -> int | None:
        """The nearest earlier record with the name that a record gives its parent."""
        return max(
            (
                one
                for one in self.counted
                if one < position and self.name(one) == self.records[position].parent
            ),
            default=None,
        )

    def is_missing_parent(self, position: int) -> bool:
        is_named = self.records[position].parent is not None
        return is_named and self.named_parent(position) is None

    @property
    def reparented(self) -> dict[int, str | None]:
        """Whose stored parent would mean another record once repeats are renamed or left out."""
        found: dict[int, str | None] = {}
        for position in self.counted:
            parent = self.named_parent(position)
            if self.is_missing_parent(position) or parent in self.repeated:
                found[position] = None
            elif parent is not None and parent in self.renamed:
                found[position] = positional_id(parent)
        return found

    def stretch(self, leaf: int) -> list[int]:
        """The records up to a leaf that each follow the one written just before."""
        before = self.before(leaf)
        if before is None or self.parents[leaf] != before:
            return [leaf]
        return [*self.stretch(before), leaf]

    def _parent(self, position: int) -> int | None:
        named = self.named_parent(position)
        return self.before(position) if named is None else named

    def _repeat(self, position: int) -> str:
        """What becomes of a record whose id was used before."""
        record = self.records[position]
        taken = [
            one for one in self.counted if one < position and self.records[one].id == record.id
        ]
        if not record.id or not taken:
            return "new"
        first = next((one for one in self.path(position) if one in taken), None)
        children = [child for child, parent in self.parents.items() if parent == position]
        is_plain = self.parents[position] == self.before(position) and all(
            self.before(child) == position for child in children
        )
        is_same = first is not None and self.records[first] == record
        return "repeat" if is_same and is_plain else "renamed"


def _pieces(lines: list[Line]) -> list[list[Line]]:
    """Lines in stretches that may be one append each.

    A stretch ends with a seal, a torn line, lines that are gone, a record that none of its append
    follows, damage that takes the place of such a record, and before a record that does not
    continue the one above.
    """
    pieces: list[list[Line]] = [[]]
    for index, (_position, item) in enumerate(lines):
        above = lines[index - 1].item if index else None
        if isinstance(above, Rec) and isinstance(item, Rec) and above.more != (item.more or 0) + 1:
            pieces.append([])
        if isinstance(item, Rec) and item.more is None:
            pieces.append([])
        pieces[-1].append(lines[index])
        if _ends_append([line.item for line in pieces[-1]]):
            pieces.append([])
    return pieces


def _ends_append(items: list[Item]) -> bool:
    if items[-1] in (SEAL, *_TORN, *_GONE) or (isinstance(items[-1], Rec) and not items[-1].more):
        return True
    last = max((place for place, item in enumerate(items) if isinstance(item, Rec)), default=None)
    if last is None:
        return False
    record, damage = items[last], items[last + 1 :]
    assert isinstance(record, Rec)
    return len(damage) == record.more and not any(item in _LOST for item in damage)


def _is_whole(piece: list[Line]) -> bool:
    """True where every line of an append has its place, and no page was lost."""
    items = [line.item for line in piece]
    if any(isinstance(item, Rec) and item.more is None for item in items):
        return True
    if not items or any(item in _LOST or item in (SEAL, *_TORN) for item in items):
        return False
    lengths = {
        place + (item.more or 0) for place, item in enumerate(items) if isinstance(item, Rec)
    }
    if items[-1] in _GONE:  # nobody can tell how many; those that are left were acknowledged
        return len(lengths) == 1
    return lengths == {len(items) - 1}


# The two under test


def outline_of(model: Model) -> Outline:
    """What a pass from the front makes of the log, given places as a store gives them."""
    outline = Outline()
    for position, item in model.lines:
        outline.add(position, 5, item, "seen")
    outline.end()
    outline.settle({name: places(model, name) for name in outline.missing_ids})
    return outline


def places(model: Model, name: str) -> list[Place]:
    return [
        Place(position, hash((item.kind, item.id, item.ts, item.parent, item.more, item.is_meta)))
        for position, item in model.records.items()
        if model.name(position) == name
    ]


def positions(model: Model, spans: list[LogSpan]) -> list[int]:
    """The records that count in these spans."""
    return [one for span in spans for one in model.counted if span.first <= one <= span.last]


def walked_back(model: Model) -> list[int]:
    """What a pass from the back makes of the log, newest first."""
    return list(_walk_back(model))


def _walk_back(model: Model) -> Iterator[int]:
    track = Backtrack[Rec]()
    lines = model.lines
    while True:
        for position, item in reversed(lines):
            yield from (place for place, _record in track.offer(position, item))
        yield from (place for place, _record in track.finish())
        if track.missing is None:
            return
        end = track.bridge()
        lines = [line for line in model.lines if end is None or line.position < end]


many = examples(300)


@many
@given(logs())
def test_outline_path_visits_each_record_once_from_root_to_head(items: list[Item]) -> None:
    """A path rises from the first record that counts to the last, without coming back."""
    model = Model(items)
    path = positions(model, outline_of(model).path())
    assert path == sorted(set(path))
    assert path[:1] == model.counted[:1]
    assert path[-1:] == model.counted[-1:]


@many
@given(logs())
def test_outline_path_agrees_with_model_for_every_record(items: list[Item]) -> None:
    """The way from the root is the model's, for the head and for every other record."""
    model = Model(items)
    outline = outline_of(model)
    assert positions(model, outline.path()) == model.path(max(model.counted, default=None))
    for position in model.counted:
        assert positions(model, outline.path(position)) == model.path(position)


@examples(2_000)
@given(logs())
@example([rec("a", more=1), GARBAGE, TORN, rec("b")])
@example([rec("a", more=1), GARBAGE, GARBAGE, rec("b")])
@example([rec("a", more=1), GARBAGE, GARBAGE, rec("b", more=0)])
@example([rec("a", more=2), GARBAGE, SEAL, rec("b", more=0)])
@example([rec("c"), rec("y"), rec("c"), rec("d"), rec("e", "c")])
@example([rec("x"), rec("c", "x"), rec("c", "x"), rec("d")])
def test_backtrack_finds_the_same_path_as_the_outline(items: list[Item]) -> None:
    """Read from the back, a log has the same path as read from the front."""
    model = Model(items)
    assert walked_back(model)[::-1] == positions(model, outline_of(model).path())


@many
@given(logs())
def test_backtrack_and_outline_show_the_same_records(items: list[Item]) -> None:
    """Whichever way a log is read, nobody misses a record that the other one sees."""
    model = Model(items)
    outline = outline_of(model)
    forwards = [
        model.records[one] for one in positions(model, outline.path()) if one not in outline.skipped
    ]
    path = [(one, model.records[one]) for one in walked_back(model)[::-1]]
    repeats = settled_ids(path)
    backwards = [record for one, record in path if repeats.get(one, "kept") is not None]
    assert _distinct(forwards) == _distinct(backwards)


def _distinct(records: list[Rec]) -> list[Rec]:
    """Each record with an id once, where it came first; those without are all their own."""
    found: list[Rec] = []
    for record in records:
        if not record.id or record not in found:
            found.append(record)
    return found


@many
@given(logs())
def test_outline_counts_what_the_model_counts(items: list[Item]) -> None:
    """A record of a complete append counts, one of an open append is set aside as such."""
    model = Model(items)
    outline = outline_of(model)
    open_records = set(model.records) - set(model.counted)
    assert {one for one, why in outline.skipped.items() if why == "open"} == open_records
    assert outline.counts == Counter(model.records[one].kind for one in model.counted)
    assert not outline.is_open


@many
@given(logs())
def test_outline_tells_the_sink_of_every_record_in_order(items: list[Item]) -> None:
    """Whoever listens hears of each record that counts, once and in the order of the log."""
    model = Model(items)
    heard: list[tuple[int, Stands]] = []
    outline = Outline(on_record=lambda position, item: heard.append((position, item)))
    for position, item in model.lines:
        outline.add(position, 5, item)
    outline.end()
    assert heard == [(one, model.records[one]) for one in model.counted]


@examples(150)
@given(logs(), logs())
def test_outline_that_is_not_open_owes_nothing_to_what_follows(
    items: list[Item], later: list[Item]
) -> None:
    """Where no append is open, whoever goes on from there counts what a whole reading counts."""
    outline = Outline()
    for count, item in enumerate(items, 1):
        outline.add((count - 1) * _STEP, 5, item)
        follow_on = [count * _STEP + one for one in Model(later).counted]
        if not outline.is_open:
            assert Model([*items[:count], *later]).counted == [
                *Model(items[:count]).counted,
                *follow_on,
            ]
        elif not isinstance(item, Flaw):
            assert isinstance(item, Rec)
            assert item.more


@many
@given(logs())
def test_outline_of_a_later_part_has_no_header(items: list[Item]) -> None:
    """Where records came before, a header is late, even as the first record that is seen."""
    outline = Outline(is_start=False)
    for index, item in enumerate(items):
        outline.add(index * _STEP, 5, item)
    outline.end()
    late = [one.position for one in outline.findings if one.kind == "late-header"]
    model = Model(items)
    assert late == [one for one in model.counted if model.records[one].kind == "session"]
    assert outline.header == ""


@many
@given(logs())
def test_outline_settles_repeated_ids_as_the_model_does(items: list[Item]) -> None:
    """The same line again is taken once; another record under a taken id goes by position."""
    model = Model(items)
    outline = outline_of(model)
    assert {one for one, why in outline.skipped.items() if why == "repeat"} == model.repeated
    assert outline.renamed == model.renamed
    assert outline.reparented == model.reparented


@many
@given(logs())
@example([rec("c"), rec("y"), rec("c", ts=2.0), rec("d", "c")])
@example([rec("c"), rec("y"), rec("c"), rec("d", "c")])
@example([rec("c"), rec("y"), rec("c"), rec("z"), rec("d", "c")])
def test_outline_knows_enough_to_write_a_sound_log(items: list[Item]) -> None:
    """Written again with the ids and parents it gives, a log is sound and has the same paths."""
    model = Model(items)
    outline = outline_of(model)
    kept = [one for one in model.counted if one not in outline.skipped]
    mended = Model([_rewritten(outline, one, model.records[one]) for one in kept])
    outline_again = outline_of(mended)
    assert [one.kind for one in outline_again.findings if one.kind != "late-header"] == []

    old = dict(zip(mended.counted, kept, strict=True))
    for leaf in mended.leaves:
        path = [old[one] for one in positions(mended, outline_again.path(leaf))]
        assert path == [one for one in model.path(old[leaf]) if one in kept]


def _rewritten(outline: Outline, position: int, record: Rec) -> Rec:
    # No record may pass for one without an id, whose name is its place in the new log.
    record_id = record.id
    if not record.id or position in outline.renamed:
        record_id = positional_id(position)
    parent = outline.reparented.get(position, record.parent)
    return Rec(record.kind, f"r{record_id}", record.ts, None if parent is None else f"r{parent}")


@many
@given(logs())
def test_outline_reports_each_trouble_once_and_in_order(items: list[Item]) -> None:
    """Every flaw, open append, repeated id, missing parent and late header is a finding."""
    model = Model(items)
    findings = outline_of(model).findings
    expected = [
        *((line.item.kind, line.position) for line in model.lines if isinstance(line.item, Flaw)),
        *(("open-batch", one) for one in model.records if one not in model.counted),
        *(("duplicate-id", one) for one in model.repeated | model.renamed),
        *(("missing-parent", one) for one in model.counted if model.is_missing_parent(one)),
        *(
            ("late-header", one)
            for one in model.counted[1:]
            if model.records[one].kind == "session"
        ),
    ]
    assert sorted((one.kind, one.position) for one in findings) == sorted(expected)
    assert [one.position for one in findings] == sorted(one.position for one in findings)
    for one in findings:
        is_flaw = isinstance(model.lines[one.position // _STEP].item, Flaw)
        assert one.preview == ("seen" if is_flaw else "")
        # A line has a size; what is only said about a record has none.
        assert one.size == (0 if one.kind in ("duplicate-id", "missing-parent") else 5)


@many
@given(logs())
def test_outline_branches_are_exactly_the_leaves(items: list[Item]) -> None:
    """There is one branch for each record that none follows, and it knows where it forked."""
    model = Model(items)
    branches = outline_of(model).branches()
    assert [branch.position for branch in branches] == model.leaves
    assert [branch.is_current for branch in branches] == [
        leaf == model.counted[-1] for leaf in model.leaves
    ]
    for branch in branches:
        stretch = model.stretch(branch.position)
        fork = model.parents[stretch[0]]
        records = {place: model.records[place] for place in stretch}
        users = [place for place, rec in records.items() if rec.kind == "user" and not rec.is_meta]
        assert branch.records == len(stretch)
        assert branch.ts == model.records[branch.position].ts
        assert branch.last_user == max(users, default=None)
        assert branch.forked_from == (None if fork is None else _known_as(model, fork))
        assert branch.head == _known_as(model, branch.position)


def _known_as(model: Model, position: int) -> str:
    """A name that means this record and no other of the same id."""
    is_again = position in model.repeated | model.renamed
    return positional_id(position) if is_again else model.name(position)


@many
@given(logs())
def test_outline_head_and_header_are_the_last_and_first_record(items: list[Item]) -> None:
    """The head is the last record that counts; the header is the first one if it is one."""
    model = Model(items)
    outline = outline_of(model)
    first = model.counted[:1]
    assert outline.head == "".join(model.name(one) for one in model.counted[-1:])
    assert outline.header == "".join(
        model.name(one) for one in first if model.records[one].kind == "session"
    )


# Cases worth reading


def test_outline_of_nothing_is_empty() -> None:
    """A log without lines has no path, no branch, no head and nothing wrong with it."""
    outline = outline_of(Model([]))
    assert outline.path() == []
    assert outline.branches() == []
    assert (outline.head, outline.header, outline.findings) == ("", "", [])


def test_outline_remembers_one_run_for_a_plain_log() -> None:
    """A log without branches asks for no places and is one span, however long it is."""
    outline = Outline()
    for index in range(5_000):
        outline.add(index * _STEP, 5, rec(f"{index:018x}", f"{index - 1:018x}" if index else None))
    outline.end()
    assert outline.missing_ids == set()
    outline.settle({})
    assert outline.path() == [LogSpan(0, 4_999 * _STEP)]


def test_outline_asks_for_places_of_jumps_and_odd_ids_only() -> None:
    """What must be looked up is what a record names out of turn, and ids out of order."""
    outline = Outline()
    for index, item in enumerate([rec("a"), rec("c"), rec("b"), rec("d", "a"), rec("e", "d")]):
        outline.add(index * _STEP, 5, item)
    outline.end()
    assert outline.missing_ids == {"a", "b"}


def test_outline_path_to_an_uncounted_place_is_that_of_the_record_before_it() -> None:
    """A place inside an open append leads to what counts before it, if anything does."""
    model = Model([rec("o", more=1), SEAL, rec("a"), rec("p", more=1), SEAL, rec("b")])
    outline = outline_of(model)
    assert outline.path(0) == []
    assert positions(model, outline.path(30)) == [20]
    assert positions(model, outline.path()) == [20, 50]


@pytest.mark.parametrize(
    ("items", "counted"),
    [
        pytest.param([rec(more=2), rec(more=1), rec(more=0)], 3, id="whole"),
        pytest.param([rec(more=2), rec(more=1)], 0, id="cut-off"),
        pytest.param([rec(more=1), rec(more=1), rec(more=0)], 2, id="begun-again"),
        pytest.param([rec(more=2), rec(more=0)], 1, id="line-lost"),
        pytest.param([rec(more=2), rec(more=1), rec()], 1, id="plain-record-inside"),
        pytest.param([rec(more=2), GARBAGE, rec(more=0)], 2, id="damaged-inside"),
        pytest.param([GARBAGE, rec(more=1), rec(more=0)], 2, id="damaged-first"),
        pytest.param([rec(more=2), rec(more=1), GARBAGE], 2, id="damaged-last"),
        pytest.param([rec(more=2), GARBAGE, GARBAGE], 1, id="damaged-twice"),
        pytest.param([rec(more=1), GARBAGE, GARBAGE], 1, id="damage-beyond-its-end"),
        pytest.param([rec(more=2), GARBAGE], 0, id="damaged-and-cut-off"),
        pytest.param([rec(more=1), GARBAGE, TORN], 1, id="complete-before-torn"),
        pytest.param([rec(more=1), GARBAGE, SEAL], 1, id="complete-before-seal"),
        pytest.param([rec(more=1), TORN, rec(more=0)], 1, id="torn"),
        pytest.param([rec(more=1), SEAL, rec(more=0)], 1, id="sealed"),
        pytest.param([rec(more=2), SEAL, GARBAGE, rec(more=0)], 1, id="sealed-then-damaged"),
        pytest.param([rec(more=2), NUL, rec(more=0)], 0, id="page-lost-inside"),
        pytest.param([NUL, rec(more=1), rec(more=0)], 0, id="page-lost-first"),
        pytest.param([NUL, GARBAGE, rec(more=0)], 0, id="page-lost-then-damaged"),
        pytest.param([rec(more=2), rec(more=1), NUL], 0, id="page-lost-last"),
        pytest.param([rec(more=1), NUL, rec()], 1, id="page-lost-before-a-record"),
        pytest.param([NUL, rec(more=1), rec(more=0), rec(more=0)], 1, id="page-lost-in-another"),
        pytest.param([NUL, SEAL, rec(more=1), rec(more=0)], 2, id="page-lost-then-sealed"),
        pytest.param([rec(more=3), GARBAGE, rec(more=0)], 0, id="damage-leaves-a-gap"),
        pytest.param([rec(more=3), GARBAGE, rec(more=1), GARBAGE], 2, id="damage-without-a-gap"),
        pytest.param([rec(more=1), rec(more=0), NUL, rec()], 3, id="page-lost-after-its-end"),
        pytest.param([rec(more=3), GONE, rec(more=0)], 2, id="rows-gone-inside"),
        pytest.param([GONE, rec(more=1), rec(more=0)], 2, id="rows-gone-first"),
        pytest.param([rec(more=2), rec(more=1), GONE], 2, id="rows-gone-last"),
        pytest.param([rec(more=2), GONE, rec(more=1), rec(more=0)], 3, id="rows-gone-between"),
        pytest.param([rec(more=2), NUL, GONE, rec(more=0)], 1, id="page-lost-then-rows-gone"),
    ],
)
def test_outline_and_backtrack_count_a_batch_only_when_complete(
    items: list[Item], counted: int
) -> None:
    """An append of several records counts whole; damage stands for a record, a seal ends it.

    A lost page stands for any number of them, so nothing of its append counts.
    """
    model = Model(items)
    outline = outline_of(model)
    assert sum(outline.counts.values()) == counted
    assert len(walked_back(model)) == counted


def test_outline_bridges_damage_in_a_chain_of_parents() -> None:
    """A record whose parent was damaged follows the one before, and its branch stays whole."""
    model = Model([rec("a"), GARBAGE, rec("c", "b"), rec("d", "c")])
    outline = outline_of(model)
    assert outline.path() == [LogSpan(0, 30)]
    (branch,) = outline.branches()
    assert (branch.forked_from, branch.records) == (None, 3)
    missing = [one for one in outline.findings if one.kind == "missing-parent"]
    assert [one.detail for one in missing] == ["`c` names parent `b`"]


def test_outline_rewind_leaves_a_branch() -> None:
    """A record that names an earlier parent starts a branch; the old one stays a leaf."""
    model = Model([rec("a"), rec("b"), rec("c"), rec("d", "a", kind="rewind"), rec("e")])
    outline = outline_of(model)
    assert outline.path() == [LogSpan(0, 0), LogSpan(30, 40)]
    old, new = outline.branches()
    assert (old.head, old.forked_from, old.records, old.is_current) == ("c", None, 3, False)
    assert (new.head, new.forked_from, new.records, new.is_current) == ("e", "a", 2, True)
    assert (old.last_user, new.last_user) == (20, 40)


def test_outline_keeps_a_retried_record_on_the_path() -> None:
    """A line written twice with its parent named is not lost between its two places."""
    model = Model([rec("x"), rec("c", "x"), rec("c", "x"), rec("d")])
    outline = outline_of(model)
    path = [one for one in positions(model, outline.path()) if one not in outline.skipped]
    assert [model.records[one].id for one in path] == ["x", "c", "d"]


def test_outline_details_say_what_was_done() -> None:
    """Findings about open appends and repeated ids name the record and what became of it."""
    items = [rec("a"), rec("a"), rec("a", ts=2.0), rec("b", more=1), rec(more=2)]
    outline = outline_of(Model(items))
    assert [one.detail for one in outline.findings] == [
        "`a` again, the same line; taken once",
        "`a` again, another record; now @20",
        "`user` b, 1 more expected",
        "`user` @40, 2 more expected",
    ]


def test_settled_ids_tells_the_same_record_from_another() -> None:
    """Within a stretch, an equal record is left out and a different one goes by position."""
    a, other = rec("a"), rec("a", ts=2.0)
    stretch = [(0, a), (10, rec()), (20, rec()), (30, rec("a")), (40, other), (50, rec("b"))]
    assert settled_ids(stretch) == {30: None, 40: "@40"}


def test_backtrack_stops_reading_early_without_any_state_left() -> None:
    """Before the first line, and after a root, no parent is missing."""
    track = Backtrack[Rec]()
    assert track.missing is None
    assert track.offer(0, rec("a"))
    assert track.missing is None


def test_backtrack_bridges_again_and_again() -> None:
    """Several missing parents on one path are each bridged, without repeating a record."""
    model = Model([rec("a", "x"), rec("b", "y"), GARBAGE, rec("c", "z"), rec("d", "c")])
    assert walked_back(model) == [40, 30, 10, 0]


def test_model_agrees_with_a_log_worked_out_by_hand() -> None:
    """The model itself is right about a log with a rewind, a repeat and an open append."""
    model = Model(
        [rec("a"), rec("b"), rec("b"), rec("c", "a"), rec("o", more=1), SEAL, rec("d", "gone")]
    )
    assert model.counted == [0, 10, 20, 30, 60]
    assert model.parents == {0: None, 10: 0, 20: 10, 30: 0, 60: 30}
    assert (model.repeated, model.renamed) == ({20}, set())
    assert model.leaves == [20, 60]
    assert model.path(60) == [0, 30, 60]
    assert model.reparented == {60: None}
    assert model.stretch(60) == [30, 60]
