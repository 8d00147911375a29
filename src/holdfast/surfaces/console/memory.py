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
from holdfast.surfaces.console.html import Html, join, tag
from holdfast.surfaces.console.layout import (
    form_route,
    gist,
    long_text,
    moment,
    page,
    page_route,
    row,
    see_other,
    session_path,
    table,
)
from holdfast.surfaces.console.sessions import select
from holdfast.surfaces.formatting import count, size_text
from holdfast.surfaces.http.operations import body_of, operate
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.core.memory.hits import Hit, NeighbourTurn
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
    body: list[object] = [
        tag("h1", "Memory"),
        tag(
            "form",
            tag(
                "label",
                "Search ",
                tag("input", type="search", name="q", value=query.q, id="search"),
            ),
            select("In", "scope", ("all", "notes", "sessions"), query.scope),
            tag(
                "label",
                "Notes of agent ",
                tag("input", name="agent", value=query.agent, size=12, maxlength=ID_CHARS_MAX),
            ),
            tag("button", "Search"),
            method="get",
            action="/memory",
            class_="bar",
            role="search",
        ),
    ]
    if query.citation:
        body.append(_passage(call, query.citation))
    if query.q:
        body.append(_hits(call, query))
    body.append(_files(call))
    if call.client.may("write"):
        body.append(
            tag(
                "form",
                _agent_field(query.agent),
                tag("label", "Note", for_="note"),
                tag(
                    "textarea",
                    id="note",
                    name="text",
                    rows=2,
                    required=True,
                    maxlength=_NOTE,
                ),
                tag("button", "Save the note"),
                method="post",
                action="/memory/notes",
                class_="send",
            )
        )
    return page("Memory", *body, here="/memory")


def _agent_field(agent: str) -> Html:
    return tag("input", type="hidden", name="agent", value=agent)


def _edit_form(agent: str, path: str, text: str) -> Html:
    return tag(
        "form",
        _agent_field(agent),
        tag("input", type="hidden", name="path", value=path),
        tag("input", type="hidden", name="version", value=version_of(text.encode())),
        tag("label", f"Edit {gist(path, 120)}", for_="edit"),
        tag("textarea", f"\n{text}", id="edit", name="text", rows=16),
        tag("button", "Save the file"),
        method="post",
        action="/memory/files",
        class_="send",
    )


def _delete_form(agent: str, path: str, version: str) -> Html:
    return tag(
        "form",
        _agent_field(agent),
        tag("input", type="hidden", name="path", value=path),
        tag("input", type="hidden", name="version", value=version),
        tag("button", "Move the file to the trash", class_="quiet"),
        method="post",
        action="/memory/files/delete",
        class_="inline",
    )


async def edit_notes(call: HttpCall) -> HttpAnswer:
    """Write a file of notes. A browser sends other line ends than it was given."""
    form = call.body
    await operate(WriteNoteFile, call, text=form.text.replace("\r\n", "\n"))
    return see_other(_address(form.agent, form.path))


def _passage(call: HttpCall, citation: str) -> Html:
    agent = call.query.agent
    found = ReadPassage(agent=agent, citation=citation).call(call.workspace)
    text = _source(call, agent, citation) if call.client.may("write") else None
    # A browser sends other line ends than it was given.
    is_short = text is not None and len(text) <= _EDIT_CHARS_MAX and "\r" not in text
    return tag(
        "section",
        tag("h2", gist(citation, 120)),
        long_text(found.text),
        _edit_form(agent, citation, text) if text is not None and is_short else None,
        _delete_form(agent, citation, version_of(text.encode())) if text is not None else None,
    )


def _source(call: HttpCall, agent: str, path: str) -> str | None:
    """Return a file of notes as it is, for an editor. None where it cannot be edited: it is no such
    file, it is no text, or it holds a secret, which is not shown and would be lost."""
    notes = call.workspace.notes(agent)
    if path not in {file.path for file in notes.files()}:
        return None
    try:
        text = notes.data(path).decode()
    except UnicodeDecodeError:
        return None
    return text if call.workspace.mask(text) == text else None


def _hits(call: HttpCall, query: MemoryQuery) -> Html:
    asked = FindPassages(agent=query.agent, query=query.q, scope=query.scope, limit=_HITS)
    found = asked.call(call.workspace)
    shown = [_hit(query.agent, hit) for hit in found.hits]
    return tag(
        "section",
        tag("h2", count(found.count, "passage")),
        tag("p", found.search_notice, class_="dim") if found.search_notice else None,
        tag("ol", *shown, class_="hits") if shown else tag("p", "Nothing was found."),
    )


def _hit(agent: str, hit: Hit) -> Html:
    return tag(
        "li",
        tag("a", gist(hit.citation, 120), href=_address(agent, hit.citation)),
        *[_turn(turn, "Before") for turn in hit.turns_before],
        tag("p", gist(hit.text, 600)),
        *[_turn(turn, "After") for turn in hit.turns_after],
        tag("p", *_origin(hit), class_="dim"),
    )


def _origin(hit: Hit) -> list[object]:
    """Who said it, when, how well it fits, and the way to where it was said."""
    found: list[object] = [gist(hit.role, 60)]
    if hit.ts is not None:
        found += [" · ", moment(hit.ts)]
    found += [f" · score {hit.score:.2f}"]
    if hit.superseded_by:
        found += [f" · superseded by {gist(hit.superseded_by, 120)}"]
    agent, _, session = (hit.session or "").partition("/")
    if is_name(agent) and is_name(session):
        key = SessionKey(agent, session)
        place = f"/records/{quote(hit.record, safe='')}" if hit.record else ""
        label = "its record" if hit.record else f"noted in {key}"
        found += [" · ", tag("a", label, href=session_path(key, place))]
    return found


def _turn(turn: NeighbourTurn, when: str) -> Html:
    return tag("p", f"{when}, {turn.role}: {gist(turn.text, 200)}", class_="dim")


def _back(call: HttpCall) -> str:
    return _address(call.body.agent)


def _address(agent: str, citation: str = "") -> str:
    known = {"citation": citation, "agent": "" if agent == AGENT_DEFAULT else agent}
    given = {name: value for name, value in known.items() if value}
    return f"/memory?{urlencode(given)}"


def _files(call: HttpCall) -> Html:
    files = sorted(
        call.workspace.notes(call.query.agent).files(), key=lambda file: file.path, reverse=True
    )
    if not files:
        return tag("p", "No notes yet. Save one here, or with `holdfast memory add`.")
    rows = [
        row(
            tag("a", gist(file.path, 120), href=_address(call.query.agent, file.path)),
            size_text(file.size),
            numbers=(1,),
        )
        for file in files[:_FILES]
    ]
    return join(table(("file", ">size"), rows, "Files of notes, newest first"))


ROUTES: Final = (
    page_route("GET", "/memory", "Memory", show_memory, query=MemoryQuery, action="list"),
    form_route("/memory/notes", SaveNote, ("agent", "text"), _back),
    page_route("POST", "/memory/files", "Edit a file of notes", edit_notes, body=_EditForm),
    form_route("/memory/files/delete", DeleteNoteFile, ("agent", "path", "version"), _back),
)
