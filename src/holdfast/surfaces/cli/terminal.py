"""Output of the command line: tables for people, JSON for programs, errors for both.

Data goes to stdout, everything else to stderr. On a terminal, `rich` draws the tables if it is
installed (`pip install 'holdfast[cli]'`); in a pipe they are plain columns.
"""

from __future__ import annotations

import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.surfaces.answers import StyledTable, clean

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.progress import Progress
    from rich.status import Status

    from holdfast.errors import HoldfastError
    from holdfast.surfaces.answers import Row
    from holdfast.surfaces.formatting import Tone

_MOMENT_SECONDS = 0.5
"""A command that is done within this time shows no progress."""
_STYLES: dict[Tone, str] = {
    "plain": "",
    "dim": "dim",
    "good": "green",
    "warn": "yellow",
    "bad": "bold red",
    "name": "cyan",
    "strong": "bold",
}
_ANSI: dict[Tone, str] = {
    "plain": "",
    "dim": "2",
    "good": "32",
    "warn": "33",
    "bad": "1;31",
    "name": "36",
    "strong": "1",
}


class Output(msgspec.Struct, frozen=True):
    """Writes the results of a command."""

    is_json: bool

    def json(self, value: object) -> None:
        """Write a value as one line of JSON."""
        sys.stdout.write(msgspec.json.encode(value).decode() + "\n")

    def line(self, text: str = "") -> None:
        sys.stdout.write(text + "\n")

    def note(self, text: str) -> None:
        """Write a remark for a person to stderr."""
        if not self.is_json:
            sys.stdout.flush()
            sys.stderr.write(paint(text, "dim", sys.stderr) + "\n")

    def ask(self, question: str) -> None:
        """Write a question to stderr; the answer is typed behind it."""
        sys.stdout.flush()
        sys.stderr.write(question)
        sys.stderr.flush()

    def warn(self, text: str) -> None:
        sys.stdout.flush()
        sys.stderr.write(f"{paint('warning:', 'bad', sys.stderr)} {text}\n")

    def table(self, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Write rows under headings; a heading that starts with `>` is aligned to the right."""
        table = StyledTable(tuple(columns), tuple(rows))
        if not (sys.stdout.isatty() and _draw_with_rich(table)):
            self.line(table.text)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show a spinner if the block takes longer than a moment."""
        status = None if self.is_json else _spinner(what)
        if status is None:
            yield
            return
        timer = threading.Timer(_MOMENT_SECONDS, status.start)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            status.stop()

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[Callable[[str], None]]:
        """Show a progress bar; call the function that it yields after each item."""
        shown = None if self.is_json else _progress_bar()
        if shown is None:
            yield lambda _now: None
            return
        with shown:
            task = shown.add_task(what, total=total)
            yield lambda now: shown.update(task, advance=1, description=now)

    def error(self, error: HoldfastError, **more: Any) -> None:
        sys.stdout.flush()
        if self.is_json:
            fields = {"type": error.code, "message": str(error), "hint": error.hint, **more}
            self.json({"error": fields})
            return
        sys.stderr.write(f"{paint('error:', 'bad', sys.stderr)} {error}\n")
        if error.hint:
            sys.stderr.write(f"{paint('hint:', 'name', sys.stderr)} {error.hint}\n")


def paint(text: str, tone: Tone, stream: Any) -> str:
    """Colour a text if the stream is a terminal with colours."""
    from holdfast.config import wants_colour

    if not text or not _ANSI[tone] or not wants_colour(stream):
        return text
    return f"\x1b[{_ANSI[tone]}m{text}\x1b[0m"


def _progress_bar() -> Progress | None:
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        return None
    return Progress(console=Console(stderr=True), transient=True)


def _spinner(what: str) -> Status | None:
    if not sys.stderr.isatty():
        return None
    try:
        from rich.console import Console
        from rich.status import Status
    except ImportError:
        return None
    return Status(what, console=Console(stderr=True))


def _draw_with_rich(table: StyledTable) -> bool:
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    drawn = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in table.columns:
        is_number = column.startswith(">")
        drawn.add_column(
            column.lstrip(">"),
            justify="right" if is_number else "left",
            no_wrap=is_number or column.lower() in ("id", "record", "session"),
        )
    for row in table.rows:
        cells = map(clean, row)
        drawn.add_row(*(Text(cell.text, style=_STYLES[cell.tone]) for cell in cells))
    Console().print(drawn)
    return True
