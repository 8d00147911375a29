"""`log`, `show` and `rewind`: the records of a session."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

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
    User,
    encode,
    text_of,
    to_json,
    tool_calls,
)
from holdfast.core.log.views import LogEntry
from holdfast.errors import AmbiguousName, NoSuchRecord, UsageError
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.app import App, Verb, add_session
from holdfast.surfaces.cli.conversations import conversations
from holdfast.surfaces.formatting import Tone, local_time

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable

    from holdfast.core.log.ids import SessionKey
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
        case _:  # the rest, and unknown records, are shown as their fields
            return title_of(msgspec.json.encode(record.extra or to_json(record)).decode())


# log


def _add_log(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument(
        "--all",
        action="store_true",
        help="every record in the order of writing, with abandoned branches",
    )
    parser.add_argument("-n", "--last", type=int, metavar="N", help="only the newest N")
    parser.add_argument("--from", dest="start", metavar="RECORD", help="start at this record")
    parser.add_argument("--branch", metavar="HEAD", help="show the path to this record")
    parser.add_argument(
        "--branches", action="store_true", help="list the branches instead of records"
    )
    parser.add_argument("--raw", action="store_true", help="do not mask secrets")


def _log(args: argparse.Namespace, app: App) -> int:
    ways = (args.all, args.last is not None, args.start, args.branch, args.branches)
    if sum(map(bool, ways)) > 1:
        raise UsageError("choose one of --all, --last, --from, --branch and --branches")
    key = app.session(args.session)
    if args.branches:
        return _list_branches(key, app)
    for entry in _entries(args, app, key):
        if app.out.is_json:
            line = to_json(entry.record)
            app.out.json({**line, "standing": entry.standing} if args.all else line)
        else:
            app.out.line(*_log_line(entry, app.out))
    return 0


def _entries(args: argparse.Namespace, app: App, key: SessionKey) -> Iterable[LogEntry]:
    if args.all:
        return app.store.read_all(key)
    records: Iterable[Record]
    if args.last is not None:
        records = app.store.last(key, args.last)
    elif args.branch:
        records = app.store.read_branch(key, args.branch)
    else:
        start = app.store.find(key, args.start).id if args.start else None
        records = app.store.read(key, start=start)
    return (LogEntry(record, "path") for record in records)


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


def _list_branches(key: SessionKey, app: App) -> int:
    branches = app.store.branches(key)
    if app.out.is_json:
        app.out.json(
            [
                {
                    "head": branch.head,
                    "forked_from": branch.forked_from,
                    "records": branch.records,
                    "ts": branch.ts,
                    "title": branch.title,
                    "current": branch.is_current,
                }
                for branch in branches
            ]
        )
    else:
        rows: list[Row] = [
            [
                Cell("→" if branch.is_current else " ", "good"),
                Cell(branch.head, "name"),
                branch.forked_from or "the beginning",
                f"{branch.records:,}",
                local_time(branch.ts),
                Cell(branch.title, "plain" if branch.is_current else "dim"),
            ]
            for branch in branches
        ]
        app.out.table(("", "Head", "Forked from", ">Records", "Last", "Last said"), rows)
    return 0


# show


def _add_show(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("record", metavar="RECORD", help="a record id, or a unique prefix of one")
    parser.add_argument(
        "--session", "-s", metavar="SESSION|FILE", help="search only this session or transcript"
    )
    parser.add_argument("--raw", action="store_true", help="do not mask secrets")


def _show(args: argparse.Namespace, app: App) -> int:
    if args.session and Path(args.session.partition("#")[0]).exists():
        name, record = _find_in_file(args, app)
        place: dict[str, Any] = {"file": name}
    else:
        key, record = _find(args, app)
        name, place = str(key), {"session": key.session, "agent": key.agent}
    if app.out.is_json:
        app.out.json({**place, "record": to_json(record)})
        return 0
    app.out.note(f"{name}  {record.kind}  {local_time(record.ts)}")
    shown = encode(record) if args.raw else msgspec.json.encode(app.out.mask_value(to_json(record)))
    app.out.line(msgspec.json.format(shown, indent=2).decode())
    return 0


def _find_in_file(args: argparse.Namespace, app: App) -> tuple[str, Record]:
    """Find a record in a transcript that was not imported, by the ids that `inspect` prints."""
    found = [
        (each.address, record)
        for each in conversations(app, args.session)
        for record in each.records
        if record.id.startswith(args.record)
    ]
    if not found:
        raise NoSuchRecord(args.record, args.session)
    exact = [each for each in found if each[1].id == args.record]
    if len(found) > 1 and len(exact) != 1:
        raise AmbiguousName("record", args.record, sorted({record.id for _name, record in found}))
    return (exact or found)[0]


def _find(args: argparse.Namespace, app: App) -> tuple[SessionKey, Record]:
    if args.session:
        key = app.session(args.session)
        return key, app.store.find(key, args.record)
    found = []
    for info in app.sessions():
        try:
            record = app.store.find(info.key, args.record)
        except NoSuchRecord:
            continue
        found.append((info.key, record))
        if record.id == args.record and args.record != info.key.session:
            break
    if not found:
        raise NoSuchRecord(args.record, "")
    # A fork shares the records of its parent, so the same id can be in two sessions.
    ids = sorted({record.id for _key, record in found})
    if len(ids) > 1 and args.record not in ids:
        raise AmbiguousName("record", args.record, ids)
    return next((key, record) for key, record in found if len(ids) == 1 or record.id == args.record)


# rewind


def _add_rewind(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("record", metavar="RECORD", nargs="?", help="the new head")
    parser.add_argument("--turns", type=int, metavar="N", help="go back N turns")
    parser.add_argument("--reason", help="a reason, stored in the log")


def _rewind(args: argparse.Namespace, app: App) -> int:
    if (args.record is None) == (args.turns is None):
        raise UsageError("the target is missing", hint="pass a RECORD, or --turns N")
    from holdfast.engine.session.drivers.lease import hold_lease  # other verbs need no turn

    key = app.session(args.session)
    with hold_lease(app.store, key) as token:
        target = args.record or _before_turns(app, key, args.turns)
        before, moved = app.store.head(key), Rewind(to=target, reason=args.reason)
        done = app.store.append(key, [moved], expect=before, token=token)
    to = app.store.find(key, done.head)
    assert isinstance(to, Rewind)
    if app.out.is_json:
        app.out.json({"session": key.session, "id": done.head, "to": to.to, "was": before})
    else:
        app.out.line(f"{key.session}: the head is now at {to.to}")
        app.out.note(f"nothing is lost; go back with `holdfast rewind {key.session} {before}`")
    return 0


def _before_turns(app: App, key: SessionKey, turns: int) -> str:
    """Return the record before the user message of the n-th turn from the end."""
    if turns < 1:
        raise UsageError(f"cannot go back {turns} turns", hint="pass 1 or more")
    starts: list[str] = []
    previous = ""
    for record in app.store.read(key):
        if isinstance(record, User) and previous:
            starts.append(previous)
        previous = record.id
    if len(starts) < turns:
        raise UsageError(f"cannot go back {turns} turns: session `{key.session}` has {len(starts)}")
    return starts[-turns]


VERBS = {
    "log": Verb(_add_log, _log),
    "show": Verb(_add_show, _show),
    "rewind": Verb(_add_rewind, _rewind),
}
