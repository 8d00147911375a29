"""What the command line prints: tables for people, JSON for programs, errors for both.

Data goes to stdout and everything else to stderr. On a terminal, tables are drawn with `rich`
where it is installed (`pip install 'holdfast[cli]'`); in a pipe they are plain columns.
"""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.surfaces.answers import Cell as Cell
from holdfast.surfaces.answers import Row as Row
from holdfast.surfaces.answers import Tone as Tone
from holdfast.surfaces.answers import bar as bar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from rich.progress import Progress
    from rich.status import Status

    from holdfast.errors import HoldfastError

_MOMENT_SECONDS = 0.5
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


@dataclass(frozen=True, slots=True)
class Output:
    """Where a command's results go."""

    is_json: bool

    def json(self, value: object) -> None:
        """One JSON document or line."""
        sys.stdout.write(msgspec.json.encode(value).decode() + "\n")

    def line(self, text: str = "") -> None:
        sys.stdout.write(text + "\n")

    def note(self, text: str) -> None:
        """Something a person may want to know beside the data."""
        if not self.is_json:
            sys.stdout.flush()
            sys.stderr.write(paint(text, "dim", sys.stderr) + "\n")

    def warn(self, text: str) -> None:
        sys.stdout.flush()
        sys.stderr.write(f"{paint('warning:', 'bad', sys.stderr)} {text}\n")

    def table(self, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Rows under headings; a heading that starts with `>` is aligned to the right."""
        cells = [[_clean(cell) for cell in row] for row in rows]
        if sys.stdout.isatty() and _draw_with_rich(columns, cells):
            return
        _print_columns(columns, cells)

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show a person that something is going on, if it takes longer than a moment."""
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
        """Show a person how far something has come; the function given says: one more."""
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
            what = {"type": error.code, "message": str(error), "hint": error.hint, **more}
            self.json({"error": what})
            return
        sys.stderr.write(f"{paint('error:', 'bad', sys.stderr)} {error}\n")
        if error.hint:
            sys.stderr.write(f"{paint('hint:', 'name', sys.stderr)} {error.hint}\n")


def paint(text: str, tone: Tone, stream: Any) -> str:
    """Text in a colour where the stream is a terminal that wants colours."""
    from holdfast.config import wants_colour

    if not text or not _ANSI[tone] or not wants_colour(stream):
        return text
    return f"\x1b[{_ANSI[tone]}m{text}\x1b[0m"


def ago(ts: float) -> str:
    """How long ago, in the largest unit that fits."""
    seconds = time.time() - ts
    if ts <= 0 or seconds < -60:
        return when(ts)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            return when(ts) if seconds > 30 * 86_400 else f"{seconds // length:.0f} {unit} ago"
    return "just now"


def when(ts: float) -> str:
    try:
        return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(ts)) if ts > 0 else "-"
    except (OverflowError, ValueError, OSError):
        return f"{ts:g}"  # a time that no clock shows, from a file that somebody else wrote


def size_text(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1_000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1_000
    raise AssertionError(count)


def _clean(cell: Cell | str) -> Cell:
    """A cell that cannot steer the terminal, whatever a log holds."""
    cell = cell if isinstance(cell, Cell) else Cell(cell)
    text = cell.text if cell.text.isprintable() else "".join(filter(str.isprintable, cell.text))
    return Cell(text, cell.tone)


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


def _draw_with_rich(columns: Sequence[str], rows: list[list[Cell]]) -> bool:
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError:
        return False
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for column in columns:
        is_number = column.startswith(">")
        table.add_column(
            column.lstrip(">"),
            justify="right" if is_number else "left",
            no_wrap=is_number or column.lower() in ("id", "record", "session"),
        )
    for row in rows:
        table.add_row(*(Text(cell.text, style=_STYLES[cell.tone]) for cell in row))
    Console().print(table)
    return True


def _print_columns(columns: Sequence[str], rows: list[list[Cell]]) -> None:
    texts = [[column.lstrip(">").upper() for column in columns]]
    texts += [[cell.text for cell in row] for row in rows]
    widths = [max(len(row[number]) for row in texts) for number in range(len(columns))]
    for row in texts:
        parts = (
            text.rjust(width) if column.startswith(">") else text.ljust(width)
            for text, width, column in zip(row, widths, columns, strict=True)
        )
        sys.stdout.write("  ".join(parts).rstrip() + "\n")
