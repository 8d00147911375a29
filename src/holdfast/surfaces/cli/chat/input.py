"""Input of a chat: a terminal with `prompt_toolkit`, a plain terminal, or a pipe."""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

from holdfast.surfaces.cli.terminal import paint
from holdfast.surfaces.formatting import bar, count, meter, money, tone_of
from holdfast.surfaces.slash_commands import complete

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from prompt_toolkit.formatted_text import StyleAndTextTuples

    from holdfast.engine.session.status import Status
    from holdfast.surfaces.chat_context import ChatContext

    Measure = Callable[[], Status | None]

PROMPT: Final = "You > "
HISTORY: Final = "chat-history"
_METER_CELLS: Final = 10
_METER_SECONDS: Final = 0.3
"""A prompt waits this long for its meter."""
_COLOURS: Final = {"good": "ansigreen", "warn": "ansiyellow", "bad": "ansired"}
_HISTORY_LINES_MAX: Final = 5_000
"""Months of typing, and still read at once when the chat starts."""


class InputSource(Protocol):
    """A source of messages and commands."""

    is_live: bool
    """A person types; errors and Ctrl-C do not end the chat."""
    is_raw: bool
    """It echoes keys itself, so the terminal must not."""

    def read(self, measure: Measure, /) -> str:
        """Return the next input. Raises `EOFError` at the end, `KeyboardInterrupt` for Ctrl-C.

        `measure` returns the status of the session, for a meter.
        """


class PipeInput:
    """Lines of stdin. A backslash at the end of a line continues it on the next."""

    is_live = False
    is_raw = False

    def __init__(self) -> None:
        reconfigure = getattr(sys.stdin, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors="replace")

    def read(self, _measure: Measure, /) -> str:
        return join_lines(self._lines())

    def _lines(self) -> Iterator[str]:
        while True:
            text = sys.stdin.readline()
            if not text:
                return
            yield text.rstrip("\r\n")


class PlainInput:
    """A terminal without `prompt_toolkit`: Python's `readline`, with history."""

    is_live = True
    is_raw = False

    def __init__(self, chat: ChatContext, folder: str | None) -> None:
        self._chat = chat
        self._choices: list[str] = []
        self._readline = _readline(history_file(folder), self._complete)

    def read(self, measure: Measure, /) -> str:
        return join_lines(self._lines(measure()))

    def _lines(self, status: Status | None) -> Iterator[str]:
        yield self._ask(_prompt_text(status))
        while True:
            yield self._ask("  ... ")

    def _ask(self, prompt: str) -> str:
        if sys.stdout.isatty():
            return input(self._colour(prompt))
        sys.stderr.write(prompt)  # stdout is a file and gets only answers
        sys.stderr.flush()
        return input()

    def _colour(self, text: str) -> str:
        """Return the prompt in colour, with the escape codes marked as zero-width for readline."""
        if self._readline is None or paint("x", "name", sys.stdout) == "x":
            return text
        return f"\001\x1b[1;36m\002{text}\001\x1b[0m\002"

    def _complete(self, _text: str, number: int) -> str | None:
        if number == 0:
            line = self._readline.get_line_buffer()
            start = self._readline.get_begidx()
            self._choices = [
                f"/{choice.text}" if is_name else choice.text
                for choice, is_name in complete(line, self._chat)
            ]
            self._choices = [text[start - line.rfind(" ") - 1 :] for text in self._choices]
        return self._choices[number] if number < len(self._choices) else None


class PromptInput:
    """A terminal with `prompt_toolkit`: history, completion, several lines, a meter."""

    is_live = True
    is_raw = True

    def __init__(self, chat: ChatContext, folder: str | None, **terminal: Any) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import ThreadedCompleter
        from prompt_toolkit.history import FileHistory

        path = history_file(folder)
        self._chat = chat
        self._status: Status | None = None
        self._is_measured = False
        self._prompt: PromptSession[str] = PromptSession(
            message=self._message,
            bottom_toolbar=self._toolbar,
            multiline=True,
            history=FileHistory(path) if path else None,
            completer=ThreadedCompleter(_completer(chat)),
            complete_while_typing=True,
            key_bindings=_keys(),
            prompt_continuation=lambda width, _line, _wrap: " " * max(0, width - 4) + "... ",
            style=_style(),
            reserve_space_for_menu=6,
            **terminal,
        )

    def read(self, measure: Measure, /) -> str:
        """Prompt without waiting for the meter: a long log takes time to add up."""
        measuring = threading.Thread(target=self._measure, args=(measure,), daemon=True)
        measuring.start()
        measuring.join(_METER_SECONDS)
        try:
            return join_lines(iter(self._prompt.prompt().split("\n")), is_whole=True)
        finally:
            measuring.join()

    def _measure(self, measure: Measure) -> None:
        self._status = measure()
        self._is_measured = True
        self._prompt.app.invalidate()

    def _message(self) -> StyleAndTextTuples:
        status = self._status
        if status is None:
            return [("class:you", PROMPT)]
        tone = _COLOURS[tone_of(status.share)]
        return [(tone, f"{status.share:.0%} "), ("class:you", PROMPT)]

    def _toolbar(self) -> StyleAndTextTuples:
        status = self._status
        if status is None:
            wrong = "/status shows the error"
            return [("", f" {wrong if self._is_measured else 'reading the log …'}")]
        drawn = bar(status.share, _METER_CELLS).ljust(_METER_CELLS, "░")
        return [
            ("", " "),
            (_COLOURS[tone_of(status.share)], drawn),
            ("", f" {meter_words(status)}"),
        ]


