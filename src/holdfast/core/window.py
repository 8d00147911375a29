"""The context window of a model, as one type from the doors to the log.

A record, a row, a report or a request holds a number of tokens. Everything else passes a `Window`,
which says where the number is from. What no one stated is `None` at a door and after it, and means
the model's own; every window at once is `ANY_WINDOW`.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from holdfast.core.limits import WINDOW_WARN_TOKENS
from holdfast.errors import BadSetting

WINDOW: Final = msgspec.Meta(
    description="The context window in tokens, where it is not the model's own."
)
"""The parameter of an operation or a command that is a window."""
Confidence = Literal["stated", "known", "learned", "assumed"]
"""`stated`: the caller said so. `known`: from a table of models. `learned`: from a provider's own
error text. `assumed`: a default."""


class Window(msgspec.Struct, frozen=True):
    """The model's window: one value for every gate and every display."""

    tokens: int
    """Input and output together."""
    source: str = "given"
    """The origin of the number, in words."""
    confidence: Confidence = "stated"
    """The kind of origin, and so how far to trust it."""

    def __post_init__(self) -> None:
        if self.tokens <= 0:
            raise BadSetting(
                f"a window of {self.tokens:,} tokens is not possible",
                hint="give the model's context window in tokens, for example 200000",
            )

    @property
    def warning(self) -> str:
        """Return the warning about a small window; empty if it is large enough."""
        if self.tokens >= WINDOW_WARN_TOKENS:
            return ""
        return (
            f"a window of {self.tokens:,} tokens ({self.source}) is small: "
            f"below {WINDOW_WARN_TOKENS:,} little history fits"
        )


class AnyWindow(msgspec.Struct, frozen=True):
    """Every window: of a log's compactions the newest counts, whatever window it was made for."""


ANY_WINDOW: Final = AnyWindow()
"""Every window, for anyone who reads a log without a model in mind."""

WindowFilter = Window | AnyWindow
"""The window whose compactions of a log count."""
StatedWindow = int | Window
"""A window as a caller states it: a number of tokens will do."""
GivenWindow = int | Window | None
"""A window as a caller states it, or None for the model's own."""


def as_window(given: StatedWindow, source: str = "given") -> Window:
    """Return the window that a caller states."""
    return given if isinstance(given, Window) else Window(given, source)


def window_argument(given: GivenWindow, source: str = "given") -> Window | None:
    """Return the window that a caller states; None where that is the model's own."""
    return None if given is None else as_window(given, source)
