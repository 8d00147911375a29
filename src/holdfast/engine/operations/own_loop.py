"""Operations for a loop of the client's own: it makes the calls and runs the tools.

They are `session.own_loop` for programs in any language: a message is in the log before the first
call, a reply before its client sees it, a result before the next call. Every one of them may be
repeated: what is stored is stored once.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta
from msgspec.structs import replace

from holdfast.core.flow.arguments import check_message
from holdfast.core.history.answers import Result
from holdfast.core.limits import MESSAGE_KEY_CHARS_MAX
from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.core.models.messages import ToolCall, read_blocks, read_tools
from holdfast.core.parameters import SessionName, TokenCount, WindowTokens
from holdfast.core.turn.replies import reply_of
from holdfast.core.window import window_argument
from holdfast.engine.gateway.own_loops import LoopTerms, RefusedCall
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import LiveOperation, Operation, run_in_thread
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Record
    from holdfast.core.models.replies import Reply
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.workspace.workspace import CallerWorkspace

_NEAR_RECORDS: Final = 500
"""Records at the end of a log among which a repeated reply or result is looked for."""
_SYSTEM_CHARS_MAX: Final = 1_000_000
"""More than the window of any model."""
_TOOLS_MAX: Final = 1_000
"""More than any provider takes."""
_OwnModel = Annotated[
    str,
    Meta(description="The model that the client calls, as `anthropic:NAME`.", max_length=200),
]
_System = Annotated[str, Meta(description="The system prompt.", max_length=_SYSTEM_CHARS_MAX)]
_Tools = Annotated[
    list[dict[str, Any]],
    Meta(
        description="The tools, each with `name`, `description` and `parameters`.",
        max_length=_TOOLS_MAX,
    ),
]
_Key = Annotated[
    str,
    Meta(
        description="A key of what is stored. The same key again stores nothing more.",
        max_length=MESSAGE_KEY_CHARS_MAX,
    ),
]
_Content = Annotated[
    str | list[dict[str, Any]], Meta(description="Words, or blocks as in the log.")
]
LoopState = Literal["user", "call", "results"]


class StoredInLoop(Result, frozen=True):
    """A record of an own loop."""

    record: str
    """The record that holds it."""


class LoopCall(Result, frozen=True):
    """A call of a tool."""

    id: str
    """The id to answer it by."""
    name: str
    """The name of the tool."""
    arguments: dict[str, Any]
    """The arguments, parsed."""


class LoopPosition(Result, frozen=True):
    """The place at which a loop stands."""

    next: LoopState
    """`user`: a message of the user. `call`: a call of the model. `results`: those of open
    calls."""
    calls: list[LoopCall]
    """The calls that have no result yet."""
    record: str
    """The newest message."""


class PreparedCall(Result, frozen=True):
    """A request that is ready to be sent."""

    request: dict[str, Any]
    """The body for the provider."""
    prepared: str
    """The name of the request, for the reply to it."""
    dialect: str
    """The API that the body is for."""
    tokens: int
    """The size of the request."""
    tokens_before: int
    """The size of the messages if nothing had been cut."""
    window_tokens: int
    """The context window of the model."""
    decisions: list[str]
    """The types of the decisions that were stored for it."""
    warnings: list[str]
    """Troubles that a person should know of."""


class RecordedReply(Result, frozen=True):
    """A reply that is in the log."""

    record: str
    """The record that holds it."""
    text: str
    """Its words."""
    calls: list[LoopCall]
    """The tools that it calls."""
    stop: str
    """The reason why it ended, in one word for every provider."""


class AddLoopMessage(LiveOperation[StoredInLoop], frozen=True):
    """Store a message of the user for an own loop. It is durable when this answers."""

    title = "Own loop: store a message of the user"
    audit = "send"
    right = "write"
    session_key: SessionName
    content: _Content
    idempotency_key: _Key = ""

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[StoredInLoop]:
        def work() -> GivenReply[StoredInLoop]:
            key, reason = workspace.resolve(self.session_key, to_change=True)
            check_message(self.content)
            with gateway.loops.use(key) as loop:
                record = loop.session.own_loop.add_user(
                    self.content, key=self.idempotency_key or None
                )
            return GivenReply(StoredInLoop(record), reason)

        return await run_in_thread(work)


class PrepareCall(LiveOperation[PreparedCall], frozen=True):
    """Build the next request of an own loop, so that it fits. The client sends it.

    After a refusal, `failedStatus` and `failedBody` say what the provider answered; the request is
    smaller then in what was refused. Where nothing helps, that is said. A call without a result is
    shown to the model as interrupted.
    """

    title = "Own loop: build the next request"
    audit = "context"
    right = "write"
    session_key: SessionName
    model: _OwnModel
    system: _System = ""
    tools: _Tools = msgspec.field(default_factory=list)
    window: WindowTokens = None
    output: Annotated[TokenCount | None, Meta(description="Tokens to reserve for the reply.")] = (
        None
    )
    failed_status: Annotated[
        Annotated[int, Meta(ge=0, le=999)] | None,
        Meta(description="The status of the refusal; 0 where there was no answer."),
    ] = None
    failed_body: Annotated[
        str | dict[str, Any], Meta(description="The body of the refusal, or a sentence.")
    ] = ""

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[PreparedCall]:
        terms = _terms_of(self)

        def work() -> GivenReply[PreparedCall]:
            key, reason = workspace.resolve(self.session_key, to_change=True)
            failed = None
            if self.failed_status is not None:
                failed = RefusedCall(self.failed_status or None, self.failed_body)
            with gateway.loops.use(key, terms) as loop:
                found = loop.prepare(failed)
            plan = found.plan
            return GivenReply(
                PreparedCall(
                    request=found.request,
                    prepared=loop.prepared,
                    dialect=plan.target.dialect.name,
                    tokens=plan.tokens.total,
                    tokens_before=plan.tokens_before,
                    window_tokens=plan.window.tokens,
                    decisions=[record.kind for record in plan.decisions],
                    warnings=[workspace.mask(warning) for warning in plan.warnings],
                ),
                reason,
                is_masked=True,  # the model needs every word, and the caller owns the session
            )

        return await run_in_thread(work)


class RecordReply(LiveOperation[RecordedReply], frozen=True):
    """Store the reply to a prepared request, as the provider sent it. It is durable when this
    answers, and its calls may run."""

    title = "Own loop: store the reply"
    audit = "send"
    right = "write"
    session_key: SessionName
    model: _OwnModel
    reply: Annotated[
        dict[str, Any] | list[dict[str, Any]],
        Meta(description="The JSON that the provider answered with, or the events of its stream."),
    ]
    prepared: Annotated[
        str, Meta(description="The name of the request, as it was prepared.", max_length=200)
    ] = ""
    system: _System = ""
    tools: _Tools = msgspec.field(default_factory=list)
    window: WindowTokens = None
    output: Annotated[TokenCount | None, Meta(description="Tokens to reserve for the reply.")] = (
        None
    )
    idempotency_key: _Key = ""

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[RecordedReply]:
        terms = _terms_of(self)

        def work() -> GivenReply[RecordedReply]:
            key, reason = workspace.resolve(self.session_key, to_change=True)
            with gateway.loops.use(key, terms) as loop:
                stored = _find_reply(loop.records(_NEAR_RECORDS), self.idempotency_key)
                if stored is None:
                    reply = loop.record(self.reply, self.prepared, self.idempotency_key)
                else:
                    reply = replace(reply_of(stored), stop=loop.read(self.reply).stop)
            return GivenReply(_show(reply), reason, is_masked=True)

        return await run_in_thread(work)


class AddCallResult(LiveOperation[StoredInLoop], frozen=True):
    """Store the result of a tool that an own loop ran. It is durable when this answers. The same
    result again is stored once; another one for the same call is refused."""

    title = "Own loop: store the result of a tool"
    audit = "send"
    right = "write"
    session_key: SessionName
    call_id: Annotated[str, Meta(description="The id of the call.", min_length=1, max_length=500)]
    content: _Content
    is_error: Annotated[bool, Meta(description="The tool failed.")] = False

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[StoredInLoop]:
        def work() -> GivenReply[StoredInLoop]:
            key, reason = workspace.resolve(self.session_key, to_change=True)
            with gateway.loops.use(key) as loop:
                try:
                    record = loop.session.own_loop.add_result(
                        self.call_id, self.content, is_error=self.is_error
                    )
                except UsageError:
                    record = _find_result(loop.records(_NEAR_RECORDS), self)
                    if not record:
                        raise
            return GivenReply(StoredInLoop(record), reason)

        return await run_in_thread(work)


class ReadLoop(Operation[LoopPosition], frozen=True):
    """Tell where an own loop stands, so that a client that was ended can go on: with the results of
    open calls, with a call of the model, or with the user."""

    title = "Own loop: its current state"
    audit = "read"
    session_key: SessionName

    def answer(self, workspace: CallerWorkspace) -> GivenReply[LoopPosition]:
        key, reason = workspace.resolve(self.session_key)
        newest = workspace.store.back(key)
        return GivenReply(_position(islice(newest, _NEAR_RECORDS)), reason)


def _terms_of(asked: PrepareCall | RecordReply) -> LoopTerms:
    """The terms of a loop. Raises `RequestRefused` for tools that cannot be read."""
    tools = read_tools(asked.tools)
    if len(tools) != len(asked.tools):
        raise RequestRefused(
            "invalid",
            f"{len(asked.tools) - len(tools)} of the tools cannot be read",
            hint="give each a `name`, a `description` and `parameters`",
        )
    window = window_argument(asked.window, "the parameter `window`")
    return LoopTerms(asked.model, asked.system, tools, window, asked.output)


def _find_reply(newest: Iterator[Record], name: str) -> Assistant | None:
    """The reply that was stored under a key."""
    if not name:
        return None
    found = (record for record in newest if isinstance(record, Assistant))
    return next((record for record in found if record.extra.get("key") == name), None)


def _find_result(newest: Iterator[Record], asked: AddCallResult) -> str:
    """The record of an equal result; empty where there is none."""
    for record in newest:
        if isinstance(record, ToolResult) and record.tool_use_id == asked.call_id:
            is_same = record.content == asked.content or record.output_ref is not None
            return record.id if is_same and bool(record.is_error) == asked.is_error else ""
    return ""


def _position(newest: Iterator[Record]) -> LoopPosition:
    answered: set[str] = set()
    first = ""
    for record in newest:
        if not isinstance(record, User | Assistant | ToolResult):
            continue
        first = first or record.id
        if isinstance(record, ToolResult):
            answered.add(record.tool_use_id)
        elif isinstance(record, User):
            return LoopPosition("call", [], first)
        else:
            calls = [call for call in _calls_in(record) if call.id not in answered]
            state: LoopState = "results" if calls else "call" if answered else "user"
            return LoopPosition(state, calls, first)
    return LoopPosition("user", [], first)


def _calls_in(record: Assistant) -> list[LoopCall]:
    blocks = read_blocks(record.content) if isinstance(record.content, list) else ()
    return [_show_call(block) for block in blocks if isinstance(block, ToolCall)]


def _show_call(call: ToolCall) -> LoopCall:
    return LoopCall(call.id, call.name, call.arguments)


def _show(reply: Reply) -> RecordedReply:
    return RecordedReply(reply.record, reply.text, list(map(_show_call, reply.calls)), reply.stop)
