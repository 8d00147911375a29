"""`copy`: everything of a store into another, to move it or to keep a second one up to date."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Any, Final

from holdfast.errors import UsageError
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.command import ResultCommand, option, pick, place
from holdfast.surfaces.formatting import count, size_text

if TYPE_CHECKING:
    from holdfast.ports import SessionStore
    from holdfast.ports.copying import (
        CopiedMessages,
        CopiedNotes,
        CopiedSession,
        CopyProgress,
        CopyReport,
        CopyState,
    )
    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.formatting import Tone

_EXIT_INCOMPLETE: Final = 1
_ROWS_MAX: Final = 50
"""Sessions without a problem that are listed; there may be a hundred thousand."""
_INSIDE: Final = "-"
"""As an address of payloads: in the store itself."""
_TONES: Final[dict[CopyState, Tone]] = {
    "copied": "good",
    "updated": "good",
    "same": "dim",
    "conflict": "bad",
    "failed": "bad",
}


_BLOBS: Final = (
    f"the payloads of {{}}, {_INSIDE} for the store itself (default: HOLDFAST_BLOBS, else the "
    "store itself)"
)


class CopyCommand(ResultCommand, frozen=True, kw_only=True):
    """Copies a store."""

    example = """example:
  holdfast copy .sessions postgresql://agent@db.example/agents --dry-run
  holdfast copy .sessions postgresql://agent@db.example/agents
