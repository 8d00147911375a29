"""Errors of the proxy in the dialect of the client, so that its SDK shows our sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, assert_never

import msgspec

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.log.records import Json
    from holdfast.core.models.catalog import DialectName

_ANTHROPIC_TYPES: Final[Mapping[int, str]] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
}
_GEMINI_STATUS: Final[Mapping[int, str]] = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_SERVER_ERRORS: Final = 500
"""Statuses from here on say that the request itself was well."""


class ProxyProblem(Exception):
    """A refusal of the proxy itself. It stands beside the errors of the upstreams, and goes to a
    client as an HTTP answer."""

    def __init__(self, status: int, what: str, hint: str = "", *, code: str = "") -> None:
        super().__init__(what)
        self.status = status
        self.what = what
        self.hint = hint
        self.code = code or "holdfast_proxy"

    @property
    def sentence(self) -> str:
        """The sentence for a person."""
        hint = f" ({self.hint})" if self.hint else ""
        return f"Holdfast proxy: {self.what}{hint}"


def error_json(problem: ProxyProblem, dialect: DialectName) -> Json:
    """The body of an error."""
    status, message = problem.status, problem.sentence
    match dialect:
        case "anthropic":
            kind = _ANTHROPIC_TYPES.get(status, "api_error")
            return {"type": "error", "error": {"type": kind, "message": message}}
        case "openai-chat" | "openai-responses":
            kind = "server_error" if status >= _SERVER_ERRORS else "invalid_request_error"
            about = {"message": message, "type": kind, "param": None, "code": problem.code}
            return {"error": about}
        case "gemini":
            word = _GEMINI_STATUS.get(status, "INTERNAL")
            return {"error": {"code": status, "message": message, "status": word}}
        case _:
            assert_never(dialect)


def error_event(problem: ProxyProblem, dialect: DialectName) -> bytes:
    """The event that ends a stream which broke off, as the provider itself would send it."""
    body = error_json(problem, dialect)
    if dialect == "openai-responses":
        about = body["error"]
        body = {"type": "error", "code": about["code"], "message": about["message"], "param": None}
    name = b"" if dialect in ("openai-chat", "gemini") else b"event: error\n"
    return name + b"data: " + msgspec.json.encode(body) + b"\n\n"
