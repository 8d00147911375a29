"""Errors of the proxy in the dialect of the client, so that its SDK shows our sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.dialects.registry import find_dialect

if TYPE_CHECKING:
    from holdfast.core.log.records import Json


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


def error_json(problem: ProxyProblem, dialect: str) -> Json:
    """The body of an error."""
    body = find_dialect(dialect).body
    return body.write_error(problem.status, problem.sentence, problem.code)


def error_event(problem: ProxyProblem, dialect: str) -> bytes:
    """The event that ends a stream which broke off, as the provider itself would send it."""
    body = find_dialect(dialect).body
    return body.write_error_event(problem.status, problem.sentence, problem.code)