"""
    source: Annotated[str | None, place("a store (default: the root)", "FROM")] = None
    target: Annotated[str, place("another store: a folder or another address", "TO")]
    from_blobs: Annotated[str | None, option(_BLOBS.format("FROM"), "ADDRESS")] = None
    to_blobs: Annotated[str | None, option(_BLOBS.format("TO"), "ADDRESS")] = None
    dry_run: Annotated[bool, option("show what would be done, and write nothing")] = False

    @property
    def root(self) -> str | None:
        return self.source

    def run(self, app: App) -> CopyReport:
        from holdfast.stores.copying import copy_store

        if self.source is not None and app.root not in (None, self.source):
            raise UsageError("FROM and --root name two stores", hint="name the source once")
        with ExitStack() as stack:
            source, target = self._open(app, stack)
            report = copy_store(
                source,
                target,
                agent=app.agent,
                owner=app.owner,
                dry_run=self.dry_run,
                on_progress=lambda now: app.out.count(_progress(now)),
            )
            app.out.count("")
        if not (report.sessions or report.notes or report.accesses or report.messages.messages):
            raise UsageError(
                f"there is nothing to copy in `{report.source}`",
                hint="check the address, --agent and --owner",
            )
        return report

    def _open(self, app: App, stack: ExitStack) -> tuple[SessionStore, SessionStore]:
        """Open both stores; where their payloads are in one place, they share it."""
        from holdfast.stores.opening import open_store

        ours, theirs = (
            None if given == _INSIDE else given or app.settings.blobs
            for given in (self.from_blobs, self.to_blobs)
        )
        source = app.store
        if ours != app.settings.blobs:
            source = stack.enter_context(open_store(app.settings.root, blobs=ours))
        shared = source.blobs if theirs is not None and theirs == ours else theirs
        target = stack.enter_context(open_store(self.target, blobs=shared))
        for store, what in ((source, "from"), (target, "to")):
            if store.caveat:
                raise UsageError(
                    f"cannot copy {what} `{store.describe()}`: {store.caveat}",
                    hint="name a folder or a database; a program can use `copy_store`",
                )
        return source, target

    def plain(self, found: CopyReport) -> Any:
        sizes = ("key", "state", "bytes", "added", "payloads", "left_out")
        sums = ("source", "target", "accesses", "accesses_damaged", "trashed", "messages")
        return pick(found, *sums, complete="is_complete", dry_run="is_dry_run") | {
            "sessions": [
                pick(each, *sizes) | {"turn": each.turn or None, "detail": each.detail or None}
                for each in found.sessions
            ],
            "notes": [
                pick(each, "scope", "state", "files", "added") | {"detail": each.detail or None}
                for each in found.notes
            ],
        }

    def show(self, found: CopyReport, app: App) -> None:
        _show(app, found)

    def status(self, found: CopyReport) -> int:
        return 0 if found.is_complete else _EXIT_INCOMPLETE


def _progress(now: CopyProgress) -> str:
    return f"{now.number:,} of {now.total:,}: {now.key} {size_text(now.bytes)}"


def _show(app: App, report: CopyReport) -> None:
    troubles = [session for session in report.sessions if not session.is_done]
    changed = [session for session in report.sessions if session.is_done and session.added]
    app.out.note(f"from {report.source}")
    app.out.note(f"to   {report.target}")
    if shown := [*changed[:_ROWS_MAX], *troubles]:
        columns = ("Session", "", ">Size", ">Added", ">Outputs", "")
        app.out.table(columns, map(_session_row, shown))
    if len(changed) > _ROWS_MAX:
        app.out.note(f"and {len(changed) - _ROWS_MAX:,} more; --json lists them")
    if report.notes:
        app.out.table(("Notes", "", ">Files", ">Added", ""), map(_notes_row, report.notes))
    app.out.line(_sum(report))
    if report.is_dry_run:
        app.out.note("a dry run: nothing was written")
    if report.trashed:
        app.out.note(f"not copied: {count(report.trashed, 'session')} in the trash")
    _show_messages(app, report.messages)
    if report.accesses_damaged:
        app.out.note(
            f"not copied: {count(report.accesses_damaged, 'damaged line')} of the audit log"
        )
    left_out = [session for session in report.sessions if session.left_out]
    if left_out:
        size = sum(session.left_out for session in left_out)
        app.out.note(
            f"not copied: {size:,} bytes at the end of {count(len(left_out), 'log')}, of appends "
            "that never completed"
        )
    if not report.is_complete:
        app.out.note("nothing was lost or overwritten; run it again once that is settled")


def _show_messages(app: App, copied: CopiedMessages) -> None:
    if copied.messages:
        new = f"{copied.added:,} added, {copied.updated:,} updated"
        app.out.line(f"{count(copied.messages, 'message')} in queues: {new}")
    if copied.running:
        app.out.note(
            f"{count(copied.running, 'message')} at work; at the target they wait: copy again "
            "after it"
        )
    if copied.conflicts_count:
        named = ", ".join(map(str, copied.conflicts))
        app.out.note(
            f"not copied: {count(copied.conflicts_count, 'message')} that the target has another "
            f"of, or has gone on with: {named}"
        )


def _session_row(session: CopiedSession) -> Row:
    detail = session.detail
    if session.turn:
        detail = f"a turn is running: {session.turn}; copy again after it"
    return [
        Cell(str(session.key), "name"),
        Cell(session.state, _TONES[session.state]),
        size_text(session.bytes),
        size_text(session.added),
        f"{session.payloads:,}",
        Cell(detail, "plain" if session.is_done else "bad"),
    ]


def _notes_row(notes: CopiedNotes) -> Row:
    return [
        Cell(notes.scope, "name"),
        Cell(notes.state, _TONES[notes.state]),
        f"{notes.files:,}",
        f"{notes.added:,}",
        Cell(notes.detail, "plain" if notes.is_done else "bad"),
    ]


def _sum(report: CopyReport) -> str:
    """Return the report in one line."""
    states = Counter(session.state for session in report.sessions)
    running = sum(bool(session.turn) for session in report.sessions)
    parts = [f"{states[state]:,} {state}" for state in _TONES if states[state]]
    parts += [f"{running:,} with a running turn"] * bool(running)
    said = f"{count(len(report.sessions), 'session')}: {', '.join(parts) or 'none'}"
    payloads = sum(session.payloads for session in report.sessions)
    added = [count(payloads, "output")] if payloads else []
    added += [f"{count(report.accesses, 'line')} of the audit log"] if report.accesses else []
    would = "would be " if report.is_dry_run else ""
    return said + (f"; {' and '.join(added)} {would}added" if added else "")
