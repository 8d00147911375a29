"""JSON as other programs leave it behind: torn, doubled, oversize, with numbers no JSON has.

The bytes of a file are unpacked first: gzip within stated limits, other encodings as UTF-8.
"""

from __future__ import annotations

import json
import math
import zlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.limits import NESTING_MAX
from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import Json, Record, from_json
from holdfast.core.text.cut import cut, ellipsis, scrub, scrub_deep
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.strings import is_too_deep
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator


UNPACKED_BYTES_MAX: Final = 1024 * 1024 * 1024
"""A file that has more than this, as it is or unpacked, is refused: no transcript is that long."""
EXPANSION_MAX: Final = 250
"""A packed file may unpack to this many times its size. Transcripts pack to a fifth or a
twentieth; what packs to less than a 250th repeats itself to fill a memory."""
EXPANSION_FREE_BYTES: Final = 64 * 1024 * 1024
"""A packed file may unpack to as much as this, however small it is."""

_PIECE_BYTES: Final = 64 * 1024
"""Packed data is taken in pieces, so that damage costs only what comes after it."""
_MAGIC: Final = b"\x1f\x8b"
_START_BYTES: Final = 240
"""The bytes by which text is told from other files, and of which an error shows the first words."""
_START_CHARS: Final = 60
_CHARACTER_BYTES_MAX: Final = 4
SQLITE_MAGIC: Final = b"SQLite format 3\0"
"""The first bytes of a database, which is not a transcript."""


def unpack(data: bytes, name: str, flaws: Counter[tuple[str, str]]) -> bytes:
    """Return the bytes of a file, unpacked where it is packed.

    Raises `UsageError` where they are too many, before any memory is used for them.
    """
    if not data.startswith(_MAGIC):
        return data
    times = max(EXPANSION_FREE_BYTES, EXPANSION_MAX * len(data))
    limit = min(UNPACKED_BYTES_MAX, times)
    size = 0
    for piece in _pieces(data, {}):
        size += len(piece)
        if size > limit:
            raise _too_large(name, len(data), limit)
    found: dict[tuple[str, str], int] = {}
    unpacked = b"".join(_pieces(data, found))
    flaws.update(found)
    return unpacked


