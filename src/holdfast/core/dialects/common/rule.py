"""The words of the validators: a rule, a violation of it, and looking into foreign JSON.

A validator judges a raw request, ours or anyone's, as the provider would. It never raises: what
is not shaped like a request is a violation too.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.common.values import as_list, as_text
from holdfast.core.models.dialects import COMMON_IMAGES
from holdfast.core.models.messages import Image
from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.tokens.images import image_size, is_image

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import DialectVariant

RECALLED: Final = "recalled"
"""The source of a rule that no one's report shows: known, not seen."""

_SHOWN_CHARS: Final = 120
"""Of a value in a quote: a whole id, and the start of a text."""
_SURROGATE: Final = lazy_pattern("[\ud800-\udfff]")
_DATA_URI: Final = lazy_pattern(r"data:([\w.+-]+/[\w.+-]+)?(?:;[\w=.+-]+)*;base64,")


class Violation(msgspec.Struct, frozen=True):
    """One broken rule, in the provider's words."""

    rule: str
    quote: str
    where: str


class ProviderRule(msgspec.Struct, frozen=True):
    """Something a provider insists on."""

    id: str
    quote: str
    """The provider's words; names in braces are filled with the findings."""
    seen: str = RECALLED
    """The place where it was reported."""

    def broken(self, where: str, /, **found: object) -> Violation:
        """A violation; in the quote, `{where}` is its place unless something else is given."""
        shown = {"where": where, **{name: _show_value(value) for name, value in found.items()}}
        return Violation(self.id, self.quote.format(**shown), where)


def _show_value(value: object) -> str:
    text = scrub(value if isinstance(value, str) else str(value))
    return text if len(text) <= _SHOWN_CHARS else f"{text[: _SHOWN_CHARS - 1]}…"


def dicts(value: object, where: str) -> Iterator[tuple[str, Json]]:
    """The objects in a list, with their places; whatever else is in it is passed over."""
    for index, item in enumerate(as_list(value)):
        if isinstance(item, dict):
            yield f"{where}.{index}", item


def bracket_path(where: str) -> str:
    """A place as OpenAI and Google write it: `messages[2].tool_calls[0].id`."""
    return re.sub(r"\.(\d+)", r"[\1]", where)


def _lone_surrogates(request: object) -> Iterator[tuple[str, int]]:
    waiting: list[tuple[str, object]] = [("", request)]
    seen: set[int] = set()
    while waiting:
        where, value = waiting.pop()
        if isinstance(value, dict | list | tuple):
            if id(value) in seen:
                continue
            seen.add(id(value))
        match value:
            case str():
                found = _SURROGATE.search(value)
                if found:
                    yield where, found.start()
            case dict():
                waiting += [(f"{where}.{_show_value(key)}".lstrip("."), key) for key in value]
                waiting += [
                    (f"{where}.{_show_value(k)}".lstrip("."), item) for k, item in value.items()
                ]
            case list() | tuple():
                waiting += [(f"{where}.{i}".lstrip("."), item) for i, item in enumerate(value)]


def judge_length(rule: ProviderRule, where: str, length: int, limit: int) -> Iterator[Violation]:
    """Judge a length by a limit; 0 is none."""
    if limit and length > limit:
        yield rule.broken(where, spot=bracket_path(where), limit=limit, length=length)


class Picture(msgspec.Struct, frozen=True):
    """A picture found in a request."""

    where: str
    data: str = ""
    media_type: str = ""


def picture_of_uri(uri: str, where: str) -> Picture:
    """The picture an address stands for: inline data, or something the provider fetches."""
    found = _DATA_URI.match(uri)
    return Picture(where, uri[found.end() :], found[1] or "") if found else Picture(where)


