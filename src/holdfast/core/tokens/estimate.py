"""Tokens without a vocabulary: a text is cut as o200k cuts it, and each piece is guessed.

A byte-pair vocabulary first cuts a text by a fixed rule (words with the character before them,
up to three digits, runs of marks, white space) and then splits only inside the pieces. The cutting
is repeated here exactly; what a piece becomes is a sum of weights that were fitted on real texts
(benchmarks/tokens.py --fit): length, case, pairs of letters, script. Every piece is bounded, so the
time is linear for every text.
"""

from __future__ import annotations

import functools
import itertools
import math
import re
from typing import Final

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.tokens.estimate_weights import WEIGHTS

_UPPER: Final = "A-Z\u00c0-\u00d6\u00d8-\u00de"
_LOWER: Final = "a-z\u00aa\u00b5\u00ba\u00df-\u00f6\u00f8-\u024f\u1e00-\u1eff"
_FOREIGN: Final = (
    "\u0300-\u1dff\u1f00-\u1fff\u2c00-\u2dff\u2e80-\u2fdf\u3005-\u3007\u3031-\u318f"
    "\u31a0-\u31ff\u3400-\u4dbf\u4e00-\ua4cf\ua500-\ud7ff\uf900-\ufdff\ufe70-\ufefc\uff21-\uff3a\uff41-\uff5a\uff66-\uffdc"
    "\U00010000-\U0001cfff\U0001e000-\U0001efff\U00020000-\U0003ffff"
)
"""Letters and their marks outside the Latin script, with the few digits and dots among them."""

_TAIL: Final = "(?:'(?:[stmd]|re|ve|ll))?"
_SPACES: Final = r"\s{0,128}[\r\n]{1,16}|\s{1,128}(?!\S)|\s{1,128}"

_ESCAPE: Final = r" ?\x1b(?:\[[0-9;]{0,16}[A-Za-z])?"
"""A colour of a terminal: tokens of one character each, and numbers. Its last letter is hardly ever
one token with the word that follows, so it is a piece of its own."""
_ASCII_PIECES: Final = lazy_pattern(
    rf"{_ESCAPE}|[^\r\nA-Za-z0-9]?(?:[A-Z]{{0,16}}[a-z]{{1,48}}|[A-Z]{{1,48}}){_TAIL}"
    rf"|[0-9]{{1,3}}| ?[^\s\x1bA-Za-z0-9]{{1,64}}[\r\n/]{{0,16}}|{_SPACES}"
)
_KNOWN: Final = f"0-9{_UPPER}{_LOWER}{_FOREIGN}"
_WIDE_PIECES: Final = lazy_pattern(
    rf"{_ESCAPE}|[^\r\n{_KNOWN}]?(?:[{_UPPER}]{{0,16}}[{_LOWER}]{{1,48}}|[{_UPPER}]{{1,48}}){_TAIL}"
    rf"|[0-9]{{1,3}}|[^\r\n{_KNOWN}]?[{_FOREIGN}]{{1,48}}"
    rf"| ?[\u2500-\u25ff]{{1,512}}[\r\n/]{{0,16}}"
    rf"| ?[^\s\x1b{_KNOWN}]{{1,64}}[\r\n/]{{0,16}}|{_SPACES}"
)
_ESCAPE_PARTS: Final = lazy_pattern(r"[0-9]{1,3}|.", re.S)
_WORD: Final = lazy_pattern(rf"([^{_UPPER}{_LOWER}]?)([{_UPPER}{_LOWER}]+)(.*)", re.S)

# The places of the weights. A word has one for its case, what stands before it and its length,
# and one for each pair of neighbouring letters (those of running text apart from all others); a
# piece of another script or of symbols has one for each character, one for how it begins, and one
# for each pair of neighbours, which many pairs share.

