"""Tokens of images: by dimensions and the provider's rule, never by base64.

The dimensions are read from the first bytes of the file; nothing is decoded. A picture whose
dimensions cannot be known costs what the rule asks for the largest one.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, TypeAlias

import msgspec

from holdfast.core.media import HEAD_CHARS, decode_head, kind_of
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    import re
    from collections.abc import Iterator

    from holdfast.core.models.messages import Image

HEAD_CHARS_MAX: Final = 512 * 1024
"""Base64 decoded to find dimensions; in a JPEG they may follow large metadata."""


class Size(msgspec.Struct, frozen=True):
    """Pixels."""

    width: int
    height: int


class AreaRule(msgspec.Struct, frozen=True, tag="area"):
    """Anthropic: pixels divided by a constant, after scaling down to the limits."""

    pixels_per_token: int = 750
    edge_max: int = 1_568
    tokens_max: int = 1_600


class TileRule(msgspec.Struct, frozen=True, tag="tiles"):
    """OpenAI before the patches: scaled into a square, then to a short edge, then cut in tiles."""

    base: int = 85
    per_tile: int = 170
    tile: int = 512
    square: int = 2_048
    short_edge: int = 768


class PatchRule(msgspec.Struct, frozen=True, tag="patches"):
    """OpenAI's newer models: patches of 32 pixels, scaled down to a limit, times a factor."""

    patch: int = 32
    patches_max: int = 1_536
    factor: float = 1.0


class CropRule(msgspec.Struct, frozen=True, tag="crops"):
    """Gemini: one flat cost for a small picture, else that cost for each crop."""

    per_tile: int = 258
    small_edge: int = 384
    tile: int = 768
    tiles_max: int = 16


class FlatRule(msgspec.Struct, frozen=True, tag="flat"):
    """One cost for every picture."""

    tokens: int


ImageRule: TypeAlias = AreaRule | TileRule | PatchRule | CropRule | FlatRule

UNKNOWN_RULE: Final = AreaRule()
"""For a provider we know nothing of: in the middle of what the known ones ask."""

_RULES: Final[tuple[tuple[re.Pattern[str], ImageRule], ...]] = tuple(
    (lazy_pattern(pattern), rule)
    for pattern, rule in (
        (r"claude-(2|3|instant)|claude-[a-z]+-4-[0-6](\D|$)|claude-[a-z]+-4(-\d{8})?$", AreaRule()),
        (r"claude-haiku-4", AreaRule()),
        (r"claude|anthropic", AreaRule(edge_max=2_576, tokens_max=4_784)),
        (r"gpt-4o-mini", TileRule(base=2_833, per_tile=5_667)),
        (r"gpt-4\.1-nano|gpt-5-nano", PatchRule(factor=2.46)),
        (r"gpt-4\.1-mini|gpt-5-mini", PatchRule(factor=1.62)),
        (r"o4-mini", PatchRule(factor=1.72)),
        (r"gpt-5\.[4-9]|gpt-[6-9]", PatchRule(patches_max=10_000, factor=1.2)),
        (r"gpt-5", TileRule(base=70, per_tile=140)),
        (r"computer-use", TileRule(base=65, per_tile=129)),
        (r"(^|/)o[13]\b", TileRule(base=75, per_tile=150)),
        (r"gpt-|openai", TileRule()),
        (r"gemini-[3-9]", FlatRule(1_120)),
        (r"gemini|gemma|google|vertex", CropRule()),
    )
)


def image_rule(model: str = "", provider: str = "") -> ImageRule:
    """The rule of a model, else of its provider, else the careful one."""
    for name in (model.lower(), provider.lower()):
        for pattern, rule in _RULES:
            if name and pattern.search(name):
                return rule
    return UNKNOWN_RULE


def image_tokens(image: Image, rule: ImageRule = UNKNOWN_RULE) -> int:
    """Count the tokens of an image. Unknown dimensions cost the rule's upper bound."""
    return size_tokens(image_size(image), rule)


def size_tokens(size: Size | None, rule: ImageRule = UNKNOWN_RULE) -> int:
    """Count the tokens of an image of a size."""
    match rule:
        case FlatRule():
            return rule.tokens
        case AreaRule():
            return _by_area(size, rule)
        case TileRule():
            return _by_tiles(size, rule)
        case PatchRule():
            return _by_patches(size, rule)
        case CropRule():
            return _by_crops(size, rule)


def _by_area(size: Size | None, rule: AreaRule) -> int:
    if size is None:
        return rule.tokens_max
    scale = min(1.0, rule.edge_max / max(size.width, size.height))
    tokens = math.ceil(size.width * scale * size.height * scale / rule.pixels_per_token)
    return max(1, min(tokens, rule.tokens_max))


def _by_tiles(size: Size | None, rule: TileRule) -> int:
    if size is None:
        # The most expensive shape: the short edge at its limit, the long one at the square's.
        size = Size(rule.square, rule.short_edge)
    scale = min(1.0, rule.square / max(size.width, size.height))
    width, height = size.width * scale, size.height * scale
    scale = min(1.0, rule.short_edge / min(width, height))
    across = math.ceil(width * scale / rule.tile)
    down = math.ceil(height * scale / rule.tile)
    return rule.base + rule.per_tile * across * down


