"""The command about memory: add, list and show notes; search and get are in memory_search."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING

import msgspec

from holdfast.engine.memory.notes import newest
from holdfast.engine.redactor import redactor
from holdfast.errors import NoSuchNote, UsageError
from holdfast.stores.notes.notes import MEMORY, NoteStore
from holdfast.surfaces.cli.app import App, Command, add_common
from holdfast.surfaces.cli.terminal import Cell, Row
from holdfast.surfaces.cli.verbs import memory_search

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    Verb = tuple[
        str,
        Callable[[argparse.ArgumentParser], None],
        Callable[[argparse.Namespace, App], int],
    ]

_REFUSED = 1
_EXAMPLE = """examples:
  holdfast memory add "Releases go out on Tuesdays."
  holdfast memory list --last 10
  holdfast memory show MEMORY
  holdfast memory search "when do we release" --scope all"""


def _add_memory(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="VERB", dest="verb", required=True)
    for name, (about, add_arguments, run) in _VERBS.items():
        verb = verbs.add_parser(name, help=about, description=about + ".")
        add_common(verb, is_default_set=False)
        verb.add_argument("--owner", metavar="NAME", default="", help="of this owner's notes")
        add_arguments(verb)
        verb.set_defaults(run_verb=run)


def _memory(args: argparse.Namespace, app: App) -> int:
    status: int = args.run_verb(args, app)
    return status


def _store(args: argparse.Namespace, app: App) -> NoteStore:
    settings = app.settings
    return NoteStore(settings.root, settings.agent, args.owner, redactor=redactor(settings.secrets))


def _add_add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="TEXT", nargs="*", help="a note (stdin: one a line)")


def _add(args: argparse.Namespace, app: App) -> int:
    """Each text is a note; without one, each line of stdin."""
    notes = args.words or [line for line in sys.stdin if line.strip()]
    kept = _store(args, app).append(notes)
    if app.out.is_json:
        app.out.json(kept)
    else:
        for note in kept.saved:
            app.out.line(f"{note.path}:{note.line}  {note.text}")
        for text in kept.known:
            app.out.note(f"noted before: {text}")
        for one in kept.refused:
            app.out.warn(f"not noted, because {one.why}: {one.text}")
    return _REFUSED if kept.refused else 0


def _add_list(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("words", metavar="WORDS", nargs="*", help="only notes that hold them")
    parser.add_argument("--last", type=int, metavar="N", help="the newest N")


def _list(args: argparse.Namespace, app: App) -> int:
    """The newest first; with words, those that hold them."""
    if args.last is not None and args.last < 1:
        raise UsageError(f"there are no {args.last} notes to list", hint="give --last 1 or more")
    store = _store(args, app)
    found = newest(store.notes(), last=args.last, words=" ".join(args.words))
    masked = [msgspec.structs.replace(one, text=store.redactor.text(one.text)) for one in found]
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
        app.out.note(f"no notes in `{store.path}`; add one with `holdfast memory add TEXT`")
    return 0


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="DAY|MEMORY|PATH", nargs="?", default="", help="which file")


def _show(args: argparse.Namespace, app: App) -> int:
    """A day, `MEMORY`, or another file; without one, what stays true, else the newest day."""
    store = _store(args, app)
    path = _path(store, args.name)
    passage = store.read(path, lines=sys.maxsize)
    text = store.redactor.text(passage.text)
    if app.out.is_json:
        app.out.json(msgspec.structs.replace(passage, text=text))
        return 0
    app.out.note(f"{store.path}/{path}")
    for line in text.split("\n"):
        # A terminal obeys control characters; what is in a note must not steer it.
        app.out.line("".join(one if one.isprintable() or one == "\t" else "\ufffd" for one in line))
    return 0


def _path(store: NoteStore, name: str) -> str:
    known = [file.path for file in store.files()]
    if not name:
        days = [path for path in known if re.fullmatch(r"\d{4}-\d{2}-\d{2}\.md", path)]
        name = MEMORY if MEMORY in known or not days else days[-1]
    found = next((path for path in (name, f"{name}.md") if path in known), None)
    if found is None:
        raise NoSuchNote(name, known)
    return found


_VERBS: dict[str, Verb] = {
    "add": ("Note something, unless it is noted already", _add_add, _add),
    "list": ("List notes, the newest first", _add_list, _list),
    "show": ("Print a file of notes", _add_show, _show),
    "search": (
        "Find what notes and past sessions say about something",
        memory_search.add_search,
        memory_search.search,
    ),
    "get": ("Print what stands at a citation", memory_search.add_get, memory_search.get),
    "index": (
        "Bring the index of memory up to date, vectors and all",
        memory_search.add_index,
        memory_search.index,
    ),
}
"""What each is for, its arguments, and what it does."""

COMMANDS = (
    Command("memory", "Add, list, show and search notes", _add_memory, _memory, epilog=_EXAMPLE),
)
