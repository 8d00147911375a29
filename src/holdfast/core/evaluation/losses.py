"""Losses: what a reply needed, had come up before, and was not in its request.

The tracker is shown each request as the needs that its pieces contain. Between two cuts a request
only grows, so that each piece is looked at once; a cut costs what is in view.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.evaluation.needs import LASTING, NEED_KINDS, Need
from holdfast.core.limits import REF_CHARS
from holdfast.core.log.records import ToolResult
from holdfast.core.text.cut import cut, ellipsis

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.core.evaluation.needs import NeedCatalog, NeedKind
    from holdfast.core.log.records import Record

CutAction = Literal["compaction", "pruning", "policy"]
"""`policy`: one that keeps no record of what it takes out."""
_QUERY_CHARS: Final = 60
"""Of a search: more words find nothing more."""


class ViewCut(msgspec.Struct, frozen=True, omit_defaults=True):
    """A change of the request that took something out of view."""

    number: int
    """Counted from 1 within a session."""
    call: int
    """The call whose request was the first without it, counted from 1."""
    action: CutAction = "policy"
    """The kind of change."""
    reason: str = ""
    """The reason that the log or the plan states."""
    record: str = ""
    """The compaction or prune in the log; empty where the cut was made by the replay."""
    kept_from: str = ""
    """The first record that stayed whole."""


class LastSeen(msgspec.Struct, frozen=True, omit_defaults=True):
    """The newest record that had it."""

    record: str
    """The id of the record."""
    kind: str
    """The type of the record: `user`, `assistant`, `tool_result`."""
    call: int
    """The call that got the record first, counted from 1."""
    tool: str = ""
    """The tool whose result it is."""
    ref: str = ""
    """The ref of its output, where that is kept outside the log."""


class Loss(msgspec.Struct, frozen=True):
    """Something that a reply needed and that its request no longer had."""

    kind: NeedKind
    """The kind of need: an instruction, task, file, value or name."""
    text: str
    """The words that were needed."""
    needed_by: str
    """The record of the first reply that lacked it."""
    needed_call: int
    """The number of that call, counted from 1."""
    calls: int
    """Number of calls that lacked it."""
    seen: LastSeen
    """The newest record that had them."""
    cut: ViewCut
    """The cut that took them out of view."""
    ways_back: tuple[str, ...]
    """Tool calls with which the agent could have got it back."""


class CutNote(msgspec.Struct, frozen=True):
    """The decision that a request is the first to follow."""

    action: CutAction = "policy"
    reason: str = ""
    record: str = ""
    kept_from: str = ""


class ObservedCall(msgspec.Struct, frozen=True):
    """A call of the replay, as far as losses depend on it."""

    reply: str
    """The record of the reply."""
    arrived: Sequence[tuple[str, frozenset[int]]]
    """The records that are new in this call, with the needs that they contain."""
    uses: Iterable[int]
    """Needs that the reply used and that had come up before."""
    pieces: Sequence[frozenset[int]]
    """The needs in each piece of the request."""
    known: int
    """Number of the pieces that are as in the request before; 0 after a cut."""
    summary: str = ""
    """The text that replaces what was cut."""
    made: CutNote = CutNote()


class LossTracker:
    """Follows one session through its requests."""

    def __init__(self, catalog: NeedCatalog, records: Iterable[Record]) -> None:
        self._catalog = catalog
        self._records: Mapping[str, Record] = {record.id: record for record in records}
        self._calls = 0
        self._cuts = 0
        self._present: set[int] = set()
        self._seen: dict[int, tuple[str, int]] = {}
        self._taken: dict[int, ViewCut] = {}
        self._standing: set[int] = set()
        self._missing: dict[int, tuple[int, _Found]] = {}
        """Sentences that are needed and not in view, with the first call that lacked them."""
        self._found: dict[tuple[int, int], _Found] = {}
        self._needed: set[int] = set()

    def observe(self, call: ObservedCall) -> None:
        """Take the next call."""
        place, self._calls = self._calls, self._calls + 1
        now = self._cut_of(call)
        if now is None:
            self._show(call.pieces[call.known :])
        else:
            self._change(call, now)
        for record, numbers in call.arrived:
            for number in numbers:
                self._seen[number] = (record, self._calls)
                if number not in self._present:  # shortened before any request had it
                    now = now or self._new_cut(call)
                    self._taken[number] = now
        changed = self._catalog.standing[place]
        for number in changed.ended:
            self._standing.discard(number)
            self._end_missing(number)
        for number in changed.begun:
            self._standing.add(number)
            self._needed.add(number)
            if number not in self._present:
                self._begin_missing(number, call.reply)
        for number in call.uses:
            self._needed.add(number)
            if number not in self._present and number not in self._missing:
                self._note(number, call.reply).calls += 1

    def finish(self) -> tuple[Loss, ...]:
        """Every loss, the lasting kinds first, then by the call that noticed it."""
        for number in list(self._missing):
            self._end_missing(number, self._calls + 1)
        order = {kind: place for place, kind in enumerate(NEED_KINDS)}
        losses = [self._loss(number, found) for (number, _cut), found in self._found.items()]
        return tuple(
            sorted(losses, key=lambda loss: (order[loss.kind], loss.needed_call, loss.text))
        )

    @property
    def need_counts(self) -> dict[NeedKind, int]:
        """Number of different needs so far, by kind."""
        counts: dict[NeedKind, int] = dict.fromkeys(NEED_KINDS, 0)
        for number in self._needed:
            counts[self._catalog.needs[number].kind] += 1
        return counts

    # The view

    def _cut_of(self, call: ObservedCall) -> ViewCut | None:
        is_same = bool(call.known) or not self._present
        return None if is_same else self._new_cut(call)

    def _new_cut(self, call: ObservedCall) -> ViewCut:
        self._cuts += 1
        made = call.made
        return ViewCut(
            *(self._cuts, self._calls, made.action, made.reason, made.record, made.kept_from)
        )

    def _show(self, pieces: Iterable[frozenset[int]]) -> None:
        for piece in pieces:
            self._present |= piece
            for number in piece & self._missing.keys():
                self._end_missing(number)

    def _change(self, call: ObservedCall, made: ViewCut) -> None:
        before = self._present
        self._present = set().union(*call.pieces)
        if call.summary:
            unseen = self._standing - self._present
            unseen |= {number for number in before - self._present if self._is_lasting(number)}
            self._present |= self._catalog.find_paraphrases(call.summary, unseen)
        for number in before - self._present:
            self._taken[number] = made
        for number in self._present & self._missing.keys():
            self._end_missing(number)
        for number in self._standing - self._present - self._missing.keys():
            self._begin_missing(number, call.reply)

    def _is_lasting(self, number: int) -> bool:
        return self._catalog.needs[number].kind in LASTING

    # Losses

    def _begin_missing(self, number: int, reply: str) -> None:
        if number not in self._missing:
            self._missing[number] = (self._calls, self._note(number, reply))

    def _end_missing(self, number: int, end: int | None = None) -> None:
        missing = self._missing.pop(number, None)
        if missing is not None:
            since, found = missing
            found.calls += (end or self._calls) - since

    def _note(self, number: int, reply: str) -> _Found:
        made = self._taken.get(number)
        if made is None:  # it is nowhere in the requests: its own message was never shown
            made = self._taken[number] = ViewCut(0, self._calls)
        key = (number, made.number)
        if key not in self._found:
            seen = self._seen.get(number, ("", self._calls))
            self._found[key] = _Found(reply, self._calls, made, seen)
        return self._found[key]

    def _loss(self, number: int, found: _Found) -> Loss:
        need = self._catalog.needs[number]
        record, call = found.seen
        seen = _last_seen(self._records.get(record), record, call)
        return Loss(
            *(need.kind, need.text, found.reply, found.call, max(1, found.calls), seen, found.cut),
            ways_back(need, seen),
        )


class _Found:
    """A loss that is still counted."""

    __slots__ = ("call", "calls", "cut", "reply", "seen")

    def __init__(self, reply: str, call: int, made: ViewCut, seen: tuple[str, int]) -> None:
        self.reply, self.call, self.cut, self.seen = reply, call, made, seen
        self.calls = 0


def ways_back(need: Need, seen: LastSeen) -> tuple[str, ...]:
    """The calls with which an agent gets something back that is no longer in view."""
    query = cut(" ".join(need.text.split()), _QUERY_CHARS, keep="head", marker=ellipsis).text
    ways = [f'context(ref="{seen.ref}")'] if seen.ref else []
    if need.kind == "file":
        ways.append("list or search the folder again")
    if seen.record:
        ways.append(f'sessions_history(sessionKey=…, around="{seen.record}")')
    return (*ways, f"memory_search(query={_quote(query)})")


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _last_seen(record: Record | None, name: str, call: int) -> LastSeen:
    if record is None:
        return LastSeen(name, "", call)
    if not isinstance(record, ToolResult):
        return LastSeen(name, record.kind, call)
    ref = record.output_ref.sha256[:REF_CHARS] if record.output_ref is not None else ""
    return LastSeen(name, record.kind, call, record.name or "", ref)
