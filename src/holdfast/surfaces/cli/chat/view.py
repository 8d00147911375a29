"""Views of a chat: for a person at a terminal or in a pipe, and as JSON lines for a program."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from holdfast.core.flow.events import (
    CallFailed,
    CallStarted,
    CompactionFinished,
    CompactionStarted,
    ToolStarted,
    TurnFinished,
)
from holdfast.errors import HoldfastError, ModelError
from holdfast.surfaces.answers import dim
from holdfast.surfaces.cli.chat.console import Console
from holdfast.surfaces.cli.chat.notices import gist, notice
from holdfast.surfaces.cli.terminal import error_fields

if TYPE_CHECKING:
    from holdfast.core.models.replies import Delta, Reply
    from holdfast.surfaces.answers import CommandAnswer, StyledLine
    from holdfast.surfaces.cli.terminal import Output

_STOPS: Final = {
    "length": "the reply reached its length limit: type “continue”",
    "window": "the reply was cut off because the window was full",
    "refusal": "the model declined",
    "steps": "the turn reached its step limit: /continue goes on",
    "approval": "a call waits for the approval of a person: /continue goes on after it",
}


class ChatView(Protocol):
    """Shows a chat."""

    def welcome(self, words: list[StyledLine], facts: dict[str, Any], /) -> None: ...
    def begin(self, model: str, /) -> None: ...
    def delta(self, delta: Delta) -> None: ...
    def event(self, event: Any) -> None: ...
    def end(self, reply: Reply | None) -> None: ...
    def cancel(self, *, is_turn: bool) -> None: ...
    def answer(self, answer: CommandAnswer) -> None: ...
    def error(self, error: HoldfastError) -> None: ...
    def fault(self, error: Exception) -> None: ...
    def note(self, text: str) -> None: ...
    def busy(self, text: str) -> None: ...
    def idle(self) -> None: ...


class Screen:
    """A view for people. In a pipe, replies and answers go to stdout, the rest to stderr."""

    def __init__(self, out: Output, *, is_live: bool) -> None:
        self._out = out
        self._console = Console(is_live=is_live, mask=out.mask)
        self._model = "the model"
        self._has_text = False
        self._attempt = 1

    def welcome(self, words: list[StyledLine], _facts: dict[str, Any], /) -> None:
        self.idle()
        for line in words:
            self._console.notice(line)

    def begin(self, model: str, /) -> None:
        self._model = model
        self._has_text = False
        self._attempt = 1

    def delta(self, delta: Delta) -> None:
        if delta.kind == "call":
            self.busy(f"{self._model} is calling {delta.text}")
        elif delta.kind == "text" or self._console.is_live:
            self._has_text = self._has_text or delta.kind == "text"
            self._console.stream(delta.text, delta.kind)

    def event(self, event: Any) -> None:
        """Show the notice of an event, and a spinner for the work that it starts."""
        words = notice(event, attempt=self._attempt)
        if words is not None:
            self._console.notice(words)
        match event:
            case CallStarted(purpose="turn", attempt=attempt):
                self._attempt = attempt
                again = f", attempt {attempt}" if attempt > 1 else ""
                self.busy(f"waiting for {self._model}{again}")
            case CallFailed(next="wait", seconds=seconds):
                self._console.busy(f"waiting for the rate limit of {self._model}", seconds)
            case ToolStarted(call=call):
                self.idle()
                self.busy(f"{call.name} {gist(call)}")
            case CompactionStarted(messages=messages, tokens=tokens, reason=reason):
                self.idle()
                if reason == "asked" and self._console.is_live:
                    self._console.notice(dim("  Compacting history..."))
                self.busy(f"compacting {messages:,} messages, {tokens:,} tokens")
            case CompactionFinished():
                self.idle()
            case _:  # nothing that takes time starts or ends
                pass

    def end(self, reply: Reply | None) -> None:
        if reply is not None and not self._has_text and reply.text.strip():
            self._console.stream(reply.text, "text")
        self.idle()
        if reply is not None and reply.stop in _STOPS:
            self.note(f"  [{reply.stop}] {_STOPS[reply.stop]}")
        self._console.gap()

    def cancel(self, *, is_turn: bool) -> None:
        stored = "everything up to here is stored; /undo takes the turn back"
        self.note(f"  [cancelled] {stored if is_turn else 'the session is unchanged'}")
        self._console.gap()

    def answer(self, answer: CommandAnswer) -> None:
        self.idle()
        for part in answer.parts:
            self._console.show(part)
        self._console.gap()

    def error(self, error: HoldfastError) -> None:
        self.idle()
        self._out.error(error)
        if isinstance(error, ModelError):
            self.note("  your message is stored: /continue tries again")
        self._console.gap()

    def fault(self, error: Exception) -> None:
        self.idle()
        hint = "this is a bug; the session is on disk, and /continue tries again"
        self._out.error(HoldfastError(f"{type(error).__name__}: {error}", hint=hint))
        self._console.gap()

    def note(self, text: str) -> None:
        self._console.notice(dim(text))

    def busy(self, text: str) -> None:
        """Show a spinner."""
        self._console.busy(text)

    def idle(self) -> None:
        """Hide the spinner and end an open line."""
        self._console.idle()


class JsonLines:
    """A view for programs: one JSON object per line."""

    def __init__(self, out: Output) -> None:
        self._out = out

    def welcome(self, _words: list[StyledLine], facts: dict[str, Any], /) -> None:
        self._write({"opened": facts})

    def begin(self, _model: str, /) -> None:
        pass

    def delta(self, delta: Delta) -> None:
        self._write({"delta": {"kind": delta.kind, "text": delta.text}})

    def event(self, event: Any) -> None:
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(event).__name__).lower()
        if isinstance(event, TurnFinished):
            fields: dict[str, Any] = {"steps": event.steps, "record": event.reply.record}
        else:
            fields = {
                field: msgspec.to_builtins(getattr(event, field), enc_hook=str)
                for field in event.__struct_fields__
            }
        self._write({"event": {"type": name, **fields}})

    def end(self, reply: Reply | None) -> None:
        if reply is not None:
            fields = ("stop", "record", "model", "usage", "raw_usage")
            said = {field: msgspec.to_builtins(getattr(reply, field)) for field in fields}
            self._write({"reply": {"text": reply.text, **said}})

    def cancel(self, *, is_turn: bool) -> None:
        self._write({"cancelled": "turn" if is_turn else "command"})

    def answer(self, answer: CommandAnswer) -> None:
        self._write({"answer": {"text": answer.text, "is_refused": answer.is_refused}})

    def error(self, error: HoldfastError) -> None:
        self._write({"error": error_fields(error)})

    def fault(self, error: Exception) -> None:
        self._write({"error": {"type": type(error).__name__, "message": str(error), "hint": None}})

    def note(self, text: str) -> None:
        self._write({"note": text.strip()})

    def busy(self, text: str) -> None:
        pass

    def idle(self) -> None:
        pass

    def _write(self, value: dict[str, Any]) -> None:
        self._out.json({"ts": round(time.time(), 3), **value})
        sys.stdout.flush()
