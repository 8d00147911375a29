"""`log`, `show` and `rewind`: the records of a session."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.core.log import listing
from holdfast.core.log.listing import title_of
from holdfast.core.log.records import (
    Assistant,
    CallFailure,
    Compaction,
    Header,
    InjectedContext,
    Label,
    ModelChange,
    Record,
    Rewind,
    ToolResult,
    ToolUse,
    Unknown,
    User,
    encode,
    text_of,
    to_json,
    tool_calls,
    words_of_unknown,
)
from holdfast.core.log.views import LogEntry
from holdfast.core.parameters import NewHead, RecordToRead, TurnCount
from holdfast.errors import AmbiguousName, NoSuchRecord, UsageError
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.command import (
    RawOption,
    ResultCommand,
    SessionPlace,
    option,
    pick,
    place,
)
from holdfast.surfaces.cli.conversations import conversations
from holdfast.surfaces.formatting import Tone, local_time

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.tree import Branch
    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.cli.terminal import Output

_TONES: dict[str, Tone] = {"user": "good", "assistant": "name", "compaction": "bad"}


def gist(record: Record, mask: Callable[[str], str]) -> str:
    """Return the content of a record in a few words; it is masked before it is cut."""

    def title_of(text: str) -> str:
        return listing.title_of(mask(text))

    match record:
        case Header(label=label, version=version):
            return f"format {version}" + (f", label `{title_of(label)}`" if label else "")
        case User(content=content):
            return title_of(text_of(content)) or "(no text)"
        case Assistant(content=content):
            calls = [title_of(f"→ {call.get('name')}") for call in tool_calls(content)]
            return "  ".join(filter(None, [title_of(text_of(content)), *calls])) or "(no text)"
        case ToolUse(name=name):
            return title_of(f"→ {name}")
        case ToolResult(content=content, is_error=is_error):
            return ("error: " if is_error else "") + (title_of(text_of(content)) or "(no text)")
        case Compaction(summary=summary):
            return title_of(summary)
        case InjectedContext(text=text, source=source):
            return title_of(f"from {source or 'a program'}: {text}")
        case Rewind(to=to):
            return title_of(f"back to {to}")
        case Label(label=label, target=target):
            return title_of(f"`{label}`" + (f" for {target}" if target else ""))
        case ModelChange(model=model):
            return title_of(model)
        case CallFailure(cause=cause):
            return title_of(f"no reply: {cause}")
        case Unknown() if words := words_of_unknown(record):
            return title_of(words)
        case _:  # the rest, and unknown records, are shown as their fields
            return title_of(msgspec.json.encode(record.extra or to_json(record)).decode())


class LogCommand(ResultCommand, frozen=True, kw_only=True):
    """Prints the records of a session, or its branches."""

    session: SessionPlace
    is_all: Annotated[
        bool, option("every record in the order of writing, with abandoned branches")
    ] = False
    last: Annotated[int | None, option("only the newest N", "N", "-n"), Meta(ge=1)] = None
    from_: Annotated[str | None, option("start at this record", "RECORD")] = None
    branch: Annotated[str | None, option("show the path to this record", "HEAD")] = None
    branches: Annotated[bool, option("list the branches instead of records")] = False
    is_raw: RawOption = False

    def run(self, app: App) -> list[Branch] | None:
        ways = (self.is_all, self.last is not None, self.from_, self.branch, self.branches)
        if sum(map(bool, ways)) > 1:
            raise UsageError("choose one of --all, --last, --from, --branch and --branches")
        key = app.session(self.session)
        if self.branches:
            return app.store.branches(key)
        for entry in self._entries(app, key):
            if app.out.is_json:
                line = to_json(entry.record)
                app.out.json({**line, "standing": entry.standing} if self.is_all else line)
            else:
                app.out.line(*_log_line(entry, app.out))
        return None

    def _entries(self, app: App, key: SessionKey) -> Iterable[LogEntry]:
        if self.is_all:
            return app.store.read_all(key)
        records: Iterable[Record]
        if self.last is not None:
            records = app.store.last(key, self.last)
        elif self.branch:
            records = app.store.read_branch(key, self.branch)
        else:
            start = app.store.find(key, self.from_).id if self.from_ else None
            records = app.store.read(key, start=start)
        return (LogEntry(record, "path") for record in records)

    def plain(self, found: list[Branch]) -> Any:
        names = ("head", "forked_from", "records", "ts", "title")
        return [pick(branch, *names, current="is_current") for branch in found]

    def show(self, found: list[Branch], app: App) -> None:
        app.out.table(
            ("", "Head", "Forked from", ">Records", "Last", "Last said"),
            (
                (
                    Cell("→" if branch.is_current else " ", "good"),
                    Cell(branch.head, "name"),
                    branch.forked_from or "the beginning",
                    f"{branch.records:,}",
                    local_time(branch.ts),
                    Cell(branch.title, "plain" if branch.is_current else "dim"),
                )
                for branch in found
            ),
        )


def _log_line(entry: LogEntry, out: Output) -> tuple[Cell | str, ...]:
    record = entry.record
    is_current = entry.standing == "path"
    tone: Tone = _TONES.get(record.kind, "plain") if is_current else "dim"
    return (
        Cell(f"{title_of(record.id):<18}  {local_time(record.ts):<19}", "dim"),
        "  ",
        Cell(f"{title_of(record.kind):<11}", tone),
        "  ",
        Cell(gist(record, out.mask), "plain" if is_current else "dim"),
        Cell("" if is_current else f"  [{entry.standing}]", "dim"),
    )


class ShowCommand(ResultCommand, frozen=True, kw_only=True):
    """Prints one record in full."""

    record: Annotated[RecordToRead, place("", "RECORD")]
    session: Annotated[
        str | None, option("search only this session or transcript", "SESSION|FILE", "-s")
    ] = None
    is_raw: RawOption = False

    def run(self, app: App) -> tuple[str, dict[str, Any], Record]:
        if self.session and Path(self.session.partition("#")[0]).exists():
            # A transcript that was not imported, by the ids that `inspect` prints.
            found = [
                (each.address, {"file": each.address}, record)
                for each in conversations(app, self.session)
                for record in each.records
                if record.id.startswith(self.record)
            ]
        else:
            found = [
                (str(key), msgspec.to_builtins(key), record) for key, record in self._in_store(app)
            ]
        if not found:
            raise NoSuchRecord(self.record, self.session or "")
        # A fork shares the records of its parent, so the same id can be in two sessions.
        exact = [each for each in found if each[2].id == self.record]
        ids = sorted({record.id for _name, _place, record in found})
        if len(ids) > 1 and not exact:
            raise AmbiguousName("record", self.record, ids)
        return (exact or found)[0]

    def _in_store(self, app: App) -> Iterator[tuple[SessionKey, Record]]:
        if self.session:
            key = app.session(self.session)
            yield key, app.store.find(key, self.record)
            return
        for info in app.sessions():
            with suppress(NoSuchRecord):
                record = app.store.find(info.key, self.record)
                yield info.key, record
                if record.id == self.record != info.key.session:
                    return

    def plain(self, found: tuple[str, dict[str, Any], Record]) -> Any:
        _name, where, record = found
        return {**where, "record": to_json(record)}

    def show(self, found: tuple[str, dict[str, Any], Record], app: App) -> None:
        name, _place, record = found
        app.out.note(f"{name}  {record.kind}  {local_time(record.ts)}")
        bare = encode(record)
        shown = bare if self.is_raw else msgspec.json.encode(app.out.mask_value(to_json(record)))
        app.out.line(msgspec.json.format(shown, indent=2).decode())


class RewindCommand(ResultCommand, frozen=True, kw_only=True):
    """Moves the head of a session back."""

    session: SessionPlace
    to: Annotated[NewHead, place("", "RECORD")] = None
    turns: Annotated[TurnCount | None, option("", "N")] = None
    reason: Annotated[str | None, option("a reason, stored in the log")] = None

    def run(self, app: App) -> dict[str, str]:
        if (self.to is None) == (self.turns is None):
            raise UsageError("the target is missing", hint="pass a RECORD, or --turns N")
        from holdfast.engine.session.drivers.lease import hold_lease  # other verbs need no turn
        from holdfast.engine.session.rewinding import record_before

        key = app.session(self.session)
        with hold_lease(app.store, key) as token:
            target = self.to or record_before(app.store.back(key), self.turns or 1).id
            before, moved = app.store.head(key), Rewind(to=target, reason=self.reason)
            done = app.store.append(key, [moved], expect=before, token=token)
        to = app.store.find(key, done.head)
        assert isinstance(to, Rewind)
        return {"session": key.session, "id": done.head, "to": to.to, "was": before}

    def show(self, found: dict[str, str], app: App) -> None:
        name = found["session"]
        app.out.line(f"{name}: the head is now at {found['to']}")
        app.out.note(f"nothing is lost; go back with `holdfast rewind {name} {found['was']}`")
