"""Masking secrets in what leaves the log. Redaction comes before every cut.

Known values first, in every form they take; then what has the shape of a credential; then what a
library finds. A mask says that it is one, so that no one takes it for the value; lines stay where
they are; and to mask twice changes nothing.
"""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.secrets import patterns as credentials
from holdfast.core.secrets.encodings import disguises
from holdfast.core.secrets.patterns import PRIVATE_KEY, PRIVATE_KEY_CHARS
from holdfast.core.secrets.plain_reading import plain_reading
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.strings import Replacement, Span, places, replace, rewritten
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Finder = Callable[[str], Iterable[tuple[int, int]]]
    """Returns the places where a library sees a secret: start and end, in characters."""

MASK: Final = "[masked]"
SECRET_CHARS_MIN: Final = 4
"""A shorter value stands in too many texts to be masked."""

_NAME: Final = lazy_pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}")
_HINTED_CHARS: Final = 18
"""From here on a mask shows the first 6 and the last 4 characters."""
_HINT: Final = r"[A-Za-z0-9+/=_.~:%-]"
_MASKED_SIGN: Final = "[masked"
_CONTEXT_CHARS: Final = 256
"""As far before a secret something can stand by which it is known."""
PAYLOAD_HEAD_CHARS: Final = 512
"""A secret in the place of a payload begins with it, and is known by this much."""
SHORT_TEXT_CHARS: Final = 48
"""Texts up to here are mostly names of fields, and come again and again."""
_STEPS: Final = 8
"""Size of a window of text, in multiples of the longest secret."""
_STRONG_CHARS: Final = 8
"""A known value of this length, in whatever form, is not in base64 by chance."""

_CUT: Final = "…"
"""The end of a text that was shortened; `core.text.cut.ellipsis`."""
_CUT_CHARS: Final = 256
"""As much of a secret is looked for before it."""
_WORD_END: Final = lazy_pattern(rf"(?<!{_HINT}){_HINT}{{8,}}+\Z")
_MORE: Final = "A1b2C3d4" * 12
"""The rest of a key that was cut."""


def handle(name: str) -> str:
    """Return the handle that replaces a secret of that name in a log (`core.secrets.vault`)."""
    return f"<secret:{name}>"


def check_secret(name: str, value: str) -> None:
    """Refuse a name that could not be read back, and a value that is hardly one."""
    if not _NAME.fullmatch(name):
        raise BadSetting(
            f"a secret cannot be called {name[:80]!r}",
            hint="use letters, digits, `_`, `-` and `.`, at most 64, the first a letter or digit",
        )
    if len(value.strip()) < SECRET_CHARS_MIN:
        raise BadSetting(
            f"the secret `{name}` has {len(value.strip())} characters; "
            f"at least {SECRET_CHARS_MIN} are needed",
            hint="a value this short occurs in many unrelated texts",
        )
    if any(value in words for words in (MASK, f"[masked: {PRIVATE_KEY}]", handle(""))):
        raise BadSetting(
            f"the value of the secret `{name}` is a part of the words that masks are made of",
            hint="choose another secret",
        )


def has_secret(text: str) -> bool:
    """Return whether something in a text looks like a credential."""
    return without_secrets(text) != text


def without_secrets(text: str) -> str:
    """A text in which what looks like a credential is masked."""
    return _BY_SHAPE.text(text)


def masks_in(text: str) -> int:
    """Count the masks in a text."""
    return text.count(_MASKED_SIGN)


