"""The home of another tool, brought into a store in one go; run again, it adds what is new.

A session is made once from a transcript, and continued when the transcript has grown.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.adoption import ORIGIN, Growth, compare, mark, with_free_ids
from holdfast.core.checkpoint.state import to_json
from holdfast.core.limits import NOTE_FILE_BYTES_MAX
from holdfast.core.log.ids import SessionKey, free_key
from holdfast.core.log.records import Checkpoint, Header, Label, OutputRef, Rewind, ToolResult
from holdfast.core.owners import NO_OWNER, owner_of
from holdfast.errors import HoldfastError, NoSuchSession, SessionExists
from holdfast.importers import format_of, read_source
from holdfast.importers.checkpoints import read_checkpoint
from holdfast.importers.common.base import Source, mapping, session_name
from holdfast.importers.common.parsing import parse, seconds
from holdfast.importers.databases import read_database
from holdfast.importers.homes import Home, LeftBehind
from holdfast.importers.places import load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.core.checkpoint.state import State
    from holdfast.core.log.records import Json, Record
    from holdfast.core.owners import Owner
    from holdfast.importers.common.base import Imported, Skipped
    from holdfast.importers.homes import HomeFile, IndexEntry
    from holdfast.ports import Notes, SessionStore


AdoptedState = Literal["new", "same", "grown", "revised", "forked", "renamed", "refused"]
"""`new`: the session was made. `same`: it has everything already. `grown` and `revised`: records
were added. `forked`: the source and the session differ from some record on, and a fork has what the
source has. `renamed`: another session has the id, so this one got another. `refused`: one of the
last two would be due, and the caller wants neither."""

_PIECE_RECORDS: Final = 250
"""Records in one append. Anyone who opens the session reads the newest append whole, to know that
no page of it was lost; twice as many gain nothing when writing."""

_FORK, _OTHER = "fork", "adopted"


class AdoptedSession(msgspec.Struct, frozen=True):
    """The result for one session of a source."""

    key: SessionKey
    state: AdoptedState
    added: int
    """Records that were added; in a dry run, that would be."""
    records: int
    """Records that the source has."""
    beside: SessionKey | None = None
    """The session that has another version, where this is a fork or was renamed."""
    shared: int = 0
    """Records that a fork has in common with that session."""


class SessionAdopter:
    """Brings transcripts into a store as sessions of one agent and owner."""

    def __init__(
        self,
        store: SessionStore,
        *,
        owner: Owner = NO_OWNER,
        may_fork: bool = True,
        is_dry_run: bool = False,
    ) -> None:
        self._store = store
        self._owner = owner
        self._may_fork = may_fork
        self._is_dry_run = is_dry_run
        self._keys: dict[str, dict[str, SessionKey]] = {}

    def adopt(
        self, key: SessionKey, records: Sequence[Record], origin: Json, *, label: str = ""
    ) -> AdoptedSession:
        """Make the session, or add what it lacks. What both have is never written twice.

        A crash leaves a beginning, which the next call goes on from.
        """
        found = self._versions(key)
        if not found:
            return self._create(key, records, origin, label, AdoptedSession(key, "new", 0, 0))
        best: tuple[SessionKey, Growth] | None = None
        for version in found:
            growth = self._compare(version, records)
            if growth is not None and growth.state != "diverged":
                return self._continue(version, records, growth, origin, label)
            if growth is not None and (best is None or growth.shared > best[1].shared):
                best = version, growth
        if not self._may_fork:
            return AdoptedSession(found[0], "refused", 0, len(records), found[0])
        if best is not None and best[1].shared:
            return self._fork(*best, records, origin)
        other = free_key(key, _OTHER, self._ids_of(key.agent))
        about = AdoptedSession(other, "renamed", 0, 0, found[0])
        return self._create(other, records, origin, label, about)

    def _versions(self, key: SessionKey) -> list[SessionKey]:
        """Return the sessions that may be an earlier import of the same source."""
        taken = self._ids_of(key.agent)
        stem = key.session[:96].casefold()
        names = [key.session.casefold()]
        for suffix in (_FORK, _OTHER):
            number, name = 1, f"{stem}-{suffix}"
            while name in taken:
                names.append(name)
                number += 1
                name = f"{stem}-{suffix}-{number}"
        return [taken[name] for name in names if name in taken]

    def _ids_of(self, agent: str) -> dict[str, SessionKey]:
        """Return the sessions of an agent by their ids, case-folded."""
        if agent not in self._keys:
            keys = self._store.keys(agent)
            self._keys[agent] = {key.session.casefold(): key for key in keys}
        return self._keys[agent]

    def _compare(self, key: SessionKey, records: Sequence[Record]) -> Growth | None:
        """Compare a session with the source; None where it is another's, or something else."""
        try:
            header = self._store.header(key)
            stored = [each for each in self._store.read(key) if not isinstance(each, Header)]
        except NoSuchSession:
            return None
        if owner_of(header.owner) != self._owner:
            return None
        if not stored and header.ts != _start_time(records):
            return None  # an empty session that someone made
        return compare(stored, records)

    def _create(
        self,
        key: SessionKey,
        records: Sequence[Record],
        origin: Json,
        label: str,
        about: AdoptedSession,
    ) -> AdoptedSession:
        if not self._is_dry_run:
            try:
                began = _start_time(records) or None
                self._store.create(key, label=label, owner=self._owner, created=began)
            except SessionExists:
                self._keys.pop(key.agent, None)  # made by another process meanwhile
                raise
            self._append(key, mark(records, origin))
        self._ids_of(key.agent)[key.session.casefold()] = key
        return msgspec.structs.replace(about, added=len(records), records=len(records))

    def _continue(
        self,
        key: SessionKey,
        records: Sequence[Record],
        growth: Growth,
        origin: Json,
        label: str,
    ) -> AdoptedSession:
        if growth.state == "same" or self._is_dry_run:
            state: AdoptedState = "same" if growth.state == "same" else "grown"
            self._name(key, label, origin)
            return AdoptedSession(key, state, len(growth.fresh), len(records))
        taken = {entry.record.id for entry in self._store.read_all(key)}
        fresh = mark(with_free_ids(growth.fresh, taken), origin)
        if growth.state == "revised":
            newest = self._store.info(
                key
            ).last_active  # the time of the source, not of the adoption
            to = growth.at or self._store.header(key).id
            back = Rewind(to=to, reason="adopt", ts=newest)
            self._store.append(key, [back], expect=self._store.head(key))
        self._append(key, fresh)
        self._name(key, label, origin)
        state = "revised" if growth.state == "revised" else "grown"
        return AdoptedSession(key, state, len(fresh), len(records))

    def _fork(
        self, key: SessionKey, growth: Growth, records: Sequence[Record], origin: Json
    ) -> AdoptedSession:
        new = free_key(key, _FORK, self._ids_of(key.agent))
        if not self._is_dry_run:
            self._store.fork(key, new, at=growth.at)
            self._append(new, mark(growth.fresh, origin))
        self._ids_of(key.agent)[new.session.casefold()] = new
        return AdoptedSession(
            new, "forked", len(growth.fresh), len(records), beside=key, shared=growth.shared
        )

    def _append(self, key: SessionKey, records: Sequence[Record]) -> None:
        head = self._store.head(key)
        for start in range(0, len(records), _PIECE_RECORDS):
            piece = records[start : start + _PIECE_RECORDS]
            head = self._store.append(key, piece, expect=head, durability="buffered").head
        self._store.sync(key)

    def _name(self, key: SessionKey, label: str, origin: Json) -> None:
        """Give a session the name that its source got later."""
        if not label or self._is_dry_run:
            return
        with suppress(HoldfastError):  # a name is no reason to fail
            if not self._store.info(key).label:
                newest = self._store.info(key).last_active
                named = Label(label=label, ts=newest, extra={ORIGIN: origin})
                self._store.append(key, [named], expect=self._store.head(key))


def is_in_use(records: Iterable[Record]) -> bool:
    """Return whether anything but imports is in a session; shown the path from the head back."""
    newest = next(iter(records), None)
    return newest is None or ORIGIN not in newest.extra


def _start_time(records: Iterable[Record]) -> float:
    return min((record.ts for record in records if record.ts > 0), default=0.0)


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
