"""`sessions`, `new`, `label`, `fork` and `rm`: whole sessions."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from holdfast.core.log.ids import SessionKey, new_session_id
from holdfast.core.log.listing import check_label, title_of
from holdfast.core.log.records import Label
from holdfast.core.owners import row_text
from holdfast.errors import UsageError
from holdfast.ports import ANY_HEAD, SessionInfo, Trashed
from holdfast.surfaces.answers import Cell, Row
from holdfast.surfaces.cli.app import App, Verb, add_session
from holdfast.surfaces.formatting import ago, size_text

if TYPE_CHECKING:
    import argparse


def new_key(app: App, session: str | None) -> SessionKey:
    return SessionKey(
        app.settings.agent, session or new_session_id(int.from_bytes(os.urandom(6), "big"))
    )


# sessions


def _add_sessions(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--limit", "-n", type=int, help="only the N most recently active")


def _sessions(args: argparse.Namespace, app: App) -> int:
    infos = app.sessions(args.agent, args.limit)
    if app.out.is_json:
        app.out.json([info_json(info) for info in infos])
    elif not infos:
        app.out.note(f"no sessions in `{app.store.describe()}` yet; create one with `holdfast new`")
    else:
        app.out.table(
            ("Session", "Label", "First words", ">Messages", ">Size", "Last active", "State"),
            (_session_row(info, is_agent_shown=_has_agents(infos)) for info in infos),
        )
    return 0


def info_json(info: SessionInfo) -> dict[str, object]:
    return {
        "session": info.key.session,
        "agent": info.key.agent,
        "label": info.label,
        "owner": row_text(info.owner),
        "title": info.title,
        "created": info.created,
        "last_active": info.last_active,
        "records": info.records,
        "messages": info.messages,
        "bytes": info.bytes,
        "head": info.head,
        "damaged": info.damaged,
        "parent_session": info.parent_session,
    }


def _has_agents(infos: list[SessionInfo]) -> bool:
    return len({info.key.agent for info in infos}) > 1


def _session_row(info: SessionInfo, *, is_agent_shown: bool) -> Row:
    return [
        Cell(str(info.key) if is_agent_shown else info.key.session, "name"),
        title_of(info.label),
        Cell(info.title, "dim"),
        f"{info.messages:,}",
        size_text(info.bytes),
        ago(info.last_active),
        Cell(f"{info.damaged} damaged", "bad") if info.damaged else Cell("ok", "good"),
    ]


# new


def _add_new(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("label", nargs="?", default="", help="a name for the session")
    parser.add_argument("--id", help="the session id (default: random)")


def _new(args: argparse.Namespace, app: App) -> int:
    key = new_key(app, args.id)
    label = check_label(args.label)
    head = app.store.create(key, label=label, owner=app.owner_of_new)
    return _show_new(app, key, label, head)


def _show_new(app: App, key: SessionKey, label: str, head: str) -> int:
    if app.out.is_json:
        fields = {"session": key.session, "agent": key.agent, "label": label, "head": head}
        app.out.json(fields)
    else:
        app.out.line(key.session)
        app.out.note(f"created in `{app.store.describe()}`")
    return 0


# label


def _add_label(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument("label", nargs="?", help="the new label; an empty one removes it")
    parser.add_argument(
        "--record", metavar="RECORD", help="label this record instead, as a bookmark"
    )


def _label(args: argparse.Namespace, app: App) -> int:
    key = app.session(args.session)
    target = app.store.find(key, args.record).id if args.record else None
    if args.label is None:
        return _show_labels(app, key)
    label = check_label(args.label)
    done = app.store.append(key, [Label(label=label, target=target)], expect=ANY_HEAD)
    if app.out.is_json:
        app.out.json({"session": key.session, "label": label, "target": target, "id": done.head})
    else:
        what = f"record {target} of {key.session}" if target else f"session {key.session}"
        app.out.note(f"{what} is now called `{label}`" if label else f"{what} has no label now")
    return 0


def _show_labels(app: App, key: SessionKey) -> int:
    labels: dict[str | None, str] = {}
    labels[None] = app.store.info(key).label
    for record in app.store.read(key):
        if isinstance(record, Label) and record.target:
            labels[record.target] = record.label
    bookmarks = {target: label for target, label in labels.items() if target and label}
    if app.out.is_json:
        app.out.json({"session": key.session, "label": labels.get(None, ""), "records": bookmarks})
    else:
        app.out.line(labels.get(None, ""))
        for target, label in bookmarks.items():
            app.out.line(f"{target}  {label}")
    return 0


# fork


def _add_fork(parser: argparse.ArgumentParser) -> None:
    add_session(parser)
    parser.add_argument(
        "--at", metavar="RECORD", help="the last record to copy (default: the head)"
    )
    parser.add_argument("--id", help="the id of the new session (default: random)")
    parser.add_argument("--label", default="", help="a name for the new session")


def _fork(args: argparse.Namespace, app: App) -> int:
    key = app.session(args.session)
    new = SessionKey(args.agent or key.agent, new_key(app, args.id).session)
    label = check_label(args.label)
    with app.out.busy(f"copying {key}"):
        head = app.store.fork(key, new, at=args.at, label=label)
    return _show_new(app, new, label, head)


# rm


def _add_rm(parser: argparse.ArgumentParser) -> None:
    add_session(parser, nargs="*")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--list", action="store_true", help="list the trash")
    what.add_argument("--restore", metavar="NAME", help="restore a session from the trash")
    what.add_argument("--empty", action="store_true", help="delete everything in the trash")
    parser.add_argument(
        "--older-than",
        metavar="DAYS",
        type=float,
        default=0.0,
        help="with --empty: keep newer ones",
    )


def _rm(args: argparse.Namespace, app: App) -> int:
    if args.list:
        return _show_trash(app, app.store.trash())
    if args.restore:
        return _restore(app, args.restore)
    if args.empty:
        gone = app.store.empty_trash(older_than_seconds=args.older_than * 86_400)
        return _show_gone(app, gone, "deleted permanently")
    if not args.session:
        raise UsageError(
            "the session is missing", hint="pass a SESSION, or --list, --restore or --empty"
        )
    keys = [app.session(name) for name in args.session]
    return _show_gone(app, [app.store.remove(key) for key in keys], "moved to the trash")


def _trash_json(trashed: Trashed) -> dict[str, object]:
    return {
        "name": trashed.name,
        "session": trashed.key.session,
        "agent": trashed.key.agent,
        "removed": trashed.removed,
        "bytes": trashed.bytes,
    }


def _show_trash(app: App, trash: list[Trashed]) -> int:
    if app.out.is_json:
        app.out.json([_trash_json(trashed) for trashed in trash])
    elif not trash:
        app.out.note("the trash is empty")
    else:
        rows: list[Row] = [
            [Cell(trashed.name, "name"), size_text(trashed.bytes), ago(trashed.removed)]
            for trashed in trash
        ]
        app.out.table(("Name", ">Size", "Removed"), rows)
    return 0


def _show_gone(app: App, gone: list[Trashed], what: str) -> int:
    if app.out.is_json:
        app.out.json([_trash_json(trashed) for trashed in gone])
        return 0
    for trashed in gone:
        app.out.line(f"{trashed.key.session}: {what}")
    if gone and what.startswith("moved"):
        app.out.note(f"restore it with `holdfast rm --restore {gone[-1].key.session}`")
    return 0


def _restore(app: App, name: str) -> int:
    key = app.store.restore(name)
    if app.out.is_json:
        app.out.json({"session": key.session, "agent": key.agent})
    else:
        app.out.line(f"{key.session}: restored")
    return 0


VERBS = {
    "sessions": Verb(_add_sessions, _sessions),
    "new": Verb(_add_new, _new),
    "label": Verb(_add_label, _label),
    "fork": Verb(_add_fork, _fork),
    "rm": Verb(_add_rm, _rm),
}
