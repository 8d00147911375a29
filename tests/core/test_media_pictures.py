"""A picture is whole or cut off: found by stepping over its parts."""

from __future__ import annotations

import base64
import io
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image, ImageChops
from tests.prompts import JPEG, png
from tests.support.runs import examples

from holdfast.core.media import decode, is_whole, kind_of

FORMATS: Final = ("PNG", "JPEG", "GIF", "WEBP")


def drawn(kind: str, **options: object) -> bytes:
    noise = Image.effect_noise((90, 60), 60).convert("RGB")
    out = io.BytesIO()
    noise.save(out, kind, **options)
    return out.getvalue()


@pytest.mark.parametrize("kind", FORMATS)
def test_kinds_are_known_by_their_bytes(kind: str) -> None:
    assert kind_of(base64.b64encode(drawn(kind)).decode()) == f"image/{kind.lower()}"


@examples(60)
@given(st.sampled_from(FORMATS), st.floats(0.0, 0.98))
def test_a_picture_that_is_cut_anywhere_is_not_whole(kind: str, share: float) -> None:
    """A whole one is, also with something behind its end, as telephones append films."""
    data, name = drawn(kind), f"image/{kind.lower()}"
    assert is_whole(data, name)
    assert is_whole(data + b"appended", name)
    assert not is_whole(data[: int(share * len(data))], name)


def test_every_way_to_write_a_picture_is_whole() -> None:
    """Progressive, with a thumbnail that has an end of its own, animated, with an alpha channel."""
    exif = Image.Exif()
    exif[0x010E] = "\xff\xd9 a thumbnail's end"
    assert is_whole(drawn("JPEG", progressive=True, exif=exif), "image/jpeg")
    noise = Image.effect_noise((40, 40), 90)
    frames = [ImageChops.offset(noise, step) for step in range(3)]
    for kind in ("GIF", "WEBP", "PNG"):
        out = io.BytesIO()
        frames[0].save(out, kind, save_all=True, append_images=frames[1:])
        assert is_whole(out.getvalue(), f"image/{kind.lower()}")


def test_pictures_of_the_tests_are_whole() -> None:
    for data in (png(3, 4), png(padding=10_000), JPEG):
        decoded = decode(data)
        assert decoded is not None
        assert is_whole(decoded, kind_of(data))


@examples(40)
@given(st.binary(max_size=300), st.sampled_from(FORMATS))
def test_no_bytes_fail(data: bytes, kind: str) -> None:
    is_whole(drawn(kind)[:20] + data, f"image/{kind.lower()}")
    is_whole(data, f"image/{kind.lower()}")


def test_base64_is_read_broken_into_lines_and_not_when_damaged() -> None:
    text = base64.encodebytes(b"abc" * 40).decode()
    assert decode(text) == b"abc" * 40
    assert decode("not base64!") is None
    assert decode("abc") is None
