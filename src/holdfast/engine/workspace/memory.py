"""The notes of a caller, and the search in them and in the sessions that it may read."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.history.capped_json import largest, listing
from holdfast.core.history.page import NOTICE
from holdfast.core.limits import NOTE_FILE_BYTES_MAX, RECALL_LIMIT
from holdfast.core.log.ids import SessionKey
from holdfast.core.memory.note_files import forges_comments
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.memory.accesses import sessions_of
from holdfast.engine.memory.search import Memory
from holdfast.engine.workspace.base import MAY_READ
from holdfast.errors import HoldfastError, NoteChanged, PathRejected

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.memory.hits import Hit
    from holdfast.core.memory.note_types import NoteFile
    from holdfast.engine.memory.background import VectorWorker
    from holdfast.engine.memory.indexer import Scope
    from holdfast.engine.workspace.base import WorkspaceBase
    from holdfast.ports import Notes
    from holdfast.providers.embeddings import Embedder

_NO_PATH: Final = (
    "that is not the path of a file of notes; give a citation as a search shows it, or the name of "
    "a file such as MEMORY.md"
)
_NO_FILE: Final = "there is no such file of notes"
_CHANGED: Final = "the file was changed meanwhile; read it again"
_TAKEN: Final = "there is such a file already; read it, and send its version"
_OWN: Final = "Allowed: the caller's own notes."
_TURNS: Final = ("turnsBefore", "turnsAfter")
"""The names that replies have for the turns beside a hit, spelled as their other names are."""


class WorkspaceMemory:
    """Searches, reads, adds and edits notes."""

    def __init__(
        self,
        base: WorkspaceBase,
        embedder: Embedder | None = None,
        agent: str = "",
        worker: VectorWorker | None = None,
    ) -> None:
        """Without an `embedder`, searches compare words alone; a `worker` makes the vectors that
        they lack. The notes are those of the caller's agent, or of `agent`."""
        self._base = base
        self._embedder = embedder
        self._worker = worker
        self._agent = agent or base.agent

    def of_agent(self, agent: str) -> WorkspaceMemory:
        """Return the same with the notes of another agent, which are the same owner's. A caller
        that is an agent itself has its own alone."""
        base = self._base
        if agent != self._agent and base.caller.agent:
            raise RequestRefused("forbidden", "these are the notes of another agent")
        return WorkspaceMemory(base, self._embedder, agent, self._worker)

    def files(self) -> list[NoteFile]:
        """The caller's files of notes."""
        return self._notes().files()

    def search(self, query: str, *, scope: Scope = "all", limit: int = RECALL_LIMIT) -> str:
        """The passages of notes and sessions that answer a query, best first."""

        def give() -> GivenReply:
            memory = self._memory(self._embedder)
            hits = memory.search(query, scope=scope, limit=limit)
            reply: Json = {"scope": self._base.scope, "notice": NOTICE}
            if memory.notice:
                reply["searchNotice"] = memory.notice
            text = _reply_with_hits(hits, reply, self._base.cap)
            return GivenReply(text, MAY_READ, hits=len(hits), shown=sessions_of(hits))

        # No words of the query: the audit log outlives what an owner erases.
        return self._base.reply("search", scope, give, field="searched")

    def get(self, citation: str) -> str:
        """The text at a citation of a search, or of a whole file of notes."""

        def give() -> GivenReply:
            try:
                text = self._memory(None).get(citation, max_chars=self._base.cap)
            except PathRejected:
                raise RequestRefused("invalid", _NO_PATH) from None
            reply = {"citation": citation, "notice": NOTICE, "text": text}
            return GivenReply(self._base.encode(reply, "text"), MAY_READ)

        return self._base.reply("read", citation.partition("#")[0], give, field="citation")

    def add(self, text: str) -> str:
        """Save a note for the caller's agent and owner. Text that holds a secret is refused."""

        def give() -> GivenReply:
            session, records = _origin_of(self._base)
            kept = self._notes().append([text], session=session, records=records)
            for refused in kept.refused:
                raise RequestRefused(
                    "invalid", f"the note was not saved, because {refused.why}; leave that out"
                )
            saved = [{"path": note.path, "line": note.line} for note in kept.saved]
            reply = {"saved": saved, "isKnown": bool(kept.known)}
            return GivenReply(self._base.encode(reply), _OWN)

        return self._base.reply("note", "", give, field="text")

    def source(self, path: str) -> str | None:
        """Return a file of the caller's notes as it is, for an editor.

        None where it cannot be edited: it is no such file, it is no text, or it holds a secret,
        which is not shown and would be lost.
        """
        notes = self._notes()
        if path not in {file.path for file in notes.files()}:
            return None
        try:
            text = notes.data(path).decode()
        except UnicodeDecodeError:
            return None
        return text if self._base.redactor.text(text) == text else None

    def edit(self, path: str, before: str, after: str) -> str:
        """Write a file of the caller's notes that still is `before`."""

        def give() -> GivenReply:
            if self.source(path) is None:
                raise RequestRefused("not_found", "there is no such file of notes to edit")
            self._put(path, before.encode(), after)
            return GivenReply(self._base.encode({"path": path}), _OWN)

        return self._base.reply("note", path, give, field="path")

    def file(self, path: str, first_line: int = 1, lines: int = NOTE_FILE_BYTES_MAX) -> str:
        """Return lines of a file of the caller's notes as they are written, and its `version`.

        The reply has as many of them as it has room for, and `nextLine` where the file goes on. A
        file that cannot be edited, because it holds a secret or is no text, has no version.
        """

        def give() -> GivenReply:
            data = self._data(path)
            source = data.decode(errors="replace")
            # The whole file is masked: a page would show a part of a secret that a line breaks.
            text = self._base.redactor.text(source)
            is_editable = text == source and source.encode() == data
            rows = text.removesuffix("\n").split("\n") if text else []
            start = min(first_line - 1, len(rows))
            # A line takes a byte or more: no answer has room for more of them.
            shown = rows[start : start + min(lines, self._base.cap)]
            known: Json = {"path": path, "firstLine": start + 1, "lines": len(rows)}
            known |= {"version": version_of(data) if is_editable else "", "notice": NOTICE}

            def page(count: int) -> Json:
                end = start + count
                more = {"nextLine": end + 1} if end < len(rows) else {}
                return {**known, **more, "text": "\n".join(shown[:count])}

            def fits(count: int) -> bool:
                return not msgspec.json.decode(self._base.encode(page(count), "text"))["truncated"]

            count = max(largest(len(shown), fits), min(1, len(shown)))
            return GivenReply(self._base.encode(page(count), "text"), _OWN)

        return self._base.reply("read", path, give, field="path")

    def write(self, path: str, text: str, version: str = "") -> str:
        """Write a file of the caller's notes that still has this `version`; empty: a new file."""

        def give() -> GivenReply:
            before = None
            if version:
                before = self._data(path)
                _check_version(before, version)
            self._put(path, before, text)
            reply = {"path": path, "version": version_of(text.encode())}
            return GivenReply(self._base.encode(reply), _OWN)

        return self._base.reply("note", path, give, field="path")

    def discard(self, path: str, version: str = "") -> str:
        """Move a file of the caller's notes to the trash, where it has this `version`, or any."""

        def give() -> GivenReply:
            before = self._data(path)
            if version:
                _check_version(before, version)
            kept = self._notes().discard(path)
            return GivenReply(self._base.encode({"path": path, "keptAs": kept}), _OWN)

        return self._base.reply("note", path, give, field="path")

    def _data(self, path: str) -> bytes:
        """Return a file of the caller's notes; folders, links and what is hidden are none."""
        notes = self._notes()
        if notes.kind(path) != "file":  # raises for what cannot be a path of notes
            raise RequestRefused("not_found", _NO_FILE)
        return notes.data(path)

    def _put(self, path: str, before: bytes | None, text: str) -> None:
        """Write a file, if it may be written and still is what it was."""
        old = before.decode(errors="replace") if before is not None else ""
        if len(text.encode()) > NOTE_FILE_BYTES_MAX or "\0" in text:
            raise RequestRefused(
                "invalid", f"a file of notes is a text of at most {NOTE_FILE_BYTES_MAX:,} bytes"
            )
        if forges_comments(old, text):
            raise RequestRefused(
                "invalid",
                "comments that begin with `<!-- hf:` say where a note came from, and only Holdfast "
                "writes them; leave them out",
            )
        if self._base.redactor.text(text) != text:
            raise RequestRefused("invalid", "the text holds a secret; leave that out")
        try:
            self._notes().put(path, before, text.encode())
        except NoteChanged:
            raise RequestRefused("conflict", _CHANGED if before is not None else _TAKEN) from None

    def _notes(self) -> Notes:
        base = self._base
        return base.store.notes(self._agent, base.caller.owner, redactor=base.redactor)

    def _memory(self, embedder: Embedder | None) -> Memory:
        base = self._base
        return Memory(
            base.store,
            self._notes(),
            embedder=embedder,
            redactor=base.redactor,
            caller=base.caller,
            background=self._worker if embedder and self._worker is not None else False,
            is_audited=False,  # the reply is
        )


