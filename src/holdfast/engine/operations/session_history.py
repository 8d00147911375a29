"""`sessions_history`: what a session says, for another agent or a person, within one cap.

Each call is decided, read, redacted, bounded and audited, in that order. A refusal is data like any
other reply; nothing here raises for what a caller asks. The newest page costs the page: records are
read back from the end, and only those that fit are looked at closely.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from holdfast.config import AGENT_DEFAULT
from holdfast.core.limits import HISTORY_BYTES_MAX
from holdfast.engine.history.lookup import CURRENT
from holdfast.engine.operations.history import ListSessions, ReadMessages
from holdfast.engine.operations.tools import TOOLS
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.history.access import Caller
    from holdfast.core.log.records import Json
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.engine.tools import ToolFunction
    from holdfast.ports import Audit, Clock, SessionStore

_READ, _LIST = TOOLS[ReadMessages.tool], TOOLS[ListSessions.tool]
_NAMES = dict(
    zip(ReadMessages.__struct_fields__, ReadMessages.__struct_encode_fields__, strict=True)
)


class History:
    """The sessions of a store as one caller may read them."""

    def __init__(
        self,
        store: SessionStore,
        *,
        caller: Caller,
        redactor: Redactor | None = None,
        clock: Clock = time.time,
        max_bytes: int = HISTORY_BYTES_MAX,
        agent: str = AGENT_DEFAULT,
    ) -> None:
        """A bare id means a session of the caller's agent, or of `agent` if the caller has none."""
        if max_bytes < 0:
            raise UsageError(f"a reply cannot have {max_bytes} bytes", hint="give a cap from 0 up")
        self.audit: Audit = store.audit
        self._workspace = CallerWorkspace(
            store, caller, redactor=redactor, clock=clock, max_bytes=max_bytes, agent=agent
        )

    def read(self, session: Any = CURRENT, **asked: Any) -> Json:
        """A page of messages, or a part of an output, as data. Refusals are replies, too.

        `asked` are the parameters of the tool, as Python writes them: the newest `limit` messages,
        those before a `cursor`, those `around` a record, or those that contain all words of a
        `query`; with `output_ref_path` it is a part of an offloaded payload instead.
        """
        return _READ.data(self._workspace, _arguments(session, asked))

    def text(self, session: Any = CURRENT, **asked: Any) -> str:
        """`read` as compact JSON of at most `max_bytes`; it accepts any arguments a model gives."""
        return _READ.text(self._workspace, _arguments(session, asked))

    def sessions(self, **asked: Any) -> Json:
        """The sessions that the caller may read, the most recently active first."""
        return _LIST.data(self._workspace, asked)

    def sessions_text(self, **asked: Any) -> str:
        """`sessions` as compact JSON of at most `max_bytes`."""
        return _LIST.text(self._workspace, asked)

    def tools(self) -> tuple[ToolFunction, ...]:
        """`sessions_history` and `sessions_list` for a model that acts for the caller."""
        return _READ.bind(self._workspace), _LIST.bind(self._workspace)


def _arguments(session: Any, asked: Json) -> Json:
    return {_NAMES.get(name, name): value for name, value in asked.items()} | {
        "sessionKey": session
    }
