"""Checked requests for the history. Models send all sorts of arguments."""

from __future__ import annotations

import re
import sys
from typing import Any, Literal

import msgspec

from holdfast.core.limits import (
    EXCERPT_CHARS,
    EXCERPT_CHARS_MAX,
    EXCERPT_CHARS_MIN,
    HISTORY_LIMIT_MESSAGES,
    HISTORY_LIMIT_MESSAGES_MAX,
    PATTERN_CHARS_MAX,
)
from holdfast.core.text.cut import cut


class HistoryRequest(msgspec.Struct, frozen=True):
    """The checked arguments of a call."""

    limit: int = HISTORY_LIMIT_MESSAGES
    include_tools: bool = False
    words: tuple[str, ...] = ()
    cursor: str = ""
    around: str = ""
    output_ref: str = ""
    chars: int = EXCERPT_CHARS
    offset: int = 0


RefusalStatus = Literal["forbidden", "not_found", "invalid", "conflict", "error"]


class RequestRefused(Exception):
    """The answer that is a refusal: its kind, and a sentence for whoever asked. A door renders it.

    `forbidden` never tells whether the thing exists; `error` is a failure on our side.
    """

    def __init__(self, status: RefusalStatus, error: str) -> None:
        super().__init__(error)
        self.status, self.error = status, error


def check_request(
    *,
    limit: Any,
    include_tools: Any,
    query: Any,
    cursor: Any,
    around: Any,
    output_ref: Any,
    output_ref_max_chars: Any,
    output_ref_offset: Any,
) -> HistoryRequest:
    """A request made from the arguments of a call. Raises `RequestRefused`."""
    chars = whole_number(
        "outputRefMaxChars", output_ref_max_chars, EXCERPT_CHARS_MAX, least=-sys.maxsize
    )
    request = HistoryRequest(
        limit=whole_number("limit", limit, HISTORY_LIMIT_MESSAGES_MAX) or HISTORY_LIMIT_MESSAGES,
        include_tools=_yes_or_no("includeTools", include_tools),
        words=tuple(_text("query", query).split()),
        cursor=_text("cursor", cursor).strip(),
        around=_text("around", around).strip(),
        output_ref=_text("outputRefPath", output_ref).strip(),
        chars=EXCERPT_CHARS if chars is None else max(EXCERPT_CHARS_MIN, chars),
        offset=whole_number("outputRefOffset", output_ref_offset, sys.maxsize, least=0) or 0,
    )
    given = [name for name in ("cursor", "around", "output_ref") if getattr(request, name)]
    if len(given) > 1 or (request.words and given and given != ["cursor"]):
        raise RequestRefused(
            "invalid", "choose one of cursor, around and outputRefPath; a query goes with a cursor"
        )
    return request


def whole_number(name: str, value: Any, most: int, *, least: int = 1) -> int | None:
    """A number that is at most `most`; None where none was given."""
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"-?[0-9]{1,18}", value.strip()):
        value = int(value)
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        given = cut(repr(value), 40).text
        raise RequestRefused(
            "invalid", f"`{name}` must be a whole number from {least} up, not {given}"
        )
    return min(value, most)


def _yes_or_no(name: str, value: Any) -> bool:
    if value is None or isinstance(value, bool):
        return bool(value)
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    raise RequestRefused(
        "invalid", f"`{name}` must be true or false, not {cut(repr(value), 40).text}"
    )


def _text(name: str, value: Any) -> str:
    if value is not None and not isinstance(value, str):
        raise RequestRefused("invalid", f"`{name}` must be a text, not {cut(repr(value), 40).text}")
    text = value or ""
    if len(text) > PATTERN_CHARS_MAX:
        raise RequestRefused(
            "invalid", f"`{name}` has {len(text):,} characters; give at most {PATTERN_CHARS_MAX:,}"
        )
    return text


def sentence_of(error: Exception) -> str:
    """The message of an error with its hint."""
    hint = getattr(error, "hint", None)
    return f"{error}; {hint}" if hint else str(error)
