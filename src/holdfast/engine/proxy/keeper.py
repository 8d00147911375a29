"""Finds the session of a request through the proxy, and logs the new part of it."""

from __future__ import annotations

import threading
import warnings
from collections import OrderedDict
from typing import TYPE_CHECKING, Final, Literal
from weakref import WeakValueDictionary

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, ModelChange
from holdfast.core.owners import NO_OWNER
from holdfast.core.proxy.branches import TERMS_FIELD, ChainPlace
from holdfast.core.proxy.endpoints import ProxyProblem
from holdfast.core.proxy.identity import (
    REQUEST_FIELD,
    can_be_known,
    is_one_conversation,
    session_name,
)
from holdfast.core.window import window_argument
from holdfast.engine.proxy.new_records import new_records
from holdfast.engine.proxy.prefix_memory import PrefixMemory
from holdfast.engine.proxy.session_branches import SessionPool
from holdfast.engine.proxy.upstreams import RefusedFields, ReplyLimits
from holdfast.engine.session.opening import new_key, session_id_of
from holdfast.engine.spending.meter import Spender
from holdfast.errors import HoldfastWarning

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.owners import Owner
    from holdfast.core.window import GivenWindow
    from holdfast.engine.proxy.request import ClientRequest
    from holdfast.engine.proxy.session_branches import LoggedSession
    from holdfast.engine.spending.meter import CallMeter
    from holdfast.ports import SessionStore

ProxyMode = Literal["observe", "guard", "save"]
"""`observe`: log only. `guard`: cut only what would overflow. `save`: cut when it pays."""

_RESPONSES_MAX: Final = 10_000
"""Responses of which the next request may name one; the provider keeps the history itself."""


class RequestLog:
    """Finds the session of a request, and logs its new part. Safe for threads."""

    def __init__(
        self,
        store: SessionStore,
        *,
        agent: str = "main",
        owner: Owner = NO_OWNER,
        mode: ProxyMode = "guard",
        window: GivenWindow = None,
        has_tools: bool = False,
        is_shared: bool = False,
        meter: CallMeter | None = None,
    ) -> None:
        """`is_shared` is True where several owners use one account of a provider: none of them may
        go on from a response that is not in a log of their own. `meter` counts the calls, and holds
        them to budgets."""
        self.store = store
        self.is_shared = is_shared
        self.owner = owner
        self.has_tools = has_tools
        """True where the proxy gives models of cut conversations its own tools."""
        self.mode: ProxyMode = mode
        self.window = window_argument(window)
        """The window that the user stated; None for the model's own."""
        self.refused_fields = RefusedFields()
        self.reply_limits = ReplyLimits()
        self.meter = meter
        self.spender = Spender(owner, agent)
        self._agent = agent
        self._pool = SessionPool(store, agent, owner)
        self._prefixes = PrefixMemory()
        self._responses: OrderedDict[str, tuple[SessionKey, str]] = OrderedDict()
        self._lock = threading.Lock()
        self._openings: WeakValueDictionary[str, threading.Lock] = WeakValueDictionary()

    @property
    def is_budgeted(self) -> bool:
        """True where calls are held to budgets: then whatever a model answers has to be read."""
        return self.meter is not None and self.meter.budgets is not None

    def describe(self) -> dict[str, str]:
        return {"mode": self.mode, "store": self.store.describe()}

    def warn_or_raise(self, error: Exception) -> None:
        """Raise where the mode promises a log, and warn where it only observes."""
        what = f"the log cannot be written: {error}"
        if self.mode != "observe":
            hint = getattr(error, "hint", None) or "free the disk, or look at the store"
            raise ProxyProblem(
                503, what, f"{hint}; `--mode observe` passes requests on without a log"
            ) from error
        warnings.warn(HoldfastWarning(f"passed on without a log: {what}"), stacklevel=2)

    def pass_unread(self, problem: ProxyProblem) -> None:
        """Let a request pass that cannot be read, with a warning; raise where the mode promises a
        log."""
        if self.mode != "observe":
            raise problem
        warnings.warn(HoldfastWarning(f"passed on without a log: {problem.what}"), stacklevel=2)

    def _opening_lock(self, request: ClientRequest) -> threading.Lock:
        """Return the lock of all requests that begin alike. Until the first of them is in the log,
        an equal one would not find it, and begin a session of its own."""
        with self._lock:
            return self._openings.setdefault(request.opening, threading.Lock())

    def _log(
        self, request: ClientRequest, session: LoggedSession, known: int, place: ChainPlace
    ) -> str:
        """Append what is new: terms that changed, and messages."""
        records: list[Record] = [*_new_terms(request, session, place), *new_records(request, known)]
        return session.append(records, place.tip)

    def _search_response(self, response: str) -> tuple[SessionKey, str] | None:
        """Look for a response that another process logged, in the newest sessions."""
        for session in self._pool.newest():
            with session.lock:
                record = session.branches.responses.get(response) if session.refresh() else None
            if record is not None:
                self.remember_response(response, session.key, record)
                return session.key, record
        return None

    def remember_response(self, response: str, key: SessionKey, record: str) -> None:
        """Remember the place of a response, for a request that goes on from it."""
        with self._lock:
            self._responses[response] = (key, record)
            if len(self._responses) > _RESPONSES_MAX:
                self._responses.popitem(last=False)

    def _new_key(self, request: ClientRequest) -> SessionKey:
        if request.client.session:
            return SessionKey(
                self._agent, session_id_of(session_name(request.client, ""), NO_OWNER)
            )
        return new_key(self._agent)

    def _find(self, request: ClientRequest) -> tuple[LoggedSession, int, ChainPlace]:
        """The session of a request, the number of its atoms that the log has, and the place."""
        if not request.atoms:
            raise ProxyProblem(
                400, "the request has no message", "send at least one", code="no_message"
            )
        if request.client.session:
            return self._find_named(request)
        return self._find_by_prefix(request)

    def _find_named(self, request: ClientRequest) -> tuple[LoggedSession, int, ChainPlace]:
        client = request.client
        name = session_name(client, "")
        session = self._pool.get(SessionKey(self._agent, session_id_of(name, NO_OWNER)))
        with session.lock:
            is_there = session.refresh()
            branches = session.branches
            known, _place = branches.find(request.chains)
            system = request.term_digests.get("system", "")
            is_other = branches.terms.get("system", "") != system
            is_main = (
                client.is_named
                or (is_there and (known > 0 or branches.is_empty or not is_other))
                or (not is_there and bool(request.tools))
            )
            if is_main:
                if not is_there:
                    session.create(f"proxy {client.session}"[:80])
                return session, *session.branches.find(request.chains)
        # Another system prompt and nothing in common: a title, a summary, a memory extraction.
        side = f"{name}-side-{system[:8] or 'plain'}"
        apart = self._pool.get(SessionKey(self._agent, session_id_of(side, NO_OWNER)))
        with apart.lock:
            is_begun = apart.refresh() and apart.branches.find(request.chains)[0] > 0
            if is_there or is_begun or not _ends_of_replies(request):
                if not apart.refresh():
                    apart.create(f"proxy {client.session}"[:80], session.key.session)
                return apart, *apart.branches.find(request.chains)
        # A conversation that goes on is none of these, although it has no tools.
        with session.lock:
            if not session.refresh():
                session.create(f"proxy {client.session}"[:80])
            return session, *session.branches.find(request.chains)

    def _find_by_prefix(self, request: ClientRequest) -> tuple[LoggedSession, int, ChainPlace]:
        """The conversation with the longest prefix in common that has a reply in it.

        An opening alone tells no conversation from another; only a request that was not answered
        is taken up again.
        """
        label = f"proxy {request.opening}"
        replies = _ends_of_replies(request)
        alike = [
            session
            for session in self._pool.in_memory(label)
            if _match(request, session, replies) is not None
        ]
        best = _best_match(request, alike, replies)
        if best is None or best[1] <= max(replies, default=len(request.atoms)):
            # Another process may know more of it.
            best = _best_match(request, self._pool.in_store(label), replies) or best
        if best is None and replies:
            best = _find_resumed(self._pool, request)
        if best is not None:
            self._pool.get(best[0].key, label)
            return best
        session = self._pool.make(label)
        with session.lock:
            return session, *session.branches.find(request.chains)


