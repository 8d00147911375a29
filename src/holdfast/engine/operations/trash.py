"""Operations on the trash: move sessions there, restore them, delete them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from holdfast.core.history.answers import Result
from holdfast.core.owners import ANY_OWNER, owner_of
from holdfast.core.parameters import DaysInTrash, SessionName
from holdfast.core.retention import DAY_SECONDS, BytesKept, DaysUnused, RetentionRule
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import Operation, R
from holdfast.engine.operations.sessions import OwnerName, SessionRow, row_now
from holdfast.engine.retention import RetiredSession, apply_rule
from holdfast.engine.workspace.workspace import MAY_READ

if TYPE_CHECKING:
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.ports import Trashed


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
