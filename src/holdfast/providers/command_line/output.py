"""The output of an agent's command line, and the ways in which it fails."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.common.reading import ReplyFailed
from holdfast.core.failures.classify import Symptoms, classify
from holdfast.core.models.replies import Delta
from holdfast.core.text.cut import cut

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json


_SAID_CHARS: Final = 1_000
"""Of a program's own words in an error."""


class BackendGone(Exception):
    """The backend's session cannot go on; a new one can. The reason is a sentence's end."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class WindowFull(BackendGone):
    """The backend's context window is full, no matter who says so. What a turn did before is lost
    with its session, but every later turn would fail in it, too."""

    def __init__(self) -> None:
        super().__init__("its context window is full")


class CommandFailed(ReplyFailed):
    """A command that did not answer. It may have done part of its work, so that nothing but its
    caller repeats it; `core/failures/rules.py` knows its types."""

    def __init__(self, what: str, kind: str) -> None:
        super().__init__(what, {"error": {"type": f"command_{kind}"}})


class ProgramAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The answer of one run."""

    text: str
    session: str = ""
    model: str = ""
    stop_reason: str = ""
    usage: Json | None = None
    cost: float | None = None


class CallPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One run of a command."""

    session: str
    """The backend's session: the one to resume, or the name for a new one where the program takes
    one."""
    is_new: bool
    is_kept: bool
    """False for a conversation of one message, such as a request for a summary."""
    system: str
    streams: bool


class ProgramReader(ABC):
    """Reads the lines of one run."""

    def __init__(self) -> None:
        self.session = ""
        """The session in which it answers, once it has said so."""
        self.parts: list[str] = []
        """The text of the answer so far."""
        self.has_worked = False
        """True once it has done something that a second run would repeat."""

    @property
    def text(self) -> str:
        return "".join(self.parts)

    @abstractmethod
    def take(self, line: bytes) -> Sequence[Delta]:
        """Read a line; raises `BackendGone` or an error that the program reports."""

    @abstractmethod
    def finish(self, code: int, errors: str) -> ProgramAnswer:
        """The answer, after the last line; raises where there is none."""


def read_event(line: bytes) -> Json:
    """The JSON object in a line; an empty one where there is none: programs print notices, too."""
    try:
        found: Any = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def text_at(event: object, *path: str) -> str:
    """The text at a path of keys; empty where there is none."""
    for name in path:
        event = event.get(name) if isinstance(event, dict) else None
    return event if isinstance(event, str) else ""


def report_exit(name: str, code: int, errors: str, *, found: str) -> CommandFailed:
    """The failure of a run that ended without an answer."""
    said = f": {cut(errors, _SAID_CHARS, keep='tail').text}" if errors else ""
    if code < 0:
        return CommandFailed(f"`{name}` was killed by signal {-code}{said}", "killed")
    return CommandFailed(f"`{name}` exited with {code} and {found}{said}", "output")


def report_refusal(
    name: str, message: str, *, status: int | None, has_worked: bool
) -> ReplyFailed | WindowFull:
    """The failure that a program reports of its provider. Where tools ran, waiting and trying
    again would run them a second time."""
    if classify(Symptoms(status=status, message=message)).kind == "context_overflow":
        return WindowFull()
    said = cut(message or "(no message)", _SAID_CHARS).text
    if has_worked:
        return CommandFailed(f"`{name}` failed amid its work: {said}", "work")
    body: Json = {"message": said} if status is None else {"message": said, "status": status}
    return ReplyFailed(f"`{name}` did not answer", {"error": body})


def report_overflow(name: str, reason: str) -> ReplyFailed:
    """The failure of a new session whose window is too small even for a short prompt."""
    body: Json = {"code": "context_length_exceeded", "message": reason}
    return ReplyFailed(f"`{name}` did not answer", {"error": body})


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
