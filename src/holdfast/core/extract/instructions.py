"""Instructions of a user over time: repeated ones are merged, and a later one replaces an earlier
one that it contradicts.

The comparison is by words and strict: a doubt keeps both, in the order in which they were said.
"""

from __future__ import annotations

import itertools
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.extract.statements import same_words, weakness
from holdfast.core.sentences.reading import FACT
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.core.tokens.counting import Counter

_CROWD: Final = 8
"""Of one message, this many instructions count in full: a document of rules that was pasted gives
way before what was said in other messages."""
_FACTS_SHARE: Final = 0.3
"""Of the list's room, for facts (names, owners, dates) where rules alone would fill it."""
_WORD: Final = lazy_pattern(r"\w+(?:['’]\w+)*+")
_FILLERS: Final = frozenset(
    (
        *("please", "pls", "also", "and", "so", "then", "ok", "okay", "now", "again", "really"),
        *("just", "still", "as", "i", "said", "before", "remember", "that", "note", "always"),
        *("from", "on", "but", "well", "you", "we", "should", "must", "to", "the", "a", "an"),
        *("make", "sure", "important", "reminder"),
    )
)
"""Words without which an instruction is the same."""
_NEGATIONS: Final = frozenset(
    ("not", "never", "no", "don't", "dont", "mustn't", "shouldn't", "avoid")
)
_STANCE: Final = frozenset(
    (
        *(*_FILLERS, *_NEGATIONS, "do", "does", "may", "can", "can't", "cannot", "ever", "allowed"),
        *("are", "is", "it", "it's", "fine", "longer", "after", "all", "instead", "using", "more"),
    )
)
"""Words that only say whether something is wanted."""
_FORBIDS: Final = lazy_pattern(
    r"\b(?:never|not|don['’]?t|mustn['’]t|shouldn['’]t|avoid)\b(?! longer)", re.IGNORECASE
)
_ALLOWS: Final = lazy_pattern(
    r"\b(?:you (?:may|can)|(?:it['’]s|is|are|it is) (?:fine|ok|okay|allowed)|allowed to|again"
    r"|from now on|always|no longer|after all|changed my mind|instead)\b",
    re.IGNORECASE,
)
"""Words that lift a ban; a bare request (`Commit to main.`) may be an exception to it."""
_ADDS: Final = lazy_pattern(r"\b(?:also|too|as well|additionally|another|second)\b", re.IGNORECASE)
_VALUE: Final = lazy_pattern(
    r"(?<!\bof )(?<!\bfor )(?<!\bin )(?<!\bon )(?<!\bat )\b(?:the|our"
    r"|my) ((?:[\w-]+ ){0,3}?(?:ticket|deadline|due date|release date|budget|owner"
    r"|contact|customer|client|branch|server|host|port|region|account|code ?name|version|reviewer"
    r"|manager|phone number|name|address|time ?zone|language|timeout|limit|e-?mail)"
    r"(?: (?:for|of|in|on|at) (?:(?:the|our|my) )?[\w.-]+)?)"
    r" (?:is|are|will be|(?:has |was )?moved to|changed to)\b",
    re.IGNORECASE,
)
_SETTING: Final = lazy_pattern(
    r"\b(?:keep|set|raise|lower|increase|reduce|change|limit) (?:the )?([\w.`/-]+(?: [\w-]+)?)"
    r" (?:at|to|below|above) ",
    re.IGNORECASE,
)
_CHOICE: Final = lazy_pattern(r"\b(?:use|take|go with|stick to|stick with) [^.,;]{1,60}? for (.+)")
_REVOKED: Final = lazy_pattern(
    r"\b(?:forget|ignore|scrap|drop|scratch)\b(?: \w+){0,4}? (?:about|on|with) (.+)", re.IGNORECASE
)


class _Reading(msgspec.Struct, frozen=True):
    """The parts of an instruction that others are compared with."""

    key: str
    """Shared by instructions that say the same."""
    takes: tuple[str, ...] = ()
    """Its decisions: of two instructions on the same matter, the later one holds."""
    lifts: tuple[str, ...] = ()
    """Decisions of earlier ones that no longer hold."""
    revokes: frozenset[str] = frozenset()
    """Words of earlier instructions that no longer hold."""


