"""The loop of a chat: read a line, run a turn or a command, repeat. No error ends it."""

from __future__ import annotations

import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.flow.effects import Cancelled
from holdfast.core.log.listing import title_of
from holdfast.core.turn.calls import open_calls
from holdfast.core.turn.turn import is_unanswered
from holdfast.engine.session.base import target_of
from holdfast.errors import HoldfastError
from holdfast.surfaces.answers import Cell, answer, line
from holdfast.surfaces.chat_context import size_text
from holdfast.surfaces.formatting import local_time
from holdfast.surfaces.slash_commands import as_message, is_command, is_goodbye, run_command

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.models.replies import Reply
    from holdfast.engine.session.status import Status
    from holdfast.surfaces.answers import CommandAnswer, StyledLine
    from holdfast.surfaces.chat_context import ChatContext
    from holdfast.surfaces.cli.chat.input import InputSource
    from holdfast.surfaces.cli.chat.view import ChatView

EXIT_TURN_FAILED: Final = 1
_BANNER_COLUMNS: Final = 60
_LOOK_BACK: Final = 50
"""Records to read in search of an interrupted turn."""
_PATIENCE: Final = 3
"""The first Ctrl-C cancels a turn, the second is ignored while it cleans up, the third kills."""


class Chat:
    """A conversation between one person and the current session."""

    def __init__(self, chat: ChatContext, view: ChatView, source: InputSource) -> None:
        self._chat = chat
        self._view = view
        self._source = source
        self._has_failed = False

    def run(self) -> int:
        """Read and answer until the input ends or `/quit`; return the exit status."""
        with quiet(is_live=self._source.is_raw):
            self._read_all()
        return EXIT_TURN_FAILED if self._has_failed and not self._source.is_live else 0

    def _read_all(self) -> None:
        while True:
            try:
                text = self._source.read(self._status).strip()
                if text and not self._handle(text):
                    break
            except EOFError:
                if self._source.is_live:
                    self._view.note("\nGoodbye.")
                break
            except KeyboardInterrupt:
                if not self._source.is_live:
                    raise
                self._view.note("  (/quit or Ctrl-D leaves)")

    def _handle(self, text: str) -> bool:
        """Run a turn or a command; return False to leave."""
        if not is_command(text):
            self._turn(lambda: self._chat.session.say(as_message(text), on_delta=self._view.delta))
            return True
        result: CommandAnswer | None = self._guard(
            lambda: run_command("/quit" if is_goodbye(text) else text, self._chat)
        )
        if result is None:
            return True
        if result.parts:
            self._view.answer(result)
        if result.then == "resume":
            self._resume()
        return result.then != "quit"

    def _resume(self) -> None:
        session = self._chat.session
        if not interruption(self._chat):
            self._view.answer(answer("Nothing to continue: the last turn was answered."))
            return
        self._turn(lambda: session.resume(on_delta=self._view.delta))

    def _turn(self, ask: Callable[[], Reply | None]) -> None:
        self._has_failed = True
        self._view.begin(target_of(self._chat.session).model)
        reply = self._guard(ask, is_turn=True)
        if reply is not None:
            self._has_failed = False
            self._view.end(reply)

    def _guard(self, action: Callable[[], Any], *, is_turn: bool = False) -> Any:
        """Run an action; show an error or a cancellation, and return None for it."""
        try:
            with quiet(is_live=self._source.is_live), _patient():
                return action()
        except HoldfastError as error:
            self._view.error(error)
        except (KeyboardInterrupt, Cancelled):
            if not self._source.is_live:
                raise KeyboardInterrupt from None
            self._view.cancel(is_turn=is_turn)
        except Exception as error:
            self._view.fault(error)
        return None

    def _status(self) -> Status | None:
        """Return the status for the meter, or None if it cannot be computed."""
        try:
            return self._chat.session.status()
        except Exception:  # a meter must not end a chat; `/status` shows the error
            return None


@contextmanager
def _patient() -> Iterator[None]:
    """Let the first Ctrl-C cancel, and later ones wait until the session is consistent."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    interrupts = 0

    def interrupt(*_: object) -> None:
        nonlocal interrupts
        interrupts += 1
        if interrupts == 1 or interrupts >= _PATIENCE:
            raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def quiet(*, is_live: bool) -> Iterator[None]:
    """Keep keys that are typed meanwhile off the screen; the next prompt reads them."""
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
    mute[3] &= ~(termios.ECHO | termios.ICANON)  # every key is kept, Ctrl-D too
    termios.tcsetattr(fd, termios.TCSADRAIN, mute)
    try:
        yield
    finally:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)


def greeting(chat: ChatContext, *, is_new: bool, first: bool = False) -> list[StyledLine]:
    """Return the banner of a chat."""
    session = chat.session
    target, window = target_of(session), session.window
    rule = line(Cell("─" * _BANNER_COLUMNS, "dim"))
    known = chat.info().label
    label = f" ({title_of(known)})" if known else ""
    made = "Created initial session" if first else "Created new session"
    opening = (
        f"  {made}: {session.key.session}"
        if is_new
        else (f"  Resumed session: {session.key.session} ({size_text(chat)})")
    )
    rows = (
        ("Model", f"{target.model}, window {window.tokens:,} tokens ({window.source})"),
        ("Session", f"{session.key.session}{label}"),
        ("Tools", ", ".join(chat.tools) or "none"),
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
        *interruption(chat),
    ]


def interruption(chat: ChatContext) -> list[StyledLine]:
    """Describe a turn that another process runs, or that an earlier one did not finish, if there
    is one."""
    session = chat.session
    held = session.store.leases.current(session.key)
    if held is not None:
        since = f"{held.holder}, since {local_time(held.since)}"
        return [line(Cell(f"  Another turn of this session is running: {since}", "warn"))]
    records = session.messages(_LOOK_BACK)
    left = open_calls(records)
    if not is_unanswered(records) and not left:
        return []
    names = ", ".join(each.call.name for each in left)
    what = f"while {names} ran" if names else "before it was answered"
    return [
        line(
            Cell(f"  The last turn was interrupted {what}: ", "warn"),
            Cell("/continue", "name"),
            Cell(" finishes it; no tool runs twice", "warn"),
        )
    ]
