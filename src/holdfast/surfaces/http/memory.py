"""Routes of memory: notes, and the search in notes and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal

import msgspec

from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import (
    Given,
    HttpAnswer,
    HttpQuery,
    JsonBody,
    JsonObject,
    Route,
    text_answer,
)

if TYPE_CHECKING:
    from holdfast.surfaces.http.route import HttpCall


class SearchQuery(HttpQuery, frozen=True):
    """A search."""

    q: Annotated[str, msgspec.Meta(min_length=1, max_length=1_000)]
    scope: Literal["notes", "sessions", "all"] = "all"
    limit: Annotated[int, msgspec.Meta(ge=1, le=50)] = 6


class CitationQuery(HttpQuery, frozen=True):
    """The place to read."""

    citation: Annotated[str, msgspec.Meta(min_length=1, max_length=500)]
    """As a search shows it, or the name of a file of notes."""


class NoteBody(JsonBody, frozen=True):
    """A note to keep."""

    text: Annotated[str, msgspec.Meta(min_length=1, max_length=4_000)]


class NoteFileRow(Given, frozen=True):
    """A file of notes."""

    path: str
    size: int


class NoteFileList(Given, frozen=True):
    """The files of notes."""

    files: list[NoteFileRow]


def _search(call: HttpCall) -> HttpAnswer:
    query: SearchQuery = call.query
    return text_answer(call.workspace.memory.search(query.q, scope=query.scope, limit=query.limit))


def _get(call: HttpCall) -> HttpAnswer:
    try:
        return text_answer(call.workspace.memory.get(call.query.citation))
    except Problem as problem:
        if problem.status != 400:
            raise
        raise Problem(404, problem.detail) from problem


def _files(call: HttpCall) -> HttpAnswer:
    files = [NoteFileRow(file.path, file.size) for file in call.workspace.memory.files()]
    return HttpAnswer(NoteFileList(files))


def _add(call: HttpCall) -> HttpAnswer:
    return text_answer(call.workspace.memory.add(call.body.text), 201)


ROUTES: Final = (
    Route(
        "GET",
        "/v1/memory/search",
        "Search notes and sessions",
        _search,
        JsonObject,
        query=SearchQuery,
    ),
    Route(
        "GET",
        "/v1/memory/passage",
        "Read the text at a citation",
        _get,
        JsonObject,
        query=CitationQuery,
    ),
    Route("GET", "/v1/notes", "List files of notes", _files, NoteFileList, action="list"),
    Route(
        "POST",
        "/v1/notes",
        "Save a note",
        _add,
        JsonObject,
        scope="write",
        body=NoteBody,
        status=201,
    ),
)
