"""The loop of a chat: words in, a turn or a command, and on. Nothing that goes wrong ends it."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.flow.effects import Cancelled
from holdfast.core.log.listing import title_of
from holdfast.core.turn.tool_results import unanswered
from holdfast.core.turn.turn import is_unanswered
from holdfast.errors import HoldfastError
from holdfast.surfaces.answers import Cell, line, said
from holdfast.surfaces.slash_commands import as_message, is_command, is_goodbye, run, size_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.models.replies import Reply
    from holdfast.engine.session.status import Status
    from holdfast.surfaces.answers import Answer, Line
    from holdfast.surfaces.chat_context import Desk
    from holdfast.surfaces.cli.chat.input import Source
    from holdfast.surfaces.cli.chat.view import View

EXIT_TURN_FAILED: Final = 1
_BANNER_COLUMNS: Final = 60
_LOOKED_BACK: Final = 50
_PATIENCE: Final = 3
"""Ctrl-C again while a cancelled turn tidies up is heard from the third time on."""


class Chat:
    """One person, one desk."""

    def __init__(self, desk: Desk, view: View, source: Source) -> None:
        self._desk = desk
        self._view = view
        self._source = source
        self._has_failed = False

    def run(self) -> int:
        """Until the end of the input, or `/quit`; the exit status."""
        with quiet(is_live=self._source.is_raw):
            self._listen()
        return EXIT_TURN_FAILED if self._has_failed and not self._source.is_live else 0

    def _listen(self) -> None:
        while True:
            try:
                text = self._source.read(self._status).strip()
                if text and not self._take(text):
                    break
            except EOFError:
                if self._source.is_live:
                    self._view.note("\nGoodbye.")
                break
            except KeyboardInterrupt:
                if not self._source.is_live:
                    raise
                self._view.note("  (/quit or Ctrl-D leaves)")

    def _take(self, text: str) -> bool:
        """Do what was asked; whether to go on."""
        if not is_command(text):
            self._turn(lambda: self._desk.session.say(as_message(text), hear=self._view.hear))
            return True
        answer: Answer | None = self._guarded(
            lambda: run("/quit" if is_goodbye(text) else text, self._desk)
        )
        if answer is None:
            return True
        if answer.parts:
            self._view.answer(answer)
        if answer.then == "resume":
            self._resume()
        return answer.then != "quit"

    def _resume(self) -> None:
        session = self._desk.session
        if not interruption(self._desk):
            self._view.answer(said("Nothing to continue: the last turn was answered."))
            return
        self._turn(lambda: session.resume(hear=self._view.hear))

    def _turn(self, ask: Callable[[], Reply | None]) -> None:
        self._has_failed = True
        self._view.begin(self._desk.session.target.model)
        reply = self._guarded(ask, is_turn=True)
        if reply is not None:
            self._has_failed = False
            self._view.end(reply)

    def _guarded(self, do: Callable[[], Any], *, is_turn: bool = False) -> Any:
        """Do something that may fail or be called off; None where it was."""
        try:
            with quiet(is_live=self._source.is_live), _patient():
                return do()
        except HoldfastError as error:
            self._view.error(error)
        except (KeyboardInterrupt, Cancelled):
            if not self._source.is_live:
                raise KeyboardInterrupt from None
            self._view.cancelled(is_turn=is_turn)
        except Exception as error:
            self._view.fault(error)
        return None

    def _status(self) -> Status | None:
        """For the meter; a session that does not fit has none, and says so when asked."""
        try:
            return self._desk.status()
        except Exception:  # a meter is no reason to end a chat; `/status` says what is wrong
            return None


@contextmanager
def _patient() -> Iterator[None]:
    """The first Ctrl-C cancels; those after it wait until the session has been left sound."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    heard = 0

    def interrupt(*_: object) -> None:
        nonlocal heard
        heard += 1
        if heard == 1 or heard >= _PATIENCE:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def quiet(*, is_live: bool) -> Iterator[None]:
    """What is typed meanwhile waits for the prompt, and does not get in between what is shown."""
    try:
        import termios

        fd = sys.stdin.fileno()
        before = termios.tcgetattr(fd) if is_live else None
    except (ImportError, OSError, ValueError, termios.error):
        before = None
    if before is None:
        yield
        return
    mute = [*before]
    mute[3] &= ~(termios.ECHO | termios.ICANON)  # keys are kept as they are, Ctrl-D too
    termios.tcsetattr(fd, termios.TCSADRAIN, mute)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def greeting(desk: Desk, *, is_new: bool, first: bool = False) -> list[Line]:
    """The banner."""
    session = desk.session
    target, window = session.target, session.window
    rule = line(Cell("─" * _BANNER_COLUMNS, "dim"))
    label = f" ({title_of(desk.label)})" if desk.label else ""
    made = "Created initial session" if first else "Created new session"
    opening = (
        f"  {made}: {session.id}"
        if is_new
        else (f"  Resumed session: {session.id} ({size_of(desk)})")
    )
    rows = (
        ("Model", f"{target.model}, window {window.tokens:,} tokens ({window.source})"),
        ("Session", f"{session.id}{label}"),
        ("Tools", ", ".join(desk.tools) or "none"),
    )
    return [
        line(Cell(opening, "name")),
        rule,
        line(Cell("  Holdfast", "strong"), Cell(" · durable sessions, a bounded context", "dim")),
        *(line(Cell(f"  {name:<8} ", "dim"), text) for name, text in rows),
        line(
            Cell(
                "  /help lists the commands · Alt-Enter: new line · Ctrl-C: stop a turn · "
                "Ctrl-D: leave",
                "dim",
            )
        ),
        rule,
        *([line(Cell(f"  {window.warning}", "warn"))] if window.warning else []),
        *interruption(desk),
    ]


def interruption(desk: Desk) -> list[Line]:
    """What an earlier run left undone, and how to go on with it."""
    records = desk.session.messages(_LOOKED_BACK)
    if not is_unanswered(records) and not unanswered(records):
        return []
    names = ", ".join(call.name for call in unanswered(records))
    what = f"while {names} ran" if names else "before it was answered"
    return [
        line(
            Cell(f"  The last turn was interrupted {what}: ", "warn"),
            Cell("/continue", "name"),
            Cell(" goes on with it; nothing is run twice", "warn"),
        )
    ]
