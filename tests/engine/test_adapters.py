"""Which frameworks are here, and which releases the adapters were tested with."""

from __future__ import annotations

import importlib
import warnings
from pathlib import Path

import pytest

from holdfast import integrations
from holdfast.engine import adapters
from holdfast.errors import BadSetting, HoldfastWarning


def test_every_adapter_is_listed() -> None:
    folder = Path(integrations.__file__).parent
    found = {path.stem for path in folder.iterdir() if not path.stem.startswith("_")} - {"common"}
    assert {known.name for known in integrations.list()} == found
    for known in integrations.list():
        importlib.import_module(f"holdfast.integrations.{known.name}")  # without its framework


@pytest.mark.parametrize("end", ["lowest", "newest"])
def test_the_ends_of_each_range_are_what_is_tested(end: str) -> None:
    """`make peers-lowest` and `make peers` install exactly the releases that are stated."""
    name = "requirements-peers-lowest.txt" if end == "lowest" else "requirements-peers.txt"
    lines = (Path(__file__).parents[2] / name).read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)
    for known in integrations.list():
        if known.name != "opentelemetry":  # a dependency of ours: the lock has its release
            assert pinned[known.package] == getattr(known, end), known.package


def test_missing_framework_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters, "_release_of", lambda _package: None)
    monkeypatch.setattr(adapters, "_checked", set())
    with pytest.raises(BadSetting) as missing:
        adapters.require("openai_agents")
    assert "pip install 'openai-agents>=" in (missing.value.hint or "")


@pytest.mark.parametrize(
    ("installed", "is_tested", "is_older"),
    [
        ("0.24.0", True, False),
        ("0.24", True, False),
        ("0.23.1", True, False),
        ("0.24.1", False, False),
        ("0.0.1", False, True),
        ("99.0", False, False),
    ],
)
def test_an_older_release_warns_once_and_a_newer_one_never(
    installed: str, is_tested: bool, is_older: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A newer one is a line of `doctor`: where warnings are errors, it must not fail at import."""
    monkeypatch.setattr(adapters, "_release_of", lambda _package: installed)
    monkeypatch.setattr(adapters, "_checked", set())
    found = next(known for known in integrations.list() if known.name == "openai_agents")
    assert found.is_tested == is_tested
    if is_older:
        with pytest.warns(
            HoldfastWarning, match=f"{installed} is installed; .* tested with 0.23.1 to 0.24.0"
        ):
            adapters.require("openai_agents")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        adapters.require("openai_agents")
