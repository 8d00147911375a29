"""Which of several statements of one person still holds: of the same fact, the latest.

The comparison is by words, in English, and strict: a doubt leaves both as they are. A fact is what
a query asks about. Two statements give it different values where both are about the words of the
query and the later one says another number of the same unit ("on page 200", "now on page 220"),
another name for the same thing of the speaker ("my bank is …"), or another state of which one has
only one at a time ("I live in …"). Events are no such facts: a second one leaves the first as it
was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.memory.search_terms import is_common, stem, terms
from holdfast.core.sentences.phrases import split_sentences
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_OWN: Final = lazy_pattern(
    r"\b(?i:my|our) (?P<thing>(?!own\b)[\w'’-]+(?: [\w'’-]+){0,4}?)"
    r" (?:is|are|was|will be|(?:has |have |was |were )?(?:moved|changed|switched) to)"
    r" (?:(?:now|currently|actually|at|on|in|an?|the) )*(?P<value>[A-Z\"“][^.,;:!?\n]{0,60}"
    r"|\d[\w-]*(?=[.,;:!?\n]|\Z))"
)
"""A thing of the speaker, and a name or number for it."""
_STATE: Final = lazy_pattern(
    r"\bI(?:['’]m| am|['’]ve| have)?(?: (?:now|currently|just|recently|actually))?"
    r" (?P<state>live in|living in|moved to|relocated to|work (?:at|for)|working (?:at|for)|joined)"
    r" (?:(?:an?|the) )?(?P<value>[A-Z0-9][^.,;:!?\n]{0,60})"
)
_STATES: Final = {
    **dict.fromkeys(("live in", "living in", "moved to", "relocated to"), "home"),
    **dict.fromkeys(("work at", "work for", "working at", "working for", "joined"), "work"),
}
"""States of which a person has one at a time, by the words for them."""
_ASKED_AS: Final = {
    "home": frozenset(map(stem, ("live", "living", "home", "moved", "reside", "address", "city"))),
    "work": frozenset(map(stem, ("work", "working", "job", "employer", "company"))),
}
"""Words that ask for a state."""
_NUMBER: Final = (
    r"(?:[$€£]?\d[\d.,:]*\d|[$€£]?\d|once|twice|one|two|three|four|five|six|seven|eight|nine|ten"
    r"|eleven|twelve|fifteen|twenty|thirty|forty|fifty)"
)
_QUANTITY: Final = lazy_pattern(
    rf"(?:(?P<before>[^\W\d_]+) )?(?<![\w.,])(?P<number>{_NUMBER})(?![\w])"
    r"(?:[ -](?P<next>[^\W\d_]+))?(?:[ -](?P<second>[^\W\d_]+))?",
    re.IGNORECASE,
)
_HOLDS_NOW: Final = lazy_pattern(
    r"\b(?:now|currently|already|so far|still|to date|these days|no longer|any ?more|instead"
    r"|updated|changed)\b|['’](?:ve|m|re)\b|\bhave (?:been|had)\b|\b(?:is|are|am)\b",
    re.IGNORECASE,
)
"""Words of a state that lasts."""
_DATED: Final = lazy_pattern(
    r"\b(?:yesterday|today|tonight|ago|(?:last|this|next) (?:week|month|year|night|weekend|morning"
    r"|\w+day)|on \w+day|\d{1,2}/\d{1,2}|(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)\w*\.?"
    r" \d{1,2}(?:st|nd|rd|th)?|\d{1,2}(?:st|nd|rd|th))\b",
    re.IGNORECASE,
)
"""Words of an event, which happened at its time whatever came later."""
_NAME: Final = lazy_pattern(r"(?<=[\w,\"“'] )[\"“']?(?!I\b)(?:[a-z]+[A-Z]|[A-Z])[\w-]*")
"""Names in a sentence; its first word may be one by chance."""
_ASKED_MIN: Final = 2
_ASKED_SHARE: Final = 0.4
"""Telling words of the query that a sentence with a number must hold: how many, and of all."""


class DatedStatement(msgspec.Struct, frozen=True):
    """A passage that a person said or noted, at a time."""

    id: int
    text: str
    ts: float
    speaker: str = ""
    """The person: what others say of their own replaces nothing."""


class _Value(msgspec.Struct, frozen=True):
    """The value that a sentence gives to something."""

    value: str
    is_lasting: bool = True
    """It is worded as something that holds now."""
    asked: frozenset[str] = frozenset()
    """The words of the query that the sentence holds."""
    names: frozenset[str] = frozenset()
    """The names that the sentence holds."""

    def is_about(self, earlier: _Value) -> bool:
        """Return whether both are about the same, as far as names and the query's words tell."""
        is_same = self.asked <= earlier.asked or earlier.asked <= self.asked
        is_named = bool(self.names and earlier.names)
        return is_same and not (is_named and self.names.isdisjoint(earlier.names))


