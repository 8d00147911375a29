"""A PDF says how many pages it has, and whether a password guards it."""

from __future__ import annotations

import base64
import io
import zlib

from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.prompts import pdf
from tests.support.runs import examples

from holdfast.core.media import PdfFacts, read_pdf


def bytes_of(pages: int, extra: bytes = b"") -> bytes:
    return base64.b64decode(pdf(pages, extra))


def packed(objects: bytes, pages_first: bytes = b"") -> bytes:
    """A PDF of version 1.5: its objects are deflated in a stream."""
    inside = zlib.compress(objects)
    head = b"4 0 obj << /Type /ObjStm /N 1 /First 0 /Filter /FlateDecode /Length %d >> stream\n"
    body = head % len(inside) + inside + b"\nendstream endobj\n"
    return b"%PDF-1.5\n" + pages_first + body + b"startxref\n9\n%%EOF"


@examples(30)
@given(st.integers(1, 5_000))
def test_pages_are_read(pages: int) -> None:
    assert read_pdf(bytes_of(pages)) == PdfFacts(pages)
    tree = b"<< /Kids [ 1 0 R ] /Count %d /Resources << /Font << >> >> /Type /Pages >>" % pages
    assert read_pdf(packed(tree)) == PdfFacts(pages)


def test_inner_nodes_of_the_tree_do_not_count_and_an_update_does() -> None:
    """The root is the node without a parent; the newest root is the one that holds."""
    inner = b"5 0 obj << /Type /Pages /Parent 1 0 R /Count 7 >> endobj "
    assert read_pdf(packed(b"<< /Type/Pages/Count 9 >>" + inner)) == PdfFacts(9)
    updated = bytes_of(140) + b"\n1 0 obj << /Type /Pages /Count 3 >> endobj startxref 9 %%EOF"
    assert read_pdf(updated) == PdfFacts(3)


def test_what_looks_like_a_tree_in_a_text_or_a_picture_is_none() -> None:
    text = b"2 0 obj << /Title (about /Type /Pages >> << /Count 900) >> endobj "
    stream = b"3 0 obj << /Length 40 >> stream\n<< /Type /Pages /Count 800 >>\nendstream endobj "
    whole = bytes_of(2).replace(b"trailer", text + stream + b"trailer")
    assert read_pdf(whole) == PdfFacts(2)


def test_passwords_and_missing_ends_are_seen() -> None:
    found = read_pdf(bytes_of(2, b"/Encrypt 5 0 R"))
    assert found is not None
    assert found.is_encrypted
    cut = read_pdf(bytes_of(2)[:70])
    assert cut is not None
    assert not cut.is_whole


def test_pages_that_another_program_wrote() -> None:
    picture, out = Image.new("RGB", (30, 30)), io.BytesIO()
    picture.save(out, "PDF", save_all=True, append_images=[picture] * 11)
    assert read_pdf(out.getvalue()) == PdfFacts(12)


def test_what_is_no_pdf_is_none() -> None:
    assert read_pdf(b"<html><body>404</body></html>") is None
    assert read_pdf(b"") is None


@examples(60)
@given(
    st.lists(
        st.sampled_from(
            (
                b"<<",
                b">>",
                b"(",
                b")",
                b"\\",
                b"stream\n",
                b"endstream",
                b"/Type /Pages",
                b"/Count 5",
                b"/Count ",
                b" ",
                b"/Type/ObjStm",
                b"endobj",
                b"x",
            )
        ),
        max_size=60,
    )
)
def test_no_bytes_fail(pieces: list[bytes]) -> None:
    read_pdf(b"%PDF-" + b"".join(pieces))


def test_objects_that_inflate_without_end_are_read_to_a_bound() -> None:
    """A bomb of a gigabyte is a few kilobytes of file; only some megabytes of it are looked at."""
    found = read_pdf(packed(bytes(200_000_000), b"1 0 obj << /Type /Pages /Count 4 >> endobj "))
    assert found == PdfFacts(4)
