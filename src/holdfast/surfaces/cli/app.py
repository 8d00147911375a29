"""What every command gets to work with."""

from __future__ import annotations

import argparse
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from holdfast.core.log.ids import Named, SessionKey, resolve
from holdfast.stores.blobs import FileBlobs
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.config import Settings
    from holdfast.ports import SessionInfo
    from holdfast.surfaces.cli.terminal import Output


@dataclass(slots=True)
class App:
    """The settings, the stores of the root, and the output of one invocation."""

    settings: Settings
    out: Output
    store: JsonlStore = field(init=False)
    blobs: FileBlobs = field(init=False)

    def __post_init__(self) -> None:
        self.store = JsonlStore(self.settings.root)
        self.blobs = FileBlobs(self.settings.root)

    def session(self, name: str) -> SessionKey:
        """The session meant by an id, a label, or a unique prefix of one."""
        infos = self.sessions()
        return resolve(name, (Named(info.key, info.label) for info in infos))

    def sessions(self, agent: str | None = None) -> list[SessionInfo]:
        """All sessions; takes a while only when many logs have changed."""
        with self.out.busy("reading logs that changed"):
            return self.store.sessions(agent=agent)


@dataclass(frozen=True, slots=True)
class Command:
    """One verb of the command line."""

    name: str
    help: str
    add_arguments: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace, App], int]
    epilog: str = ""


def add_common(parser: argparse.ArgumentParser, *, is_default_set: bool) -> None:
    """Options that may stand before the command or after it; what is not given stays as it was."""
    none, no = (None, False) if is_default_set else (argparse.SUPPRESS, argparse.SUPPRESS)
    group = parser.add_argument_group("everywhere")
    group.add_argument("--root", default=none, help="the folder (HOLDFAST_ROOT, .sessions)")
    group.add_argument("--agent", default=none, help="of new sessions (HOLDFAST_AGENT, main)")
    group.add_argument("--json", action="store_true", default=no, help="print JSON for programs")
