"""Output of the command line: tables for people, JSON for programs, errors for both.

Data goes to stdout, everything else to stderr. On a terminal, `rich` draws the tables if it is
installed (`pip install 'holdfast[cli]'`); in a pipe they are plain columns.
"""

from __future__ import annotations

import codecs
import io
import os
import sys
import threading
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import UsageError
from holdfast.surfaces.answers import GAP, Cell, StyledTable, clean, layout, natural_width
from holdfast.surfaces.formatting import cell_width

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from typing import BinaryIO, TextIO

    from rich.progress import Progress
    from rich.status import Status

    from holdfast.core.secrets.redaction import Redactor
    from holdfast.errors import HoldfastError
    from holdfast.surfaces.answers import Row
    from holdfast.surfaces.formatting import Tone

_MOMENT_SECONDS = 0.5
"""A command that is done within this time shows no progress."""
_STYLES: dict[Tone, tuple[str, str]] = {
    "plain": ("", ""),
    "dim": ("dim", "2"),
    "good": ("green", "32"),
    "warn": ("yellow", "33"),
    "bad": ("bold red", "1;31"),
    "name": ("cyan", "36"),
    "strong": ("bold", "1"),
}
"""Each tone as rich calls it, and as the code of a terminal."""
_CONTROLS: Final = lazy_pattern("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that control a terminal, or turn round what it shows."""
_PIECES: Final = lazy_pattern(r"\n|[^\S\n]+|\S+")
_ENDLESS: Final = 1_000_000
"""Columns of a terminal whose width is not known: nothing is wrapped."""
ERASE_LINE: Final = "\r\x1b[K"


def error_fields(error: HoldfastError) -> dict[str, Any]:
    """Return an error as programs read it."""
    return {"type": error.code, "message": str(error), "hint": error.hint}


class ShowProgress(Protocol):
    """Shows that something is done."""

    def __call__(self, now: str, count: int = 1) -> None:
        """Show what is being done now, and that so many more items are done."""


class MaskedWriter(msgspec.Struct, frozen=True):
    """The one way out for text: masked, and on a terminal unable to control it."""

    is_json: bool
    secrets: Mapping[str, str] = {}
    """Registered values, by name."""
    is_raw: bool = False
    """Nothing is masked: the person asked for it with `--raw`."""

    def mask(self, text: str) -> str:
        """Return a text with its secrets masked, unless everything is to be shown."""
        return text if self.is_raw else self._redactor.text(text)

    def mask_value(self, value: object) -> object:
        """Return a value with its secrets masked, unless everything is to be shown."""
        plain: object = msgspec.to_builtins(value)
        return plain if self.is_raw else self._redactor.value(plain)

    @property
    def _redactor(self) -> Redactor:
        return _make_redactor(tuple(self.secrets.items()))

    def _mask_cell(self, cell: Cell | str) -> Cell:
        tone: Tone = cell.tone if isinstance(cell, Cell) else "plain"
        return Cell(self.mask(cell.text if isinstance(cell, Cell) else cell), tone)

    def _beside(self, *cells: Cell | str, end: str = "\n") -> None:
        sys.stdout.flush()
        self._write(sys.stderr, cells, end, is_prose=True)

    def _write(
        self, stream: TextIO, cells: Iterable[Cell | str], end: str, *, is_prose: bool = False
    ) -> None:
        pieces = [cell if isinstance(cell, Cell) else Cell(cell) for cell in cells]
        texts = [piece.text for piece in pieces]
        if not self.is_raw:
            texts = self._redactor.texts(texts)
        if stream.isatty():
            texts = [_harmless(text) for text in texts]
            texts = keep_words(texts, _columns(stream)) if is_prose else texts
        painted = (
            paint(text, piece.tone, stream) for text, piece in zip(texts, pieces, strict=True)
        )
        stream.write(scrub("".join(painted)) + end)  # an argument may be no valid text


class Output(MaskedWriter, frozen=True):
    """Writes the results of a command."""

    def json(self, value: object) -> None:
        """Write a value as one line of JSON."""
        sys.stdout.write(msgspec.json.encode(self.mask_value(value)).decode() + "\n")

    def line(self, *cells: Cell | str) -> None:
        self._write(sys.stdout, cells, "\n", is_prose=True)

    def text(self, text: str) -> None:
        """Write a text as it is, without a newline; on a terminal it ends with one."""
        end = "\n" if sys.stdout.isatty() and not text.endswith("\n") else ""
        self._write(sys.stdout, (text,), end)

    @contextmanager
    def binary(self) -> Iterator[BinaryIO]:
        """Write bytes that are masked already; a terminal gets their text."""
        sys.stdout.flush()
        yield _TerminalBytes() if sys.stdout.isatty() else sys.stdout.buffer

    def note(self, text: str) -> None:
        """Write a remark for a person to stderr."""
        if not self.is_json:
            self._beside(Cell(text, "dim"))

    def ask(self, question: str) -> None:
        """Write a question to stderr; the answer is typed behind it."""
        self._beside(question, end="")
        sys.stderr.flush()

    def count(self, text: str) -> None:
        """Replace the last such line on a terminal; an empty text removes it."""
        if not self.is_json and sys.stderr.isatty():
            sys.stderr.write(ERASE_LINE)
            self._beside(text[: _columns(sys.stderr) - 1], end="")  # one row can be erased
            sys.stderr.flush()

    def warn(self, text: str, word: str = "warning") -> None:
        """Write a warning to stderr, or why something was `refused`."""
        self._beside(Cell(f"{word}:", "bad"), " ", text)

    @property
    def width(self) -> int | None:
        """The columns of the terminal; None where the output goes to a file or a program."""
        return _columns(sys.stdout) if sys.stdout.isatty() else None

    def table(self, columns: Sequence[str], rows: Iterable[Row]) -> None:
        """Write rows under headings; a heading that starts with `>` is aligned to the right.

        Headings without a row are not written.
        """
        masked = tuple(tuple(self._mask_cell(cell) for cell in row) for row in rows)
        if not masked:
            return
        table = StyledTable(tuple(columns), masked)
        if not sys.stdout.isatty():
            self._write(sys.stdout, (table.text,), "\n")
        elif not _draw_with_rich(table, width := _columns(sys.stdout)):
            for line in layout(table, width):
                cells = [piece for cell in line for piece in (cell, GAP)]
                self._write(sys.stdout, cells[:-1], "\n")

    def section(self, *tables: StyledTable) -> None:
        """Write tables with an empty line below each; those without a row are not written."""
        for table in tables:
            if table.rows:
                self.table(table.columns, table.rows)
                self.line()

    @contextmanager
    def busy(self, what: str) -> Iterator[None]:
        """Show a spinner if the block takes longer than a moment; without rich, a line."""
        if self.is_json or not sys.stderr.isatty():
            yield
            return
        status = _spinner(_harmless(self.mask(what)))
        is_shown = False

        def start() -> None:
            nonlocal is_shown
            is_shown = True
            if status:
                status.start()
            else:
                self.count(f"{what} …")

        timer = threading.Timer(_MOMENT_SECONDS, start)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            timer.join()
            if status:
                status.stop()
            elif is_shown:
                self.count("")

    @contextmanager
    def progress(self, what: str, total: int) -> Iterator[ShowProgress]:
        """Show a progress bar; call the function that it yields after each item, or after some."""
        if self.is_json or not sys.stderr.isatty():
            yield lambda _now, _count=1: None
            return
        shown = _progress_bar()
        if shown is None:
            done = 0

            def show(now: str, count: int = 1) -> None:
                nonlocal done
                done += count
                self.count(f"{done:,} of {total:,}: {now}")

            self.count(f"{what} …")
            try:
                yield show
            finally:
                self.count("")
            return
        with shown:
            task = shown.add_task(what, total=total)
            yield lambda now, count=1: shown.update(
                task, advance=count, description=_plain(_harmless(self.mask(now)))
            )

    def write_file(self, path: str, text: str) -> None:
        """Write a page or a report into a file, masked, and say where it is."""
        try:
            with open(path, "w", encoding="utf-8") as file:
                file.write(self.mask(text))
        except OSError as error:
            raise UsageError(
                f"cannot write `{path}`: {error.strerror}", hint="choose another file"
            ) from error
        self.note(f"wrote {os.path.realpath(path)}")

    def error(self, error: HoldfastError, **more: Any) -> None:
        sys.stdout.flush()
        if self.is_json:
            self.json({"error": {**error_fields(error), **more}})
            return
        self._beside(Cell("error:", "bad"), " ", str(error))
        if error.hint:
            self._beside(Cell("hint:", "name"), " ", error.hint)


@lru_cache(maxsize=4)
def _make_redactor(secrets: tuple[tuple[str, str], ...]) -> Redactor:
    # Own shapes only: a library that takes half a second to load is for content alone.
    from holdfast.core.secrets.redaction import Redactor

    return Redactor(dict(secrets))


class _TerminalBytes(io.BytesIO):
    """Shows bytes on the terminal as text."""

    def __init__(self) -> None:
        super().__init__()
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data: Any) -> int:
        sys.stdout.write(_harmless(self._decoder.decode(bytes(data))))
        return len(data)

    def writelines(self, lines: Iterable[Any]) -> None:
        for line in lines:
            self.write(line)


