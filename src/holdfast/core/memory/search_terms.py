"""The terms of a text: what a search compares.

The words of a query have a worth each. The terms of the sources that answer best are asked for once
more, and meaning that is not known yet is estimated from words.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


JOINER: Final = "_"
"""Between the parts of an identifier that counts whole, whatever joined them in the text."""
TERM_CHARS_MAX: Final = 64
"""No one asks for longer ones; their parts still count."""

_UNSPACED: Final = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
"""Thai, Lao, Burmese, Khmer, kana, Han and Hangul."""
_MARKED: Final = "\u0300-\u036f\u0900-\u0dff"
"""Combining accents, and scripts whose vowels are marks: parts of words all the same."""
_WORD: Final = rf"(?:[^\W_]|[{_MARKED}])+"
_TOKENS: Final = lazy_pattern(
    rf"[{_UNSPACED}]+"
    rf"|(?:(?![{_UNSPACED}]){_WORD})(?:['’,](?=\w)(?![{_UNSPACED}]){_WORD}"
    rf"|[_.\-/\\:@+#](?![{_UNSPACED}]){_WORD})*"
)
_IS_UNSPACED: Final = lazy_pattern(rf"[{_UNSPACED}]")
_JOINTS: Final = lazy_pattern(r"[_.\-/\\:@+#]+")
_HYPHENATED: Final = lazy_pattern(r"[^\W\d_]+(?:-[^\W\d_]+)+")
_SEGMENTS: Final = lazy_pattern(r"[/\\:@]+")
_HUMPS: Final = lazy_pattern(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+[0-9]*|[A-Z]+[0-9]*|[0-9]+")
_IDENTIFIER_CHARS_MIN: Final = 4
"""Shorter words with a digit or a capital are seldom names."""
_POSSESSIVE: Final = lazy_pattern(r"['’]s?$|['’]s(?=\W)")


def terms(text: str) -> list[str]:
    """Every term of a text in the order they stand, repetitions and all."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)  # one sign can stand for words with spaces
    found: list[str] = []
    for token in _TOKENS.findall(text):
        found += _word_terms(token) if len(token) <= TERM_CHARS_MAX else filter(None, _terms(token))
    return found


def is_common(term: str) -> bool:
    return term in COMMON


def is_pair(term: str) -> bool:
    """Return whether a term is two characters of a script without spaces, which count alone too."""
    return len(term) == 2 and _IS_UNSPACED.match(term) is not None


def is_identifier(term: str) -> bool:
    """Return whether a term is a name or a number rather than a word: such a one is meant
    exactly."""
    if JOINER in term:
        return True
    is_long = len(term) >= _IDENTIFIER_CHARS_MIN
    return is_long and any("0" <= character <= "9" for character in term)


def _terms(token: str) -> Iterator[str]:
    """The terms of a token. One is empty where nothing is left but accents."""
    if _IS_UNSPACED.match(token):
        yield from _pairs(token)
    elif token.isalpha() and (token.islower() or token.istitle()):
        yield stem(_fold(token))
    else:
        yield from _compound(token)


@lru_cache(maxsize=32_768)
def _word_terms(token: str) -> tuple[str, ...]:
    """The terms of a token. Most words of a text are among those that were said before."""
    return tuple(filter(None, _terms(token)))


def _pairs(run: str) -> Iterator[str]:
    """The characters of a text without spaces, each also together with the next."""
    for place, character in enumerate(run):
        yield character
        if place + 1 < len(run):
            yield run[place : place + 2]


def _compound(token: str) -> Iterator[str]:
    """A token with joints, humps, digits or apostrophes in it: whole, and its parts."""
    token = token.replace(",", "") if _is_number(token) else token
    segments = [item for item in _SEGMENTS.split(token) if item]
    if len(segments) > 1:
        yield from _whole(token)
    for segment in segments:
        for piece in segment.split(","):
            yield from _segment(piece)


def _segment(segment: str) -> Iterator[str]:
    parts = [item for item in _JOINTS.split(segment) if item]
    if len(parts) > 1:
        yield from _whole(segment)
    for part in parts:
        plain = _without_apostrophes(part)
        humps = _HUMPS.findall(plain) if _has_humps(plain) else []
        yield stem(_fold(plain))
        if len(humps) > 1:
            yield from (stem(hump.lower()) for hump in humps)


