"""`import` and `export`. The importers are loaded when they are used."""

from __future__ import annotations

import hashlib
import os
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

import msgspec

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import encode
from holdfast.engine.adoption import SessionAdopter
from holdfast.errors import HoldfastError, UsageError
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.adopt.first_turn import first_turn_notice
from holdfast.surfaces.cli.app import App, Verb, add_session
from holdfast.surfaces.cli.masking import Masking

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Iterator

    from holdfast.core.log.records import Json, Record
    from holdfast.importers.common.base import Imported, Skipped

_EXAMPLE: Final = """examples:
  holdfast import ~/.claude/projects/my-project
  holdfast import run.traj.json --session run-7
  holdfast import - --format openai-chat < messages.json"""


# import


@dataclass(frozen=True, slots=True)
class _Outcome:
    """The outcome for one session of one file."""

    file: str
    format: str
    session: str | None
    records: int
    skipped: list[Skipped]
    state: str = "new"
    added: int = 0
    """Records that this import added."""
    notice: str = ""
    """The part of the view that the first turn will take out, and why."""

    @property
    def is_known(self) -> bool:
        """Everything in it was imported before."""
        return self.state == "same"


def _add_import(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "paths", metavar="PATH", nargs="+", help="a file (gzip is fine), a folder, or - for stdin"
    )
    parser.add_argument(
        "--session",
        metavar="NAME",
        help="the id of the new session; further sessions of the file get NAME-2, …",
    )
    parser.add_argument(
        "--format", help="the format, if it is not recognised; an unknown name lists all formats"
    )


def _import(args: argparse.Namespace, app: App) -> int:
    from holdfast.importers import FORMATS, places

    if args.format and args.format not in FORMATS:
        raise UsageError(
            f"unknown format `{args.format}`", hint=f"known formats: {', '.join(FORMATS)}"
        )
    given = [path for path in args.paths if path == "-" or not os.path.isdir(path)]
    found = [place for path in args.paths for place in places.find(path)]
    if args.session and len(found) > 1:
        raise UsageError(
            f"--session names one session, but there are {len(found)} files",
            hint="import them one by one, or omit --session",
        )
    run = _Run(args, app, is_single=len(found) == 1)
    for place in _with_progress(found, app):
        run.take(place, is_given=place in given)
    if not app.out.is_json:
        _show_outcomes(run.outcomes, app)
    if run.strangers:
        app.out.note(f"{run.strangers:,} other files are not transcripts and were skipped")
    if not run.outcomes and not run.failures:
        raise UsageError(
            "no transcript in " + ", ".join(f"`{path}`" for path in args.paths),
            hint=f"known formats: {', '.join(FORMATS)}",
        )
    return 1 if run.failures else 0


class _Run:
    """Imports file after file; a failure does not stop the others."""

    def __init__(self, args: argparse.Namespace, app: App, *, is_single: bool) -> None:
        self.outcomes: list[_Outcome] = []
        self.failures = 0
        self.strangers = 0
        self._args, self._app = args, app
        self._is_single = is_single
        self._adopter = SessionAdopter(app.store, owner=app.owner_of_new, may_fork=False)

    def take(self, place: str, *, is_given: bool) -> None:
        try:
            self._take(place, is_given=is_given)
        except HoldfastError as error:
            if self._is_single:
                raise
            self.failures += 1
            self._show_failure(place, error)

    def _take(self, place: str, *, is_given: bool) -> None:
        from holdfast.importers import format_of, places, read_source
        from holdfast.importers.common.base import Source, names_for

        is_piped = place == "-"
        data = places.read_bounded(sys.stdin.buffer, "stdin") if is_piped else places.load(place)
        source = Source(data, "stdin" if place == "-" else place)
        known = self._args.format or format_of(source)
        if known is None and not is_given:
            self.strangers += 1
            return
        sessions = read_source(source, known)
        names = [session.name for session in sessions]
        if self._args.session:
            names = names_for(self._args.session, len(sessions))
        digest = hashlib.sha256(data).hexdigest()
        for session, name in zip(sessions, names, strict=True):
            try:
                done = _import_session(session, source.name, digest, name, self._app, self._adopter)
            except HoldfastError as error:
                if self._is_single and len(sessions) == 1:
                    raise
                self.failures += 1
                self._show_failure(place, error)
                continue
            self.outcomes.append(done)
            if self._app.out.is_json:
                self._app.out.json(_outcome_json(done))

    def _show_failure(self, place: str, error: HoldfastError) -> None:
        if self._app.out.is_json:
            about = {"type": error.code, "message": str(error), "hint": error.hint}
            self._app.out.json({"file": place, "error": about})
        else:
            self._app.out.error(error)


