"""Sentences in which somebody lays something down, decides or states a fact, by their form.

`core.sentences` reads the form: it misses some wordings, and sometimes finds a remark.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from holdfast.core.secrets.redaction import has_secret
from holdfast.core.sentences.english import is_polite_request
from holdfast.core.sentences.noise import is_machine_made
from holdfast.core.sentences.phrases import (
    DECISIONS,
    DECISIONS_WIDE,
    NAME,
    QUESTIONS,
    REQUESTS,
    STATES,
    TELLING,
    begins,
    holds,
    split_sentences,
)
from holdfast.core.sentences.reading import NONE, RULE, read_form
from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable

OTHER: Final = NONE
"""The rank of a statement without a form, after `RULE`, `FACT` and `LIKELY`."""
_SENTENCE_CHARS: Final = range(8, 401)
_REMEMBERED: Final = 16_384
"""Sentences whose reading is kept, of 400 characters at most: those of a few thousand messages."""
_TEXTS, _TEXT_CHARS = 8_192, 2_000
"""Messages whose sentences are kept, and the longest of them."""
_SENTENCE_CHARS_WIDE: Final = 4
"""The same for scripts that say a word with a character."""
_MARKUP: Final = lazy_pattern(r"^[\s>*#-]*(?:\d+[.)]\s+)?(?:\[[ xX]\]\s*)?")

_DECISION: Final = holds(DECISIONS, DECISIONS_WIDE)
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
_PAST: Final = lazy_pattern(
    r"\b(?:was|were|had|did|went|failed|yesterday|tried|looked|saw|again|i (?:have|think|had))\b",
    re.IGNORECASE,
)
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
        for sentence in dict.fromkeys(_utterances(text))
        if (lays_down(sentence) or (is_own and _is_told(sentence))) and not names_secret(sentence)
    ]
    if len(found) <= _STATEMENTS_MAX:
        return found
    strongest = sorted(range(len(found)), key=lambda place: weakness(found[place]))
    return [found[place] for place in sorted(strongest[:_STATEMENTS_MAX])]


def _likely_part(text: str) -> str:
    """The beginning and the end of a giant message, and the sentences between them that have the
    form of a statement: to look for credentials in all of it would take seconds."""
    text = _without_code(text)
    edge = _SCANNED_CHARS // 2
    middle = (" ".join(raw.split()) for raw in split_sentences(text[edge:-edge]))
    likely = (
        sentence
        for sentence in middle
        if len(sentence) < _SENTENCE_CHARS.stop and read_form(sentence) != NONE
    )
    return "\n".join((text[:edge], *likely, text[-edge:]))


def weakness(sentence: str) -> int:
    """The rank of a statement: `RULE` (also for decisions), `FACT`, `LIKELY` or `OTHER`."""
    return _form(sentence)


@lru_cache(maxsize=_REMEMBERED)
def _is_told(sentence: str) -> bool:
    """Return whether a sentence asks for something in particular, or says something of a name."""
    if is_machine_made(sentence) or _PAST.search(sentence):
        return False
    if _REQUEST.match(sentence):
        return TELLING.search(sentence) is not None
    return _STATE.search(sentence) is not None and NAME.search(sentence) is not None


def lays_down(sentence: str) -> bool:
    return _form(sentence) != NONE


def is_rule(sentence: str) -> bool:
    return _form(sentence) == RULE


def is_decision(sentence: str) -> bool:
    return _DECISION.search(sentence) is not None


def _form(sentence: str) -> int:
    return (_form_again if len(sentence) < _SENTENCE_CHARS.stop else read_form)(sentence)


# A first cut asks this of each sentence a dozen times, and reading takes longer than all else.
_form_again: Final = lru_cache(maxsize=_REMEMBERED)(read_form)


def find_reasons(text: str) -> list[str]:
    """The sentences of a reply that say why something is so or was done."""
    return sentences(text, _says_why) if _WHY.search(text) else []


def _says_why(sentence: str) -> bool:
    is_step = _STEP.match(sentence) or sentence.endswith(":")
    return len(sentence) in _REASON_CHARS and bool(_WHY.search(sentence)) and not is_step


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
    return [sentence for sentence in _utterances(text) if not _ASKED.search(sentence)]


def _utterances(text: str) -> tuple[str, ...]:
    """The same, with questions that are polite requests."""
    return (_read_text_again if len(text) <= _TEXT_CHARS else _read_text)(text)


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
    if _ASKED.search(sentence):
        if not is_polite_request(sentence.lower().replace("’", "'")):
            return ""
    elif _QUESTION.match(sentence) and not _NO_QUESTION.match(sentence):
        return ""
    return sentence


# Notes, checkpoints and the carry-over of a cut each read the same messages, one after the other.
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
