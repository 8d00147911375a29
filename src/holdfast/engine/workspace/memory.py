"""The notes of a caller, and the search in them and in the sessions that it may read."""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING, Final

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from holdfast.core.history.answers import Result
from holdfast.core.history.capped_json import fit
from holdfast.core.history.page import NOTICE
from holdfast.core.limits import NOTE_FILE_BYTES_MAX, RECALL_LIMIT
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.memory.hits import Hit  # noqa: TC001 - the schema of an answer needs it
from holdfast.core.memory.note_files import forges_comments
from holdfast.core.text.cut import cut
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused, sentence_of
from holdfast.engine.memory.accesses import sessions_of
from holdfast.engine.memory.search import Memory
from holdfast.engine.workspace.base import MAY_READ
from holdfast.errors import HoldfastError, NoteChanged, PathRejected, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

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


class SearchResult(Result, frozen=True, kw_only=True):
    """The passages of notes and sessions that answer a query, best first."""

    search_notice: str | UnsetType = UNSET
    """Words about the search itself, such as vectors that are not made yet."""
    hits: list[Hit]
    """The passages, and where each stands."""
    count: int
    """Number of passages."""
    omitted_count: int
    """Number of passages that had no room."""
    truncated: bool
    """True where any had no room."""
    notice: str = NOTICE
    """A warning to a model: this is data."""


class PassageText(Result, frozen=True, kw_only=True):
    """The text at a citation."""

    citation: str
    """The citation."""
    notice: str = NOTICE
    """A warning to a model: this is data."""
    text: str
    """The text, with secrets masked."""
    truncated: bool = False
    """True where the text had no room as a whole."""


class NotePlace(Result, frozen=True):
    """The place of a note."""

    path: str
    """Its file."""
    line: int
    """Its line."""


class SavedNote(Result, frozen=True):
    """A note that was saved, unless it is known."""

    saved: list[NotePlace]
    """The place where it stands now."""
    is_known: bool
    """True where it is there already."""


class NoteFileRow(Result, frozen=True):
    """A file of notes in the list."""

    path: str
    """The path of the file."""
    size: int
    """The size of the file in bytes."""


class NoteFileList(Result, frozen=True):
    """Files of notes, by path."""

    files: list[NoteFileRow]
    """The files of this page."""
    next_after: str | None
    """The `after` of the next page; null at the end."""


class NoteFileText(Result, frozen=True, kw_only=True):
    """Lines of a file of notes, as they are written."""

    path: str
    """The path of the file."""
    first_line: int
    """The number of the first line of `text`."""
    lines: int
    """Of the whole file."""
    version: str
    """To be sent with a change; empty where the file holds a secret or is no text."""
    notice: str = NOTICE
    """A warning to a model: this is data."""
    next_line: int | None
    """Read on here; null at the end."""
    text: str
    """The lines."""
    truncated: bool = False
    """True where a single line did not fit."""


class NoteVersion(Result, frozen=True):
    """A file of notes that was written."""

    path: str
    """The path of the file."""
    version: str
    """The version that it has now."""


