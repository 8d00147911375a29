"""Unwrap a provider's error to the text and fields it really carries.

Errors arrive as text in JSON in text: a proxy quotes a gateway that quotes a provider. `unwrap`
takes such a text apart, and `plain` makes two spellings of one sentence equal. Requests that are
echoed inside an error are left out: they hold the words of users and tools, and what those say
about windows and limits is no failure.
"""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from typing import Any, Final

import msgspec

from holdfast.core.text.cut import cut, ellipsis, scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

TEXT_CHARS_MAX: Final = 16_000
"""No provider needs more to say what is wrong; pages of HTML do."""
_LAYER_CHARS_MAX: Final = 2_000
_LAYERS_CHARS_MAX: Final = 4_000
_ECHO_CHARS_MIN: Final = 10
"""An echoed request is preceded by an explanation; a text at the very start is no echo."""
_SENTENCE_SPACES_MIN: Final = 4
_DEPTH_MAX: Final = 24
_OPENINGS_MAX: Final = 64
_PARTS_MAX: Final = 64
"""Bounds on what is read of an error: real ones nest a few levels and hold a few texts.
A `param` with four spaces is a sentence."""

_TEXT_KEYS: Final = frozenset(
    (
        *("message", "msg", "error", "errors", "err", "detail", "details", "title", "description"),
        *("reason", "raw", "cause", "metadata", "response", "result", "status_message", "fault"),
        *(
            "error_msg",
            "error_message",
            "errormessage",
            "errormsg",
            "error_description",
            "last_error",
        ),
        *("innererror", "inner_error", "inner_exception", "exception", "original", "faultstring"),
        *("base_resp", "status_msg", "incomplete_details", "violations", "quotametric", "quotaid"),
        *("body", "data", "failure", "originalmessage", "upstream", "provider_error", "info"),
        *("header", "responsemetadata", "event", "failed", "problem", "hint", "errortext"),
        *("validationexception", "throttlingexception", "modelstreamerrorexception"),
        *("internalserverexception", "serviceunavailableexception", "modeltimeoutexception"),
    )
)
"""Keys that hold an error's own text. Everything else may be quoted content."""
_MARK_KEYS: Final = frozenset(
    (
        *("code", "type", "error_code", "errorcode", "errcode", "err_code", "error_type", "__type"),
        *("status", "reason", "name", "@type", "status_code", "finish_reason", "stop_reason"),
        *("errortype", "quotaid", "quotametric", "sid", "kind"),
    )
)
_GENERIC_TYPES: Final = frozenset(("", "error", "errors", "exception", "response.failed", "object"))
_STATUS_KEYS: Final = frozenset(
    ("status", "status_code", "statuscode", "http_status", "httpstatuscode", "httpstatus", "code")
)
_RETRY_KEYS: Final = frozenset(("retry_after", "retryafter", "retrydelay", "retry_after_seconds"))
_ERROR_KEY: Final = lazy_pattern(r"(?:error|exception|failure)s?$")
_COUNT_KEY: Final = lazy_pattern(r"token|n_ctx|n_prompt|limit|context_length|max_len|input_len")

_SAID_STATUS: Final = lazy_pattern(
    r"\b(?:(?:api |http |server |client )?error(?: code)?|(?:http |response )?status(?:[_ ]code)?|"
    r"http(?:/\d(?:\.\d)?)?|response code|code)\b"
    r"[\s:=\"'(]{1,4}([2-5]\d\d)\b(?!\s*tokens)|"
    r"^\W{0,2}([45]\d\d)\b(?=\W{1,3}[a-z{<\"']|$)",
    re.IGNORECASE,
)
_CLASS_NAME: Final = lazy_pattern(r"\b(?:\w+\.){0,10}(\w*(?:Error|Exception|Fault|Timeout))\b")
_SNAKE_NAME: Final = lazy_pattern(r"\b[A-Za-z]+(?:_[A-Za-z]+)+\b")
_AMOUNT: Final = (
    r"(?<!\d)(\d+(?:\.\d+)?)\s?(ms|milliseconds?|hours?|h|minutes?|min|m|seconds?|secs?|s)(?![a-z])"
)
_SPAN: Final = lazy_pattern(_AMOUNT)
_RETRY_IN: Final = lazy_pattern(
    r"(?:try again|retry|wait|available|resets?)(?: \w+){0,2}? (?:in|after|for)[ :]*(?:about )?"
    rf"((?:{_AMOUNT}\s?)+)"
)

