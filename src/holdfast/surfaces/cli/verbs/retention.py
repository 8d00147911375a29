"""`retention`: sessions that no one used for long, or that take too much room, go to the trash."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec

from holdfast.core.history.access import OPERATOR
from holdfast.core.owners import filter_text
from holdfast.engine.operations.upkeep import Retired, RetireSessions
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import UsageError
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.command import ResultCommand, option, takes
from holdfast.surfaces.formatting import ago, count, size_text

if TYPE_CHECKING:
    from holdfast.surfaces.cli.app import App


class RetentionCommand(ResultCommand, frozen=True, kw_only=True):
    """Moves old sessions to the trash."""

    example = """examples:
  holdfast retention --days 90 --dry-run
  holdfast retention --bytes 500m --owner alice"""
    rule: Annotated[
        RetireSessions,
        takes("days", "bytes", "dry_run", days=option("", "DAYS"), bytes=option("", "BYTES")),
    ]

    def run(self, app: App) -> Retired:
        if self.rule.days is None and self.rule.bytes is None:
            raise UsageError("no rule is given", hint="pass --days, --bytes or both")
        asked = msgspec.structs.replace(self.rule, owner=filter_text(app.owner))
        with app.out.busy("looking for old sessions"):
            return asked.call(CallerWorkspace(app.store, OPERATOR))

    def show(self, found: Retired, app: App) -> None:
        if not found.sessions:
            app.out.note("no session is old or large enough to go")
            return
        app.out.note("would go:" if found.dry_run else "moved to the trash:")
        app.out.table(
            ("Session", ">Size", "Last used", "Why", "Owner"),
            (
                (
                    Cell(f"{each.agent}/{each.id}", "name"),
                    size_text(each.bytes),
                    ago(each.last_active),
                    each.why,
                    each.owner,
                )
                for each in found.sessions
            ),
        )
        total = size_text(sum(each.bytes for each in found.sessions))
        app.out.note(f"{count(len(found.sessions), 'session')}, {total}")
        if not found.dry_run:
            app.out.note(f"restore one with `holdfast rm --restore {found.sessions[-1].name}`")
