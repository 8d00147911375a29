"""Numbers, sizes, times and untrusted text, formatted alike on every surface."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final, Literal
from unicodedata import combining, east_asian_width

from holdfast.core.text.cut import cut, ellipsis

if TYPE_CHECKING:
    from holdfast.engine.operations.approvals import WaitingCall

Tone = Literal["plain", "dim", "good", "warn", "bad", "name", "strong"]
"""The emphasis of a text. It repeats in colour what the words say."""

METER_CELLS: Final = 30
_DOLLARS_MIN: Final = 0.0001
"""Dollars; the least that four digits show."""
_LINE_CHARS: Final = 200
_WARN_SHARE: Final = 0.5
_BAD_SHARE: Final = 0.8
"""A window is worth a look when half full, and near its limit at four fifths."""


def count(number: int, noun: str) -> str:
    """Return a number with its noun in the singular or plural: `1 call`, `1,200 calls`."""
    return f"{number:,} {noun}{'s' * (number != 1)}"


def money(dollars: float) -> str:
    """Return an amount in cents; below ten cents, with enough digits to be more than zero."""
    if 0 < dollars < _DOLLARS_MIN:
        return f"<${_DOLLARS_MIN}"
    return f"${dollars:,.2f}" if dollars >= 0.1 or not dollars else f"${dollars:.4f}"


def size_text(bytes_: int) -> str:
    """Return a size in the largest decimal unit, up to GB."""
    amount = float(bytes_)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1_000 or unit == "GB":
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1_000
    raise AssertionError(bytes_)


def local_time(ts: float, between: str = " ") -> str:
    """Return a time stamp as local date and time, or as a number if the clock cannot show it."""
    try:
        return time.strftime(f"%Y-%m-%d{between}%H:%M:%S", time.localtime(ts)) if ts > 0 else "-"
    except (OverflowError, ValueError, OSError):
        return f"{ts:g}"


def ago(ts: float) -> str:
    """Return the time since `ts` in its largest unit; after 30 days, the date."""
    seconds = time.time() - ts
    if ts <= 0 or seconds < -60:
        return local_time(ts)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= length:
            is_old = seconds > 30 * 86_400
            return (
                local_time(ts, " ").partition(" ")[0]
                if is_old
                else f"{seconds // length:.0f} {unit} ago"
            )
    return "just now"


def printable(text: str, instead: str = "") -> str:
    """Replace every character that could control a terminal."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else instead for char in text)


def without_controls(text: str) -> str:
    """Replace control characters except tabs, so that stored text cannot control a terminal."""
    return "".join(char if char.isprintable() or char == "\t" else "\ufffd" for char in text)


def one_line(text: str, max_chars: int = _LINE_CHARS) -> str:
    """Return the beginning of a text on one line, safe to print."""
    words = " ".join(text[: 4 * max_chars].split())
    return cut(printable(words), max_chars, keep="head", marker=ellipsis).text


def capitalise(text: str) -> str:
    """Return a text with its first letter in upper case and the rest unchanged."""
    return text[:1].upper() + text[1:]


def bar(share: float, width: int) -> str:
    """Draw a share of a whole as a bar of at most `width` characters."""
    eighths = round(max(0.0, min(share, 1.0)) * width * 8)
    rest = "" if eighths % 8 == 0 else "▏▎▍▌▋▊▉"[eighths % 8 - 1]
    return "█" * (eighths // 8) + rest


def meter(share: float, cells: int = METER_CELLS) -> str:
    """Draw a share as `[###---]`; any share above zero fills at least one cell."""
    filled = min(cells, max(int(cells * min(share, 1.0)), 1 if share > 0 else 0))
    return f"[{'#' * filled}{'-' * (cells - filled)}]"


def tone_of(share: float) -> Tone:
    """Return the colour of a window that is used to this share."""
    return "good" if share < _WARN_SHARE else "warn" if share < _BAD_SHARE else "bad"


def cell_width(text: str) -> int:
    """Return the columns that a text takes on a terminal."""
    if text.isascii():
        return len(text)
    wide = sum(east_asian_width(item) in "WF" for item in text)
    return len(text) + wide - sum(bool(combining(item)) for item in text)


def call_outcome(call: WaitingCall, now: float) -> str:
    """Return what became of a call, and by whom; empty while a person may decide."""
    if call.state == "parked":
        is_over = call.until is not None and call.until <= now
        return "Expired: no one decided in time." if is_over else ""
    word = "approved" if call.state == "started" else call.state
    return f"{word.capitalize()} by {call.by}." if call.by else f"{word.capitalize()}."
