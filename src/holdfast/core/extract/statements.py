"""Sentences in which somebody lays something down, decides or states a fact, by their words.

It is a search for words in several languages: it misses what is put in others, and sometimes finds
a remark.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import Final, NamedTuple

from holdfast.core.extract.phrases import (
    DECISIONS,
    DECISIONS_WIDE,
    FACTS,
    FACTS_WIDE,
    LIKELY_WORDS,
    NAME,
    QUESTIONS,
    REQUESTS,
    RULES,
    RULES_WIDE,
    STATES,
    TELLING,
    begins,
    holds,
    split_sentences,
)
from holdfast.core.secrets.redaction import has_secret
from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

RULE, FACT, OTHER = range(3)
"""Ranks of statements, the strongest first."""
_SENTENCE_CHARS: Final = range(8, 401)
_REMEMBERED: Final = 16_384
"""Sentences whose reading is kept, of 400 characters at most: those of a few thousand messages."""
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
_REQUEST: Final = begins(REQUESTS)
_STATE: Final = holds(STATES)
_SCANNED_CHARS: Final = 40_000
"""Of a longer message, this much at both ends together is read sentence by sentence."""
_OWN_CHARS: Final = 2_000
"""A longer message was pasted in part: names and numbers in it need not be the user's words."""
_STATEMENTS_MAX: Final = 64
"""Of one message; a document that was pasted may be made of rules."""
_ASKED: Final = lazy_pattern(r"[?？][^\w?？]*+\Z")
_REASON_CHARS: Final = range(30, 261)
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


def find_statements(text: str) -> list[str]:
    """The sentences in which a user asks for something, forbids it or states a fact, each as it was
    said. Where there are very many, the strongest."""
    is_own = len(text) <= _OWN_CHARS
    if len(text) > _SCANNED_CHARS:
        text = _likely_part(text)
    found = [
        sentence
        for sentence in dict.fromkeys(sentences(text))
        if lays_down(sentence) or (is_own and _is_told(sentence))
    ]
    if len(found) <= _STATEMENTS_MAX:
        return found
    strongest = sorted(range(len(found)), key=lambda place: weakness(found[place]))
    return [found[place] for place in sorted(strongest[:_STATEMENTS_MAX])]


def _likely_part(text: str) -> str:
    """The beginning and the end of a giant message, and the sentences between them that may lay
    something down: to read all of it would take seconds."""
    text = _without_code(text)
    edge = _SCANNED_CHARS // 2
    middle = split_sentences(text[edge:-edge])
    likely = (
        raw
        for raw in middle
        if not raw.isascii()
        or not LIKELY_WORDS.isdisjoint(raw.casefold().replace("’", "'").split())
    )
    return "\n".join((text[:edge], *likely, text[-edge:]))


def weakness(sentence: str) -> int:
    """The rank of a statement: `RULE` (also for decisions), `FACT` or `OTHER`."""
    found = _signs(sentence)
    if found.rule or found.decision:
        return RULE
    return FACT if found.fact else OTHER


@lru_cache(maxsize=_REMEMBERED)
def _is_told(sentence: str) -> bool:
    """Return whether a sentence asks for something in particular, or says something of a name."""
    if _REQUEST.match(sentence):
        return TELLING.search(sentence) is not None
    return _STATE.search(sentence) is not None and NAME.search(sentence) is not None


def lays_down(sentence: str) -> bool:
    return any(_signs(sentence))


def is_rule(sentence: str) -> bool:
    return _signs(sentence).rule


def is_decision(sentence: str) -> bool:
    return _signs(sentence).decision


class _Signs(NamedTuple):
    """The words of a statement that a sentence has."""

    rule: bool
    decision: bool
    fact: bool


def _signs(sentence: str) -> _Signs:
    find = _find_signs_again if len(sentence) < _SENTENCE_CHARS.stop else _find_signs
    return find(sentence)


def _find_signs(sentence: str) -> _Signs:
    return _Signs(*(words.search(sentence) is not None for words in (_RULE, _DECISION, _FACT)))


# A first cut asks this of each sentence a dozen times, and a search takes longer than all else.
_find_signs_again: Final = lru_cache(maxsize=_REMEMBERED)(_find_signs)


def find_reasons(text: str) -> list[str]:
    """The sentences of a reply that say why something is so or was done."""
    if not _WHY.search(text):
        return []
    return [
        sentence
        for sentence in sentences(text)
        if len(sentence) in _REASON_CHARS
        and _WHY.search(sentence)
        and not (_STEP.match(sentence) or sentence.endswith(":"))
    ]


def sentences(text: str) -> list[str]:
    """The sentences of a text that could be a note: no code, question or credential."""
    found = []
    for raw in split_sentences(_without_code(scrub(text))):
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
_read_again: Final = lru_cache(maxsize=_REMEMBERED)(_read_sentence)


def _without_code(text: str) -> str:
    """Return a text without pasted code."""
    return re.sub(r"(```|~~~).*?(?:\1|\Z)", "\n", text, flags=re.DOTALL)


def same_words(text: str) -> str:
    """Return the key shared by sentences with the same words."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", plain))
