"""The home of another tool, brought into a store in one go; run again, it adds what is new."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.checkpoint.state import to_json
from holdfast.core.limits import NOTE_FILE_BYTES_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Checkpoint, OutputRef, ToolResult
from holdfast.core.owners import NO_OWNER
from holdfast.engine.adoption.sessions import AdoptedSession, SessionAdopter
from holdfast.errors import HoldfastError
from holdfast.importers import Source, format_of, read_source
from holdfast.importers.checkpoints import read_checkpoint
from holdfast.importers.common.base import mapping, session_name
from holdfast.importers.common.parsing import parse, seconds
from holdfast.importers.databases import read_database
from holdfast.importers.homes import Home, LeftBehind
from holdfast.importers.places import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.checkpoint.state import State
    from holdfast.core.log.records import Json, Record
    from holdfast.core.owners import Owner
    from holdfast.importers import Imported, Skipped
    from holdfast.importers.homes import HomeFile, IndexEntry
    from holdfast.ports import Notes, SessionStore

_VERSIONS_MAX: Final = 100
"""Names that are tried for a note whose name is taken by another."""


class AdoptedTranscript(msgspec.Struct, frozen=True):
    """A session of the source, and what became of it."""

    file: str
    format: str
    session: AdoptedSession
    skipped: list[Skipped]
    records: list[Record]
    outputs: int = 0
    """Results that got their whole output back."""


class AdoptedFile(msgspec.Struct, frozen=True):
    """A note, and what became of it: `new`, `same`, `grown` or `renamed`."""

    file: str
    agent: str
    name: str
    state: str


class AdoptionReport(msgspec.Struct):
    """The result of adopting a home."""

    source: str
    sessions: list[AdoptedTranscript] = msgspec.field(default_factory=list)
    notes: list[AdoptedFile] = msgspec.field(default_factory=list)
    left: list[LeftBehind] = msgspec.field(default_factory=list)

    @property
    def is_complete(self) -> bool:
        """False where something could not be read or trusted."""
        return not any(each.is_trouble for each in self.left)


class HomeAdopter:
    """Brings the files of a home into a store."""

    def __init__(
        self,
        store: SessionStore,
        *,
        agent: str,
        keeps_agents: bool = True,
        owner: Owner = NO_OWNER,
        formats: frozenset[str] | None = None,
        is_dry_run: bool = False,
    ) -> None:
        """Sessions belong to the agent that their folder names, else to `agent`; without
        `keeps_agents` all to `agent`. `formats` are those to take; None for all."""
        self._store = store
        self._agent = agent
        self._keeps_agents = keeps_agents
        self._owner = owner
        self._formats = formats
        self._is_dry_run = is_dry_run
        self._adopter = SessionAdopter(store, owner=owner, is_dry_run=is_dry_run)

    def adopt(
        self, home: Home, on_file: Callable[[str], None] = lambda _file: None
    ) -> AdoptionReport:
        """Adopt everything; a file that fails does not stop the others."""
        report = AdoptionReport(home.root, left=list(home.left))
        outputs = _Outputs(home.outputs)
        for file in (*home.transcripts, *home.databases):
            on_file(file.path)
            try:
                self._take_sessions(report, home, file, outputs, is_packed=file in home.databases)
            except (HoldfastError, OSError) as error:
                report.left.append(LeftBehind(file.path, str(error), is_trouble=True))
        for path in outputs.rest():
            report.left.append(LeftBehind(path, "an output that no record names"))
        report.left += [LeftBehind(path, why, is_trouble=True) for path, why in outputs.troubles]
        self._tell_missing(report, home)
        self._take_checkpoints(report, home)
        for file in home.notes:
            self._take_note(report, file)
        return report

    # Sessions

    def _take_sessions(
        self,
        report: AdoptionReport,
        home: Home,
        file: HomeFile,
        outputs: _Outputs,
        *,
        is_packed: bool,
    ) -> None:
        for found, key, label, digest in self._sessions_of(report, home, file, is_packed=is_packed):
            if not found.records:
                report.left.append(LeftBehind(file.path, "a transcript without messages"))
                continue
            records, count = outputs.restore(
                found.records, self._store, is_dry_run=self._is_dry_run
            )
            origin: Json = {
                "file": os.path.basename(file.path),
                "format": found.format,
                "sha256": digest,
            }
            if key:
                origin["key"] = key
            name = SessionKey(self._agent_of(file), session_name(found.name))
            done = self._adopter.adopt(name, records, origin, label=label)
            report.sessions.append(
                AdoptedTranscript(file.path, found.format, done, found.skipped, records, count)
            )

    def _sessions_of(
        self, report: AdoptionReport, home: Home, file: HomeFile, *, is_packed: bool
    ) -> Iterator[tuple[Imported, str, str, str]]:
        """Yield the sessions of a file with their key, label and the hash of their source."""
        if is_packed:
            kind, rows = read_database(file.path)
            if not self._is_wanted(kind):
                report.left.append(LeftBehind(file.path, f"{kind}, which was not asked for"))
                return
            for row in rows:
                if row.damaged:
                    why = f"{row.damaged:,} damaged rows of session {row.name}"
                    report.left.append(LeftBehind(file.path, why, is_trouble=True))
                source = Source(row.data, f"{row.name}.json")
                for found in read_source(source, kind):
                    digest = hashlib.sha256(row.data).hexdigest()
                    yield found, row.key, row.label or found.label or row.key, digest
            return
        data = load(file.path)
        source = Source(data, file.path)
        known = format_of(source)
        if known is None:
            report.left.append(LeftBehind(file.path, "no transcript of a known format"))
            return
        if not self._is_wanted(known):
            report.left.append(LeftBehind(file.path, f"{known}, which was not asked for"))
            return
        sessions = read_source(source, known)
        for what, why in source.flaws:
            if what.startswith("damaged"):
                report.left.append(LeftBehind(file.path, f"{what}: {why}", is_trouble=True))
        for found in sessions:
            entry = _index_entry(home, file.path, found.name)
            label = found.label or (entry.label if entry else "")
            key = entry.key if entry else ""
            yield found, key, label, hashlib.sha256(data).hexdigest()

    def _is_wanted(self, kind: str) -> bool:
        return self._formats is None or kind in self._formats

    def _agent_of(self, file: HomeFile) -> str:
        return file.agent if self._keeps_agents and file.agent else self._agent

    def _tell_missing(self, report: AdoptionReport, home: Home) -> None:
        """List the sessions of an index whose transcript is not there."""
        there = {os.path.basename(file.path).partition(".")[0] for file in home.transcripts}
        names = {each.session.key.session for each in report.sessions}
        told: set[str] = set()
        for (folder, session), entry in home.index.items():
            is_known = session in names or session_name(session) in names or session in there
            if not is_known and entry.file.partition(".")[0] not in there and session not in told:
                told.add(session)
                why = f"session {session} is in the index, and its transcript is not there"
                report.left.append(LeftBehind(folder, why, is_trouble=True))

    # Checkpoints

    def _take_checkpoints(self, report: AdoptionReport, home: Home) -> None:
        """Make a session of each workspace, with its checkpoints in the order of their times."""
        spaces: dict[tuple[str, str], list[HomeFile]] = {}
        for file in home.checkpoints:
            spaces.setdefault((self._agent_of(file), session_name(file.name)), []).append(file)
        for (agent, name), files in spaces.items():
            found: dict[str, tuple[HomeFile, State]] = {}
            stems = {
                os.path.splitext(file.path)[0] for file in files if file.path.endswith(".json")
            }
            read: set[str] = set()
            for file in sorted(files, key=lambda each: (each.path.endswith(".md"), each.path)):
                stem = os.path.splitext(file.path)[0]
                if file.path.endswith(".md") and stem in stems & read:
                    continue  # the same checkpoint, for people
                try:
                    state = read_checkpoint(file.path)
                except HoldfastError as error:
                    report.left.append(LeftBehind(file.path, str(error), is_trouble=True))
                    continue
                read.add(stem)
                found.setdefault(state.checkpoint_id or repr(to_json(state)), (file, state))
            if found:
                self._take_states(report, SessionKey(agent, name), list(found.values()))

    def _take_states(
        self, report: AdoptionReport, key: SessionKey, found: list[tuple[HomeFile, State]]
    ) -> None:
        timed = sorted(found, key=lambda each: seconds(each[1].timestamp))
        records: list[Record] = [
            Checkpoint(
                state=to_json(state),
                trigger=state.trigger or "adopted",
                ts=seconds(state.timestamp) or os.stat(file.path).st_mtime,
            )
            for file, state in timed
        ]
        newest = timed[-1][0].path
        origin: Json = {"file": os.path.basename(newest), "format": "checkpoint"}
        try:
            done = self._adopter.adopt(key, records, origin, label=f"checkpoints of {key.session}")
        except HoldfastError as error:
            report.left.append(LeftBehind(newest, str(error), is_trouble=True))
            return
        report.sessions.append(AdoptedTranscript(newest, "checkpoint", done, [], records))

    # Notes

    def _take_note(self, report: AdoptionReport, file: HomeFile) -> None:
        agent = self._agent_of(file)
        notes = self._store.notes(agent, self._owner)
        try:
            if os.path.getsize(file.path) > NOTE_FILE_BYTES_MAX:
                why = f"a note of more than {NOTE_FILE_BYTES_MAX:,} bytes"
                report.left.append(LeftBehind(file.path, why, is_trouble=True))
                return
            with open(file.path, "rb") as opened:
                data = opened.read()
            name, state = self._put_note(notes, file.name, data)
        except (HoldfastError, OSError) as error:
            report.left.append(LeftBehind(file.path, str(error), is_trouble=True))
            return
        report.notes.append(AdoptedFile(file.path, agent, name, state))

    def _put_note(self, notes: Notes, wanted: str, data: bytes) -> tuple[str, str]:
        """Store a file of notes; one that others wrote to since keeps its own version."""
        stem = wanted.removesuffix(".md")
        for number in range(_VERSIONS_MAX):
            name = (
                wanted if not number else f"{stem}-adopted{'' if number == 1 else f'-{number}'}.md"
            )
            before = notes.data(name) if notes.kind(name) == "file" else None
            if before == data:
                return name, "same"
            if before is None or data.startswith(before):
                if not self._is_dry_run:
                    notes.put(name, before, data)
                return name, "renamed" if number else "new" if before is None else "grown"
        raise HoldfastError(f"{_VERSIONS_MAX} notes are called `{wanted}`")


class _Outputs:
    """The outputs that a tool moved out of its transcripts, found again by name or by call."""

    def __init__(self, files: list[HomeFile]) -> None:
        self._by_name = {os.path.basename(file.path): file.path for file in files}
        self._used: set[str] = set()
        self.troubles: list[tuple[str, str]] = []

    def rest(self) -> list[str]:
        """Return the files that no record named so far."""
        troubled = {path for path, _why in self.troubles}
        return sorted(set(self._by_name.values()) - self._used - troubled)

    def restore(
        self, records: list[Record], store: SessionStore, *, is_dry_run: bool
    ) -> tuple[list[Record], int]:
        """Return the records with refs to their whole outputs, and how many there are."""
        if not self._by_name:
            return records, 0
        made = [self._restore(record, store, is_dry_run=is_dry_run) for record in records]
        changed = sum(new is not old for new, old in zip(made, records, strict=True))
        return made, changed

    def _restore(self, record: Record, store: SessionStore, *, is_dry_run: bool) -> Record:
        if not isinstance(record, ToolResult) or record.output_ref is not None:
            return record
        named = mapping(mapping(record.details).get("outputRef"))
        path = self._by_name.get(os.path.basename(str(named.get("path", "")).replace("\\", "/")))
        path = path or self._by_call(record.tool_use_id)
        if path is None:
            return record
        with open(path, "rb") as file:
            data = file.read()
        digest = named.get("sha256")
        if isinstance(digest, str) and digest and hashlib.sha256(data).hexdigest() != digest:
            self.troubles.append((path, "an output that was changed since: its hash differs"))
            return record
        self._used.add(path)
        text = mapping(parse(data)).get("text") if path.endswith(".json") else None
        whole = text.encode(errors="replace") if isinstance(text, str) else data
        sha256 = hashlib.sha256(whole).hexdigest() if is_dry_run else store.blobs.put(whole)
        lines = whole.count(b"\n") + (not whole.endswith(b"\n"))
        ref = OutputRef(sha256=sha256, bytes=len(whole), kind="text", lines=lines)
        return msgspec.structs.replace(record, output_ref=ref)

    def _by_call(self, call: str) -> str | None:
        """Return the file whose name ends with a call: some tools write no ref to it."""
        if len(call) < len("call-1"):
            return None
        safe = "".join(item if item.isalnum() or item in "_-" else "_" for item in call)
        endings = (f"-{call}.json", f"-{safe}.json", f"-{call}.txt", f"-{safe}.txt")
        return next((path for name, path in self._by_name.items() if name.endswith(endings)), None)


def _index_entry(home: Home, path: str, session: str) -> IndexEntry | None:
    folder = os.path.dirname(path)
    stem = os.path.basename(path).partition(".")[0]
    for name in (session, stem):
        entry = home.index.get((folder, name))
        if entry is not None:
            return entry
    return next(
        (
            each
            for (place, _id), each in home.index.items()
            if place == folder and each.file and each.file.partition(".")[0] == stem
        ),
        None,
    )
