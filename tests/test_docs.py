"""The documents are true: every example runs, every command, variable and error is described."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast import config, errors
from holdfast.core.log import damage
from holdfast.core.log.records import BY_TYPE
from holdfast.surfaces.cli import COMMANDS

REPOSITORY = Path(__file__).parent.parent
PAGES = [REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def fences(page: Path, language: str) -> list[str]:
    return [body for name, body in FENCE.findall(page.read_text("utf-8")) if name == language]


def pages_with(language: str) -> list[Path]:
    return [page for page in PAGES if fences(page, language)]


def text_of_docs() -> str:
    return "\n".join(page.read_text("utf-8") for page in PAGES)


@pytest.mark.parametrize("page", pages_with("python"), ids=lambda page: page.name)
def test_python_examples_run(page: Path, tmp_path: Path) -> None:
    """The Python examples of a page run one after the other, as a reader would type them."""
    program = "\n".join(fences(page, "python"))

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=tmp_path, capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("page", pages_with("console"), ids=lambda page: page.name)
def test_console_examples_run(page: Path, tmp_path: Path) -> None:
    """The commands of a page succeed one after the other in an empty folder."""
    commands = [
        line.removeprefix("$ ")
        for body in fences(page, "console")
        for line in body.splitlines()
        if line.startswith("$ ")
    ]
    shim = tmp_path / "bin" / "holdfast"
    shim.parent.mkdir()
    shim.write_text(f'#!/bin/sh\nexec {sys.executable} -m holdfast "$@"\n')
    shim.chmod(0o755)
    for command in commands:
        done = subprocess.run(
            ["bash", "-o", "pipefail", "-c", command],
            cwd=tmp_path,
            env={"PATH": f"{shim.parent}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page: Path) -> None:
    """A relative link points at a file that is there."""
    for target in re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text("utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}"


def test_every_command_has_a_section() -> None:
    """The page about the command line describes each command."""
    page = (REPOSITORY / "docs" / "cli.md").read_text("utf-8")

    for name in (name for commands in COMMANDS.values() for name in commands):
        assert f"## holdfast {name}" in page


def test_every_variable_is_described() -> None:
    """The environment variables that are read are in the docs and in the table of config.py."""
    source = inspect.getsource(config)
    read = set(re.findall(r'environ\.get\("([A-Z_]+)"', source)) - {"TERM"}

    ours = {"HOLDFAST_ROOT", "HOLDFAST_AGENT", "HOLDFAST_MODEL", "HOLDFAST_SECRETS"}
    assert read == {*ours, "NO_COLOR"}
    assert all(f"`{name}`" in text_of_docs() for name in read)
    assert all(f"`{name}`" in (config.__doc__ or "") for name in read)


def test_every_error_is_described_and_drawn() -> None:
    """Each exception is in the tree of errors.py and in the docs."""
    raised = [
        name
        for name, one in vars(errors).items()
        if inspect.isclass(one) and issubclass(one, errors.HoldfastError)
    ]

    assert len(raised) > 10
    for name in raised:
        assert f"`{name}`" in text_of_docs(), name
        assert name in (errors.__doc__ or ""), name


def test_every_record_type_and_finding_is_described() -> None:
    """The format page lists the record types, the durability page the kinds of damage."""
    format_page = (REPOSITORY / "docs" / "format.md").read_text("utf-8")
    durability_page = (REPOSITORY / "docs" / "durability.md").read_text("utf-8")

    assert all(f"| `{kind}` |" in format_page for kind in BY_TYPE)
    assert all(f"`{kind}`" in durability_page for kind in damage.MEANING)