class DeletedNotes(Result, frozen=True):
    """A file of notes that was moved to the trash."""

    path: str
    """The path that the file had."""
    kept_as: str
    """Its path in the trash, from which the operator can bring it back."""


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
        if not is_name(agent):
            raise RequestRefused(
                "invalid",
                f"`{cut(agent, 40).text}` is no agent: a name has letters, digits, `_` and `-`, "
                "and begins with a letter or digit",
            )
        if agent != self._agent and base.caller.agent:
            raise RequestRefused("forbidden", "these are the notes of another agent")
        return WorkspaceMemory(base, self._embedder, agent, self._worker)

    def list_files(self, limit: int, after: str) -> NoteFileList:
        """A page of the caller's files of notes, by path."""

        def give() -> GivenReply[NoteFileList]:
            every = sorted((file.path, file.size) for file in self.files())
            rows = [NoteFileRow(path=path, size=size) for path, size in every if path > after]
            more = rows[limit - 1].path if len(rows) > limit else None
            return GivenReply(NoteFileList(files=rows[:limit], next_after=more), _OWN)

        return self._base.audit("list", "", give)

    def files(self) -> list[NoteFile]:
        """The caller's files of notes."""
        return self._notes().files()

    def search(
        self, query: str, *, scope: Scope = "all", limit: int = RECALL_LIMIT
    ) -> SearchResult:
        """The passages of notes and sessions that answer a query, best first."""

        def give() -> GivenReply[SearchResult]:
            memory = self._memory(self._embedder)
            hits = memory.search(query, scope=scope, limit=limit)
            answer = _fit_hits(hits, memory.notice, self._base.cap)
            return GivenReply(answer, MAY_READ, hits=len(hits), shown=sessions_of(hits))

        # No words of the query: the audit log outlives what an owner erases.
        return self._base.audit("search", scope, give)

    def get(self, citation: str) -> PassageText:
        """The text at a citation of a search, or of a whole file of notes."""

        def give() -> GivenReply[PassageText]:
            try:
                text = self._memory(None).get(citation, max_chars=self._base.cap)
            except PathRejected:
                raise RequestRefused("not_found", _NO_PATH) from None
            except UsageError as error:
                raise RequestRefused("not_found", sentence_of(error)) from error
            answer = PassageText(citation=citation, text=text)
            return GivenReply(self._base.fit(answer, "text"), MAY_READ)

        return self._base.audit("read", citation.partition("#")[0], give)

    def add(self, text: str) -> SavedNote:
        """Save a note for the caller's agent and owner. Text that holds a secret is refused."""

        def give() -> GivenReply[SavedNote]:
            session, records = _origin_of(self._base)
            kept = self._notes().append([text], session=session, records=records)
            for refused in kept.refused:
                raise RequestRefused(
                    "invalid", f"the note was not saved, because {refused.why}; leave that out"
                )
            saved = [NotePlace(path=note.path, line=note.line) for note in kept.saved]
            return GivenReply(SavedNote(saved=saved, is_known=bool(kept.known)), _OWN)

        return self._base.audit("note", "", give)

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

    def file(
        self, path: str, first_line: int = 1, lines: int = NOTE_FILE_BYTES_MAX
    ) -> NoteFileText:
        """Return lines of a file of the caller's notes as they are written, and its `version`.

        The answer has as many of them as it has room for, and `next_line` where the file goes on.
        A file that cannot be edited, because it holds a secret or is no text, has no version.
        """

        def give() -> GivenReply[NoteFileText]:
            data = self._data(path)
            source = data.decode(errors="replace")
            # The whole file is masked: a page would show a part of a secret that a line breaks.
            text = self._base.redactor.text(source)
            is_editable = text == source and source.encode() == data
            rows = text.removesuffix("\n").split("\n") if text else []
            start = min(first_line - 1, len(rows))
            # A line takes a byte or more: no answer has room for more of them.
            shown = rows[start : start + min(lines, self._base.cap)]

            def page(count: int) -> NoteFileText:
                end = start + count
                return NoteFileText(
                    path=path,
                    first_line=start + 1,
                    lines=len(rows),
                    version=version_of(data) if is_editable else "",
                    next_line=end + 1 if end < len(rows) else None,
                    text="\n".join(shown[:count]),
                )

            found = fit(page, len(shown), self._base.cap)
            if shown and found.next_line == start + 1:  # a single line has no room
                found = self._base.fit(page(1), "text")
            return GivenReply(found, _OWN)

        return self._base.audit("read", path, give)

    def write(self, path: str, text: str, version: str = "") -> NoteVersion:
        """Write a file of the caller's notes that still has this `version`; empty: a new file."""

        def give() -> GivenReply[NoteVersion]:
            before = None
            if version:
                before = self._data(path)
                _check_version(before, version)
            return GivenReply(self._put(path, before, text), _OWN)

        return self._base.audit("note", path, give)

    def discard(self, path: str, version: str = "") -> DeletedNotes:
        """Move a file of the caller's notes to the trash, where it has this `version`, or any."""

        def give() -> GivenReply[DeletedNotes]:
            before = self._data(path)
            if version:
                _check_version(before, version)
            kept = self._notes().discard(path)
            return GivenReply(DeletedNotes(path=path, kept_as=kept), _OWN)

        return self._base.audit("note", path, give)

    def _data(self, path: str) -> bytes:
        """Return a file of the caller's notes; folders, links and what is hidden are none."""
        notes = self._notes()
        if notes.kind(path) != "file":  # raises for what cannot be a path of notes
            raise RequestRefused("not_found", _NO_FILE)
        return notes.data(path)

    def _put(self, path: str, before: bytes | None, text: str) -> NoteVersion:
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
        return NoteVersion(path=path, version=version_of(text.encode()))

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


def _fit_hits(hits: Sequence[Hit], notice: str, cap: int) -> SearchResult:
    """The hits that fit; the turns beside them as long as they take the room of no hit."""
    bare = [replace(hit, turns_before=(), turns_after=()) for hit in hits]

    def make(count: int, whole: int = 0) -> SearchResult:
        left = len(hits) - count
        return SearchResult(
            search_notice=notice or UNSET,
            hits=[*hits[:whole], *bare[whole:]][:count],
            count=count,
            omitted_count=left,
            truncated=left > 0,
        )

    least = fit(make, len(hits), cap)
    return fit(lambda whole: make(least.count, whole), least.count, cap)
