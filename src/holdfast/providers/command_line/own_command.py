"""Any other command: the prompt on its input, the answer on its output.

Output is the answer as it stands, or lines of JSON: `{"type": "session", "id": …}`,
`{"type": "text", "text": …}` for a piece of the answer, `{"type": "error", "message": …}`, which
has `"code": "unknown_session"` where the session is not known any more. A command that names no
session is told the conversation each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.models.replies import Delta
from holdfast.providers.command_line.output import (
    BackendGone,
    CommandFailed,
    ProgramAnswer,
    ProgramReader,
    read_event,
    report_exit,
    report_refusal,
    text_at,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json

SESSION_VARIABLE: Final = "HOLDFAST_BACKEND_SESSION"
"""Names the session to resume; empty where a new one is to begin."""
_KINDS: Final = ("session", "text", "error")
_TEXT_CHARS_MAX: Final = 8_000_000
"""The longest answer: more than any window holds."""


class OwnCommandReader(ProgramReader):
    """Reads plain text, or lines of JSON."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._chars = 0
        self._is_json: bool | None = None
        self._error: Json | None = None

    def take(self, line: bytes) -> Sequence[Delta]:
        event = read_event(line)
        if self._is_json is None and line.strip():
            self._is_json = event.get("type") in _KINDS
        if not self._is_json:
            return self._add(line.decode(errors="replace") + "\n")
        match event.get("type"):
            case "session":
                self.session = text_at(event, "id")
            case "text":
                return self._add(text_at(event, "text"))
            case "error":
                self._error = event
        return ()

    def _add(self, said: str) -> Sequence[Delta]:
        self._chars += len(said)
        if self._chars > _TEXT_CHARS_MAX:
            raise CommandFailed(
                f"`{self._name}` wrote more than {_TEXT_CHARS_MAX:,} characters", "output"
            )
        self.parts.append(said)
        return (Delta("text", said),) if said else ()

    def finish(self, code: int, errors: str) -> ProgramAnswer:
        if self._error is not None:
            if text_at(self._error, "code") == "unknown_session":
                raise BackendGone("it no longer knows its session")
            status = self._error.get("status")
            raise report_refusal(
                self._name,
                text_at(self._error, "message"),
                status=status if isinstance(status, int) else None,
                has_worked=False,
            )
        answer = self.text if self._is_json else self.text.removesuffix("\n")
        if code or not answer.strip():
            raise report_exit(self._name, code, errors, found="wrote no answer")
        return ProgramAnswer(text=answer, session=self.session)
