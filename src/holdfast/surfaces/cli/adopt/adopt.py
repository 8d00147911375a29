"""`adopt`: brings the sessions, notes, outputs and checkpoints of another tool along."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Final

from holdfast.config import agent_homes
from holdfast.errors import UsageError
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.adopt.first_turn import first_turn_notice
from holdfast.surfaces.cli.app import App, Verb

if TYPE_CHECKING:
    import argparse

    from holdfast.core.log.records import Json
    from holdfast.engine.adoption import AdoptedTranscript, AdoptionReport

_EXAMPLE: Final = """examples:
  holdfast adopt --dry-run                what every agent on this machine has
  holdfast adopt --from openclaw
  holdfast adopt ~/.claude/projects/my-project
  holdfast adopt workspace/.sessions --from claw0"""

_TOOLS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "openclaw": ("OpenClaw", ("openclaw", "pi", "checkpoint")),
    "claw0": ("", ("holdfast", "checkpoint")),
    "ua": ("", ("checkpoint",)),
    "claude-code": ("Claude Code", ("claude-code",)),
    "codex": ("Codex", ("codex",)),
    "pi": ("pi", ("pi",)),
    "opencode": ("OpenCode", ("opencode",)),
    "gemini-cli": ("Gemini CLI", ("gemini-cli",)),
    "qwen": ("Qwen Code", ("qwen",)),
    "kimi": ("Kimi CLI", ("kimi",)),
    "copilot": ("Copilot CLI", ("copilot",)),
    "droid": ("Droid", ("droid",)),
    "aider": ("", ("aider",)),
}
"""The name of a tool among the places that are known, and the formats of its transcripts."""

_LISTED: Final = 15
"""Things left behind that a person reads; `--json` lists all."""
_EXIT_INCOMPLETE: Final = 1
"""Something could not be read or trusted, and stayed behind."""


def _add_adopt(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        help="the tool's folder, or a file of it (default: where the tool keeps it)",
    )
    parser.add_argument(
        "--from", dest="tool", metavar="TOOL", help=f"only of this tool: {', '.join(_TOOLS)}"
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="show what would be done, and write nothing"
    )


def _adopt(args: argparse.Namespace, app: App) -> int:
    from holdfast.engine.adoption import HomeAdopter
    from holdfast.importers.homes import scan

    if args.tool is not None and args.tool not in _TOOLS:
        raise UsageError(f"unknown tool `{args.tool}`", hint=f"known tools: {', '.join(_TOOLS)}")
    formats = frozenset(_TOOLS[args.tool][1]) if args.tool else None
    adopter = HomeAdopter(
        app.store,
        agent=app.settings.agent,
        keeps_agents=args.agent is None,
        owner=app.owner_of_new,
        formats=formats,
        is_dry_run=args.dry_run,
    )
    reports = []
    for folder in _folders(args):
        if not os.path.exists(folder):
            raise UsageError(f"there is no `{folder}`", hint="name the tool's folder")
        report = adopter.adopt(
            scan(folder), lambda file: app.out.count(f"reading {os.path.basename(file)}")
        )
        app.out.count("")
        reports.append(report)
    if not any(report.sessions or report.notes or report.left for report in reports):
        raise UsageError(
            "there is nothing to adopt in " + ", ".join(f"`{each.source}`" for each in reports),
            hint="name the tool's folder, or another tool with --from",
        )
    for report in reports:
        if app.out.is_json:
            app.out.json(_report_json(report, is_dry_run=args.dry_run))
        else:
            _show(app, report, is_dry_run=args.dry_run)
    return 0 if all(report.is_complete for report in reports) else _EXIT_INCOMPLETE


def _folders(args: argparse.Namespace) -> list[str]:
    from holdfast.importers.places import VARIABLES, find_homes

    if args.path is not None:
        return [args.path]
    name = _TOOLS[args.tool][0] if args.tool else None
    if name == "":
        raise UsageError(
            f"{args.tool} has no folder of its own in a home folder",
            hint=f"name its folder: holdfast adopt PATH --from {args.tool}",
        )
    found = find_homes(agent_homes(VARIABLES), name)
    if not found:
        raise UsageError(
            f"found nothing of {name or 'any known agent'} in this home folder",
            hint="name the folder: holdfast adopt PATH",
        )
    return found


def _report_json(report: AdoptionReport, *, is_dry_run: bool) -> Json:
    return {
        "source": report.source,
        "dry_run": is_dry_run,
        "complete": report.is_complete,
        "sessions": [_session_json(each) for each in report.sessions],
        "notes": [
            {"file": each.file, "agent": each.agent, "name": each.name, "state": each.state}
            for each in report.notes
        ],
        "left_behind": [
            {"path": each.path, "why": each.why, "trouble": each.is_trouble} for each in report.left
        ],
    }


def _session_json(found: AdoptedTranscript) -> Json:
    done = found.session
    return {
        "file": found.file,
        "format": found.format,
        "session": str(done.key),
        "state": done.state,
        "added": done.added,
        "records": done.records,
        "outputs": found.outputs,
        "beside": str(done.beside) if done.beside else None,
        "shared": done.shared,
        "skipped": [
            {"what": each.what, "why": each.why, "count": each.count} for each in found.skipped
        ],
        "notice": _notice(found),
    }


def _notice(found: AdoptedTranscript) -> str:
    if found.session.state == "same":
        return ""
    return first_turn_notice(found.records, now=time.time())


def _show(app: App, report: AdoptionReport, *, is_dry_run: bool) -> None:
    rows: list[Row] = [
        [
            Cell(str(each.session.key), "name"),
            each.format,
            f"{each.session.records:,}",
            f"{each.session.added:,}",
            _state(each),
            Cell(os.path.basename(each.file), "dim"),
        ]
        for each in report.sessions
    ]
    if rows:
        app.out.table(("Session", "Format", ">Records", ">Added", "", "File"), rows)
    for note in report.notes:
        app.out.line(f"note {note.agent}/{note.name}: {note.state}")
    if is_dry_run:
        app.out.note("a dry run: nothing was written")
    counts: dict[tuple[str, str], int] = {}
    for found in report.sessions:
        for each in found.skipped:
            counts[each.what, each.why] = counts.get((each.what, each.why), 0) + each.count
    if counts:
        app.out.note("left out of the sessions:")
    for (what, why), count in sorted(counts.items(), key=lambda item: -item[1])[:_LISTED]:
        app.out.note(f"{count:>9,}  {what}: {why}")
    troubles = sorted(report.left, key=lambda each: not each.is_trouble)
    if troubles:
        app.out.note(f"left behind in {report.source}:")
    for left in troubles[:_LISTED]:
        mark = "! " if left.is_trouble else "  "
        app.out.note(f"{mark}{os.path.relpath(left.path, report.source)}: {left.why}")
    if len(troubles) > _LISTED:
        app.out.note(f"  and {len(troubles) - _LISTED:,} more; --json lists them")
    for found in report.sessions:
        if notice := _notice(found):
            app.out.note(f"{found.session.key.session}: {notice}")


def _state(found: AdoptedTranscript) -> str:
    done = found.session
    if done.state == "forked":
        return f"fork of {done.beside}: both differ after {done.shared:,} records"
    if done.state == "renamed":
        return f"another session is called {done.beside}"
    return {"new": "", "same": "nothing new"}.get(done.state, done.state)


VERBS = {"adopt": Verb(_add_adopt, _adopt, _EXAMPLE)}
