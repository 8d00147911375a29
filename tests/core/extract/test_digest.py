"""Digests of single records."""

from __future__ import annotations

from holdfast.core.extract.digest import arguments_text


def test_arguments_are_read_without_their_escapes() -> None:
    """A line break in an argument must not become a letter of the next name."""
    value = {"a": "one\ntwo_three", "b": [1, True, None, {"c": "four_five"}]}
    assert arguments_text(value) == "one\ntwo_three\n1\nfour_five"
