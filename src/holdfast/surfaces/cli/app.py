"""The environment of a command: settings, stores, output."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.core.log.ids import SessionKey, is_name, resolve
from holdfast.core.owners import NO_OWNER, AnyOwner, is_wanted, owner_of
from holdfast.errors import NoSuchSession, StoreError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.config import Settings
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.ports import SessionInfo
    from holdfast.surfaces.cli.terminal import Output

_LABELLED_MAX: Final = 9
"""Sessions of one label that are looked at: two make it ambiguous, and the error names eight."""


class App:
    """The settings, the store, and the output of one invocation."""

    def __init__(
        self,
        settings: Settings,
        out: Output,
        owner: OwnerFilter,
        agent: str | None = None,
        root: str | None = None,
    ) -> None:
        """`agent` and `root` are those of the command line; None where they were not given."""
        from holdfast.stores.opening import open_store

        self.settings = settings
        self.out = out
        self.owner = owner
        self.agent = agent
        self.root = root
        self.store = open_store(settings.root, blobs=settings.blobs)
        if self.store.caveat:
            out.warn(f"`{self.store.describe()}`: {self.store.caveat}")

    @property
    def owner_of_new(self) -> Owner:
        """The owner of what is made; an operator makes what has no owner."""
        return NO_OWNER if isinstance(self.owner, AnyOwner) else self.owner

    def session(self, name: str) -> SessionKey:
        """Find a session by its id, its label, or a unique prefix of one."""
        from holdfast.ports.sessions import names_of

        exact = list(self._exact(name))
        if len(exact) == 1:
            return exact[0]  # without listing all the others
        infos: list[SessionInfo] = []
        if name and not exact:
            infos = self.store.sessions(owner=self.owner, label=name, limit=_LABELLED_MAX)
        infos = infos or self.sessions()
        return resolve(name, names_of(infos))

    def _exact(self, name: str) -> Iterator[SessionKey]:
        """Yield the sessions with exactly that id, or `agent/id`."""
        agent, slash, session = name.rpartition("/")
        for each in [agent] if slash else self.store.agents():
            if is_name(each) and is_name(session):
                key = SessionKey(each, session)
                with suppress(NoSuchSession, StoreError):  # a full listing tells of damage
                    if is_wanted(owner_of(self.store.header(key).owner), self.owner):
                        yield key

    def sessions(self, agent: str | None = None, limit: int | None = None) -> list[SessionInfo]:
        """List sessions, the newest first; slow only if many logs have changed."""
        with self.out.busy("reading logs that changed"):
            return self.store.sessions(agent=agent, owner=self.owner, limit=limit)
