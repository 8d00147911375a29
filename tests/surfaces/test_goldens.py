"""Every door offers what it offered before: a difference is meant, or a mistake."""

from __future__ import annotations

import difflib

import pytest
from tests.surfaces import goldens


@pytest.mark.parametrize("name", goldens.FILES)
def test_a_door_is_as_its_file_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands and their arguments, JSON shapes, routes, tools and slash commands."""
    for variable in ("HOLDFAST_ROOT", "HOLDFAST_AGENT", "HOLDFAST_MODEL"):
        monkeypatch.delenv(variable, raising=False)

    kept = (goldens.FOLDER / name).read_text().splitlines()
    now = goldens.FILES[name]().splitlines()

    difference = "\n".join(difflib.unified_diff(kept, now, "before", "now", lineterm="", n=1))
    assert not difference, (
        f"{name} differs; where that is meant: python -m tests.surfaces.goldens\n{difference}"
    )


def test_shapes_tell_types_and_what_some_lack() -> None:
    """A shape changes with a name, a type, or a field that some values lack."""
    assert goldens.shape({"a": 1, "b": [{"c": "x"}, {"c": None, "d": True}]}) == {
        "a": "number",
        "b": [{"c": {"one of": ["null", "text"]}, "d?": "yes or no"}],
    }
