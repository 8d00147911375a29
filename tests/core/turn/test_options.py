"""The options of a run, and their limits."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.core.turn.options import Limits, RunOptions, Summary
from holdfast.errors import BadSetting


@pytest.mark.parametrize("name", sorted({*Limits.__struct_fields__} - {"marks", "approvals"}))
def test_limits_have_a_least_value_and_a_type(name: str) -> None:
    """No turn without a step, no summary without a call; the others may be switched off."""
    has_one = name in ("steps", "summary_calls", "summary_tokens", "output_tokens")
    least = 1 if has_one else 0
    given: Any = {name: least}
    assert getattr(Limits(**given), name) == least
    wrong: list[Any] = [least - 1, True, "5", [5], float("nan")]
    for value in wrong:
        with pytest.raises(BadSetting, match=f"`{name}` cannot be"):
            Limits(**{name: value})


def test_a_summary_is_a_word_or_says_more() -> None:
    """The short spelling and the long one mean the same."""
    assert RunOptions(summary="extract").summarising == Summary(writer="extract")
    long = Summary(model="offline", ahead=True)
    assert RunOptions(summary=long).summarising is long
    wrong: list[Any] = ["patterns", None, 5, {"model": "offline"}, ["model"]]
    for value in wrong:
        with pytest.raises(BadSetting, match="`summary` cannot be"):
            RunOptions(summary=value)
    with pytest.raises(BadSetting, match="`limits` cannot be"):
        RunOptions(limits={"steps": 5})  # type: ignore[arg-type]
