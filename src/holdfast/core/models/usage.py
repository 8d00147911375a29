"""The usage that a provider reported for one call, in one shape.

Every provider counts differently. Anthropic splits the input into fresh, cached and newly cached
parts; OpenAI and Gemini report the whole and say how much of it was cached; agent tools keep
totals over a turn or a session, which say nothing about the size of any request. Here they become
one value, or None where nothing can be relied on: zero, missing, negative and half-written counts
are unknown, never zero.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.models.catalog import ANTHROPIC_USAGE, USAGE_SHAPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.models.catalog import UsageShape


class Usage(msgspec.Struct, frozen=True):
    """The tokens of one single call to a model."""

    prompt: int
    """All input tokens, cached ones included: what the call took of the window."""
    cached_read: int = 0
    """Of the prompt: read from the provider's cache."""
    cached_write: int = 0
    """Of the prompt: written to the provider's cache."""
    cached_write_1h: int = 0
    """Of `cached_write`: written to live for an hour instead of five minutes."""
    output: int | None = None
    """Output tokens, thinking included; None if unknown."""
    source: str = ""
    """Which shape was recognised, for the ledger."""

    @property
    def plain_input(self) -> int:
        """Of the prompt: neither read from the cache nor written to it."""
        return self.prompt - self.cached_read - self.cached_write


_INNER: Final = ("last_token_usage", "usage", "usageMetadata", "usage_metadata", "tokens")
"""Keys under which a larger object may hold its usage."""

_TOTALS: Final = ("total_token_usage", "modelMetrics")
"""Counters over a turn or a session."""

_HINTS: Final = {"anthropic": ANTHROPIC_USAGE}


def read_usage(raw: object, provider: str = "") -> Usage | None:
    """The usage of one call as its provider, or a tool's transcript, spelled it.

    The shape decides; `provider` settles what the shape leaves open. A `Usage` stays as it is.
    """
    if isinstance(raw, Usage):
        return raw
    if not isinstance(raw, dict):
        return None
    raw = _single_call(raw)
    if raw is None:
        return None
    for shape in USAGE_SHAPES:
        if shape.prompt in raw and (not shape.needs or any(name in raw for name in shape.needs)):
            if shape.source == "plain":
                shape = _HINTS.get(provider, shape)
            return _read(raw, shape)
    return None


def read_billed(raw: object, provider: str = "") -> list[Usage]:
    """The usages that a report was billed for: one, or one for each round trip that it lists.

    The sums of several round trips are in their list; the size of the context is in the last.
    """
    inner = _innermost(raw) if isinstance(raw, dict) else None
    rounds = inner.get("iterations") if inner is not None else None
    reports = rounds if isinstance(rounds, list) and len(rounds) > 1 else [raw]
    found = (read_usage(report, provider) for report in reports)
    return [usage for usage in found if usage is not None]


def _innermost(raw: Mapping[str, Any], depth: int = 3) -> Mapping[str, Any]:
    """The object with the counts, inside of larger ones."""
    inner = next((raw[name] for name in _INNER if isinstance(raw.get(name), dict)), None)
    return _innermost(inner, depth - 1) if inner is not None and depth else raw


def _single_call(raw: Mapping[str, Any], depth: int = 3) -> Mapping[str, Any] | None:
    """The part of an object that is about one call; None where all is about several."""
    iterations = raw.get("iterations")
    if isinstance(iterations, list) and len(iterations) > 1:
        # The outer numbers are sums: only the last round trip is as large as the context is now.
        last = iterations[-1]
        return last if isinstance(last, dict) else None
    for name in _INNER:
        inner = raw.get(name)
        if isinstance(inner, dict) and depth:
            return _single_call(inner, depth - 1)
    return None if any(name in raw for name in _TOTALS) else raw


def _read(raw: Mapping[str, Any], shape: UsageShape) -> Usage | None:
    try:
        prompt = _count(raw.get(shape.prompt))
        read = _first(raw, shape.read)
        write = _first(raw, shape.write)
        long = _optional(_at(raw, "cache_creation.ephemeral_1h_input_tokens"))
        short = _optional(_at(raw, "cache_creation.ephemeral_5m_input_tokens"))
    except _Unknown:
        return None
    if shape.source == "anthropic":
        write = max(write, long + short)
    # A gateway that passes Anthropic's split on under OpenAI's name gives itself away by the sums.
    if shape.is_split or read + write > prompt:
        prompt += read + write
    if prompt <= 0:
        return None
    return Usage(
        prompt=prompt,
        cached_read=read,
        cached_write=write,
        cached_write_1h=min(long, write),
        output=_output(raw, shape.output),
        source=shape.source,
    )


def add_up(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """Several reports of one provider as one: what they cost, not how large any of them was."""
    if not reports:
        return None
    total: dict[str, Any] = {}
    for report in reports:
        for name, value in report.items():
            before = total.get(name)
            if isinstance(value, Mapping):
                inner = [item for item in (before, value) if isinstance(item, Mapping)]
                total[name] = add_up(inner)
            elif _is_number(value) and _is_number(before):
                total[name] = before + value
            else:
                total[name] = value
    return total


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_COUNT_MAX: Final = 1_000_000_000_000
"""Tokens; what a server states beyond is no count of anything."""


class _Unknown(Exception):
    """A count that is there and cannot be one."""


def _count(value: object) -> int:
    if isinstance(value, float) and math.isfinite(value) and value == int(value):
        value = int(value)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _COUNT_MAX:
        raise _Unknown
    return value


def _optional(value: object) -> int:
    return 0 if value is None else _count(value)


def _first(raw: Mapping[str, Any], names: tuple[str, ...]) -> int:
    """The largest of several spellings: gateways repeat one number, or leave one of them zero."""
    return max((_optional(_at(raw, name)) for name in names), default=0)


def _at(raw: Mapping[str, Any], path: str) -> object:
    if "." not in path:
        return raw.get(path)
    value: object = raw
    for name in path.split("."):
        if not isinstance(value, dict):
            return None
        value = value.get(name)
    return value


def _output(raw: Mapping[str, Any], names: tuple[str, ...]) -> int | None:
    try:
        total = sum(_optional(raw.get(name)) for name in names)
    except _Unknown:
        return None
    return total or None
