"""The tool calls of a session that wait for something, as their caller sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from holdfast.engine import session as parts

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Content
    from holdfast.engine.session.handles.own_loop import AsyncFlowRun, FlowRun
    from holdfast.engine.session.state import SessionState


class _Calls:
    def __init__(self, state: Callable[[], SessionState]) -> None:
        self._read_state = state

    @property
    def _state(self) -> SessionState:
        return self._read_state()  # in fresh mode a session goes on in another log

    def _deliver(self, key: str, content: Content, is_error: bool, details: Any) -> Flow[str]:
        run = self._state.run
        return parts.deliver(run, key, content, is_error=is_error, details=details)


class ToolCalls(_Calls):
    """The tool calls of a session whose last word was not said. `session.calls` is one."""

    def __init__(self, state: Callable[[], SessionState], run: FlowRun) -> None:
        super().__init__(state)
        self._run = run

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

    async def deliver(
        self, key: str, content: Content, *, is_error: bool = False, details: Any = None
    ) -> str:
        return await self._run(self._deliver(key, content, is_error, details))
