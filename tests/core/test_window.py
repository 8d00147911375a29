"""A window as one type: from what a caller states, and every window at once."""

from __future__ import annotations

import pytest

from holdfast.core.log.replay import binds
from holdfast.core.window import ANY_WINDOW, Window, as_window, window_argument
from holdfast.errors import BadSetting


def test_a_number_of_tokens_is_a_stated_window() -> None:
    assert as_window(32_000, "--window") == Window(32_000, "--window", "stated")
    known = Window(200_000, "known for `m`", "known")
    assert as_window(known, "--window") is known
    assert window_argument(32_000) == Window(32_000)
    assert window_argument(None) is None


@pytest.mark.parametrize("tokens", [0, -1])
def test_a_window_without_room_is_refused(tokens: int) -> None:
    """Zero is no way to say that nothing was stated."""
    with pytest.raises(BadSetting, match="is not possible"):
        window_argument(tokens)


def test_every_window_is_bound_by_what_was_made_for_any() -> None:
    assert all(binds(made_for, ANY_WINDOW) for made_for in (None, 1, 10**9))
    assert [binds(100, Window(tokens)) for tokens in (99, 100, 101)] == [True, True, False]
