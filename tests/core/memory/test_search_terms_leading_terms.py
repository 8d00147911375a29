"""The terms that set leading sources apart: said often there, and seldom elsewhere."""

from __future__ import annotations

from holdfast.core.memory.ranking import often_said, telling


def test_telling_terms_are_said_often_there_and_seldom_elsewhere() -> None:
    spoken = often_said([*2 * ["the", "kiln", "a", "glaze"], *3 * ["good"], "once"])
    worth = telling([(1.0, spoken)], {"kiln": 2, "glaze": 90, "good": 99}, 100)

    assert spoken == {"good": 3, "kiln": 2, "glaze": 2}
    assert next(iter(worth)) == "kiln"
    assert worth == telling([(1.0, spoken)], {"good": 99, "glaze": 90, "kiln": 2}, 100)


def test_only_so_many_terms_are_asked_for_once_more() -> None:
    spoken = often_said(f"word{n}" for n in range(500) for _again in range(3))

    assert len(telling([(0.5, spoken), (0.5, spoken)], {}, 10)) == 20
    assert telling([], {}, 0) == {}
