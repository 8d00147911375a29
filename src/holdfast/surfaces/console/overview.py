"""The first page: the cost of the newest sessions, its causes, what could be spared, what waits."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Annotated, Final, NamedTuple
from weakref import WeakKeyDictionary

import msgspec

from holdfast.core.adoption import is_adopted
from holdfast.core.inspection.bill import BilledSession
from holdfast.core.log.ids import SessionKey
from holdfast.core.models.window import model_in
from holdfast.core.owners import owner_of
from holdfast.core.queues import INBOX
from holdfast.engine.memory.indexer import session_stamp
from holdfast.engine.operations.sessions import FindSessions
from holdfast.engine.session.waiting_list import WAITING
from holdfast.engine.simulation.savings import find_saving
from holdfast.engine.timers import QUEUE as TIMERS
from holdfast.surfaces.bill import (
    HABITS,
    SAVINGS_NOTE,
    breaks_text,
    cost_text,
    make_bill,
    parts_of,
    savings_table,
)
from holdfast.surfaces.console.layout import page_route, show
from holdfast.surfaces.console.plans import facts_of
from holdfast.surfaces.console.session_pages.reports import inspect_session, read_for_page
from holdfast.surfaces.formatting import money
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.inspection.bill import BillLine
    from holdfast.core.inspection.inspect import Inspection
    from holdfast.engine.operations.sessions import SessionRow
    from holdfast.engine.simulation.savings import Saving
    from holdfast.engine.workspace.facts import SessionFacts
    from holdfast.ports import SessionStore
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_SESSIONS: Final = 25
"""Sessions that a page adds up."""
_REPLAYED: Final = 5
"""Sessions that are replayed, as `holdfast inspect` does by default."""
_KNOWN_MAX: Final = 200
"""Sessions of a store whose replays are remembered."""
_RECORDS_MAX: Final = 6_000
"""Records that it counts for them: a page is there within seconds."""
_DAYS: Final = 31
"""The last days that it shows."""
_WIDTH: Final = 1_000
_HEIGHT: Final = 160
_TOP: Final = 24
"""The room above the highest column for its cost."""
_LABEL_WIDTH: Final = 70
"""The room that a date takes below its column."""
_BEGIN: Final = (
    ("Chat in a terminal", "holdfast chat my-first --model offline"),
    ("Import what another agent wrote", "holdfast import ~/.claude/projects"),
    (
        "Five lines of Python",
        "import holdfast\n\n"
        'with holdfast.Session.open("my-first", model="offline") as session:\n'
        '    print(session.say("hello").text)',
    ),
)


class OverviewQuery(HttpQuery, frozen=True):
    """The place to go on from."""

    cursor: Annotated[str, msgspec.Meta(max_length=1_000)] = ""


class _Day(NamedTuple):
    line: BillLine
    x: float
    y: float
    height: float
    label: str
    """The date, where there is room for it."""
    words: str
    """The cost, under the same condition."""


class _Days(NamedTuple):
    """The columns of days, in units of their drawing."""

    days: list[_Day]
    width: float
    middle: float


class OverviewLine(NamedTuple):
    """A session, as the page shows it."""

    info: SessionRow
    key: SessionKey
    facts: SessionFacts
    looked: Inspection | None
    """None where there was no room for it."""


def show_overview(call: HttpCall) -> HttpAnswer:
    """Show the cost of the newest sessions, by day, model and so on, and what waits."""
    lines, following = read_lines(call)
    counted = [
        BilledSession(line.looked, agent=line.info.agent, owner=owner_of(line.info.owner))
        for line in lines
        if line.looked is not None
    ]
    bill = make_bill(counted)
    return show(
        call,
        "overview.html",
        "Overview",
        here="/",
        bill=bill,
        cost=cost_text(bill),
        breaks=breaks_text(bill),
        days=bill.by_day[-_DAYS:],
        parts=parts_of(bill),
        habits=HABITS,
        lines=lines,
        left_out=len(lines) - len(counted),
        older=f"/?cursor={following}" if following else "",
        savings=f"/savings?cursor={call.query.cursor}" if call.query.cursor else "/savings",
        picture=_draw_days(bill.by_day[-_DAYS:]),
        ahead=_count_ahead(call),
        ways_to_begin=_BEGIN,
    )


def _draw_days(days: Sequence[BillLine]) -> _Days:
    """Return a column for each day, as high as its cost; by tokens where no price is known."""
    step = _WIDTH / max(1, len(days))
    has_costs = any(line.cost for line in days)
    sizes = [line.cost if has_costs else line.prompt for line in days]
    most = max(sizes, default=0) or 1
    every = -(-len(days) * _LABEL_WIDTH // _WIDTH)
    drawn = []
    for number, (line, size) in enumerate(zip(days, sizes, strict=True)):
        height = max(size / most * _HEIGHT, 2.0 if size else 0.0)
        has_room = (len(days) - 1 - number) % every == 0
        label = line.name[5:] if has_room else ""
        words = money(line.cost) if has_room and line.cost else ""
        x, y = round(number * step, 1), round(_TOP + _HEIGHT - height, 1)
        drawn.append(_Day(line, x, y, round(height, 1), label, words))
    return _Days(drawn, round(step * 0.8, 1), round(step * 0.4, 1))


def _count_ahead(call: HttpCall) -> list[tuple[str, str]]:
    """Return what waits for someone: its words and its page."""
    queues, owner = call.store.queues, call.owner
    inbox = queues.counts(INBOX, owner=owner)
    calls, timers = (
        queues.counts(queue, owner=owner).get("waiting", 0) for queue in (WAITING, TIMERS)
    )
    found = (
        (calls, "call waits for a person", "calls wait for a person", "/waiting"),
        (inbox.get("failed", 0), "message failed", "messages failed", "/inbox?state=failed"),
        (inbox.get("waiting", 0), "message waits", "messages wait", "/inbox?state=waiting"),
        (timers, "timer is ahead", "timers are ahead", "/timers"),
    )
    return [
        (f"{number:,} {one if number == 1 else many}", page)
        for number, one, many, page in found
        if number
    ]


def read_lines(call: HttpCall) -> tuple[list[OverviewLine], str | None]:
    """Return the sessions of a page, the most expensive first, and the place to go on from."""
    found = FindSessions(cursor=call.query.cursor, limit=_SESSIONS).answer(call.workspace).value
    return sorted(_inspect(call, found.sessions), key=_cost, reverse=True), found.next_cursor


def _inspect(call: HttpCall, infos: list[SessionRow]) -> list[OverviewLine]:
    left = _RECORDS_MAX
    lines = []
    for info in infos:
        key = SessionKey(info.agent, info.id)
        looked = None
        if info.records <= left:
            left -= info.records
            records = read_for_page(call, key)
            looked = inspect_session(call, key, records) if records else None
        lines.append(OverviewLine(info, key, facts_of(call, key), looked))
    return lines


def _cost(line: OverviewLine) -> tuple[float, int]:
    if line.looked is None:
        return 0.0, 0
    return line.looked.spent.cost or 0.0, line.looked.spent.prompt


class _KnownSavings:
    """The replays of sessions that did not change since."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._found: OrderedDict[SessionKey, tuple[str, Saving | None]] = OrderedDict()

    def find(self, key: SessionKey, stamp: str) -> tuple[str, Saving | None] | None:
        with self._lock:
            known = self._found.get(key)
            return known if known is not None and known[0] == stamp else None

    def keep(self, key: SessionKey, stamp: str, saving: Saving | None) -> None:
        with self._lock:
            self._found[key] = stamp, saving
            self._found.move_to_end(key)
            while len(self._found) > _KNOWN_MAX:
                self._found.popitem(last=False)


