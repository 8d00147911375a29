"""What `import holdfast` offers, and what it costs."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.cases import check_all

import holdfast


def test_every_public_name_can_be_had() -> None:
    """A name in `__all__` is there, and `dir` shows it."""

    def check(name: str) -> None:
        getattr(holdfast, name)
        assert name in dir(holdfast)

    check_all(holdfast.__all__, check)


def test_unknown_names_are_refused() -> None:
    """A misspelled name is an AttributeError, as in any module."""
    with pytest.raises(AttributeError, match="JsonStore"):
        _ = holdfast.JsonStore


def test_every_public_name_is_loaded_from_where_its_type_says() -> None:
    """The lazy table, the type checker's imports and `__all__` name the same things."""
    assert sorted(holdfast._HOME_OF) == sorted(holdfast.__all__)


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
        "import sys\n"
        "sys.modules['rich'] = None\n"
        "from holdfast.surfaces.cli.terminal import Output\n"
        "sys.stdout.isatty = lambda: True\n"
        "Output(is_json=False).table(('A', '>B'), [['x', '1']])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], check=True, capture_output=True, text=True
    )

    assert done.stdout.split() == ["A", "B", "x", "1"]
