"""Classify a failed model call: its meaning, and the action to take.

`classify` names a failure from its symptoms: status, code, type and text of an exception, a stream
event or a finish reason. It never sees what a user, a model or a tool said. What no rule knows is
never an overflow, so nothing is ever summarised away because of an error no one understood.
"""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from holdfast.core.failures.normalise import plain, squeeze, unwrap
from holdfast.core.failures.numbers import Quantities, quantities
from holdfast.core.failures.rules import UNKNOWN, Action, Kind, Rule, built_in_rules
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = [
    "Action",
    "Failure",
    "Kind",
    "Rule",
    "Symptoms",
    "built_in_rules",
    "classify",
    "classify_finish",
    "learned_window",
]

WINDOW_TOKENS_LEARNED_MIN: Final = 1_024
WINDOW_TOKENS_LEARNED_MAX: Final = 20_000_000
"""The range in which a stated window is believed; one server once printed 3."""

_COUNTED: Final = frozenset(
    ("context_overflow", "silent_overflow", "tpm_limit", "output_limit", "payload_too_large")
)
_FIX_INPUT: Final = frozenset(("shrink_input", "lower_output_then_shrink_input"))


class Symptoms(msgspec.Struct, frozen=True):
    """The visible facts of a failure: status, code, type, text."""

    status: int | None = None
    """The HTTP status."""
    code: str = ""
    """The provider's code of the error."""
    type: str = ""
    """The provider's type of the error."""
    message: str = ""
    """The provider's own words."""
    retry_after: float | None = None
    """Seconds the provider asks to wait."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """A failure by its name."""

    kind: Kind
    """The name of the failure."""
    action: Action
    """The answer that helps."""
    limit: int | None = None
    """In tokens; for a payload in bytes or characters, as the provider counts it."""
    input: int | None = None
    """Tokens of the input, as the provider counted them."""
    output: int | None = None
    """Tokens of the reply that were asked for."""
    subclass: str = ""
    """A finer name, where one is known."""
    status: int | None = None
    """The HTTP status."""
    message: str = ""
    """The provider's own words."""
    retry_after: float | None = None
    """Seconds to wait, as the provider asked."""
    rule: str = ""
    """The rule that decided."""

    @property
    def is_overflow(self) -> bool:
        """Return whether less input would have helped."""
        return self.kind in ("context_overflow", "silent_overflow")

    @property
    def can_wait(self) -> bool:
        """Return whether the same request may succeed later."""
        return self.action in ("wait_and_retry", "retry_with_backoff")


def classify(symptoms: Symptoms, extra: Sequence[Rule] = ()) -> Failure:
    """Name a failure. `extra` rules come before the built-in ones."""
    seen = _look(symptoms)
    rule = next((rule for rule in (*extra, *built_in_rules()) if _holds(rule, seen)), UNKNOWN)
    found = _read_quantities(rule, seen)
    action, subclass = _refine_action(rule, found, seen)
    return Failure(
        kind=rule.kind,
        action=action,
        limit=found.limit,
        input=found.input,
        output=found.output,
        subclass=subclass,
        status=seen.status,
        message=symptoms.message,
        retry_after=seen.retry_after,
        rule=rule.name,
    )


def classify_finish(reason: str) -> Failure | None:
    """Name what an empty reply's own reason for ending gives away; None where it is fine."""
    found = classify(Symptoms(status=200, type="finish_reason", message=reason))
    if found.kind == "output_limit":
        return msgspec.structs.replace(
            found,
            kind="silent_overflow",
            action="detect_empty_output_with_length",
            subclass="empty_reply",
        )
    return found if found.kind == "context_overflow" else None


def learned_window(failure: Failure) -> int | None:
    """The window a failure gives away, if it can be believed."""
    if failure.kind != "context_overflow" or failure.action not in _FIX_INPUT:
        return None
    limit = failure.limit
    if _IN_BYTES.search(failure.message.casefold()):
        return None
    if limit is None or not WINDOW_TOKENS_LEARNED_MIN <= limit <= WINDOW_TOKENS_LEARNED_MAX:
        return None
    return limit


