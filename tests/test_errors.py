"""Errors say what to do next, also where only a traceback is seen."""

from __future__ import annotations

import inspect
import traceback
from typing import Any

import pytest

from holdfast import errors
from holdfast.errors import HoldfastError

ERRORS = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, HoldfastError)
]
VALUES = {
    "int": 57,
    "bool": True,
    "str": "x",
    "float": 1.5,
    "Any": None,
    "Sequence[str]": ("a",),
    "Mapping[str, int]": {},
}


def _make(kind: type[HoldfastError]) -> HoldfastError:
    given: dict[str, Any] = {}
    for name, parameter in inspect.signature(kind).parameters.items():
        given[name] = "do this next" if name == "hint" else VALUES[str(parameter.annotation)]
    return kind(**given)


@pytest.mark.parametrize("kind", ERRORS)
def test_the_hint_of_every_error_is_in_its_traceback_once(kind: type[HoldfastError]) -> None:
    error = _make(kind)
    assert error.hint
    assert "".join(traceback.format_exception(error)).count(f"hint: {error.hint}") == 1
    error.hint = "something better"
    error.add_note("a note of the caller")
    shown = "".join(traceback.format_exception(error))
    assert shown.count("hint: ") == 1
    assert "hint: something better" in shown
    error.hint = None
    assert error.__notes__ == ["a note of the caller"]
