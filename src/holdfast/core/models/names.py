"""Take a model's name apart: its maker, its line and its version.

A version is one or two short numbers. A date, a window (`[1m]`) and a host's revision (`-v1:0`) are
no part of it, so `claude-opus-4-20250514` is version 4.0 and `claude-opus-5-5` is version 5.5.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern

NEWEST: Final = (99, 0)
"""The version that rules are read for where a name has none, such as `claude-opus-latest`."""

_MAKERS: Final = (
    ("anthropic", lazy_pattern(r"claude")),
    ("openai-oss", lazy_pattern(r"gpt-?oss")),
    ("openai", lazy_pattern(r"(?:chat)?gpt(?=[-_ ]?\d)|(?<![a-z0-9])(?:o(?=[1-9](?:-|$))|codex)")),
    ("google", lazy_pattern(r"gemini")),
    ("deepseek", lazy_pattern(r"deepseek")),
    ("moonshot", lazy_pattern(r"kimi|moonshot")),
    ("mistral", lazy_pattern(r"mistral|codestral|devstral|magistral")),
    ("xai", lazy_pattern(r"grok")),
    ("qwen", lazy_pattern(r"qwen|qwq")),
    ("zhipu", lazy_pattern(r"glm")),
    ("meta", lazy_pattern(r"llama")),
)
"""The makers, and what their names begin with, wherever in a name that stands."""

_BOX: Final = lazy_pattern(r"\[\w{1,8}\]")
_NUMBER: Final = lazy_pattern(r"[a-z]?(\d{1,2})([a-z]?)")
_SPLIT: Final = lazy_pattern(r"[-_@:./ ]+")
_NO_LINE: Final = frozenset({"latest", "preview", "exp", "experimental"})


class ModelName(msgspec.Struct, frozen=True):
    """A model's name, taken apart. Two names of one release are equal: their dates are left out."""

    maker: str = ""
    """The company that trained it; empty where the name does not tell."""
    line: str = ""
    """The word for its size or kind: `opus`, `sol`, `mini`; `4o`; `o` for the o-series. The whole
    name where the maker is not known."""
    version: tuple[int, int] | None = None
    """Major and minor number; None where the name has no version."""
    rest: str = ""
    """Further words of the name: `pro` in `gpt-6-sol-pro`."""

    @property
    def is_known(self) -> bool:
        return bool(self.maker)

    @property
    def numbers(self) -> tuple[int, int]:
        """Return the version for comparisons; a name without one means the newest."""
        return NEWEST if self.version is None else self.version


@lru_cache(maxsize=4_096)
def read_model_name(model: str) -> ModelName:
    """Take a name apart that a request, a log or a person has for a model."""
    text = _BOX.sub("", model.lower().strip())
    for maker, pattern in _MAKERS:
        found = pattern.search(text)
        if found is not None:
            return _read(maker, found[0], text[found.end() :])
    return ModelName(line=text)


def _read(maker: str, start: str, tail: str) -> ModelName:
    words: list[str] = []
    version: tuple[int, int] | None = None
    pieces = [piece for piece in _SPLIT.split(tail) if piece]
    for place, piece in enumerate(pieces):
        number = _NUMBER.fullmatch(piece)
        if number is None or version is not None:
            if re.fullmatch("[a-z]+", piece) and piece not in _NO_LINE:
                words.append(piece)
            continue
        version = (int(number[1]), _minor(pieces, place, has_letter=bool(number[2])))
        words += [piece] if number[2] else []  # `4o` is a line of its own
    if start in ("o", "codex"):
        words.insert(0, start)
    return ModelName(maker, words[0] if words else "", version, "-".join(words[1:]))


def _minor(pieces: list[str], place: int, *, has_letter: bool) -> int:
    """The point release behind a major number; a longer number is a date."""
    following = pieces[place + 1] if place + 1 < len(pieces) else ""
    is_number = following.isdecimal() and following.isascii() and len(following) <= 2
    return int(following) if is_number and not has_letter else 0
