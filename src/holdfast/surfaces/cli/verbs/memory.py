"""`memory`: notes, and the search in them and in past sessions."""

from __future__ import annotations

import re
import sys
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
from msgspec import Meta

from holdfast.core.history.access import OPERATOR, Caller
from holdfast.core.limits import RECALL_LIMIT
from holdfast.core.memory.note_files import MEMORY
from holdfast.core.memory.search_terms import is_common, terms
from holdfast.core.owners import AnyOwner
from holdfast.core.parameters import HitLimit, SearchScope
from holdfast.core.text.cut import cut
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.typed import decode_typed
from holdfast.engine.memory.notes import newest
from holdfast.engine.operations.memory import ReadPassage
from holdfast.engine.redactor import redactor
from holdfast.errors import NoSuchNote, UsageError
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.command import Command, ResultCommand, option, place, takes
from holdfast.surfaces.formatting import count, local_time, without_controls

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.memory.hits import Hit, NeighbourTurn
    from holdfast.core.memory.note_files import Note, NotePassage, SavedNotes
    from holdfast.engine.memory.search import Memory
    from holdfast.ports import Notes
    from holdfast.surfaces.cli.app import App

_SHOWN_CHARS = 400
_TURN_SHOWN_CHARS = 160
"""A hit and a turn beside it as the table shows them; `--json` has them whole."""
_WORD = lazy_pattern(r"\w[\w'’.-]*\w|\w")


def _notes(app: App) -> Notes:
    masks = redactor(app.settings.secrets)
    return app.store.notes(app.settings.agent, app.owner_of_new, redactor=masks)


class _AddNotes(ResultCommand, frozen=True, kw_only=True):
    """Save a note, unless it is already saved."""

    words: Annotated[tuple[str, ...], place("a note (default: one per line of stdin)", "TEXT")] = ()

    def run(self, app: App) -> SavedNotes:
        return _notes(app).append(self.words or [line for line in sys.stdin if line.strip()])

    def show(self, found: SavedNotes, app: App) -> None:
        for note in found.saved:
            app.out.line(f"{note.path}:{note.line}  {note.text}")
        for text in found.known:
            app.out.note(f"already saved: {text}")
        for refusal in found.refused:
            app.out.warn(f"not saved, because {refusal.why}: {refusal.text}")

    def status(self, found: SavedNotes) -> int:
        return 1 if found.refused else 0


class _ListNotes(ResultCommand, frozen=True, kw_only=True):
    """List notes, the newest first."""

    words: Annotated[tuple[str, ...], place("only notes that contain these words", "WORDS")] = ()
    last: Annotated[int | None, Meta(ge=1), option("the newest N", "N")] = None

    def run(self, app: App) -> list[Note]:
        store = _notes(app)
        found = newest(store.notes(), last=self.last, words=" ".join(self.words))
        if not found and not app.out.is_json:
            app.out.note(f"no notes in `{store.location}`; add one with `holdfast memory add TEXT`")
        return [
            msgspec.structs.replace(each, text=store.redactor.text(each.text)) for each in found
        ]

    def show(self, found: list[Note], app: App) -> None:
        app.out.table(
            ("day", "place", "session", "note"),
            (
                (
                    Cell(note.day or "-", "dim"),
                    Cell(f"{note.path}:{note.line}", "name"),
                    Cell(note.session or "-", "dim"),
                    note.text.replace("\n", " "),
                )
                for note in found
            ),
        )


class _ShowNotes(ResultCommand, frozen=True, kw_only=True):
    """Print a file of notes."""

    name: Annotated[str, place("the file", "DAY|MEMORY|PATH")] = ""

    def run(self, app: App) -> NotePassage:
        """Read a day, `MEMORY` or another file; by default `MEMORY`, or the newest day without."""
        store, name = _notes(app), self.name
        known = [file.path for file in store.files()]
        if not name:
            days = [path for path in known if re.fullmatch(r"\d{4}-\d{2}-\d{2}\.md", path)]
            name = MEMORY if MEMORY in known or not days else days[-1]
        path = next((path for path in (name, f"{name}.md") if path in known), None)
        if path is None:
            raise NoSuchNote(name, known)
        app.out.note(f"{store.location}/{path}")
        found = store.read(path, lines=sys.maxsize)
        return msgspec.structs.replace(found, text=store.redactor.text(found.text))

    def show(self, found: NotePassage, app: App) -> None:
        _show_text(found.text, app)