_URL: Final = lazy_pattern(r"\b(?:https?|wss?)://[^\s\"'<>)\]]+|\bwww\.[^\s\"'<>)\]]+")
_UNSEEN_HTML: Final = lazy_pattern(
    r"<(script|style|svg)\b.*?(?:</\1>|$)", re.DOTALL | re.IGNORECASE
)
_TAG: Final = lazy_pattern(r"<[^>]*+(?:>|\Z)")
_IS_HTML: Final = lazy_pattern(
    r"<!doctype html|<html\b|<head\b|<body\b|</(?:title|h1|center)>", re.IGNORECASE
)
_QUOTES: Final = lazy_pattern("[`\"'“”‘’«»*\\\\]")
_GROUPED: Final = lazy_pattern(
    r"(?<![\w.,\-\[/])\d{1,3}([,_. ])\d{3}(?:\1\d{3})*(?!\d)"
    r"(?!\s?(?:s|sec|seconds|ms|mb|gb|kb)\b)"
)
_ECHOED_VALUE: Final = lazy_pattern(r"input_value=.*?(?=, input_type=|$)", re.DOTALL)
_ECHOED_FIELD: Final = lazy_pattern(
    r"[{,]\s*(['\"])(?:inputs?|messages|prompt|contents?|instructions)\1\s*:\s*['\"{\[]"
)
_ESCAPED: Final = lazy_pattern(r"\\u([0-9a-fA-F]{4})")


class Unwrapped(msgspec.Struct, frozen=True):
    """The fields found inside an error."""

    text: str
    """The readable text: a line for each layer, innermost last."""
    code: str = ""
    """The innermost."""
    type: str = ""
    """The innermost that says more than that this is an error."""
    marks: tuple[str, ...] = ()
    """Codes, types and class names: what it says to programs."""
    status: int | None = None
    retry_after: float | None = None
    is_html: bool = False


class _Finds:
    """The findings of a walk through a value so far."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.code = ""
        self.type = ""
        self.marks: list[str] = []
        self.status: int | None = None
        self.retry_after: float | None = None
        self.is_html = False

    def say(self, text: str) -> None:
        text = cut(text.strip(), _LAYER_CHARS_MAX, marker=ellipsis).text
        if text and text not in self.texts and len(self.texts) < _PARTS_MAX:
            self.texts.append(text)

    def mark(self, name: object) -> None:
        if isinstance(name, str | int) and not isinstance(name, bool):
            text = str(name).strip()
            if text and len(text) <= 120 and text not in self.marks:
                self.marks.append(text)


def unwrap(value: object) -> Unwrapped:
    """Take an error's text, or a parsed body, apart. Never raises, whatever it is given."""
    finds = _Finds()
    _walk(value, finds, _DEPTH_MAX)
    text = cut("\n".join(finds.texts), _LAYERS_CHARS_MAX, marker=ellipsis).text
    for name in _CLASS_NAME.findall(text):
        finds.mark(name)
    for name in _SNAKE_NAME.findall(_URL.sub(" ", text)):
        finds.mark(name)
    status = finds.status
    if status is None:
        status = _status_in_text(text)
    retry_after = finds.retry_after if finds.retry_after is not None else _waiting_time(text)
    return Unwrapped(
        text=text,
        code=finds.code,
        type=finds.type,
        marks=tuple(finds.marks),
        status=status,
        retry_after=retry_after,
        is_html=finds.is_html,
    )


def _status_in_text(text: str) -> int | None:
    """The status a text speaks of: the one that came, not the one that was hoped for."""
    said = [int(found[1] or found[2]) for found in _SAID_STATUS.finditer(text)]
    return next((status for status in said if status >= 300), said[0] if said else None)


def _walk(value: object, finds: _Finds, depth: int) -> None:
    if depth == 0:
        return
    match value:
        case bytes():
            _walk(value.decode("utf-8", "replace"), finds, depth)
        case str():
            _walk_text(value, finds, depth)
        case dict():
            _walk_mapping(value, finds, depth)
        case list() | tuple():
            for item in value[:_PARTS_MAX]:
                _walk(item, finds, depth - 1)
        case _:
            return


