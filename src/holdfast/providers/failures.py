"""The symptoms of whatever a model call ended with: an exception, an event, a body, a text.

Nothing here imports an SDK: exceptions are known by what they carry, so those of `anthropic`,
`openai`, `httpx2`, `botocore`, `litellm` and of clients no one has heard of are read alike.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from holdfast.core.failures.classify import Failure, Rule, Symptoms, classify
from holdfast.core.failures.normalise import TEXT_CHARS_MAX, seconds_in, unwrap
from holdfast.errors import HoldfastError

_CAUSES_MAX: Final = 6
"""SDKs wrap the HTTP library, which wraps the socket: three are usual."""
_PLAIN_CLASSES: Final = frozenset(
    ("Exception", "BaseException", "RuntimeError", "ValueError", "APIError", "APIStatusError")
)
"""Names that say no more than that something failed."""
_GZIP: Final = b"\x1f\x8b"
_RESETS: Final = ("tokens", "requests", "input-tokens", "output-tokens")


def name_failure(error: object, extra: Sequence[Rule] = ()) -> Failure:
    """Classify a failed call. `extra` rules come before the built-in ones."""
    if isinstance(error, HoldfastError):
        # Our own refusals speak of windows too, and sending less is what they have tried.
        return Failure(
            kind="config_error",
            action="stop_and_tell_user",
            subclass=error.code,
            message=str(error),
            rule="raised by Holdfast",
        )
    return classify(symptoms_of(error), extra)


def symptoms_of(error: object) -> Symptoms:
    """Return the visible facts of a failure of any type. Never raises."""
    match error:
        case Symptoms():
            return error
        case BaseException():
            return _of_exception(error, _CAUSES_MAX)
        case str():
            return Symptoms(message=error)
        case bytes() | bytearray():
            return Symptoms(message=_text_of_bytes(bytes(error)))
        case _:
            return _of_body(_as_plain(error))


def _of_exception(error: BaseException, causes: int) -> Symptoms:
    own = _own_symptoms(error)
    inner = _cause(error)
    if inner is None or causes == 0 or own.status is not None:
        return own
    below = _of_exception(inner, causes - 1)
    return Symptoms(
        status=below.status,
        code=" ".join(filter(None, (own.code, below.code))),
        type=below.type or own.type,
        message="\n".join(filter(None, (own.message, below.message))),
        retry_after=own.retry_after if own.retry_after is not None else below.retry_after,
    )


def _cause(error: BaseException) -> BaseException | None:
    """Return the explicit cause of an exception; its context does not count."""
    if isinstance(error, BaseExceptionGroup):
        return error.exceptions[0]
    return error.__cause__


def _own_symptoms(error: BaseException) -> Symptoms:
    response = _get(error, "response")
    body = _body_of(error, response)
    found = _of_body(body) if body not in (None, "", {}, []) else Symptoms()
    status = _status_of(error, response)
    headers = _headers_of(response)
    waiting = _retry_after(headers)
    name = type(error).__name__
    return Symptoms(
        status=status if status is not None else found.status,
        code=found.code or _word(_get(error, "code")),
        type=found.type or _word(_get(error, "type")) or ("" if name in _PLAIN_CLASSES else name),
        message=found.message or _message_of(error),
        retry_after=waiting if waiting is not None else found.retry_after,
    )


def _message_of(error: BaseException) -> str:
    message = _get(error, "message")
    if isinstance(message, str) and message:
        return message
    try:
        return str(error)
    except Exception:  # a foreign __str__ may do anything
        return ""


def _body_of(error: BaseException, response: object) -> object:
    """The provider's own words; a body that was never read is not worth a second exception."""
    if isinstance(response, Mapping):
        return _as_plain(response)
    details = _get(error, "details")
    if isinstance(details, Mapping):  # of `google-genai`; elsewhere it may be anything
        return dict(details)
    for owner, name in ((error, "body"), (error, "response_json"), (response, "content")):
        found = _get(owner, name)
        if isinstance(found, bytes | bytearray):
            return _text_of_bytes(bytes(found))
        if found is not None and not callable(found):
            return _as_plain(found)
    return None