def find_superseded(statements: Iterable[DatedStatement], query: str) -> dict[int, int]:
    """The statements that no longer hold, each with the latest one that replaced it."""
    asked = frozenset(term for term in terms(query) if not is_common(term))
    ordered = sorted(statements, key=lambda statement: (statement.ts, statement.id))
    read = [_read(statement.text, asked) for statement in ordered]
    found: dict[int, int] = {}
    for place, (older, said) in enumerate(zip(ordered, read, strict=True)):
        later = zip(ordered[:place:-1], read[:place:-1], strict=True)
        for newer, again in later if said else ():
            facts = [
                (again[thing], said[thing])
                for thing in again.keys() & said.keys()
                if again[thing].is_lasting and again[thing].is_about(said[thing])
            ]
            if newer.ts > older.ts and newer.speaker == older.speaker and facts:
                if all(value.value != before.value for value, before in facts):
                    found[older.id] = newer.id
                break  # the latest statement of the fact decides
    return found


def _read(text: str, asked: frozenset[str]) -> dict[str, _Value]:
    """Each thing, state or unit of a text with its first value."""
    values: dict[str, _Value] = {}
    for name, value in _find_things(text, asked):
        values.setdefault(name, _Value(value))
    for sentence in split_sentences(text):
        if "?" in sentence or _DATED.search(sentence):
            continue
        held = asked.intersection(terms(sentence))
        if len(held) < max(_ASKED_MIN, _ASKED_SHARE * len(asked)):
            continue
        is_lasting = _HOLDS_NOW.search(sentence) is not None
        names = frozenset(name.strip("\"“'") for name in _NAME.findall(sentence))
        for unit, number in _quantities(sentence):
            values.setdefault(unit, _Value(number, is_lasting, held, names))
    return values


def _find_things(text: str, asked: frozenset[str]) -> Iterator[tuple[str, str]]:
    """The speaker's things and states that were asked for, with their names."""
    for found in _OWN.finditer(text):
        thing = [term for term in terms(found["thing"]) if not is_common(term)]
        if thing and asked.issuperset(thing):
            yield f"my {' '.join(thing)}", _value(found["value"])
    for found in _STATE.finditer(text):
        state = _STATES[found["state"].lower()]
        if not asked.isdisjoint(_ASKED_AS[state]):
            yield state, _value(found["value"])


def _quantities(sentence: str) -> Iterator[tuple[str, str]]:
    """The numbers of a sentence, by the words beside them that may be the unit: the next one, the
    one behind a name ("4 MCU films"), and the one before ("page 200")."""
    for found in _QUANTITY.finditer(sentence):
        number = found["number"].lower()
        if number[0] in "$€£":
            yield number[0], number[1:]
            continue
        is_name = (found["next"] or "")[:1].isupper()
        for name in ("second" if is_name else "next", "before"):
            unit = stem((found[name] or "").lower())
            if unit and not is_common(unit):
                yield f"{unit} …" if name == "before" else f"… {unit}", number


def _value(text: str) -> str:
    return " ".join(term for term in terms(text) if not is_common(term))
