"""Sentences of a text as they were said: without code, questions and credentials."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from holdfast.core.secrets.redaction import has_secret
from holdfast.core.sentences.phrases import QUESTIONS, begins, split_sentences
from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

_SENTENCE_CHARS: Final = range(8, 401)
_TEXTS, _TEXT_CHARS = 8_192, 2_000
"""Messages whose sentences are kept, and the longest of them."""
_SENTENCE_CHARS_WIDE: Final = 4
"""The same for scripts that say a word with a character."""
_MARKUP: Final = lazy_pattern(r"^[\s>*#-]*(?:\d+[.)]\s+)?(?:\[[ xX]\]\s*)?")

_QUESTION: Final = begins([rf"(?:{words})\b" for words in QUESTIONS])
_NO_QUESTION: Final = begins(
    (
        r"when [^,]+, |what (?:i|we|matters)\b.* (?:is|are)\b|(?:do|does|did|is|are|can|could"
        r"|should) not\b",
        r"(?:is|are) (?:strictly )?(?:forbidden|prohibited|important|necessary|to be)\b",
        r"(?:would|should|can) (?:prefer|like|love|appreciate|be|stay|always|never|only)\b",
    )
)
"""A condition, or a sentence without its subject."""
_CODE: Final = lazy_pattern(
    r"\A\s*(?:\+|//|/\*|@@|\$\s|<\w|>|--\s|#+\s*(?-i:[a-z]|TODO|FIXME|XXX)|\*\s*@\w)|[;{}]\s*\Z"
)
"""A line of a program or a quotation."""
_TOLD: Final = lazy_pattern(
    r"\b(?:it|this|that|they|which|there|he|she)\b(?: \w+){0,2}? (?:always|never)\b", re.IGNORECASE
)
"""Words that mark an observation, not a rule."""
_ASKED: Final = lazy_pattern(r"[?？][^\w?？]*+\Z")


def _is_any(_sentence: str) -> bool:
    return True


def sentences(text: str, is_wanted: Callable[[str], bool] = _is_any) -> list[str]:
    """The sentences of a text that could be a note and are wanted: no code, question or
    credential. Looking for credentials takes longest, so it is done last."""
    return [
        sentence
        for sentence in raw_sentences(text)
        if is_wanted(sentence) and not names_secret(sentence)
    ]


def raw_sentences(text: str) -> list[str]:
    """The same, before anybody has looked for credentials in them (`names_secret`)."""
    return list((_read_text_again if len(text) <= _TEXT_CHARS else _read_text)(text))


def _read_text(text: str) -> tuple[str, ...]:
    read = map(_read_sentence, split_sentences(_without_code(scrub(text))))
    return tuple(filter(None, read))


def _read_sentence(raw: str) -> str:
    """Return a sentence without its markup, or nothing where it could not be a note."""
    sentence = " ".join(_MARKUP.sub("", raw).split())
    is_wide = bool(sentence) and not sentence.isascii()
    least = _SENTENCE_CHARS_WIDE if is_wide else _SENTENCE_CHARS.start
    if not least <= len(sentence) < _SENTENCE_CHARS.stop:
        return ""
    if _CODE.search(raw) or _TOLD.search(sentence):
        return ""
    is_question = _QUESTION.match(sentence) and not _NO_QUESTION.match(sentence)
    return "" if is_question or _ASKED.search(sentence) else sentence


# A flush of notes and an evaluation read the same messages again and again.
_read_text_again: Final = lru_cache(maxsize=_TEXTS)(_read_text)
names_secret: Final = lru_cache(maxsize=_TEXTS)(has_secret)
"""`has_secret` for a sentence."""


def _without_code(text: str) -> str:
    """Return a text without pasted code."""
    return re.sub(r"(```|~~~).*?(?:\1|\Z)", "\n", text, flags=re.DOTALL)


def same_words(text: str) -> str:
    """Return the key shared by sentences with the same words."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", plain))