_LENGTHS: Final = 16
_BEGINNINGS: Final = {"": 0, " ": 1, "/": 2, "_": 3, ".": 3, "-": 4, "(": 5, "\t": 5}
_BEGINNING_SPACE: Final = 1
_BEGINNING_OTHER: Final = 6
_BEGINNINGS_COUNT: Final = 7
_PAIRS_AT: Final = 4 * _BEGINNINGS_COUNT * _LENGTHS
_LETTERS: Final = 27
_OTHER: Final = 26
_PAIRS: Final = _LETTERS * _LETTERS
_TAIL_AT: Final = _PAIRS_AT + 2 * _PAIRS
_MARKS_AT: Final = _TAIL_AT + 1
_SCRIPTS_AT: Final = _MARKS_AT + _LENGTHS
_SCRIPTS: Final = (
    # The first code point, and the place of the script's weights. Those of one language's words
    # have weights by length, the others one for each character.
    (0x0000, "ascii"),
    (0x0080, "signs"),
    (0x0300, "marks"),
    (0x0370, "greek"),
    (0x0400, "cyrillic"),
    (0x0530, "armenian"),
    (0x0590, "hebrew"),
    (0x0600, "arabic"),
    (0x0700, "rare"),
    (0x0900, "indic"),
    (0x0E00, "thai"),
    (0x0F00, "rare"),
    (0x10A0, "georgian"),
    (0x1100, "rare"),
    (0x1E00, "marks"),
    (0x2000, "quotes"),
    (0x2070, "signs"),
    (0x2190, "arrows"),
    (0x2200, "signs"),
    (0x2500, "boxes"),
    (0x25A0, "shapes"),
    (0x2C00, "rare"),
    (0x3000, "wide marks"),
    (0x3040, "hiragana"),
    (0x30A0, "katakana"),
    (0x3100, "rare"),
    (0x3400, "rare han"),
    (0x4E00, "han"),
    (0xA000, "rare"),
    (0xAC00, "hangul"),
    (0xD800, "rare"),
    (0xFE00, "selectors"),
    (0xFE10, "rare"),
    (0xFF00, "wide marks"),
    (0xFFF0, "rare"),
    (0x1F000, "emoji"),
    (0x1F1E6, "flags"),
    (0x1F200, "emoji"),
    (0x1F3FB, "skins"),
    (0x1F400, "emoji"),
    (0x20000, "rare han"),
)
_DEVANAGARI: Final = 0x0900
_BENGALI: Final = 0x0980
_THAI: Final = 0x0E00
_SCRIPT_NAMES: Final = tuple(dict.fromkeys(name for _start, name in _SCRIPTS))
_SCRIPT_AT: Final = {
    name: _SCRIPTS_AT + place * (_LENGTHS + 2) for place, name in enumerate(_SCRIPT_NAMES)
}
_NEIGHBOURS_AT: Final = _SCRIPTS_AT + len(_SCRIPT_NAMES) * (_LENGTHS + 2)
_NEIGHBOURS: Final = 4_096
_NEIGHBOUR_STEP: Final = 67
"""Pairs of an alphabet of up to 61 letters have places of their own; those of larger ones share
them, and with those of other scripts."""
WEIGHTS_COUNT: Final = _NEIGHBOURS_AT + _NEIGHBOURS

_FOLD: Final = bytes(
    code - 97 if 97 <= code <= 122 else code - 65 if 65 <= code <= 90 else _OTHER
    for code in range(256)
)
"""From an ASCII letter to its place in the alphabet."""

_PAIR_WEIGHTS: Final = {
    at: dict(
        zip(itertools.product(range(_LETTERS), repeat=2), WEIGHTS[at : at + _PAIRS], strict=False)
    ).__getitem__
    for at in (_PAIRS_AT, _PAIRS_AT + _PAIRS)
}
"""The same weights by pair."""

_ASSUMED: Final = {
    **dict.fromkeys(("greek", "cyrillic", "armenian", "hebrew", "arabic"), 600),
    **dict.fromkeys(("indic", "thai", "georgian", "hangul"), 600),
    "han": 800,
    "boxes": 500,
    "shapes": 1_200,
    "arrows": 1_100,
    "selectors": 800,
    "emoji": 1_700,
    "flags": 2_000,
    "skins": 1_500,
    "rare": 2_200,
    "rare han": 2_500,
}
"""Thousandths of a token for each character."""