class PictureRules(msgspec.Struct, frozen=True):
    """The rules about pictures, in one provider's words."""

    count: ProviderRule
    kind: ProviderRule
    data: ProviderRule
    size: ProviderRule | None = None
    pixels: ProviderRule | None = None
    many_pixels: ProviderRule | None = None

    @property
    def rules(self) -> tuple[ProviderRule, ...]:
        every = (self.count, self.kind, self.data, self.size, self.pixels, self.many_pixels)
        return tuple(rule for rule in every if rule is not None)

    def judge(self, pictures: list[Picture], dialect: DialectVariant) -> Iterator[Violation]:
        limit = dialect.images_max
        if limit is not None and len(pictures) > limit:
            where = pictures[limit].where
            yield self.count.broken(where, count=len(pictures), limit=limit)
        is_many = bool(dialect.many_images) and len(pictures) > dialect.many_images
        for picture in pictures:
            if picture.data:
                yield from self._judge_one(picture, dialect, is_many=is_many)

    def _judge_one(
        self, picture: Picture, dialect: DialectVariant, *, is_many: bool
    ) -> Iterator[Violation]:
        if picture.media_type not in dialect.image_types:
            yield self.kind.broken(picture.where, kind=picture.media_type or "none")
        elif picture.media_type in COMMON_IMAGES and not is_image(picture.data):
            yield self.data.broken(picture.where)
        if self.size and dialect.image_bytes and len(picture.data) > dialect.image_bytes:
            yield self.size.broken(picture.where, size=len(picture.data), limit=dialect.image_bytes)
        size = image_size(Image(data=picture.data, media_type=picture.media_type))
        edge = max(size.width, size.height) if size else 0
        if self.pixels and dialect.image_pixels and edge > dialect.image_pixels:
            yield self.pixels.broken(picture.where, edge=edge, limit=dialect.image_pixels)
        elif self.many_pixels and is_many and edge > dialect.many_image_pixels:
            yield self.many_pixels.broken(picture.where, edge=edge, limit=dialect.many_image_pixels)


class CommonRules(msgspec.Struct, frozen=True, kw_only=True):
    """The rules that every API has, in one provider's words."""

    shape: ProviderRule
    unicode: ProviderRule
    size: ProviderRule
    name: ProviderRule
    """Of a tool."""
    name_pattern: str = "[a-zA-Z0-9_-]+"
    pictures: PictureRules

    @property
    def rules(self) -> tuple[ProviderRule, ...]:
        """Those that open the list of a provider's rules."""
        return (self.shape, self.unicode, self.size)

    def judge(
        self,
        request: object,
        dialect: DialectVariant,
        field: str,
        items: str,
        *,
        may_be_text: bool = False,
    ) -> Iterator[Violation]:
        """Judge the body as a whole: valid JSON of valid Unicode, not too large, with objects in
        the list of that field. `items` describes the list."""
        yield from self._judge_bytes(request, dialect)
        if not isinstance(request, dict):
            yield self.shape.broken("", where="request", what="an object")
            return
        found = request.get(field)
        is_text = may_be_text and isinstance(found, str)
        if not found or not (is_text or isinstance(found, list)):
            yield self.shape.broken(field, what=items)
        for index, item in enumerate(as_list(found)):
            if not isinstance(item, dict):
                yield self.shape.broken(f"{field}.{index}", what="an object")

    def _judge_bytes(self, request: object, dialect: DialectVariant) -> Iterator[Violation]:
        try:
            size = len(msgspec.json.encode(request))
        except UnicodeEncodeError:
            for where, position in _lone_surrogates(request):
                yield self.unicode.broken(where, position=position)
                return
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            yield self.shape.broken("", where="request", what=f"JSON ({error})")
        else:
            if dialect.body_bytes and size > dialect.body_bytes:
                yield self.size.broken("", size=size, limit=dialect.body_bytes)

    def judge_name(self, name: object, where: str, dialect: DialectVariant) -> Iterator[Violation]:
        limit = dialect.tool_name_chars
        text = as_text(name)
        if not re.fullmatch(self.name_pattern, text) or len(text) > limit:
            yield self.name.broken(where, spot=bracket_path(where), limit=limit)
