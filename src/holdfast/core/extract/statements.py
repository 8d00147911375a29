"""Sentences of a text as they were said: without code, questions and credentials."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from holdfast.core.secrets.redaction import has_secret
from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


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


_SENTENCE_CHARS: Final = range(8, 401)
_TEXTS, _TEXT_CHARS = 8_192, 2_000
"""Messages whose sentences are kept, and the longest of them."""
_SENTENCE_CHARS_WIDE: Final = 4
"""The same for scripts that say a word with a character."""
_MARKUP: Final = lazy_pattern(r"^[\s>*#-]*(?:\d+[.)]\s+)?(?:\[[ xX]\]\s*)?")

_CODE: Final = lazy_pattern(
    r"\A\s*(?:\+|//|/\*|@@|\$\s|<\w|>|--\s|#+\s*(?-i:[a-z]|TODO|FIXME|XXX)|\*\s*@\w)|[;{}]\s*\Z"
)
"""A line of a program or a quotation."""
_ASKED: Final = lazy_pattern(r"[?？؟][^\w?？؟]*+\Z")
_LONG_CHARS: Final = 2_000
"""In a longer message, only what stands before and behind what was pasted was said."""
_SAID_CHARS: Final = 500
"""Of such a message, at either end."""
_TAG: Final = lazy_pattern(r"<(/?)([A-Za-z][\w-]{0,40})(?: [^<>\n]{0,200})?>")


def _is_any(_sentence: str) -> bool:
    return True


def sentences(text: str, is_wanted: Callable[[str], bool] = _is_any) -> list[str]:
    """The sentences of a text that could be a note and are wanted: no code, question or
    credential. Looking for credentials takes longest, so it is done last."""
    return [
        sentence
        for sentence in raw_sentences(text)
        if is_wanted(sentence) and not names_secret(sentence)
    ]


def raw_sentences(text: str) -> list[str]:
    """The same, before anyone has looked for credentials in them (`names_secret`)."""
    return list((_read_text_again if len(text) <= _TEXT_CHARS else _read_text)(text))


def own_sentences(text: str) -> list[str]:
    """The sentences of a user's message that the user wrote, as far as its structure tells."""
    return sentences(_strip_pasted(text))


def _read_text(text: str) -> tuple[str, ...]:
    read = map(_read_sentence, split_sentences(_without_code(scrub(text))))
    return tuple(filter(None, read))


def _read_sentence(raw: str) -> str:
    """Return a sentence without its markup, or nothing where it could not be a note."""
    sentence = " ".join(_MARKUP.sub("", raw).split())
    is_wide = bool(sentence) and not sentence.isascii()
    least = _SENTENCE_CHARS_WIDE if is_wide else _SENTENCE_CHARS.start
    if not least <= len(sentence) < _SENTENCE_CHARS.stop:
        return ""
    return "" if _CODE.search(raw) or _ASKED.search(sentence) else sentence


# A flush of notes and an evaluation read the same messages again and again.
_read_text_again: Final = lru_cache(maxsize=_TEXTS)(_read_text)
names_secret: Final = lru_cache(maxsize=_TEXTS)(has_secret)
"""`has_secret` for a sentence."""


def _without_code(text: str) -> str:
    """Return a text without pasted code."""
    return re.sub(r"(```|~~~).*?(?:\1|\Z)", "\n", text, flags=re.DOTALL)


def same_words(text: str) -> str:
    """Return the key shared by sentences with the same words."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    return " ".join(re.findall(r"\w+", plain))


def _strip_pasted(text: str) -> str:
    """A message without what was pasted into it, as far as one can tell."""
    text = _outside_tags(text)
    if len(text) <= _LONG_CHARS:
        return text
    start = text[:_SAID_CHARS].rpartition("\n\n")[0]
    end = text[-_SAID_CHARS:].partition("\n\n")[2]
    return f"{start}\n{end}"


def _outside_tags(text: str) -> str:
    """Remove the content of tags: a program put it there, or it is a quotation."""
    kept: list[str] = []
    place, opened = 0, ""
    for tag in _TAG.finditer(text):
        name = tag[2].casefold()
        if not opened and not tag[1]:
            opened, start = name, tag.start()
            kept.append(text[place:start])
        elif opened == name and tag[1]:
            opened, place = "", tag.end()
            kept.append("\n")
    return "".join(kept) + (text[start:] if opened else text[place:])
