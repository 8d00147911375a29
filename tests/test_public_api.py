"""What `import holdfast` offers, and what it costs."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest
from scripts import reference_pages
from scripts.api_page import MODULES, PAGE, page, public_names, undocumented

import holdfast
from holdfast import _MOVED

REPOSITORY = Path(__file__).parent.parent
ROOT_NAMES_MAX = 35
ALL_NAMES_MAX = 186
"""Of all public modules together. A benchmark may measure what is not public."""


def is_public(module: str, name: str) -> bool:
    if module.startswith("holdfast.integrations"):
        return True
    return f"{module}.{name}" in MODULES or (module in MODULES and name in public_names(module))


def imports_in(program: str) -> list[tuple[str, str]]:
    """Return (module, name) for each name of ours that a program imports."""
    return [
        (node.module, alias.name)
        for node in ast.walk(ast.parse(program))
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "holdfast"
        for alias in node.names
        if node.module
    ]


def private_imports(path: str, program: str) -> list[str]:
    """Return the imports of a program that reach past the public surface."""
    return [
        f"{path}: {module}.{name}"
        for module, name in imports_in(program)
        if not is_public(module, name)
    ]


def programs() -> dict[str, str]:
    """Return the programs that users read: examples and the fences of the docs."""
    pages = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
    fence = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
    found = {page: "\n".join(fence.findall(page.read_text("utf-8"))) for page in pages}
    found |= {path: path.read_text() for path in (REPOSITORY / "examples").rglob("*.py")}
    return {str(path.relative_to(REPOSITORY)): program for path, program in found.items()}


def test_docs_and_examples_use_only_the_public_surface() -> None:
    """Whoever copies from us depends on nothing that may change without notice."""
    found = programs()
    bad = [line for path, program in found.items() for line in private_imports(path, program)]

    assert bad == []
    assert len([path for path, program in found.items() if imports_in(program)]) > 20


def test_private_import_is_seen() -> None:
    """The check finds a private module, a private name and a name that left its module."""
    planted = (
        "from holdfast.core.log.records import User\n"
        "from holdfast import Session, JsonStore\n"
        "from holdfast.records import NoSuchRecord\n"
    )

    assert private_imports("docs/x.md", planted) == [
        "docs/x.md: holdfast.core.log.records.User",
        "docs/x.md: holdfast.JsonStore",
        "docs/x.md: holdfast.records.NoSuchRecord",
    ]


@pytest.mark.parametrize("module", MODULES)
def test_every_public_name_can_be_had(module: str) -> None:
    """A public name is there, and `dir` shows it."""
    loaded = importlib.import_module(module)
    names = public_names(module)

    assert names
    for name in names:
        getattr(loaded, name)
        assert name in dir(loaded)


def test_every_public_name_is_documented() -> None:
    """Each public name has a docstring of its own, and the reference pages are up to date."""
    assert undocumented() == []
    assert PAGE.read_text("utf-8") == page(), "run `make api`"
    assert reference_pages.outdated() == [], "run `make api`"


def test_root_stays_small() -> None:
    """The root has the names that most programs need; the rest is in the named modules."""
    assert len(public_names("holdfast")) <= ROOT_NAMES_MAX
    assert sum(len(public_names(module)) for module in MODULES) <= ALL_NAMES_MAX


def test_a_name_that_moved_names_its_module() -> None:
    """Each is where the error says."""
    for name, module in _MOVED.items():
        with pytest.raises(AttributeError, match=f"`holdfast.{module}` has it"):
            getattr(holdfast, name)
        assert hasattr(importlib.import_module(f"holdfast.{module}"), name)


def test_unknown_names_are_refused() -> None:
    """A misspelled name is an AttributeError, as in any module."""
    with pytest.raises(AttributeError, match="JsonStore"):
        _ = holdfast.JsonStore  # type: ignore[attr-defined]


def test_import_loads_nothing_that_is_not_needed() -> None:
    """`import holdfast` brings in neither the codec nor SQLite, zstd, rich or a server."""
    program = (
        "import sys, holdfast\n"
        "heavy = {'msgspec', 'sqlite3', 'backports.zstd', 'rich', 'hypothesis', 'socket'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
        "from holdfast import JsonlStore\n"
        "heavy -= {'msgspec'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-I", "-c", program], check=True)


def test_the_command_runs_without_the_extras() -> None:
    """Without rich the command line works, with plain columns."""
    program = (
        "import os, sys\n"
        "os.environ['NO_COLOR'] = '1'\n"
        "sys.modules['rich'] = None\n"
        "from holdfast.surfaces.cli.terminal import Output\n"
        "sys.stdout.isatty = lambda: True\n"
        "Output(is_json=False).table(('A', '>B'), [['x', '1']])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert done.stdout.split() == ["A", "B", "x", "1"]
