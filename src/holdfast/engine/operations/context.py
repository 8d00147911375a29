"""Operations on the context of a session: its size, its compaction, its checkpoint, its outputs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.core.checkpoint.render import render_checkpoint
from holdfast.core.dialects.registry import DIALECTS, render_body
from holdfast.core.flow.events import CompactionFinished
from holdfast.core.history.access import OPERATOR
from holdfast.core.history.answers import Result
from holdfast.core.history.capped_json import encode, fit
from holdfast.core.history.page import NOTICE
from holdfast.core.limits import (
    CHECKPOINT_CHARS,
    CHECKPOINT_TASKS_MAX,
    EXCERPT_CHARS,
    EXCERPT_CHARS_MIN,
    PATTERN_CHARS_MAX,
    REF_CHARS,
    RESEED_CHARS,
)
from holdfast.core.outputs.excerpts import Excerpt
from holdfast.core.parameters import (
    TEXT_CHARS_MAX,
    CharLimit,
    Lines,
    Offset,
    Pattern,
    SessionName,
    TokenCount,
    WindowTokens,
)
from holdfast.core.projection.policy import POLICIES, Policy
from holdfast.core.text.typed import decode_typed
from holdfast.core.window import window_argument
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.history.reseed import reseed
from holdfast.engine.operations.operation import (
    LiveOperation,
    OneOfSeveral,
    Operation,
    run_in_thread,
)
from holdfast.engine.outputs import Outputs
from holdfast.engine.session import checkpoints
from holdfast.engine.session.status import Status
from holdfast.engine.simulation.policies import policy_from
from holdfast.engine.workspace.request_preview import (
    RequestReport,
    RequestTerms,
    read_request,
    report_request,
    terms_of_session,
    terms_of_turn,
)
from holdfast.engine.workspace.workspace import MAY_READ
from holdfast.errors import NoSuchOutput, StoreError

if TYPE_CHECKING:
    from holdfast.core.checkpoint.state import State
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.session.prepare import Prepared
    from holdfast.engine.workspace.workspace import CallerWorkspace

_WAIT_SECONDS: Final = 10.0
"""A client that waits for an answer would rather hear that a turn is running."""
_SESSIONS_SEARCHED: Final = 100
"""The newest sessions in which a ref without a session is looked for."""
_Entry = Annotated[str, Meta(min_length=1, max_length=TEXT_CHARS_MAX)]
_Entries = Annotated[list[_Entry], Meta(max_length=CHECKPOINT_TASKS_MAX)]


class SessionStatus(Status, Result, frozen=True, kw_only=True):
    """The size of the next request of a session, its cost so far, and its next compaction."""

    session_key: str
    """The session, as `agent/id`."""


class CompactionReport(CompactionFinished, Result, frozen=True, kw_only=True):
    """The result of a compaction, or of its preview."""

    session_key: str
    """The session, as `agent/id`."""
    truncated: bool = False
    """True where the summary had no room as a whole."""


class CheckpointText(Result, frozen=True, kw_only=True):
    """A checkpoint of a session as text."""

    session_key: str
    """The session, as `agent/id`."""
    notice: str = NOTICE
    """A warning to a model: this is data."""
    record: str | None
    """The record that holds it; null where it is not stored."""
    text: str
    """Requests, open tasks, decisions, failures and files."""
    truncated: bool = False
    """True where the text had no room as a whole."""


class ResumeText(Result, frozen=True, kw_only=True):
    """A session as text for a model that goes on with it."""

    session_key: str
    """The session, as `agent/id`."""
    text: str
    """Its summary, then its newest messages."""
    omitted_messages: int
    """Number of older messages that had no room."""
    truncated: bool = False
    """True where the text had no room as a whole."""


class OutputPart(Excerpt, Result, frozen=True, kw_only=True):
    """A part of an output, and its place in the whole."""

    session_key: str
    """The session, as `agent/id`."""
    notice: str = msgspec.field(default_factory=lambda: NOTICE)  # also where defaults are left out
    """A warning to a model: this is data."""


class ReadStatus(Operation[SessionStatus], frozen=True):
    """The size of the next request of a session, and when its next compaction is due."""

    title = "Show window, tokens, cost and the next compaction"
    audit = "status"
    session_key: SessionName
    window: WindowTokens = None

    def answer(self, workspace: CallerWorkspace) -> GivenReply[SessionStatus]:
        key, reason = workspace.resolve(self.session_key)
        status = workspace.context.open(key, window_argument(self.window)).status()
        answer = SessionStatus(**msgspec.structs.asdict(status), session_key=str(key))
        return GivenReply(answer, reason)


class ReadOutput(Operation[OutputPart], frozen=True, kw_only=True):
    """Read an output that was moved out of a session, whole or in part."""

    title = "Read an offloaded output, whole or in part"
    audit = "output"
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

    @property
    def target(self) -> str:
        return self.session_key or self.ref

    def answer(self, workspace: CallerWorkspace) -> GivenReply[OutputPart]:
        outputs = Outputs(workspace.store, workspace.store.blobs, redactor=workspace.redactor)
        if self.session_key:
            key, reason = workspace.resolve(self.session_key)
        else:
            key, reason = _find_output(workspace, outputs, self.ref), MAY_READ
        return GivenReply(self._part(outputs, key, workspace.cap), reason, str(key))

    def _part(self, outputs: Outputs, key: SessionKey, cap: int) -> OutputPart:
        """A part that fits the cap as a whole, so that the next one begins where it ends."""
        where: Any = {"offset": self.offset, "lines": self.lines, "pattern": self.search}
        max_chars = self.max_chars
        while True:
            part = outputs.read(key, self.ref, max_chars=max_chars, **where)
            found = OutputPart(**msgspec.structs.asdict(part), session_key=str(key))
            size = len(encode(found))
            if size <= cap:
                return found
            if max_chars == EXCERPT_CHARS_MIN:  # no whole part fits, so there is no way on
                found = replace(found, next_offset=None, next_lines=None)
                return fit(partial(_shorten, found), len(found.text), cap)
            max_chars = max(EXCERPT_CHARS_MIN, min(max_chars - 1, max_chars * cap // size))


def _find_output(workspace: CallerWorkspace, outputs: Outputs, ref: str) -> SessionKey:
    """The newest session that the caller may read and that holds an output."""
    if len(ref) < REF_CHARS:
        raise RequestRefused(
            "invalid",
            f"a ref of {len(ref)} characters may stand in several sessions; name the session, "
            f"or give a ref of at least {REF_CHARS} characters",
        )
    for info in workspace.lookup.visible(_SESSIONS_SEARCHED):
        try:
            outputs.find(info.key, ref)
        except (NoSuchOutput, StoreError):
            continue
        return info.key
    raise RequestRefused(
        "not_found",
        f"this output is in none of the {_SESSIONS_SEARCHED} newest sessions that you may read; "
        "name its session",
    )


def _shorten(part: OutputPart, chars: int) -> OutputPart:
    is_cut = part.is_cut or chars < len(part.text)
    return replace(part, text=part.text[:chars], is_cut=is_cut)


class ReadContext(OneOfSeveral, frozen=True):
    """Read what a session no longer shows, or see how full its context is.

    `read` takes a ref from a note or a preview: an output, a record, or a range FIRST..LAST.
    Choose a part: lines, what to search for, or an offset in characters; `nextOffset` or
    `nextLines` of the answer give the next part. `status` answers with the size of the next
    request, and `fill`, the share of the way to the next compaction.
    """

    title = "Read a context"
    tool = "context"
    audit = "context"
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

    def choose(self) -> Operation[Any]:
        if self.action == "status":
            return ReadStatus(session_key=self.session_key, window=self.window)
        if not self.ref and not (self.search and self.session_key):
            raise RequestRefused(
                "invalid",
                "the arguments are invalid: nothing to read is named; give `ref`, or `sessionKey` "
                "and `search`",
            )
        return ReadOutput(
            ref=self.ref or "..",
            session_key=self.session_key,
            offset=self.offset,
            lines=self.lines,
            search=self.search,
            max_chars=self.max_chars,
        )


class CompactContext(LiveOperation[CompactionReport], frozen=True):
    """Compact the context of a session: older messages give way to a summary.

    The log keeps every message, and a compaction can be taken back. With `preview` nothing
    is stored, and the answer says what a compaction would do.
    """

    title = "Compact a session"
    tool = "context_compact"
    audit = "compact"
    right = "write"
    is_idempotent = False
    session_key: SessionName
    focus: Annotated[
        str,
        Meta(description="What the summary should keep above all.", max_length=TEXT_CHARS_MAX),
    ] = ""
    preview: Annotated[bool, Meta(description="Only report what would be done.")] = False

    def answer(self, workspace: CallerWorkspace) -> GivenReply[CompactionReport]:
        key, reason = workspace.resolve(self.session_key, to_change=not self.preview)
        return self._compact(workspace, key, reason, _WAIT_SECONDS)

    async def act(
        self, workspace: CallerWorkspace, gateway: Gateway
    ) -> GivenReply[CompactionReport]:
        """Compact as the turns of the session do it, with their model, where the settings name its
        agent. A preview asks no model."""
        key, reason = await run_in_thread(
            lambda: workspace.resolve(self.session_key, to_change=not self.preview)
        )
        terms = await run_in_thread(workspace.context.turn_terms, key)
        if self.preview or terms is None or not terms.is_stated:
            return await run_in_thread(self._compact, workspace, key, reason, 0.0)
        async with gateway.sessions.use(key) as session:
            result = await session.compact(self.focus, wait=0)
        return await run_in_thread(_report, workspace, key, reason, result)

    def _compact(
        self, workspace: CallerWorkspace, key: SessionKey, reason: str, wait: float
    ) -> GivenReply[CompactionReport]:
        session = workspace.context.open(key)
        result = session.compact(self.focus, preview=self.preview, wait=wait)
        return _report(workspace, key, reason, result)


def _report(
    workspace: CallerWorkspace, key: SessionKey, reason: str, result: CompactionFinished
) -> GivenReply[CompactionReport]:
    answer = CompactionReport(**msgspec.structs.asdict(result), session_key=str(key))
    return GivenReply(workspace.fit(answer, "summary"), reason)


class StoreCheckpoint(Operation[CheckpointText], frozen=True):
    """Store a checkpoint of a session: requests, open tasks, decisions, failures, files.

    It is read from the session's log by code. What you state here holds until it is stated
    otherwise.
    """

    title = "Store a checkpoint"
    tool = "checkpoint_create"
    audit = "checkpoint"
    right = "write"
    is_idempotent = False
    session_key: SessionName
    current_objective: Annotated[_Entry | None, Meta(description="What is being worked on.")] = None
    pending_tasks: Annotated[_Entries | None, Meta(description="What is still to be done.")] = None
    key_decisions: Annotated[_Entries | None, Meta(description="What was decided, and why.")] = None
    fields: Annotated[
        dict[str, Any], Meta(description="Other fields of the checkpoint, by name.")
    ] = msgspec.field(default_factory=dict)

    def answer(self, workspace: CallerWorkspace) -> GivenReply[CheckpointText]:
        stated = {
            "current_objective": self.current_objective,
            "pending_tasks": self.pending_tasks,
            "key_decisions": self.key_decisions,
        }
        key, reason = workspace.resolve(self.session_key, to_change=True)
        given = {name: value for name, value in stated.items() if value is not None}
        fields = workspace.redactor.value({**self.fields, **given})
        store = workspace.store
        taken = checkpoints.take_checkpoint(store, key, extra=fields or None, clock=workspace.clock)
        record = checkpoints.save_checkpoint(store, key, taken.state)
        return GivenReply(_show(workspace, key, taken.state, record, CHECKPOINT_CHARS), reason)


class ReadCheckpoint(Operation[CheckpointText], frozen=True):
    """Read the newest checkpoint of a session; without one, its state as of now.

    Read it before you go on with work that another session began.
    """

    title = "Read a checkpoint"
    tool = "checkpoint_get"
    audit = "checkpoint"
    session_key: SessionName
    max_chars: CharLimit = CHECKPOINT_CHARS

    def answer(self, workspace: CallerWorkspace) -> GivenReply[CheckpointText]:
        key, reason = workspace.resolve(self.session_key)
        found = checkpoints.load(workspace.store, key)
        state = found.state or checkpoints.take_checkpoint(workspace.store, key).state
        return GivenReply(_show(workspace, key, state, found.record, self.max_chars), reason)


def _show(
    workspace: CallerWorkspace, key: SessionKey, state: State, record: str, max_chars: int
) -> CheckpointText:
    text = render_checkpoint(state, max_chars, redactor=workspace.redactor)
    answer = CheckpointText(session_key=str(key), record=record or None, text=text)
    return workspace.fit(answer, "text")


class ResumeSession(Operation[ResumeText], frozen=True):
    """Read a session as text to go on from: its summary, then its newest messages."""

    title = "Resume a session"
    audit = "reseed"
    session_key: SessionName
    max_chars: CharLimit = RESEED_CHARS

    def answer(self, workspace: CallerWorkspace) -> GivenReply[ResumeText]:
        key, reason = workspace.resolve(self.session_key)
        told = reseed(
            workspace.store,
            key,
            identity=workspace.caller,
            cap=self.max_chars,
            redactor=workspace.redactor,
        )
        answer = ResumeText(session_key=str(key), text=told.text, omitted_messages=told.omitted)
        return GivenReply(workspace.fit(answer, "text"), reason)


_TEXT_CHARS_MAX: Final = 4_000
"""A prompt or a policy as a parameter; both are part of an address."""
_IDLE_MAX: Final = 1e9
"""Seconds; thirty years."""


class ReadRequest(Operation[RequestReport], frozen=True):
    """The fate of every record in the next request, and the sums. Nothing is stored, so that any
    window, model or policy can be tried."""

    title = "Show the next request: sums, and the fate of every record"
    audit = "context"
    session_key: SessionName
    window: WindowTokens = None
    model: Annotated[
        str,
        Meta(
            description="The model to count for; by default the one that answers next.",
            max_length=200,
        ),
    ] = ""
    dialect: Annotated[
        str,
        Meta(
            description=f"The API to render for, one of {', '.join(DIALECTS)}, or "
            "openai-chat:mistral and the like; by default the model's.",
            max_length=50,
        ),
    ] = ""
    output: Annotated[TokenCount | None, Meta(description="Tokens to reserve for the reply.")] = (
        None
    )
    idle: Annotated[
        Annotated[float, Meta(ge=0, le=_IDLE_MAX)] | None,
        Meta(
            description="Seconds since the last call; after five minutes the prompt cache is cold."
        ),
    ] = None
    prompt: Annotated[
        str, Meta(description="The next message of the user.", max_length=_TEXT_CHARS_MAX)
    ] = ""
    policy: Annotated[
        str,
        Meta(
            description="The name of a policy, or a JSON object with thresholds that differ from "
            "today's.",
            max_length=_TEXT_CHARS_MAX,
        ),
    ] = ""
    request: Annotated[
        bool,
        Meta(
            description="Also give the request itself; only the operator sees system prompt and "
            "tools in it."
        ),
    ] = False

    def answer(self, workspace: CallerWorkspace) -> GivenReply[RequestReport]:
        key, reason = workspace.resolve(self.session_key)
        found = read_request(workspace.store, key, self.terms(workspace, key))
        request = request_for(workspace, found.prepared) if self.request else msgspec.UNSET
        return GivenReply(report_request(found, request), reason)

    def terms(self, workspace: CallerWorkspace, key: SessionKey) -> RequestTerms:
        """Return the terms of today with those that are asked for. Raises `RequestRefused`."""
        if self.dialect and self.dialect.partition(":")[0] not in DIALECTS:
            hint = f"one of {', '.join(DIALECTS)}"
            raise RequestRefused("invalid", f"there is no dialect `{self.dialect}`", hint=hint)
        now = terms_now(workspace, key)
        return replace(
            now,
            window=window_argument(self.window, "the parameter `window`"),
            model=self.model or now.model,
            own=None if self.model else now.own,
            dialect=self.dialect,
            prompt=self.prompt,
            output=self.output,
            idle=self.idle,
            policy=_read_policy(self.policy, now.policy),
        )


def terms_now(workspace: CallerWorkspace, key: SessionKey) -> RequestTerms:
    """Return the terms of the next request as a turn here works with them: those of the settings,
    where they name the agent. A session that another program may run is shown as its log tells."""
    base = workspace.context.request(key)
    if base is not None:
        return terms_of_turn(base)
    return terms_of_session(workspace.store, key, workspace.context.turn_terms(key))


def request_for(workspace: CallerWorkspace, prepared: Prepared) -> Json:
    """Return the body of a request as the caller may see it. System prompt and tools are the
    operator's: others get their sizes alone."""
    prompt = prepared.plan.prompt
    if workspace.caller == OPERATOR or not (prompt.system or prompt.tools):
        return prepared.request
    return render_body(replace(prompt, system="", tools=()), prepared.plan.target)


def _read_policy(text: str, now: Policy) -> Policy:
    """Return the policy of today with some thresholds from a JSON object, or another by its
    name."""
    if not text:
        return now
    if text in POLICIES:
        return POLICIES[text]
    try:
        given = decode_typed(text.encode("utf-8", "replace"), dict[str, Any])
    except (msgspec.DecodeError, RecursionError) as error:
        raise RequestRefused(
            "invalid",
            f"the policy is not a JSON object: {error}",
            hint='pass one such as {"compact": 0.8}',
        ) from error
    return policy_from(given, now)
