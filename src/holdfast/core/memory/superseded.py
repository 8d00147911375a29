"""Which of several statements of one person still holds: of the same fact, the latest.

A statement is a sentence with one value in it: a number, a quotation, or a name in the middle of
the sentence. The rest of its words are its frame. A later statement replaces an earlier one where
it says all of the frame again, or nothing else, and gives another value: "my bank is Fidor", "by
the way, my bank is now Triodos". It is a comparison of words, in whatever language, and strict: a
doubt leaves both as they are. A sentence with two values (a number and a date) is an event, which
happened whatever came later.

English words of states and of times found 4 more in the first ten hits of 143 questions of
LongMemEval, and none of 457 of RealMem: no list of such words is worth its language.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.statements import split_sentences
from holdfast.core.memory.search_terms import is_common, is_pair, terms
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_QUOTED: Final = (
    r"\"[^\"\n]{1,60}\"|“[^”\n]{1,60}”|«[^»\n]{1,60}»|「[^」\n]{1,60}」|`[^`\n]{1,60}`"
    r"|(?<!\w)'[^'\n]{1,60}'(?!\w)"
)
_QUOTATION: Final = lazy_pattern(_QUOTED)
_VALUE: Final = lazy_pattern(
    rf"{_QUOTED}"
    r"|[$€£¥]?\d(?:[0-9A-Za-z.,:/-]*[0-9A-Za-z])?"
    r"|(?<=[\w,] )[A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0410-\u042f][\w-]+(?: [A-Z][\w-]+)*"
    r"|(?<=[\u0e00-\uffff])\s?[A-Z][\w-]+"
)
"""A quotation, a number, or a word with a capital that no sentence begins with. Names need a script
that has capitals; in the others, only numbers, quotations and foreign names are values. In German
every noun has one, so that few sentences have a single value."""
_FRAME_MIN: Final = 3
"""Words that two statements must have in common."""
_ASKED_SHARE: Final = 0.4
"""Of the telling words of the query, how many a frame must hold."""


class DatedStatement(msgspec.Struct, frozen=True):
    """A passage that a person said or noted, at a time."""

    id: int
    text: str
    ts: float
    speaker: str = ""
    """The person: what others say of their own replaces nothing."""


class _Fact(msgspec.Struct, frozen=True):
    """A sentence with one value, and its other words."""

    frame: frozenset[str]
    value: tuple[str, ...]

    def is_of(self, other: _Fact) -> bool:
        """Return whether both are about the same thing."""
        fewer, more = sorted((self.frame, other.frame), key=len)
        return fewer <= more


def find_superseded(statements: Iterable[DatedStatement], query: str) -> dict[int, int]:
    """The statements that no longer hold, each with the latest one that replaced it.

    Only facts that the query asks about are looked at.
    """
    asked = words_to_find(query)
    ordered = sorted(statements, key=lambda statement: (statement.ts, statement.id))
    read = [_facts(statement.text, asked) for statement in ordered]
    found: dict[int, int] = {}
    for place, (older, said) in enumerate(zip(ordered, read, strict=True)):
        later = zip(ordered[:place:-1], read[:place:-1], strict=True)
        for newer, again in later if said else ():
            if newer.ts <= older.ts or newer.speaker != older.speaker:
                continue
            both = [(fact, was) for fact in again for was in said if fact.is_of(was)]
            if both:
                if all(fact.value != was.value for fact, was in both):
                    found[older.id] = newer.id
                break  # the latest statement of the fact decides
    return found


def words_to_find(query: str) -> frozenset[str]:
    """The words of a query that a statement has to be about."""
    return frozenset(term for term in terms(query) if not is_common(term) and not is_pair(term))


def is_about(words: Collection[str], asked: frozenset[str]) -> bool:
    """Return whether words of a text are enough of those that are asked for."""
    held = len(asked.intersection(words))
    return held > 0 and held >= _ASKED_SHARE * len(asked)


def values_of(text: str) -> list[str]:
    """The quotations, numbers and names of a sentence."""
    return _VALUE.findall(text)


def has_quotation(text: str) -> bool:
    return _QUOTATION.search(text) is not None


def find_quotations(text: str) -> list[tuple[int, int]]:
    """Return where the quotations of a sentence begin and end."""
    return [found.span() for found in _QUOTATION.finditer(text)]


def without_values(text: str) -> str:
    return _VALUE.sub(" ", text)


def _facts(text: str, asked: frozenset[str]) -> list[_Fact]:
    """The facts of a text that are asked about, one for each frame."""
    facts: dict[frozenset[str], _Fact] = {}
    for sentence in split_sentences(text):
        values = values_of(sentence)
        if len(values) != 1 or sentence.rstrip().endswith(("?", "？", "؟")):
            continue
        rest = terms(without_values(sentence))
        frame = frozenset(term for term in rest if not is_pair(term))
        if len(frame) >= _FRAME_MIN and is_about(frame, asked):
            facts.setdefault(frame, _Fact(frame, tuple(terms(values[0]))))
    return list(facts.values())