def _status_of(error: object, response: object) -> int | None:
    owners = (
        (error, ("status_code", "http_status", "status", "code")),
        (response, ("status_code",)),
    )
    for owner, names in owners:
        for name in names:
            found = _get(owner, name)
            if isinstance(found, int) and not isinstance(found, bool) and 100 <= found < 600:
                # An error inside a stream comes with the status of the stream, which was fine.
                return found if found >= 300 else None
    return None


def _of_body(body: object) -> Symptoms:
    """A parsed body, a stream event or a text in one of them."""
    if isinstance(body, str):
        return Symptoms(message=body)
    inside = unwrap(body)
    named = (inside.code, inside.type)
    more = [mark for mark in inside.marks if mark not in named and " " not in mark]
    return Symptoms(
        status=inside.status,
        code=" ".join(filter(None, (inside.code, *more))),
        type=inside.type,
        message="<html>" * inside.is_html + inside.text,
        retry_after=inside.retry_after,
    )


def _headers_of(response: object) -> Mapping[str, str]:
    headers = _get(response, "headers")
    if isinstance(response, Mapping):
        headers = _get_item(response.get("ResponseMetadata"), "HTTPHeaders")
    try:
        return {str(name).lower(): str(value) for name, value in dict(headers).items()}  # type: ignore[call-overload]
    except (TypeError, ValueError):
        return {}


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Return the seconds that a response asks to wait."""
    if (milliseconds := _amount(headers.get("retry-after-ms"))) is not None:
        return milliseconds / 1_000
    given = headers.get("retry-after")
    if given is not None:
        seconds = _amount(given)
        return seconds if seconds is not None else _until(given, headers.get("date"))
    waits = [_reset(headers, kind) for kind in _RESETS]
    return max((wait for wait in waits if wait is not None), default=None)


def _reset(headers: Mapping[str, str], kind: str) -> float | None:
    """When a limit that has run out starts again."""
    for prefix, order in (("x-ratelimit", "{}-{}-{}"), ("anthropic-ratelimit", "{0}-{2}-{1}")):
        left = headers.get(order.format(prefix, "remaining", kind))
        when = headers.get(order.format(prefix, "reset", kind))
        if when is not None and left in (None, "0"):
            span = seconds_in(when)
            return span if span is not None else _until(when, headers.get("date"))
    return None


def _until(moment: str, now: str | None) -> float | None:
    """The seconds between two moments of the same server, so that our clock does not matter."""
    later, sooner = _moment(moment), _moment(now or "")
    if later is None or sooner is None:
        return None
    try:
        return max(0.0, (later - sooner).total_seconds())
    except TypeError:  # one of them names no time zone
        return None


def _moment(text: str) -> datetime | None:
    from email.utils import parsedate_to_datetime  # loads 13 modules, for a rare header

    for read in (parsedate_to_datetime, datetime.fromisoformat):
        try:
            return read(text)
        except (TypeError, ValueError, IndexError):
            continue
    return None


def _amount(text: str | None) -> float | None:
    try:
        amount = float(text or "")
    except ValueError:
        return None
    return amount if 0 <= amount < float("inf") else None


def _text_of_bytes(data: bytes) -> str:
    if data.startswith(_GZIP):
        data = _inflate(data)
    return data[: 4 * TEXT_CHARS_MAX].decode("utf-8", "replace")


def _inflate(data: bytes) -> bytes:
    """Decompress a body as far as possible: it may have been cut short."""
    try:
        return zlib.decompressobj(31).decompress(data, 4 * TEXT_CHARS_MAX)
    except zlib.error:
        return b"a gzip body that cannot be read"


def _as_plain(value: object) -> object:
    """A value as dicts and lists, if it knows how to become one."""
    if value is None or isinstance(value, str | dict | list):
        return value
    if isinstance(value, bytes | bytearray):
        return _text_of_bytes(bytes(value))
    if isinstance(value, Mapping):
        return dict(value)
    become = _get(value, "model_dump") or _get(value, "to_dict")
    if callable(become):
        try:
            return become()
        except Exception:  # foreign code, and there is a second way
            return vars(value)
    return vars(value) if hasattr(value, "__dict__") else str(value)


def _get(owner: object, name: str) -> object:
    """An attribute, where reading it is possible: a response that was not read raises."""
    try:
        return getattr(owner, name, None)
    except Exception:  # foreign properties may do anything
        return None


def _get_item(owner: object, key: str) -> object:
    return owner.get(key) if isinstance(owner, Mapping) else None


def _word(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        return ""
    return str(value).strip()
