"""`memory`: add, list and show notes. Its search commands are in memory_search."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.memory.note_files import MEMORY
from holdfast.engine.memory.notes import newest
from holdfast.engine.redactor import redactor
from holdfast.errors import NoSuchNote, UsageError
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.app import App, Verb, add_common
from holdfast.surfaces.cli.verbs import memory_search
from holdfast.surfaces.formatting import without_controls

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from holdfast.ports import Notes

    _Subcommand = tuple[
        str,
        Callable[[argparse.ArgumentParser], None],
        Callable[[argparse.Namespace, App], int],
    ]

_REFUSED = 1
"""The exit code when a note was refused, for example because it holds a secret."""
_EXAMPLE = """examples:
  holdfast memory add "Releases go out on Tuesdays."
  holdfast memory list --last 10
  holdfast memory show MEMORY
  holdfast memory search "when do we release" --scope all"""


def _add_memory(parser: argparse.ArgumentParser) -> None:
    subparsers = parser.add_subparsers(metavar="VERB", dest="subcommand", required=True)
    for name, (help_, add_arguments, run) in _SUBCOMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_, description=help_ + ".")
        add_common(subparser, is_default_set=False)
        add_arguments(subparser)
        subparser.set_defaults(run_subcommand=run)


def _memory(args: argparse.Namespace, app: App) -> int:
    status: int = args.run_subcommand(args, app)
    return status


def _store(app: App) -> Notes:
    settings = app.settings
    owner = app.owner_of_new
    return app.store.notes(settings.agent, owner, redactor=redactor(settings.secrets))


def _add_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", metavar="TEXT", nargs="*", help="a note (default: one per line of stdin)"
    )


def _add(args: argparse.Namespace, app: App) -> int:
    """Save each argument, or each line of stdin, as a note."""
    notes = args.words or [line for line in sys.stdin if line.strip()]
    kept = _store(app).append(notes)
    if app.out.is_json:
        app.out.json(kept)
    else:
        for note in kept.saved:
            app.out.line(f"{note.path}:{note.line}  {note.text}")
        for text in kept.known:
            app.out.note(f"already saved: {text}")
        for refusal in kept.refused:
            app.out.warn(f"not saved, because {refusal.why}: {refusal.text}")
    return _REFUSED if kept.refused else 0


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "words", metavar="WORDS", nargs="*", help="only notes that contain these words"
    )
    parser.add_argument("--last", type=int, metavar="N", help="the newest N")


def _list(args: argparse.Namespace, app: App) -> int:
    """List notes, the newest first; with words, only those that contain them."""
    if args.last is not None and args.last < 1:
        raise UsageError(f"cannot list {args.last} notes", hint="pass --last 1 or more")
    store = _store(app)
    found = newest(store.notes(), last=args.last, words=" ".join(args.words))
    masked = [msgspec.structs.replace(note, text=store.redactor.text(note.text)) for note in found]
    if app.out.is_json:
        app.out.json(masked)
        return 0
    rows: list[Row] = [
        [
            Cell(note.day or "-", "dim"),
            Cell(f"{note.path}:{note.line}", "name"),
            Cell(note.session or "-", "dim"),
            note.text.replace("\n", " "),
        ]
        for note in masked
    ]
    if rows:
        app.out.table(("day", "place", "session", "note"), rows)
    else:
        app.out.note(f"no notes in `{store.location}`; add one with `holdfast memory add TEXT`")
    return 0


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="DAY|MEMORY|PATH", nargs="?", default="", help="the file")


def _show(args: argparse.Namespace, app: App) -> int:
    """Print a day, `MEMORY` or another file; by default `MEMORY`, or the newest day without it."""
    store = _store(app)
    path = _path(store, args.name)
    passage = store.read(path, lines=sys.maxsize)
    text = store.redactor.text(passage.text)
    if app.out.is_json:
        app.out.json(msgspec.structs.replace(passage, text=text))
        return 0
    app.out.note(f"{store.location}/{path}")
    for line in text.split("\n"):
        app.out.line(without_controls(line))
    return 0


def _path(store: Notes, name: str) -> str:
    known = [file.path for file in store.files()]
    if not name:
        days = [path for path in known if re.fullmatch(r"\d{4}-\d{2}-\d{2}\.md", path)]
        name = MEMORY if MEMORY in known or not days else days[-1]
    found = next((path for path in (name, f"{name}.md") if path in known), None)
    if found is None:
        raise NoSuchNote(name, known)
    return found


_SUBCOMMANDS: dict[str, _Subcommand] = {
    "add": ("Save a note, unless it is already saved", _add_add, _add),
    "list": ("List notes, the newest first", _add_list, _list),
    "show": ("Print a file of notes", _add_show, _show),
    "search": (
        "Search notes and past sessions",
        memory_search.add_search,
        memory_search.search,
    ),
    "get": ("Print the text at a citation", memory_search.add_get, memory_search.get),
    "index": (
        "Update the search index, with vectors",
        memory_search.add_index,
        memory_search.index,
    ),
}
"""Help, arguments and action of each subcommand."""

VERBS = {
    "memory": Verb(_add_memory, _memory, _EXAMPLE),
}
