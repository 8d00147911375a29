"""Operations on the log of a session itself: verify it, append records to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from holdfast.core.history.answers import Result
from holdfast.core.history.capped_json import fit
from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import Header, Json, Record, decode
from holdfast.core.parameters import ExpectedHead, SessionName
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import Operation
from holdfast.ports import ANY_HEAD

if TYPE_CHECKING:
    from holdfast.core.log.damage import Finding
    from holdfast.engine.workspace.workspace import CallerWorkspace

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
