"""Conversations from a session of the root folder or from any transcript file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec

from holdfast.core.log.replay import with_ids
from holdfast.core.models.messages import Tool, read_tools
from holdfast.core.models.totals import total_of
from holdfast.core.models.window import model_in
from holdfast.core.window import Window
from holdfast.engine.workspace.facts import terms_of_proxy
from holdfast.engine.workspace.request_preview import session_records
from holdfast.errors import NoSuchSession, UsageError
from holdfast.surfaces.cli.command import ResultCommand, WindowOption, option
from holdfast.surfaces.formatting import count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.models.totals import SessionTotals
    from holdfast.importers.common.base import Imported
    from holdfast.surfaces.cli.app import App


class Conversation(msgspec.Struct, frozen=True):
    """A conversation, its system prompt, its tools and its model."""

    name: str
    records: Sequence[Record]
    system: str = ""
    tools: tuple[Tool, ...] = ()
    provider: str = ""
    model: str = ""
    source: str = "session"
    path: str = ""
    """The file it was read from; empty for a session of the store."""
    folder: str = ""
    """The agent's working directory, where the source tells it."""
    label: str = ""
    totals: SessionTotals | None = None
    """The sums over everything, also over branches that `records` do not have."""
    key: SessionKey | None = None
    """The session of the store; None for a file."""

    @property
    def address(self) -> str:
        """Return the name by which other commands find it."""
        return f"{self.path}#{self.name}" if self.path else self.name


def conversation(
    app: App, name: str, *, window: Window | None = None, format_: str | None = None
) -> Conversation:
    """Find the one conversation with this session name or file path."""
    found = conversations(app, name, window=window, format_=format_)
    if len(found) > 1:
        shown = ", ".join(f"`{each.name}`" for each in found[:5])
        raise UsageError(
            f"`{name}` contains {len(found)} conversations: {shown}" + (", …" if found[5:] else ""),
            hint=f"name one of them: {name}#{found[0].name}",
        )
    return found[0]


def conversations(
    app: App,
    name: str,
    *,
    window: Window | None = None,
    format_: str | None = None,
    newest: int | None = None,
) -> list[Conversation]:
    """Find the conversations in a file or folder, or the session with this name."""
    path, _, wanted = name.partition("#")
    if not Path(path).exists():
        return [_of_session(app, name, window)]
    if Path(path).is_dir():
        found = _in_folder(app, path, format_, newest)
    else:
        found = _in_file(app, path, format_)
    return _choose(found, wanted, path) if wanted else found


def _choose(found: list[Conversation], wanted: str, path: str) -> list[Conversation]:
    """Return the conversations of that name, or the one whose name begins so.

    A table cuts long names and marks the cut, so a name can be copied from there.
    """
    exact = [each for each in found if each.name == wanted]
    begun = [each for each in found if each.name.startswith(wanted.removesuffix("…"))]
    if exact or len(begun) == 1:
        return exact or begun
    shown = ", ".join(f"`{each.name}`" for each in (begun or found)[:5])
    more = ", …" if (begun or found)[5:] else ""
    if begun:
        raise UsageError(
            f"`{wanted}` is ambiguous in `{path}`: {shown}{more}", hint="use more of the name"
        )
    raise UsageError(f"no conversation `{wanted}` in `{path}`", hint=f"it has {shown}{more}")


def _in_file(app: App, path: str, format_: str | None) -> list[Conversation]:
    from holdfast.importers import read_transcript
    from holdfast.importers.databases import is_database, read_database
    from holdfast.importers.places import load

    with app.out.busy(f"reading {path}"):
        if not is_database(path):
            return [
                _of_import(each, path) for each in read_transcript(load(path), path, format=format_)
            ]
        kind, rows = read_database(path)
        if damaged := sum(row.damaged for row in rows):
            app.out.note(f"{count(damaged, 'damaged row')} of {path} cannot be read")
        return [
            _of_import(msgspec.structs.replace(each, label=each.label or row.label), path)
            for row in rows
            for each in read_transcript(row.data, f"{row.name}.json", format=kind)
        ]


def _in_folder(app: App, path: str, format_: str | None, newest: int | None) -> list[Conversation]:
    """Read the transcripts in a folder; other files are counted."""
    from holdfast.importers.places import find

    found: list[Conversation] = []
    others = closed = 0
    files = list(find(path))
    if newest is not None:
        files = sorted(files, key=os.path.getmtime, reverse=True)[:newest]
    for file in files:
        if not os.access(file, os.R_OK):
            closed += 1
            continue
        try:
            found += _in_file(app, file, format_)
        except UsageError:
            others += 1
    if closed:
        app.out.warn(f"{path}: {closed:,} of its files or folders may not be read")
    if not others and not closed and not found:
        raise UsageError(f"`{path}` has no files", hint="name a folder with transcripts, or a file")
    if not found:
        raise UsageError(
            f"no transcript among {count(others, 'file')} in `{path}`",
            hint="name a file to see what was found in it",
        )
    if others:
        are = "is not a transcript" if others == 1 else "are not transcripts"
        app.out.note(f"{count(others, 'other file')} in {path} {are}")
    return found


def _of_session(app: App, name: str, window: Window | None) -> Conversation:
    try:
        key = app.session(name)
    except NoSuchSession as error:
        error.hint = f"{error.hint}; there is no file with that name either"
        raise
    with app.out.busy(f"reading {key}"):
        records = session_records(app.store, key, window)
        system, tools = terms_of_proxy(app.store, key, records)
        totals = app.store.totals(key)
    provider, model = model_in(records)
    return Conversation(str(key), records, system, tools, provider, model, totals=totals, key=key)


def _of_import(found: Imported, path: str) -> Conversation:
    records = with_ids(found.records)
    provider, model = model_in(records)
    return Conversation(
        *(found.name, records, found.system, read_tools(found.tools), provider, model),
        source=found.format,
        path=path,
        folder=found.folder,
        label=found.label,
        totals=total_of([*found.records, *found.abandoned]),
    )


class ReadsConversations(ResultCommand, frozen=True, kw_only=True):
    """Reads sessions of the store or transcripts."""

    window: WindowOption = None
    model: Annotated[str | None, option("count and price as for this model", "NAME")] = None
    format: Annotated[
        str | None, option("the format of the files (default: recognised)", "NAME")
    ] = None


def system_and_tools(
    found: Conversation, system_file: str | None, tools_file: str | None
) -> tuple[str, tuple[Tool, ...]]:
    """Read system prompt and tools from the named files, or else from the transcript."""
    system = text_in(system_file) if system_file else found.system
    if not tools_file:
        return system, found.tools
    try:
        tools = read_tools(msgspec.json.decode(text_in(tools_file).encode()))
    except msgspec.DecodeError as error:
        raise UsageError(
            f"`{tools_file}` is not JSON: {error}",
            hint="pass a list of tools in the format of any provider",
        ) from error
    if not tools:
        raise UsageError(
            f"`{tools_file}` names no tool",
            hint="pass a list of objects with `name`, `description` and a schema",
        )
    return system, tools


def text_in(path: str) -> str:
    """Return the text of a file that an option names."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read `{path}`: {error}", hint="pass a UTF-8 text file") from error
