"""A dialect is one package and one entry: its name is chosen by nowhere else."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest
from tests.test_architecture import PACKAGE

from holdfast.core.dialects.registry import DIALECTS, ENTRIES, all_dialects, find_dialect
from holdfast.errors import BadSetting
from holdfast.importers.apis.item_readers import ITEM_READERS
from holdfast.testing.loopback.exchange import _PATHS, _WIRES
from holdfast.testing.loopback.reading import _READERS

if TYPE_CHECKING:
    from collections.abc import Iterator

AMBIGUOUS = frozenset({"anthropic", "gemini"})
"""Names that servers, providers and file formats have too."""


def choices(source: str) -> Iterator[str]:
    """Comparisons with the name of a dialect, and `match` cases of one, each as it is written."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Compare(left=left, comparators=others):
                asked = ast.unparse(node)
                values = [inner for one in (left, *others) for inner in ast.walk(one)]
            case ast.Match(subject=subject, cases=cases):
                asked = f"match {ast.unparse(subject)}"
                values = [inner for case in cases for inner in ast.walk(case.pattern)]
            case _:
                continue
        names = {value.value for value in values if isinstance(value, ast.Constant)}
        if names & (set(DIALECTS) - AMBIGUOUS) or (names & AMBIGUOUS and "dialect" in asked):
            yield asked


def test_nothing_else_chooses_by_the_name_of_a_dialect() -> None:
    """A choice by dialect is a method of the value, or an attribute."""
    found = [
        f"{path.relative_to(PACKAGE)}: {asked}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if not path.is_relative_to(PACKAGE / "core" / "dialects")
        for asked in choices(path.read_text())
    ]
    assert found == []


@pytest.mark.parametrize(
    "source",
    [
        "x.dialect == 'gemini'",
        "name in ('anthropic', 'openai-responses')",
        "match dialect:\n    case 'anthropic': pass",
        "match name:\n    case 'openai-chat' | None: pass",
        "'openai-chat' != name",
    ],
)
def test_a_choice_by_name_is_seen(source: str) -> None:
    assert list(choices(source))


def test_the_names_of_servers_and_providers_are_another_idea() -> None:
    assert list(choices("upstream == 'gemini'\nrecord.provider == 'anthropic'")) == []


def test_every_dialect_has_what_the_others_have() -> None:
    """The value has the name of its entry, and each part of it is of its own class."""
    for entry, dialect in zip(ENTRIES, all_dialects(), strict=True):
        assert dialect.name == entry.own.name
        assert dialect.reasoning is entry.own.reasoning
        assert {known.name for known in entry.variants} == {dialect.name}
        assert [known.is_host for known in entry.variants] == [
            place > 0 for place in range(len(entry.variants))
        ]
    for part in ("body", "items", "rounds", "stream", "render", "read", "validate", "agent"):
        assert len({getattr(dialect, part) for dialect in all_dialects()}) == len(ENTRIES), part
    assert set(ITEM_READERS) == set(DIALECTS)


def test_the_loopback_provider_speaks_every_dialect() -> None:
    """So that every user can test an agent, whatever it speaks."""
    assert set(_WIRES) == set(_READERS) == set(DIALECTS)
    assert {dialect for dialect, _counts in _PATHS.values()} == set(DIALECTS)


def test_an_unknown_dialect_is_refused_with_a_guess() -> None:
    with pytest.raises(BadSetting, match="no dialect") as caught:
        find_dialect("anthropc")
    assert "anthropic" in str(caught.value.hint)
