"""Copies everything of one store into another: written above the ports, for every pair of them.

A session is copied byte for byte, in pieces that could each have been its end, after the payloads
that its log names. Notes, accesses and the messages in queues follow: each once, so that a copy
that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import hashlib
import sqlite3
import warnings
from collections import Counter
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.history.access import bound
from holdfast.core.limits import LINE_BYTES_MAX, NOTE_FILE_BYTES_MAX, NOTE_FILES_MAX
from holdfast.core.log.damage import Flaw
from holdfast.core.log.ids import positional_id
from holdfast.core.log.records import decode
from holdfast.core.log.refs import hex_runs, refs_of
from holdfast.core.log.tree import Chain
from holdfast.core.owners import ANY_OWNER, UNKNOWN_OWNER, AnyOwner, UnknownOwner, owner_of
from holdfast.core.queues import as_copy, is_equal
from holdfast.errors import (
    BlobDamaged,
    BlobMissing,
    HoldfastError,
    HoldfastWarning,
    LogGrown,
    NoSuchSession,
    NoteChanged,
    PathRejected,
    SessionExists,
    StoreError,
    StoreUnavailable,
    UsageError,
)
from holdfast.ports.copying import (
    CopiedMessages,
    CopiedNotes,
    CopiedSession,
    CopyProgress,
    CopyReport,
    OnProgress,
)
from holdfast.stores.lines import item_of
from holdfast.stores.payloads import is_hash

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from holdfast.core.history.access import Access
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.core.queues import MessageCopy
    from holdfast.ports import Audit, BlobStore, Notes, QueuedMessage, Queues, SessionStore
    from holdfast.ports.copying import CopyState


PIECE_BYTES: Final = 4 * 1024 * 1024
"""The size of a piece, unless one append is larger: held in memory, and written in one step."""
_HELD_MAX: Final = 2 * LINE_BYTES_MAX
"""Bytes that are held for the end of an append. Damage can hide it; then a piece ends anywhere."""


class LogPiece(NamedTuple):
    """Some whole lines of a log, and the position of the first."""

    position: int
    data: bytes


class LogPieces:
    """Cuts a log into pieces."""

    def __init__(
        self, key: SessionKey, blocks: Iterable[bytes], *, piece_bytes: int = PIECE_BYTES
    ) -> None:
        self.left_out = 0
        """Bytes after the last whole append, once all pieces were taken."""
        self._key = key
        self._blocks = blocks
        self._piece_bytes = piece_bytes
        self._chain = Chain()
        self._position = 0
        """The position of the first byte that is held."""
        self._held = bytearray()
        self._whole = 0
        """The number of held bytes that end with a whole append."""

    def __iter__(self) -> Iterator[LogPiece]:
        parts: list[bytes] = []  # of a line whose end is not there yet
        size = 0
        for block in self._blocks:
            first, *others = block.split(b"\n")
            parts.append(first)
            size += len(first)
            self._check_size(size)
            if others:
                last = others.pop()
                for line in (b"".join(parts), *others):
                    self._check_size(len(line))
                    self._add(line)
                    if self._whole >= self._piece_bytes or len(self._held) > _HELD_MAX:
                        yield self._cut()
                parts, size = [last], len(last)
        tail = b"".join(parts)
        if not self._add_tail(tail):
            self.left_out = len(tail)
        self.left_out += len(self._held) - self._whole
        if self._whole:
            yield self._cut()

    def _add(self, line: bytes) -> None:
        position = self._position + len(self._held)
        self._held += line
        self._held += b"\n"
        if self._chain.is_open or _may_open(line):
            if line and not line.isspace():
                self._chain.add(position, len(line), item_of(position, line))
            if self._chain.is_open:
                return
        self._whole = len(self._held)

    def _add_tail(self, tail: bytes) -> bool:
        """Take a record that lacks only its newline, which the next append would add."""
        position = self._position + len(self._held)
        if not tail or isinstance(item := item_of(position, tail), Flaw) or item is None:
            return False
        if item.more:
            return False
        self._add(tail)
        return True

    def _cut(self) -> LogPiece:
        whole = self._whole or len(self._held)
        piece = LogPiece(self._position, bytes(self._held[:whole]))
        del self._held[:whole]
        self._position += whole
        self._whole = 0
        return piece

    def _check_size(self, size: int) -> None:
        if size > LINE_BYTES_MAX:
            position = self._position + len(self._held)
            raise StoreError(
                f"cannot copy session `{self._key}`: the line at byte {position:,} of its log has "
                f"more than {LINE_BYTES_MAX:,} bytes",
                hint="no record is that long; copy what "
                f"`holdfast verify {self._key.session} --repair` makes of it",
            )


def _may_open(line: bytes) -> bool:
    """Return False for most lines: they are not part of an append of several, and hide none."""
    return b'more"' in line or b"\0" in line or b"\\u" in line


_DIGITS: Final = 64
"""Of a hash."""
_START: Final = 12
"""Digits of a hash that are compared first: with a million payloads, of a billion places in text
four begin like one of them."""


class Payloads:
    """Copies payloads from one place to another."""

    def __init__(self, source: BlobStore, target: BlobStore, *, is_dry_run: bool) -> None:
        self._source, self._target = source, target
        self._is_dry_run = is_dry_run
        self._starts: set[str] | None = None
        self._seen: set[bytes] = set()
        self.stored = 0
        self.lost: list[str] = []
        """Hashes of payloads that are named, and that the source cannot give."""

    def copy(self, lines: bytes) -> None:
        """Store every payload that these lines name, before they are written themselves."""
        if self._source is self._target:
            return
        named = _refs_in(lines)
        for name in sorted(named | self._find_mentions(lines, named)):
            if name in self._seen:
                continue
            self._seen.add(name)
            sha256 = name.hex()
            is_there = sha256 in self._target or self._copy(sha256)
            if not is_there and name in named:
                self.lost.append(sha256)

    def _find_mentions(self, lines: bytes, named: set[bytes]) -> set[bytes]:
        """Return what looks like the hash of a payload of the source."""
        found: set[str] = set()
        for digits in hex_runs(lines):
            if len(digits) == _DIGITS and bytes.fromhex(digits) in named:
                continue
            if self._starts is None:
                self._starts = {listed[:_START] for listed in self._source}
            for at in range(len(digits) - _DIGITS + 1) if self._starts else ():
                if digits[at : at + _START] in self._starts:
                    found.add(digits[at : at + _DIGITS])
        return {bytes.fromhex(sha256) for sha256 in found}

    def _copy(self, sha256: str) -> bool:
        try:
            if self._is_dry_run:
                is_there = sha256 in self._source
                self.stored += is_there
                return is_there
            self._target.put(self._source.get(sha256))
        except (BlobMissing, BlobDamaged):
            return False
        self.stored += 1
        return True


def _refs_in(lines: bytes) -> set[bytes]:
    """Return the payloads that the records in these lines refer to."""
    found = set()
    for line in lines.split(b"\n"):
        if b"sha256" in line:
            item = decode(line)
            refs = () if isinstance(item, Flaw) else refs_of(item)
            found |= {bytes.fromhex(ref.sha256) for ref in refs if is_hash(ref.sha256)}
    return found


_TABLE: Final = "CREATE TABLE known (digest BLOB PRIMARY KEY, times INTEGER) WITHOUT ROWID"
_ADD: Final = """INSERT INTO known VALUES (?, 1)
  ON CONFLICT (digest) DO UPDATE SET times = times + 1"""
_TAKE: Final = "UPDATE known SET times = times - 1 WHERE digest = ? AND times > 0"


def copy_accesses(source: Audit, target: Audit, *, is_dry_run: bool = False) -> tuple[int, int]:
    """Return the number of accesses that the target had not, and that of damaged ones."""
    added = damaged = 0
    # A database without a name is a temporary file, of which a few megabytes are held in memory.
    with closing(sqlite3.connect("", isolation_level=None)) as known:
        known.execute(_TABLE)
        known.execute("BEGIN")
        for page in target.pages():
            known.executemany(_ADD, map(_digest, page.accesses))
        for page in source.pages():
            damaged += page.damaged
            missing = [
                access
                for access in page.accesses
                if not known.execute(_TAKE, _digest(access)).rowcount
            ]
            added += len(missing)
            if missing and not is_dry_run:
                target.note_all(missing)
    return added, damaged


def _digest(access: Access) -> tuple[bytes]:
    return (hashlib.sha256(msgspec.json.encode(bound(access))).digest(),)


_PAGE: Final = 50
"""Messages that are held at a time, and written in one step. A body may have some megabytes."""
_NAMED_MAX: Final = 20
"""Conflicts whose ids are told."""


def copy_messages(
    source: Queues,
    target: Queues,
    *,
    agent: str | None = None,
    owner: OwnerFilter,
    is_dry_run: bool = False,
) -> CopiedMessages:
    """Bring the target's queues up to date, and read again what was written."""
    outcomes: Counter[MessageCopy] = Counter()
    running = 0
    conflicts: list[int] = []
    for page in _pages(source, agent, owner):
        running += sum(message.state == "running" for message in page)
        copies = [as_copy(message) for message in page]
        decided = target.restore(copies, dry_run=is_dry_run)
        outcomes.update(decided)
        pairs = list(zip(copies, decided, strict=True))
        conflicts += [copy.id for copy, outcome in pairs if outcome == "conflict"]
        conflicts = conflicts[:_NAMED_MAX]
        if not is_dry_run:
            _verify(target, [copy for copy, outcome in pairs if outcome in ("added", "updated")])
    return CopiedMessages(
        messages=outcomes.total(),
        added=outcomes["added"],
        updated=outcomes["updated"],
        running=running,
        conflicts=tuple(conflicts),
        conflicts_count=outcomes["conflict"],
    )


