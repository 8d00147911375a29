"""Operations on sessions as a whole: make, list, label, fork, rewind, erase."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from holdfast.core.history.answers import Result
from holdfast.core.log.ids import SessionKey, check_name, free_key
from holdfast.core.log.listing import check_label
from holdfast.core.log.records import Label, to_json
from holdfast.core.log.refs import restore
from holdfast.core.owners import AnyOwner, Owner, is_wanted, owner_of, row_text
from holdfast.core.parameters import (
    LastRecord,
    Name,
    NewHead,
    NewId,
    NewLabel,
    OtherLabel,
    PageLimit,
    RecordName,
    RecordToRead,
    SessionName,
    TurnCount,
)
from holdfast.core.text.typed import decode_typed
from holdfast.engine.erasing import ErasureReport, erase
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import Operation
from holdfast.engine.outputs import payload_of
from holdfast.engine.session.opening import find_session, new_key
from holdfast.engine.session.options import SessionOptions
from holdfast.engine.session.session import Session
from holdfast.engine.workspace.workspace import MAY_READ
from holdfast.errors import AccessDenied, BadId, NoSuchRecord, SessionExists, UsageError
from holdfast.ports import ANY_HEAD, SessionInfo
from holdfast.providers.models import model as find_model

if TYPE_CHECKING:
    from holdfast.engine.erasing import RemainingCopy
    from holdfast.engine.session.rewinding import Undone
    from holdfast.engine.workspace.workspace import CallerWorkspace

_SEARCHED_MAX: Final = 2_000
"""Sessions that a search of labels and first words looks at."""
_OPEN: Final = ("waiting", "running")
_OWN: Final = "Allowed: a session of the caller's own."

SessionState = Literal["idle", "running", "waiting"]
OwnerName = Annotated[str, Meta(max_length=200)]


class SessionRow(Result, frozen=True):
    """A session in a listing."""

    agent: str
    """The agent of the session."""
    id: str
    """The id of the session."""
    label: str
    """The name that a person gave it."""
    title: str
    """The first words a user said."""
    owner: str
    """The owner; empty where it has none."""
    created: float
    """The time it was made, in seconds since 1970."""
    last_active: float
    """The time of its newest record, in seconds since 1970."""
    records: int
    """Number of records."""
    messages: int
    """Number of messages."""
    bytes: int
    """The size of its log."""
    damaged: int
    """Number of damaged lines."""
    state: SessionState
    """`running` while a message is answered, `waiting` while one waits."""
    waiting: int
    """Number of messages that wait."""
    parent: str | None = None
    """The session it is a copy of."""
    reason: str | None = None
    """The reason that it was made from another one."""


class SessionsPage(Result, frozen=True):
    """Sessions, the most recently active first."""

    sessions: list[SessionRow]
    """The sessions of this page."""
    next_cursor: str | None = None
    """For the next page; null at the end."""


class RewoundTo(Result, frozen=True):
    """The head after a rewind or an undo."""

    head: str
    """The record that is the head now."""
    detail: str
    """The change, in a sentence."""


class SessionErasure(ErasureReport, Result, frozen=True, kw_only=True, rename=None):
    """The result of an erasure."""


class LoggedRecord(Result, frozen=True):
    """A record of a session. It has the other fields of its type."""

    type: str
    """The type of the record."""
    id: str
    """The id of the record."""
    ts: float | None = None
    """The time it was written, in seconds since 1970."""


class FindSessions(Operation[SessionsPage], frozen=True):
    """List sessions. Pages go back in time; a session that is used meanwhile moves to the front."""

    title = "List sessions"
    audit = "list"
    agent: Annotated[Name | None, Meta(description="Only sessions of this agent.")] = None
    owner: Annotated[
        OwnerName | None, Meta(description="Only sessions of this owner; for an operator.")
    ] = None
    label: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        Meta(description="Only sessions with this label."),
    ] = None
    q: Annotated[
        str, Meta(description="Words of the label or of the first message.", max_length=200)
    ] = ""
    cursor: Annotated[
        str, Meta(description="The `nextCursor` of the page before.", max_length=1_000)
    ] = ""
    limit: PageLimit = 50

    def answer(self, workspace: CallerWorkspace) -> GivenReply[SessionsPage]:
        owner = workspace.owner
        if self.owner is not None:
            asked = owner_of(self.owner)
            if not is_wanted(asked, owner):
                return GivenReply(SessionsPage(sessions=[]), MAY_READ)
            owner = asked
        after = read_listing_cursor(self.cursor) if self.cursor else None
        wanted = self.q.casefold().split()
        limit = self.limit if not wanted else _SEARCHED_MAX
        infos = workspace.store.sessions(
            agent=self.agent, owner=owner, label=self.label, after=after, limit=limit + 1
        )
        end = infos[limit - 1] if len(infos) > limit else None
        infos = infos[:limit]
        if wanted:
            texts = ((info, f"{info.label} {info.title}".casefold()) for info in infos)
            infos = [info for info, text in texts if all(word in text for word in wanted)]
            end = infos[self.limit - 1] if len(infos) > self.limit else end
        states = session_states(workspace)
        rows = [row_of(workspace, info, states) for info in infos[: self.limit]]
        following = None
        if end is not None:
            following = _cursor_at(end.last_active, end.key.agent, end.key.session)
        page = SessionsPage(sessions=rows, next_cursor=following)
        return GivenReply(page, MAY_READ, is_masked=True)


class CreateSession(Operation[SessionRow], frozen=True):
    """Make a session, with an id of its own unless one is given."""

    title = "Create a session"
    audit = "create"
    right = "write"
    is_idempotent = False
    id: NewId = None
    agent: Annotated[Name, Meta(description="The agent of the session.")] = "main"
    label: NewLabel = ""
    owner: Annotated[
        OwnerName,
        Meta(description="The owner; an operator may name any, others only themselves."),
    ] = ""

    @property
    def target(self) -> str:
        return f"{self.agent}/{self.id or ''}"

    def answer(self, workspace: CallerWorkspace) -> GivenReply[SessionRow]:
        owner = self._owner_for(workspace)
        key = SessionKey(self.agent, self.id) if self.id else new_key(self.agent)
        try:
            workspace.store.create(key, label=check_label(self.label), owner=owner)
        except SessionExists as error:
            raise _id_conflict(key, error) from error
        return row_now(workspace, key, _OWN, str(key))

    def _owner_for(self, workspace: CallerWorkspace) -> Owner:
        own = workspace.owner
        if isinstance(own, AnyOwner):
            return owner_of(self.owner)
        if self.owner and owner_of(self.owner) != own:
            raise RequestRefused(
                "not_allowed",
                "a session can be made for its owner only",
                hint="leave `owner` out: it is the owner of your token",
            )
        return own


class ReadSession(Operation[SessionRow], frozen=True):
    """Read the facts of a session: its label, its sizes and its state."""

    title = "Read the facts of a session"
    audit = "read"
    session_key: SessionName

    def answer(self, workspace: CallerWorkspace) -> GivenReply[SessionRow]:
        return row_now(workspace, *workspace.resolve(self.session_key))


class OpenSession(Operation[SessionRow], frozen=True):
    """Open the session with exactly this id, or make it: the same request twice is the same."""

    title = "Open a session, or create it"
    audit = "create"
    right = "write"
    session_key: SessionName
    label: NewLabel = ""

    def answer(self, workspace: CallerWorkspace) -> GivenReply[SessionRow]:
        agent, _, session = self.session_key.partition("/")
        check_name("agent", agent)
        check_name("session", session)
        key = SessionKey(agent, session)
        try:
            key = find_session(
                workspace.store,
                session,
                agent,
                create=True,
                label=check_label(self.label),
                owner=workspace.owner,
            )
        except (AccessDenied, SessionExists) as error:
            raise _id_conflict(key, error) from error
        return row_now(workspace, key, _OWN)


class LabelSession(Operation[SessionRow], frozen=True):
    """Give a session another label, or take it away."""

    title = "Label a session"
    audit = "label"
    right = "write"
    session_key: SessionName
    label: OtherLabel

    def answer(self, workspace: CallerWorkspace) -> GivenReply[SessionRow]:
        key, reason = workspace.resolve(self.session_key, to_change=True)
        workspace.store.append(key, [Label(label=check_label(self.label))], expect=ANY_HEAD)
        return row_now(workspace, key, reason)


class ForkSession(Operation[SessionRow], frozen=True):
    """Copy a session up to a record into a new one."""

    title = "Copy a session up to a record into a new one"
    audit = "fork"
    right = "write"
    is_idempotent = False
    session_key: SessionName
    at: LastRecord = None
    id: NewId = None
    label: NewLabel = ""

    def answer(self, workspace: CallerWorkspace) -> GivenReply[SessionRow]:
        key, reason = workspace.resolve(self.session_key, to_change=True)
        store = workspace.store
        taken = {other.session.casefold() for other in store.keys(key.agent)}
        new = SessionKey(key.agent, self.id) if self.id else free_key(key, "fork", taken)
        try:
            store.fork(key, new, at=self.at, label=check_label(self.label))
        except SessionExists as error:
            raise _id_conflict(new, error) from error
        return row_now(workspace, new, reason, str(key))


class RewindSession(Operation[RewoundTo], frozen=True):
    """Move the head of a session back; later records stay readable."""

    title = "Move the head back; later records stay readable"
    audit = "rewind"
    right = "write"
    is_idempotent = False
    session_key: SessionName
    to: NewHead = None
    turns: TurnCount = 1

    def answer(self, workspace: CallerWorkspace) -> GivenReply[RewoundTo]:
        key, reason = workspace.resolve(self.session_key, to_change=True)
        with _quiet_session(workspace, key) as session:
            try:
                return _undone(session.rewind(self.to, turns=self.turns, wait=0), reason)
            except NoSuchRecord:
                raise
            except UsageError as error:  # it has fewer turns
                raise RequestRefused(
                    "conflict", str(error), code=error.code, hint=error.hint or ""
                ) from error


class UndoChange(Operation[RewoundTo], frozen=True):
    """Take back the last rewind, compaction, trim or turn of a session."""

    title = "Take back the last rewind, compaction or turn"
    audit = "undo"
    right = "write"
    is_idempotent = False
    session_key: SessionName
    record: Annotated[
        RecordName | None, Meta(description="The record of the change; the newest by default.")
    ] = None

    def answer(self, workspace: CallerWorkspace) -> GivenReply[RewoundTo]:
        key, reason = workspace.resolve(self.session_key, to_change=True)
        with _quiet_session(workspace, key) as session:
            return _undone(session.undo(self.record, wait=0), reason)


class ReadRecord(Operation[LoggedRecord], frozen=True):
    """Read one record in full, with what was moved out of the log."""

    title = "Read one record in full"
    audit = "read"
    session_key: SessionName
    record: RecordToRead

    def answer(self, workspace: CallerWorkspace) -> GivenReply[LoggedRecord]:
        key, reason = workspace.resolve(self.session_key)
        store = workspace.store
        found = restore(store.find(key, self.record), payload_of(store.blobs))
        shown: Any = to_json(found)
        return GivenReply(workspace.mask(shown), reason, is_masked=True)


class EraseSession(Operation[SessionErasure], frozen=True):
    """Delete a session so that no file has its words, and say what else holds them."""

    title = "Erase a session so that no file has its words"
    audit = "erase"
    right = "admin"
    session_key: SessionName

    def answer(self, workspace: CallerWorkspace) -> GivenReply[SessionErasure]:
        key, reason = workspace.resolve(self.session_key, to_change=True)
        report = erase(workspace.store, key, owner=workspace.owner)
        remaining = tuple(copy for copy in report.remaining if _may_know(workspace, key, copy))
        told = msgspec.structs.asdict(report) | {"remaining": remaining}
        return GivenReply(SessionErasure(**told), reason)


def _may_know(workspace: CallerWorkspace, erased: SessionKey, copy: RemainingCopy) -> bool:
    """Say whether a client may hear of a copy: also other owners may have read the session."""
    owner, store = workspace.owner, workspace.store
    if isinstance(owner, AnyOwner) or copy.kind == "outside":
        return True
    if copy.kind == "notes":
        return copy.where == store.notes(erased.agent, owner).scope
    return any(str(info.key) == copy.where for info in store.sessions(owner=owner))


def row_now(
    workspace: CallerWorkspace, key: SessionKey, reason: str, target: str = ""
) -> GivenReply[SessionRow]:
    """Return a session as it is now, masked."""
    row = row_of(workspace, workspace.store.info(key), session_states(workspace))
    return GivenReply(row, reason, target, is_masked=True)


def session_states(workspace: CallerWorkspace) -> dict[str, list[str]]:
    """The states of the messages that are not done, by session."""
    found: dict[str, list[str]] = {}
    queues = workspace.store.queues
    for message in queues.messages("inbox", owner=workspace.owner, states=_OPEN, limit=1_000):
        found.setdefault(message.session, []).append(message.state)
    return found


def row_of(
    workspace: CallerWorkspace, info: SessionInfo, states: dict[str, list[str]]
) -> SessionRow:
    """A session for a listing, with its secrets masked."""
    mine = states.get(str(info.key), [])
    waiting = mine.count("waiting")
    return SessionRow(
        agent=info.key.agent,
        id=info.key.session,
        label=workspace.mask(info.label),
        title=workspace.mask(info.title),
        owner=row_text(info.owner) or "",
        created=info.created,
        last_active=info.last_active,
        records=info.records,
        messages=info.messages,
        bytes=info.bytes,
        damaged=info.damaged,
        state="running" if "running" in mine else "waiting" if waiting else "idle",
        waiting=waiting,
        parent=info.parent_session,
        reason=info.reason,
    )


def _id_conflict(key: SessionKey, error: UsageError | AccessDenied) -> RequestRefused:
    """The same sentence for an id of one's own and of another owner."""
    return RequestRefused(
        "conflict",
        f"the id `{key.session}` is taken",
        hint="choose another, or leave it out for a new one; open the session if it is yours",
        code="session-exists" if isinstance(error, AccessDenied) else error.code,
    )


