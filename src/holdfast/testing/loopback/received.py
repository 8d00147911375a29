"""The addresses that the loopback serves, and its record of each request."""

from __future__ import annotations

from typing import Final

import msgspec

from holdfast.core.dialects.common.rule import Violation  # noqa: TC001  (a struct's field)
from holdfast.core.log.records import Json  # noqa: TC001  (a struct's field)
from holdfast.testing.loopback.asking import Answer  # noqa: TC001  (a struct's field)
from holdfast.testing.loopback.binding.judging import Reasoning
from holdfast.testing.loopback.caching import Cached

_PATHS: Final[dict[str, tuple[str, bool]]] = {
    "/messages": ("anthropic", False),
    "/messages/count_tokens": ("anthropic", True),
    "/chat/completions": ("openai-chat", False),
    "/responses": ("openai-responses", False),
    "/responses/input_tokens": ("openai-responses", True),
    "/responses/compact": ("openai-responses", False),
    ":generateContent": ("gemini", False),
    ":streamGenerateContent": ("gemini", False),
    ":countTokens": ("gemini", True),
}
"""Address endings → dialect, and whether the call only counts."""


def find_dialect(path: str) -> tuple[str | None, bool]:
    """The dialect of an address, whatever stands before its ending."""
    for ending, (dialect, only_counts) in _PATHS.items():
        if path.rstrip("/").endswith(ending):
            return dialect, only_counts
    return None, False


class Received(msgspec.Struct, frozen=True, kw_only=True):
    """One request, what was found in it and what was answered."""

    number: int
    """From 1, in the order of arrival."""
    dialect: str | None
    """None for an address that nobody serves."""
    path: str
    """The path of the address."""
    headers: dict[str, str]
    """With small names."""
    body: Json
    """Empty where it was no JSON object."""
    bytes: int
    """The size of the body."""
    model: str = ""
    """The model that it names."""
    is_streamed: bool = False
    """True if the reply was to be streamed."""
    only_counts: bool = False
    """True if it asks for a count of tokens alone."""
    tokens: int = 0
    """All input, as the loopback counts it."""
    output_max: int = 0
    """Tokens asked for the reply; 0 if none were."""
    reserved: int = 0
    """Tokens of it that the loopback reserves: all, unless told otherwise."""
    limit: int = 0
    """The window that the loopback held it to, in tokens."""
    cached: Cached = Cached()
    """Tokens that the cache gave and took."""
    reasoning: Reasoning = Reasoning()
    """Reasoning of earlier replies in it, and what the provider made of that."""
    violations: tuple[Violation, ...] = ()
    """Rules of the provider that it breaks."""
    fault: str = ""
    """The name of the fault that struck it."""
    answer: Answer | None = None
    """The brain's answer, as sent."""
    status: int = 0
    """0 where the connection was reset before a reply."""
    said: str = ""
    """The error that was answered, amid a stream too."""

    @property
    def is_over(self) -> bool:
        """Return whether it asks for more than the window, the room for the reply included."""
        return not self.only_counts and self.tokens + self.reserved > self.limit

    @property
    def is_answered(self) -> bool:
        """Return whether the brain's answer went out, whole or not."""
        return self.answer is not None
