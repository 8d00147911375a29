"""`adopt`: brings the sessions, notes, outputs and checkpoints of another tool along."""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Annotated, Final

from holdfast.config import agent_homes
from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Assistant, Compaction, Prune, User, encode
from holdfast.core.log.replay import with_ids
from holdfast.core.models.window import model_in
from holdfast.core.projection.policy import Policy, PromptCache
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.tokens.images import image_rule
from holdfast.engine.workspace.facts import default_dialect
from holdfast.errors import HoldfastError, UsageError
from holdfast.providers.known_models.lookup import window_of
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.command import Command, option, pick, place

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.engine.adoption import AdoptedTranscript, AdoptionReport
    from holdfast.importers.common.base import Skipped
    from holdfast.surfaces.cli.app import App

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

_SHOWN: Final = 10
"""Sessions and notices that are listed one by one; more are summed up."""
_LISTED: Final = 15
"""Things left behind that a person reads; `--json` lists all."""
_BYTES_PER_TOKEN_MIN: Final = 2
"""A token of a log has more bytes than this, so that a short session is not looked at closer."""
_EXIT_INCOMPLETE: Final = 1
"""Something could not be read or trusted, and stayed behind."""


class AdoptCommand(Command, frozen=True, kw_only=True):
    """Adopts what other tools have stored."""

    example = """examples:
  holdfast adopt --dry-run                what every agent on this machine has
  holdfast adopt --from openclaw
  holdfast adopt ~/.claude/projects/my-project
  holdfast adopt workspace/.sessions --from claw0"""
    path: Annotated[
        str | None,
        place("the tool's folder, or a file of it (default: where the tool keeps it)", "PATH"),
    ] = None
    from_: Annotated[str | None, option(f"only of this tool: {', '.join(_TOOLS)}", "TOOL")] = None
    dry_run: Annotated[bool, option("show what would be done, and write nothing")] = False

    def run(self, app: App) -> int:
        from holdfast.engine.adoption import HomeAdopter
        from holdfast.importers.homes import scan

        if self.from_ is not None and self.from_ not in _TOOLS:
            known = f"known tools: {', '.join(_TOOLS)}"
            raise UsageError(f"unknown tool `{self.from_}`", hint=known)
        adopter = HomeAdopter(
            app.store,
            agent=app.settings.agent,
            keeps_agents=app.agent is None,
            owner=app.owner_of_new,
            formats=frozenset(_TOOLS[self.from_][1]) if self.from_ else None,
            is_dry_run=self.dry_run,
        )
        reports = []
        for folder in _folders(self.path, self.from_):
            if not os.path.exists(folder):
                raise UsageError(f"there is no `{folder}`", hint="name the tool's folder")
            found = scan(folder)
            reports.append(adopter.adopt(found, lambda file: app.out.count(_reading(file))))
            app.out.count("")
        if not any(report.sessions or report.notes or report.left for report in reports):
            raise UsageError(
                "there is nothing to adopt in " + ", ".join(f"`{each.source}`" for each in reports),
                hint="name the tool's folder, or another tool with --from",
            )
        for report in reports:
            if app.out.is_json:
                app.out.json(_report_json(report, is_dry_run=self.dry_run))
            else:
                _show(app, report, is_dry_run=self.dry_run)
        return 0 if all(report.is_complete for report in reports) else _EXIT_INCOMPLETE


def _reading(file: str) -> str:
    return f"reading {os.path.basename(file)}"


def _folders(path: str | None, tool: str | None) -> list[str]:
    from holdfast.importers.places import VARIABLES, find_homes

    if path is not None:
        return [path]
    name = _TOOLS[tool][0] if tool else None
    if name == "":
        raise UsageError(
            f"{tool} has no folder of its own in a home folder",
            hint=f"name its folder: holdfast adopt PATH --from {tool}",
        )
    found = find_homes(agent_homes(VARIABLES), name)
    if not found:
        raise UsageError(
            f"found nothing of {name or 'any known agent'} in this home folder",
            hint="name the folder: holdfast adopt PATH",
        )
    return found


def _report_json(report: AdoptionReport, *, is_dry_run: bool) -> Json:
    sessions = [
        pick(each.session, "state", "added", "records", "shared")
        | pick(each, "file", "format", "outputs", "skipped")
        | {"session": str(each.session.key), "notice": _notice(each)}
        | {"beside": str(each.session.beside) if each.session.beside else None}
        for each in report.sessions
    ]
    notes = [pick(each, "file", "agent", "name", "state") for each in report.notes]
    left = [pick(each, "path", "why", trouble="is_trouble") for each in report.left]
    about = pick(report, "source", complete="is_complete") | {"dry_run": is_dry_run}
    return about | {"sessions": sessions, "notes": notes, "left_behind": left}


def _notice(found: AdoptedTranscript) -> str:
    if found.session.state == "same":
        return ""
    return first_turn_notice(found.records, now=time.time())