def _show_text(text: str, app: App) -> None:
    for line in text.split("\n"):
        app.out.line(without_controls(line))


class _MemoryQuery(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a file of queries; missing fields are taken from the command line."""

    query: str
    id: str | int | None = None
    scope: SearchScope | None = None
    limit: int | None = None
    before: str | float | None = None


class _OverMemory(ResultCommand, frozen=True, kw_only=True):
    """Works with what is noted and what was said."""

    def open(self, app: App, *, is_embedding: bool = False) -> Memory:
        from holdfast.engine.memory.search import Memory

        settings, caller = app.settings, OPERATOR
        if not isinstance(app.owner, AnyOwner):
            caller = Caller(settings.agent, None, owner=app.owner, visibility="agent")
        name = getattr(self, "embedder", None) or settings.embedder
        return Memory(
            app.store,
            app.store.notes(settings.agent, app.owner_of_new),
            embedder=name if is_embedding else None,
            caller=caller,
            redactor=redactor(settings.secrets),
        )


WordsOnlyOption = Annotated[bool, option("compare words alone, without vectors")]
EmbedderOption = Annotated[
    str | None,
    option(
        "the model for vectors: fastembed, fastembed:NAME, openai:NAME, "
        "openai:NAME@http://host/v1 or off (default: HOLDFAST_EMBEDDER, or off)",
        "NAME",
    ),
]


class _SearchMemory(_OverMemory, frozen=True, kw_only=True):
    """Search notes and past sessions."""

    words: Annotated[tuple[str, ...], place("the words to search for", "QUERY")] = ()
    scope: Annotated[SearchScope, option()] = "all"
    limit: Annotated[HitLimit, option("", "N")] = RECALL_LIMIT
    before: Annotated[
        str | None, option("only older hits: 2026-11-16, with a time, or seconds", "TIME")
    ] = None
    words_only: WordsOnlyOption = False
    embedder: EmbedderOption = None
    queries: Annotated[
        str | None, option("many queries, one JSON value per line (-: stdin)", "FILE")
    ] = None

    def run(self, app: App) -> list[Hit] | None:
        if bool(self.words) == bool(self.queries):
            raise UsageError("the query is missing", hint="pass a QUERY, or --queries FILE")
        hits = None
        with self.open(app, is_embedding=not self.words_only) as memory:
            if self.queries:
                memory.refresh("all")
            for each in _queries(self.queries) if self.queries else ():
                about = {} if each.id is None else {"id": each.id}
                app.out.json({**about, "query": each.query, "hits": self._hits(memory, each)})
            if not self.queries:
                hits = self._hits(memory, _MemoryQuery(" ".join(self.words)))
            if memory.notice:
                app.out.warn(memory.notice)
        return hits

    def _hits(self, memory: Memory, query: _MemoryQuery) -> list[Hit]:
        return memory.search(
            query.query,
            scope=query.scope or self.scope,
            limit=self.limit if query.limit is None else query.limit,
            before=_timestamp(self.before if query.before is None else query.before),
            refresh=not self.queries,
            standing=(query.scope or self.scope) == "all",
        )

    def show(self, found: list[Hit], app: App) -> None:
        for hit in found:
            _show_hit(hit, " ".join(self.words), app)
        if not found:
            scope = self.scope
            more = "" if scope == "all" else "; `--scope all` searches everything"
            app.out.note(f"nothing found in {scope}{more}")


class _GetPassage(_OverMemory, frozen=True, kw_only=True):
    """Print the text at a citation."""

    asked: Annotated[ReadPassage, takes("citation")]

    def run(self, app: App) -> dict[str, str]:
        with self.open(app) as memory:
            citation = self.asked.citation
            return {"citation": citation, "text": memory.get(citation)}

    def show(self, found: dict[str, str], app: App) -> None:
        _show_text(found["text"], app)


class _IndexMemory(_OverMemory, frozen=True, kw_only=True):
    """Update the search index, with vectors."""

    words_only: WordsOnlyOption = False
    embedder: EmbedderOption = None

    def run(self, app: App) -> dict[str, int]:
        """Update it now instead of at the next search. An interruption keeps what is done."""
        with self.open(app, is_embedding=not self.words_only) as memory:
            with app.out.busy("reading new records and notes"):
                memory.refresh("all")
            before = memory.size()
            made = 0 if self.words_only else _embed(memory, before.passages - before.vectors, app)
            sources, passages, vectors = memory.size()
        return {"sources": sources, "passages": passages, "embedded": made, "vectors": vectors}

    def show(self, found: dict[str, int], app: App) -> None:
        sums = f"{count(found['passages'], 'passage')} of {count(found['sources'], 'source')}"
        of_them = "" if self.words_only else f", {found['vectors']:,} with a vector"
        app.out.line(f"{sums}{of_them}; {count(found['embedded'], 'new vector')}")


class MemoryCommand(Command, frozen=True, kw_only=True):
    """Holds the commands on memory."""

    example = """examples:
  holdfast memory add "Releases go out on Tuesdays."
  holdfast memory list --last 10
  holdfast memory show MEMORY
  holdfast memory search "when do we release" --scope all"""
    verbs: ClassVar[dict[str, type[Command]]] = {
        "add": _AddNotes,
        "list": _ListNotes,
        "show": _ShowNotes,
        "search": _SearchMemory,
        "get": _GetPassage,
        "index": _IndexMemory,
    }


def _embed(memory: Memory, missing: int, app: App) -> int:
    """Make the vectors that are missing, and show how far that is."""
    begun = time.monotonic()
    done = 0
    with app.out.progress("creating vectors", missing) as advance:

        def report(made: int) -> None:
            nonlocal done
            seconds = max(time.monotonic() - begun, 1e-3)
            left = timedelta(seconds=round((missing - made) * seconds / made))
            advance(f"creating vectors, {made / seconds:,.1f} a second, {left} left", made - done)
            done = made

        try:
            return memory.embed(report=report)
        except KeyboardInterrupt:
            app.out.note(
                f"stopped after {done:,} of {missing:,}; the next run continues from there"
            )
            raise


def _queries(path: str) -> Iterator[_MemoryQuery]:
    try:
        with sys.stdin if path == "-" else open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _query(line, number)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read queries from `{path}`: {error}") from error


def _query(line: str, number: int) -> _MemoryQuery:
    try:
        found = decode_typed(line, str | _MemoryQuery)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"line {number} is not a query: {error}",
            hint='each line is a JSON string, or {"query": …} with id, scope, limit or before',
        ) from error
    return _MemoryQuery(found) if isinstance(found, str) else found


def _timestamp(given: str | float | None) -> float | None:
    """Parse seconds since 1970 or an ISO date; a date without a zone is local time."""
    if given is None or isinstance(given, int | float):
        return given
    try:
        return float(given)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(given).timestamp()
    except (ValueError, OverflowError) as error:
        shown = cut(given, 40).text
        raise UsageError(
            f"`{shown}` is not a time",
            hint="use a form such as 2026-11-16, 2026-11-16T03:20 or 1794799200",
        ) from error


def _show_hit(hit: Hit, query: str, app: App) -> None:
    later = f"superseded by {hit.superseded_by}" if hit.superseded_by else ""
    later = "standing" if hit.is_standing else later
    about = "  ".join(filter(None, [hit.role, local_time(hit.ts) if hit.ts else "", later]))
    score = Cell(f"{hit.score:.2f}", "strong")
    app.out.line(score, "  ", Cell(hit.citation, "name"), "  ", Cell(about, "dim"))
    text = cut(" ".join(hit.text.split()), _SHOWN_CHARS).text
    for turn in hit.turns_before:
        _show_turn(turn, "before", app)
    app.out.line("      ", *_highlight(text, query))
    for turn in hit.turns_after:
        _show_turn(turn, "after", app)


def _show_turn(turn: NeighbourTurn, when: str, app: App) -> None:
    text = cut(" ".join(turn.text.split()), _TURN_SHOWN_CHARS).text
    app.out.line("      ", Cell(f"{when}, {turn.role}: {text}", "dim"))


def _highlight(text: str, query: str) -> Iterator[Cell]:
    """Colour the words of the query, in any of their forms."""
    wanted = {term for term in terms(query) if not is_common(term)}
    place = 0
    for word in _WORD.finditer(text):
        if not wanted.isdisjoint(terms(word[0])):
            yield Cell(text[place : word.start()])
            yield Cell(word[0], "good")
            place = word.end()
    yield Cell(text[place:])
