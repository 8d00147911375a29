"""Long texts in passages: what a search finds, shows and cites.

A passage ends where a sentence does, if one does in time. Together the passages are the text:
nothing is between them but space, and nothing is in two of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.limits import PASSAGE_CHARS_MAX
from holdfast.core.sentences.split import sentence_spans

if TYPE_CHECKING:
    from collections.abc import Iterator


def passages(text: str, chars_max: int = PASSAGE_CHARS_MAX) -> list[str]:
    """The text in parts of at most `chars_max` characters; parts without any word are left out."""
    assert chars_max > 0, chars_max
    return [sentence for sentence in _gather_sentences(text, chars_max) if sentence.strip()]


def _gather_sentences(text: str, chars_max: int) -> Iterator[str]:
    """Sentences, as many as fit together."""
    start = end = 0
    for _, sentence_end in sentence_spans(text):
        if sentence_end - start > chars_max:
            yield text[start:end]
            start = end
        while sentence_end - start > chars_max:
            cut = _word_end(text, start, start + chars_max)
            yield text[start:cut]
            start = cut
        end = sentence_end
    yield text[start:end]


def _word_end(text: str, start: int, end: int) -> int:
    """Return where to cut a long sentence: after a word in its second half, if possible."""
    space = text.rfind(" ", (start + end) // 2, end)
    return space + 1 if space >= 0 else end
