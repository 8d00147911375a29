"""The verbs that ask memory: memory search, memory get, memory index."""

from __future__ import annotations

import re
import sys
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.history.access import OPERATOR, Caller
from holdfast.core.limits import RECALL_LIMIT
from holdfast.core.memory.search_terms import is_common, terms
from holdfast.core.text.cut import cut
from holdfast.errors import UsageError
from holdfast.surfaces.cli.terminal import paint, when

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from holdfast.core.memory.hits import Hit
    from holdfast.engine.memory.search import Memory
    from holdfast.surfaces.cli.app import App

SCOPES = ("notes", "sessions", "all")
_SHOWN_CHARS = 400
_WORD = re.compile(r"\w[\w'’.-]*\w|\w")
_STDIN = "-"


class Query(msgspec.Struct, forbid_unknown_fields=True):
    """A line of a file of queries; what it leaves out is as on the command line."""

    query: str
    id: str | int | None = None
    scope: str | None = None
    limit: int | None = None
    before: str | float | None = None


def add_search(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="QUERY", nargs="*", help="what is looked for")
    parser.add_argument("--scope", choices=SCOPES, default="notes", help="where (notes)")
    parser.add_argument(
        "--limit", type=int, default=RECALL_LIMIT, metavar="N", help=f"at most ({RECALL_LIMIT})"
    )
    parser.add_argument(
        "--before", metavar="TIME", help="only what is older: 2026-11-16, with a time, or seconds"
    )
    parser.add_argument("--words-only", action="store_true", help="without vectors")
    parser.add_argument(
        "--queries", metavar="FILE", help="many queries, one JSON value a line (-: stdin)"
    )


def search(args: argparse.Namespace, app: App) -> int:
    if bool(args.words) == bool(args.queries):
        raise UsageError("what is to be looked for?", hint="give a QUERY, or --queries FILE")
    with opened(args, app) as memory:
        if args.queries:
            return _many(args, app, memory)
        query = " ".join(args.words)
        hits = memory.search(query, scope=args.scope, limit=args.limit, before=_moment(args.before))
        if memory.notice:
            app.out.warn(memory.notice)
    if app.out.is_json:
        app.out.json(hits)
        return 0
    for hit in hits:
        _show(hit, query, app)
    if not hits:
        more = "" if args.scope == "all" else "; `--scope all` looks everywhere"
        app.out.note(f"nothing found in {args.scope}{more}")
    return 0


def add_get(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("citation", metavar="CITATION", help="as a search shows it")


def get(args: argparse.Namespace, app: App) -> int:
    with opened(args, app) as memory:
        text = memory.get(args.citation)
    if app.out.is_json:
        app.out.json({"citation": args.citation, "text": text})
    else:
        for line in text.split("\n"):
            app.out.line(_tame(line))
    return 0


def add_index(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--words-only", action="store_true", help="make no vectors")


def index(args: argparse.Namespace, app: App) -> int:
    """Bring the index up to date at once, instead of at the next search."""
    with opened(args, app) as memory:
        with app.out.busy("reading what is new"):
            memory.refresh("all")
        with app.out.busy("making vectors"):
            made = memory.embed()
        sources, passages = memory.size()
    if app.out.is_json:
        app.out.json({"sources": sources, "passages": passages, "embedded": made})
    else:
        app.out.line(f"{passages:,} passages of {sources:,} sources; {made:,} new vectors")
    return 0


def opened(args: argparse.Namespace, app: App) -> Memory:
    from holdfast.engine.memory.search import Memory
    from holdfast.engine.redactor import redactor

    settings = app.settings
    caller = OPERATOR
    if args.owner:
        caller = Caller(settings.agent, None, owner=args.owner, visibility="agent")
    return Memory.open(
        settings.root,
        agent=settings.agent,
        owner=args.owner,
        caller=caller,
        redactor=redactor(settings.secrets),
        with_vectors=not getattr(args, "words_only", True),
    )


def _many(args: argparse.Namespace, app: App, memory: Memory) -> int:
    memory.refresh("all")
    for one in _queries(args.queries):
        hits = memory.search(
            one.query,
            scope=one.scope or args.scope,  # type: ignore[arg-type]
            limit=args.limit if one.limit is None else one.limit,
            before=_moment(args.before if one.before is None else one.before),
            refresh=False,
        )
        answer: dict[str, Any] = {} if one.id is None else {"id": one.id}
        app.out.json({**answer, "query": one.query, "hits": hits})
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
        found = msgspec.json.decode(line, type=str | Query)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(
            f"line {number} is no query: {error}",
            hint='each line is a JSON string, or {"query": …} with id, scope, limit or before',
        ) from error
    return Query(found) if isinstance(found, str) else found


def _moment(given: str | float | None) -> float | None:
    """Seconds since 1970 from what a person or a program writes; in local time where it is bare."""
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
            f"`{shown}` is no time", hint="such as 2026-11-16, 2026-11-16T03:20 or 1794799200"
        ) from error


# For people


def _show(hit: Hit, query: str, app: App) -> None:
    about = "  ".join(filter(None, [hit.role, when(hit.ts) if hit.ts else ""]))
    score = paint(f"{hit.score:.2f}", "strong", sys.stdout)
    app.out.line(
        f"{score}  {paint(_tame(hit.citation), 'name', sys.stdout)}  "
        f"{paint(about, 'dim', sys.stdout)}"
    )
    text = cut(" ".join(hit.text.split()), _SHOWN_CHARS).text
    app.out.line(f"      {_highlighted(_tame(text), query)}")


def _highlighted(text: str, query: str) -> str:
    """The words of the query in another tone, in whatever form they stand."""
    wanted = {term for term in terms(query) if not is_common(term)}

    def toned(found: re.Match[str]) -> str:
        is_wanted = not wanted.isdisjoint(terms(found[0]))
        return paint(found[0], "good", sys.stdout) if is_wanted else found[0]

    return _WORD.sub(toned, text)


def _tame(text: str) -> str:
    """A terminal obeys control characters; what is in memory must not steer it."""
    return "".join(one if one.isprintable() or one == "\t" else "\ufffd" for one in text)
