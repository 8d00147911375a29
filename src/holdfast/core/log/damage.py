"""Damage in a log, as values: its place, its size, and its meaning for the reader."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

from holdfast.core.limits import DAMAGE_PREVIEW_BYTES
from holdfast.core.text.lazy_pattern import lazy_pattern

FlawKind = Literal["torn", "nul", "missing", "utf-8", "garbage", "shape", "oversize"]
Kind = (
    FlawKind
    | Literal[
        "no-header",
        "late-header",
        "foreign-header",
        "newer-version",
        "duplicate-id",
        "missing-parent",
        "open-batch",
        "lost-boundary",
        "repaired-text",
    ]
)

MEANING: Final[dict[str, str]] = {
    "torn": "an append that never completed; it was not acknowledged",
    "nul": "a run of NUL bytes, as a file system leaves after losing power",
    "missing": "lines that the database no longer has",
    "utf-8": "bytes that are not UTF-8",
    "garbage": "a line that is not JSON",
    "shape": "JSON, but not a record",
    "oversize": "a line too long to be parsed; it is left in the file",
    "no-header": "no session header; the id comes from the name (the seed format has none)",
    "late-header": "a session header that is not the first line; ignored",
    "foreign-header": "the header of another tool; readable, not writable",
    "newer-version": "written by a newer Holdfast; readable, not writable",
    "duplicate-id": "an id used twice; the later record goes by its position",
    "missing-parent": "a parent that is not in the log; taken to be the record before",
    "open-batch": "part of an append of several records that never completed, or lost a page",
    "lost-boundary": "a compaction whose first kept record is not in the log",
    "repaired-text": "text that no strict reader accepts (lone surrogates, NaN); mended when read",
}

NOTES: Final = frozenset(
    (
        *("no-header", "foreign-header", "newer-version", "repaired-text"),
        *("torn", "open-batch"),  # what a killed writer left: nothing of it was acknowledged
    )
)
"""Findings that lose nothing."""

GAP: Final = 0x1A
"""The byte that takes the place of each byte that a store has lost (ASCII "substitute"). A line of
them keeps the positions of the lines after it, in a database and in every export."""

_SUSPECT: Final = lazy_pattern(rb"\\u[dD][89a-fA-F]|NaN|Infinity")


class Flaw(NamedTuple):
    """Why a line is not a record."""

    kind: FlawKind
    detail: str


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong with a log. `position` and `size` are in bytes for files."""

    kind: Kind
    """The kind of damage."""
    position: int
    """Its first byte; in stores without files, the place of the record."""
    size: int
    """Its length."""
    detail: str
    """More about it, for people."""
    preview: str = ""
    """The first characters that are damaged."""

    @property
    def is_damage(self) -> bool:
        return self.kind not in NOTES

    @property
    def meaning(self) -> str:
        return MEANING[self.kind]


def was_repaired(line: bytes) -> bool:
    """Return whether a readable line holds text that only a lenient reader accepts."""
    if not _SUSPECT.search(line):
        return False
    try:
        msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return True
    return False


def preview(data: bytes) -> str:
    """The first bytes of a damaged line, safe to print anywhere."""
    shown = data[:DAMAGE_PREVIEW_BYTES].decode("utf-8", "backslashreplace")
    printable = "".join(c if c.isprintable() else f"\\x{ord(c):02x}" for c in shown)
    return f"{printable}…" if len(data) > DAMAGE_PREVIEW_BYTES else printable


def flaw_in_bytes(line: bytes, seal: int) -> Flaw | None:
    """Why bytes can be no JSON text: sealed, lost, with NUL bytes, or not UTF-8."""
    if line and line[-1] == seal:
        return Flaw("torn", f"{len(line) - 1} bytes of an append that never completed")
    if line and line.count(GAP) == len(line):
        return Flaw("missing", f"{len(line) + 1} bytes of rows that are gone")
    nuls = line.count(0)
    if nuls:
        return Flaw("nul", f"{nuls} NUL bytes in a line of {len(line)}")
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return Flaw("utf-8", f"byte {error.start} of the line: {error.reason}")
    return None
