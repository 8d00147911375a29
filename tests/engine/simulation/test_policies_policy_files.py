"""Policies as people write them: a name, thresholds, or both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from holdfast.core.projection.policy import POLICIES, Policy
from holdfast.engine.session.options import SessionOptions, read_options
from holdfast.engine.simulation.policies import policy_from, read_policy
from holdfast.errors import BadSetting, UsageError

if TYPE_CHECKING:
    from pathlib import Path

THRIFTY = POLICIES["thrifty"]


def test_a_table_names_its_base() -> None:
    assert policy_from("thrifty") == policy_from({"name": "thrifty"}) == THRIFTY
    assert policy_from({}) == Policy()
    given = {"name": "thrifty", "compact": 0.7}
    assert policy_from(given) == msgspec.structs.replace(THRIFTY, compact=0.7)
    assert policy_from({"keep": 0.1}, THRIFTY) == msgspec.structs.replace(THRIFTY, keep=0.1)


@pytest.mark.parametrize("wrong", ["lavish", {"name": "lavish"}, {"low_water": 0.2}, {"keep": "x"}])
def test_what_no_policy_has_is_refused(wrong: Any) -> None:
    with pytest.raises(BadSetting):
        policy_from(wrong)


def test_a_file_comes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert read_policy("thrifty") == THRIFTY
    (tmp_path / "thrifty").write_text('name = "faithful"\n')
    assert read_policy("thrifty") == POLICIES["faithful"]
    with pytest.raises(UsageError, match="lavish"):
        read_policy("lavish")


def test_a_session_takes_a_name() -> None:
    assert read_options({"policy": "thrifty"}).policy == "thrifty"
    assert SessionOptions(policy=THRIFTY).policy == THRIFTY
    with pytest.raises(BadSetting, match="lavish"):
        read_options({"policy": "lavish"})  # type: ignore[typeddict-item]
