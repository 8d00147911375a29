"""Values of the sessions used last."""

from __future__ import annotations

from holdfast.integrations.common.home import RecentValues


def test_value_used_longest_ago_makes_room() -> None:
    kept: RecentValues[str, int] = RecentValues(2)
    kept.put("a", 1)
    kept.put("b", 2)
    assert kept.get("a") == 1
    kept.put("c", 3)
    assert [kept.get(name) for name in "abc"] == [1, None, 3]


def test_forgotten_values_are_gone() -> None:
    kept: RecentValues[str, int] = RecentValues(3)
    kept.put("a", 1)
    kept.put("b", 2)
    kept.forget("a")
    kept.forget("never there")
    assert (kept.get("a"), kept.get("b")) == (None, 2)
