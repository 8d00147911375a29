"""The environment of a command: settings, stores, output."""

from __future__ import annotations

import argparse
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.log.ids import SessionKey, is_name, resolve
from holdfast.core.owners import NO_OWNER, AnyOwner, is_wanted, owner_of
from holdfast.errors import NoSuchSession, StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.config import Settings
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.ports import SessionInfo
    from holdfast.surfaces.cli.terminal import Output

_LABELLED_MAX: Final = 9
"""Sessions of one label that are looked at: two make it ambiguous, and the error names eight."""


class App:
    """The settings, the store, and the output of one invocation."""

    def __init__(self, settings: Settings, out: Output, owner: OwnerFilter) -> None:
        from holdfast.stores.opening import open_store

        self.settings = settings
        self.out = out
        self.owner = owner
        self.store = open_store(settings.root, blobs=settings.blobs)
        if self.store.caveat:
            out.warn(f"`{self.store.describe()}`: {self.store.caveat}")

    @property
    def owner_of_new(self) -> Owner:
        """The owner of what is made; an operator makes what belongs to nobody."""
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


class Verb(msgspec.Struct, frozen=True):
    """The arguments and the action of a command; its name and help are in `cli.COMMANDS`."""

    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, App], int]
    epilog: str = ""


def add_session(parser: argparse.ArgumentParser, nargs: Literal["*"] | None = None) -> None:
    """Add the argument that names a session of the store."""
    words = "its id, its label, or a unique start of one"
    parser.add_argument("session", metavar="SESSION", nargs=nargs, help=words)


def add_common(parser: argparse.ArgumentParser, *, is_default_set: bool) -> None:
    """Add the options that are accepted before and after the command."""
    none, no = (None, False) if is_default_set else (argparse.SUPPRESS, argparse.SUPPRESS)
    group = parser.add_argument_group("common options")
    group.add_argument(
        "--root",
        default=none,
        help="the store: a folder or another address (default: HOLDFAST_ROOT, or .sessions in this "
        "folder or one above)",
    )
    group.add_argument(
        "--agent", default=none, help="the agent of new sessions (default: HOLDFAST_AGENT, or main)"
    )
    group.add_argument(
        "--owner",
        metavar="NAME",
        default=none,
        help="only sessions of this owner, and new ones for it (default: sessions of every owner)",
    )
    group.add_argument(
        "--verbose",
        "-v",
        action="count",
        default=0 if is_default_set else argparse.SUPPRESS,
        help="write what happens to stderr; -vv writes more",
    )
    group.add_argument("--json", action="store_true", default=no, help="print JSON for programs")
