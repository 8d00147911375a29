"""`inspect` without arguments: looks where agents keep transcripts, and takes the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.config import agent_homes
from holdfast.errors import UsageError
from holdfast.importers.places import AGENTS, VARIABLES, find_transcripts, newest_files
from holdfast.surfaces.formatting import ago, size_text

if TYPE_CHECKING:
    from holdfast.surfaces.cli.app import App

_NEWEST: Final = 20
"""Files that are read without being asked for: enough to see where money goes, in seconds."""


def offer_transcripts(app: App, newest: int | None) -> list[str]:
    """List the folders with transcripts, and return the newest files in them."""
    found = find_transcripts(agent_homes(VARIABLES))
    if not found:
        raise UsageError(
            f"found no transcripts of {', '.join(AGENTS)} in this home folder",
            hint="name a file, a folder or a session: holdfast inspect PATH; "
            "or watch a recorded agent: holdfast demo",
        )
    wanted = newest or _NEWEST
    files = sorted((file for folder in found for file in newest_files(folder)), reverse=True)
    if not app.out.is_json:
        app.out.table(
            ("agent", ">files", ">size", "last used"),
            [
                (
                    folder.agent,
                    f"{folder.files:,}",
                    size_text(folder.bytes),
                    ago(folder.newest),
                )
                for folder in found
            ],
        )
        app.out.line("all of one agent:")
        for folder in found:
            app.out.line(f"  holdfast inspect {_quote(folder.path)}")
        app.out.line()
        if len(files) > wanted:
            app.out.note(f"the {wanted} newest of {len(files):,} files; --newest N takes others")
    return [path for _time, path in files[:wanted]]


def _quote(path: str) -> str:
    import shlex

    return shlex.quote(path)
