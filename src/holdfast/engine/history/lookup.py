"""Finding the sessions that a caller may read, by id, label or beginning of an id."""

from __future__ import annotations

from contextlib import suppress
from heapq import merge
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.history.access import (
    OPERATOR,
    Gate,
    Subject,
    decide,
    own_key,
    readable_agents,
    readable_owners,
    subject_of,
)
from holdfast.core.limits import ID_CHARS_MAX
from holdfast.core.log.ids import Named, SessionKey, is_name, resolve
from holdfast.core.owners import UNKNOWN_OWNER, owner_of
from holdfast.engine.history.request import RequestRefused
from holdfast.errors import AmbiguousName, NoSuchSession, StoreError
from holdfast.ports.sessions import listing_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from holdfast.core.history.access import AccessDecision, Caller
    from holdfast.core.owners import OwnerFilter
    from holdfast.ports import SessionInfo, SessionStore

CURRENT: Final = "current"
"""As the name of a session: the caller's own."""
_SESSION_CHARS_MAX: Final = 2 * ID_CHARS_MAX + 1
_PAGE: Final = 200
NAMED_MAX: Final = 1_000
"""The newest sessions that are looked through for one whose id or label begins as asked."""
_LABELLED_MAX: Final = 50
"""Sessions with one label: more are as ambiguous."""


class SessionLookup:
    """The sessions of a store that one caller may read; a bare id means a session of `agent`."""

    def __init__(self, store: SessionStore, caller: Caller, agent: str) -> None:
        self._store = store
        self._caller = caller
        self._agent = agent
        self.is_exact = False
        """Only `agent/id` in full is a name: no label, and no beginning of an id."""

    def resolve(self, name: Any) -> tuple[SessionKey, AccessDecision]:
        """The session of that name, if the caller may read it. Raises `RequestRefused`."""
        if not isinstance(name, str) or not name.strip():
            raise RequestRefused(
                "invalid", "no session is named", hint=f"give its id, or `{CURRENT}`"
            )
        if len(name) > _SESSION_CHARS_MAX:
            raise RequestRefused("invalid", f"no session has a name of {len(name):,} characters")
        subject = self._subject(name.strip())
        verdict = decide(self._caller, subject, self.find)
        if subject is None or not verdict.is_allowed:
            raise RequestRefused("forbidden", verdict.reason)
        return subject.key, verdict

    def _subject(self, name: str) -> Subject | None:
        """The session with a name; one outside the caller's view is found by its exact id only."""
        for key in self._exact(name):
            found = self.find(key)
            if found is not None:
                return found
        if self.is_exact:
            return None
        visible = self._candidates(name)
        try:
            key = resolve(name, (Named(info.key, info.label) for info in visible))
        except AmbiguousName as error:
            raise RequestRefused("invalid", str(error), hint=error.hint or "") from error
        except NoSuchSession as error:
            if self._caller == OPERATOR:
                raise RequestRefused("not_found", str(error), hint=error.hint or "") from error
            return None
        return next(subject_of(key, info, info.owner) for info in visible if info.key == key)

    def _candidates(self, name: str) -> list[SessionInfo]:
        """The sessions that the caller may read and that a name can mean."""
        gate = Gate(self._caller, self.find)
        labelled = (
            info
            for owner in readable_owners(self._caller)
            for info in self._store.sessions(owner=owner, label=name, limit=_LABELLED_MAX)
            if gate.verdict(subject_of(info.key, info, info.owner)).is_allowed
        )
        found = {info.key: info for info in (*labelled, *self.visible(NAMED_MAX))}
        return list(found.values())

    def _exact(self, name: str) -> Iterator[SessionKey]:
        caller = self._caller
        if name == CURRENT and caller.session is not None and is_name(caller.session):
            yield SessionKey(caller.agent, caller.session)
            return
        agent, slash, session = name.rpartition("/")
        agent = agent if slash else self._agent
        if is_name(agent) and is_name(session):
            yield SessionKey(agent, session)

    def find(self, key: SessionKey) -> Subject | None:
        try:
            header = self._store.header(key)
            return subject_of(key, header, owner_of(header.owner))
        except NoSuchSession:
            return None
        except StoreError:
            return Subject(
                key, UNKNOWN_OWNER
            )  # it exists, but its damaged header does not say whose it is

    def visible(
        self, limit: int | None = None, *, after: SessionInfo | None = None
    ) -> list[SessionInfo]:
        """The sessions that the caller may read, the most recently active first: all of them, or
        as many as are wanted after one. No more are listed than it takes to find these."""
        return list(islice(self._each_visible(limit or _PAGE, after), limit))

    def _each_visible(self, page: int, after: SessionInfo | None) -> Iterator[SessionInfo]:
        gate = Gate(self._caller, self.find)
        agents = readable_agents(self._caller)
        streams: list[Iterable[SessionInfo]] = [
            self._pages(owner, agent, min(page, _PAGE), after)
            for owner in readable_owners(self._caller)
            for agent in agents
        ]
        if None not in agents:
            relatives = sorted(self._relatives(gate), key=listing_order)
            streams.append(
                info
                for info in relatives
                if after is None or listing_order(info) > listing_order(after)
            )
        known: set[SessionKey] = set()
        for info in merge(*streams, key=listing_order):
            if info.key not in known:
                known.add(info.key)
                if gate.verdict(subject_of(info.key, info, info.owner)).is_allowed:
                    yield info

    def _pages(
        self, owner: OwnerFilter, agent: str | None, size: int, after: SessionInfo | None
    ) -> Iterator[SessionInfo]:
        while page := self._store.sessions(owner=owner, agent=agent, after=after, limit=size):
            yield from page
            if len(page) < size:
                return
            after = page[-1]

    def _relatives(self, gate: Gate) -> Iterator[SessionInfo]:
        """The caller's own session, those that it continues, and those that descend from it."""
        own = own_key(self._caller)
        if own is None:
            return
        for key in (own, *gate.past):
            with suppress(NoSuchSession, StoreError):  # a damaged one is not listed
                yield self._store.info(key)
        names = {str(own)}
        known = set(names)
        while names and self._caller.visibility != "self":
            found = [
                info for info in self._store.possible_copies(names) if info.parent_session in names
            ]
            yield from found
            names = {str(info.key) for info in found} - known
            known |= names


def find_named(
    store: SessionStore, name: str, *, owner: OwnerFilter, agent: str | None = None
) -> list[SessionInfo]:
    """Return the sessions that a name can mean: those with that label, and the newest ones, whose
    id or label may begin so."""
    labelled = store.sessions(owner=owner, agent=agent, label=name, limit=_LABELLED_MAX)
    newest = store.sessions(owner=owner, agent=agent, limit=NAMED_MAX)
    return list({info.key: info for info in (*labelled, *newest)}.values())