_SHORT_CHARS: Final = 2_000
_LONG_CHARS: Final = 64_000
"""Texts up to here are remembered, of each length 8 million characters at most: a long tool result
is counted for every request that it is in. Still longer ones are few, and would take up memory."""
_REMEMBERED: Final = 8_192_000
_CONTROLS: Final = dict.fromkeys((*range(9), *range(14, 32), 127))
"""ASCII characters that no token joins with others, such as the escapes of coloured output."""
_BOXES: Final = lazy_pattern(" ?([\u2500-\u25ff])\\1*")
_BOX_TOKENS: Final = frozenset("─━│┃├┣═║╗╝▀▄█▋░▒▓■□▪▫▬▲△▶▷►▼▽◆◇○◎●")
"""Those of tables, bars and shapes that o200k has as one token."""
_BOX_SPACED: Final = frozenset("│█■□▲△▶►▼◆○◎●")
"""Those of them that are one token with the space before."""
_BOX_RUNS: Final = {"─": 16, "□": 16, "━": 8, "═": 8, "█": 4, "▄": 2, "■": 2, "▬": 2}
"""The longest run of a character that is one token."""
LETTER_RUN: Final = 4
MARK_RUN: Final = 48
"""Repetitions of one letter or mark inside one token, on the safe side."""


def estimate(text: str) -> int:
    """About as many tokens as o200k has for a text; at most its bytes in UTF-8."""
    if len(text) <= _SHORT_CHARS:
        return _estimate_short(text)
    return _estimate_long(text) if len(text) <= _LONG_CHARS else _estimate(text)