def _whole(token: str) -> Iterator[str]:
    """A name whole; and a word with hyphens as it is written without them: people do both."""
    is_word = _HYPHENATED.fullmatch(token) is not None
    joiner = "" if is_word else JOINER
    name = joiner.join(_fold(_without_apostrophes(part)) for part in _JOINTS.split(token))
    if len(name) <= TERM_CHARS_MAX:
        yield stem(name) if is_word else name


def _is_number(token: str) -> bool:
    return "," in token and token.replace(",", "").replace(".", "").isdigit()


def _has_humps(word: str) -> bool:
    return word.isascii() and not word.islower() and not word.isupper() and not word.istitle()


def _without_apostrophes(word: str) -> str:
    if "'" in word or "’" in word:
        word = _POSSESSIVE.sub("", word).replace("'", "").replace("’", "")
    return word


def _fold(word: str) -> str:
    """Lower case, without accents, cut to a length that a search can be made for."""
    word = word.lower() if word.isascii() else _plain(word)
    return word[:TERM_CHARS_MAX]


def _plain(word: str) -> str:
    word = unicodedata.normalize("NFKD", word.casefold())
    return "".join(item for item in word if not "\u0300" <= item <= "\u036f")


# Stemming: the inflections of English, and none of its derivations, after the manner of Porter's
# first step. Too little rather than too much: "universe" is not "university".

_VOWELS: Final = frozenset("aeiouy")
_DOUBLED: Final = frozenset("bdfgmnprt")
_STEM_CHARS_MIN: Final = 4
"""Shorter words keep their ending: `is`, `as`, `bus`."""


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the stem of an English word. Other words mostly stay unchanged."""
    if len(word) < _STEM_CHARS_MIN or not (word.isascii() and word.isalpha()):
        return word
    word = _singular(word)
    for ending in ("ing", "ed", "ly"):
        if word.endswith(ending) and _has_vowel(word[: -len(ending)]):
            return _normalise_ending(word[: -len(ending)])
    return _normalise_ending(word) if word.endswith(("e", "y")) else word


def _singular(word: str) -> str:
    if word.endswith("sses") or (word.endswith("ies") and len(word) > _STEM_CHARS_MIN):
        return word[:-2]
    if word.endswith(("xes", "ches", "shes", "zes")):
        return word[:-2]
    return word[:-1] if word.endswith("s") and not word.endswith(("ss", "us", "is")) else word


def _normalise_ending(word: str) -> str:
    """One spelling for what is left: no doubled consonant, no final `e`, `i` for a final `y`."""
    if len(word) > _STEM_CHARS_MIN - 1 and word[-1] == word[-2] and word[-1] in _DOUBLED:
        return word[:-1]
    if word.endswith("e") and len(word) > _STEM_CHARS_MIN - 1:
        return word[:-1]
    if word.endswith("y") and len(word) > _STEM_CHARS_MIN - 1 and word[-2] not in _VOWELS:
        return f"{word[:-1]}i"
    return word


def _has_vowel(word: str) -> bool:
    return len(word) > 1 and any(letter in _VOWELS for letter in word)


# Common words


_COMMON_WORDS: Final = """
    a about after again all also am an and any are as at be because been before being both but by
    can could did do does done down each few for from further get give go got had has have having
    he her here hi him his how i if in into is it its just know let like make me more most my no nor
    not now of off on once one only or other our out over own please same she should so some such
    take tell than that the their them then there these they this those through to too under until
    up us use very want was we were what when where which while who whom why will with would you
    your im ive dont id youre thats
    ago between during ever many mention much often previous remind since total
    chat conversation discuss
"""
MARK: Final = "_taken_up"
"""The term of a reply that takes up what was said. No text has it: no word begins with a joiner."""
COMMON: Final = frozenset({MARK, *map(stem, _COMMON_WORDS.split())})
"""Words that hardly tell one text from another, or that questions about the past are made with, as
they are after stemming. They count for less."""


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