def _pages(source: Queues, agent: str | None, owner: OwnerFilter) -> Iterator[list[QueuedMessage]]:
    """The messages, the oldest first; of an agent, those about its sessions."""
    after = 0
    while page := source.copies(owner=owner, after=after, limit=_PAGE):
        after = page[-1].id
        chosen = [
            message for message in page if agent is None or message.session.startswith(f"{agent}/")
        ]
        if chosen:
            yield chosen


def _verify(target: Queues, copies: Sequence[QueuedMessage]) -> None:
    for copy in copies:
        found = target.message(copy.id)
        if found is None or not is_equal(copy, found):
            raise StoreError(
                f"the copy of message {copy.id} is not what was written",
                hint="let nothing use the target meanwhile; look for errors of its disk or server",
            )


def copy_notes(source: Notes, target: Notes, *, is_dry_run: bool = False) -> CopiedNotes:
    """Write every file that the target has not, or has a beginning of; the others stay."""
    files, added, is_new = source.files(), 0, not target.files()
    conflicts: list[str] = []
    failures: list[str] = []
    if len(source.tree()) >= NOTE_FILES_MAX:
        failures.append(f"more than {NOTE_FILES_MAX:,} files")
    for file in files:
        try:
            if file.size > NOTE_FILE_BYTES_MAX:
                failures.append(f"`{file.path}` is larger than {NOTE_FILE_BYTES_MAX:,} bytes")
            elif not _copy_file(source, target, file.path, is_dry_run=is_dry_run):
                continue
            else:
                added += 1
        except (NoteChanged, PathRejected):
            conflicts.append(f"`{file.path}` differs at the target")
        except StoreUnavailable:
            raise
        except HoldfastError as error:
            failures.append(str(error))
    for mark in sorted(source.marks() - target.marks()) if not is_dry_run else ():
        target.append([], once=mark)
    state: CopyState = "same" if not added else "copied" if is_new else "updated"
    state = "failed" if failures else "conflict" if conflicts else state
    detail = "; ".join([*failures, *conflicts][:3])
    return CopiedNotes(source.scope, state, len(files), added, detail)


