"""The tokens and the money that a call of a model took, or may take.

Money is counted in whole nanodollars: sums are exact.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from holdfast.core.models.prices import cost_of
from holdfast.core.models.usage import Usage, read_billed, read_usage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.prices import Price
    from holdfast.core.models.replies import Reply

NANODOLLARS: Final = 1_000_000_000
_BASE64_CHARS_MIN: Final = 2_000
"""A longer text without a space is media, not words."""
_MEDIA_TOKENS_MIN: Final = 1_600
"""Of a picture of the usual size."""
_MEDIA_CHARS_PER_TOKEN: Final = 25
"""Of a document in base64: its pages have about 3,000 tokens each."""
_BYTES_PER_TOKEN: Final = 3
"""Few enough for source code and for languages with letters of several bytes."""


class Amount(NamedTuple):
    """The tokens and money of a call. Its request is counted apart."""

    tokens: int = 0
    nanodollars: int = 0


def amount_of(usages: Sequence[Usage], price: Price | None) -> Amount:
    """Return what a call took: one usage, or one for each round trip of it."""
    tokens = sum(usage.prompt + (usage.output or 0) for usage in usages)
    dollars = sum(_nanodollars(usage, price) for usage in usages)
    return Amount(tokens, dollars)


def _nanodollars(usage: Usage, price: Price | None) -> int:
    return round((cost_of(usage, price) or 0.0) * NANODOLLARS)


def largest_amount(prompt: int, output: int, price: Price | None) -> Amount:
    """Return the most that a call can take: all of its input written to a cache at the highest
    rate, and the longest reply."""
    if price is None:
        return Amount(prompt + output, 0)
    rates = price.rates(prompt)
    dearest = max(rates.input, rates.cache_write, rates.cache_write_hour or 0.0)
    dollars = (prompt * dearest + output * rates.output) / 1_000_000
    return Amount(prompt + output, math.ceil(dollars * NANODOLLARS))


def usages_of(reply: Reply, prompt: int) -> list[Usage]:
    """Return the usages of a whole reply; where its provider states none, an estimate."""
    stated = read_billed(reply.raw_usage, reply.provider) if reply.raw_usage else []
    if stated:
        return stated
    return [Usage(prompt=prompt, output=input_bound(reply.content), source="estimate")]


def usage_so_far(reply: Reply | None, prompt: int, output: int) -> Usage:
    """Return the usage of a call that broke off: what was stated of its input, and the longest
    reply, because nobody says what was written."""
    stated = read_usage(reply.raw_usage, reply.provider) if reply is not None else None
    if stated is None:
        return Usage(prompt=prompt, output=output, source="bound")
    return msgspec.structs.replace(stated, output=max(output, stated.output or 0))


def input_bound(body: Json | list[Json]) -> int:
    """Return about the most tokens that a request can have, by the texts and media in it."""
    total, media = 0, 0
    waiting: list[Any] = [body]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
            total += sum(map(len, value))
        elif isinstance(value, list | tuple):
            waiting += value
        elif isinstance(value, str):
            if len(value) >= _BASE64_CHARS_MIN and value.isascii() and not _has_space(value):
                media += max(_MEDIA_TOKENS_MIN, len(value) // _MEDIA_CHARS_PER_TOKEN)
            else:
                total += len(value) if value.isascii() else len(value.encode("utf-8", "replace"))
        else:
            total += 4
    return total // _BYTES_PER_TOKEN + media + 1


def _has_space(text: str) -> bool:
    return any(space in text for space in (" ", "\n", "\t"))
