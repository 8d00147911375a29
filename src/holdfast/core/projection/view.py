"""The log as it was decided to be seen: from the newest boundary that binds, in recorded forms.

A `ProjectionCache` reads a session's records into a `View`. Passed to the next projection of the
same session, it reads only what is new.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.checkpoint.render import render_checkpoint
from holdfast.core.checkpoint.state import State, read_state
from holdfast.core.dialects.prefix import (
    NO_PREFIXES,
    WrittenMessages,
    may_return,
    prefixes_later,
    provable,
)
from holdfast.core.log.records import (
    MESSAGES,
    Assistant,
    Checkpoint,
    Compaction,
    Epoch,
    InjectedContext,
    Prune,
    ToolResult,
    ToolsAdded,
    ToolUse,
    Undo,
    User,
    from_json,
)
from holdfast.core.log.replay import Boundaries, additions, binds, undone
from holdfast.core.models.messages import Text
from holdfast.core.projection.prune import clear, trim
from holdfast.core.projection.sizes import Scale, WeighedUnits
from holdfast.core.projection.steps import ReadRecords, Thread, ViewRepair
from holdfast.core.projection.units import (
    LAST_CUT,
    LEAST_SUMMARY,
    ContextUnit,
    JoinedMessages,
    MessagePart,
    join_opening,
    open_with_user,
)
from holdfast.core.refusals import REFUSED, read_left_out
from holdfast.core.text.cut import scrub
from holdfast.core.text.fences import SUMMARY_LABEL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.dialects.prefix import Prefixes
    from holdfast.core.log.records import PruneDecision, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Message, Thinking, Tool
    from holdfast.core.models.usage import Usage
    from holdfast.core.projection.sizes import Weight
    from holdfast.core.tokens.calibration import Calibration
    from holdfast.core.window import WindowFilter


_MESSAGES: Final = (User, InjectedContext, Assistant, ToolResult, ToolUse)


class Form(msgspec.Struct, frozen=True, gc=False):
    """The form in which a record is shown."""

    action: Literal["trim", "clear"]
    keep: int | None = None
    """Characters that stay, of what is not cleared; None for the default."""

    def join(self, later: Form) -> Form:
        """Both forms in one: what was cleared stays cleared, what is shorter stays shorter."""
        action = self.action if self.action == "clear" else later.action
        keeps = [form.keep for form in (self, later) if form.keep is not None]
        return Form(action, min(keeps) if keeps else None)


class MeasuredCall(msgspec.Struct, frozen=True):
    """A call to a model that the log remembers."""

    unit: int
    """Index of the unit that its reply became; what it was sent is before that."""
    usage: Usage
    model: str
    ts: float


class View(msgspec.Struct, frozen=True):
    """The starting point of a projection."""

    boundary: Compaction | None
    opening: list[ContextUnit]
    """The replacement for everything before the units: a summary, and the turn of the cut."""
    units: list[ContextUnit]
    forms: dict[str, Form]
    repairs: list[ViewRepair]
    last_call: MeasuredCall | None
    """The newest call whose size still says something: nothing was cut since."""
    last_reply: float
    """When a model last answered; 0 for never."""
    calls: int
    calibration: Calibration
    replies: dict[str, Assistant]
    """The replies with reasoning that could go back, by id."""
    reasoning: frozenset[str]
    """The replies whose reasoning stands behind its own prefix."""
    prefixes: Callable[[], Prefixes]
    """The digests of the request that the view makes."""


class ProjectionCache:
    """State that one projection of a session hands to the next: threads, sizes, corrections."""

    def __init__(self, scale: Scale | None = None) -> None:
        self.scale = scale or Scale()
        self._shapes: dict[tuple[int, Form], tuple[MessagePart, MessagePart]] = {}
        self._units: dict[tuple[int, tuple[Form | None, ...]], tuple[ContextUnit, ContextUnit]] = {}
        self._reading: _Reading | None = None
        self._written = WrittenMessages()
        self._known = ReadRecords()
        self._joined = JoinedMessages()
        self._weighed = WeighedUnits(self.scale)

    @property
    def size(self) -> int:
        """Return the number of things that are kept."""
        return len(self._known) + self.scale.cache_size

    def read(
        self,
        records: Sequence[Record],
        window: WindowFilter,
        target: Target,
        system: str = "",
        tools: Sequence[Tool] = (),
        way_back: str = "",
    ) -> View:
        """The view of a path of records, oldest first, behind a system prompt and tools.

        `way_back` tells the model how to read what was cut."""
        reading = self._reading
        head = Head(system, tuple(tools), way_back)
        if reading is None or not reading.goes_on_in(records, window, target, head):
            self._let_go(records)
            reading = self._reading = _Reading(
                records, window, target, self.scale, head=head, known=self._known
            )
        while True:
            reading.feed(records)
            view = self._proven(reading)
            if view is not None:
                return view
            # Reasoning that is not behind its own prefix goes; what is left is read without it.
            reading = self._reading = _Reading(
                records,
                window,
                target,
                self.scale,
                head=head,
                stale=reading.stale,
                known=self._known,
            )

    def _proven(self, reading: _Reading) -> View | None:
        """The view, where all of its reasoning stands behind its own prefix."""
        view = reading.view()
        messages = self.join(self.show_units((*view.opening, *view.units), view.forms))
        head = reading.head
        prefixes = prefixes_later(messages, head.system, head.tools, reading.target, self._written)
        replies = reading.replies
        valid = provable(messages, prefixes(), replies, reading.target) if replies else frozenset()
        stale = frozenset(reading.replies) - valid
        if not stale <= reading.stale:
            reading.stale |= stale
            return None
        return msgspec.structs.replace(view, reasoning=valid, prefixes=prefixes)

    def read_rest(
        self,
        records: Sequence[Record],
        start: int,
        window: WindowFilter,
        target: Target,
        pinned: Sequence[Record],
        stale: frozenset[str],
    ) -> View:
        """The view of the records from `start` on, as a cut before them leaves it; `pinned` are
        the records that it keeps, and `stale` the replies without reasoning that could go back."""
        reading = _Reading(
            records, window, target, self.scale, start, pinned, stale=stale, known=self._known
        )
        reading.feed(records)
        return reading.view()

    def _let_go(self, records: Sequence[Record]) -> None:
        """Drop what no view of these records needs: a session lives for months."""
        self.scale.keep(records)
        self._known.keep(records)
        ids = {record.id for record in records}
        self._shapes = {at: it for at, it in self._shapes.items() if it[0].record in ids}
        self._units = {at: it for at, it in self._units.items() if it[0].first in ids}

    def weigh(self, units: Sequence[ContextUnit], forms: dict[str, Form]) -> Weight:
        return self.scale.units(self.show_units(units, forms))

    def weigh_first(self, units: Sequence[ContextUnit], forms: dict[str, Form], end: int) -> Weight:
        """Return what the units of a view before `end` weigh."""
        return self._weighed.first(self.show_units(units, forms), end)

    def join(self, shown: list[ContextUnit]) -> list[Message]:
        """Return the messages of units that are shown; no one changes the list."""
        return self._joined.of(open_with_user(shown))

    def show_units(self, units: Iterable[ContextUnit], forms: dict[str, Form]) -> list[ContextUnit]:
        """`shown` of many; most logs have no forms."""
        return [self.shown(unit, forms) for unit in units] if forms else list(units)

    def shown(self, unit: ContextUnit, forms: dict[str, Form]) -> ContextUnit:
        """A unit with each part in its form."""
        if not forms or not any(part.record in forms for part in unit.parts):
            return unit
        key = (id(unit), tuple(forms.get(part.record) for part in unit.parts))
        found = self._units.get(key)
        if found is None:
            parts = tuple(self.shape(part, forms.get(part.record)) for part in unit.parts)
            found = self._units[key] = (unit, ContextUnit(parts))
        return found[1]

    def shape(self, part: MessagePart, form: Form | None) -> MessagePart:
        """A part in a form; the same object each time."""
        if form is None or not part.record:
            return part
        found = self._shapes.get((id(part), form))
        if found is None:
            found = self._shapes[id(part), form] = (part, _shape(part, form))
        return found[1]


def _shape(part: MessagePart, form: Form) -> MessagePart:
    if form.action == "trim":
        return trim(part, form.keep)
    return clear(part) if form.keep is None else trim(clear(part), form.keep)


class Head(msgspec.Struct, frozen=True):
    """The parts of a request that every request of a session has alike."""

    system: str = ""
    tools: tuple[Tool, ...] = ()
    way_back: str = ""


class _Reading:
    """One path, read for one window and one target, as far as it has been fed."""

    def __init__(
        self,
        records: Sequence[Record],
        window: WindowFilter,
        target: Target,
        scale: Scale,
        start: int | None = None,
        pinned: Sequence[Record] = (),
        *,
        head: Head | None = None,
        stale: frozenset[str] = frozenset(),
        known: ReadRecords | None = None,
    ) -> None:
        self._window = window
        self.target = target
        self.head = head or Head()
        self.stale = stale
        """Replies whose reasoning is not behind its own prefix."""
        self._barred = _find_barred(records)
        self.replies: dict[str, Assistant] = {}
        """The replies with reasoning that could go back to the target, by id."""
        self._scale = scale
        self._first = records[0] if records else None
        self._boundary, self._fed = _start(records, window) if start is None else (None, start)
        self._undone = undone(records)
        self._last: Record | None = records[self._fed - 1] if self._fed else None
        maker = (target.provider, target.model)
        left_out = read_left_out(records, *maker)
        added = frozenset(record.id for record in additions(records) if target.adds_tools)
        self._known = ReadRecords() if known is None else known
        self._thread = Thread(self._admits, maker, self._barred, left_out, added, self._known)
        self._forms: dict[str, Form] = {}
        self._opening = _opening(self._boundary, self._thread, pinned, self.head.way_back)
        self._last_call: MeasuredCall | None = None
        self._last_reply = 0.0
        self._calls = 0
        self._calibration = scale.base(target.model)

    def _admits(self, record: Assistant, thinking: Thinking) -> bool:
        if record.id in self._barred or not may_return(self.target, record, thinking):
            return False
        self.replies[record.id] = record
        return record.id not in self.stale

    @property
    def _is_blank(self) -> bool:
        """True while nothing was said: a checkpoint is then what the session starts from."""
        return not self._thread.units()

    def goes_on_in(
        self,
        records: Sequence[Record],
        window: WindowFilter,
        target: Target,
        head: Head,
    ) -> bool:
        """Return whether these records are the ones read so far and some more."""
        fed = self._fed
        return (
            window == self._window
            and target == self.target
            and head == self.head
            and fed <= len(records)
            and (fed == 0 or (records[fed - 1] is self._last and records[0] is self._first))
            and not any(_turns_the_view(record, window) for record in records[fed:])
            and not (any(type(rec) is Checkpoint for rec in records[fed:]) and self._is_blank)
        )

    def feed(self, records: Sequence[Record]) -> None:
        for record in records[self._fed :]:
            self._thread.feed(record)
            kind = type(record)
            if kind is Assistant:
                self._note_call(record)  # type: ignore[arg-type]
            elif kind is Prune:
                self._apply(record)  # type: ignore[arg-type]
            elif kind is Compaction:
                self._forget_size()
        if len(records) > self._fed:
            self._last = records[-1]
            self._first = records[0]
        self._fed = len(records)

    def view(self) -> View:
        return View(
            boundary=self._boundary,
            opening=self._opening,
            units=self._thread.units(),
            forms=dict(self._forms),
            repairs=self._thread.all_repairs(),
            last_call=self._last_call,
            last_reply=self._last_reply,
            calls=self._calls,
            calibration=self._calibration,
            replies=self.replies,
            reasoning=frozenset(),
            prefixes=lambda: NO_PREFIXES,
        )

    def _apply(self, record: Prune) -> None:
        if not binds(record.window, self._window):
            return
        if record.id in self._undone:
            return
        for decision in record.decisions:
            before, form = self._forms.get(decision.record), _form(decision)
            self._forms[decision.record] = form if before is None else before.join(form)
        self._forget_size()

    def _note_call(self, record: Assistant) -> None:
        self._calls += 1
        self._last_reply = max(self._last_reply, record.ts)
        usage = self._known.usage(record)
        model = self.target.model
        if model and record.model and record.model != model:
            self._forget_size()  # another model counts in other tokens
            return
        if usage is None:
            return
        call = MeasuredCall(self._thread.position, usage, record.model or "", record.ts)
        before = self._last_call
        if before is not None and before.model == call.model and before.unit < call.unit:
            added = self._scale.units(self._thread.closed_units(before.unit, call.unit))
            grown = usage.prompt - before.usage.prompt
            self._calibration = self._calibration.learn(added.counted, added.results, grown)
        self._last_call = call

    def _forget_size(self) -> None:
        """Forget the measured size: after a cut it says nothing about the view."""
        self._last_call = None


def _turns_the_view(record: Record, window: WindowFilter) -> bool:
    """Return whether what was read before this record has to be read again."""
    if type(record) is ToolsAdded:
        return True
    if type(record) is Epoch and (record.drops_reasoning or record.cause in (REFUSED, "tools")):
        return True
    return type(record) is Undo or Boundaries(window).is_one(record)


def _find_barred(records: Sequence[Record]) -> frozenset[str]:
    """The replies from before a refusal of their reasoning: it is not sent again."""
    places = range(len(records) - 1, -1, -1)
    found = (at for at in places if type(rec := records[at]) is Epoch and rec.drops_reasoning)
    return frozenset(rec.id for rec in records[: next(found, 0)] if type(rec) is Assistant)


def _start(records: Sequence[Record], window: WindowFilter) -> tuple[Compaction | None, int]:
    """The newest boundary that binds, or else the state the session starts from; and the index of
    the first record after it."""
    boundaries = Boundaries(window)
    for index in range(len(records) - 1, -1, -1):
        record = records[index]
        if boundaries.is_one(record):
            assert isinstance(record, Compaction)
            if record.first_kept is None:
                return record, index
            kept = (i for i in range(index - 1, -1, -1) if records[i].id == record.first_kept)
            return record, next(kept, index)
    return _starting_state(records), 0


def _form(decision: PruneDecision) -> Form:
    return Form(decision.action, decision.keep)


def fence_summary(summary: str) -> str:
    """A summary as data: labelled, and not to be taken for what someone asks."""
    inner = scrub(summary).replace("</conversation_so_far>", "</conversation_so_far_>")
    return f"{SUMMARY_LABEL}\n<conversation_so_far>\n{inner}\n</conversation_so_far>"


def _opening(
    boundary: Compaction | None, thread: Thread, pinned: Sequence[Record], way_back: str
) -> list[ContextUnit]:
    """The units before the first kept record. The thread knows the ids of calls among them."""
    for record in pinned if boundary is None else turn_records(boundary):
        thread.feed(record)
    summary: list[ContextUnit] = []
    if boundary is not None:
        end = boundary.covers[1] if boundary.covers is not None else ""
        summary = opening_of(boundary.id, boundary.summary, end, way_back)
    return join_opening(summary, thread.seal())


def turn_records(boundary: Compaction) -> list[Record]:
    """The records that a compaction keeps in view beside its summary."""
    return [rec for rec in map(from_json, boundary.turn or ()) if isinstance(rec, _MESSAGES)]


def opening_of(record: str, summary: str, end: str, way_back: str) -> list[ContextUnit]:
    """The unit that a summary becomes, with a line about what was cut: all up to the record `end`.

    Where the model has no way back, there is no such line."""
    if not summary.strip():
        return []
    text = summary if summary == LEAST_SUMMARY else fence_summary(summary)
    if text is not summary and end and way_back:
        text = f"{text}\n[Everything up to record {end} was cut: {way_back.replace(LAST_CUT, end)}]"
    return [ContextUnit((MessagePart(record, "injected", "user", (Text(text),)),))]


def turns_of(units: Sequence[ContextUnit]) -> list[int]:
    """The indexes at which turns begin: a user's message that follows a step, or the first unit."""
    return [
        index
        for index, unit in enumerate(units)
        if index == 0 or (unit.is_user and not units[index - 1].is_user)
    ]


_BEGUN: Final = frozenset((*MESSAGES, "tool_use", "compaction"))
"""The types of records that end the beginning of a session."""


def _starting_state(records: Sequence[Record]) -> Compaction | None:
    """The boundary that a session starts with: the newest checkpoint before its first message.

    Nothing was said before it, so it is the state of earlier work, whichever session that was.
    """
    found: Compaction | None = None
    for record in records:
        if isinstance(record, Checkpoint):
            state = read_state(record.state)
            text = render_checkpoint(state) if isinstance(state, State) else ""
            if text:
                found = Compaction(id=record.id, ts=record.ts, summary=text, method="extract")
        elif record.kind in _BEGUN:
            break
    return found
