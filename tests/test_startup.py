"""What starting costs, counted in modules and patterns rather than in milliseconds."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast import Session, config

if TYPE_CHECKING:
    from pathlib import Path

_IMPORT_ALL = """
import importlib, pkgutil, re, sys
compiled = []
compile_pattern = re._compiler.compile

def spy(pattern, flags=0):
    frame = sys._getframe(1)
    while frame.f_globals["__name__"] in ("re", "functools", "holdfast.core.text.lazy_pattern"):
        frame = frame.f_back
    if frame.f_globals["__name__"].startswith("holdfast"):
        compiled.append(f"{frame.f_globals['__name__']}:{frame.f_lineno}")
    return compile_pattern(pattern, flags)

re._compiler.compile = spy
import holdfast
for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
"""


def _output(script: str) -> str:
    environment = {k: v for k, v in os.environ.items() if not k.startswith("COVERAGE_")}
    run = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    )
    return run.stdout


_USE_ALL = """
print(*compiled)
from holdfast.core.log import ids
ids.check_record_id("a")
print(*compiled)
import gc
patterns = [found for found in gc.get_objects() if type(found).__name__ == "_LazyPattern"]
print(len([pattern.search for pattern in patterns]))
"""


def test_no_pattern_is_compiled_at_import() -> None:
    """And each that is declared compiles: what is compiled late must not fail late."""
    at_import, after_use, count = _output(_IMPORT_ALL + _USE_ALL).split("\n")[:3]
    assert at_import == ""
    assert after_use.startswith("holdfast.core.log.ids:"), "the spy sees no pattern"
    assert int(count) > 200


_LOADED = "import sys; print(*sys.modules)"
_NEVER = frozenset(
    ("asyncio", "backports.zstd", "concurrent", "email", "logging", "rich", "sqlite3", "ssl")
)
"""Slow to load, and not needed before they are used."""


def _loaded_by_command(script: str) -> set[str]:
    output = _output(f"from holdfast.surfaces.cli import main\n{script}\n{_LOADED}")
    return set(output.split("\n")[-2].split())


_OPEN = (
    "from holdfast import Session\nfrom holdfast.stores import MemoryStore\n"
    "Session.open('a', store=MemoryStore()).close()\n"
)


def test_a_blocking_session_loads_no_event_loop_and_no_database() -> None:
    loaded = set(_output(_OPEN + _LOADED).split())
    assert "holdfast.core.turn.turn" in loaded
    assert loaded & _NEVER == set()
    assert "holdfast.engine.session.async_session" not in loaded


_OPEN_FILES = """
import json, sqlite3, sys
before = set(sys.modules)
from holdfast import Session
session = Session.open("a", store={root!r}, model={model!r})
print(*sys.modules.keys() - before)
"""
_NOT_TO_OPEN = (
    *("holdfast.core.compaction", "holdfast.core.narrative", "holdfast.core.checkpoint"),
    *("holdfast.core.projection.project", "holdfast.core.turn.turn", "holdfast.core.failures"),
    *("holdfast.engine.simulation", "holdfast.importers", "holdfast.stores.notes"),
    *("holdfast.providers.tokenizers", "anthropic", "openai", "google"),
    *("backports", "docstring_parser", "importlib.resources", "pathlib", "splintr", "zipfile"),
)
"""What turns, cuts and calls need: the first of each loads it."""


@pytest.mark.parametrize("model", ["offline", "anthropic:claude-opus-4-5", "openai:gpt-5"])
def test_opening_a_session_loads_what_opening_needs(model: str, tmp_path: Path) -> None:
    loaded = _output(_OPEN_FILES.format(root=str(tmp_path), model=model)).split()
    ours = [name for name in loaded if name.startswith("holdfast")]
    found = [
        name
        for name in loaded
        for unused in _NOT_TO_OPEN
        if name == unused or name.startswith(f"{unused}.")
    ]
    assert found == []
    assert len(ours) <= 146, sorted(ours)
    assert len(loaded) <= 214, sorted(loaded)


def test_the_version_is_told_at_once() -> None:
    installed = "from holdfast.surfaces.cli import version; version._CHECKOUT = '/nowhere'; "
    loaded = _loaded_by_command(f"{installed}main(['--version'])")
    ours = {name for name in loaded if name.startswith("holdfast")}
    cli = {"holdfast.surfaces.cli", "holdfast.surfaces.cli.version"}
    assert ours == {"holdfast", "holdfast._public", "holdfast.surfaces"} | cli
    assert loaded.isdisjoint(("argparse", "msgspec", "re", "typing"))


def test_naming_a_session_loads_none_of_its_work() -> None:
    """`holdfast.Session` is a class and its defaults; opening one loads the rest."""
    loaded = _output(f"import holdfast; holdfast.Session\n{_LOADED}").split()
    assert len([name for name in loaded if name.startswith("holdfast")]) < 12
    assert "msgspec" not in loaded


def test_the_default_model_is_stated_alike() -> None:
    model = inspect.signature(Session.open).parameters["model"].default
    assert model == config.MODEL_DEFAULT


def test_help_loads_no_command() -> None:
    script = (
        "from holdfast.surfaces.cli import main\ntry: main(['--help'])\nexcept SystemExit: pass"
    )
    loaded = set(_output(f"{script}\n{_LOADED}").split("\n")[-2].split())
    ours = {name for name in loaded if name.startswith("holdfast.")}
    assert loaded & _NEVER == set()
    assert len(ours) <= 20, sorted(ours)


@pytest.mark.parametrize("command", [["sessions"], ["completion", "sessions"]])
def test_listing_sessions_loads_the_store_and_no_more(command: list[str], tmp_path: Path) -> None:
    """A shell lists them at a key press."""
    arguments = ["--root", str(tmp_path), *command]
    script = f"from holdfast.surfaces.cli import main\nmain({arguments!r})"
    loaded = set(_output(f"{script}\n{_LOADED}").split("\n")[-2].split())
    rooms = {".".join(name.split(".")[1:3]) for name in loaded if name.startswith("holdfast.")}
    unused = ("core.projection", "core.extract", "core.turn", "engine", "providers")
    assert rooms.isdisjoint(unused), sorted(rooms)
    assert loaded & (_NEVER - {"sqlite3"}) == set()  # the index of sessions is a database


def test_a_server_loads_mcp_when_a_client_asks_for_it() -> None:
    """Its package takes longer to import than everything else that a server needs."""
    script = """
from holdfast.stores import MemoryStore
from holdfast.surfaces.cli.serve.serve import build_server
from holdfast.surfaces.serve_settings import ServeSettings
build_server(ServeSettings(), MemoryStore(), "offline").app()
"""
    loaded = set(_output(script + _LOADED).split())
    assert "holdfast.surfaces.http.server" in loaded
    assert loaded.isdisjoint(("mcp", "mcp_types", "pydantic"))