def _copy_file(source: Notes, target: Notes, path: str, *, is_dry_run: bool) -> bool:
    """Return whether the file had to be written. Raises `NoteChanged` where it is another."""
    data = source.data(path)
    kind = target.kind(path)
    before = target.data(path) if kind == "file" else None
    if before == data:
        return False
    if kind not in ("file", "nothing") or not data.startswith(before or b""):
        raise NoteChanged(path)
    if not is_dry_run:
        target.put(path, before, data)
    return True


_TRIES: Final = 20
"""Comparisons of a log that another writes to at the same time, without making it longer."""


class Conflict(HoldfastError):
    """The target has something else than a beginning of the source's log."""


class SessionCopy:
    """Copies one session."""

    def __init__(
        self,
        source: SessionStore,
        target: SessionStore,
        key: SessionKey,
        payloads: Payloads,
        *,
        is_dry_run: bool = False,
        on_bytes: Callable[[int], None] = lambda _bytes: None,
    ) -> None:
        self._source, self._target, self._key = source, target, key
        self._payloads = payloads
        self._is_dry_run = is_dry_run
        self._on_bytes = on_bytes
        self._was_there: bool | None = None
        self._added = self._left_out = 0

    def run(self) -> CopiedSession:
        """Bring the target's log up to date. What goes wrong is told in the result, except that a
        store that cannot be reached raises `StoreUnavailable`."""
        stored, lost = self._payloads.stored, len(self._payloads.lost)
        result = CopiedSession(self._key, "failed")
        try:
            turn = self._source.leases.current(self._key)
            size = self._copy_log()
            self._copy_summary()
            state: CopyState = "same" if not self._added else "updated"
            state = state if self._was_there else "copied"
            names = self._payloads.lost[lost:]
            result = CopiedSession(
                self._key,
                state,
                bytes=size,
                added=self._added,
                left_out=self._left_out,
                turn=turn.holder if turn else "",
                detail=f"payloads that are not in the source: {_some(names)}" if names else "",
            )
        except (Conflict, SessionExists) as error:
            result = CopiedSession(self._key, "conflict", detail=str(error))
        except StoreUnavailable:
            raise
        except HoldfastError as error:
            result = CopiedSession(self._key, "failed", detail=str(error))
        return msgspec.structs.replace(result, payloads=self._payloads.stored - stored)

    def _copy_log(self) -> int:
        """Return the size of the target's log once it is what the source's is."""
        tries = found = 0
        while tries < _TRIES:
            try:
                size = self._compare()
            except LogGrown as error:  # another copy was faster: look again
                tries, found = (0 if error.found > found else tries + 1), error.found
                continue
            except SessionExists as error:
                if error.taken_by != self._key.session:
                    raise
                tries += 1
                continue
            if self._added and not self._is_dry_run:
                self._verify(size)
            return size
        raise StoreError(
            f"cannot copy session `{self._key}`: its log at the target changed {_TRIES} times "
            "meanwhile",
            hint="run one copy at a time, and let nothing write to the target",
        )

    def _compare(self) -> int:
        """Compare the logs, and write what the target lacks; returns the size it then has."""
        there = _Stream(self._target, self._key)
        self._was_there = there.is_there if self._was_there is None else self._was_there
        pieces = LogPieces(self._key, self._source.export(self._key))
        size = 0
        for piece in pieces:
            known = there.take(len(piece.data))
            if not piece.data.startswith(known):
                raise self._difference(piece.position, piece.data, known)
            self._payloads.copy(piece.data)
            size = piece.position + len(piece.data)
            if len(known) < len(piece.data):
                self._write(piece.data[len(known) :], at=piece.position + len(known))
            self._on_bytes(size)
        if extra := there.take(1):
            raise self._difference(size, b"", extra)
        if not there.is_there and size == 0 and not self._is_dry_run:
            self._target.create_log(self._key, [])
        self._left_out = pieces.left_out
        return size

    def _write(self, data: bytes, *, at: int) -> None:
        if not self._is_dry_run:
            self._refuse_running_turn()
            self._target.extend_log(self._key, data, at=at)
        self._added += len(data)

    def _refuse_running_turn(self) -> None:
        try:
            turn = self._target.leases.current(self._key)
        except NoSuchSession:
            return
        if turn is not None:
            raise Conflict(
                f"a turn of session `{self._key}` runs at the target: {turn.holder}",
                hint="stop what uses the session there",
            )

    def _verify(self, size: int) -> None:
        """Read what the target has now, and compare it with the source, line by line."""
        there = _Stream(self._target, self._key)
        for piece in LogPieces(self._key, self._source.export(self._key)):
            if piece.position >= size:
                break  # the source has grown since
            data = piece.data[: size - piece.position]
            if there.take(len(data)) != data:
                raise StoreError(
                    f"the copy of session `{self._key}` is not what was written, after byte "
                    f"{piece.position:,}",
                    hint="look for errors of the disk or the database at the target",
                )

    def _difference(self, position: int, data: bytes, known: bytes) -> Conflict:
        """Return the error that names the first line at the target that the source has not."""
        same = 0
        for ours, theirs in zip(data.split(b"\n"), known.split(b"\n"), strict=False):
            if ours != theirs:
                break
            same += len(ours) + 1
        at = position + min(same, len(known))
        return Conflict(
            f"session `{self._key}` at the target is another from record "
            f"`{positional_id(at)}` on: it was not touched",
            hint="keep the one you need: remove the other, or fork it under another id",
        )

    def _copy_summary(self) -> None:
        """Copy the running summary: a cache, made again where it is not there."""
        made = self._source.summaries.load(self._key)
        if made is None or self._is_dry_run or self._target.summaries.load(self._key) == made:
            return
        self._target.summaries.save(self._key, made)


