"""Finding the sessions that a caller may read, by id, label or beginning of an id."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from holdfast.core.history.access import (
    OPERATOR,
    Gate,
    Subject,
    decide,
    readable_owners,
    subject_of,
)
from holdfast.core.limits import ID_CHARS_MAX
from holdfast.core.log.ids import Named, SessionKey, is_name, resolve
from holdfast.core.owners import ANY_OWNER, UNKNOWN_OWNER, owner_of
from holdfast.engine.history.request import RequestRefused
from holdfast.errors import AmbiguousName, NoSuchSession, StoreError
from holdfast.ports import page_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.history.access import AccessDecision, Caller
    from holdfast.ports import SessionInfo, SessionStore

CURRENT: Final = "current"
"""As the name of a session: the caller's own."""
_SESSION_CHARS_MAX: Final = 2 * ID_CHARS_MAX + 1


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
        visible = self.visible()
        try:
            key = resolve(name, (Named(info.key, info.label) for info in visible))
        except AmbiguousName as error:
            raise RequestRefused("invalid", str(error), hint=error.hint or "") from error
        except NoSuchSession as error:
            if self._caller == OPERATOR:
                raise RequestRefused("not_found", str(error), hint=error.hint or "") from error
            return None
        return next(subject_of(key, info, info.owner) for info in visible if info.key == key)

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

    def visible(self) -> list[SessionInfo]:
        owners = readable_owners(self._caller)
        infos = [info for owner in owners for info in self._store.sessions(owner=owner)]
        known = {info.key: subject_of(info.key, info, info.owner) for info in infos}
        gate = Gate(self._caller, lambda key: known.get(key) or self.find(key))
        seen = (info for info in infos if gate.verdict(known[info.key]).is_allowed)
        return page_of(seen, owner=ANY_OWNER, label=None, after=None, limit=None)
