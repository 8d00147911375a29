"""Operations on the context of a session: its size, its compaction, its checkpoint, its outputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal

import msgspec
from msgspec import Meta

from holdfast.core.history.answers import Result
from holdfast.core.limits import (
    CHECKPOINT_CHARS,
    CHECKPOINT_TASKS_MAX,
    EXCERPT_CHARS,
    PATTERN_CHARS_MAX,
)
from holdfast.core.window import window_argument
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import Operation
from holdfast.engine.operations.parameters import (
    TEXT_CHARS_MAX,
    CharLimit,
    Lines,
    Offset,
    Pattern,
    SessionName,
    WindowTokens,
)
from holdfast.engine.workspace.context import CheckpointText, CompactionReport, SessionStatus
from holdfast.engine.workspace.outputs import OutputPart

if TYPE_CHECKING:
    from holdfast.engine.workspace.workspace import CallerWorkspace

_WAIT_SECONDS: Final = 10.0
"""A client that waits for an answer would rather hear that a turn is running."""
_Entry = Annotated[str, Meta(min_length=1, max_length=TEXT_CHARS_MAX)]
_Entries = Annotated[list[_Entry], Meta(max_length=CHECKPOINT_TASKS_MAX)]


class ReadStatus(Operation, frozen=True):
    """The size of the next request of a session, and when its next compaction is due."""

    title = "Read the status of a session"
    result = SessionStatus
    session_key: SessionName
    window: WindowTokens = None

    def call(self, workspace: CallerWorkspace) -> SessionStatus:
        return workspace.context.status(self.session_key, window=window_argument(self.window))


class ReadOutput(Operation, frozen=True, kw_only=True):
    """Read an output that was moved out of a session, whole or in part."""

    title = "Read an output"
    result = OutputPart
    session_key: SessionName = ""
    ref: Annotated[
        str,
        Meta(
            description="The ref of the output, as its preview shows it, or the id of its record.",
            min_length=1,
            max_length=PATTERN_CHARS_MAX,
        ),
    ]
    offset: Offset = None
    lines: Lines = None
    search: Pattern = None
    max_chars: CharLimit = EXCERPT_CHARS

    def call(self, workspace: CallerWorkspace) -> OutputPart:
        return workspace.outputs.read(
            self.ref,
            session=self.session_key,
            offset=self.offset,
            lines=self.lines,
            pattern=self.search,
            max_chars=self.max_chars,
        )


class ReadContext(Operation, frozen=True):
    """Read what a session no longer shows, or see how full its context is.

    `read` takes a ref from a note or a preview: an output, a record, or a range FIRST..LAST.
    Choose a part: lines, what to search for, or an offset in characters; `nextOffset` or
    `nextLines` of the answer give the next part. `status` answers with the size of the next
    request, and `fill`, the share of the way to the next compaction.
    """

    title = "Read a context"
    tool = "context"
    result: ClassVar[type[Result]] = Result
    action: Annotated[Literal["read", "status"], Meta(description="What to do.")] = "read"
    ref: Annotated[
        str,
        Meta(
            description="Such as 0123456789abcdef, the id of a record, FIRST..LAST, or ..LAST. "
            "Without a ref, `search` looks at all records of the session.",
            max_length=PATTERN_CHARS_MAX,
        ),
    ] = ""
    session_key: Annotated[
        str,
        Meta(
            description="The session: its id, agent/id, its label, or `current`. To read an output "
            "it may be left out: the newest sessions are searched."
        ),
    ] = ""
    offset: Offset = None
    lines: Lines = None
    search: Pattern = None
    max_chars: CharLimit = EXCERPT_CHARS
    window: WindowTokens = None

    def call(self, workspace: CallerWorkspace) -> Result:
        if self.action == "status":
            return workspace.context.status(self.session_key, window=window_argument(self.window))
        if not self.ref and not (self.search and self.session_key):
            raise RequestRefused(
                "invalid",
                "the arguments are invalid: nothing to read is named; give `ref`, or `sessionKey` "
                "and `search`",
            )
        return workspace.outputs.read(
            self.ref or "..",
            session=self.session_key,
            offset=self.offset,
            lines=self.lines,
            pattern=self.search,
            max_chars=self.max_chars,
        )


class CompactContext(Operation, frozen=True):
    """Compact the context of a session: older messages give way to a summary.

    The log keeps every message, and a compaction can be taken back. With `preview` nothing
    is stored, and the answer says what a compaction would do.
    """

    title = "Compact a session"
    tool = "context_compact"
    result = CompactionReport
    right = "write"
    is_idempotent = False
    session_key: SessionName
    focus: Annotated[
        str,
        Meta(description="What the summary should keep above all.", max_length=TEXT_CHARS_MAX),
    ] = ""
    preview: Annotated[bool, Meta(description="Only report what would be done.")] = False

    def call(self, workspace: CallerWorkspace) -> CompactionReport:
        return workspace.context.compact(
            self.session_key, focus=self.focus, preview=self.preview, wait=_WAIT_SECONDS
        )


class StoreCheckpoint(Operation, frozen=True):
    """Store a checkpoint of a session: requests, open tasks, decisions, failures, files.

    It is read from the session's log by code. What you state here holds until it is stated
    otherwise.
    """

    title = "Store a checkpoint"
    tool = "checkpoint_create"
    result = CheckpointText
    right = "write"
    is_idempotent = False
    session_key: SessionName
    current_objective: Annotated[_Entry | None, Meta(description="What is being worked on.")] = None
    pending_tasks: Annotated[_Entries | None, Meta(description="What is still to be done.")] = None
    key_decisions: Annotated[_Entries | None, Meta(description="What was decided, and why.")] = None
    fields: Annotated[
        dict[str, Any], Meta(description="Other fields of the checkpoint, by name.")
    ] = msgspec.field(default_factory=dict)

    def call(self, workspace: CallerWorkspace) -> CheckpointText:
        stated = {
            "current_objective": self.current_objective,
            "pending_tasks": self.pending_tasks,
            "key_decisions": self.key_decisions,
        }
        given = {name: value for name, value in stated.items() if value is not None}
        return workspace.context.save_checkpoint(self.session_key, fields={**self.fields, **given})


class ReadCheckpoint(Operation, frozen=True):
    """Read the newest checkpoint of a session; without one, its state as of now.

    Read it before you go on with work that another session began.
    """

    title = "Read a checkpoint"
    tool = "checkpoint_get"
    result = CheckpointText
    session_key: SessionName
    max_chars: CharLimit = CHECKPOINT_CHARS

    def call(self, workspace: CallerWorkspace) -> CheckpointText:
        return workspace.context.checkpoint(self.session_key, max_chars=self.max_chars)
