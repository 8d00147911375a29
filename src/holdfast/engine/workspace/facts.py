"""The facts of a session: one value, made here, that every surface shows.

Sums are over everything in the log, on every branch. What the next request has is in its plan
(`core.projection`); the status of an open session is made from the same totals and the same plan.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from itertools import islice
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

import msgspec

from holdfast.core.log.records import Assistant
from holdfast.core.models.catalog import family_of
from holdfast.core.models.totals import Spent, bill_for
from holdfast.core.models.usage import Usage, read_usage
from holdfast.core.models.window import likely_window, model_in, turn_window
from holdfast.core.proxy.identity import is_proxied, newest_terms
from holdfast.engine.memory.indexer import session_stamp
from holdfast.providers.known_models.lookup import price_of, window_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool
    from holdfast.core.models.totals import SessionTotals
    from holdfast.core.window import Window
    from holdfast.engine.session.options import SessionOptions
    from holdfast.ports import SessionInfo, SessionStore

NEAR_RECORDS: Final = 2_000
"""The newest records, in which every surface looks for the model and the window of a session."""


class TurnTerms(msgspec.Struct, frozen=True):
    """The terms that turns of an agent work with in this program."""

    target: Target
    """The model that answers."""
    options: SessionOptions
    """The settings of its sessions."""
    window: Window
    """The context window that the settings state, or the model's."""
    floor: int
    """The smallest window to accept."""
    is_stated: bool = True
    """False where no one chose them for this agent: another program may run its sessions."""


def default_dialect(model: str) -> str:
    """Return the request format of a model."""
    family = family_of(model)
    return family.dialect if family is not None else "anthropic"


def terms_of_proxy(
    store: SessionStore, key: SessionKey, newest: Sequence[Record]
) -> tuple[str, tuple[Tool, ...]]:
    """Return the system prompt and the tools that the proxy logged, which may be long ago; nothing
    for other sessions. `newest` are the newest records."""
    if not is_proxied(newest):
        return "", ()
    return newest_terms(islice(store.back(key), _TERMS_RECORDS))


def list_bill(totals: SessionTotals, model: str = "") -> Spent:
    """Return the bill by list prices; `model` stands where a record names none."""
    return bill_for(totals, price_of, model_default=model, helper_default=model)


_TERMS_RECORDS: Final = 20_000
"""Records of a path in which the terms of a proxied session are looked for."""
_KNOWN_SESSIONS_MAX: Final = 2_000
"""Sessions of a store whose last calls are remembered: twice those that a list looks at."""


class LastCall(msgspec.Struct, frozen=True):
    """The newest call of a session: its model, its window, and the room it took."""

    model: str = ""
    window: Window | None = None
    """The window that the session works in, where its log tells."""
    usage: Usage | None = None

    @property
    def context_window(self) -> Window:
        """The window that the session works in, or that of its model."""
        return self.window or window_of(self.model)

    @property
    def size(self) -> int:
        """Tokens that the context took after the call."""
        return self.usage.prompt + (self.usage.output or 0) if self.usage else 0

    @property
    def share(self) -> float:
        return self.size / self.context_window.tokens


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
        return LastCall(model, working, usage)
    found = likely_window(records, model)
    if found is None and turns is not None and model in ("", turns.target.model):
        found = turns.window
    return LastCall(model, found, usage)


class SessionFacts(msgspec.Struct, frozen=True):
    """A session in numbers."""

    info: SessionInfo
    totals: SessionTotals
    """Turns, calls, compactions and tokens."""
    spent: Spent
    """The bill, by list prices."""
    last: LastCall


def read_facts(
    store: SessionStore, key: SessionKey, turns: TurnTerms | None = None
) -> SessionFacts:
    """Return the facts of a session; `turns` are the terms of its turns in this program."""
    info, totals, last = store.info(key), store.totals(key), last_call(store, key, turns)
    return SessionFacts(info, totals, list_bill(totals, last.model), last)
