"""The page of memory: files of notes, and the search in notes and sessions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import quote, urlencode

import msgspec

from holdfast.config import AGENT_DEFAULT
from holdfast.core.limits import ID_CHARS_MAX, PATTERN_CHARS_MAX, RECALL_QUERY_CHARS_MAX
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.parameters import NOTE_CHARS_MAX as _NOTE
from holdfast.core.parameters import AgentName
from holdfast.engine.operations.memory import (
    DeleteNoteFile,
    FindPassages,
    ReadPassage,
    SaveNote,
    WriteNoteFile,
    version_of,
)
from holdfast.surfaces.console.layout import (
    form_route,
    page_route,
    see_other,
    session_path,
    show,
)
from holdfast.surfaces.http.operations import body_of, operate
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.core.memory.hits import Hit
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_HITS: Final = 12
"""Passages that a search shows."""
_EDIT_CHARS_MAX: Final = 8_000
"""Characters of a file that can be edited here: it is on the page three times."""
_FILES: Final = 200
"""Files of notes in the list."""


class MemoryQuery(HttpQuery, frozen=True):
    """A search, or a place to read."""

    agent: AgentName = AGENT_DEFAULT
    q: Annotated[str, msgspec.Meta(max_length=RECALL_QUERY_CHARS_MAX)] = ""
    scope: Literal["all", "notes", "sessions"] = "all"
    citation: Annotated[str, msgspec.Meta(max_length=PATTERN_CHARS_MAX)] = ""


_EditForm: Final = body_of(WriteNoteFile, ("agent", "path", "text", "version"))


def show_memory(call: HttpCall) -> HttpAnswer:
    """Notes, and what a search finds."""
    query: MemoryQuery = call.query
    agent, citation = query.agent, query.citation
    passage = ReadPassage(agent=agent, citation=citation).call(call.workspace) if citation else None
    source = _source(call, agent, citation) if citation and call.client.may("write") else None
    asked = FindPassages(agent=agent, query=query.q, scope=query.scope, limit=_HITS)
    files = call.workspace.notes(agent).files()
    newest_first = sorted(files, key=lambda file: file.path, reverse=True)
    return show(
        call,
        "memory.html",
        "Memory",
        here="/memory",
        query=query,
        passage=passage.text if passage is not None else "",
        source=source,
        version=version_of(source.encode()) if source is not None else "",
        # A browser sends other line ends than it was given.
        is_editable=source is not None and len(source) <= _EDIT_CHARS_MAX and "\r" not in source,
        found=asked.call(call.workspace) if query.q else None,
        files=newest_first[:_FILES],
        address=_address,
        origin_of=_origin,
        id_chars_max=ID_CHARS_MAX,
        note_chars_max=_NOTE,
    )


async def edit_notes(call: HttpCall) -> HttpAnswer:
    """Write a file of notes. A browser sends other line ends than it was given."""
    form = call.body
    await operate(WriteNoteFile, call, text=form.text.replace("\r\n", "\n"))
    return see_other(_address(form.agent, form.path))


def _source(call: HttpCall, agent: str, path: str) -> str | None:
    """Return a file of notes as it is, for an editor. None where it cannot be edited: it is no such
    file, it is not text, or it holds a secret, which is not shown and would be lost."""
    notes = call.workspace.notes(agent)
    if path not in {file.path for file in notes.files()}:
        return None
    try:
        text = notes.data(path).decode()
    except UnicodeDecodeError:
        return None
    return text if call.workspace.mask(text) == text else None


def _origin(hit: Hit) -> tuple[str, str] | None:
    """The way to where a passage was said, and its name."""
    agent, _, session = (hit.session or "").partition("/")
    if not (is_name(agent) and is_name(session)):
        return None
    key = SessionKey(agent, session)
    place = f"/records/{quote(hit.record, safe='')}" if hit.record else ""
    return session_path(key, place), "its record" if hit.record else f"noted in {key}"


def _back(call: HttpCall) -> str:
    return _address(call.body.agent)


def _address(agent: str, citation: str = "") -> str:
    known = {"citation": citation, "agent": "" if agent == AGENT_DEFAULT else agent}
    given = {name: value for name, value in known.items() if value}
    return f"/memory?{urlencode(given)}"


ROUTES: Final = (
    page_route("GET", "/memory", "Memory", show_memory, query=MemoryQuery, action="list"),
    form_route("/memory/notes", SaveNote, ("agent", "text"), _back),
    page_route("POST", "/memory/files", "Edit a file of notes", edit_notes, body=_EditForm),
    form_route("/memory/files/delete", DeleteNoteFile, ("agent", "path", "version"), _back),
)
