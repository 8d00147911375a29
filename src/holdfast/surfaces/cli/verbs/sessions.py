"""`sessions`, `new`, `label`, `fork`, `rm` and `erase`: whole sessions."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Final

from holdfast.core.log.ids import ELLIPSIS, Named, SessionKey, new_session_id, resolve
from holdfast.core.log.listing import check_label, title_of
from holdfast.core.log.records import Label
from holdfast.core.owners import ANY_OWNER, NO_OWNER, AnyOwner, NamedOwner, filter_text, row_text
from holdfast.core.parameters import (
    DaysInTrash,
    LastRecord,
    NewId,
    NewLabel,
    OtherLabel,
    RowCount,
)
from holdfast.core.text.cut import cut, ellipsis
from holdfast.errors import NoSuchSession, UsageError
from holdfast.ports import ANY_HEAD
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.command import SESSION, ResultCommand, SessionPlace, option, pick, place
from holdfast.surfaces.formatting import ago, count, size_text

if TYPE_CHECKING:
    from typing import Any

    from holdfast.engine.erasing import ErasureReport
    from holdfast.ports import SessionInfo, Trashed
    from holdfast.surfaces.cli.app import App


_NAME_CHARS: Final = 22
_TITLE_MIN: Final = 20
_OTHER_COLUMNS: Final = 70
"""The columns beside the title, with what is between them."""


def new_key(app: App, session: str | None) -> SessionKey:
    """Return the key of a new session, with a random id where none is given."""
    name = session or new_session_id(int.from_bytes(os.urandom(6), "big"))
    return SessionKey(app.settings.agent, name)


class SessionsCommand(ResultCommand, frozen=True, kw_only=True):
    """Lists sessions."""

    limit: Annotated[RowCount | None, option("", "N", "-n")] = None

    def run(self, app: App) -> list[SessionInfo]:
        return app.sessions(app.agent, self.limit)

    def plain(self, found: list[SessionInfo]) -> Any:
        names = ("key", "label", "title", "created", "last_active", "records", "messages", "bytes")
        return [
            pick(each, *names, "head", "damaged", "parent_session")
            | {"owner": row_text(each.owner)}
            for each in found
        ]

    def show(self, found: list[SessionInfo], app: App) -> None:
        if not found:
            where = app.store.describe()
            name = filter_text(app.owner)
            whose = "" if name is None else f" of owner `{name}`" if name else " without an owner"
            app.out.note(f"no sessions{whose} in `{where}` yet; create one with `holdfast new`")
        has_agents = len({info.key.agent for info in found}) > 1
        width = app.out.width
        room = None if width is None else max(_TITLE_MIN, width - _OTHER_COLUMNS)
        rows = (
            (
                Cell(_name(info, has_agents=has_agents, is_short=width is not None), "name"),
                Cell(_short(title_of(info.label) or info.title, room), "plain"),
                f"{info.messages:,}",
                size_text(info.bytes),
                ago(info.last_active),
                Cell(f"{info.damaged} damaged", "bad") if info.damaged else Cell("ok", "good"),
            )
            for info in found
        )
        app.out.table(("Session", "Title", ">Messages", ">Size", "Active", "State"), rows)


def _name(info: SessionInfo, *, has_agents: bool, is_short: bool) -> str:
    """Return an id; a terminal shows both ends of a long one, which is a name for it as well."""
    name = info.key.session
    if is_short and len(name) > _NAME_CHARS:
        name = f"{name[:12]}{ELLIPSIS}{name[-9:]}"
    return f"{info.key.agent}/{name}" if has_agents else name


def _short(text: str, room: int | None) -> str:
    return text if room is None else cut(text, room, keep="head", marker=ellipsis).text


class _MakesSession(ResultCommand, frozen=True, kw_only=True):
    """Makes a session and prints its id."""

    def plain(self, found: tuple[SessionKey, str, str]) -> Any:
        key, label, head = found
        return {"session": key.session, "agent": key.agent, "label": label, "head": head}

    def show(self, found: tuple[SessionKey, str, str], app: App) -> None:
        app.out.line(found[0].session)
        app.out.note(f"created in `{app.store.describe()}`")


class NewCommand(_MakesSession, frozen=True, kw_only=True):
    """Creates a session."""

    label: Annotated[NewLabel, place()] = ""
    id: Annotated[NewId, option()] = None

    def run(self, app: App) -> tuple[SessionKey, str, str]:
        key, label = new_key(app, self.id), check_label(self.label)
        return key, label, app.store.create(key, label=label, owner=app.owner_of_new)


class LabelCommand(ResultCommand, frozen=True, kw_only=True):
    """Names a session or a record, or prints the names."""

    session: SessionPlace
    label: Annotated[OtherLabel | None, place()] = None
    record: Annotated[str | None, option("label this record instead, as a bookmark", "RECORD")] = (
        None
    )

    def run(self, app: App) -> dict[str, Any]:
        key = app.session(self.session)
        target = app.store.find(key, self.record).id if self.record else None
        if self.label is None:
            named = [each for each in app.store.read(key) if isinstance(each, Label)]
            records = {each.target: each.label for each in named if each.target}
            marks = {target: label for target, label in records.items() if label}
            return {"session": key.session, "label": app.store.info(key).label, "records": marks}
        label = check_label(self.label)
        done = app.store.append(key, [Label(label=label, target=target)], expect=ANY_HEAD)
        return {"session": key.session, "label": label, "target": target, "id": done.head}

    def show(self, found: dict[str, Any], app: App) -> None:
        label, target = found["label"], found.get("target")
        if self.label is None:
            app.out.line(label)
            for record, name in found["records"].items():
                app.out.line(f"{record}  {name}")
            return
        what = f"record {target} of" if target else "session"
        now = f"is now called `{label}`" if label else "has no label now"
        app.out.note(f"{what} {found['session']} {now}")


class ForkCommand(_MakesSession, frozen=True, kw_only=True):
    """Copies a session."""

    session: SessionPlace
    at: Annotated[LastRecord, option("", "RECORD")] = None
    id: Annotated[NewId, option()] = None
    label: Annotated[NewLabel, option()] = ""

    def run(self, app: App) -> tuple[SessionKey, str, str]:
        key = app.session(self.session)
        new = SessionKey(app.agent or key.agent, new_key(app, self.id).session)
        label = check_label(self.label)
        with app.out.busy(f"copying {key}"):
            return new, label, app.store.fork(key, new, at=self.at, label=label)


class RmCommand(ResultCommand, frozen=True, kw_only=True):
    """Moves sessions to the trash, and looks after it."""

    session: Annotated[tuple[str, ...], SESSION] = ()
    is_list: Annotated[bool, option("list the trash", group="what")] = False
    restore: Annotated[
        str | None, option("restore a session from the trash", "NAME", group="what")
    ] = None
    is_empty: Annotated[bool, option("delete everything in the trash", group="what")] = False
    older_than: Annotated[DaysInTrash, option("", "DAYS")] = 0.0

    def run(self, app: App) -> list[Trashed] | SessionKey:
        if self.is_list:
            return app.store.trash()
        if self.restore:
            return app.store.restore(self.restore)
        if self.is_empty:
            return app.store.empty_trash(older_than_seconds=self.older_than * 86_400)
        if not self.session:
            raise UsageError(
                "the session is missing", hint="pass a SESSION, or --list, --restore or --empty"
            )
        return [app.store.remove(key) for key in [app.session(name) for name in self.session]]

    def plain(self, found: list[Trashed] | SessionKey) -> Any:
        if isinstance(found, SessionKey):
            return found
        return [pick(each, "key", "name", "removed", "bytes") for each in found]

    def show(self, found: list[Trashed] | SessionKey, app: App) -> None:
        if isinstance(found, SessionKey):
            app.out.line(f"{found.session}: restored")
        elif self.is_list:
            if not found:
                app.out.note("the trash is empty")
            rows = ((Cell(e.name, "name"), size_text(e.bytes), ago(e.removed)) for e in found)
            app.out.table(("Name", ">Size", "Removed"), rows)
        else:
            for each in found:
                what = "deleted permanently" if self.is_empty else "moved to the trash"
                app.out.line(f"{each.key.session}: {what}")
            if found and not self.is_empty:
                app.out.note(f"restore it with `holdfast rm --restore {found[-1].key.session}`")


class EraseCommand(ResultCommand, frozen=True, kw_only=True):
    """Erases sessions, or everything of an owner."""

    session: Annotated[tuple[str, ...], place("also one in the trash", "SESSION")] = ()
    dry_run: Annotated[bool, option("change nothing, show what would go")] = False
    yes: Annotated[bool, option("do not ask")] = False

    def run(self, app: App) -> ErasureReport | int:
        if bool(self.session) != isinstance(app.owner, AnyOwner):
            raise UsageError("nothing to erase is named", hint="pass SESSION …, or --owner NAME")
        if app.owner == NO_OWNER:
            raise UsageError("the name of the owner is empty", hint="erase sessions by their names")
        keys = [_find_removed(app, name) for name in self.session]
        planned = _erase(app, keys, is_dry=True)
        if self.dry_run:
            return planned
        if not self.yes and not self._is_confirmed(app, planned):
            app.out.note("nothing was erased")
            return 1  # a script that did not get what it asked for must see it
        with app.out.busy("erasing"):
            return _erase(app, keys, is_dry=False)

    def _is_confirmed(self, app: App, planned: ErasureReport) -> bool:
        if app.out.is_json or not (sys.stdin.isatty() and sys.stderr.isatty()):
            raise UsageError(
                "erasing cannot be undone, and there is no terminal to ask on",
                hint="pass --yes; --dry-run shows what would be erased",
            )
        self.show(planned, app)
        app.out.ask(f"erase {count(len(planned.sessions), 'session')} for good? [y/N] ")
        return sys.stdin.readline().strip().casefold() in ("y", "yes")

    def plain(self, found: ErasureReport) -> Any:
        parts = ("key", "logs", "bytes", "blobs", "notes", "accesses")
        sessions = [pick(each, *parts) for each in found.sessions]
        return pick(found, "notes", "remaining", dry_run="is_dry_run") | {"sessions": sessions}

    def show(self, found: ErasureReport, app: App) -> None:
        if not found.sessions and not found.notes:
            app.out.note("nothing is stored under that name; nothing was erased")
            return
        app.out.note("would be erased:" if found.is_dry_run else "erased:")
        app.out.table(
            ("Session", ">Logs", ">Size", ">Outputs", ">Notes", ">Audit entries"),
            (
                (
                    *(Cell(str(each.key), "name"), f"{each.logs:,}", size_text(each.bytes)),
                    *(f"{number:,}" for number in (each.blobs, each.notes, each.accesses)),
                )
                for each in found.sessions
            ),
        )
        if found.notes:
            app.out.line(f"{count(found.notes, 'note')} of the owner")
        app.out.note("not erased:")
        for copy in found.remaining:
            app.out.note(f"  {copy.where or copy.kind}: {copy.why}")


def _erase(app: App, keys: list[SessionKey], *, is_dry: bool) -> ErasureReport:
    from holdfast.engine.erasing import erase, erase_owner

    if isinstance(app.owner, NamedOwner):
        return erase_owner(app.store, app.owner, dry_run=is_dry)
    return erase(app.store, *keys, owner=ANY_OWNER, dry_run=is_dry)


def _find_removed(app: App, name: str) -> SessionKey:
    """Find a session by its name, in the trash and among unfinished erasures as well."""
    try:
        return app.session(name)
    except NoSuchSession:
        removed = {*(trashed.key for trashed in app.store.trash()), *app.store.erasures()}
        if not removed:
            raise
        return resolve(name, (Named(key, "") for key in sorted(removed)))
