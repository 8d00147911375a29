"""What is wrong in a log, as values that can be shown."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.limits import DAMAGE_PREVIEW_BYTES
from holdfast.core.log.damage import MEANING, NOTES, Finding, FlawKind, Kind, preview


def _all_kinds() -> list[Kind]:
    flaws, others = get_args(Kind)
    return [*get_args(flaws), *get_args(others)]


def test_findings_have_a_meaning_for_every_kind() -> None:
    """Each kind is explained once, and nothing is explained that cannot be found."""
    assert sorted(MEANING) == sorted(_all_kinds())
    assert set(MEANING) >= NOTES


@pytest.mark.parametrize("kind", _all_kinds())
def test_finding_knows_whether_it_is_damage(kind: Kind) -> None:
    """A finding loses something unless it is one of the notes; every flaw but a torn line does."""
    finding = Finding(kind, 0, 1, "detail")
    assert finding.is_damage is (kind not in NOTES)
    assert finding.is_damage or kind == "torn" or kind not in get_args(FlawKind)
    assert finding.meaning == MEANING[kind]


@given(st.binary(max_size=300))
def test_preview_can_be_printed_anywhere(data: bytes) -> None:
    """No control character, newline or invalid text gets out, whatever the bytes."""
    shown = preview(data)
    assert shown.isprintable()
    shown.encode()
    assert shown.endswith("…") or len(data) <= DAMAGE_PREVIEW_BYTES or not shown


@pytest.mark.parametrize(
    ("data", "shown"),
    [
        (b"", ""),
        (b'{"type":"us', '{"type":"us'),
        ("漢字".encode(), "漢字"),
        (b"a\x00\n\x1b[31m", "a\\x00\\x0a\\x1b[31m"),
        (b"\xff\xfe", "\\xff\\xfe"),
        (b"x" * DAMAGE_PREVIEW_BYTES, "x" * DAMAGE_PREVIEW_BYTES),
        (b"x" * (DAMAGE_PREVIEW_BYTES + 1), "x" * DAMAGE_PREVIEW_BYTES + "…"),
    ],
)
def test_preview_shows_the_first_bytes(data: bytes, shown: str) -> None:
    """Readable text as it is, the rest as escapes, an ellipsis where it goes on."""
    assert preview(data) == shown
