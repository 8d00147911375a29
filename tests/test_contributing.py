"""What to touch for which change, tried in a scratch copy: the table of CONTRIBUTING.md holds."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

REPOSITORY = Path(__file__).parent.parent
PACKAGE = Path(holdfast.__file__).parent

STORE = '''"""A store of a contributor."""

from holdfast.stores.in_memory import MemoryStore


class ScratchStore(MemoryStore):
    """The store in memory under another name."""
'''
COMMAND = '''"""`greet`: greets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from holdfast.surfaces.cli.command import Command, place

if TYPE_CHECKING:
    from holdfast.surfaces.cli.app import App


class GreetCommand(Command, frozen=True, kw_only=True):
    """Greets."""

    name: Annotated[str, place("who is greeted")]

    def run(self, app: App) -> int:
        app.out.note(f"hello {self.name}")
        return 0
'''
RECORD = '''class Scratch(_Record, frozen=True, tag="scratch", kw_only=True):
    """A record of a contributor."""

    text: str
    """Its text."""


'''
DIALECT = '''"""The API of a contributor: Anthropic's, by another name."""

import msgspec

from holdfast.core.dialects import anthropic
from holdfast.core.dialects.dialect import DialectEntry

_OWN = msgspec.structs.replace(anthropic.ENTRY.own, name="scratch")
ENTRY = DialectEntry(variants=(_OWN,), load=anthropic.ENTRY.load)
'''
CLIENT = '''"""The client of a contributor's API."""

from holdfast.providers.anthropic import PROVIDER as ANTHROPIC
from holdfast.providers.sdk import Provider

PROVIDER = Provider(dialect="scratch", name="scratch", sdk=ANTHROPIC.sdk)
'''


class Scratch:
    """A copy of the package, and the existing files that a change touched in it."""

    def __init__(self, folder: Path) -> None:
        self.package = folder / "src" / "holdfast"
        shutil.copytree(PACKAGE, self.package, ignore=shutil.ignore_patterns("__pycache__"))
        self.touched: list[str] = []

    def add(self, name: str, text: str) -> None:
        """Add a file; those are not counted."""
        path = self.package / name
        assert not path.exists()
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def change(self, name: str, *edits: tuple[str, str]) -> None:
        """Put a text before another one, which the file has once, for each of the edits."""
        text = (self.package / name).read_text()
        for anchor, added in edits:
            assert text.count(anchor) == 1, f"{name}: {anchor}"
            text = text.replace(anchor, added + anchor)
        (self.package / name).write_text(text)
        self.touched.append(name)

    def run(self, *command: str) -> str:
        """Run Python over the copy and return what it printed."""
        done = subprocess.run(
            [sys.executable, *command],
            cwd=self.package.parents[1],
            env={"PYTHONPATH": str(self.package.parent), "PATH": ""},
            capture_output=True,
            text=True,
        )
        return done.stdout + done.stderr


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path)


def listed(change: str) -> int:
    """Return the number of files that CONTRIBUTING.md states for a change, before any `+`."""
    page = (REPOSITORY / "CONTRIBUTING.md").read_text("utf-8")
    (row,) = re.findall(rf"^\| {re.escape(change)} \|.*\| ([\d +]+)(?: named)? \|$", page, re.M)
    return sum(map(int, row.split("+"))) if change == "a dialect" else int(row.split("+")[0])


def test_a_store_takes_one_line(scratch: Scratch) -> None:
    """It is public, and the conformance suite runs over it."""
    scratch.add("stores/scratch.py", STORE)
    line = "from holdfast.stores.scratch import ScratchStore as ScratchStore\n"
    scratch.change("stores/__init__.pyi", ("\n__all__: list[str]", line))

    program = (
        "from holdfast.stores import ScratchStore\n"
        "from holdfast.testing import check_session_store\n"
        "check_session_store(ScratchStore); print('conforms')"
    )
    assert scratch.run("-c", program).endswith("conforms\n")
    assert len(scratch.touched) == listed("a store")


def test_a_command_takes_one_row(scratch: Scratch) -> None:
    """It runs, and the help names it."""
    scratch.add("surfaces/cli/verbs/greet.py", COMMAND)
    row = "  greet      holdfast.surfaces.cli.verbs.greet             Greet somebody\n"
    scratch.change("surfaces/cli/help.py", ("  classify   holdfast", row))

    assert "hello Ada" in scratch.run("-m", "holdfast", "greet", "Ada")
    assert "Greet somebody" in scratch.run("-m", "holdfast", "help", "--all")
    assert len(scratch.touched) == listed("a CLI command")


def test_a_dialect_takes_two_entries(scratch: Scratch) -> None:
    """A session of a model by its prefix makes requests in it."""
    scratch.add("core/dialects/scratch/__init__.py", DIALECT)
    scratch.add("providers/scratch.py", CLIENT)
    scratch.change(
        "core/dialects/registry.py",
        (
            "from holdfast.core.dialects.common.fields",
            "from holdfast.core.dialects import scratch\n",
        ),
        ("    gemini.ENTRY,\n", "    scratch.ENTRY,\n"),
    )
    scratch.change(
        "providers/registry.py",
        (
            '    GEMINI: "holdfast.providers.gemini"',
            '    "scratch": "holdfast.providers.scratch",\n',
        ),
    )

    program = (
        "from holdfast import Session\n"
        "session = Session.open('s', model='scratch:m-1', store='memory:', window=64_000)\n"
        "session.own_loop.add_user('hello')\n"
        "prepared = session.own_loop.prepare()\n"
        "print(prepared.plan.target.dialect.name, prepared.request['messages'])"
    )
    assert scratch.run("-W", "ignore", "-c", program).startswith("scratch [{'role': 'user'")
    assert len(scratch.touched) == listed("a dialect")


def test_a_record_takes_its_class_and_what_the_types_name(scratch: Scratch) -> None:
    """It can be stored; mypy names each `match` that has to say what it does with one."""
    scratch.change(
        "core/log/records.py",
        ("class Label(_Record", RECORD),
        ("    | Label\n", "    | Scratch\n"),
    )

    program = (
        "from holdfast.core.log import records\n"
        "print(records.to_json(records.Scratch(text='x', id='a'))['type'])"
    )
    assert scratch.run("-c", program) == "scratch\n"
    assert len(scratch.touched) == listed("a record type")
    closed = [
        str(path.relative_to(scratch.package.parents[1]))
        for path in scratch.package.rglob("*.py")
        if "assert_never" in path.read_text()
    ]
    options = ("--follow-imports=silent", "--ignore-missing-imports", "--python-version=3.11")
    named = scratch.run("-m", "mypy", *options, *closed)
    assert set(re.findall(r"^(\S+):\d+: error: .*assert_never", named, re.M)) == {
        "src/holdfast/core/models/totals.py",
        "src/holdfast/surfaces/console/records.py",
    }
