"""Sentences in which somebody lays something down, decides or states a fact, by their words.

It is a search for words in several languages: it misses what is put in others, and sometimes finds
a remark.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final

from holdfast.core.extract.phrases import (
    DECISIONS,
    DECISIONS_WIDE,
    FACTS,
    FACTS_WIDE,
    QUESTIONS,
    RULES,
    RULES_WIDE,
    SENTENCE_END,
    begins,
    holds,
)
from holdfast.core.secrets.redaction import has_secret
from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

_SENTENCE_CHARS: Final = range(8, 401)
_SENTENCE_CHARS_WIDE: Final = 4
"""The same for scripts that say a word with a character."""
_MARKUP: Final = lazy_pattern(r"^[\s>*#-]*(?:\d+[.)]\s+)?(?:\[[ xX]\]\s*)?")

_RULE: Final = holds(RULES, RULES_WIDE)
_DECISION: Final = holds(DECISIONS, DECISIONS_WIDE)
_FACT: Final = holds(FACTS, FACTS_WIDE)
_QUESTION: Final = begins([rf"(?:{words})\b" for words in QUESTIONS])
_CODE: Final = lazy_pattern(r"\A\s*(?:\+|//|/\*|@@|\$\s|<\w)|[;{}]\s*\Z")
_TOLD: Final = lazy_pattern(
    r"\b(?:it|this|that|they|which|there|he|she)\b(?: \w+){0,2}? (?:always|never)\b", re.IGNORECASE
)
"""Words that mark an observation, not a rule."""
_SCANNED_CHARS: Final = 40_000
"""Of a longer message, the beginning and the end: what is between them was pasted."""
_ASKED: Final = lazy_pattern(r"[?？][^\w?？]*+\Z")


def find_statements(text: str) -> list[str]:
    """The sentences in which a user lays something down or states a fact, each as it was said."""
    if len(text) > _SCANNED_CHARS:
        text = text[: _SCANNED_CHARS // 2] + "\n" + text[-_SCANNED_CHARS // 2 :]
    return [fromkey for fromkey in dict.fromkeys(sentences(text)) if lays_down(fromkey)]


def lays_down(sentence: str) -> bool:
    return any(words.search(sentence) for words in (_RULE, _DECISION, _FACT))


def is_rule(sentence: str) -> bool:
    return _RULE.search(sentence) is not None


def is_decision(sentence: str) -> bool:
    return _DECISION.search(sentence) is not None


def sentences(text: str) -> list[str]:
    """The sentences of a text that could be a note: no code, question or credential."""
    found = []
    for raw in SENTENCE_END.split(_without_code(scrub(text))):
        read = _read_again if len(raw) <= 2 * _SENTENCE_CHARS.stop else _read_sentence
        if sentence := read(raw):
            found.append(sentence)
    return found


def _read_sentence(raw: str) -> str:
    """Return a sentence without its markup, or nothing where it could not be a note."""
    sentence = " ".join(_MARKUP.sub("", raw).split())
    is_wide = bool(sentence) and not sentence.isascii()
    least = _SENTENCE_CHARS_WIDE if is_wide else _SENTENCE_CHARS.start
    if not least <= len(sentence) < _SENTENCE_CHARS.stop:
        return ""
    if _CODE.search(raw) or _TOLD.search(sentence):
        return ""
    is_question = _ASKED.search(sentence) or _QUESTION.match(sentence)
    return "" if is_question or has_secret(sentence) else sentence


# Notes, checkpoints and the carry-over of a cut each read the same messages.
_read_again: Final = lru_cache(maxsize=4_096)(_read_sentence)


def _without_code(text: str) -> str:
    """Return a text without pasted code."""
    return re.sub(r"(```|~~~).*?(?:\1|\Z)", "\n", text, flags=re.DOTALL)


def same_words(text: str) -> str:
    """Return the key shared by sentences with the same words."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", plain))
