"""Scales pictures down with Pillow (extra `images`), which is imported when one is too large."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.flow.effects import ScaledPicture

if TYPE_CHECKING:
    from collections.abc import Iterator

    from PIL.Image import Image

    from holdfast.core.flow.effects import ScalePicture

PIXELS_MAX: Final = 100_000_000
"""A picture with more is not decoded: it would take half a gigabyte."""
_QUALITIES: Final = (88, 75, 60)
"""Of a JPEG, the best first."""
_SMALLER: Final = 0.7
"""Of the edge, where no quality is small enough."""
_ROUNDS_MAX: Final = 8
"""Edges to try."""


def scale_picture(asked: ScalePicture) -> ScaledPicture | str:
    """Return a picture within the limits, or the reason why there is none. Never raises."""
    try:
        from PIL import Image, ImageOps
    except ImportError:
        return "Pillow is not installed: pip install 'holdfast[images]'"
    try:
        with Image.open(io.BytesIO(asked.data)) as opened:
            if opened.width * opened.height > PIXELS_MAX:
                return f"it has {opened.width:,} × {opened.height:,} pixels"
            name = opened.format or ""
            turned = ImageOps.exif_transpose(opened)
            turned.load()
            return _fit(turned, name, asked)
    except Exception as error:  # a decoder of foreign bytes raises whatever it likes
        return f"it cannot be read: {type(error).__name__}: {error}"


def _fit(picture: Image, name: str, asked: ScalePicture) -> ScaledPicture | str:
    edge = min(asked.edge_max or max(picture.size), max(picture.size))
    for _round in range(_ROUNDS_MAX):
        scaled = picture.copy()
        scaled.thumbnail((edge, edge))
        for data, media_type in _candidates(scaled, name, asked.kinds):
            if not asked.chars_max or len(data) * 4 // 3 + 4 <= asked.chars_max:
                return ScaledPicture(data, media_type, scaled.width, scaled.height)
        edge = max(1, int(edge * _SMALLER))
    return f"no size of it has fewer than {asked.chars_max:,} characters"


def _candidates(picture: Image, name: str, kinds: tuple[str, ...]) -> Iterator[tuple[bytes, str]]:
    """Yield a picture as files, the best first: lossless where it was, then as a JPEG."""
    if name in ("PNG", "GIF", "BMP", "TIFF") and "image/png" in kinds:
        known = picture if picture.mode in ("1", "L", "LA", "P", "RGB", "RGBA") else None
        yield _save(known or picture.convert("RGBA"), "PNG", optimize=True), "image/png"
    if "image/jpeg" in kinds:
        flat = _flatten(picture)
        for quality in _QUALITIES:
            yield _save(flat, "JPEG", quality=quality), "image/jpeg"


def _flatten(picture: Image) -> Image:
    """Return a picture without transparency, on white."""
    from PIL import Image

    if not picture.has_transparency_data:
        return picture.convert("RGB")
    ground = Image.new("RGBA", picture.size, "white")
    ground.alpha_composite(picture.convert("RGBA"))
    return ground.convert("RGB")


def _save(picture: Image, name: str, **options: Any) -> bytes:
    out = io.BytesIO()
    picture.save(out, name, **options)
    return out.getvalue()