def as_utf8(data: bytes) -> bytes:
    """UTF-8 without a byte order mark, whatever the file had."""
    for mark, encoding in ((b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")):
        if data.startswith(mark):
            return data[2:].decode(encoding, errors="replace").encode(errors="replace")
    return data.removeprefix(b"\xef\xbb\xbf")


def _pieces(data: bytes, flaws: dict[tuple[str, str], int]) -> Iterator[bytes]:
    """Yield what is packed in pieces of bounded size; what ends them early is noted."""
    stream = zlib.decompressobj(wbits=31)
    has_begun = False
    for start in range(0, len(data), _PIECE_BYTES):
        piece = data[start : start + _PIECE_BYTES]
        while piece:
            if stream.eof:  # a file may have several members; what is none is padding
                stream = zlib.decompressobj(wbits=31)
            try:
                unpacked = stream.decompress(piece, 16 * _PIECE_BYTES)
            except zlib.error:
                if has_begun or start:
                    flaws["damaged gzip data", "what came before it was read"] = 1
                return
            if unpacked:
                has_begun = True
                yield unpacked
            piece = stream.unused_data if stream.eof else stream.unconsumed_tail
    if not stream.eof:
        flaws["cut-off gzip data", "the file ends early; what is there was read"] = 1


def _too_large(name: str, packed: int, limit: int) -> UsageError:
    if limit == UNPACKED_BYTES_MAX:
        return UsageError(
            f"`{name}` unpacks to more than {limit:,} bytes",
            hint="unpack it and import the transcripts in it one by one",
        )
    return UsageError(
        f"`{name}` has {packed:,} bytes and unpacks to more than {limit:,}, "
        f"over {EXPANSION_MAX} times as many",
        hint="if that is what it should be, unpack it and import the result",
    )


def has_words(data: bytes) -> bool:
    """False where the first bytes are not text, as in a program, a picture or an archive."""
    start = data[:_START_BYTES]
    words = start.decode(errors="ignore")
    is_whole = len(words.encode()) > len(start) - _CHARACTER_BYTES_MAX
    can_be_read = (char.isprintable() or char.isspace() or char in "\x1b\ufeff" for char in words)
    return bool(words.strip()) and is_whole and all(can_be_read)


def describe_start(data: bytes) -> str:
    """Describe a file by its first words, for an error."""
    if not has_words(data):
        return "it is not text"
    words = " ".join(data[:_START_BYTES].decode(errors="ignore").split())
    return f"it begins with `{cut(words, _START_CHARS, keep='head', marker=ellipsis).text}`"


NOT_JSON: Final = object()
"""The value that `parse` returns for text that is not JSON; `None` is a JSON value."""

_LEVELS_MAX: Final = 2 * NESTING_MAX
"""The depth up to which only the deepest part is left out; anything deeper is no conversation."""
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
_FRACTION: Final = lazy_pattern(r"(\.\d{6})\d+")


_lenient: Final = json.JSONDecoder(
    parse_constant=lambda _name: None, parse_int=lambda digits: _parse_int(digits)
)


class Line(msgspec.Struct, frozen=True):
    """One object of a JSON Lines file and where it was."""

    number: int
    value: Json


def parse(text: bytes | str) -> Any:
    """The JSON value in a text, or `NOT_JSON`. Accepts what only lenient readers accept."""
    try:
        value = _parse(text)
    except (ValueError, RecursionError):
        return NOT_JSON
    return NOT_JSON if is_too_deep(value, _LEVELS_MAX) else value


def _parse(text: bytes | str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        raw = text.decode(errors="replace") if isinstance(text, bytes) else text
        return scrub_deep(_lenient.decode(raw))


def parse_noting(text: bytes, flaws: Counter[tuple[str, str]]) -> Any:
    """Like `parse`; bytes that are no UTF-8 and had to be replaced are counted in `flaws`."""
    value = parse(text)
    if value is NOT_JSON:
        return value
    try:
        text.decode()
    except UnicodeDecodeError:
        flaws["text with bytes that are not UTF-8", "each was replaced by U+FFFD"] += 1
    return value


def split_lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines of a text one by one, without a copy of all of them."""
    start = 0
    while (end := data.find(b"\n", start)) >= 0:
        yield data[start:end]
        start = end + 1
    yield data[start:]


def read_lines(data: bytes, flaws: Counter[tuple[str, str]]) -> Iterator[Line]:
    """Yield the objects of a JSON Lines text; what is not an object is counted in `flaws`."""
    for number, raw in enumerate(split_lines(data), start=1):
        if not raw.strip():
            continue
        value = parse_noting(raw, flaws)
        if isinstance(value, dict):
            yield Line(number, value)
        elif value is NOT_JSON:
            for item in _split_glued(raw, flaws):
                yield Line(number, item)
        else:
            flaws["line that is not an object", f"found {type(value).__name__}"] += 1


def _split_glued(raw: bytes, flaws: Counter[tuple[str, str]]) -> list[Json]:
    """Objects on one line that lost the newline between them; what is left over is counted."""
    text = raw.decode(errors="replace").strip()
    found: list[Json] = []
    while text.startswith("{"):
        try:
            value, end = _lenient.raw_decode(text)
            found.append(_mend_object(value))
        except (ValueError, RecursionError):
            break
        text = text[end:].lstrip()
    if text:
        flaws["damaged line", "not JSON"] += 1
    return found


def _mend_object(value: Json) -> Json:
    mended = scrub_deep(value)
    assert isinstance(mended, dict)
    return mended


def seconds(value: object) -> float:
    """A time in whatever way a source spells it, as seconds since 1970; 0 where there is none."""
    if isinstance(value, bool):
        return 0.0
    if isinstance(value, int | float):
        return _seconds_of_number(value)
    if isinstance(value, str) and value:
        return _seconds_of_text(value)
    return 0.0


def plain(record: Record) -> Record:
    """The record with what JSON cannot hold made into what it can; as it was where that fails."""
    try:
        value = _plain({"type": record.kind, **_fields(record)}, 0)
        found = from_json(value)
    except (RecursionError, TypeError, ValueError):
        return record
    return record if isinstance(found, Flaw) else found


def _fields(record: Record) -> Json:
    names = record.__struct_fields__
    return {name: getattr(record, name) for name in names if name not in ("extra", "type")} | dict(
        record.extra
    )


def _plain(value: Any, depth: int) -> Any:
    if depth > NESTING_MAX:
        return "[nested too deeply]"
    match value:
        case bool() | None:
            return value
        case str():
            return scrub(value)
        case int():
            return value if _INT_MIN <= value <= _INT_MAX else str(value)
        case float():
            return value if math.isfinite(value) else None
        case dict():
            return {scrub(str(key)): _plain(item, depth + 1) for key, item in value.items()}
        case list() | tuple():
            return [_plain(item, depth + 1) for item in value]
        case _:
            return str(value)


def _parse_int(digits: str) -> int | str:
    """Python refuses to turn very long digit strings into numbers; such a one stays text."""
    if len(digits) > 4_000:
        return digits
    return int(digits)


def _seconds_of_number(value: float) -> float:
    """Seconds, milliseconds, microseconds or nanoseconds: told apart by their size."""
    try:
        amount = float(value)
    except OverflowError:
        return 0.0
    if not math.isfinite(amount) or amount <= 0:
        return 0.0
    for scale in (1, 1e3, 1e6, 1e9):
        if amount / scale < 1e11:
            return amount / scale
    return 0.0


def _seconds_of_text(text: str) -> float:
    try:
        return _seconds_of_number(float(text))
    except ValueError:
        pass
    try:
        moment = datetime.fromisoformat(_FRACTION.sub(r"\1", text.strip()))
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return max(moment.timestamp(), 0.0)
    except (ValueError, OverflowError, OSError):
        return 0.0
