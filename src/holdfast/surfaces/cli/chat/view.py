"""What a chat shows: to a person at a terminal, in a pipe, or as JSON lines for a program."""

from __future__ import annotations

import re
import shutil
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
from holdfast.errors import ModelError
from holdfast.surfaces.answers import Line, columns_of
from holdfast.surfaces.cli.chat.notices import gist, notice
from holdfast.surfaces.cli.chat.spinner import Spinner
from holdfast.surfaces.cli.terminal import paint

if TYPE_CHECKING:
    from holdfast.core.models.replies import Delta, Reply
    from holdfast.errors import HoldfastError
    from holdfast.surfaces.answers import Answer, Cell
    from holdfast.surfaces.cli.terminal import Output

_STEERING: Final = re.compile(r"[^\S\n\t ]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters with which a reply could steer the terminal."""
_STOPS: Final = {
    "length": "the reply was cut off at its cap: say “go on”",
    "window": "the reply was cut off where the window was full",
    "refusal": "the model declined",
    "steps": "stopped after the most steps a turn may take: /continue goes on",
}


class View(Protocol):
    """What the loop tells."""

    def opened(self, words: list[Line], facts: dict[str, Any], /) -> None: ...
    def begin(self, model: str, /) -> None: ...
    def hear(self, delta: Delta) -> None: ...
    def event(self, event: Any) -> None: ...
    def end(self, reply: Reply | None) -> None: ...
    def cancelled(self, *, is_turn: bool) -> None: ...
    def answer(self, answer: Answer) -> None: ...
    def error(self, error: HoldfastError) -> None: ...
    def fault(self, error: Exception) -> None: ...
    def note(self, text: str) -> None: ...
    def busy(self, text: str) -> None: ...
    def idle(self) -> None: ...


class Screen:
    """For people. Without a terminal, replies and answers go to stdout, the rest to stderr."""

    def __init__(self, out: Output, *, is_live: bool) -> None:
        self._out = out
        self._is_live = is_live
        self._model = "the model"
        self._spinner = Spinner(sys.stdout) if is_live else None
        self._kind = ""
        """What the line that is being written is: text, thinking, or nothing."""
        self._is_heard = False
        self._attempt = 1

    def opened(self, words: list[Line], _facts: dict[str, Any], /) -> None:
        self.idle()
        for one in words:
            self._beside(one)

    def begin(self, model: str, /) -> None:
        self._model = model
        self._is_heard = False
        self._attempt = 1

    def hear(self, delta: Delta) -> None:
        if delta.kind == "call":
            self.busy(f"{self._model} is calling {delta.text}")
            return
        if not self._is_live and delta.kind == "thinking":
            return
        self.idle(is_over=self._kind != delta.kind)
        if self._kind != delta.kind:
            self._open(delta.kind)
        text = _STEERING.sub("", delta.text)
        if delta.kind == "text":
            self._is_heard = True
            sys.stdout.write(text)
        else:
            sys.stdout.write(paint(text, "dim", sys.stdout))
        sys.stdout.flush()

    def event(self, event: Any) -> None:
        """Show what matters of an event, and what is going on after it."""
        said = notice(event, attempt=self._attempt)
        if said is not None:
            self.idle()
            self._beside(said)
        match event:
            case CallStarted(purpose="turn", attempt=attempt):
                self._attempt = attempt
                again = f", attempt {attempt}" if attempt > 1 else ""
                self.busy(f"waiting for {self._model}{again}")
            case CallFailed(next="wait", seconds=seconds):
                self._wait(seconds)
            case ToolStarted(call=call):
                self.idle()
                self.busy(f"{call.name} {gist(call)}")
            case CompactionStarted(messages=messages, tokens=tokens, reason=reason):
                self.idle()
                if reason == "asked" and self._is_live:
                    self._out.line(paint("  Compacting history...", "dim", sys.stdout))
                self.busy(f"compacting {messages:,} messages, {tokens:,} tokens")
            case CompactionFinished():
                self.idle()

    def end(self, reply: Reply | None) -> None:
        if reply is not None and not self._is_heard and reply.text.strip():
            self.idle()
            self._open("text")
            sys.stdout.write(_STEERING.sub("", reply.text))
        self.idle()
        if reply is not None and reply.stop in _STOPS:
            self.note(f"  [{reply.stop}] {_STOPS[reply.stop]}")
        self._gap()

    def cancelled(self, *, is_turn: bool) -> None:
        self.idle()
        said = "what was said so far is stored; /undo takes the turn back"
        self.note(f"  [cancelled] {said if is_turn else 'the session is sound'}")
        self._gap()

    def answer(self, answer: Answer) -> None:
        self.idle()
        for part in answer.parts:
            if isinstance(part, Line):
                self._out.line(f"  {_painted(part.cells)}".rstrip())
            else:
                for row in columns_of(part, self._columns()):
                    cells = "  ".join(paint(one.text, one.tone, sys.stdout) for one in row)
                    self._out.line(f"  {cells}".rstrip())
        sys.stdout.flush()
        self._gap()

    def error(self, error: HoldfastError) -> None:
        self.idle()
        self._out.error(error)
        if isinstance(error, ModelError):
            self.note("  what you said is stored: /continue tries again")
        self._gap()

    def fault(self, error: Exception) -> None:
        self.idle()
        sys.stdout.flush()
        what = f"{type(error).__name__}: {error}"
        sys.stderr.write(f"{paint('error:', 'bad', sys.stderr)} {what}\n")
        sys.stderr.write(
            f"{paint('hint:', 'name', sys.stderr)} this was not foreseen; the session "
            "is on disk, and /continue tries again\n"
        )
        self._gap()

    def note(self, text: str) -> None:
        self.idle()
        stream = sys.stdout if self._is_live else sys.stderr
        stream.write(paint(text, "dim", stream) + "\n")
        stream.flush()

    def busy(self, text: str) -> None:
        """Something goes on that may take a while."""
        if self._spinner is not None:
            if self._kind:
                self._close()
            self._spinner.show(text)

    def idle(self, *, is_over: bool = True) -> None:
        """It is over; the next thing that is written begins a line."""
        if self._spinner is not None:
            self._spinner.hide()
        if is_over:
            self._close()

    def _columns(self) -> int | None:
        """What a row may take; in a pipe nobody counts."""
        return shutil.get_terminal_size().columns - 3 if self._is_live else None

    def _wait(self, seconds: float) -> None:
        if self._spinner is not None:
            self._spinner.show(f"waiting for {self._model} to take more", seconds=seconds)

    def _open(self, kind: str) -> None:
        self._kind = kind
        if self._is_live and kind == "text":
            sys.stdout.write(paint("Assistant: ", "good", sys.stdout))

    def _close(self) -> None:
        if self._kind:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._kind = ""

    def _beside(self, words: Line) -> None:
        stream = sys.stdout if self._is_live else sys.stderr
        text = "".join(paint(one.text, one.tone, stream) for one in words.cells)
        sys.stdout.flush()
        stream.write(f"{text}\n")
        stream.flush()

    def _gap(self) -> None:
        if self._is_live:
            sys.stdout.write("\n")
            sys.stdout.flush()


class JsonLines:
    """For programs: everything is one JSON object on a line of its own."""

    def __init__(self, out: Output) -> None:
        self._out = out

    def opened(self, _words: list[Line], facts: dict[str, Any], /) -> None:
        self._say({"opened": facts})

    def begin(self, _model: str, /) -> None:
        pass

    def hear(self, delta: Delta) -> None:
        self._say({"delta": {"kind": delta.kind, "text": delta.text}})

    def event(self, event: Any) -> None:
        name = re.sub(r"(?<!^)(?=[A-Z])", "-", type(event).__name__).lower()
        if isinstance(event, TurnFinished):
            fields: dict[str, Any] = {"steps": event.steps, "record": event.reply.record}
        else:
            fields = {
                field: msgspec.to_builtins(getattr(event, field), enc_hook=str)
                for field in event.__struct_fields__
            }
        self._say({"event": {"type": name, **fields}})

    def end(self, reply: Reply | None) -> None:
        if reply is not None:
            fields = ("stop", "record", "model", "usage")
            self._say({"reply": {"text": reply.text, **{f: getattr(reply, f) for f in fields}}})

    def cancelled(self, *, is_turn: bool) -> None:
        self._say({"cancelled": "turn" if is_turn else "command"})

    def answer(self, answer: Answer) -> None:
        self._say({"answer": {"text": answer.text, "is_refused": answer.is_refused}})

    def error(self, error: HoldfastError) -> None:
        what = {"type": error.code, "message": str(error), "hint": error.hint}
        self._say({"error": what})

    def fault(self, error: Exception) -> None:
        self._say({"error": {"type": type(error).__name__, "message": str(error), "hint": None}})

    def note(self, text: str) -> None:
        self._say({"note": text.strip()})

    def busy(self, text: str) -> None:
        pass

    def idle(self) -> None:
        pass

    def _say(self, value: dict[str, Any]) -> None:
        self._out.json({"ts": round(time.time(), 3), **value})
        sys.stdout.flush()


def _painted(cells: tuple[Cell, ...]) -> str:
    return "".join(paint(_STEERING.sub(" ", one.text), one.tone, sys.stdout) for one in cells)