def _walk_mapping(value: dict[Any, Any], finds: _Finds, depth: int) -> None:
    for given, item in value.items():
        key = str(given).lower().replace("-", "_")
        if key in _STATUS_KEYS:
            _note_status(item, finds)
        if key in _MARK_KEYS:
            finds.mark(item)
        if key in ("code", "error_code") and isinstance(item, str | int):
            finds.code = str(item).strip()
        if key == "type" and isinstance(item, str) and item.lower() not in _GENERIC_TYPES:
            finds.type = item.strip()
        if key in _RETRY_KEYS:
            finds.retry_after = _seconds(item)
        if key in _TEXT_KEYS or (key not in _MARK_KEYS and _ERROR_KEY.search(key)):
            _walk(item, finds, depth - 1)
        elif key == "param" and isinstance(item, str) and item.count(" ") >= _SENTENCE_SPACES_MIN:
            finds.say(item)  # a gateway keeps what the provider said here
        elif isinstance(item, int) and not isinstance(item, bool) and _COUNT_KEY.search(key):
            finds.say(f"{key} = {item}")


def _note_status(item: object, finds: _Finds) -> None:
    text = str(item)
    if finds.status is None and len(text) == 3 and text.isdecimal() and 200 <= int(text) < 600:
        finds.status = int(text)


def _walk_text(text: str, finds: _Finds, depth: int) -> None:
    text = cut(scrub(text), TEXT_CHARS_MAX, marker=ellipsis).text
    if _IS_HTML.search(text):
        finds.is_html = True
        text = _TAG.sub(_blank_tag, _UNSEEN_HTML.sub(" ", text))
    outside, inside = _split(text)
    if not inside and '\\"' in text:
        outside, inside = _split(_unescape(text))
    finds.say(_without_echo(outside if inside else _unescape(text)))
    for value in inside:
        _walk(value, finds, depth - 1)


def _blank_tag(tag: re.Match[str]) -> str:
    return " " if tag[0].endswith(">") else tag[0]


def _without_echo(text: str) -> str:
    """A text without the request it quotes, which holds the words of users and tools."""
    text = _ECHOED_VALUE.sub("", text)
    echo = _ECHOED_FIELD.search(text, _ECHO_CHARS_MIN)
    return text[: echo.start()] if echo else text


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text).replace('\\"', '"')


def _split(text: str) -> tuple[str, list[object]]:
    """The text around the JSON values in a text, and those values."""
    outside: list[str] = []
    inside: list[object] = []
    end = 0
    for _ in range(_OPENINGS_MAX):
        found = _OPENING.search(text, end)
        if found is None:
            break
        start = found.start()
        try:
            value, after = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            outside.append(text[end : start + 1])
            end = start + 1
            continue
        outside.append(text[end:start])
        inside.append(value)
        end = after
    outside.append(text[end:])
    return "".join(outside), inside


_DECODER: Final = json.JSONDecoder(strict=False)
_OPENING: Final = lazy_pattern(r'\{(?=\s*")|\[(?=\s*\{)|\A\s*"(?=\s*[{\[])')


def _seconds(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value) if value >= 0 else None
    return seconds_in(value) if isinstance(value, str) else None


def _waiting_time(text: str) -> float | None:
    """Return the delay in seconds that a text asks for."""
    found = _RETRY_IN.search(text.lower())
    return seconds_in(found[1]) if found else None


def seconds_in(text: str) -> float | None:
    """A span of time such as `6m0s`, `4.77s` or `20 minutes`; a bare number is seconds."""
    if re.fullmatch(r"\d+(?:\.\d+)?", text.strip()):
        return float(text)
    parts = _SPAN.findall(text.lower())
    if not parts:
        return None
    return sum(float(amount) * _unit_seconds(unit) for amount, unit in parts)


def _unit_seconds(unit: str) -> float:
    if unit.startswith(("ms", "milli")):
        return 0.001
    return {"h": 3_600.0, "m": 60.0, "s": 1.0}[unit[0]]


@functools.lru_cache(maxsize=256)
def plain(text: str) -> str:
    """A text without its accidents: case, quotes, addresses, the way numbers are grouped."""
    text = unicodedata.normalize("NFKC", text)
    text = _QUOTES.sub("", _URL.sub(" ", text)).lower()
    text = "\n".join(" ".join(line.split()) for line in text.splitlines())
    return _GROUPED.sub(lambda found: found[0].replace(found[1], ""), text)


def squeeze(marks: tuple[str, ...]) -> str:
    """Marks with only letters and digits: `context_length_exceeded`, `ContextLengthExceeded`."""
    words = (word for mark in marks for word in mark.split())
    return " ".join(re.sub(r"[^a-z0-9]", "", word.lower()) for word in words)
