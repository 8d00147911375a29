"""Low-level output of a chat at a terminal or in a pipe: open lines, notices and a spinner."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.surfaces.answers import GAP, Cell, StyledLine, StyledTable, layout
from holdfast.surfaces.cli.chat.spinner import Spinner
from holdfast.surfaces.cli.chat.word_wrap import WordWrap
from holdfast.surfaces.cli.terminal import keep_words, paint

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
