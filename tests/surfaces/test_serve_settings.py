"""The settings of `holdfast serve`: every key is documented, and every mistake has its place."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.core.projection.policy import Policy
from holdfast.engine.simulation.policy_files import policy_from
from holdfast.errors import BadSetting
from holdfast.surfaces.serve_settings import ServeSettings, TelegramTable, load_settings, load_tools

PAGE = Path(__file__).parents[2] / "docs" / "gateway.md"


def _example() -> str:
    found = re.search(r"```toml\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert found is not None
    return found[1]


def _documented(text: str) -> dict[str, Any]:
    """The example with the keys that it has in comments."""
    return tomllib.loads(re.sub(r"^# (?=\w+ = )", "", text, flags=re.MULTILINE))


def _keys(kind: Any) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(kind)}


def test_the_example_of_the_docs_can_be_loaded(tmp_path: Path) -> None:
    """The settings on the page are taken as they are."""
    file = tmp_path / "holdfast.toml"
    file.write_text(_example(), "utf-8")
    settings = load_settings(str(file))
    settings.check()
    assert settings.tokens[0].owner == "alice"
    assert settings.agents["main"].window == 200_000


def test_every_key_is_documented() -> None:
    """The example has every key of every table."""
    given = _documented(_example())
    assert set(given) == _keys(ServeSettings)
    for table in ("server", "gateway"):
        kind = type(getattr(ServeSettings(), table))
        assert set(given[table]) == _keys(kind), table
    agent = next(f.type for f in msgspec.structs.fields(ServeSettings) if f.name == "agents")
    assert set(given["agents"]["main"]) == _keys(agent.__args__[1])
    assert set(given["telegram"]) == _keys(TelegramTable)
    token = next(f.type for f in msgspec.structs.fields(ServeSettings) if f.name == "tokens")
    assert set(given["tokens"][0]) == _keys(token.__args__[0])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[server]\nprot = 1", "prot"),
        ("[server]\nport = 'x'", "port"),
        ("[gateway]\nturns_max = 0", "turns_max"),
        ("[[tokens]]\nname = 'a'\nsha256 = 'x'", "SHA-256"),
        ("[agents.main]\npolicy = {x = 1}", "threshold `x`"),
        ("[agents.main]\npolicy = {compact = 'x'}", "compact"),
        ("[gateway]\nturn_max = 1", "turn_max"),
        ("[telegram]\ntoken = 'x'", "token"),
        ("[telegram]\nallow = ['bob']", "allow"),
        ("[telegram]\ndm_scope = 'x'", "dm_scope"),
        ("[server", "not TOML"),
        ("[agents.main]\nsteps = 'many'", "steps"),
    ],
)
def test_a_mistake_is_named(tmp_path: Path, text: str, words: str) -> None:
    """An unknown key or a wrong value is refused, with its place."""
    file = tmp_path / "holdfast.toml"
    file.write_text(text, "utf-8")
    with pytest.raises(BadSetting, match=words):
        load_settings(str(file)).check()


def test_other_addresses_need_tokens() -> None:
    """A server that others can reach knows who asks."""
    given = {"server": {"host": "0.0.0.0"}}
    with pytest.raises(BadSetting, match="without authentication"):
        msgspec.convert(given, ServeSettings).check()


def test_two_tokens_have_two_names() -> None:
    """A name in the audit log means one token."""
    token = {"name": "a", "sha256": "0" * 64}
    with pytest.raises(BadSetting, match="called `a`"):
        msgspec.convert({"tokens": [token, token]}, ServeSettings).check()


def test_tools_are_imported_by_name() -> None:
    """A function is found by its module; anything else is refused with its name."""
    (tool,) = load_tools(("textwrap:dedent",))
    assert tool("  a") == "a"
    for name in ("textwrap", "textwrap:nothing", "no_such_module:f", "textwrap:__all__"):
        with pytest.raises(BadSetting, match=name.partition(":")[0]):
            load_tools((name,))


def test_a_policy_has_the_thresholds_of_the_engine() -> None:
    """Thresholds are those of `Policy`, and are checked by it."""
    given = {"agents": {"main": {"policy": {"compact": 0.9}}}}
    settings = msgspec.convert(given, ServeSettings)
    settings.check()
    policy = policy_from(settings.agents["main"].policy)
    assert policy == msgspec.structs.replace(Policy(), compact=0.9)
