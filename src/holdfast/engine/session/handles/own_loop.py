"""A loop of the caller's own over a session: messages stored, requests made, replies recorded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, Unpack

from holdfast.core.flow.arguments import check_argument, check_callable, check_text
from holdfast.core.models.replies import Reply
from holdfast.core.turn.turn import add_result, add_user, answer_once, inject_context
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.session.prepare import render_plan
from holdfast.engine.session.reading import answer_context, read_output
from holdfast.providers.callables import async_from_callable, from_callable
from holdfast.providers.replies import read_reply, read_reply_async

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Content, Json
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.outputs.excerpts import Excerpt, ExcerptOptions
    from holdfast.engine.session.prepare import Prepared
    from holdfast.engine.session.state import SessionState
    from holdfast.engine.tool_values import ToolOutput
    from holdfast.ports import AsyncModel, Model, OnDelta

T = TypeVar("T")


class FlowRun(Protocol):
    """Runs a flow of a session on the calling thread."""

    def __call__(
        self, flow: Flow[T], on_delta: OnDelta | None = None, *, model: Model | None = None
    ) -> T: ...


class AsyncFlowRun(Protocol):
    """Runs a flow of a session on an event loop."""

    async def __call__(
        self, flow: Flow[T], on_delta: OnDelta | None = None, *, model: AsyncModel | None = None
    ) -> T: ...


class _LoopBase:
    """The methods that need no driver."""

    def __init__(self, state: Callable[[], SessionState]) -> None:
        self._read_state = state

    @property
    def _state(self) -> SessionState:
        return self._read_state()  # in fresh mode a session goes on in another log

    def answer_context(self, call: ToolCall) -> ToolOutput:
        """Answer a call of the tool `context`, for a loop that declares it
        (`context_declaration`). A mistake of the model is an answer, too. It reads and blocks: on
        an event loop, call it in a thread."""
        return answer_context(self._state, call)

    def resolve(self, arguments: Json, tool: str) -> Json:
        """Put the values of registered secrets into the arguments of a tool call, in place of
        their handles."""
        check_argument("arguments", arguments, dict, "the arguments of a call")
        check_text("tool", tool)
        return self._state.vault.resolve(arguments, tool)


class OwnLoop(_LoopBase):
    """Your own loop over a session: you make the calls and run the tools, Holdfast builds each
    request so that it fits, and stores what comes back. `session.own_loop` is one."""

    def __init__(self, state: Callable[[], SessionState], run: FlowRun, run_turn: FlowRun) -> None:
        """`run_turn` runs a flow while no other turn of the session runs."""
        super().__init__(state)
        self._run, self._run_turn = run, run_turn

    def add_user(
        self,
        content: Content,
        *,
        name: str | None = None,
        key: str | None = None,
        extra: Json | None = None,
    ) -> str:
        """Store a user message; returns its record id. `key` and `extra` are those of `say`."""
        return self._run(add_user(self._state.run, content, name, key=key, extra=extra))

    def inject_context(self, text: str, *, source: str) -> str:
        """Store context for the model, before the next user message; returns its record id.

        The next request shows it once, fenced as data and labelled with its `source`."""
        return self._run(inject_context(self._state.run, text, source))

    def add_result(
        self, call_id: str, content: Content, *, is_error: bool = False, details: Any = None
    ) -> str:
        """Store the result of a tool call; returns its record id."""
        run = self._state.run
        flow = add_result(run, call_id, content, is_error=is_error, details=details)
        return self._run(flow)

    def call(self, send: Callable[[Json], Any], *, on_delta: OnDelta | None = None) -> Reply:
        """Get one reply through a client of your own: `send` gets a request that fits, its reply
        is stored, and a refusal leads to a smaller request."""
        check_callable("send", send)
        model = from_callable(send, self._state.run.settings.target, self._state.run.window)
        return self._run_turn(answer_once(self._state.run), on_delta, model=model)

    def prepare(self, *, failed: object = None) -> Prepared:
        """Return the next request for you to send; `record` stores the reply.

        With the error of the last attempt in `failed`, the request is smaller in the dimension
        that was refused; a rate limit is waited for first. Raises `ModelError` where recovery
        ends.
        """
        plan = self._run_turn(self._state.prepared_calls.prepare(failed))
        return render_plan(plan, self._state.world.turn_writer())

    def record(self, reply: object) -> Reply:
        """Store a reply: an SDK's object, its JSON, a stream of either, or a `Reply`."""
        found = (
            reply
            if isinstance(reply, Reply)
            else read_reply(reply, self._state.run.settings.target)
        )
        return self._run_turn(self._state.prepared_calls.record(found))

    def read_output(self, ref: str, **part: Unpack[ExcerptOptions]) -> Excerpt:
        """Read a part of an output that was moved out of the log, or of a shortened record.

        `lines` is `"120:180"`, `"-50:"`…; a `pattern` selects the lines that match.
        """
        return read_output(self._state, ref, part)


class AsyncOwnLoop(_LoopBase):
    """The methods of `OwnLoop`, awaited."""

    def __init__(
        self, state: Callable[[], SessionState], run: AsyncFlowRun, run_turn: AsyncFlowRun
    ) -> None:
        super().__init__(state)
        self._run, self._run_turn = run, run_turn

    async def add_user(
        self,
        content: Content,
        *,
        name: str | None = None,
        key: str | None = None,
        extra: Json | None = None,
    ) -> str:
        return await self._run(add_user(self._state.run, content, name, key=key, extra=extra))

    async def inject_context(self, text: str, *, source: str) -> str:
        return await self._run(inject_context(self._state.run, text, source))

    async def add_result(
        self, call_id: str, content: Content, *, is_error: bool = False, details: Any = None
    ) -> str:
        run = self._state.run
        flow = add_result(run, call_id, content, is_error=is_error, details=details)
        return await self._run(flow)

    async def call(self, send: Callable[[Json], Any], *, on_delta: OnDelta | None = None) -> Reply:
        check_callable("send", send)
        model = async_from_callable(send, self._state.run.settings.target, self._state.run.window)
        return await self._run_turn(answer_once(self._state.run), on_delta, model=model)

    async def prepare(self, *, failed: object = None) -> Prepared:
        plan = await self._run_turn(self._state.prepared_calls.prepare(failed))
        return render_plan(plan, self._state.world.turn_writer())

    async def record(self, reply: object) -> Reply:
        found = (
            reply
            if isinstance(reply, Reply)
            else await read_reply_async(reply, self._state.run.settings.target)
        )
        return await self._run_turn(self._state.prepared_calls.record(found))

    async def read_output(self, ref: str, **part: Unpack[ExcerptOptions]) -> Excerpt:
        return await run_in_thread(read_output, self._state, ref, part)
