"""`memory search`, `memory get` and `memory index`."""

from __future__ import annotations

import sys
import time
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.history.access import OPERATOR, Caller
from holdfast.core.limits import RECALL_LIMIT
from holdfast.core.memory.search_terms import is_common, terms
from holdfast.core.owners import AnyOwner
from holdfast.core.text.cut import cut
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.typed import decode_typed
from holdfast.errors import UsageError
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.formatting import count, local_time, without_controls

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from holdfast.core.memory.hits import Hit, NeighbourTurn
    from holdfast.engine.memory.search import Memory
    from holdfast.surfaces.cli.app import App

SCOPES = ("notes", "sessions", "all")
_SHOWN_CHARS = 400
_TURN_SHOWN_CHARS = 160
"""A hit and a turn beside it as the table shows them; `--json` has them whole."""
_WORD = lazy_pattern(r"\w[\w'’.-]*\w|\w")
_STDIN = "-"


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a file of queries; missing fields are taken from the command line."""

    query: str
    id: str | int | None = None
    scope: str | None = None
    limit: int | None = None
    before: str | float | None = None


def add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="QUERY", nargs="*", help="the words to search for")
    parser.add_argument(
        "--scope", choices=SCOPES, default="all", help="what to search (default: all)"
    )
    parser.add_argument(
        "--limit",
        type=int,
        default=RECALL_LIMIT,
        metavar="N",
        help=f"at most N hits ({RECALL_LIMIT})",
    )
    parser.add_argument(
        "--before", metavar="TIME", help="only older hits: 2026-11-16, with a time, or seconds"
    )
    _add_vectors(parser, "do not use vectors")
    parser.add_argument(
        "--queries", metavar="FILE", help="many queries, one JSON value per line (-: stdin)"
    )


def search(args: argparse.Namespace, app: App) -> int:
    if bool(args.words) == bool(args.queries):
        raise UsageError("the query is missing", hint="pass a QUERY, or --queries FILE")
    with open_memory(args, app) as memory:
        if args.queries:
            return _search_many(args, app, memory)
        query = " ".join(args.words)
        hits = memory.search(
            query, scope=args.scope, limit=args.limit, before=_timestamp(args.before)
        )
        if memory.notice:
            app.out.warn(memory.notice)
    if app.out.is_json:
        app.out.json(hits)
        return 0
    for hit in hits:
        _show(hit, query, app)
    if not hits:
        more = "" if args.scope == "all" else "; `--scope all` searches everything"
        app.out.note(f"nothing found in {args.scope}{more}")
    return 0


def add_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("citation", metavar="CITATION", help="a citation from a search")


def get(args: argparse.Namespace, app: App) -> int:
    with open_memory(args, app) as memory:
        text = memory.get(args.citation)
    if app.out.is_json:
        app.out.json({"citation": args.citation, "text": text})
    else:
        for line in text.split("\n"):
            app.out.line(without_controls(line))
    return 0


def add_index(parser: argparse.ArgumentParser) -> None:
    _add_vectors(parser, "do not create vectors")


def _add_vectors(parser: argparse.ArgumentParser, without: str) -> None:
    parser.add_argument("--words-only", action="store_true", help=without)
    parser.add_argument(
        "--embedder",
        metavar="NAME",
        help="the model for vectors: minilm, openai:NAME, openai:NAME@http://host/v1 or off "
        "(default: HOLDFAST_EMBEDDER, or minilm where it is installed)",
    )


def index(args: argparse.Namespace, app: App) -> int:
    """Update the index now instead of at the next search. An interruption keeps what is done."""
    with open_memory(args, app) as memory:
        with app.out.busy("reading new records and notes"):
            memory.refresh("all")
        before = memory.size()
        made = 0 if args.words_only else _embed(memory, before.passages - before.vectors, app)
        sources, passages, vectors = memory.size()
    if app.out.is_json:
        counts = {"sources": sources, "passages": passages, "embedded": made, "vectors": vectors}
        app.out.json(counts)
    else:
        of_them = "" if args.words_only else f", {vectors:,} with a vector"
        app.out.line(
            f"{count(passages, 'passage')} of {count(sources, 'source')}{of_them}; "
            f"{count(made, 'new vector')}"
        )
    return 0


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
            app.out.note(f"stopped after {done:,} of {missing:,}; the next time goes on there")
            raise


def open_memory(args: argparse.Namespace, app: App) -> Memory:
    from holdfast.engine.memory.search import Memory
    from holdfast.engine.redactor import redactor

    settings = app.settings
    caller = OPERATOR
    if not isinstance(app.owner, AnyOwner):
        caller = Caller(settings.agent, None, owner=app.owner, visibility="agent")
    words_only = getattr(args, "words_only", True)
    return Memory(
        app.store,
        app.store.notes(settings.agent, app.owner_of_new),
        embedder=None if words_only else args.embedder or settings.embedder,
        caller=caller,
        redactor=redactor(settings.secrets),
    )


def _search_many(args: argparse.Namespace, app: App, memory: Memory) -> int:
    memory.refresh("all")
    for query in _queries(args.queries):
        hits = memory.search(
            query.query,
            scope=query.scope or args.scope,  # type: ignore[arg-type]
            limit=args.limit if query.limit is None else query.limit,
            before=_timestamp(args.before if query.before is None else query.before),
            refresh=False,
        )
        answer: dict[str, Any] = {} if query.id is None else {"id": query.id}
        app.out.json({**answer, "query": query.query, "hits": hits})
    if memory.notice:
        app.out.warn(memory.notice)
    return 0


def _queries(path: str) -> Iterator[Query]:
    try:
        with sys.stdin if path == _STDIN else open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _query(line, number)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read queries from `{path}`: {error}") from error


def _query(line: str, number: int) -> Query:
    try:
        found = decode_typed(line, str | Query)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"line {number} is not a query: {error}",
            hint='each line is a JSON string, or {"query": …} with id, scope, limit or before',
        ) from error
    return Query(found) if isinstance(found, str) else found


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


# For people


def _show(hit: Hit, query: str, app: App) -> None:
    later = f"superseded by {hit.superseded_by}" if hit.superseded_by else ""
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
