"""Pictures: their size from their first bytes, and their cost by each provider's rule."""

from __future__ import annotations

import base64
import json
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.models.messages import Image
from holdfast.core.tokens.images import (
    HEAD_CHARS_MAX,
    AreaRule,
    CropRule,
    FlatRule,
    ImageRule,
    PatchRule,
    Size,
    TileRule,
    data_uris,
    image_rule,
    image_size,
    image_tokens,
    is_image,
    payload_bytes,
    size_tokens,
    sniff_size,
)

RULES: tuple[ImageRule, ...] = (AreaRule(), TileRule(), PatchRule(), CropRule(), FlatRule(258))


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR" + struct.pack(">II", width, height) + bytes(50)


def gif(width: int, height: int) -> bytes:
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(50)


def webp_extended(width: int, height: int) -> bytes:
    size = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    return b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00" + size + bytes(20)


def webp_lossless(width: int, height: int) -> bytes:
    bits = (width - 1) | (height - 1) << 14
    return b"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00\x2f" + struct.pack("<I", bits) + bytes(20)


def webp_lossy(width: int, height: int) -> bytes:
    start = b"RIFF\x00\x00\x00\x00WEBPVP8 \x00\x00\x00\x00\x00\x00\x00\x9d\x01\x2a"
    return start + struct.pack("<HH", width, height) + bytes(20)


TABLES = b"\xff\xdb\x00\x04\x00\x00" + b"\xff\xff\xc4\x00\x02"


def jpeg(
    width: int, height: int, metadata: int = 0, frame: int = 0xC0, tables: bytes = TABLES
) -> bytes:
    """A JPEG's segments: metadata of any size, tables, then the frame."""
    data = b"\xff\xd8\xff\xe0\x00\x10JFIF" + bytes(10)
    while metadata > 0:
        length = min(metadata, 65_000)
        data += b"\xff\xe1" + struct.pack(">H", length + 2) + bytes(length)
        metadata -= length
    data += tables + bytes((0xFF, frame)) + b"\x00\x11\x08" + struct.pack(">HH", height, width)
    return data + bytes(100)


FORMATS = (png, gif, webp_extended, webp_lossless, webp_lossy, jpeg)


@pytest.mark.parametrize("make", FORMATS)
@given(width=st.integers(1, 16_383), height=st.integers(1, 16_383))
def test_size_is_read_from_every_format(make: object, width: int, height: int) -> None:
    """Width and height, whatever they are, and not the wrong way round."""
    assert callable(make)
    data = encoded(make(width, height))
    assert sniff_size(data) == Size(width, height)
    assert is_image(data)


@pytest.mark.parametrize("metadata", [0, 3_000, 60_000, 200_000])
def test_jpeg_size_is_found_behind_metadata(metadata: int) -> None:
    """A camera writes a thumbnail and more before the frame."""
    assert sniff_size(encoded(jpeg(4_032, 3_024, metadata))) == Size(4_032, 3_024)


def test_progressive_jpeg_is_read() -> None:
    """Other kinds of frames hold the size too."""
    assert sniff_size(encoded(jpeg(640, 480, frame=0xC2))) == Size(640, 480)


@pytest.mark.parametrize("marker", [0x01, *range(0xD0, 0xD9)])
def test_jpeg_markers_without_a_length_are_stepped_over(marker: int) -> None:
    """Wherever they stand before the frame."""
    data = jpeg(640, 480, metadata=3_000)
    for place in (2, 20):
        bare = data[:place] + bytes((0xFF, marker)) + data[place:]
        assert sniff_size(encoded(bare)) == Size(640, 480)


@pytest.mark.parametrize(
    ("picture", "needed"),
    [
        (png(640, 480), 24),
        (gif(640, 480), 10),
        (webp_extended(640, 480), 30),
        (webp_lossless(640, 480), 25),
        (webp_lossy(640, 480), 30),
        *(
            (whole, len(whole) - 100)
            for metadata in (0, 1, 2, 7_000, 7_001, 7_002)
            for whole in (jpeg(640, 480, metadata), jpeg(640, 480, metadata, tables=b""))
        ),
    ],
)
def test_a_picture_of_which_only_the_beginning_is_there_has_a_size(
    picture: bytes, needed: int
) -> None:
    """As soon as the bytes of the size are there: base64 is read three bytes at a time."""
    for length in range(max(0, needed - 20), needed + 20):
        size = Size(640, 480) if length // 3 * 3 >= needed else None
        assert sniff_size(encoded(picture[:length])) == size


