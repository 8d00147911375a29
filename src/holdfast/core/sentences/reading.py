"""The strength of a sentence: how surely it lays something down, in whatever language."""

from __future__ import annotations

from typing import Final

from holdfast.core.sentences.elsewhere import is_english, read_elsewhere, read_wide
from holdfast.core.sentences.english import (
    FACT,
    LIKELY,
    NONE,
    RULE,
    is_polite_request,
    read_english,
)
from holdfast.core.sentences.noise import is_machine_made, is_quoted, odd_neighbours
from holdfast.core.text.lazy_pattern import lazy_pattern

__all__ = ["FACT", "LIKELY", "NONE", "RULE", "read_form"]

_WORD: Final = lazy_pattern(r"[^\W_]+(?:['_./-][^\W_]+)*")
_ASKED: Final = lazy_pattern(r"[?？][^\w?？]*+\Z")
_CHARS_MAX: Final = 400
"""A longer sentence was pasted."""
_ODD_MAX: Final = 1
"""Neighbours that no sentence has: so many are a slip, more are no sentence."""


def read_form(sentence: str) -> int:
    """The strength of a sentence: `RULE`, `FACT`, `LIKELY`, or `NONE` where it has no form.

    A question has one only where it is a polite request.
    """
    if len(sentence) > _CHARS_MAX or is_machine_made(sentence):
        return NONE
    text = sentence.lower().replace("’", "'")
    if _ASKED.search(sentence):
        return RULE if is_polite_request(text) else NONE
    in_order = _WORD.findall(text)
    odd = odd_neighbours(in_order)
    if odd > _ODD_MAX:
        return NONE
    words = frozenset(in_order)
    if is_quoted(text, words):
        return NONE
    found = read_english(text, words) if is_english(words) else read_elsewhere(text, words)
    if not sentence.isascii() and found == NONE:
        found = read_wide(text)
    if odd:
        return LIKELY if found == RULE else NONE
    return found
