"""Low-level output of a chat at a terminal or in a pipe: open lines, notices, a spinner."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.surfaces.answers import GAP, Cell, StyledLine, StyledTable, layout
from holdfast.surfaces.cli.terminal import keep_words, paint
from holdfast.surfaces.formatting import cell_width

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO

_CONTROLS: Final = lazy_pattern(r"[^\S\n\t ]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")
"""Characters that could control the terminal."""
_COLUMN: Final = lazy_pattern(r"(?<=\S) {2,}(?=\S)")
_ASSISTANT: Final = "Assistant: "
_INDENT_COLUMNS: Final = 3
"""Columns that the prompt and the frame take from a line."""


class Console:
    """Writes replies to stdout, and everything else to stdout at a terminal or stderr in a pipe.

    A reply is streamed into an open line; other output closes the line and hides the spinner.
    """

    def __init__(self, *, is_live: bool, mask: Callable[[str], str]) -> None:
        """`mask` is applied to all but replies, which a person asked the model for."""
        self.is_live = is_live
        self._mask = mask
        self.kind = ""
        """The content of the open line: `text`, `thinking`, or empty if no line is open."""
        self._wrap = WordWrap()
        self._spinner = Spinner(sys.stdout) if is_live else None

    @property
    def _side(self) -> TextIO:
        return sys.stdout if self.is_live else sys.stderr

    def stream(self, text: str, kind: str) -> None:
        """Append a piece of a reply, on a new line if its kind changes."""
        self.idle(is_over=self.kind != kind)
        if self.kind != kind:
            self.kind = kind
            has_name = self.is_live and kind == "text"
            if has_name:
                sys.stdout.write(paint(_ASSISTANT, "good", sys.stdout))
            self._wrap.start(len(_ASSISTANT) if has_name else 0)
        text = _CONTROLS.sub("", text)
        if self.is_live:
            text = self._wrap.feed(text, shutil.get_terminal_size().columns)
        self._write(text)

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(text if self.kind == "text" else paint(text, "dim", sys.stdout))
            sys.stdout.flush()

    def show(self, part: StyledLine | StyledTable) -> None:
        """Print a part of an answer."""
        if isinstance(part, StyledLine):
            indented = StyledLine((Cell("  "), *part.cells))
            rows = [self._paint(indented, sys.stdout)]
        else:
            width = shutil.get_terminal_size().columns - _INDENT_COLUMNS if self.is_live else None
            masked = tuple(tuple(_clean(cell, self._mask) for cell in row) for row in part.rows)
            rows = [
                "  " + GAP.join(paint(cell.text, cell.tone, sys.stdout) for cell in row)
                for row in layout(StyledTable(part.columns, masked), width)
            ]
        for row in rows:
            sys.stdout.write(row.rstrip() + "\n")
        sys.stdout.flush()

    def notice(self, words: StyledLine) -> None:
        """Print a line beside the replies."""
        self.idle()
        sys.stdout.flush()
        self._side.write(f"{self._paint(words, self._side)}\n")
        self._side.flush()

    def gap(self) -> None:
        """Leave an empty line at a terminal."""
        if self.is_live:
            sys.stdout.write("\n")
            sys.stdout.flush()

    def busy(self, text: str, seconds: float | None = None) -> None:
        """Show a spinner; with `seconds`, a countdown."""
        if self._spinner is not None:
            self._end_line()
            self._spinner.show(_clean(text, self._mask).text, seconds=seconds)

    def idle(self, *, is_over: bool = True) -> None:
        """Hide the spinner; if the line `is_over`, the next output starts a new one."""
        if self._spinner is not None:
            self._spinner.hide()
        if is_over:
            self._end_line()

    def _paint(self, words: StyledLine, stream: TextIO) -> str:
        """Return a line for a stream; at a terminal no word in it is broken."""
        cells = [_clean(cell, self._mask) for cell in words.cells]
        texts = [cell.text for cell in cells]
        if self.is_live:
            columns = shutil.get_terminal_size().columns
            texts = keep_words(texts, columns, min(_hang("".join(texts)), columns * 2 // 3))
        return "".join(
            paint(text, cell.tone, stream) for text, cell in zip(texts, cells, strict=True)
        )

    def _end_line(self) -> None:
        if self.kind:
            self._write(self._wrap.end(shutil.get_terminal_size().columns))
            sys.stdout.write("\n")
            sys.stdout.flush()
            self.kind = ""


def _hang(text: str) -> int:
    """Return where the rows after the first begin: at the last column of the text, if it has some,
    as a table does; else at its first word."""
    columns = [found.end() for found in _COLUMN.finditer(text)]
    return columns[-1] if columns else len(text) - len(text.lstrip(" "))


def _clean(cell: Cell | str, mask: Callable[[str], str]) -> Cell:
    """Return a cell without secrets, and without what could control the terminal."""
    found = cell if isinstance(cell, Cell) else Cell(cell)
    return Cell(_CONTROLS.sub(" ", mask(found.text)), found.tone)


_FRAMES: Final = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_TICK_SECONDS: Final = 0.1
_PATIENCE_SECONDS: Final = 1.0
"""Nothing moves for an answer that comes within a second; then it turns ten times a second."""
ERASE_LINE: Final = "\r\x1b[2K"


class Spinner:
    """Draws on its own line and erases it before other output.

    Write to the same terminal only between `hide` and the next `show`.
    """

    def __init__(self, stream: TextIO, *, patience_seconds: float = _PATIENCE_SECONDS) -> None:
        self._stream = stream
        self._patience = patience_seconds
        self._mutex = threading.Lock()
        self._text = ""
        self._since = 0.0
        self._until: float | None = None
        self._is_drawn = False
        self._thread: threading.Thread | None = None

    def show(self, text: str, *, seconds: float | None = None) -> None:
        """Show what is going on; with `seconds`, count down."""
        now = time.monotonic()
        with self._mutex:
            self._text, self._since = text, now
            self._until = None if seconds is None else now + seconds
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, daemon=True)
                self._thread.start()

    def hide(self) -> None:
        with self._mutex:
            self._text = ""
            if self._is_drawn:
                self._stream.write(ERASE_LINE)
                self._stream.flush()
                self._is_drawn = False

    def _run(self) -> None:
        frame = 0
        while True:
            time.sleep(_TICK_SECONDS)
            frame += 1
            with self._mutex:
                if not self._text:
                    self._thread = None
                    return
                waited = time.monotonic() - self._since
                if self._until is None and waited < self._patience:
                    continue
                self._draw(_FRAMES[frame % len(_FRAMES)], waited)

    def _draw(self, frame: str, waited: float) -> None:
        left = None if self._until is None else max(0.0, self._until - time.monotonic())
        clock = f"{waited:.0f} s" if left is None else f"{left:.0f} s left"
        words = f"  {frame} {self._text} ({clock}; Ctrl-C stops it)"
        columns = shutil.get_terminal_size().columns
        self._stream.write(f"{ERASE_LINE}{paint(words[: columns - 1], 'dim', self._stream)}")
        self._stream.flush()
        self._is_drawn = True


_WIDE: Final = "\u1100-\u11ff\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef"
"""Scripts without spaces between words: a row may end after any character."""
_PIECES: Final = lazy_pattern(rf"\n|[^\S\n]|[{_WIDE}]|[^\s{_WIDE}]+")
_TAB_COLUMNS: Final = 8
"""Between the stops of a terminal."""


class WordWrap:
    """Writes a word when it is whole, on the row that it fits into.

    The end of a row is filled with spaces, as elsewhere in the chat: a command that is copied from
    several rows is still one line.
    """

    def __init__(self) -> None:
        self._held = ""
        self._at = 0

    def start(self, columns_used: int) -> None:
        """Begin a line, of which some columns are taken."""
        self._held, self._at = "", columns_used

    def feed(self, text: str, columns: int) -> str:
        """Take the next piece of a reply; returns what can be written."""
        pieces = _PIECES.findall(self._held + text)
        last = pieces[-1] if pieces else ""
        # A word may go on in the next piece; one that is longer than a row is broken anyway.
        is_open = len(last) > 1 or (last != "" and not last.isspace() and cell_width(last) == 1)
        self._held = pieces.pop() if is_open and cell_width(last) < columns else ""
        return "".join(self._place(piece, columns) for piece in pieces)

    def end(self, columns: int) -> str:
        """Return what was held back."""
        held, self._held = self._held, ""
        return self._place(held, columns) if held else ""

    def _place(self, piece: str, columns: int) -> str:
        if piece == "\n":
            self._at = 0
            return piece
        at = self._at
        size = _TAB_COLUMNS - at % _TAB_COLUMNS if piece == "\t" else cell_width(piece)
        is_over = at + size > columns
        if is_over and piece.isspace():
            self._at = columns
            return " " * (columns - at)
        fill = ""
        if is_over and at > 0 and size <= columns:
            fill, at = " " * (columns - at), 0
        at += size
        self._at = at if at <= columns else at % columns
        return fill + piece