def _quiet_session(workspace: CallerWorkspace, key: SessionKey) -> Session:
    """A session for changes that need no model."""
    return Session(workspace.store, key, find_model("offline"), SessionOptions(notes="off"))


def _undone(undone: Undone, reason: str) -> GivenReply[RewoundTo]:
    return GivenReply(RewoundTo(head=undone.record, detail=undone.what), reason)


def cursor_after(row: SessionRow) -> str:
    """Return the place after a session as it was listed, also where it has changed since."""
    return _cursor_at(row.last_active, row.agent, row.id)


def listing_cursor(info: SessionInfo) -> str:
    """Return what names the place of a session in a listing, for the page after it."""
    return _cursor_at(info.last_active, info.key.agent, info.key.session)


def _cursor_at(last_active: float, agent: str, session: str) -> str:
    place = msgspec.json.encode([last_active, agent, session])
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def read_listing_cursor(cursor: str) -> SessionInfo:
    """Return the session that a page ended with, as far as the next one needs it."""
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        active, agent, session = decode_typed(data, tuple[float, str, str])
        key = SessionKey(agent, session)
    except (ValueError, binascii.Error, msgspec.DecodeError, BadId) as error:
        raise RequestRefused(
            "invalid",
            "the cursor is not one of ours",
            hint="pass `nextCursor` of the page before as it is, or begin without a cursor",
        ) from error
    return SessionInfo(
        key=key,
        label="",
        title="",
        created=0,
        last_active=active,
        records=0,
        messages=0,
        bytes=0,
        head="",
        damaged=0,
    )
