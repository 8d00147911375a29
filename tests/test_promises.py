"""Every promise of the docs has a test, and a change of the source that this test notices."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripts import promises

ROOT = Path(__file__).parent.parent
_PROMISED = re.compile(r"^- \*\*(?P<title>.+?)\*\*", re.MULTILINE)


def _titles_in_docs() -> list[str]:
    page = (ROOT / "docs" / "guarantees.md").read_text("utf-8")
    return [found["title"].rstrip(".") for found in _PROMISED.finditer(page)]


@pytest.fixture(scope="module")
def kept() -> list[promises.Promise]:
    return promises.read(promises.PAGE.read_text("utf-8"))


def test_every_promise_is_on_the_page(kept: list[promises.Promise]) -> None:
    """The page has the promises of guarantees.md, in their order, and no others."""
    titles = _titles_in_docs()
    assert len(titles) > 15
    assert [promise.title for promise in kept] == titles


def test_every_mutation_still_applies(kept: list[promises.Promise]) -> None:
    """Each mutation finds its lines once, and changes them."""
    for promise in kept:
        text = (ROOT / "src" / "holdfast" / promise.file).read_text("utf-8")
        assert promise.mutate(text) != text, promise.title


def test_every_named_test_exists(kept: list[promises.Promise]) -> None:
    """Each test is a function of the file that it is named with."""
    for promise in kept:
        file, _, name = promise.test.partition("::")
        function = name.partition("[")[0]
        assert re.search(rf"^ *(?:async )?def {function}\(", (ROOT / file).read_text(), re.M), name


@pytest.mark.nightly
def test_every_mutation_is_noticed() -> None:
    """Each named test fails once its promise is broken, and passes before."""
    assert promises.main([]) == 0


def test_a_promise_without_a_test_is_refused() -> None:
    with pytest.raises(LookupError, match="names no test"):
        promises.read("# Promises\n\n## Always there\n\nNothing else.\n")