def _harmless(text: str) -> str:
    """Return a text that cannot control a terminal."""
    return _CONTROLS.sub("\ufffd", text)


def keep_words(texts: Sequence[str], columns: int, hang: int = 0) -> list[str]:
    """Return texts that follow each other on a line, in which a terminal breaks no word.

    The end of a row is filled with spaces instead of a newline, so that a command which is copied
    from several rows is still one command. Rows after the first begin `hang` columns further in.
    """
    kept: list[str] = []
    at = start = 0
    for text in texts:
        pieces = _PIECES.findall(text)
        for place, piece in enumerate(pieces):
            if piece == "\n":
                at = start = 0
                continue
            size = cell_width(piece)
            if hang and piece.isspace() and at + size >= columns:
                is_full = at == columns  # a space has to be left for who copies the line
                pieces[place] = " " * (hang if is_full else columns - at)
                at, start = (hang, 0) if is_full else (columns, start)
                continue
            if not piece.isspace() and at > start and at + size > columns >= size:
                start = hang if hang + size <= columns else 0
                pieces[place] = " " * (columns - at + start) + piece
                at = start
            at = (at + size) % columns or (columns if hang else 0)  # a row that is full
        kept.append("".join(pieces))
    return kept


def _columns(stream: TextIO) -> int:
    """Return the width of a terminal; a huge one where it is not known."""
    try:
        return os.get_terminal_size(stream.fileno()).columns or _ENDLESS
    except (OSError, ValueError):
        return _ENDLESS


