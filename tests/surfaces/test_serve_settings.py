"""The settings of `holdfast serve`: every key is documented, and every mistake has its place."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast.config import file_overrides
from holdfast.core.projection.policy import Policy
from holdfast.engine.simulation.policies import policy_from
from holdfast.errors import BadSetting
from holdfast.surfaces.serve_settings import (
    AgentSettings,
    ServeSettings,
    TelegramTable,
    load_settings,
    load_tools,
)

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
        ("[agents.main]\nlimits = { steps = 'many' }", "steps"),
        ("[agents.main]\nsteps = 5", "limits.steps"),
        ("[agents.main]\nsummary_model = 'offline'", "summary.model"),
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


def _places(
    table: dict[str, Any], place: tuple[str, ...] = ()
) -> list[tuple[tuple[str, ...], Any]]:
    """Return every key of nested tables, and its value."""
    return [
        row
        for name, value in table.items()
        for row in (
            _places(value, (*place, name))
            if isinstance(value, dict) and value
            else [((*place, name), value)]
        )
    ]


_PLACES = _places(_documented(_example()))


@pytest.mark.parametrize(("place", "value"), _PLACES, ids=[".".join(row[0]) for row in _PLACES])
def test_every_key_can_be_said_by_the_environment(place: tuple[str, ...], value: Any) -> None:
    """A variable has the effect that the key of the example has in a file."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if isinstance(value, list | dict):  # as TOML has them inline
        text = re.sub(r'"(\w+)":', r"\1 = ", text)
    variable = "__".join(("HOLDFAST", *place)).upper()
    wanted: Any = value
    for part in reversed(place):
        wanted = {part: wanted}
    found = load_settings(None, file_overrides({variable: text, "HOLDFAST_MODEL": "x"}))
    assert found == msgspec.convert(wanted, ServeSettings)


def test_the_environment_comes_before_the_file(tmp_path: Path) -> None:
    """Of a key in both, the variable counts; all else is as the file has it."""
    file = tmp_path / "holdfast.toml"
    file.write_text(_example().replace("[agents.main]", "[agents.Main]"), "utf-8")
    environ = {
        "HOLDFAST__SERVER__PORT": "9000",
        "HOLDFAST__AGENTS__MAIN__WINDOW": "60000",
        "HOLDFAST__AGENTS__MAIN__SYSTEM": "Say: yes",
        "HOLDFAST__AGENTS__OTHER__MODEL": "offline",
        "HOLDFAST__TELEGRAM__ALLOW": "[1, 2]",
    }
    found, before = load_settings(str(file), file_overrides(environ)), load_settings(str(file), [])
    replace = msgspec.structs.replace
    assert before.telegram is not None
    main = replace(before.agents["Main"], window=60_000, system="Say: yes")
    assert found == replace(
        before,
        server=replace(before.server, port=9_000),
        agents={"Main": main, "other": AgentSettings(model="offline")},
        telegram=replace(before.telegram, allow=(1, 2)),
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HOLDFAST__SERVER__PROT", "1"),
        ("HOLDFAST__SERVER__PORT", "many"),
        ("HOLDFAST__SERVR__PORT", "1"),
        ("HOLDFAST__SERVER", "1"),
        ("HOLDFAST__SERVER__PORT__X", "1"),
        ("HOLDFAST__", "1"),
        ("HOLDFAST____X", "1"),
    ],
)
def test_a_variable_that_means_nothing_is_named(tmp_path: Path, variable: str, value: str) -> None:
    """A misspelled variable is refused by its name, not left aside."""
    file = tmp_path / "holdfast.toml"
    file.write_text("[server]\nport = 8000\n", "utf-8")
    with pytest.raises(BadSetting, match=variable):
        load_settings(str(file), file_overrides({variable: value}))
