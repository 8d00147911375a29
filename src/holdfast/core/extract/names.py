"""Names in a text that later steps may need again: paths, symbols, ids, versions, numbers."""

from __future__ import annotations

import re
from collections import Counter as Counted
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Sequence

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
_NAME_CHARS: Final = range(4, 161)
_HASH_CHARS: Final = range(7, 41)
_HEX: Final = "0123456789abcdef"
_DIGITS_MIN: Final = 4
"""Numbers and hashes as the pattern has them, for words that need no pattern."""
_NUMBER: Final = lazy_pattern(r"[\d.]+")
_ESCAPED: Final = lazy_pattern(r"(?<!\\)\\++[nrt]")
"""White space in JSON that was printed: `\\nFix` is a line that begins with `Fix`."""
_DRIVE: Final = lazy_pattern(r"\b[A-Za-z]:\\")
"""A path of Windows, whose folders may begin with the same letters."""
_EDGES: Final = "()\"',;:\\"
"""Around a quoted name they are not part of it; in printed JSON a backslash is before each mark."""
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


def _names(word: str) -> Sequence[str]:
    """Names in a piece of text without white space, which no name contains."""
    bare = word.strip(_PUNCTUATION).rstrip(".")
    if bare.isascii() and bare.isalnum():  # as most pieces are: the pattern has no more to say
        if bare.islower() or bare.isdigit():
            is_hash = len(bare) in _HASH_CHARS and not bare.strip(_HEX)
            return (bare,) if is_hash or (bare.isdigit() and len(bare) >= _DIGITS_MIN) else ()
        if bare[1:].islower() or (bare.isupper() and bare.isalpha()):
            return ()
    return [name.rstrip(".") for name in _NAME.findall(_unescape(word))]


def _unescape(word: str) -> str:
    """A word of JSON that was printed, with spaces for the escapes of white space."""
    return _ESCAPED.sub(" ", word) if "\\" in word and not _DRIVE.search(word) else word


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
