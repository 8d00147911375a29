"""Errors say what to do next, also where only a traceback is seen."""

from __future__ import annotations

import difflib
import inspect
import pickle
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from holdfast import errors
from holdfast.core.log.ids import SessionKey
from holdfast.errors import HoldfastError, NoSuchSession
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from pathlib import Path

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
    "Known": ("a",),
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


@pytest.mark.parametrize("kind", ERRORS)
def test_every_error_goes_to_another_process(kind: type[HoldfastError]) -> None:
    error = _make(kind)
    state = error.__reduce__()[2]
    assert pickle.loads(pickle.dumps(state))["_hint"] == error.hint


@pytest.mark.parametrize("open_store", [MemoryStore, JsonlStore])
def test_a_look_for_a_session_compares_no_names(
    open_store: type[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs look whether a session is there before they make it. To find similar names took a
    quarter of a second among a few hundred sessions, for a hint that nobody saw."""
    compared: list[str] = []
    real = difflib.get_close_matches

    def compare(name: str, *more: Any, **options: Any) -> Any:
        compared.append(name)
        return real(name, *more, **options)

    monkeypatch.setattr(difflib, "get_close_matches", compare)
    store = open_store(str(tmp_path)) if open_store is JsonlStore else open_store()
    with store:
        store.create(SessionKey("main", "winter-delivery"))
        with pytest.raises(NoSuchSession) as caught:
            store.head(SessionKey("main", "winter-delivry"))
        assert str(caught.value) == "no session `main/winter-delivry`"
        assert compared == []
        assert caught.value.hint == "did you mean `winter-delivery`?"
        assert caught.value.hint == "did you mean `winter-delivery`?"
        assert len(compared) == 1


def test_a_hint_that_cannot_be_made_is_the_plain_one() -> None:
    def known() -> list[str]:
        raise OSError("the folder is gone")

    error = NoSuchSession("a", known)
    assert "list them" in "".join(traceback.format_exception(error))