def _by_patches(size: Size | None, rule: PatchRule) -> int:
    patches = rule.patches_max
    if size is not None:
        wanted = math.ceil(size.width / rule.patch) * math.ceil(size.height / rule.patch)
        patches = min(wanted, rule.patches_max)
    return max(1, math.ceil(patches * rule.factor))


def _by_crops(size: Size | None, rule: CropRule) -> int:
    if size is None:
        return rule.per_tile * rule.tiles_max
    if max(size.width, size.height) <= rule.small_edge:
        return rule.per_tile
    # The crop's edge follows the short side, within bounds: that is how Gemini documents it.
    edge = min(max(min(size.width, size.height) / 1.5, 256), rule.tile)
    tiles = math.ceil(size.width / edge) * math.ceil(size.height / edge)
    return rule.per_tile * min(tiles, rule.tiles_max)


def payload_bytes(data: str) -> int:
    """Return the number of bytes that a base64 payload decodes to."""
    length = len(data)
    padding = 2 if data.endswith("==") else 1 if data.endswith("=") else 0
    return max(0, length * 3 // 4 - (padding if length % 4 == 0 else 0))


def image_size(image: Image) -> Size | None:
    """Width and height, if the payload is here and says so."""
    return sniff_size(image.data) if image.data else None


def sniff_size(data: str) -> Size | None:
    """Width and height of a PNG, GIF, WebP or JPEG from the beginning of its base64."""
    head = decode_head(data[:HEAD_CHARS])
    size = None
    if head.startswith(b"\x89PNG\r\n\x1a\n") and head[12:16] == b"IHDR":
        size = _size(head[16:20], head[20:24], "big")
    elif head.startswith((b"GIF87a", b"GIF89a")):
        size = _size(head[6:8], head[8:10], "little")
    elif head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        size = _webp_size(head)
    elif head.startswith(b"\xff\xd8\xff"):
        size = _jpeg_size(data)
    return size if size and size.width > 0 and size.height > 0 else None


_COMMON: Final = frozenset(("image/png", "image/jpeg", "image/gif", "image/webp"))


def is_image(data: str) -> bool:
    """Return whether a base64 payload begins like a picture that the providers know."""
    return kind_of(data) in _COMMON


def _size(width: bytes, height: bytes, order: str) -> Size | None:
    if not width or len(width) != len(height):
        return None
    little = order == "little"
    return Size(
        int.from_bytes(width, "little" if little else "big"),
        int.from_bytes(height, "little" if little else "big"),
    )


def _webp_size(head: bytes) -> Size | None:
    match head[12:16]:
        case b"VP8X" if len(head) >= 30:
            width, height = head[24:27], head[27:30]
            return Size(int.from_bytes(width, "little") + 1, int.from_bytes(height, "little") + 1)
        case b"VP8L" if len(head) >= 25:
            bits = int.from_bytes(head[21:25], "little")
            return Size((bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1)
        case b"VP8 " if len(head) >= 30:
            width, height = head[26:28], head[28:30]
            return Size(
                int.from_bytes(width, "little") & 0x3FFF,
                int.from_bytes(height, "little") & 0x3FFF,
            )
        case _:
            return None


_JPEG_FRAMES: Final = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
"""Markers of the segments that hold the dimensions."""
_JPEG_BARE: Final = frozenset((0x01, *range(0xD0, 0xD9)))
"""Markers without a length."""


def _jpeg_size(data: str) -> Size | None:
    """Step from segment to segment, decoding more only when the next one lies further on."""
    head, place, chars = b"", 2, 4_096
    while True:
        if place + 9 > len(head):
            if len(head) and (chars >= HEAD_CHARS_MAX or chars >= len(data)):
                return None
            chars = min(HEAD_CHARS_MAX, max(chars * 2, (place + 9) * 4 // 3 + 8))
            head = decode_head(data[:chars])
            if place + 9 > len(head):
                return None
        if head[place] != 0xFF:
            return None
        marker = head[place + 1]
        if marker == 0xFF:
            place += 1
        elif marker in _JPEG_BARE:
            place += 2
        elif marker in _JPEG_FRAMES:
            return _size(head[place + 7 : place + 9], head[place + 5 : place + 7], "big")
        else:
            length = int.from_bytes(head[place + 2 : place + 4], "big")
            if length < 2:
                return None
            place += 2 + length


class DataUri(msgspec.Struct, frozen=True):
    """A payload written into a text."""

    start: int
    end: int
    media_type: str
    data: str

    @property
    def is_image(self) -> bool:
        """True for a picture that providers know, by its first bytes. An SVG is a text."""
        return is_image(self.data)


_DATA_URI: Final = lazy_pattern(
    r"data:([\w.+-]{1,64}\\{0,8}/[\w.+-]{1,64})?(?:;[\w=.+-]{1,64}){0,4};base64,"
    # JSON inside JSON escapes its slashes, and some encoders break lines.
    r"((?:[A-Za-z0-9+/_\\-]++(?:\r?\n(?=[A-Za-z0-9+/]{60}))?+)*+={0,2})"
)


def data_uris(text: str) -> Iterator[DataUri]:
    """The payloads written into a text, in order."""
    if ";base64," not in text:
        return
    for found in _DATA_URI.finditer(text):
        media_type = (found[1] or "").replace("\\", "").lower()
        yield DataUri(found.start(), found.end(), media_type, found[2])
