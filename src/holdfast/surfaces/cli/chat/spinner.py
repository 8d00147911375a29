"""A spinner for anything that takes longer than a second."""

from __future__ import annotations

import shutil
import threading
import time
from typing import TYPE_CHECKING, Final

from holdfast.surfaces.cli.terminal import paint

if TYPE_CHECKING:
    from typing import TextIO

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
