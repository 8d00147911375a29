"""What is not known of a meaning is what words let expect: no more than the best, no less than
nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.memory.search_terms import estimate

VALUES = st.dictionaries(st.integers(0, 9), st.floats(-1, 50))


@given(VALUES, VALUES)
def test_what_is_known_stays_and_the_rest_follows_words(
    known: dict[int, float], words: dict[int, float]
) -> None:
    """No estimate is better than the best that is known, and more words are never worth less."""
    found = estimate(known, words)
    rest = sorted((words[key], found[key]) for key in words if key not in known)

    assert found.keys() == known.keys() | words.keys()
    assert all(found[key] == value for key, value in known.items())
    most = max([0.0, *known.values()])
    assert all(0 <= value <= most * 1.000001 for _words, value in rest)
    assert [value for _words, value in rest] == sorted(value for _words, value in rest)


def test_an_estimate_has_the_ratio_of_what_is_known() -> None:
    """Where meaning follows words, what is not known follows them too."""
    known = {1: 0.4, 2: 0.2, 3: 0.1}
    words = {1: 8.0, 2: 4.0, 3: 2.0, 4: 6.0}

    assert abs(estimate(known, words)[4] - 0.3) < 1e-9