class Redactor:
    """Masks registered values (`secrets`: name → value), shapes, and what `find` finds."""

    def __init__(
        self, secrets: Mapping[str, str] | None = None, *, find: Finder | None = None
    ) -> None:
        known = dict(secrets or {})
        for name, value in known.items():
            check_secret(name, value)
        self._find = find
        self._short = lru_cache(maxsize=4_096)(lambda text: self._rewritten([text])[0])
        # Of several names of one value, the first by its letters is shown.
        self._values = {value: name for name, value in sorted(known.items(), reverse=True)}
        self._forms = _forms(known) | self._values  # the value itself before another's form
        self._masks = _mask_pattern(known)
        self._has_numbers = any(value.strip("+-.eE0123456789") == "" for value in known.values())
        self._held_chars = max(PRIVATE_KEY_CHARS, *(2 * len(form) for form in self._forms), 0)

    def __repr__(self) -> str:
        return f"Redactor({len(self._values)} registered)"

    def text(self, text: str) -> str:
        """The text with its secrets masked; the same object where there are none."""
        return self.texts([text])[0]

    def texts(self, texts: Sequence[str]) -> list[str]:
        """Texts that follow each other: a secret that is split over them is masked as well.

        The mask stands where the secret began.
        """
        pieces = list(texts)
        if len(pieces) == 1 and len(pieces[0]) <= SHORT_TEXT_CHARS:
            masked = self._short(pieces[0])
            return pieces if masked == pieces[0] else [masked]
        return self._rewritten(pieces)

    def _rewritten(self, pieces: list[str]) -> list[str]:
        while found := self._find_replacements(pieces):
            pieces = replace(pieces, found)
        return pieces

    def value(self, value: Any) -> Any:
        """A JSON-like value, deep, keys included; the same object where there are no secrets.

        Pictures and signatures are left alone.
        """
        return rewritten(value, self)

    def stream(self, chunks: Iterable[str]) -> Iterator[str]:
        """A text in pieces, masked, without ever holding more than a few secrets' length of it."""
        held = ""
        for chunk in chunks:
            for start in range(0, len(chunk), self._held_chars):
                held += chunk[start : start + self._held_chars]
                if len(held) >= _STEPS * self._held_chars:
                    found = self._find_replacements([held])
                    place = _place_to_part(held, found, len(held) - self._held_chars)
                    inside = [item for item in found if item.end <= place]
                    yield self.text(replace([held[:place]], inside)[0]) if inside else held[:place]
                    held = held[place:]
        if held:
            yield self.text(held)

    # what `rewritten` asks for

    def rewrite_field(self, name: str, text: str) -> str:
        if name and credentials.field_kind(name, text):
            return replace([text], [Replacement(0, len(text), self._mask(text, ""))])[0]
        return text

    def payload(self, text: str) -> str:
        """Left alone, unless it is no payload at all but a secret in its place."""
        is_known = any(len(form) >= _STRONG_CHARS and form in text for form in self._forms)
        head = text[:PAYLOAD_HEAD_CHARS]
        is_shaped = any(span.start == 0 for span in credentials.spans(head))
        return self.text(text) if is_known or is_shaped else text

    def number(self, number: float) -> float | str:
        if self._has_numbers and any(value in str(number) for value in self._values):
            return self.text(str(number))
        return number

    def too_deep(self, _value: object) -> str:
        return MASK

    # finding

    def _find_replacements(self, pieces: Sequence[str]) -> list[Replacement]:
        """Return the replacements by position in the joined pieces; no two overlap."""
        text = "".join(pieces)
        return [
            Replacement(start, end, self._mask(text[start:end], name))
            for start, end, name, _kind in self.find(pieces)
        ]

    def find(self, pieces: Sequence[str]) -> list[Span]:
        """Return the secrets by position in the joined pieces; no two overlap."""
        text = "".join(pieces)
        spans = list(_spans_as_read(text, self._spans))
        if len(pieces) > 1:
            start = 0
            for piece in pieces:
                spans += (
                    span._replace(start=start + span.start, end=start + span.end)
                    for span in _spans_as_read(piece, self._spans)
                )
                start += len(piece)
        return _merge_spans(spans)

    def _spans(self, text: str) -> Iterator[Span]:
        known = [span for form, name in self._forms.items() for span in places(text, form, name)]
        guessed = [*credentials.spans(text)]
        if self._find is not None:
            guessed += (Span(start, end) for start, end in self._find(text) if start < end)
        if _CUT in text:
            guessed += _find_beginnings(text, self._values)
        if _MASKED_SIGN not in text:
            yield from known
            yield from guessed
            return
        masks = [match.span() for match in self._masks.finditer(text)]
        for span in known:
            yield _widen(span, masks)
        for span in guessed:
            yield from _outside(span, masks)

    def _mask(self, secret: str, name: str) -> str:
        """The words that stand for a secret; they never hold a registered value themselves."""
        if name:
            words = f"[masked: {name}]"
        elif len(secret) >= _HINTED_CHARS:
            words = f"[masked: {secret[:6]}…{secret[-4:]}]"
        else:
            return MASK
        is_plain = self._masks.fullmatch(words) and not any(
            value in words for value in self._values
        )
        return words if is_plain else MASK