def meter_words(status: Status) -> str:
    """Return the text of the toolbar: fill, tokens, cost, cache, model and session."""
    words = [
        f"{status.share:.1%} of {status.window.tokens:,}",
        f"~{status.tokens:,} tokens",
    ]
    if status.turns_left is not None:
        words.append(f"compaction in ~{count(status.turns_left, 'turn')}")
    if status.cost:
        words.append(money(status.cost))
    if status.cache_share:
        words.append(f"cache {status.cache_share:.0%}")
    words += [status.model, status.label or status.session]
    return " · ".join(words)


def join_lines(lines: Iterator[str], *, is_whole: bool = False) -> str:
    """Join the lines of a message, each but the last ending in a backslash.

    With `is_whole`, all lines belong to the message, with or without backslashes.
    """
    parts: list[str] = []
    for text in lines:
        is_open = text.endswith("\\") and not text.endswith("\\\\")
        parts.append(text[:-1] if is_open else text)
        if not is_open and not is_whole:
            break
    if not parts:
        raise EOFError
    return "\n".join(parts)


def history_file(folder: str | None) -> str:
    """Create the input history, readable by its owner only; return "" if that fails."""
    if folder is None:
        return ""
    path = os.path.join(folder, HISTORY)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(path, flags, 0o600)
        os.fchmod(fd, 0o600)
        os.close(fd)
    except OSError:
        return ""
    return path


def source_for(chat: ChatContext, folder: str | None, *, is_json: bool) -> InputSource:
    """Choose the input by the kind of stdin and stdout; `folder` is for its history."""
    if is_json or not sys.stdin.isatty():
        return PipeInput()
    if sys.stdout.isatty():
        with suppress(ImportError):
            return PromptInput(chat, folder)
    return PlainInput(chat, folder)


def _prompt_text(status: Status | None) -> str:
    if status is None:
        return PROMPT
    return f"{meter(status.share, _METER_CELLS)} {status.share:.0%} {PROMPT}"


def _readline(path: str, complete: Any) -> Any:
    try:
        import readline
    except ImportError:
        return None
    import atexit

    readline.set_completer(complete)
    readline.set_completer_delims(" ")
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(_HISTORY_LINES_MAX)
    if path:
        with suppress(OSError):
            readline.read_history_file(path)
        atexit.register(_save_history, readline, path)
    return readline


def _save_history(readline: Any, path: str) -> None:
    with suppress(OSError):
        readline.write_history_file(path)
        os.chmod(path, 0o600)


def _completer(chat: ChatContext) -> Any:
    from prompt_toolkit.completion import Completer, Completion

    class Commands(Completer):
        def get_completions(self, document: Any, _event: Any) -> Iterator[Completion]:
            line = document.text_before_cursor
            if "\n" in line:
                return
            for choice, is_name in complete(line, chat):
                typed = line[1:] if is_name else line.rpartition(" ")[2]
                yield Completion(
                    choice.text,
                    start_position=-len(typed),
                    display=f"/{choice.text}" if is_name else choice.text,
                    display_meta=choice.about,
                )

    return Commands()


def _keys() -> Any:
    from prompt_toolkit.key_binding import KeyBindings

    keys = KeyBindings()

    @keys.add("enter")
    def _enter(event: Any) -> None:
        buffer = event.current_buffer
        state = buffer.complete_state
        if state is not None and state.current_completion is not None:
            buffer.complete_state = None
        elif buffer.document.current_line_before_cursor.endswith("\\"):
            buffer.newline(copy_margin=False)
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _new_line(event: Any) -> None:
        event.current_buffer.newline(copy_margin=False)

    @keys.add("c-c")
    def _interrupt(event: Any) -> None:
        if event.current_buffer.text:
            event.current_buffer.reset()
        else:
            event.app.exit(exception=KeyboardInterrupt, style="class:aborting")

    return keys


def _style() -> Any:
    from prompt_toolkit.styles import Style

    return Style.from_dict({"you": "bold ansicyan", "bottom-toolbar": "noreverse ansibrightblack"})
