"""Sentences of a reply that say why: a decision with its reason, a failure with its cause."""

from __future__ import annotations

from typing import Final

from holdfast.core.extract.statements import sentences
from holdfast.core.text.lazy_pattern import lazy_pattern

_CHARS: Final = range(30, 261)
_WHY: Final = lazy_pattern(
    r"(?i)\b(?:because|so that|due to|instead of|rather than|to avoid|turns out|caused by"
    r"|decided|since (?:it|the|we|i|that|this|they|both|all|no)\b"
    r"|the (?:issue|problem|reason|root cause|cause|bug) (?:is|was))\b"
    r"|\b(?:weil|statt|damit|entschieden|porque|en lugar de|ya que|parce que|puisque|au lieu de"
    r"|perché|invece di|porque|em vez de)\b|потому что|вместо|из-за|因为|所以|而不是|ため|ので|때문"
)
_STEP: Final = lazy_pattern(
    r"(?i)(?:now|first|next|then|also|ok|okay|good|great)?[,.!]?\s*"
    r"(?:let me|let's|i'll (?:check|look|read|run|search|try)|i will (?:check|look|read|run|search)"
    r"|i need to (?:check|look|read))\b"
)
"""A step that is announced: the next call shows it."""


def find_reasons(text: str) -> list[str]:
    """The sentences of a reply that say why something is so or was done."""
    if not _WHY.search(text):
        return []
    return [
        sentence
        for sentence in sentences(text)
        if len(sentence) in _CHARS
        and _WHY.search(sentence)
        and not (_STEP.match(sentence) or sentence.endswith(":"))
    ]