def _merge_spans(spans: Iterable[Span]) -> list[Span]:
    merged: list[list[Span]] = []
    end = -1
    for span in sorted(spans):
        if merged and span.start < end:
            merged[-1].append(span)
        else:
            merged.append([span])
        end = max(end, span.end)
    return [
        Span(
            group[0].start,
            max(span.end for span in group),
            _name_of([span for span in group if span.name]),
            next((span.kind for span in group if span.kind), ""),
        )
        for group in merged
    ]


def _spans_as_read(text: str, find: Callable[[str], Iterable[Span]]) -> Iterator[Span]:
    """Yield the secrets in a text as it is, and in how it reads."""
    yield from find(text)
    reading = plain_reading(text)
    if reading is not None:
        for span in find(reading.text):
            if span.start < span.end:
                yield Span(*reading.span(span.start, span.end), span.name, span.kind)


def _find_beginnings(text: str, values: Mapping[str, str]) -> Iterator[Span]:
    """Yield the beginnings of secrets that were cut before a mark of ours; `values`: with names."""
    place = text.find(_CUT)
    while place >= 0:
        part = text[max(0, place - _CUT_CHARS) : place]
        before = part.rstrip()
        end = place - len(part) + len(before)
        word = _WORD_END.search(before)
        if word is not None:
            start = end - len(word[0])
            longer = credentials.spans(word[0] + _MORE)
            yield from (
                Span(start + span.start, end)
                for span in longer
                if span.start < len(word[0]) < span.end
            )
        for value, name in values.items():
            length = min(len(value) - 1, len(before))
            while length >= SECRET_CHARS_MIN and not before.endswith(value[:length]):
                length -= 1
            if length >= SECRET_CHARS_MIN:
                yield Span(end - length, end, name)
        place = text.find(_CUT, place + 1)


def _forms(known: Mapping[str, str]) -> dict[str, str]:
    """Each form of each value, with the name that its mask gives."""
    forms: dict[str, str] = {}
    for name, value in sorted(known.items()):
        for form in (*disguises(value), handle(name)):
            forms.setdefault(form, name)
    return forms


def _mask_pattern(names: Iterable[str]) -> re.Pattern[str]:
    """Our own masks, and nothing that a text could hide a secret in by calling it masked."""
    hint = rf"{_HINT}{{6}}…{_HINT}{{4}}"
    either = "|".join((PRIVATE_KEY, hint, *sorted(map(re.escape, names))))
    return lazy_pattern(rf"\[masked(?:: (?:{either}))?\]")


def _name_of(spans: Sequence[Span]) -> str:
    """The name of the longest of them; of two that are as long, the first by its letters."""
    return min(spans, key=lambda one: (one.start - one.end, one.name)).name if spans else ""


def _widen(span: Span, masks: Sequence[tuple[int, int]]) -> Span:
    """A known value that runs into a mask takes the mask with it."""
    touched = _masks_touching(span, masks)
    start = min((mask[0] for mask in touched), default=span.start)
    end = max((mask[1] for mask in touched), default=span.end)
    return Span(min(start, span.start), max(end, span.end), span.name)


def _outside(span: Span, masks: Sequence[tuple[int, int]]) -> Iterator[Span]:
    """The parts of a guess that are not masked yet."""
    place = span.start
    for start, end in _masks_touching(span, masks):
        if place < start:
            yield span._replace(start=place, end=start)
        place = end
    if place < span.end:
        yield span._replace(start=place)


def _masks_touching(span: Span, masks: Sequence[tuple[int, int]]) -> Sequence[tuple[int, int]]:
    """The masks that a place overlaps with; they are in order."""
    first = bisect_right(masks, span.start, key=lambda mask: mask[1])
    last = bisect_left(masks, span.end, key=lambda mask: mask[0])
    return masks[first:last]


def _place_to_part(text: str, found: Sequence[Replacement], wanted: int) -> int:
    """Return the position to split a text: after a line or a word if possible, and neither
    inside a secret nor between a secret and its name."""
    limit = wanted
    while limit > 0:
        place = text.rfind("\n", 0, limit) + 1 or text.rfind(" ", 0, limit) + 1 or limit
        over = [item for item in found if item.start - _CONTEXT_CHARS < place < item.end]
        if not over:
            return place
        limit = min(place - 1, over[0].start - _CONTEXT_CHARS)
    ends = [item.end for item in found if item.end <= wanted]
    return ends[-1] if ends else found[0].end


_BY_SHAPE: Final = Redactor()