def test_jpeg_scan_is_bounded() -> None:
    """With more metadata than anybody reads, the size is unknown, and nothing hangs."""
    assert sniff_size(encoded(jpeg(640, 480, HEAD_CHARS_MAX))) is None


@given(st.sampled_from(FORMATS), st.integers(0, 60))
def test_cut_off_pictures_have_no_size_or_the_right_one(make: object, length: int) -> None:
    """Half a header is not half a size."""
    assert callable(make)
    assert sniff_size(encoded(make(640, 480)[:length])) in (None, Size(640, 480))


@given(st.text(max_size=300) | st.binary(max_size=300).map(encoded))
def test_anything_may_stand_where_a_picture_should(data: str) -> None:
    """No text makes the sniffer raise, and a cost comes out under every rule."""
    assert payload_bytes(data) >= 0
    is_image(data)
    for rule in RULES:
        assert image_tokens(Image(data=data), rule) > 0


@pytest.mark.parametrize(
    ("jpeg_tail"),
    [b"", b"\x00\x00", b"\xff\xe1\x00\x00", b"\xff\xe1\xff\xff", b"\xff\xff\xff\xff" * 20],
)
def test_broken_jpeg_has_no_size(jpeg_tail: bytes) -> None:
    """A segment of no length, or one that leads outside, ends the search."""
    assert sniff_size(encoded(b"\xff\xd8\xff\xe0\x00\x02" + jpeg_tail)) is None


def test_url_safe_and_wrapped_base64_is_read() -> None:
    """Both alphabets, with line breaks."""
    data = encoded(png(300, 200))
    assert sniff_size(data.replace("+", "-").replace("/", "_")) == Size(300, 200)
    assert sniff_size("\n".join(data[at : at + 20] for at in range(0, len(data), 20))) == Size(
        300, 200
    )


def test_size_zero_is_unknown() -> None:
    """A picture without pixels is a header that lies."""
    assert sniff_size(encoded(png(0, 100))) is None


def test_picture_behind_an_address_has_no_known_size() -> None:
    """It costs the most that the rule can ask."""
    image = Image(url="https://example.com/a.png")
    assert image_size(image) is None
    assert image_tokens(image, AreaRule()) == 1_600


@given(size=st.builds(Size, st.integers(1, 20_000), st.integers(1, 20_000)))
@pytest.mark.parametrize("rule", RULES)
def test_unknown_size_costs_the_upper_bound(rule: ImageRule, size: Size) -> None:
    """No picture is dearer than one of which nothing is known, and none is free."""
    assert 0 < size_tokens(size, rule) <= size_tokens(None, rule)


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [
        # The examples of the providers' own pages.
        ("claude-3-5-sonnet-latest", Size(200, 200), 54),
        ("claude-3-5-sonnet-latest", Size(1_000, 1_000), 1_334),
        ("claude-sonnet-4-5", Size(1_092, 1_092), 1_590),
        ("claude-sonnet-4-5", Size(8_000, 8_000), 1_600),
        ("claude-opus-4-7", Size(1_920, 1_080), 2_765),
        ("gpt-4o", Size(1_024, 1_024), 765),
        ("gpt-4o", Size(2_048, 4_096), 1_105),
        ("gpt-4o", Size(512, 512), 255),
        ("gpt-4o-mini", Size(512, 512), 8_500),
        ("gpt-5", Size(1_024, 1_024), 630),
        ("gpt-4.1-mini", Size(1_024, 1_024), 1_659),
        ("o4-mini", Size(1_024, 1_024), 1_762),
        ("gemini-2.5-flash", Size(300, 384), 258),
        ("gemini-2.5-flash", Size(960, 540), 1_548),
        ("gemini-3-pro", Size(960, 540), 1_120),
        ("some-local-model", Size(750, 100), 100),
    ],
)
def test_rules_give_the_documented_costs(model: str, size: Size, tokens: int) -> None:
    """Each provider's rule, through the model's name."""
    assert size_tokens(size, image_rule(model)) == tokens


