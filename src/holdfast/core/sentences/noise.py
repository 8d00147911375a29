"""Sentences that nobody says: lines of logs and programs, quotations, and words without grammar."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from holdfast.core.sentences.vocabulary import (
    AFTER_AUXILIARY,
    AFTER_CONJUNCTION,
    AFTER_COPULA,
    AFTER_PARTICLE,
    AFTER_PREPOSITION,
    AFTER_SUBJECT,
    ARTICLES,
    AUXILIARIES,
    BEFORE_BEEN,
    CONJUNCTIONS,
    COPULAS,
    FUNCTION_WORDS,
    NEVER_LAST,
    PARTICLES,
    PREPOSITIONS,
    SUBJECTS,
)
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

_MACHINE_START: Final = lazy_pattern(
    r"""
    \W*+(?:\d{4}-\d\d-\d\d[T\s]\d | \d\d?:\d\d:\d\d                    # a time
        | [A-Z][a-z]{2}[ ]{1,4}\d{1,2}[ ]\d\d:)
    | \W*+(?:INFO|WARN(?:ING)?|ERROR|DEBUG|FATAL|TRACE|CRITICAL|FAILED|PASSED|GET|POST|PUT)\b
    | [A-Z_]{3,}:\s
    | \W*+(?i:info|hint|warn(?:ing)?|error|debug|fatal|trace|remote|npm|make|panic)
        (?:\[\w{1,40}\])?[\]:]
    | (?i:npm)\s(?:WARN|ERR) | HTTP/\d | [@{<]\w
    | (?:return|raise|elif|assert|def|class|import|from\s\S{1,80}\simport|export|const|var|public
        |private|static|SELECT|INSERT|UPDATE)\b\s{0,4}\S.{0,300}(?:[:;({)=]|\bnot\b)
    | \S{0,80}[(]\S{0,80}[)]\Z
    """,
    re.VERBOSE,
)
_MACHINE_SIGNS: Final = lazy_pattern(r"[:=&|>/]")
_MACHINE_INSIDE: Final = lazy_pattern(
    r"\w(?:Error|Exception|Warning):|\S[.]\w{1,5}:\d+|::\w|:\sreturn\b|==|!=|&&|\|\||=>|->|</\w"
)
"""A line of a log, of a program or of its output."""
_SAYING: Final = frozenset(
    (
        *("say", "says", "said", "tell", "tells", "told", "claim", "claims", "claimed", "wrote"),
        *("writes", "states", "stated", "according"),
    )
)
_QUOTED: Final = lazy_pattern(
    r"\b(?:he|she|they|it|docs?|documentation|readme|manual|article|sign|book|page|message"
    r"|error|overflow|teacher|paper|author|website|blog|post|\w{1,40} on the \w{1,40})"
    r" (?:always |also |just )?(?:says?|said|tells?|told|claims?|claimed|wrote|writes|states?"
    r"|stated)\b|\A(?!i |we |my |our )\w{1,40} (?:wrote|said|says|told|claims)\b"
    r"|\baccording to\b|\bused to say\b"
)
"""Somebody else's words."""
_QUOTES: Final = frozenset('"“«„')

_NEVER_AFTER: Final[dict[str, frozenset[str]]] = {
    word: after
    for words, after in (
        (ARTICLES, FUNCTION_WORDS),
        (PREPOSITIONS, AFTER_PREPOSITION),
        (PARTICLES, AFTER_PARTICLE),
        (SUBJECTS, AFTER_SUBJECT),
        (AUXILIARIES, AFTER_AUXILIARY),
        (COPULAS, AFTER_COPULA),
        (CONJUNCTIONS, AFTER_CONJUNCTION),
    )
    for word in words
}
"""For a word, those that cannot follow it."""
_NO_WORDS: Final[frozenset[str]] = frozenset()


def is_machine_made(sentence: str) -> bool:
    """Return whether a sentence is a line of a log or of a program."""
    if _MACHINE_START.match(sentence):
        return True
    return bool(_MACHINE_SIGNS.search(sentence) and _MACHINE_INSIDE.search(sentence))


def is_quoted(text: str, words: Set[str]) -> bool:
    """Return whether a sentence of these words, all in lower case, reports somebody's words."""
    if text[:1] in _QUOTES:
        return True
    return not _SAYING.isdisjoint(words) and _QUOTED.search(text) is not None


def odd_neighbours(words: Sequence[str]) -> int:
    """The number of places that no English sentence has, such as `the of` and `they the`."""
    odd = sum(
        first == second
        or second in _NEVER_AFTER.get(first, _NO_WORDS)
        or (second == "been" and first not in BEFORE_BEEN)
        for first, second in pairwise(words)
    )
    return odd + (words[-1] in NEVER_LAST if words else 0)
