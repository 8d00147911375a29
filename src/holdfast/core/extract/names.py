"""Names in a text that later steps may need again: paths, symbols, ids, versions, numbers."""

from __future__ import annotations

import re
from collections import Counter as Counted
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.tokens.counting import Counter

_NAME: Final = lazy_pattern(
    r"""
    https?://[^\s"'<>`()\[\]{}]+[\w/]
    | (?<![<\w/])(?:~|\.{1,2})?/[\w.@+~-]+(?:/[\w.@+~-]+)*  # /from/the/root, ./here, ~/home
    | (?<![\w.@+-])[\w.@+-]++(?:/[\w.@+-]++)++       # some/where/else.py
    | --[a-z][\w-]{2,}                               # --a-flag
    | \b[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\b
    | \b[A-Za-z_]\w*+(?:(?:\.|::)[A-Za-z_]\w*+)++    # a.dotted.name, file.ext
    | \b[A-Z][A-Z0-9]{0,80}(?:-[A-Z0-9]{1,80}){0,40}-\d[A-Z0-9-]*\b  # a ticket: JIRA-1234, QK-7-B
    | \b\w*[a-z0-9]_\w+ | \b_*[A-Z][A-Z0-9]*_\w+     # snake_case, SCREAMING_CASE
    | \b[A-Z]*+[a-z0-9]++[A-Z]\w*                    # camelCase, PascalCase
    | \b[0-9a-f]{7,40}\b                             # a commit or another hash
    | \bv?\d+(?:\.\d+){2,}\b | \b\d{4,}\b            # 1.2.3, 8080
    """,
    re.VERBOSE,
)
_QUOTED: Final = lazy_pattern(r"`([^`\s]{3,60})`|\"([\w.:/@+-]{4,60})\"|'([\w.:/@+-]{4,60})'")
_HALF_LIFE_STEPS: Final = 80
"""After this many steps a mention counts half."""
_NAME_CHARS: Final = range(4, 161)
_NUMBER: Final = lazy_pattern(r"[\d.]+")
_BOILERPLATE: Final = lazy_pattern(
    r"__(?:future|name|main|file|doc|all|slots|init|str|repr|call)__|TYPE_CHECKING|NotImplemented"
    r"|/dev/(?:null|stdin|stdout|stderr)|/bin/(?:ba)?sh|/usr/bin/env"
    r"|content|message|messages|text|type|name|role|user|assistant|system|uuid|session|status"
    r"|true|false|null|none|None|string|number|object|array|value|data|error|result|output|input"
    r"|\d+-\d+-\d+T[\d:.Z+-]*|\w+:"
)
"""Names that nearly every program, or every JSON of one, contains."""
_ESCAPED: Final = lazy_pattern(r"(?<!\\)\\++[nrt]")
"""White space in JSON that was printed: `\\nFix` is a line that begins with `Fix`."""
_DRIVE: Final = lazy_pattern(r"\b[A-Za-z]:\\")
"""A path of Windows, whose folders may begin with the same letters."""
_LITTLE_WORTH: Final = 0.2
"""Bare numbers are mostly line numbers and sizes."""
_KNOWN: Final = lazy_pattern(
    r"(?:os|fmt|io|re|sys|time|json|math|path|errors|strings|strconv|bytes|filepath|context|exec"
    r"|sync|log|slog|http|sort|bufio|regexp|itertools|functools|collections|typing|datetime|pathlib"
    r"|subprocess|logging|asyncio|np|pd|plt|Math|Object|Array|JSON|String|Number|Promise|Date|Map|Set"
    r"|console|process|document|window|this|self|cls|std|str|t|f|assert|expect|require)"
    r"(?:\.|::)\w{1,30}"
)
"""Members of standard libraries, which an agent knows, and of the object at hand."""
_KNOWN_WORTH: Final = 0.5
_EDGES: Final = "()\"',;:"
"""Around a quoted name they are no part of it."""
_WORD_CHARS: Final = 120
"""Longer pieces are not kept with their names."""
_PUNCTUATION: Final = "()[]{}<>\"'`,;:!?*=|&"
_SCANNED_CHARS: Final = 400_000
"""A longer text is searched at its beginning and its end: no carry-over has room for more names."""


