"""Meaning that is not known yet, estimated from words.

While vectors are being made, some passages have none. To count their meaning as nothing would push
them behind all that have one; to count it as the best would do the reverse.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_UNKNOWN_RATIO: Final = 0.5
"""Half as near in meaning as in words, if nothing is known both ways."""


def estimate(known: Mapping[int, float], words: Mapping[int, float]) -> dict[int, float]:
    """Return what is known, and for the other keys of `words` what can be expected of them.

    The ratio between the two is that of the keys for which both are known (least squares). Nothing
    is expected to be better than the best that is known.
    """
    most, most_words = (max(values.values(), default=0.0) for values in (known, words))
    if most <= 0 or most_words <= 0:
        return {**dict.fromkeys(words, 0.0), **known}
    both = [
        (words[key] / most_words, max(0.0, value) / most)
        for key, value in known.items()
        if words.get(key, 0.0) > 0
    ]
    square = sum(x * x for x, _y in both)
    ratio = sum(x * y for x, y in both) / square if square > 0 else _UNKNOWN_RATIO
    scale = ratio / most_words
    expected = {key: most * min(1.0, max(0.0, value) * scale) for key, value in words.items()}
    return {**expected, **known}