def _show(app: App, report: AdoptionReport, *, is_dry_run: bool) -> None:
    if len(report.sessions) > _SHOWN:
        _show_projects(app, report)
    else:
        _show_sessions(app, report.sessions)
    for note in report.notes:
        app.out.line(f"note {note.agent}/{note.name}: {note.state}")
    if is_dry_run:
        app.out.note("a dry run: nothing was written")
    skipped = [each for found in report.sessions for each in found.skipped]
    show_skipped(app, skipped, "left out of the sessions:", _LISTED)
    troubles = sorted(report.left, key=lambda each: not each.is_trouble)
    if troubles:
        app.out.note(f"left behind in {report.source}:")
    for left in troubles[:_LISTED]:
        mark = "! " if left.is_trouble else "  "
        app.out.note(f"{mark}{os.path.relpath(left.path, report.source)}: {left.why}")
    if len(troubles) > _LISTED:
        app.out.note(f"  and {len(troubles) - _LISTED:,} more; --json lists them")
    notices = [
        (found.session.key, notice) for found in report.sessions if (notice := _notice(found))
    ]
    for key, notice in notices[:_SHOWN]:
        app.out.note(f"{key.session}: {notice}")
    if len(notices) > _SHOWN:
        app.out.note(f"and {len(notices) - _SHOWN:,} more of that kind; --json lists them")


def _show_sessions(app: App, sessions: Sequence[AdoptedTranscript]) -> None:
    app.out.table(
        ("Session", "Format", ">Records", ">Added", "", "File"),
        (
            (
                *(Cell(str(each.session.key), "name"), each.format),
                *(f"{each.session.records:,}", f"{each.session.added:,}", _state(each)),
                Cell(os.path.basename(each.file), "dim"),
            )
            for each in sessions
        ),
    )


def _show_projects(app: App, report: AdoptionReport) -> None:
    """Write a line for each folder, one for all of them, and the sessions that need a look."""
    projects: dict[tuple[str, str], list[AdoptedTranscript]] = {}
    for each in report.sessions:
        folder = os.path.relpath(os.path.dirname(each.file), report.source)
        projects.setdefault((folder, each.format), []).append(each)
    rows = [((name, format_), found) for (name, format_), found in projects.items()]
    app.out.table(
        ("Project", "Format", ">Sessions", ">Records", ">Added"),
        ((Cell(name, "name"), format_, *_sums(found)) for (name, format_), found in rows),
    )
    sessions, records, added = _sums(report.sessions)
    app.out.line(f"{sessions} sessions with {records} records, {added} of them new")
    _show_sessions(app, [each for each in report.sessions if each.session.beside is not None])


def _sums(found: Sequence[AdoptedTranscript]) -> tuple[str, str, str]:
    records = sum(each.session.records for each in found)
    added = sum(each.session.added for each in found)
    return f"{len(found):,}", f"{records:,}", f"{added:,}"


def show_skipped(app: App, skipped: Iterable[Skipped], title: str, most: int) -> None:
    """List what a log has no place for, the most frequent first."""
    counts: Counter[tuple[str, str]] = Counter()
    for each in skipped:
        counts[each.what, each.why] += each.count
    if counts:
        app.out.note(title)
    for (what, why), number in counts.most_common(most):
        app.out.note(f"{number:>9,}  {what}: {why}")
    if len(counts) > most:
        app.out.note(f"           and {len(counts) - most} more kinds; --json lists them")


def _state(found: AdoptedTranscript) -> str:
    done = found.session
    if done.state == "forked":
        return f"fork of {done.beside}: both differ after {done.shared:,} records"
    if done.state == "renamed":
        return f"another session is called {done.beside}"
    return {"new": "", "same": "nothing new"}.get(done.state, done.state)


def first_turn_notice(records: Sequence[Record], *, now: float) -> str:
    """Tell what the first turn will take out of the view, and why; empty where it takes nothing.

    The model is the one that answered last, and its tokens are estimated.
    """
    provider, model = model_in(records)
    window = window_of(model)
    size = sum(len(encode(record)) for record in records) / _BYTES_PER_TOKEN_MIN
    if size < Policy().cold_prune * window.tokens / 2:
        return ""
    aim = target(default_dialect(model), provider=provider, model=model)
    last = next((each for each in reversed(records) if isinstance(each, Assistant)), None)
    idle = max(0.0, now - last.ts) if last is not None and last.ts > 0 else None
    rule = image_rule(aim.model, aim.provider or aim.dialect.name)
    request = ProjectionRequest(
        [*with_ids(records), User(id="next", content="Go on.")],
        window,
        aim,
        prompt_cache=PromptCache(idle_seconds=idle),
    )
    about = f"with {model or 'an unknown model'} ({window.tokens:,} tokens)"
    try:
        plan = project(request, ProjectionCache(Scale(None, rule)))
    except HoldfastError as error:
        return f"the first turn {about} will be refused: {error}"
    for decision in plan.decisions:
        if isinstance(decision, Compaction):
            return f"the first turn {about} will cut the view: {decision.reason}"
    for decision in plan.decisions:
        if isinstance(decision, Prune):
            count = len(decision.decisions)
            return f"the first turn {about} will shorten {count:,} old results: {decision.reason}"
    return ""
