"""The next request of a session, and the facts that stand above each of its pages."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import msgspec

from holdfast.core.log.records import Assistant
from holdfast.core.models.usage import read_usage
from holdfast.core.models.window import likely_window, turn_window
from holdfast.engine.memory.indexer import session_stamp
from holdfast.engine.session.totals import price_calls
from holdfast.engine.workspace.context import NEAR_RECORDS
from holdfast.errors import CannotFit
from holdfast.providers.known_models.lookup import price_of, window_of
from holdfast.surfaces.console.charts import small_bar
from holdfast.surfaces.console.html import join, tag
from holdfast.surfaces.console.layout import (
    facts,
    gist,
    moment,
    number,
    session_path,
    tabs,
    tokens,
)
from holdfast.surfaces.formatting import money
from holdfast.surfaces.http.context import prepare_next
from holdfast.surfaces.http.sessions import row_of, session_states
from holdfast.surfaces.request_preview import model_in

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.core.models.totals import SessionTotals
    from holdfast.core.models.usage import Usage
    from holdfast.engine.session.prepare import Prepared
    from holdfast.engine.workspace.context import TurnTerms
    from holdfast.ports import SessionStore
    from holdfast.surfaces.console.html import Html
    from holdfast.surfaces.http.route import HttpCall
    from holdfast.surfaces.request_preview import RequestTerms

_KNOWN_SESSIONS_MAX: Final = 2_000
"""Sessions of a store whose last calls are remembered: twice those that a list looks at."""


class LastCall(msgspec.Struct, frozen=True):
    """The newest call of a session: its model, its window, and the room it took."""

    model: str = ""
    window: int | None = None
    """The window that the session works in, where its log tells."""
    window_from: str = ""
    usage: Usage | None = None

    @property
    def window_tokens(self) -> int:
        return self.window or window_of(self.model).tokens

    @property
    def size(self) -> int:
        """Tokens that the context took after the call."""
        return self.usage.prompt + (self.usage.output or 0) if self.usage else 0

    @property
    def share(self) -> float:
        return self.size / self.window_tokens


class _KnownCalls:
    """The last calls of sessions that did not change since they were read."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: OrderedDict[SessionKey, tuple[Json, LastCall]] = OrderedDict()

    def find(self, key: SessionKey, stamp: Json) -> LastCall | None:
        with self._lock:
            known = self._calls.get(key)
            if known is None or known[0] != stamp:
                return None
            self._calls.move_to_end(key)
            return known[1]

    def keep(self, key: SessionKey, stamp: Json, found: LastCall) -> None:
        with self._lock:
            self._calls[key] = stamp, found
            self._calls.move_to_end(key)
            while len(self._calls) > _KNOWN_SESSIONS_MAX:
                self._calls.popitem(last=False)


_known_calls: Final[WeakKeyDictionary[SessionStore, _KnownCalls]] = WeakKeyDictionary()


def last_call(store: SessionStore, key: SessionKey, turns: TurnTerms | None = None) -> LastCall:
    """Look for the newest call among the newest records, and for the window that the session works
    in; `turns` are the terms of its turns in this program.

    A list and the pages of a session ask the same. A session that did not change is read once.
    """
    known = _known_calls.setdefault(store, _KnownCalls())
    stamp = {"log": session_stamp(store.info(key)), "turns": _turns_stamp(turns)}
    found = known.find(key, stamp)
    if found is None:
        found = _read_last_call(store, key, turns)
        known.keep(key, stamp, found)
    return found


def _turns_stamp(turns: TurnTerms | None) -> Json | None:
    """Return everything of the terms that the answer depends on."""
    if turns is None:
        return None
    return {
        "model": turns.target.model,
        "window": turns.window,
        "floor": turns.floor,
        "is_stated": turns.is_stated,
    }


def _read_last_call(store: SessionStore, key: SessionKey, turns: TurnTerms | None) -> LastCall:
    records = list(store.last(key, NEAR_RECORDS))
    _provider, model = model_in(records)
    replies = (record for record in reversed(records) if isinstance(record, Assistant))
    usages = (read_usage(record.usage, record.provider or "") for record in replies)
    usage = next(filter(None, usages), None)
    if turns is not None and turns.is_stated:
        working = turn_window(records, turns.target.model, turns.window, turns.floor)
        return LastCall(model, working.tokens, working.source, usage)
    found = likely_window(records, model)
    if found is None and turns is not None and model in ("", turns.target.model):
        found = (turns.window.tokens, turns.window.source)
    window, source = found or (None, "")
    return LastCall(model, window, source, usage)


def cost_text(totals: SessionTotals, model: str = "") -> str:
    """Return the cost of a session by list prices, and the number of calls without one."""
    cost, unpriced = price_calls(totals, price_of, model_default=model, helper_default=model)
    if not totals.calls:
        return money(0)
    if unpriced and not cost:
        return f"{number(unpriced)} calls without a price"
    return money(cost) + (f" + {number(unpriced)} unpriced" if unpriced else "")


def try_prepare(store: SessionStore, key: SessionKey, terms: RequestTerms) -> Prepared | str:
    """Return the next request, or the sentence that says why there is none."""
    try:
        return prepare_next(store, key, terms)
    except CannotFit as error:
        return str(error)


def running_text(call: HttpCall, key: SessionKey) -> Html | None:
    """Return who runs the turn of a session, and since when; None where no turn runs."""
    running = call.store.queues.messages(
        "inbox", owner=call.owner, lane=str(key), states=("running",), limit=1
    )
    if not running:
        return None
    holder = gist(running[0].holder, 60)
    return tag("span", "since ", moment(running[0].since or 0), " by ", holder, class_="dim")


def heading(call: HttpCall, key: SessionKey, here: str) -> tuple[str, Html]:
    """Return the title and the top of a page of a session."""
    info = row_of(call.store.info(key), call, session_states(call))
    totals = call.store.totals(key)
    turns = call.workspace.context.turn_terms(key)
    last = last_call(call.store, key, turns)
    name = gist(info.label or info.title or str(key), 100)
    used = f"{tokens(last.size)} of {tokens(last.window_tokens)}"
    title = f"{'● running' if info.state == 'running' else info.state} · {name} · {last.share:.0%}"
    cuts = f"{totals.compactions} + {totals.prunes} prunes"
    return title, join(
        tag("h1", name),
        facts(
            (
                "state",
                [
                    tag("span", info.state, class_=f"state {info.state}", id="state"),
                    running_text(call, key) if info.state == "running" else None,
                ],
            ),
            ("model", gist(call.workspace.mask(last.model), 60) or "none yet"),
            (
                "last call took",
                tag(
                    "a",
                    small_bar(last.share, used),
                    f" {last.share:.0%}, {used}",
                    href=session_path(key, "/context"),
                ),
            ),
            (
                "cost",
                tag("a", cost_text(totals, last.model), href=session_path(key, "/context/time")),
            ),
            ("compactions", tag("a", cuts, href=session_path(key, "/compaction"))),
            ("records", number(info.records)),
            ("last active", moment(info.last_active)),
            ("session", tag("code", str(key))),
        ),
        tabs(key, here),
    )