class _Seen(NamedTuple):
    """Symptoms as rules look at them."""

    status: int | None
    type: str
    marks: str
    text: str
    lines: str
    """The same, a line for each layer it was wrapped in: some patterns ask for a whole layer."""
    is_html: bool
    retry_after: float | None
    counts: Quantities


def _look(symptoms: Symptoms) -> _Seen:
    inner = unwrap(symptoms.message)
    lines = plain(inner.text)
    text = lines.replace("\n", " ")
    return _Seen(
        status=symptoms.status if symptoms.status is not None else inner.status,
        type=(symptoms.type or inner.type).strip().lower(),
        marks=squeeze((symptoms.code, symptoms.type, *inner.marks)),
        text=text,
        lines=lines,
        is_html=inner.is_html,
        retry_after=(
            symptoms.retry_after if symptoms.retry_after is not None else inner.retry_after
        ),
        counts=quantities(_without_codes(text, f"{symptoms.code} {inner.code}")),
    )


def _holds(rule: Rule, seen: _Seen) -> bool:
    return (
        (not rule.status or seen.status in rule.status)
        and (rule.is_html is None or rule.is_html == seen.is_html)
        and (not rule.type or re.fullmatch(rule.type, seen.type) is not None)
        and (not rule.marks or _search(rule.marks, seen.marks))
        and (not rule.text or _says(seen, rule.text))
        and (not rule.also or _says(seen, rule.also))
        and not (rule.unless and _says(seen, rule.unless))
        and (not rule.is_over or _is_over(seen.counts))
    )


def _says(seen: _Seen, pattern: str) -> bool:
    return _search(pattern, seen.text) or (seen.lines != seen.text and _search(pattern, seen.lines))


@functools.lru_cache(maxsize=256)
def _search(pattern: str, text: str) -> bool:
    return _compile_rule(pattern).search(text) is not None


@functools.cache
def _compile_rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.DOTALL | re.MULTILINE)


def _is_over(counts: Quantities) -> bool:
    return counts.limit is not None and counts.input is not None and counts.input > counts.limit > 0


def _read_quantities(rule: Rule, seen: _Seen) -> Quantities:
    """The numbers that belong to this kind of failure."""
    if rule.kind not in _COUNTED:
        return Quantities()
    limit, given, output = seen.counts
    if rule.kind == "output_limit":
        return Quantities(limit, None, given if output is None else output)
    if rule.action == "shrink_input" and limit and given and output is None and given < limit:
        return Quantities(given, limit)  # whichever came first: too much is more than the limit
    return Quantities(limit, given, output)


def _refine_action(rule: Rule, found: Quantities, seen: _Seen) -> tuple[Action, str]:
    """Refine a rule by the numbers: a request above the rate limit would wait for ever."""
    if rule.kind == "tpm_limit" and _is_over(found) and not _says(seen, _SO_FAR):
        return "fail_over_or_fit_under_tpm_limit", "permanent_for_this_request"
    return rule.action, rule.subclass


def _without_codes(text: str, code: str) -> str:
    """A text without its error codes, which are numbers but count nothing."""
    codes = frozenset(code.split())
    text = _SAID_CODE.sub(" ", text)
    return re.sub(r"\d+", lambda number: " " if number[0] in codes else number[0], text)


_SO_FAR: Final = r"\bcurrent(?:ly)?\W+\d"
"""Wordings that sum the requests of a minute; the sum says nothing about this request."""
_IN_BYTES: Final = lazy_pattern(r"\A(?!.*\btokens?\b).*\b(?:bytes|characters|chars)\b", re.DOTALL)
"""A text that counts, but no tokens."""
_SAID_CODE: Final = lazy_pattern(r"<[45]\d\d>|\(2013\)|^\W*[45]\d\d\b")
