"""The tool calls of a session that wait for something, as their caller sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.core.turn.approvals import decide, find_call, waiting_calls
from holdfast.core.turn.calls import APPROVED, DENIED
from holdfast.core.turn.turn import deliver

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Content, Json
    from holdfast.core.turn.calls import ParkedCall
    from holdfast.engine.session.handles.own_loop import AsyncFlowRun, FlowRun
    from holdfast.engine.session.state import SessionState


class _Calls:
    def __init__(self, state: Callable[[], SessionState]) -> None:
        self._read_state = state

    @property
    def _state(self) -> SessionState:
        return self._read_state()  # in fresh mode a session goes on in another log

    def _decide(self, key: str, state: str, **more: Any) -> Flow[ParkedCall]:
        return decide(self._state.run, key, state, **more)

    def _deliver(self, key: str, content: Content, is_error: bool, details: Any) -> Flow[str]:
        run = self._state.run
        return deliver(run, key, content, is_error=is_error, details=details)


class ToolCalls(_Calls):
    """The tool calls of a session whose last word was not said. `session.calls` is one."""

    def __init__(self, state: Callable[[], SessionState], run: FlowRun) -> None:
        super().__init__(state)
        self._run = run

    def waiting(self) -> list[ParkedCall]:
        """Return the calls that wait for the approval of a person, oldest first."""
        return self._run(waiting_calls(self._state.run))

    def find(self, key: str) -> ParkedCall | None:
        """Return a call that waits or waited for approval, with what became of it; None where the
        session's path has none of that key."""
        return self._run(find_call(self._state.run, key))

    def approve(
        self,
        key: str,
        *,
        by: str = "",
        arguments: Json | None = None,
        always: bool = False,
    ) -> ParkedCall:
        """Approve a call that waits, with other `arguments` where those are given; returns it as
        it is then. With `always`, later calls of the tool in this session need no approval for the
        same reason.

        It runs when the session goes on: `resume`, or the next message. The first decision counts.
        Where the tool names approvers, `by` is one of them, or `AccessDenied` is raised.
        """
        more: Any = {"by": by, "arguments": arguments, "always": always}
        return self._run(self._decide(key, APPROVED, **more))

    def deny(self, key: str, words: str = "", *, by: str = "") -> ParkedCall:
        """Deny a call that waits, with words for the model; returns it as it is then. The first
        decision counts."""
        return self._run(self._decide(key, DENIED, by=by, words=words))

    def deliver(
        self, key: str, content: Content, *, is_error: bool = False, details: Any = None
    ) -> str:
        """Store the result of a call that comes late, by the `CallKey` that its tool was given;
        returns its record id. The same key again changes nothing.

        It becomes the result of the call, or news where a request has gone out without it.
        `resume` has the model answer it.
        """
        return self._run(self._deliver(key, content, is_error, details))


class AsyncToolCalls(_Calls):
    """The methods of `ToolCalls`, awaited."""

    def __init__(self, state: Callable[[], SessionState], run: AsyncFlowRun) -> None:
        super().__init__(state)
        self._run = run

    async def waiting(self) -> list[ParkedCall]:
        return await self._run(waiting_calls(self._state.run))

    async def find(self, key: str) -> ParkedCall | None:
        return await self._run(find_call(self._state.run, key))

    async def approve(
        self,
        key: str,
        *,
        by: str = "",
        arguments: Json | None = None,
        always: bool = False,
    ) -> ParkedCall:
        more: Any = {"by": by, "arguments": arguments, "always": always}
        return await self._run(self._decide(key, APPROVED, **more))

    async def deny(self, key: str, words: str = "", *, by: str = "") -> ParkedCall:
        return await self._run(self._decide(key, DENIED, by=by, words=words))

    async def deliver(
        self, key: str, content: Content, *, is_error: bool = False, details: Any = None
    ) -> str:
        return await self._run(self._deliver(key, content, is_error, details))
