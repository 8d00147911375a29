"""Errors as problem details (RFC 9457): what was asked, what was found, what to do next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.engine.spending.meter import budget_headers
from holdfast.errors import (
    AccessDenied,
    AmbiguousName,
    BadSetting,
    BlobMissing,
    BudgetSpent,
    CannotFit,
    HoldfastError,
    KeyReused,
    LeaseLost,
    LogBusy,
    LogConflict,
    NoSuchNote,
    NoSuchOutput,
    NoSuchRecord,
    NoSuchSession,
    NoteChanged,
    PathRejected,
    PriceUnknown,
    SessionExists,
    StoreError,
    TooManyWaiting,
    TurnInProgress,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.core.log.records import Json

MEDIA_TYPE: Final = "application/problem+json"
TITLES: Final[dict[int, str]] = {
    400: "The request cannot be read",
    401: "The caller is not known",
    403: "Not allowed",
    404: "Not found",
    405: "The address does not take this method",
    408: "Too slow",
    409: "The request conflicts with the current state",
    413: "Too large",
    415: "The type of the body is not supported",
    421: "This server does not answer for that host",
    422: "The request cannot be carried out",
    429: "Too many requests",
    431: "The address or the headers are too large",
    500: "The server failed",
    503: "The server is not available now",
}
_STATUS: Final[tuple[tuple[type[HoldfastError], int], ...]] = (
    # The first that fits; a class comes before the one that it is derived from.
    (AccessDenied, 404),  # the same answer as for what does not exist
    (NoSuchSession, 404),
    (NoSuchRecord, 404),
    (NoSuchOutput, 404),
    (NoSuchNote, 404),
    (BlobMissing, 404),  # it was deleted: to ask again does not help
    (SessionExists, 409),
    (KeyReused, 409),
    (TurnInProgress, 409),
    (LogConflict, 409),
    (LeaseLost, 409),
    (NoteChanged, 409),
    (AmbiguousName, 409),
    (TooManyWaiting, 429),
    (BudgetSpent, 429),
    (PriceUnknown, 422),
    (LogBusy, 503),
    (CannotFit, 422),
    (PathRejected, 400),
    (BadSetting, 400),
    (UsageError, 400),
    (StoreError, 503),
)
REFUSALS: Final[dict[str, int]] = {
    "forbidden": 404,
    "not_found": 404,
    "invalid": 400,
    "conflict": 409,
    "not_allowed": 403,
    "error": 503,
}
"""The status of a workspace's refusals. What may not be seen is answered like what is not there."""


class Problem(Exception):
    """An answer that is an error."""

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        hint: str | None = None,
        code: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.hint = status, detail, hint
        self.code = code
        self.headers = dict(headers or {})

    def body(self) -> bytes:
        body: Json = {
            "type": "about:blank",
            "title": TITLES.get(self.status, "Error"),
            "status": self.status,
            "detail": self.detail,
        }
        if self.hint:
            body["hint"] = self.hint
        if self.code:
            body["code"] = self.code
        return msgspec.json.encode(body)


class ProblemDetails(msgspec.Struct, frozen=True):
    """The body of every error."""

    title: str
    """The kind of error, in a few words."""
    status: int
    """The HTTP status."""
    detail: str
    """The error, in a sentence."""
    type: str = "about:blank"
    """Always `about:blank`: the status and `code` tell the kind."""
    hint: str = ""
    """The next step."""
    code: str = ""
    """The error's name, for programs."""


def no_token(headers: Mapping[str, str] | None = None) -> Problem:
    """Return the answer to a request without a valid token."""
    return Problem(
        401,
        "a valid token is needed",
        hint="send `Authorization: Bearer TOKEN`; a token may have expired",
        headers={"WWW-Authenticate": "Bearer", **(headers or {})},
    )


async def send_problem(problem: Problem, send: Callable[[Any], Awaitable[None]]) -> None:
    """Answer a request of the ASGI protocol with a problem."""
    body = problem.body()
    headers = [
        (b"content-type", MEDIA_TYPE.encode()),
        (b"content-length", str(len(body)).encode()),
        *((name.lower().encode(), value.encode()) for name, value in problem.headers.items()),
    ]
    await send({"type": "http.response.start", "status": problem.status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def problem_of(error: HoldfastError) -> Problem:
    """Return an error of the engine as an answer."""
    status = next((number for kind, number in _STATUS if isinstance(error, kind)), 422)
    headers = {}
    if isinstance(error, TooManyWaiting):
        headers["Retry-After"] = str(max(1, round(error.retry_seconds)))
    if isinstance(error, BudgetSpent):
        headers = budget_headers(error)
    if status == 404 and isinstance(error, AccessDenied | NoSuchSession):
        # Neither the sentence nor the hint may name sessions that the caller may not see.
        return Problem(404, "there is no such session here", code="no-such-session")
    return Problem(status, str(error), hint=error.hint, code=error.code, headers=headers)