def _ends_of_replies(request: ClientRequest) -> list[int]:
    """The indexes of the first and the last atom of the model's; none where it said nothing."""
    atoms = request.atoms
    places = range(len(atoms))
    first = next((place for place in places if atoms[place].kind == "assistant"), None)
    last = next((place for place in reversed(places) if atoms[place].kind == "assistant"), None)
    return [] if first is None or last is None else [first, last]


def _find_resumed(
    pool: SessionPool, request: ClientRequest
) -> tuple[LoggedSession, int, ChainPlace] | None:
    """The conversation that a request goes on although it begins otherwise: some clients spell
    the first message differently when they resume one. It is known by the replies that we
    logged, and by the ids of their calls."""
    sent = [rec for rec in new_records(request, 0) if isinstance(rec, Assistant)]
    if not can_be_known(sent):
        return None
    looked: set[SessionKey] = set()
    for sessions in (pool.all_in_memory, pool.newest):
        for session in sessions():
            if session.key in looked:
                continue
            looked.add(session.key)
            with session.lock:
                is_there = session.refresh()
                found = session.branches.find_resumed(request.atoms) if is_there else None
                if found is not None and is_one_conversation(session.replies(), sent):
                    return session, *found
    return None


def _best_match(
    request: ClientRequest, sessions: Sequence[LoggedSession], replies: Sequence[int]
) -> tuple[LoggedSession, int, ChainPlace] | None:
    """The session, brought up to date, that has the longest prefix in common with a request."""
    best: tuple[LoggedSession, int, ChainPlace] | None = None
    for session in sessions:
        with session.lock:
            found = _match(request, session, replies) if session.refresh() else None
        if found is not None and (best is None or found[0] > best[1]):
            best = session, *found
    return best


def _match(
    request: ClientRequest, session: LoggedSession, replies: Sequence[int]
) -> tuple[int, ChainPlace] | None:
    """The prefix that a session has in common with a request, as far as its log was read; None
    where that is an opening alone."""
    with session.lock:
        known, place = session.branches.find(request.chains)
    is_same = bool(replies) and known > replies[0]
    is_retry = known == len(request.atoms) and not place.is_answered
    return (known, place) if is_same or is_retry else None


def _new_terms(request: ClientRequest, session: LoggedSession, place: ChainPlace) -> list[Record]:
    """The terms of a request that are not those of the path that it goes on, as a record."""
    digests, known = request.term_digests, place.terms
    changed = {name: digest for name, digest in digests.items() if known.get(name) != digest}
    if not changed:
        return []
    model = request.model or "(none)"
    said = {name: request.terms[name] for name in changed if name != "model"}
    return [
        ModelChange(
            model=model,
            provider=request.provider,
            window=session.branches.windows.get(model),  # else the change would forget it
            extra={TERMS_FIELD: changed, **({REQUEST_FIELD: said} if said else {})},
        )
    ]