def _estimate(text: str) -> int:
    if not text:
        return 0
    if text.isascii():
        pieces, bytes_max = _ASCII_PIECES.findall(text), len(text)
    else:
        pieces = _WIDE_PIECES.findall(text)
        bytes_max = len(text.encode("utf-8", "surrogatepass"))
    return max(1, min((sum(map(thousandths, pieces)) + 500) // 1_000, bytes_max))


# The same messages are counted for every request and for every cut that is weighed.
_estimate_short: Final = functools.lru_cache(maxsize=_REMEMBERED // _SHORT_CHARS)(_estimate)
_estimate_long: Final = functools.lru_cache(maxsize=_REMEMBERED // _LONG_CHARS)(_estimate)


def pieces_of(text: str) -> list[str]:
    """The pieces that no token crosses."""
    return (_ASCII_PIECES if text.isascii() else _WIDE_PIECES).findall(text)


@functools.lru_cache(maxsize=65_536)
def thousandths(piece: str) -> int:
    """The guess for one piece, in thousandths of a token."""
    if _BOXES.search(piece):
        runs = sum(_box_tokens(found[0]) for found in _BOXES.finditer(piece))
        rest = _BOXES.sub("", piece)
        return 1_000 * runs + (thousandths(rest) if rest else 0)
    if is_weighed(piece):
        return min(max(1_000, _weight(piece)), 4_000 * len(piece))
    if _has_controls(piece):
        if "\x1b" in piece:
            return 1_000 * len(_ESCAPE_PARTS.findall(piece))
        rest = piece.translate(_CONTROLS)
        return 1_000 * (len(piece) - len(rest)) + (thousandths(rest) if rest else 0)
    if len(piece) <= LETTER_RUN or piece.isspace():
        return 1_000
    return 1_000 * math.ceil(len(piece) / (LETTER_RUN if piece.isalpha() else MARK_RUN))


def _box_tokens(run: str) -> int:
    """Return the tokens of a run of one character of tables and bars, with the space before it.

    Lines are tokens of 16, 8, 4, 2 and 1; corners and crossings have no token of their own.
    """
    char = run[-1]
    chars = len(run.lstrip(" "))
    if char not in _BOX_TOKENS:
        return 2 * chars
    whole, rest = divmod(chars, _BOX_RUNS.get(char, 1))
    return whole + rest.bit_count() + (run[0] == " " and char not in _BOX_SPACED)


def _weight(piece: str) -> int:
    """The sum of a piece's weights; of a plain word in a quicker way, because most are one."""
    word = piece if piece[0].isalpha() else piece[1:]
    if not (word.isascii() and word.isalpha()):
        if piece.isascii() or _WORD.match(piece):
            return sum(map(WEIGHTS.__getitem__, features(piece)))
        return _script_weight(piece)
    place, pairs_at = _word_places(piece[: -len(word)], word)
    codes = word.encode("ascii").translate(_FOLD)
    return WEIGHTS[place] + sum(map(_PAIR_WEIGHTS[pairs_at], itertools.pairwise(codes)))


def is_weighed(piece: str) -> bool:
    """Return whether a piece needs guessing.

    Up to three digits are one token, and so is white space of the lengths that are cut here; of a
    run of one ASCII character it is known how much of it a token takes. Control characters are
    tokens of their own.
    """
    if _has_controls(piece):
        return False
    if not piece.isascii():
        return True
    is_run = len(piece) == 1 or (len(piece) > LETTER_RUN and piece == piece[0] * len(piece))
    return not (is_run or piece.isdigit() or piece.isspace())


def _has_controls(piece: str) -> bool:
    return not piece.isprintable() and len(piece.translate(_CONTROLS)) < len(piece)


def features(piece: str) -> list[int]:
    """The places of a piece's weights."""
    word = _WORD.match(piece)
    if word is not None:
        return _word_features(*word.groups())
    if piece.isascii():
        return [_MARKS_AT + min(len(piece.rstrip("\r\n")), _LENGTHS - 1)]
    return _script_features(piece)


def _word_features(before: str, word: str, tail: str) -> list[int]:
    place, pairs_at = _word_places(before, word)
    codes = word.encode("ascii", "replace").translate(_FOLD)
    pairs = [pairs_at + left * _LETTERS + right for left, right in itertools.pairwise(codes)]
    return [place, *pairs, *([_TAIL_AT] if tail else [])]


def _word_places(before: str, word: str) -> tuple[int, int]:
    """Return the index of a word's shape weight, and that of its first pair weight."""
    if word.islower():
        case = 0
    elif word.isupper():
        case = 2
    else:
        case = 1 if word[1:].islower() else 3
    beginning = _BEGINNINGS.get(before, _BEGINNING_OTHER)
    shape = case * _BEGINNINGS_COUNT + beginning
    place = shape * _LENGTHS + min(len(word), _LENGTHS - 1)
    return place, _PAIRS_AT if beginning == _BEGINNING_SPACE else _PAIRS_AT + _PAIRS


def _script_features(piece: str) -> list[int]:
    """The beginning by its script and length, then each character by its script and its pair."""
    codes = _codes(piece)
    pairs = itertools.starmap(_neighbours, itertools.pairwise(codes))
    return [_beginning(codes), *itertools.chain.from_iterable(pairs)]


def _script_weight(piece: str) -> int:
    """The sum of the same weights, by pairs, which repeat."""
    codes = _codes(piece)
    weight = WEIGHTS[_beginning(codes)] + sum(map(_pair_weight, codes, codes[1:]))
    return weight * _indic_percent(codes[0]) // 100 if codes else weight


def _indic_percent(code: int) -> int:
    """Return the share of the weights that prose of a script of India has, in hundredths.

    The weights were fitted on few texts of them, of which many were single words.
    """
    if _DEVANAGARI <= code < _BENGALI:
        return 74
    return 80 if _BENGALI <= code < _THAI else 100


def _codes(piece: str) -> list[int]:
    return [*map(ord, piece.lower().replace(" ", ""))]


def _beginning(codes: list[int]) -> int:
    return _script(codes[0]) + min(len(codes), _LENGTHS - 1) if codes else _MARKS_AT + 1


def _neighbours(before: int, code: int) -> tuple[int, int]:
    """The places of a character after another of its script, or after a change of scripts; and of
    the two as a pair."""
    place = _script(code)
    pair = (_NEIGHBOUR_STEP * before + code) % _NEIGHBOURS
    return place + _LENGTHS + (place != _script(before)), _NEIGHBOURS_AT + pair


@functools.lru_cache(maxsize=16_384)
def _pair_weight(before: int, code: int) -> int:
    return sum(map(WEIGHTS.__getitem__, _neighbours(before, code)))


@functools.lru_cache(maxsize=8_192)
def _script(code: int) -> int:
    name = "ascii"
    for start, candidate in _SCRIPTS:
        if code < start:
            break
        name = candidate
    return _SCRIPT_AT[name]


def assumed_weights() -> list[int]:
    """Return the weights before fitting; they remain where no text was seen."""
    weights = [0] * WEIGHTS_COUNT
    for place in (*range(_PAIRS_AT), *range(_MARKS_AT, _SCRIPTS_AT)):
        weights[place] = 1_000
    for name, at in _SCRIPT_AT.items():
        each = _ASSUMED.get(name, 1_000)
        weights[at : at + _LENGTHS] = [max(1_000, each)] * _LENGTHS
        weights[at + _LENGTHS : at + _LENGTHS + 2] = [each] * 2
    return weights
