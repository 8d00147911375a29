"""Patterns of names."""

from __future__ import annotations

import pytest

from holdfast.core.text.strings import is_like, name_pattern


@pytest.mark.parametrize(
    ("name", "patterns", "expected"),
    [
        ("refund", ("refund",), True),
        ("Refund", ("refund",), True),
        ("refund_all", ("refund",), False),
        ("refund_all", ("refund*",), True),
        ("refund", ("refun?",), True),
        ("refund", ("refund?",), False),
        ("a+b", ("a+b",), True),
        ("aab", ("a+b",), False),
        ("a\nb", ("a*",), True),
        ("pay", ("refund", "p*"), True),
        ("", ("*",), True),
        ("", ("",), True),
        ("x", ("",), False),
        ("x", (), False),
    ],
)
def test_stars_and_question_marks(name: str, patterns: tuple[str, ...], expected: bool) -> None:
    """Everything else stands for itself, in upper or lower case."""
    assert is_like(name, patterns) is expected


def test_no_pattern_is_none() -> None:
    assert name_pattern(()) is None