@pytest.mark.parametrize(
    ("rule", "size", "tokens"),
    [
        (AreaRule(), Size(1, 1), 1),
        (AreaRule(), Size(750, 1), 1),
        (AreaRule(), Size(751, 1), 2),
        (AreaRule(), Size(1_568, 750), 1_568),
        (AreaRule(), Size(3_136, 1_500), 1_568),
        (TileRule(), Size(512, 512), 255),
        (TileRule(), Size(513, 512), 425),
        (TileRule(), Size(4_096, 512), 85 + 4 * 170),
        (TileRule(), Size(1_536, 1_536), 85 + 4 * 170),
        (PatchRule(), Size(1, 1), 1),
        (PatchRule(), Size(32, 32), 1),
        (PatchRule(), Size(33, 32), 2),
        (PatchRule(), Size(1_536, 1_024), 1_536),
        (PatchRule(), Size(1_537, 1_024), 1_536),
        (PatchRule(factor=2.46), Size(32, 32), 3),
        (CropRule(), Size(384, 384), 258),
        (CropRule(), Size(385, 384), 4 * 258),
        (CropRule(), Size(1_024, 100), 4 * 258),
        (CropRule(), Size(3_000, 1_152), 8 * 258),
        (CropRule(), Size(5_000, 5_000), 16 * 258),
    ],
)
def test_rules_step_at_their_bounds(rule: ImageRule, size: Size, tokens: int) -> None:
    """One pixel more is one tile, patch or crop more; a picture on its side costs the same."""
    assert size_tokens(size, rule) == tokens
    assert size_tokens(Size(size.height, size.width), rule) == tokens


def test_provider_decides_when_the_model_says_nothing() -> None:
    """A deployment's own name is no model's name."""
    assert image_rule("my-deployment", "openai") == TileRule()
    assert isinstance(image_rule("my-deployment", "google"), CropRule)
    assert image_rule("", "") == AreaRule()


@given(st.binary(max_size=200))
def test_payload_bytes_are_the_decoded_bytes(data: bytes) -> None:
    """With and without padding."""
    assert payload_bytes(encoded(data)) == len(data)
    assert payload_bytes(encoded(data).rstrip("=")) == len(data)


def test_data_uris_are_found_in_order() -> None:
    """Where they stand, what they hold; nothing else is taken for one."""
    text = "a data:image/png;base64,QUJD b data:;base64,QQ== c data:text/plain,QUJD data:x;base64 d"
    found = list(data_uris(text))
    assert [text[one.start : one.end] for one in found] == [
        "data:image/png;base64,QUJD",
        "data:;base64,QQ==",
    ]
    assert [(one.media_type, one.data) for one in found] == [("image/png", "QUJD"), ("", "QQ==")]
    assert [one.is_image for one in found] == [False, False], "by its bytes, not by its name"


def test_data_uri_with_parameters_is_found() -> None:
    """Media types may carry parameters."""
    (found,) = data_uris("data:image/svg+xml;charset=utf-8;base64,PHN2Zz4=")
    assert (found.media_type, found.data) == ("image/svg+xml", "PHN2Zz4=")


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_data_uri_in_json_in_json_is_found(depth: int) -> None:
    """Each layer of JSON may escape the slashes of the one inside."""
    picture = "data:image/png;base64," + encoded(png(640, 480) + bytes(range(256)) * 8)
    text = picture
    for _ in range(depth):
        text = json.dumps(text).replace("/", "\\/")
    (found,) = data_uris(text)
    assert found.media_type == "image/png"
    assert sniff_size(found.data) == Size(640, 480)
    assert found.end - found.start > len(picture) - 4


def test_data_uri_in_lines_is_found_whole() -> None:
    """`base64.encodebytes` breaks lines after 76 characters; at most the last is left as text."""
    data = base64.encodebytes(png(640, 480) + bytes(2_000)).decode()
    text = f"data:image/png;base64,{data}\nThe next line is prose."
    (found,) = data_uris(text)
    assert sniff_size(found.data) == Size(640, 480)
    left = text[found.end :]
    assert left.endswith("\nThe next line is prose.")
    assert len(left) < 76 + len("\nThe next line is prose.") + 2