def merge_instructions(sentences: Iterable[str]) -> list[str]:
    """The instructions that hold, each once, at the place where it was said last."""
    kept: dict[str, str] = {}
    holders: dict[str, str] = {}
    for sentence in sentences:
        reading = _read_instruction(sentence)
        for subject in (*reading.takes, *reading.lifts):
            kept.pop(holders.pop(subject, ""), None)
        if reading.revokes:
            for key in [key for key in kept if reading.revokes.issubset(key.split())]:
                del kept[key]
        kept.pop(reading.key, None)
        kept[reading.key] = sentence
        holders.update(dict.fromkeys(reading.takes, reading.key))
    return list(kept.values())


def instruction_key(sentence: str) -> str:
    """The key that instructions share where they say the same."""
    return _read_instruction(sentence).key


@lru_cache(maxsize=4_096)
def _read_instruction(sentence: str) -> _Reading:
    words = _words(sentence)
    key = _key(words)
    stance = _stance(words)
    if revoked := _REVOKED.search(sentence):
        subject = frozenset(word for word in _words(revoked[1]) if word not in _STANCE)
        return _Reading(f"revoked {key}", revokes=subject)
    takes: list[str] = []
    lifts: list[str] = []
    if stance:
        if _FORBIDS.search(sentence):
            takes.append(f"ban {stance}")
            lifts.append(f"wish {stance}")
        else:
            takes.append(f"wish {stance}")
            if _ALLOWS.search(sentence):
                lifts.append(f"ban {stance}")
    if not _ADDS.search(sentence) and not _FORBIDS.search(sentence):
        takes += _subjects(sentence)
    for swap in (" instead of ", " rather than "):
        wanted, _swap, given_up = sentence.partition(swap)
        if given_up:  # `write spaces instead of tabs` lifts `write tabs`
            rest = wanted.rpartition(" ")[0]
            lifts.append(f"wish {_stance(_words(f'{rest} {given_up}'))}")
    return _Reading(key, tuple(dict.fromkeys(takes)), tuple(lifts))


def _subjects(sentence: str) -> Iterable[str]:
    """The settings and facts of which there is one at a time that a sentence gives a value."""
    for name, pattern in (("value", _VALUE), ("setting", _SETTING), ("choice", _CHOICE)):
        if found := pattern.search(sentence):
            yield f"{name} {same_words(found[1])}"


def _words(text: str) -> list[str]:
    return _WORD.findall(text.casefold().replace("’", "'"))


def _key(words: Sequence[str]) -> str:
    kept = [word for word in words if word not in _FILLERS or word in _NEGATIONS]
    return " ".join("not" if word in _NEGATIONS else word for word in kept) or " ".join(words)


def _stance(words: Sequence[str]) -> str:
    kept = [word for word in words if word not in _STANCE]
    return " ".join(kept) if len(kept) > 1 else ""


def fit_instructions(
    sentences: Sequence[str], sources: Mapping[str, str], room: int, counter: Counter
) -> list[str]:
    """As many as there is room for, in their order: rules before facts and requests, and of those
    that are alike the oldest and the newest before what is between them. A share of the room is
    kept for facts, however many rules there are.

    `sources` has the message of an instruction, where it is known.
    """
    ranks = [weakness(sentence) for sentence in sentences]
    order = _by_worth(ranks, [sources.get(sentence) for sentence in sentences])
    sizes = [counter.count(f"- {sentence}\n") for sentence in sentences]
    kept: set[int] = set()
    facts = [place for place in order if ranks[place] == FACT]
    for places, share in ((facts, int(room * _FACTS_SHARE)), (order, room)):
        left = share - sum(sizes[place] for place in kept)
        for place in places:
            if sizes[place] <= left and place not in kept:
                kept.add(place)
                left -= sizes[place]
    return [sentences[place] for place in sorted(kept)]


def _by_worth(ranks: Sequence[int], sources: Sequence[str | None]) -> list[int]:
    seen: dict[str, int] = {}
    crowded: set[int] = set()
    for place in sorted(range(len(ranks)), key=lambda place: ranks[place]):
        source = sources[place]
        if source is not None:
            seen[source] = seen.get(source, 0) + 1
            if seen[source] > _CROWD:
                crowded.add(place)
    groups: dict[tuple[bool, int], list[int]] = {}
    for place, rank in enumerate(ranks):
        groups.setdefault((place in crowded, rank), []).append(place)
    return [place for group in sorted(groups) for place in _ends_first(groups[group])]


def _ends_first(places: list[int]) -> list[int]:
    """The first, the last, the second, the last but one, and so on."""
    half = (len(places) + 1) // 2
    outer = itertools.zip_longest(places[:half], reversed(places[half:]))
    return [place for pair in outer for place in pair if place is not None]
