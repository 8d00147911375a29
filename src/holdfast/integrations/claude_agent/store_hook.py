"""The part that hooks over a store share: one event, off the event loop, no error for the agent."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final

from holdfast.integrations.common.blocking import read_in_thread
from holdfast.integrations.common.home import PeerHome

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.ports import SessionStore

_log: Final = logging.getLogger(__name__)


class StoreHook(ABC):
    """Answers one event of the SDK from a store.

    `root` is the address of a store, `store` an open one. An error costs the answer, never the
    tool call or the prompt. The log names it once, and again only after an answer in between.
    """

    event: ClassVar[str]
    """The event to register the hook for."""
    purpose: ClassVar[str]
    """The work that an error prevents, for the log."""

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        agent: str | None = None,
        owner: str = "",
    ) -> None:
        self._home = PeerHome(type(self).__name__, root=root, store=store, agent=agent, owner=owner)
        self._is_failing = False

    async def __call__(
        self, hook_input: Mapping[str, Any], _tool_use_id: str | None, _context: Any
    ) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        try:
            if hook_input.get("hook_event_name") == self.event:
                fields = await read_in_thread(lambda: self._answer(hook_input))
                self._is_failing = False
        except Exception as error:  # a hook that raises would stop the agent
            if not self._is_failing:
                _log.warning("%s: could not %s: %s", type(self).__name__, self.purpose, error)
            self._is_failing = True
        if not fields:
            return {"continue_": True}
        return {"continue_": True, "hookSpecificOutput": {"hookEventName": self.event, **fields}}

    def close(self) -> None:
        """Release the store. The hook answers nothing afterwards."""
        self._home.close()

    @abstractmethod
    def _answer(self, hook_input: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of the answer beside the event's name; none changes nothing."""
