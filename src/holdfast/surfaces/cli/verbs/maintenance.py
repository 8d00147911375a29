"""`verify`, `repair` and `gc`: maintenance of a store."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.limits import BLOB_GRACE_SECONDS
from holdfast.errors import StoreError, UsageError
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.app import App, Verb, add_session
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


def _verify(args: argparse.Namespace, app: App) -> int:
    if args.session:
        keys = [app.session(name) for name in args.session]
    else:
        keys = [info.key for info in app.sessions(args.agent)]
    reports = []
    unread: list[tuple[SessionKey, StoreError]] = []
    for key in keys:
        try:
            with app.out.busy(f"verifying {key}"):
                report = app.store.verify(key)
        except StoreError as error:  # one session that cannot be read does not stop the others
            unread.append((key, error))
            app.out.warn(f"{key}: {error}")
            continue
        reports.append(report)
        if not app.out.is_json:
            _show_report(app, report)
    if app.out.is_json:
        app.out.json([*map(_report_json, reports), *(_unread_json(*found) for found in unread)])
    damaged = [report for report in reports if not report.is_sound]
    if damaged and not app.out.is_json:
        name = damaged[0].key.session
        app.out.note(f"nothing was changed; write a repaired copy with `holdfast repair {name}`")
    return 1 if damaged or unread else 0


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


# repair


def _add_repair(parser: argparse.ArgumentParser) -> None:
    add_session(parser)


def _repair(args: argparse.Namespace, app: App) -> int:
    key = app.session(args.session)
    if not app.store.verify(key).findings:
        raise UsageError(
            f"session `{key.session}` is sound: there is nothing to repair",
            hint="to copy a session, use `holdfast fork`",
        )
    with app.out.busy(f"repairing {key}"):
        repaired = app.store.repair(key)
    if app.out.is_json:
        app.out.json(
            {
                "session": repaired.key.session,
                "agent": repaired.key.agent,
                "repaired_from": key.session,
                "records": repaired.records,
                "quarantine": repaired.quarantine,
                "findings": [finding_json(finding) for finding in repaired.findings],
            }
        )
        return 0
    app.out.line(repaired.key.session)
    app.out.note(
        f"a repaired copy of `{key}` with {repaired.records:,} records; `{key}` is unchanged"
    )
    if repaired.quarantine:
        app.out.note(f"unreadable data is in `{repaired.quarantine}`")
    show_findings(app, repaired.findings)
    return 0


# gc


def _add_gc(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--grace",
        type=float,
        metavar="SECONDS",
        default=BLOB_GRACE_SECONDS,
        help="keep blobs stored in the last SECONDS (%(default)g)",
    )


def _gc(args: argparse.Namespace, app: App) -> int:
    blobs: list[str] = []
    status = 0
    with app.out.busy("looking for unreferenced blobs"):
        try:
            blobs = app.store.blobs.collect(app.store.hash_candidates(), grace_seconds=args.grace)
        except StoreError as error:  # a log that cannot be read may mention any of them
            app.out.warn(f"no blob was deleted: {error}")
            status = 1
        strays = [*app.store.sweep(), *app.store.blobs.sweep()]
    if app.out.is_json:
        app.out.json({"blobs": blobs, "temporary_files": strays})
    else:
        app.out.line(f"{len(blobs)} unreferenced blobs and {len(strays)} temporary files deleted")
    return status


# du


def _add_du(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", "-n", type=int, default=20, metavar="N", help="rows (20)")


def _du(args: argparse.Namespace, app: App) -> int:
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
        app.out.json({"store": app.store.describe(), **kinds, "largest": sizes})
        return 0
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
    return 0


VERBS = {
    "verify": Verb(_add_verify, _verify),
    "repair": Verb(_add_repair, _repair),
    "gc": Verb(_add_gc, _gc),
    "du": Verb(_add_du, _du),
}
