"""Sentences: where they end, in whatever language."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator


_SENTENCE_END: Final = lazy_pattern(
    r"[.!?。！？\n](?<!\b[A-Z]\.)(?<!\b[A-Za-z]\.[A-Za-z]\.)"
    r"(?:(?<!\n)[\"'”’)]*\s+|(?<=[。！？])|(?<=\n)\n*)"
)
"""The last character of a sentence and the space behind it, or line ends; no stop behind an
initial or two single letters ("J. Lind", "e.g.", "z.B."). It begins with a set of
characters, which is looked for several times as fast as places behind one."""


def sentence_spans(text: str) -> Iterator[tuple[int, int]]:
    """Return the start and end of each sentence; together they are the whole text."""
    start = 0
    for separator in _SENTENCE_END.finditer(text):
        yield start, separator.end()
        start = separator.end()
    yield start, len(text)


def split_sentences(text: str) -> list[str]:
    """The sentences of a text, without the space and the quotation marks behind them."""
    found: list[str] = []
    start = 0
    for separator in _SENTENCE_END.finditer(text):
        end = separator.start()
        found.append(text[start : end if text[end] == "\n" else end + 1])
        start = separator.end()
    return [*found, text[start:]]
