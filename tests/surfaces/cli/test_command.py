"""Arguments as people write them."""

from __future__ import annotations

import argparse
import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.surfaces.cli.command import whole_number


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("64000", 64_000),
        ("64k", 64_000),
        ("1M", 1_000_000),
        ("1.5k", 1_500),
        ("200_000", 200_000),
        ("200,000", 200_000),
        (" 8k ", 8_000),
        ("-1", -1),
        ("0", 0),
    ],
)
def test_sizes_are_read(text: str, number: int) -> None:
    assert whole_number(text) == number


@pytest.mark.parametrize("text", ["", "k", "64x", "1.5", "1.0001k", "nan", "infm", "1e3", "٣k³"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError, match="64k or 1m"):
        whole_number(text)


@given(st.text(max_size=12))
def test_any_text_is_a_number_or_refused(text: str) -> None:
    with contextlib.suppress(argparse.ArgumentTypeError):
        assert isinstance(whole_number(text), int)