def _import_session(
    found: Imported, file: str, digest: str, name: str, app: App, adopter: SessionAdopter
) -> _Outcome:
    skipped = _all_skipped(found)
    if not found.records:
        return _Outcome(file, found.format, None, 0, skipped)
    key = SessionKey(app.settings.agent, name)
    origin = {"file": os.path.basename(file), "format": found.format, "sha256": digest}
    done = adopter.adopt(key, found.records, origin, label=found.label)
    if done.state == "refused":
        raise UsageError(
            f"session `{key.session}` already exists and differs from `{file}`",
            hint=f"pass another id with --session, `holdfast rm {key.session}` first, or let "
            "`holdfast adopt` keep both",
        )
    notice = "" if done.state == "same" else first_turn_notice(found.records, now=time.time())
    return _Outcome(
        file, found.format, key.session, done.records, skipped, done.state, done.added, notice
    )


def _all_skipped(found: Imported) -> list[Skipped]:
    """List what the log leaves out; system prompt and tools belong to requests."""
    from holdfast.importers.common.base import Skipped

    more = []
    if found.system:
        more.append(Skipped("system prompt", "belongs to requests, not to the log", 1))
    if found.tools:
        more.append(Skipped("tool", "belongs to requests, not to the log", len(found.tools)))
    return [*found.skipped, *more]


def _with_progress(found: list[str], app: App) -> Iterator[str]:
    """Yield the files, and show a counter on a terminal."""
    for number, place in enumerate(found, start=1):
        if len(found) > 1:
            app.out.count(f"{number:,} of {len(found):,}  {os.path.basename(place)}")
        yield place
    app.out.count("")


def _outcome_json(outcome: _Outcome) -> Json:
    return {
        "file": outcome.file,
        "format": outcome.format,
        "session": outcome.session,
        "records": outcome.records,
        "skipped": _skips_json(outcome.skipped),
        "exists": outcome.is_known,
        "added": outcome.added,
        "notice": outcome.notice,
    }


def _skips_json(skipped: Iterable[Skipped]) -> list[Json]:
    return [{"what": each.what, "why": each.why, "count": each.count} for each in skipped]


def _show_outcomes(outcomes: list[_Outcome], app: App) -> None:
    if not outcomes:
        return
    rows: list[Row] = [
        [
            Cell(outcome.session or "-", "name"),
            outcome.format,
            f"{outcome.records:,}",
            f"{sum(each.count for each in outcome.skipped):,}",
            Cell(_state_words(outcome), "dim"),
            Cell(os.path.basename(outcome.file), "dim"),
        ]
        for outcome in outcomes
    ]
    app.out.table(("Session", "Format", ">Records", ">Skipped", "", "File"), rows)
    counts: dict[tuple[str, str], int] = {}
    for outcome in outcomes:
        for each in outcome.skipped:
            counts[each.what, each.why] = counts.get((each.what, each.why), 0) + each.count
    if counts:
        app.out.note("left out:")
    for (what, why), count in sorted(counts.items(), key=lambda item: -item[1])[:20]:
        app.out.note(f"{count:>9,}  {what}: {why}")
    if len(counts) > 20:
        app.out.note(f"           and {len(counts) - 20} more kinds; --json lists them")

    for outcome in outcomes:
        if outcome.notice:
            app.out.note(f"{outcome.session}: {outcome.notice}")


