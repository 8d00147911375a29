"""A request that is refused."""

from __future__ import annotations

from typing import Literal

RefusalStatus = Literal["forbidden", "not_found", "invalid", "conflict", "not_allowed", "error"]


class RequestRefused(Exception):
    """The answer that is a refusal: its kind, and a sentence for the caller. A door renders it.

    `forbidden` never tells whether the thing exists; `error` is a failure on our side.
    """

    def __init__(
        self,
        status: RefusalStatus,
        found: str,
        cause: Exception | None = None,
        *,
        code: str = "",
        hint: str = "",
    ) -> None:
        self.error = f"{found}; {hint}" if hint else found
        """The whole sentence."""
        super().__init__(self.error)
        self.status, self.found, self.hint = status, found, hint
        self.cause = cause
        """The error of the engine behind it."""
        self.code = code
        """A name for programs."""


def sentence_of(error: Exception) -> str:
    """The message of an error with its hint."""
    hint = getattr(error, "hint", None)
    return f"{error}; {hint}" if hint else str(error)