class _Stream:
    """The bytes of a log, taken so many at a time; none where there is no session."""

    def __init__(self, store: SessionStore, key: SessionKey) -> None:
        self._blocks = store.export(key)
        self._held = bytearray()
        self.is_there = True
        try:
            self._held += next(self._blocks, b"")
        except NoSuchSession:
            self.is_there = False

    def take(self, size: int) -> bytes:
        """Return the next bytes; fewer at the end."""
        while len(self._held) < size and (block := next(self._blocks, None)) is not None:
            self._held += block
        taken = bytes(self._held[:size])
        del self._held[:size]
        return taken


def _some(names: list[str]) -> str:
    shown = ", ".join(name[:12] for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3} more"


_UNAVAILABLE_MAX: Final = 3
"""Sessions in a row that a store fails with: then it is the store, and the copy ends."""


def copy_store(
    source: SessionStore,
    target: SessionStore,
    *,
    agent: str | None = None,
    owner: OwnerFilter = ANY_OWNER,
    dry_run: bool = False,
    on_progress: OnProgress = lambda _progress: None,
) -> CopyReport:
    """Copy all sessions with their payloads, running summaries and notes, messages in queues and
    the audit log.

    Logs are the same bytes afterwards, and are compared again once they are written. Running it
    again goes on where it was, and brings up to date what has grown since. It deletes nothing,
    and a session or a file of notes that is another at the target is reported and not touched.
    With `agent`, or an `owner` other than `ANY_OWNER`, only their sessions, notes and messages,
    without the audit log.

    Raises `StoreUnavailable` where a store cannot be reached; what was copied until then stays.
    """
    if source.leases.place == target.leases.place:
        raise UsageError(
            f"cannot copy `{source.describe()}` into itself", hint="name another store"
        )
    keys = _list(source, agent, owner)
    payloads = Payloads(source.blobs, target.blobs, is_dry_run=dry_run)
    # Before the logs: a message that waits at the target, and is answered in its log, is not
    # answered again; one that is answered, and whose log lacks the answer, would be lost.
    messages = copy_messages(
        source.queues, target.queues, agent=agent, owner=owner, is_dry_run=dry_run
    )
    sessions = _copy_sessions(source, target, keys, payloads, dry_run, on_progress)
    is_whole = agent is None and owner == ANY_OWNER
    accesses, damaged = (
        copy_accesses(source.audit, target.audit, is_dry_run=dry_run) if is_whole else (0, 0)
    )
    agents = sorted(source.agents()) if agent is None else [agent]
    notes = _copy_notes(source, target, agents, keys, owner, dry_run=dry_run)
    return CopyReport(
        source=source.describe(),
        target=target.describe(),
        sessions=tuple(sessions),
        notes=tuple(notes),
        accesses=accesses,
        accesses_damaged=damaged,
        trashed=len(source.trash()),
        messages=messages,
        is_dry_run=dry_run,
    )


