from __future__ import annotations

import copy
import re

import pytest

from holdfast.core.text.lazy_pattern import lazy_pattern


def test_a_lazy_pattern_answers_like_the_compiled_one() -> None:
    lazy, compiled = lazy_pattern(r"(\w)(\d+)", re.ASCII), re.compile(r"(\w)(\d+)", re.ASCII)
    assert [match.groups() for match in lazy.finditer("a1 b22")] == compiled.findall("a1 b22")
    assert (lazy.pattern, lazy.flags, lazy.groups) == (
        compiled.pattern,
        compiled.flags,
        compiled.groups,
    )
    assert lazy.sub(r"\2\1", "a1") == "1a"


def test_a_lazy_pattern_is_compiled_once_and_only_when_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compiled: list[str] = []
    compile_pattern = re.compile

    def spy(pattern: str, flags: int) -> re.Pattern[str]:
        compiled.append(pattern)
        return compile_pattern(pattern, flags)

    monkeypatch.setattr(re, "compile", spy)
    lazy = lazy_pattern("a+")
    assert lazy.pattern == "a+"
    assert compiled == []
    assert lazy.search("baa")
    assert lazy.fullmatch("aa")
    assert compiled == ["a+"]


def test_a_lazy_pattern_can_be_copied_and_takes_bytes() -> None:
    assert copy.deepcopy(lazy_pattern(b"a+")).fullmatch(b"aa")


def test_a_bad_pattern_fails_where_it_is_used() -> None:
    lazy = lazy_pattern("(")
    with pytest.raises(re.error):
        lazy.search("")
