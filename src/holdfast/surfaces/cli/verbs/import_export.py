"""`import` and `export`, with secrets masked. The importers are loaded when they are used."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import msgspec

from holdfast.core.limits import LINE_BYTES_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import encode
from holdfast.core.secrets.redaction import masks_in
from holdfast.engine.adoption import SessionAdopter
from holdfast.engine.redactor import redactor
from holdfast.errors import HoldfastError, UsageError
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.adopt import first_turn_notice, show_skipped
from holdfast.surfaces.cli.command import (
    Command,
    RawOption,
    SessionPlace,
    option,
    pick,
    place,
)
from holdfast.surfaces.cli.terminal import error_fields

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from holdfast.core.log.records import Json, Record
    from holdfast.importers.common.base import Imported, Skipped
    from holdfast.surfaces.cli.app import App

# import


class _Outcome(msgspec.Struct, frozen=True):
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


class ImportCommand(Command, frozen=True, kw_only=True):
    """Imports transcripts."""

    example = """examples:
  holdfast import ~/.claude/projects/my-project
  holdfast import run.traj.json --session run-7
  holdfast import - --format openai-chat < messages.json"""
    paths: Annotated[
        tuple[str, ...], place("a file (gzip is fine), a folder, or - for stdin", "PATH")
    ]
    session: Annotated[
        str | None,
        option("the id of the new session; further sessions of the file get NAME-2, …", "NAME"),
    ] = None
    format: Annotated[
        str | None,
        option("the format, if it is not recognised; an unknown name lists all formats"),
    ] = None

    def run(self, app: App) -> int:
        from holdfast.importers import FORMATS, places

        known = f"known formats: {', '.join(FORMATS)}"
        if self.format and self.format not in FORMATS:
            raise UsageError(f"unknown format `{self.format}`", hint=known)
        given = [path for path in self.paths if path == "-" or not os.path.isdir(path)]
        found = [each for path in self.paths for each in places.find(path)]
        if self.session and len(found) > 1:
            raise UsageError(
                f"--session names one session, but there are {len(found)} files",
                hint="import them one by one, or omit --session",
            )
        run = _Run(self, app, is_single=len(found) == 1)
        for number, path in enumerate(found, start=1):
            if len(found) > 1:
                app.out.count(f"{number:,} of {len(found):,}  {os.path.basename(path)}")
            run.take(path, is_given=path in given)
        app.out.count("")
        if not app.out.is_json and run.outcomes:
            _show_outcomes(run.outcomes, app)
        if run.strangers:
            app.out.note(f"{run.strangers:,} other files are not transcripts and were skipped")
        if not run.outcomes and not run.failures:
            named = ", ".join(f"`{path}`" for path in self.paths)
            raise UsageError(f"no transcript in {named}", hint=known)
        return 1 if run.failures else 0


class _Run:
    """Imports file after file; a failure does not stop the others."""

    def __init__(self, command: ImportCommand, app: App, *, is_single: bool) -> None:
        self.outcomes: list[_Outcome] = []
        self.failures = 0
        self.strangers = 0
        self._command, self._app = command, app
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
        known = self._command.format or format_of(source)
        if known is None and not is_given:
            self.strangers += 1
            return
        sessions = read_source(source, known)
        names = [session.name for session in sessions]
        if self._command.session:
            names = names_for(self._command.session, len(sessions))
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
            self._app.out.json({"file": place, "error": error_fields(error)})
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


def _outcome_json(outcome: _Outcome) -> Json:
    names = ("file", "format", "session", "records", "skipped", "added", "notice")
    return pick(outcome, *names, exists="is_known")


def _show_outcomes(outcomes: list[_Outcome], app: App) -> None:
    app.out.table(
        ("Session", "Format", ">Records", ">Skipped", "", "File"),
        (
            (
                *(Cell(outcome.session or "-", "name"), outcome.format, f"{outcome.records:,}"),
                f"{sum(each.count for each in outcome.skipped):,}",
                Cell(_state_words(outcome), "dim"),
                Cell(os.path.basename(outcome.file), "dim"),
            )
            for outcome in outcomes
        ),
    )
    show_skipped(app, (each for outcome in outcomes for each in outcome.skipped), "left out:", 20)
    for outcome in outcomes:
        if outcome.notice:
            app.out.note(f"{outcome.session}: {outcome.notice}")


def _state_words(outcome: _Outcome) -> str:
    if outcome.state in ("grown", "revised"):
        return f"{outcome.added:,} added"
    return "already imported" if outcome.is_known else ""


# export


class ExportCommand(Command, frozen=True, kw_only=True):
    """Exports a session."""

    session: SessionPlace
    output: Annotated[str | None, option("write to FILE instead of stdout", "FILE", "-o")] = None
    path: Annotated[bool, option("only the records on the path to the head")] = False
    format: Annotated[
        str,
        option(
            "holdfast (the log), a message list (anthropic, openai-chat), or a transcript that "
            "its tool resumes: claude-code, codex, pi, openclaw",
            "FORMAT",
        ),
    ] = "holdfast"
    cwd: Annotated[
        str,
        option("the working directory that a transcript names (default: this one)", "DIR"),
    ] = "."
    is_raw: RawOption = False

    def run(self, app: App) -> None:
        key, store = app.session(self.session), app.store
        skipped: list[Skipped] = []
        hint, chunks = "", None
        masking = None if self.is_raw else Masking(app.settings.secrets)
        if self.format != "holdfast":
            from holdfast.engine.outputs import whole

            records = (whole(record, store.blobs) for record in store.read(key))
            chunks, skipped, hint = self._convert(records, key, app, masking)
        else:
            lines = (encode(record) + b"\n" for record in store.read(key))
            chunks = lines if self.path else store.export(key)
            chunks = chunks if masking is None else masking.log(chunks)
        with _open_output(self.output, app) as target:
            size = sum(target.write(chunk) for chunk in chunks)
        masked = 0 if masking is None else masking.count
        if self.output and app.out.is_json:
            more = {"skipped": skipped, "hint": hint} if self.format != "holdfast" else {}
            about = {"session": key.session, "file": self.output, "bytes": size, "masked": masked}
            app.out.json(about | more)
        elif self.output:
            app.out.note(f"{size:,} bytes written to `{self.output}`")
        if masked:
            app.out.note(f"masked {masked:,} secrets or look-alikes; --raw leaves them in")
        for each in skipped:
            app.out.note(f"left out: {each.count:,} × {each.what}: {each.why}")
        if hint:
            app.out.note(hint)

    def _convert(
        self,
        records: Iterable[Record],
        key: SessionKey,
        app: App,
        masking: Masking | None,
    ) -> tuple[Iterable[bytes], list[Skipped], str]:
        """Return the bytes of another format, what it has no place for, and where to put it."""
        from holdfast.importers.export import TRANSCRIPTS, TranscriptAbout, export_transcript
        from holdfast.importers.export_messages import DIALECTS, export_messages

        if self.format in DIALECTS:
            made = export_messages(records, self.format)
            messages = made.messages if masking is None else masking.value(made.messages)
            text = msgspec.json.format(msgspec.json.encode(messages), indent=2)
            return [text, b"\n"], made.skipped, ""
        if self.format not in TRANSCRIPTS:
            raise UsageError(
                f"cannot export to `{self.format}`",
                hint=f"known formats: holdfast, {', '.join((*DIALECTS, *TRANSCRIPTS))}",
            )
        info, folder = app.store.info(key), os.path.abspath(self.cwd)
        about = TranscriptAbout(key.session, folder, info.label, info.created)
        written = export_transcript(records, self.format, about)
        lines = written.lines if masking is None else masking.value(written.lines)
        shown = msgspec.json.Encoder().encode_lines(lines).splitlines(True)
        return shown, written.skipped, written.hint


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


class Masking:
    """Masks secrets and counts them."""

    def __init__(self, secrets: Mapping[str, str]) -> None:
        self.count = 0
        self._redactor = redactor(secrets)

    def log(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Mask a log, given in chunks of any size, line by line."""
        return map(self._line, _lines(chunks))

    def value(self, value: Any) -> Any:
        masked = self._redactor.value(value)
        if masked is not value:
            self.count += _masks(masked) - _masks(value)
        return masked

    def _line(self, line: bytes) -> bytes:
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._text_line(line)
        masked = self.value(value)
        if masked is value and not _has_duplicate_keys(line, value):
            return line
        return msgspec.json.encode(masked) + b"\n"[: line.endswith(b"\n")]

    def _text_line(self, line: bytes) -> bytes:
        """Mask a line that is not JSON as text; its other bytes stay the same."""
        text = line.decode(errors="surrogateescape")
        masked = self._redactor.text(text)
        self.count += masks_in(masked) - masks_in(text)
        return line if masked is text else masked.encode(errors="surrogateescape")


def _masks(value: Any) -> int:
    return masks_in(msgspec.json.encode(value).decode())


def _has_duplicate_keys(line: bytes, value: Any) -> bool:
    """Return True if a key occurs twice: decoding would hide the first value."""
    if msgspec.json.encode(value) == line.rstrip():
        return False
    twice = False

    def check(pairs: list[tuple[str, Any]]) -> None:
        nonlocal twice
        twice = twice or len(dict(pairs)) < len(pairs)

    json.loads(line, object_pairs_hook=check)
    return twice


def _lines(chunks: Iterable[bytes]) -> Iterator[bytes]:
    """Yield the lines of a log; a line that is too long for a record comes in pieces."""
    held = bytearray()
    for chunk in chunks:
        *whole, rest = chunk.split(b"\n")
        for line in whole:
            yield bytes(held + line + b"\n")
            held.clear()
        held += rest
        if len(held) > LINE_BYTES_MAX:
            yield bytes(held)
            held.clear()
    if held:
        yield bytes(held)
