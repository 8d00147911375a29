"""`verify`, `disk` and `retention`: damage in a store, its room, and sessions to let go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from holdfast.core.history.access import OPERATOR
from holdfast.core.limits import BLOB_GRACE_SECONDS
from holdfast.core.owners import filter_text
from holdfast.core.parameters import RowCount
from holdfast.engine.operations.upkeep import Retired, RetireSessions
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import StoreError, UsageError
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.command import Command, ResultCommand, option, pick, place, takes
from holdfast.surfaces.cli.terminal import error_fields
from holdfast.surfaces.formatting import ago, count, size_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.damage import Finding
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.views import LogReport
    from holdfast.surfaces.cli.app import App


def _findings_json(findings: Iterable[Finding]) -> list[dict[str, Any]]:
    names = ("kind", "detail", "meaning", "preview")
    renamed = {"offset": "position", "bytes": "size", "damage": "is_damage"}
    return [pick(finding, *names, **renamed) for finding in findings]


class VerifyCommand(Command, frozen=True, kw_only=True):
    """Reads logs and reports damage."""

    session: Annotated[tuple[str, ...], place("the sessions (default: all)", "SESSION")] = ()
    repair: Annotated[bool, option("write a repaired copy of each damaged session beside it")] = (
        False
    )

    def run(self, app: App) -> int:
        keys = [app.session(name) for name in self.session]
        rows: list[dict[str, Any]] = []
        damaged: list[SessionKey] = []
        for key in keys if self.session else [info.key for info in app.sessions(app.agent)]:
            try:
                with app.out.busy(f"verifying {key}"):
                    report = app.store.verify(key)
            except StoreError as error:  # one session that cannot be read does not stop the others
                damaged.append(key)
                where = {"session": key.session, "agent": key.agent}
                rows.append({**where, "sound": False, "error": error_fields(error)})
                app.out.warn(f"{key}: {error}")
                continue
            names = ("key", "bytes", "records", "branches", "head")
            rows.append(pick(report, *names, sound="is_sound", types="counts"))
            rows[-1]["findings"] = _findings_json(report.findings)
            if not app.out.is_json:
                _show_report(app, report)
            if self.repair and report.findings and (self.session or not report.is_sound):
                rows[-1]["repaired"] = _repair(key, app)
            elif not report.is_sound:
                damaged.append(key)
        if app.out.is_json:
            app.out.json(rows)
        elif damaged and not self.repair:
            command = f"holdfast verify {damaged[0].session} --repair"
            app.out.note(f"nothing was changed; `{command}` writes a repaired copy")
        return 1 if damaged else 0


def _repair(key: SessionKey, app: App) -> dict[str, Any]:
    """Write a repaired copy of a session beside it, and show what it leaves out."""
    with app.out.busy(f"repairing {key}"):
        repaired = app.store.repair(key)
    if not app.out.is_json:
        made = f"{repaired.key}: a repaired copy with {repaired.records:,} records"
        app.out.line(f"{made}; {key.session} is unchanged")
        if repaired.quarantine:
            app.out.note(f"unreadable data is in `{repaired.quarantine}`")
    findings = _findings_json(repaired.findings)
    return pick(repaired, "key", "records", "quarantine") | {"findings": findings}


def _show_report(app: App, report: LogReport) -> None:
    damage = sum(finding.is_damage for finding in report.findings)
    state = count(damage, "damaged place") if damage else "sound"
    branches = f"{report.branches} {'branch' if report.branches == 1 else 'branches'}"
    sizes = f"{report.records:,} records, {size_text(report.bytes)}, {branches}"
    app.out.line(f"{report.key}: {state}; {sizes}")
    app.out.table(
        ("Finding", ">Offset", ">Bytes", "Content", "Meaning"),
        (
            (
                Cell(finding.kind, "bad" if finding.is_damage else "plain"),
                f"{finding.position:,}",
                f"{finding.size:,}" if finding.size else "",
                finding.preview or finding.detail,
                Cell(finding.meaning, "dim"),
            )
            for finding in report.findings
        ),
    )


class DiskCommand(Command, frozen=True, kw_only=True):
    """Shows and makes room."""

    limit: Annotated[RowCount, option("", "N", "-n")] = 20
    clean: Annotated[
        bool, option("delete outputs that nothing refers to, and leftovers of killed writers")
    ] = False
    grace: Annotated[
        float,
        option("with --clean: keep outputs stored in the last SECONDS (%(default)g)", "SECONDS"),
    ] = BLOB_GRACE_SECONDS

    def run(self, app: App) -> int:
        status, cleaned = _clean(self.grace, app) if self.clean else (0, {})
        infos = sorted(app.sessions(), key=lambda info: -info.bytes)
        with app.out.busy("measuring outputs"):
            outputs = [app.store.blobs.size(sha256) for sha256 in app.store.blobs]
        trash = [each.bytes for each in app.store.trash()]
        sums = {"sessions": [info.bytes for info in infos], "outputs": outputs, "trash": trash}
        if app.out.is_json:
            largest = {str(info.key): info.bytes for info in infos[: self.limit]}
            kinds = {kind: {"count": len(all_), "bytes": sum(all_)} for kind, all_ in sums.items()}
            app.out.json({"store": app.store.describe(), **kinds, "largest": largest, **cleaned})
            return status
        app.out.table(
            (">size", ">records", "session", "label"),
            (
                (
                    size_text(each.bytes),
                    f"{each.records:,}",
                    str(each.key),
                    each.label or each.title,
                )
                for each in infos[: self.limit]
            ),
        )
        if infos:
            app.out.line()
        for (kind, sizes), noun in zip(sums.items(), ("session", "output", "session"), strict=True):
            where = " in the trash" if kind == "trash" else ""
            app.out.line(f"{size_text(sum(sizes)):>10}  {count(len(sizes), noun)}{where}")
        app.out.note(f"in {app.store.describe()}")
        return status


def _clean(grace: float, app: App) -> tuple[int, dict[str, object]]:
    """Delete what nothing refers to; return the exit status and what was deleted."""
    blobs: list[str] = []
    status = 0
    with app.out.busy("looking for outputs that nothing refers to"):
        try:
            blobs = app.store.blobs.collect(app.store.hash_candidates(), grace_seconds=grace)
        except StoreError as error:  # a log that cannot be read may mention any of them
            app.out.warn(f"no output was deleted: {error}")
            status = 1
        strays = [*app.store.sweep(), *app.store.blobs.sweep()]
    app.out.note(
        f"deleted {count(len(blobs), 'output')} and {count(len(strays), 'temporary file')}"
    )
    return status, {"deleted": {"outputs": blobs, "temporary_files": strays}}


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
