"""From counted tokens to the provider's: a correction learned per model, and its margin.

Two numbers are learned, because one is not enough: a factor on what was counted (another
vocabulary) and a constant for each tool result (wrapping, ids, reminders). What the provider
reported for the last call is the anchor, so that only what came after it is estimated.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from holdfast.core.models.usage import Usage

ADDED_TOKENS_MIN: Final = 100
"""Smaller additions say more about wrapping than about text, and are not learned from."""

RATIO_MIN: Final = 0.3
RATIO_MAX: Final = 3.0
"""An addition this far from what was expected is something else: an edit, or injected text."""

HALF_LIFE_TOKENS: Final = 20_000
"""After so many added tokens, what was learned before weighs half."""

SURPRISE_SHARE: Final = 0.15
SURPRISE_TOKENS: Final = 20
"""An addition further than this from what was expected counts as if it were no further: one
injected reminder must not move the factor for all that follows."""

BASE_TOKENS: Final = 4_000
BASE_TOKENS_MIN: Final = 400
"""Evidence that the base is worth, at first and after everything was learned."""

CUT_SHARE: Final = 0.75
"""Less than this of what was predicted, and the margin: the request was cut on its way."""

FACTOR_MIN: Final = 0.3
FACTOR_MAX: Final = 3.0
PER_RESULT_MAX: Final = 1_000.0
"""Nothing that was ever reported may make the correction absurd."""

_ROUNDING: Final = 1e-6
"""The error of floating point in a whole number of tokens."""

MARGIN_SHARE: Final = 0.02
"""The proportional part of the margin, beside `MARGIN_TOKENS`."""
MARGIN_TOKENS: Final = 1_000
"""A prediction from a reported usage plus this covers 99.5 % of real calls; see docs/tokens.md."""

UNANCHORED_SHARE: Final = 0.1
"""More margin for tokens that no reported usage has in it: another vocabulary, hidden wrapping."""


class Base(msgspec.Struct, frozen=True):
    """The assumption about a model before anything was learned."""

    factor: float
    """Tokens of the provider for each token that was counted."""
    per_result: float
    """Tokens that the provider adds for each tool result."""


CLAUDE_BASE: Final = Base(factor=1.12, per_result=80.0)
"""The starting point for Claude, counted with o200k; measured in docs/tokens.md."""
EXACT_BASE: Final = Base(factor=1.0, per_result=4.0)
UNKNOWN_BASE: Final = Base(factor=1.1, per_result=20.0)

_CLAUDE: Final = lazy_pattern(r"claude|anthropic")


def base_for(model: str = "", *, is_exact: bool = False) -> Base:
    """Return the starting correction of a model; `is_exact`: its own vocabulary counts."""
    if is_exact:
        return EXACT_BASE
    return CLAUDE_BASE if _CLAUDE.search(model.lower()) else UNKNOWN_BASE


class Calibration(msgspec.Struct, frozen=True):
    """Tokens ≈ factor × counted + per_result × tool results. Never changed: `learn` returns one."""

    base: Base = UNKNOWN_BASE
    """The assumption that it begins with."""
    counted_squared: float = 0.0
    """Sum of counted × counted over what was learned from."""
    counted_results: float = 0.0
    """Sum of counted × tool results."""
    results_squared: float = 0.0
    """Sum of tool results × tool results."""
    counted_real: float = 0.0
    """Sum of counted × the tokens that the provider reported."""
    results_real: float = 0.0
    """Sum of tool results × the tokens that the provider reported."""
    base_tokens: float = BASE_TOKENS
    """The remaining weight of the base."""
    learned_tokens: float = 0.0
    """The weight of what was learned, after forgetting."""

    @property
    def factor(self) -> float:
        return self._solve()[0]

    @property
    def per_result(self) -> float:
        return self._solve()[1]

    def tokens(self, counted: int, results: int = 0) -> int:
        """Return the tokens that the provider will count for this much of ours."""
        factor, per_result = self._solve()
        return math.ceil(factor * counted + per_result * results - _ROUNDING)

    def learn(self, added_counted: int, added_results: int, added_real: int) -> Calibration:
        """Take one more pair of requests into account; what cannot be trusted changes nothing."""
        if added_counted < ADDED_TOKENS_MIN or added_real < ADDED_TOKENS_MIN:
            return self
        expected = self.tokens(added_counted, added_results)
        if not RATIO_MIN * expected <= added_real <= RATIO_MAX * expected:
            return self
        slack = SURPRISE_SHARE * expected + SURPRISE_TOKENS
        real = min(max(added_real, expected - slack), expected + slack)
        keep = 0.5 ** (added_counted / HALF_LIFE_TOKENS)
        # Errors grow with the size of the addition: weigh each pair by its inverse.
        weight = 1.0 / added_counted
        counted, results = float(added_counted), float(added_results)
        return msgspec.structs.replace(
            self,
            counted_squared=keep * self.counted_squared + weight * counted * counted,
            counted_results=keep * self.counted_results + weight * counted * results,
            results_squared=keep * self.results_squared + weight * results * results,
            counted_real=keep * self.counted_real + weight * counted * real,
            results_real=keep * self.results_real + weight * results * real,
            base_tokens=max(keep * self.base_tokens, BASE_TOKENS_MIN),
            learned_tokens=keep * self.learned_tokens + counted,
        )

    def restart(self) -> Calibration:
        """Only the base: for a model that changed under its name."""
        return Calibration(base=self.base)

    def _solve(self) -> tuple[float, float]:
        """Weighted least squares, with the base as if it had been seen before anything else."""
        # The base speaks like additions of 1,000 tokens, each number seen apart from the other.
        of_results = self.base_tokens / 1_000_000
        a = self.counted_squared + self.base_tokens
        b = self.counted_results
        c = self.results_squared + of_results
        x = self.counted_real + self.base_tokens * self.base.factor
        y = self.results_real + of_results * self.base.per_result
        determinant = a * c - b * b
        factor = (x * c - y * b) / determinant
        per_result = (a * y - b * x) / determinant
        return (
            min(max(factor, FACTOR_MIN), FACTOR_MAX),
            min(max(per_result, 0.0), PER_RESULT_MAX),
        )


class Prediction(msgspec.Struct, frozen=True):
    """The predicted size of the next request."""

    tokens: int
    margin: int
    """Tokens to leave free beside it to be right in 99.5 % of calls."""
    is_anchored: bool
    """True if a reported usage is in it, or only counting."""

    @property
    def upper(self) -> int:
        return self.tokens + self.margin


def margin(tokens: int) -> int:
    """The stated margin of an anchored prediction."""
    return math.ceil(MARGIN_SHARE * tokens) + MARGIN_TOKENS


def predict(
    last: Usage | None,
    counted: int,
    results: int,
    calibration: Calibration,
    *,
    removed: int = 0,
    removed_results: int = 0,
) -> Prediction:
    """The next request's tokens.

    With the last call's usage: `counted` and `results` are what came after that request, the
    reply to it included; `removed` is what was in that request and will not be in the next.
    Without: `counted` and `results` are the whole request.
    """
    added = calibration.tokens(counted, results)
    if last is None:
        # Nothing is anchored: the whole may be off, not only what was added.
        return Prediction(added, margin(added) + math.ceil(UNANCHORED_SHARE * added), False)
    gone = calibration.tokens(removed, removed_results)
    tokens = max(added, last.prompt + added - gone)
    return Prediction(tokens, margin(tokens) + math.ceil(UNANCHORED_SHARE * gone), True)


def was_cut(made: Prediction, reported: Usage) -> bool:
    """Return whether a server took in far less than was sent, without saying so.

    Some local servers drop the beginning of what does not fit. Such a reply answers another
    question than the one asked, and is nothing to learn from.
    """
    return reported.prompt + made.margin < CUT_SHARE * made.tokens