def _origin_of(base: WorkspaceBase) -> tuple[str, tuple[str, ...]]:
    """Return the caller's own session and its newest record: a note was taken after it."""
    if base.caller.session is None:
        return "", ()
    key = SessionKey(base.agent, base.caller.session)
    try:
        head = base.store.head(key)
    except HoldfastError:  # it is not stored here, or not yet
        return str(key), ()
    return str(key), (head,) if head else ()


def version_of(data: bytes) -> str:
    """Return the name of one state of a file."""
    return sha256(data).hexdigest()


def _check_version(data: bytes, version: str) -> None:
    if version_of(data) != version:
        raise RequestRefused("conflict", _CHANGED)


def _reply_with_hits(hits: Sequence[Hit], reply: Json, cap: int) -> str:
    """The hits in a reply; the turns beside them as long as they take the room of no hit."""
    rows = [_as_row(hit) for hit in hits]
    bare = [{name: row[name] for name in row if name not in _TURNS} for row in rows]

    def encode(whole: int) -> str:
        return listing([*rows[:whole], *bare[whole:]], reply, cap, field="hits")

    def count(whole: int) -> int:
        return int(msgspec.json.decode(encode(whole) or "{}").get("count", 0))

    least = count(0)
    return encode(largest(len(rows), lambda whole: count(whole) >= least))


def _as_row(hit: Hit) -> Json:
    row: Json = msgspec.to_builtins(hit)
    for name, field in zip(("turns_before", "turns_after"), _TURNS, strict=True):
        row[field] = row.pop(name)
    row["supersededBy"] = row.pop("superseded_by")
    return {name: value for name, value in row.items() if value not in (None, [], ())}
