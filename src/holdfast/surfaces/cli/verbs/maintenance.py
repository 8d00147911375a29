"""`verify` and `disk`: damage in a store, and the room that it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.limits import BLOB_GRACE_SECONDS
from holdfast.errors import StoreError
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.formatting import count, size_text

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from holdfast.core.log.damage import Finding
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.views import LogReport


def finding_json(finding: Finding) -> dict[str, object]:
    return {
        "kind": finding.kind,
        "offset": finding.position,
        "bytes": finding.size,
        "detail": finding.detail,
        "meaning": finding.meaning,
        "damage": finding.is_damage,
        "preview": finding.preview,
    }


def show_findings(app: App, findings: Iterable[Finding]) -> None:
    app.out.table(
        ("Finding", ">Offset", ">Bytes", "Content", "Meaning"),
        (
            [
                Cell(finding.kind, "bad" if finding.is_damage else "plain"),
                f"{finding.position:,}",
                f"{finding.size:,}" if finding.size else "",
                finding.preview or finding.detail,
                Cell(finding.meaning, "dim"),
            ]
            for finding in findings
        ),
    )


# verify


def _add_verify(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("session", metavar="SESSION", nargs="*", help="the sessions (default: all)")
    parser.add_argument(
        "--repair",
        action="store_true",
        help="write a repaired copy of each damaged session beside it",
    )


def _verify(args: argparse.Namespace, app: App) -> int:
    if args.session:
        keys = [app.session(name) for name in args.session]
    else:
        keys = [info.key for info in app.sessions(args.agent)]
    rows: list[dict[str, object]] = []
    damaged: list[SessionKey] = []
    for key in keys:
        try:
            with app.out.busy(f"verifying {key}"):
                report = app.store.verify(key)
        except StoreError as error:  # one session that cannot be read does not stop the others
            damaged.append(key)
            rows.append(_unread_json(key, error))
            app.out.warn(f"{key}: {error}")
            continue
        rows.append(_report_json(report))
        if not app.out.is_json:
            _show_report(app, report)
        if args.repair and report.findings and (args.session or not report.is_sound):
            rows[-1]["repaired"] = _repair(key, app)
        elif not report.is_sound:
            damaged.append(key)
    if app.out.is_json:
        app.out.json(rows)
    elif damaged and not args.repair:
        name = damaged[0].session
        app.out.note(
            f"nothing was changed; `holdfast verify {name} --repair` writes a repaired copy"
        )
    return 1 if damaged else 0


def _repair(key: SessionKey, app: App) -> dict[str, object]:
    """Write a repaired copy of a session beside it, and show what it leaves out."""
    with app.out.busy(f"repairing {key}"):
        repaired = app.store.repair(key)
    if not app.out.is_json:
        app.out.line(
            f"{repaired.key}: a repaired copy with {repaired.records:,} records; "
            f"{key.session} is unchanged"
        )
        if repaired.quarantine:
            app.out.note(f"unreadable data is in `{repaired.quarantine}`")
    return {
        "session": repaired.key.session,
        "agent": repaired.key.agent,
        "records": repaired.records,
        "quarantine": repaired.quarantine,
        "findings": [finding_json(finding) for finding in repaired.findings],
    }


def _unread_json(key: SessionKey, error: StoreError) -> dict[str, object]:
    fields = {"type": error.code, "message": str(error), "hint": error.hint}
    return {"session": key.session, "agent": key.agent, "sound": False, "error": fields}


def _report_json(report: LogReport) -> dict[str, object]:
    return {
        "session": report.key.session,
        "agent": report.key.agent,
        "sound": report.is_sound,
        "bytes": report.bytes,
        "records": report.records,
        "types": report.counts,
        "branches": report.branches,
        "head": report.head,
        "findings": [finding_json(finding) for finding in report.findings],
    }


def _show_report(app: App, report: LogReport) -> None:
    damage = sum(finding.is_damage for finding in report.findings)
    state = count(damage, "damaged place") if damage else "sound"
    app.out.line(
        f"{report.key}: {state}; {report.records:,} records, {size_text(report.bytes)}, "
        f"{report.branches} {'branch' if report.branches == 1 else 'branches'}"
    )
    if report.findings:
        show_findings(app, report.findings)


# disk


def _add_disk(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", "-n", type=int, default=20, metavar="N", help="rows (20)")
    parser.add_argument(
        "--clean",
        action="store_true",
        help="delete outputs that nothing refers to, and leftovers of killed writers",
    )
    parser.add_argument(
        "--grace",
        type=float,
        metavar="SECONDS",
        default=BLOB_GRACE_SECONDS,
        help="with --clean: keep outputs stored in the last SECONDS (%(default)g)",
    )


def _disk(args: argparse.Namespace, app: App) -> int:
    status, cleaned = _clean(args.grace, app) if args.clean else (0, {})
    infos = sorted(app.sessions(), key=lambda info: -info.bytes)
    with app.out.busy("measuring outputs"):
        outputs = [app.store.blobs.size(sha256) for sha256 in app.store.blobs]
    trash = app.store.trash()
    sums = (
        ("sessions", len(infos), sum(info.bytes for info in infos)),
        ("outputs", len(outputs), sum(outputs)),
        ("trash", len(trash), sum(each.bytes for each in trash)),
    )
    if app.out.is_json:
        sizes = {str(info.key): info.bytes for info in infos[: args.limit]}
        kinds = {kind: {"count": number, "bytes": size} for kind, number, size in sums}
        app.out.json({"store": app.store.describe(), **kinds, "largest": sizes, **cleaned})
        return status
    app.out.table(
        (">size", ">records", "session", "label"),
        [
            (size_text(info.bytes), f"{info.records:,}", str(info.key), info.label or info.title)
            for info in infos[: args.limit]
        ],
    )
    if infos:
        app.out.line()
    nouns = {"sessions": "session", "outputs": "output", "trash": "session"}
    for kind, number, size in sums:
        where = " in the trash" if kind == "trash" else ""
        app.out.line(f"{size_text(size):>10}  {count(number, nouns[kind])}{where}")
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


VERBS = {
    "verify": Verb(_add_verify, _verify),
    "disk": Verb(_add_disk, _disk),
}
