"""`holdfast --version`: the version, and the commit of a checkout."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import pytest

from holdfast import __version__
from holdfast.surfaces.cli import main, version
from holdfast.surfaces.cli.version import checkout_of, version_line

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(version, "_CHECKOUT", str(tmp_path))
    return tmp_path


def git(folder: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.example")
    return subprocess.check_output(["git", "-C", folder, *who, *words], text=True).strip()


def test_an_installed_package_has_its_version_alone(checkout: Path) -> None:
    assert not any(checkout.iterdir())
    assert version_line() == f"holdfast {__version__}"


def test_a_checkout_names_its_commit_and_date(checkout: Path) -> None:
    git(checkout, "init", "-q")
    assert version_line() == f"holdfast {__version__}", "it has no commit yet"
    (checkout / "src").mkdir()
    (checkout / "src" / "a.py").write_text("1")
    git(checkout, "add", ".")
    git(checkout, "commit", "-qm", "one")
    commit = git(checkout, "log", "-1", "--format=%h, %cs")

    assert version_line() == f"holdfast {__version__} ({commit})"

    (checkout / "src" / "a.py").write_text("2")
    assert version_line() == f"holdfast {__version__} ({commit}, changed since)"


@pytest.mark.parametrize(
    ("package", "checkout"),
    [
        ("/a/src/holdfast", "/a"),
        ("/project/vendor/holdfast", ""),
        ("/project/.venv/lib/python3.11/site-packages/holdfast", ""),
    ],
)
def test_the_commit_of_another_project_is_not_ours(package: str, checkout: str) -> None:
    assert checkout_of(f"{package}/surfaces/cli/version.py") == checkout


def test_it_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    with pytest.raises(SystemExit) as end:
        main(["--root", "nowhere", "--version"])
    assert end.value.code in (0, None)
    assert capsys.readouterr().out.splitlines() == [version_line()] * 2