def paint(text: str, tone: Tone, stream: Any) -> str:
    """Colour a text if the stream is a terminal with colours."""
    from holdfast.config import wants_colour

    code = _STYLES[tone][1]
    return f"\x1b[{code}m{text}\x1b[0m" if text and code and wants_colour(stream) else text


def _progress_bar() -> Progress | None:
    try:
        from rich.console import Console
        from rich.progress import Progress
    except ImportError:
        return None
    return Progress(console=Console(stderr=True), transient=True)


def _plain(text: str) -> str:
    """Return a text in which rich sees no markup."""
    from rich.markup import escape

    return escape(text)


def _spinner(what: str) -> Status | None:
    try:
        from rich.console import Console
        from rich.status import Status
    except ImportError:
        return None
    return Status(_plain(what), console=Console(stderr=True))


def _draw_with_rich(table: StyledTable, columns: int) -> bool:
    """Draw a table, unless it is too wide: rich would cut numbers and leave columns out."""
    lines_between = len(table.columns) + 1
    if natural_width(table) + lines_between > columns:
        return False
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
        drawn.add_column(column.lstrip(">"), justify="right" if is_number else "left", no_wrap=True)
    for row in table.rows:
        cells = map(clean, row)
        drawn.add_row(*(Text(cell.text, style=_STYLES[cell.tone][0]) for cell in cells))
    Console().print(drawn)
    return True
