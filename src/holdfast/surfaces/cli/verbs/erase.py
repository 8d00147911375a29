"""`erase`: deletes sessions for good, and reports what remains elsewhere."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from holdfast.core.log.ids import Named, resolve
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.engine.erasing import erase, erase_owner
from holdfast.errors import NoSuchSession, UsageError
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.formatting import count, size_text

if TYPE_CHECKING:
    import argparse

    from holdfast.core.log.ids import SessionKey
    from holdfast.engine.erasing import ErasureReport

_EXIT_NOT_CONFIRMED = 1
"""A script that did not get what it asked for must see it."""


def _add_erase(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", nargs="*", help="also one in the trash")
    parser.add_argument("--dry-run", action="store_true", help="change nothing, show what would go")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _erase(args: argparse.Namespace, app: App) -> int:
    if bool(args.session) == (args.owner is not None):
        raise UsageError("nothing to erase is named", hint="pass SESSION …, or --owner NAME")
    if args.owner == "":
        raise UsageError("the name of the owner is empty", hint="erase sessions by their names")
    keys = [_find(app, name) for name in args.session]

    def run(*, is_dry: bool) -> ErasureReport:
        if isinstance(app.owner, NamedOwner):
            return erase_owner(app.store, app.owner, dry_run=is_dry)
        return erase(app.store, *keys, owner=ANY_OWNER, dry_run=is_dry)

    planned = run(is_dry=True)
    if args.dry_run:
        _show(app, planned)
        return 0
    if not args.yes and not _is_confirmed(app, planned):
        app.out.note("nothing was erased")
        return _EXIT_NOT_CONFIRMED
    with app.out.busy("erasing"):
        report = run(is_dry=False)
    _show(app, report)
    return 0


def _find(app: App, name: str) -> SessionKey:
    """Find a session by its name, in the trash and among unfinished erasures as well."""
    try:
        return app.session(name)
    except NoSuchSession:
        removed = {*(trashed.key for trashed in app.store.trash()), *app.store.erasures()}
        if not removed:
            raise
        return resolve(name, (Named(key, "") for key in sorted(removed)))


def _is_confirmed(app: App, planned: ErasureReport) -> bool:
    if app.out.is_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "erasing cannot be undone, and there is no terminal to ask on",
            hint="pass --yes; --dry-run shows what would be erased",
        )
    _show(app, planned)
    what = count(len(planned.sessions), "session")
    app.out.ask(f"erase {what} for good? [y/N] ")
    return sys.stdin.readline().strip().casefold() in ("y", "yes")


def _show(app: App, report: ErasureReport) -> None:
    if app.out.is_json:
        app.out.json(_report_json(report))
        return
    rows: list[Row] = [
        [
            Cell(str(session.key), "name"),
            f"{session.logs:,}",
            size_text(session.bytes),
            f"{session.blobs:,}",
            f"{session.notes:,}",
            f"{session.accesses:,}",
        ]
        for session in report.sessions
    ]
    if not rows and not report.notes:
        app.out.note("nothing is stored under that name; nothing was erased")
        return
    app.out.note("would be erased:" if report.is_dry_run else "erased:")
    app.out.table(("Session", ">Logs", ">Size", ">Outputs", ">Notes", ">Audit entries"), rows)
    if report.notes:
        app.out.line(f"{count(report.notes, 'note')} of the owner")
    app.out.note("not erased:")
    for copy in report.remaining:
        app.out.note(f"  {copy.where or copy.kind}: {copy.why}")


def _report_json(report: ErasureReport) -> dict[str, object]:
    return {
        "dry_run": report.is_dry_run,
        "sessions": [
            {
                "session": session.key.session,
                "agent": session.key.agent,
                "logs": session.logs,
                "bytes": session.bytes,
                "blobs": session.blobs,
                "notes": session.notes,
                "accesses": session.accesses,
            }
            for session in report.sessions
        ],
        "notes": report.notes,
        "remaining": [
            {"kind": copy.kind, "where": copy.where, "why": copy.why} for copy in report.remaining
        ],
    }


VERBS = {
    "erase": Verb(_add_erase, _erase),
}