def _state_words(outcome: _Outcome) -> str:
    if outcome.state in ("grown", "revised"):
        return f"{outcome.added:,} added"
    return "already imported" if outcome.is_known else ""


# export


def _add_export(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("--output", "-o", metavar="FILE", help="write to FILE instead of stdout")
    parser.add_argument(
        "--path", action="store_true", help="only the records on the path to the head"
    )
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        default="holdfast",
        help="holdfast (the log), a message list (anthropic, openai-chat), or a transcript that "
        "its tool resumes: claude-code, codex, pi, openclaw",
    )
    parser.add_argument(
        "--cwd",
        metavar="DIR",
        help="the working directory that a transcript names (default: this one)",
    )
    parser.add_argument("--raw", action="store_true", help="do not mask secrets")


def _export(args: argparse.Namespace, app: App) -> int:
    key = app.session(args.session)
    skipped: list[Skipped] = []
    hint = ""
    masking = None if args.raw else Masking(app.settings.secrets)
    if args.format != "holdfast":
        from holdfast.engine.outputs import whole

        records = (whole(record, app.store.blobs) for record in app.store.read(key))
        chunks, skipped, hint = _convert(records, key, args, app, masking)
    else:
        chunks = (
            (encode(record) + b"\n" for record in app.store.read(key))
            if args.path
            else app.store.export(key)
        )
        if masking is not None:
            chunks = masking.log(chunks)
    with _open_output(args.output, app) as target:
        count = sum(target.write(chunk) for chunk in chunks)
    masked = 0 if masking is None else masking.count
    if args.output and app.out.is_json:
        done: Json = {"session": key.session, "file": args.output, "bytes": count}
        done["masked"] = masked
        if args.format != "holdfast":
            done["skipped"] = _skips_json(skipped)
            done["hint"] = hint
        app.out.json(done)
    elif args.output:
        app.out.note(f"{count:,} bytes written to `{args.output}`")
    if masked:
        app.out.note(f"masked {masked:,} secrets or look-alikes; --raw leaves them in")
    for each in skipped:
        app.out.note(f"left out: {each.count:,} × {each.what}: {each.why}")
    if hint:
        app.out.note(hint)
    return 0


def _convert(
    records: Iterable[Record],
    key: SessionKey,
    args: argparse.Namespace,
    app: App,
    masking: Masking | None,
) -> tuple[Iterable[bytes], list[Skipped], str]:
    """Return the bytes of another format, what it has no place for, and where to put it."""
    from holdfast.importers.export import (
        TRANSCRIPTS,
        TranscriptAbout,
        export_transcript,
    )
    from holdfast.importers.export_messages import DIALECTS, export_messages

    if args.format in DIALECTS:
        made = export_messages(records, args.format)
        messages = made.messages if masking is None else masking.value(made.messages)
        text = msgspec.json.format(msgspec.json.encode(messages), indent=2)
        return [text, b"\n"], made.skipped, ""
    if args.format not in TRANSCRIPTS:
        raise UsageError(
            f"cannot export to `{args.format}`",
            hint=f"known formats: holdfast, {', '.join((*DIALECTS, *TRANSCRIPTS))}",
        )
    info = app.store.info(key)
    folder = os.path.abspath(args.cwd or ".")
    about = TranscriptAbout(key.session, folder, info.label, info.created)
    written = export_transcript(records, args.format, about)
    lines = written.lines if masking is None else masking.value(written.lines)
    return (
        msgspec.json.Encoder().encode_lines(lines).splitlines(True),
        written.skipped,
        written.hint,
    )


@contextmanager
def _open_output(path: str | None, app: App) -> Iterator[BinaryIO]:
    if path is None:
        with app.out.binary() as target:
            yield target
        return
    try:
        with open(path, "xb") as target:
            yield target
    except FileExistsError:
        raise UsageError(
            f"`{path}` exists", hint="choose another name, or remove the file"
        ) from None
    except OSError as error:
        raise UsageError(f"cannot write `{path}`: {error.strerror}") from error


VERBS = {
    "import": Verb(_add_import, _import, _EXAMPLE),
    "export": Verb(_add_export, _export),
}