def identifiers(text: str) -> list[str]:
    """The names in a text, each once, in order."""
    if len(text) > _SCANNED_CHARS:
        text = text[: _SCANNED_CHARS // 2] + "\n" + text[-_SCANNED_CHARS // 2 :]
    # Texts repeat most of their words; each is searched once.
    words = dict.fromkeys(text.split())
    search = _names_in_word if max(map(len, words), default=0) <= _WORD_CHARS else _search
    found = dict.fromkeys(chain.from_iterable(map(search, words)))
    for match in _QUOTED.finditer(text):
        found[match[match.lastindex or 0].strip(_EDGES)] = None
    return [name for name in found if len(name) in _NAME_CHARS]


def _is_plain(word: str) -> bool:
    """Return whether a piece of text is one word in one case, which is no name: a quick test that
    spares most of a text the search."""
    bare = word.strip(_PUNCTUATION)
    return not bare or (bare.isalpha() and (bare.islower() or bare[1:].islower() or bare.isupper()))


@lru_cache(maxsize=16_384)
def _names_in_word(word: str) -> tuple[str, ...]:
    """`_names` of a piece that is short: the records of a session repeat most of them."""
    return () if _is_plain(word) else tuple(_names(word))


def _search(word: str) -> Sequence[str]:
    return _names_in_word(word) if len(word) <= _WORD_CHARS else _names(word)


def _names(word: str) -> list[str]:
    """Names in a piece of text without white space, which no name contains."""
    return [name.rstrip(".") for name in _NAME.findall(_unescape(word))]


def _unescape(word: str) -> str:
    """A word of JSON that was printed, with spaces for the escapes of white space."""
    return _ESCAPED.sub(" ", word) if "\\" in word and not _DRIVE.search(word) else word


def weigh(names: Sequence[str], weight: float) -> dict[str, float]:
    """Each name with its weight, which is lower for names that say little; boilerplate has none.

    Texts of one session repeat most names: each is one string for all of them.
    """
    return {name: weight * worth for name, worth in map(_worth, names) if worth}


@lru_cache(maxsize=16_384)
def _worth(name: str) -> tuple[str, float]:
    """A name and the share of its weight that it keeps."""
    if _BOILERPLATE.fullmatch(name):
        return name, 0.0
    if _NUMBER.fullmatch(name):
        return name, _LITTLE_WORTH
    return name, _KNOWN_WORTH if _KNOWN.fullmatch(name) else 1.0


def mentions(text: str, cap_tokens: int, counter: Counter) -> str:
    """The most frequent names in a text as one line, which stands in for a cleared result."""
    counts: dict[str, int] = {}
    for word, count in Counted(text.split()).items():
        for name in _names(word):
            if len(name) in _NAME_CHARS and not _NUMBER.fullmatch(name):
                counts[name] = counts.get(name, 0) + count
    kept: list[str] = []
    room = cap_tokens
    for name in sorted(counts, key=lambda name: -counts[name]):
        room -= counter.count(f" {name}")
        if room < 0:
            break
        kept.append(name)
    return " ".join(kept)


class HasNames(Protocol):
    """Something that holds names, and whether it is a step of the agent."""

    @property
    def names(self) -> Mapping[str, float]:
        """Each name with its weight."""

    @property
    def is_step(self) -> bool:
        """Return whether it counts for the age of names."""


def rank_names(digests: Sequence[HasNames]) -> list[str]:
    """All names, best first: the recent, the repeated, those used in calls, and the short."""
    scores: dict[str, float] = {}
    get, age = scores.get, 0
    for digest in reversed(digests):
        if digest.names:
            weight = 0.5 ** (age / _HALF_LIFE_STEPS)
            for name, factor in digest.names.items():
                scores[name] = get(name, 0.0) + weight * factor
        age += digest.is_step
    ranked = sorted((-score / (4 + len(name) // 4), name) for name, score in scores.items())
    return [name for _rank, name in ranked]
