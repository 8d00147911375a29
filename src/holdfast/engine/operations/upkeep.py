"""Operations that keep a store in order: its trash, and the logs of its sessions as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from holdfast.core.history.answers import Result
from holdfast.core.history.capped_json import fit
from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import Header, Json, Record, decode
from holdfast.core.owners import ANY_OWNER, owner_of
from holdfast.core.parameters import DaysInTrash, ExpectedHead, SessionName
from holdfast.core.retention import DAY_SECONDS, BytesKept, DaysUnused, RetentionRule
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import Operation, R
from holdfast.engine.operations.sessions import OwnerName, SessionRow, row_now
from holdfast.engine.retention import RetiredSession, apply_rule
from holdfast.engine.workspace.workspace import MAY_READ
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from holdfast.core.log.damage import Finding
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.ports import Trashed

VERIFY_BYTES_MAX: Final = 32 * 1024 * 1024
"""The longest log that one request verifies: all of it is read."""


class LogFinding(Result, frozen=True):
    """One thing that is wrong with a log."""

    kind: str
    """The kind of damage."""
    position: int
    """The first byte; in stores without files, the place of the record."""
    size: int
    """The length in bytes."""
    is_damage: bool
    """False for a note, such as an append that never completed."""
    meaning: str
    """The kind in a sentence."""
    detail: str
    """More about this one."""
    preview: str
    """The first characters of what is there."""


class SessionVerification(Result, frozen=True):
    """The state of the whole log of a session."""

    is_sound: bool
    """True where no damage was found."""
    bytes: int
    """The size of the log."""
    records: int
    """Number of records."""
    counts: dict[str, int]
    """Number of records by type."""
    branches: int
    """Number of branches."""
    head: str
    """The newest record of the path."""
    findings: list[LogFinding]
    """The findings in the order of the log, as many as fit."""
    omitted_count: int = 0
    """Number of findings that did not fit."""


class AppendedRecords(Result, frozen=True):
    """The records that an append stored."""

    ids: list[str]
    """The id of each record, in the order in which they were sent."""
    head: str
    """The head of the session now."""


class VerifySession(Operation[SessionVerification], frozen=True):
    """Read the whole log of a session and report damage and its position. Nothing is changed."""

    title = "Verify a session"
    audit = "read"
    session_key: SessionName

    def answer(self, workspace: CallerWorkspace) -> GivenReply[SessionVerification]:
        key, reason = workspace.resolve(self.session_key)
        size = workspace.store.info(key).bytes
        if size > VERIFY_BYTES_MAX:
            raise RequestRefused(
                "invalid",
                f"a log of {size:,} bytes is too long to be verified in one request",
                hint=f"`holdfast verify {key.session} --agent {key.agent}` reads any log",
            )
        report = workspace.store.verify(key)
        found = [_finding(each, workspace) for each in report.findings]

        def make(count: int) -> SessionVerification:
            return SessionVerification(
                is_sound=report.is_sound,
                bytes=report.bytes,
                records=report.records,
                counts=report.counts,
                branches=report.branches,
                head=report.head,
                findings=found[:count],
                omitted_count=len(found) - count,
            )

        return GivenReply(fit(make, len(found), workspace.cap), reason, is_masked=True)


def _finding(found: Finding, workspace: CallerWorkspace) -> LogFinding:
    return LogFinding(
        kind=found.kind,
        position=found.position,
        size=found.size,
        is_damage=found.is_damage,
        meaning=found.meaning,
        detail=workspace.mask(found.detail),
        preview=workspace.mask(found.preview),
    )


class AppendRecords(Operation[AppendedRecords], frozen=True):
    """Append records to a session, all or none of them, as `holdfast append --atomic` does. A
    message that a model should answer is sent instead."""

    title = "Append records to a session"
    audit = "append"
    right = "admin"
    is_for_operator = True  # a record may say that a person approved a call
    is_idempotent = False
    session_key: SessionName
    records: Annotated[
        list[Json],
        Meta(
            description="The records, as docs/records.md describes them.",
            min_length=1,
            max_length=BATCH_RECORDS_MAX,
        ),
    ]
    expect: ExpectedHead = None

    def answer(self, workspace: CallerWorkspace) -> GivenReply[AppendedRecords]:
        key, reason = workspace.resolve(self.session_key, to_change=True)
        records = [_record(number, given) for number, given in enumerate(self.records)]
        done = workspace.store.append(key, records, expect=self.expect or ANY_HEAD)
        return GivenReply(AppendedRecords(ids=list(done.ids), head=done.head), reason)


def _record(number: int, given: Json) -> Record:
    found = decode(msgspec.json.encode(given))
    if isinstance(found, Flaw):
        raise RequestRefused("invalid", f"records[{number}] is not a record: {found.detail}")
    if isinstance(found, Header):
        raise RequestRefused(
            "invalid", f"records[{number}] is the header of a session, not a record"
        )
    return found


class RemovedSession(Result, frozen=True):
    """A session in the trash."""

    name: str
    """For `restore`."""
    agent: str
    """The agent of the session."""
    id: str
    """The id of the session."""
    removed: float
    """The time it was removed, in seconds since 1970."""


class Trash(Result, frozen=True):
    """The trash, the newest first."""

    removed: list[RemovedSession]
    """The sessions in it."""


class RemoveSession(Operation[RemovedSession], frozen=True):
    """Move a session to the trash, from which the operator can take it back."""

    title = "Move a session to the trash"
    audit = "remove"
    right = "write"
    session_key: SessionName

    def answer(self, workspace: CallerWorkspace) -> GivenReply[RemovedSession]:
        key, reason = workspace.resolve(self.session_key, to_change=True)
        return GivenReply(_trash_row(workspace.store.remove(key)), reason)


class _TrashOperation(Operation[R], frozen=True, kw_only=True):
    """An operation on the trash, which has sessions of all owners."""

    right = "admin"
    is_for_operator = True


class ListTrash(_TrashOperation[Trash], frozen=True):
    """List removed sessions, the newest first."""

    title = "List removed sessions"
    audit = "list"

    def answer(self, workspace: CallerWorkspace) -> GivenReply[Trash]:
        return GivenReply(Trash(removed=[*map(_trash_row, workspace.store.trash())]), MAY_READ)


def _trash_row(trashed: Trashed) -> RemovedSession:
    key = trashed.key
    return RemovedSession(
        name=trashed.name, agent=key.agent, id=key.session, removed=trashed.removed
    )


class RestoreSession(_TrashOperation[SessionRow], frozen=True):
    """Take a session out of the trash."""

    title = "Take a session out of the trash"
    audit = "create"
    is_idempotent = False
    name: Annotated[str, Meta(description="The name of the session in the trash.", min_length=1)]

    @property
    def target(self) -> str:
        return self.name

    def answer(self, workspace: CallerWorkspace) -> GivenReply[SessionRow]:
        if self.name not in {trashed.name for trashed in workspace.store.trash()}:
            raise RequestRefused(
                "not_found",
                f"`{self.name[:200]}` is not in the trash",
                hint="list the trash for names",
            )
        key = workspace.store.restore(self.name)
        return row_now(workspace, key, MAY_READ, str(key))


class EmptyTrash(_TrashOperation[Trash], frozen=True):
    """Delete what is in the trash, and answer with what was deleted."""

    title = "Empty the trash"
    audit = "erase"
    older_than: DaysInTrash = 0.0

    def answer(self, workspace: CallerWorkspace) -> GivenReply[Trash]:
        gone = workspace.store.empty_trash(older_than_seconds=self.older_than * DAY_SECONDS)
        return GivenReply(Trash(removed=[*map(_trash_row, gone)]), MAY_READ)


class Retired(Result, frozen=True):
    """The sessions that a rule let go."""

    sessions: list[RetiredSession]
    """The sessions, with their names in the trash; without, where it is a dry run."""
    dry_run: bool
    """True where nothing was moved."""


class RetireSessions(_TrashOperation[Retired], frozen=True):
    """Move sessions that were not used for long, or that take too much room, to the trash."""

    title = "Move old sessions to the trash"
    audit = "remove"
    days: DaysUnused = None
    bytes: BytesKept = None
    owner: Annotated[
        OwnerName | None, Meta(description="Only sessions of this owner; all unless given.")
    ] = None
    dry_run: Annotated[bool, Meta(description="Change nothing, and say what would go.")] = False

    @property
    def target(self) -> str:
        return self.owner or ""

    def answer(self, workspace: CallerWorkspace) -> GivenReply[Retired]:
        if self.days is None and self.bytes is None:
            raise RequestRefused("invalid", "no rule is given: pass `days`, `bytes` or both")
        found = apply_rule(
            workspace.store,
            RetentionRule(days=self.days, bytes=self.bytes),
            owner=ANY_OWNER if self.owner is None else owner_of(self.owner),
            is_dry_run=self.dry_run,
            clock=workspace.clock,
        )
        return GivenReply(Retired(sessions=found, dry_run=self.dry_run), MAY_READ)
