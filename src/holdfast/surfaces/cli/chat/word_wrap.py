"""Rows of a reply that arrives in pieces: no word is broken at the edge of the terminal."""

from __future__ import annotations

from typing import Final

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.surfaces.formatting import cell_width

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
