"""The counter for a model: its own vocabulary where that is known, the nearest one where not.

The vocabularies come with the optional package splintr-rs (`pip install 'holdfast[tokens]'`);
they are compiled in, so nothing is ever fetched. Without it, and for speed no one needs to do
without it, the estimate of holdfast.core.tokens.counting stands in.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.tokens.counting import Estimator

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from holdfast.core.tokens.counting import Counter

SLICE_CHARS: Final = 128 * 1024
"""The tokenizer holds the interpreter's lock: a long text is counted in slices, so that other
threads get their turn. Of four bytes at most each, a slice may have half a megabyte."""

MEMO_ENTRIES: Final = 32_768
MEMO_CHARS: Final = 8_000_000
"""Characters that one generation of cached counts may hold; two are kept."""
DIGEST_CHARS_MIN: Final = 1_024
"""A longer text is remembered by its digest."""

BASE_VOCABULARY: Final = "o200k_base"
"""Counts for models whose vocabulary is not public; calibration corrects it."""

_VOCABULARIES: Final = tuple(
    (lazy_pattern(pattern), vocabulary)
    for pattern, vocabulary in (
        (r"gpt-oss", "gpt-oss"),
        (r"gpt-?4o|gpt-?4\.[15]|gpt-?[5-9]|chatgpt|codex", "o200k_base"),
        (r"(^|[/:])o[1-9](-|$)", "o200k_base"),
        (r"gpt-?4|gpt-?3\.5|text-embedding-(3|ada)", "cl100k_base"),
        (r"llama-?3", "llama3"),
        (r"llama-?2|vicuna|tinyllama", "llama2"),
        (r"code-?llama", "codellama"),
        (r"qwen-?[23](?!\.[5-9]|\d)|qwen-?2\.5|qwq", "qwen3"),
        (r"deepseek(?!.{0,100}v[4-9])", "deepseek_v3"),
        (r"kimi[-_]?k3", "kimi_k3"),
        (r"kimi|moonshot", "kimi_k2"),
        (r"glm-?4", "glm4"),
        (r"gemma-?2", "gemma2"),
        (r"gemma-?3", "gemma3"),
        (r"gemma-?4", "gemma4"),
        (r"mistral-7b|mixtral-8x7b", "mistral_v1"),
        (r"mistral|mixtral|ministral|magistral|devstral|codestral|pixtral", "mistral_v3"),
        (r"phi-?4", "phi4"),
        (r"olmo-?2", "olmo2"),
    )
)


def vocabulary_for(model: str | None) -> str | None:
    """The vocabulary of a model, or None where it is not known or not public."""
    name = (model or "").lower()
    for pattern, vocabulary in _VOCABULARIES:
        if pattern.search(name):
            return vocabulary
    return None


def counter_for(model: str | None = None) -> Counter:
    """The best counter there is for a model, offline."""
    own = vocabulary_for(model)
    counter = _vocabulary(own or BASE_VOCABULARY)
    if counter is None:
        return Estimator()
    return counter if counter.name == own else Borrowed(counter)


@functools.cache
def _splintr() -> Any | None:
    try:
        return importlib.import_module("splintr")
    except ImportError:
        return None


@functools.cache
def _vocabulary(name: str) -> Vocabulary | None:
    splintr = _splintr()
    if splintr is None:
        return None
    try:
        return Vocabulary(name, splintr.Tokenizer.from_pretrained(name))
    except ValueError:
        # An older splintr without this vocabulary: the next best is its base.
        return None if name == BASE_VOCABULARY else _vocabulary(BASE_VOCABULARY)


class Vocabulary:
    """Counts with a model's own tokens, and remembers what it has counted."""

    is_exact: Final = True
    """True: it counts the model's own tokens."""

    def __init__(self, name: str, tokenizer: Any) -> None:
        self.name = name
        self._encode = tokenizer.encode_ordinary
        self._young: dict[str | bytes, int] = {}
        self._old: dict[str | bytes, int] = {}
        self._young_chars = 0

    def count(self, text: str) -> int:
        if len(text) < DIGEST_CHARS_MIN:
            key: str | bytes = text
        else:
            # The digest costs a thirtieth of counting, and no long text is kept alive.
            key = hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()
        known = self._young.get(key)
        if known is None:
            known = self._old.get(key)
            if known is None:
                known = self._count(_encodable(text))
            self._remember(key, known)
        return known

    def _count(self, text: str) -> int:
        if len(text) <= SLICE_CHARS:
            return len(self._encode(text))
        return sum(len(self._encode(part)) for part in slices(text))

    def _remember(self, key: str | bytes, count: int) -> None:
        """Two generations: no bookkeeping on a hit, and never more than twice the bound."""
        if len(self._young) >= MEMO_ENTRIES or self._young_chars >= MEMO_CHARS:
            self._old, self._young, self._young_chars = self._young, {}, 0
        self._young[key] = count
        self._young_chars += len(key)


class Borrowed:
    """Another model's vocabulary: near, and to be corrected by what the provider reports."""

    is_exact: Final = False

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.name = vocabulary.name
        self.count = vocabulary.count


def _encodable(text: str) -> str:
    """The tokenizer refuses lone surrogates; asking is much quicker than always mending."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return scrub(text)
    return text


_LINE_START: Final = lazy_pattern(r"\n(?=[^\s/])")
_WORD_START: Final = lazy_pattern(r"(?<=[^\s])(?= [^\W\d_])")


def slices(text: str) -> Iterator[str]:
    """A text in pieces whose counts add up: cut where no token can cross, if there is a place."""
    start = 0
    while len(text) - start > SLICE_CHARS:
        end = start + SLICE_CHARS
        at = _last(_LINE_START, text, end) or _last(_WORD_START, text, end) or end
        yield text[start:at]
        start = at
    yield text[start:]


def _last(pattern: re.Pattern[str], text: str, end: int) -> int:
    """Return the end of the last match in the 4,096 characters before `end`, or 0."""
    place = 0
    for found in pattern.finditer(text, end - 4_096, end):
        place = found.end()
    return place