def _list(source: SessionStore, agent: str | None, owner: OwnerFilter) -> list[SessionKey]:
    """Return every session. One that cannot be listed would be missed, so it is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", HoldfastWarning)
        try:
            if isinstance(owner, AnyOwner):
                return sorted(source.keys(agent))
            return sorted(info.key for info in source.sessions(agent=agent, owner=owner))
        except HoldfastWarning as warning:
            raise StoreError(
                f"cannot list all sessions of `{source.describe()}`: {warning}",
                hint="nothing was copied; make everything there readable, or take it away",
            ) from None


def _copy_sessions(
    source: SessionStore,
    target: SessionStore,
    keys: list[SessionKey],
    payloads: Payloads,
    is_dry_run: bool,
    on_progress: OnProgress,
) -> list[CopiedSession]:
    done: list[CopiedSession] = []
    failures = 0
    for number, key in enumerate(keys, 1):

        def tell(size: int, key: SessionKey = key, number: int = number) -> None:
            on_progress(CopyProgress(key, number, len(keys), size))

        tell(0)
        copy = SessionCopy(source, target, key, payloads, is_dry_run=is_dry_run, on_bytes=tell)
        try:
            done.append(copy.run())
            failures = 0
        except StoreUnavailable as error:
            failures += 1
            if failures >= min(_UNAVAILABLE_MAX, len(keys)):
                raise
            done.append(CopiedSession(key, "failed", detail=str(error)))
    return done


def _owners(source: SessionStore, keys: Iterable[SessionKey]) -> set[Owner]:
    """Return every owner that has a session, or is in the trash or in the audit log."""
    owners = {owner_of(access.owner) for page in source.audit.pages() for access in page.accesses}
    for key in keys:
        with suppress(StoreError, NoSuchSession):  # damaged, or removed meanwhile
            owners.add(owner_of(source.header(key).owner))
    for key in {trashed.key for trashed in source.trash()}:
        with suppress(StoreError, NoSuchSession):
            owners |= source.erasable(key, owner=ANY_OWNER).owners
    return owners


def _copy_notes(
    source: SessionStore,
    target: SessionStore,
    agents: Iterable[str],
    keys: Iterable[SessionKey],
    owner: OwnerFilter,
    *,
    dry_run: bool,
) -> list[CopiedNotes]:
    is_every = isinstance(owner, AnyOwner)
    owners: set[Owner] = set() if isinstance(owner, AnyOwner) else {owner}
    done = []
    for agent in agents:
        scopes = source.note_scopes(agent)
        if (
            is_every and not owners and UNKNOWN_OWNER in scopes.values()
        ):  # of a folder from before it kept names
            owners = _owners(source, keys)
        known = {source.notes(agent, name).scope: name for name in owners}
        for scope, stored in sorted(scopes.items()):
            name = known.get(scope, stored if is_every else UNKNOWN_OWNER)
            if not isinstance(name, UnknownOwner):
                notes, there = source.notes(agent, name), target.notes(agent, name)
                done.append(copy_notes(notes, there, is_dry_run=dry_run))
            elif is_every:
                why = "the owner of these notes is unknown: name their owner"
                done.append(CopiedNotes(scope, "failed", detail=why))
    return done
