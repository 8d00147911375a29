"""`holdfast models`: what is believed about a model, with the origin of each belief."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.cli import run_in_process

from holdfast.providers.known_models.lookup import catalog

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_ROOT", str(tmp_path / "root"))


def test_a_known_model_has_a_window_a_price_and_their_origin(
    capfd: pytest.CaptureFixture[str],
) -> None:
    done = run_in_process(["models", "claude-opus-4-5"], capfd)
    assert done.status == 0, done.err
    assert "200,000 tokens, known" in done.out
    assert "$5 in, 25 out, 0.5 cached, 6.25 to cache, 10 for an hour" in done.out
    assert catalog().as_of in done.out
    assert "https://" in done.out


def test_tiers_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    done = run_in_process(["models", "gemini-3-pro-preview"], capfd)
    assert "for all of a prompt above 200,000" in done.out
    assert "(deprecated)" in done.out


def test_an_unknown_model_is_said_to_be_unknown(capfd: pytest.CaptureFixture[str]) -> None:
    """Nothing is guessed: the window is assumed and says so, the price is unknown."""
    done = run_in_process(["models", "my-own-model"], capfd)
    assert done.status == 0
    assert "128,000 tokens, assumed" in done.out
    assert "price    unknown" in done.out
    found = run_in_process(["models", "my-own-model", "--json"], capfd).json
    assert (found["believed"]["price"], found["models"]) == (None, [])


def test_without_a_name_the_catalog_is_named(capfd: pytest.CaptureFixture[str]) -> None:
    done = run_in_process(["models"], capfd)
    assert (done.status, done.out) == (0, "")
    assert catalog().version in done.err
    rows = run_in_process(["models", "--all", "--json"], capfd).json["models"]
    assert len(rows) == len(catalog().rows)
