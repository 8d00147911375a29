"""Append-only by law in other frameworks: their real loops, at a provider that enforces its rules.

`make peers` installs the frameworks; anywhere else these tests are skipped, and say so.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from tests.support import peers
from tests.support.runs import examples

import holdfast.integrations

if TYPE_CHECKING:
    from tests.lives.lives import Life

pytest.importorskip("httpx2")

from tests.lives.adapted import DRIVERS, Adapted
from tests.lives.lives import lives

pytestmark = [
    pytest.mark.files_only("it makes its own stores, and asks none for more than a log"),
    pytest.mark.filterwarnings("default"),  # of the frameworks, about themselves
]
CASES = [(name, dialect) for name, kind in DRIVERS.items() for dialect in kind.dialects]


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_API_KEY", "any")
    for name in ("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_ENTERPRISE"):
        monkeypatch.delenv(name, raising=False)


def test_every_adapter_that_bounds_requests_lives() -> None:
    """A package of the integrations that fits lists into a window has an agent here."""
    place = Path(holdfast.integrations.__file__).parent
    found = {
        path.relative_to(place).parts[0]
        for path in place.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and any(one.name == "ListBounds" for one in node.names)
    }
    assert found
    assert found == {kind.adapter for kind in DRIVERS.values()}


@pytest.mark.parametrize(("name", "dialect"), CASES)
def test_requests_only_grow_and_reasoning_goes_back(name: str, dialect: str) -> None:
    """Turns, tools, cuts, rewinds, forks, restarts, other models, failures: no law is broken."""
    peers.needs(DRIVERS[name].package)

    @examples(30)
    @given(life=lives(dialect))
    def check(life: Life) -> None:
        assert Adapted(life, name).run() == []

    check()


@pytest.mark.parametrize(("name", "dialect"), CASES)
def test_the_framework_alone_breaks_no_law(name: str, dialect: str) -> None:
    """In a window without end and without an adapter: the frameworks send everything back."""
    peers.needs(DRIVERS[name].package)

    @examples(30)
    @given(life=lives(dialect))
    def check(life: Life) -> None:
        assert Adapted(life, name, is_direct=True).run() == []

    check()
