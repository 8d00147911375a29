"""Long texts in passages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.memory.hits import passages

TEXTS = st.text("ab .!?\n。", max_size=400)


@given(TEXTS, st.integers(1, 60))
def test_passages_are_within_the_cap_and_together_the_text(text: str, cap: int) -> None:
    """Nothing but space is left out, and nothing is said twice."""
    found = passages(text, cap)

    assert all(0 < len(one) <= cap and one.strip() for one in found)
    assert "".join("".join(found).split()) == "".join(text.split())


def test_passages_end_where_sentences_do() -> None:
    """As many whole sentences as fit are together."""
    assert passages("One two. Three four. Five six.", 21) == ["One two. Three four. ", "Five six."]


def test_a_sentence_that_is_too_long_is_cut_behind_a_word() -> None:
    assert passages("aaaa bbbb cccc dddd", 12) == ["aaaa bbbb ", "cccc dddd"]


def test_a_name_with_dots_is_not_cut_at_them() -> None:
    assert passages("see core.text.cut now. And more of it.", 24)[0] == "see core.text.cut now. "
