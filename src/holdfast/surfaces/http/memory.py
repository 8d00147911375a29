"""Routes of memory: notes, and the search in notes and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from holdfast.config import AGENT_DEFAULT
from holdfast.core.limits import NOTE_FILE_BYTES_MAX
from holdfast.engine.workspace.memory import (
    DeletedNotes,
    NoteFileList,
    NoteFileText,
    NoteVersion,
    PassageText,
    SavedNote,
    SearchResult,
)
from holdfast.surfaces.http.route import HttpAnswer, HttpInput, HttpQuery, JsonBody, Name, Route

if TYPE_CHECKING:
    from holdfast.engine.workspace.memory import WorkspaceMemory
    from holdfast.surfaces.http.route import HttpCall


NotePath = Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
Version = Annotated[str, msgspec.Meta(max_length=64)]


class NotesOfAgent(HttpInput, frozen=True, kw_only=True):
    """The agent in a request about notes."""

    agent: Name = AGENT_DEFAULT
    """The agent whose notes are meant; each has its own."""


class NotesQuery(HttpQuery, NotesOfAgent, frozen=True, kw_only=True):
    """Parameters of a request about notes."""


class SearchQuery(NotesQuery, frozen=True):
    """A search."""

    q: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    """The words to search for."""
    scope: Literal["notes", "sessions", "all"] = "all"
    """Search notes, sessions or both."""
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 6
    """The largest number of hits."""


class CitationQuery(NotesQuery, frozen=True):
    """The place to read."""

    citation: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    """As a search shows it, or the name of a file of notes."""


class NoteBody(JsonBody, NotesOfAgent, frozen=True):
    """A note to keep."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]
    """The words of the note."""


class NoteFileQuery(NotesQuery, frozen=True):
    """A file of notes, or some of its lines."""

    path: NotePath
    """As the list of files has it, such as `MEMORY.md`."""
    first_line: Annotated[int, msgspec.Meta(ge=1, le=2**31)] = 1
    """The first line to read, counted from 1."""
    lines: Annotated[int, msgspec.Meta(ge=1, le=2**31)] = 2**31
    """At most so many; an answer has as many as it has room for."""


class NotePathQuery(NotesQuery, frozen=True):
    """A file of notes."""

    path: NotePath
    """The path of the file."""


class DeleteNotesQuery(NotesQuery, frozen=True):
    """A file of notes to delete."""

    path: NotePath
    """The path of the file."""
    version: Version = ""
    """Delete it only where it still has this version."""


class NoteFileBody(JsonBody, frozen=True):
    """The whole text of a file of notes."""

    text: Annotated[str, msgspec.Meta(max_length=NOTE_FILE_BYTES_MAX)]
    """The new text."""
    version: Version = ""
    """That the text was made from; empty for a file that does not exist yet."""


class NoteListQuery(NotesQuery, frozen=True):
    """A page of the files of notes."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1_000
    """The largest number of files on the page."""
    after: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    """The last path of the page before."""


def memory_of(call: HttpCall, given: NotesOfAgent) -> WorkspaceMemory:
    """The notes that a request means, and the search in them."""
    return call.workspace.memory.of_agent(given.agent)


def _search(call: HttpCall) -> HttpAnswer:
    """Searches the notes of one agent, and the sessions of all that the client may read."""
    query: SearchQuery = call.query
    return HttpAnswer(memory_of(call, query).search(query.q, scope=query.scope, limit=query.limit))


def _get(call: HttpCall) -> HttpAnswer:
    return HttpAnswer(memory_of(call, call.query).get(call.query.citation))


def _files(call: HttpCall) -> HttpAnswer:
    query: NoteListQuery = call.query
    return HttpAnswer(memory_of(call, query).list_files(query.limit, query.after))


def _read_file(call: HttpCall) -> HttpAnswer:
    """The text is as it is written, with the comments that say where a note came from. Secrets are
    masked."""
    query: NoteFileQuery = call.query
    return HttpAnswer(memory_of(call, query).file(query.path, query.first_line, query.lines))


def _write_file(call: HttpCall) -> HttpAnswer:
    """Text that holds a secret is refused, and so is a version that the file no longer has."""
    body: NoteFileBody = call.body
    memory = memory_of(call, call.query)
    return HttpAnswer(memory.write(call.query.path, body.text, body.version))


def _delete_file(call: HttpCall) -> HttpAnswer:
    """Searches no longer find what was in it."""
    query: DeleteNotesQuery = call.query
    return HttpAnswer(memory_of(call, query).discard(query.path, query.version))


def _add(call: HttpCall) -> HttpAnswer:
    return HttpAnswer(memory_of(call, call.body).add(call.body.text), 201)


ROUTES: Final = (
    Route(
        "GET",
        "/v1/memory/search",
        "Search notes and sessions",
        _search,
        SearchResult,
        query=SearchQuery,
    ),
    Route(
        "GET",
        "/v1/memory/passage",
        "Read the text at a citation",
        _get,
        PassageText,
        query=CitationQuery,
    ),
    Route(
        "GET",
        "/v1/notes",
        "List files of notes",
        _files,
        NoteFileList,
        query=NoteListQuery,
    ),
    Route(
        "GET",
        "/v1/notes/file",
        "Read a file of notes",
        _read_file,
        NoteFileText,
        query=NoteFileQuery,
    ),
    Route(
        "PUT",
        "/v1/notes/file",
        "Write a file of notes",
        _write_file,
        NoteVersion,
        scope="write",
        query=NotePathQuery,
        body=NoteFileBody,
        problems=(409,),
    ),
    Route(
        "DELETE",
        "/v1/notes/file",
        "Move a file of notes to the trash",
        _delete_file,
        DeletedNotes,
        scope="write",
        query=DeleteNotesQuery,
        problems=(409,),
    ),
    Route(
        "POST",
        "/v1/notes",
        "Save a note",
        _add,
        SavedNote,
        scope="write",
        body=NoteBody,
        status=201,
    ),
)
