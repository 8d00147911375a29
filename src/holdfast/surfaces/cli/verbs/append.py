"""`append`: reads records as JSON lines and acknowledges each once it is durable.

Any program in any language can write a session this way. All lines that wait on stdin are written
and synced together, so a fast writer needs few syncs and a slow one never waits for more input.
"""

from __future__ import annotations

import difflib
import os
import sys
from typing import TYPE_CHECKING, Annotated, Final

from msgspec.structs import replace

from holdfast.core.limits import LINE_BYTES_MAX
from holdfast.core.log.damage import Flaw, preview
from holdfast.core.log.listing import check_label
from holdfast.core.log.records import BY_TYPE, Header, Record, Rewind, Unknown, decode
from holdfast.core.parameters import ExpectedHead, NewLabel
from holdfast.core.secrets.found import find_secrets
from holdfast.errors import BadRecord, NoSuchSession
from holdfast.surfaces.cli.command import Command, SessionPlace, option
from holdfast.surfaces.cli.verbs.sessions import new_key

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.surfaces.cli.app import App

_CHUNK_BYTES: Final = 1024 * 1024
"""Standard input is read in pieces, so that memory does not grow with it."""


class AppendCommand(Command, frozen=True, kw_only=True):
    """Appends records."""

    example = """example:
  echo '{"type":"user","content":"hello"}' | holdfast append demo --create"""
    session: SessionPlace
    create: Annotated[bool, option("create the session if it does not exist")] = False
    label: Annotated[NewLabel, option()] = ""
    expect: Annotated[ExpectedHead, option("", "ID")] = None
    atomic: Annotated[bool, option("write all of stdin as one append: everything or nothing")] = (
        False
    )
    buffered: Annotated[
        bool,
        option("sync once at the end, for bulk loads; a power failure may lose acknowledged lines"),
    ] = False

    def run(self, app: App) -> None:
        try:
            key = app.session(self.session)
        except NoSuchSession:
            if not self.create:
                raise
            key = new_key(app, self.session)
            app.store.create(key, label=check_label(self.label), owner=app.owner_of_new)
        note_terminal(app, "records")
        intake = _Intake(app, key, expect=self.expect, is_buffered=self.buffered)
        try:
            if self.atomic:
                intake.take_all()
            else:
                intake.take_each()
        finally:
            if self.buffered:
                app.store.sync(key)


def note_terminal(app: App, what: str) -> None:
    """Tell a person at a terminal what to type."""
    if sys.stdin.isatty():
        app.out.note(f"reading {what} from the terminal, one JSON object per line; end with Ctrl-D")


class _Intake:
    """Reads lines, appends records and prints acknowledgements."""

    def __init__(self, app: App, key: SessionKey, *, expect: str | None, is_buffered: bool) -> None:
        self._app = app
        self._key = key
        self._expect = expect
        self._durability: Final = "buffered" if is_buffered else "synced"
        self._number = 0
        self._skipped: str | None = None
        self._warned: set[str] = set()
        self._found: set[str] = set()

    def take_each(self) -> None:
        for lines in _waiting_lines(sys.stdin.fileno()):
            self._take(lines)

    def take_all(self) -> None:
        lines = [line for lines in _waiting_lines(sys.stdin.fileno()) for line in lines]
        records = [record for record in map(self._parse, lines) if record is not None]
        done = self._app.store.append(
            self._key, records, expect=self._expect, durability=self._durability
        )
        self._acknowledge(list(done.ids))

    def _take(self, lines: list[bytes]) -> None:
        """Write a batch of lines; a bad line ends the command once the others are stored."""
        ready: list[Record] = []
        try:
            for line in lines:
                record = self._parse(line)
                if record is not None:
                    ready.append(record)
        finally:
            self._write(ready)

    def _write(self, records: list[Record]) -> None:
        if not records:
            return
        if self._expect is None:
            done = self._app.store.append_each(self._key, records, durability=self._durability)
            self._acknowledge(list(done.ids))
            return
        for record in records:
            done = self._app.store.append(
                self._key, [record], expect=self._expect, durability=self._durability
            )
            self._expect = done.head
            self._acknowledge([done.head])

    def _acknowledge(self, ids: list[str]) -> None:
        for record_id in ids:
            self._app.out.json({"id": record_id})
        sys.stdout.flush()

    def _parse(self, line: bytes) -> Record | None:
        self._number += 1
        record = decode(line)
        if isinstance(record, Flaw):
            raise BadRecord(
                f"line {self._number} is not a record: {record.detail}; it reads {preview(line)!r}",
                hint="the lines before it are stored; fix it and send the rest from this line on",
            )
        if isinstance(record, Header):
            # The first line of an exported session; this session has its own header.
            self._skipped = record.id
            self._app.out.note(f"line {self._number}: skipped the session header")
            return None
        if isinstance(record, Rewind) and record.to == self._skipped:
            record = replace(record, to=self._app.store.header(self._key).id)
        self._warn_of_typo(record)
        self._warn_of_secrets(record)
        return record

    def _warn_of_secrets(self, record: Record) -> None:
        """Warn once of each kind of credential. A bulk load must not wait for that."""
        if self._durability == "buffered":
            return
        for kind, _value in find_secrets(record):
            if kind not in self._found:
                self._found.add(kind)
                self._app.out.warn(
                    f"line {self._number}: the record holds what looks like a credential ({kind}), "
                    "and it is stored as it is; `holdfast erase` deletes a session with its words"
                )

    def _warn_of_typo(self, record: Record) -> None:
        if not isinstance(record, Unknown) or record.kind in self._warned:
            return
        self._warned.add(record.kind)
        close = difflib.get_close_matches(record.kind, list(BY_TYPE), n=1, cutoff=0.75)
        if close:
            self._app.out.warn(
                f"line {self._number}: unknown type `{record.kind}` is stored as it is; "
                f"did you mean `{close[0]}`?"
            )


def _waiting_lines(fd: int) -> Iterator[list[bytes]]:
    """Yield complete lines as they arrive, all that are there at a time."""
    rest = b""
    while chunk := os.read(fd, _CHUNK_BYTES):
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > LINE_BYTES_MAX:
            raise BadRecord(
                f"a line of more than {LINE_BYTES_MAX:,} bytes is too large for a log",
                hint="store large payloads as blobs; the lines before it are stored",
            )
        lines = [line for line in lines if line.strip()]
        if lines:
            yield lines
    if rest.strip():
        yield [rest]