_known: Final[WeakKeyDictionary[SessionStore, _KnownSavings]] = WeakKeyDictionary()


def show_savings(call: HttpCall) -> HttpAnswer:
    """Replay the most expensive sessions of a page: with Holdfast, and without it.

    That takes a second, so the first page fetches this part when it is there, and a session that
    did not change is replayed once.
    """
    lines, _following = read_lines(call)
    replayed = [(line, _find_saving(call, line)) for line in lines[:_REPLAYED]]
    found = [(line, saving) for line, saving in replayed if saving is not None]
    names = [line.info.label or line.info.title or line.info.id for line, _saving in found]
    savings = [saving for _line, saving in found]
    return show(
        call,
        "savings.html",
        "What it would have been",
        savings=savings_table(list(zip(names, savings, strict=True))),
        keys=[line.key for line, _saving in found],
        ours=[saving.is_ours for saving in savings],
        note=SAVINGS_NOTE,
        adopting="holdfast adopt",
    )


def _find_saving(call: HttpCall, line: OverviewLine) -> Saving | None:
    key, looked, window = line.key, line.looked, line.facts.last.context_window
    if looked is None:
        return None
    stamp = f"{session_stamp(line.facts.info)} {window.tokens}"
    known = _known.setdefault(call.store, _KnownSavings())
    before = known.find(key, stamp)
    if before is not None:
        return before[1]
    records = read_for_page(call, key) or []
    provider, model = model_in(records)
    is_ours = not is_adopted(records)
    saving = find_saving(records, looked, window, provider=provider, model=model, is_ours=is_ours)
    known.keep(key, stamp, saving)
    return saving


ROUTES: Final = (
    page_route("GET", "/", "Overview", show_overview, query=OverviewQuery, action="list"),
    page_route(
        "GET",
        "/savings",
        "What it would have been",
        show_savings,
        query=OverviewQuery,
        action="list",
    ),
)
