"""What a command about a conversation works on: a session of the root, or any transcript file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.log.records import Assistant, Header, Model, Record
from holdfast.core.log.refs import restored
from holdfast.core.log.replay import with_ids
from holdfast.core.models.catalog import family_of, window_of
from holdfast.core.models.messages import Tool, read_tools
from holdfast.core.models.window import Window
from holdfast.engine.outputs import payload_of
from holdfast.errors import NoSuchSession, UsageError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from holdfast.importers import Imported
    from holdfast.surfaces.cli.app import App


class Conversation(msgspec.Struct, frozen=True):
    """A conversation and what is known around it."""

    name: str
    records: Sequence[Record]
    system: str = ""
    tools: tuple[Tool, ...] = ()
    provider: str = ""
    model: str = ""
    source: str = "session"


def conversation(app: App, name: str, *, window: int | None = None) -> Conversation:
    """The one conversation meant by a session's name or a file's path."""
    found = conversations(app, name, window=window)
    if len(found) > 1:
        shown = ", ".join(f"`{one.name}`" for one in found[:5])
        raise UsageError(
            f"`{name}` holds {len(found)} conversations: {shown}" + (", …" if found[5:] else ""),
            hint=f"name one of them: {name}#{found[0].name}",
        )
    return found[0]


def conversations(app: App, name: str, *, window: int | None = None) -> list[Conversation]:
    """The conversations in a file or a folder, or the one session by that name."""
    path, _, wanted = name.partition("#")
    if not Path(path).exists():
        return [_of_session(app, name, window)]
    found = _in_folder(app, path) if Path(path).is_dir() else _in_file(app, path)
    chosen = [one for one in found if not wanted or one.name == wanted]
    if not chosen and wanted:
        raise NoSuchSession(wanted, [one.name for one in found])
    return [_of_import(one) for one in chosen]


def _in_file(app: App, path: str) -> list[Imported]:
    from holdfast.importers import read
    from holdfast.importers.files import load

    with app.out.busy(f"reading {path}"):
        return read(load(path), path)


def _in_folder(app: App, path: str) -> list[Imported]:
    """What is a transcript among the files of a folder; what is none is counted."""
    from holdfast.importers.files import find

    found: list[Imported] = []
    others = 0
    for file in find(path):
        try:
            found += _in_file(app, file)
        except UsageError:
            others += 1
    if not found:
        raise UsageError(
            f"no transcript is recognised among {others} files in `{path}`",
            hint="name a file to be told what was found in it",
        )
    if others:
        app.out.note(f"{others} other files in {path} are no transcripts")
    return found


def _of_session(app: App, name: str, window: int | None) -> Conversation:
    try:
        key = app.session(name)
    except NoSuchSession as error:
        error.hint = f"{error.hint}; there is no file by that name either"
        raise
    with app.out.busy(f"reading {key}"):
        found = (
            app.store.read(key) if window is None else app.store.live(key, window=window).records
        )
        records = [
            restored(one, payload_of(app.blobs)) for one in found if not isinstance(one, Header)
        ]
    provider, model = _model_in(records)
    return Conversation(str(key), records, provider=provider, model=model)


def _of_import(found: Imported) -> Conversation:
    records = with_ids(found.records)
    provider, model = _model_in(records)
    return Conversation(
        found.name, records, found.system, read_tools(found.tools), provider, model, found.format
    )


def _model_in(records: Sequence[Record]) -> tuple[str, str]:
    """The provider and model that answered last, or that were chosen since."""
    for record in reversed(records):
        if isinstance(record, Assistant | Model) and record.model and record.model[0] != "<":
            return record.provider or "", record.model
    return "", ""


def window_from(args: argparse.Namespace, model: str) -> Window:
    """The window that was asked for, else what is known of the model."""
    if args.window is not None:
        return Window(args.window, "--window", "stated")
    return window_of(model)


def default_dialect(model: str) -> str:
    family = family_of(model)
    return family.dialect if family is not None else "anthropic"


def add_window(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--window", type=int, metavar="N", help="the model's context window in tokens"
    )
    parser.add_argument("--model", metavar="NAME", help="count and price as for this model")


def system_and_tools(args: argparse.Namespace, found: Conversation) -> tuple[str, tuple[Tool, ...]]:
    """From the files that were named, else from the transcript."""
    system = _text_in(args.system) if args.system else found.system
    if not args.tools:
        return system, found.tools
    try:
        tools = read_tools(msgspec.json.decode(_text_in(args.tools).encode()))
    except msgspec.DecodeError as error:
        raise UsageError(
            f"`{args.tools}` is not JSON: {error}",
            hint="give a list of tools in the shape of any provider",
        ) from error
    if not tools:
        raise UsageError(
            f"`{args.tools}` names no tool",
            hint="give a list of objects with `name`, `description` and a schema",
        )
    return system, tools


def _text_in(path: str) -> str:
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read `{path}`: {error}", hint="give a text file") from error
