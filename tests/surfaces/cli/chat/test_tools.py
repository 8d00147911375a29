"""The tools of a chat: they read inside the folder, say what they cut, and never get out."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.engine.tools import Toolbox
from holdfast.errors import PathRejected
from holdfast.surfaces.cli.chat.tools import OUTPUT_CHARS_MAX, FolderTools

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    inside = tmp_path / "inside"
    (inside / "sub").mkdir(parents=True)
    (inside / "a.txt").write_text("alpha\nBeta\n")
    (inside / "sub" / "b.txt").write_text("beta again\n")
    (tmp_path / "secret.txt").write_text("secret\n")
    return inside


def test_file_is_read(folder: Path) -> None:
    """By a name relative to the folder, or an absolute one that leads into it."""
    shop = FolderTools(str(folder))
    assert shop.read_file("a.txt") == "alpha\nBeta\n"
    assert shop.read_file(str(folder / "sub" / ".." / "a.txt")) == "alpha\nBeta\n"
    assert shop.read_file("a.txt", first_line=2) == "Beta\n"
    assert "has no line 9" in shop.read_file("a.txt", first_line=9)


@pytest.mark.parametrize("path", ["../secret.txt", "/etc/passwd", "sub/../../secret.txt", "~/x"])
def test_way_out_is_refused(folder: Path, path: str) -> None:
    """However it is spelled, for every tool that takes a path."""
    shop = FolderTools(str(folder))
    with pytest.raises(PathRejected):
        shop.read_file(path)
    with pytest.raises(PathRejected):
        shop.write_file(path, "x")
    with pytest.raises(PathRejected):
        shop.list_directory(os.path.dirname(path) or "..")
    with pytest.raises(PathRejected):
        shop.search_files("secret", os.path.dirname(path) or "..")


def test_links_that_lead_out_are_refused_and_not_searched(folder: Path) -> None:
    """A file, a folder; those that stay inside are followed when they are asked for."""
    (folder / "out").symlink_to(folder.parent)
    (folder / "file").symlink_to(folder.parent / "secret.txt")
    (folder / "near").symlink_to("a.txt")
    shop = FolderTools(str(folder))
    for path in ("out/secret.txt", "file"):
        with pytest.raises(PathRejected):
            shop.read_file(path)
    with pytest.raises(PathRejected):
        shop.list_directory("out")
    assert "nothing found" in shop.search_files("secret")
    assert shop.read_file("near") == "alpha\nBeta\n"
    assert "out (link)" in shop.list_directory()


@settings(examples(60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["..", ".", "sub", "a.txt", "out", "", "/", "~"]), max_size=6))
def test_no_path_reads_the_secret(folder: Path, parts: list[str]) -> None:
    """Whatever is put together, what is outside stays outside."""
    link = folder / "out"
    if not link.is_symlink():
        link.symlink_to("..")
    try:
        text = FolderTools(str(folder)).read_file("/".join([*parts, "secret.txt"]))
    except (OSError, PathRejected):
        return
    assert "secret" not in text


def test_what_is_no_regular_file_is_not_waited_for(folder: Path) -> None:
    """A pipe nobody writes to, and a folder."""
    os.mkfifo(folder / "pipe")
    shop = FolderTools(str(folder))
    with pytest.raises(PathRejected, match="regular"):
        shop.read_file("pipe")
    with pytest.raises(IsADirectoryError, match="list_directory"):
        shop.read_file("sub")
    with pytest.raises(FileNotFoundError, match="no file `zzz`"):
        shop.read_file("zzz")
    with pytest.raises(FileNotFoundError, match="no folder `zzz`"):
        shop.list_directory("zzz")


def test_long_file_is_cut_with_the_way_to_the_rest(folder: Path) -> None:
    """Within the cap, marker included; following the marker gives every line once."""
    lines = [f"line {number} of many" for number in range(1, 6_001)]
    (folder / "long.txt").write_text("\n".join(lines) + "\n")
    shop = FolderTools(str(folder))
    first = shop.read_file("long.txt")
    assert len(first) <= OUTPUT_CHARS_MAX
    assert "continue with first_line=" in first
    found: list[str] = []
    start = 1
    while True:
        text = shop.read_file("long.txt", first_line=start)
        body, cut, rest = text.partition("[… truncated")
        found += body.splitlines()
        if not cut:
            break
        start = int(rest.partition("first_line=")[2].rstrip("]"))
    assert found == lines


def test_one_long_line_is_within_the_cap(folder: Path) -> None:
    """Even without a place to go on from."""
    (folder / "wide.txt").write_text("ü" * 300_000)
    assert len(FolderTools(str(folder)).read_file("wide.txt")) <= OUTPUT_CHARS_MAX


def test_binary_file_is_named_not_shown(folder: Path) -> None:
    """Its size is enough."""
    (folder / "data.bin").write_bytes(b"\x00\x01" * 50)
    assert FolderTools(str(folder)).read_file("data.bin") == "[`data.bin` is not text: 100 bytes]"


def test_folder_is_listed_folders_first(folder: Path) -> None:
    """With sizes."""
    assert FolderTools(str(folder)).list_directory() == "sub/\na.txt  11 bytes"


def test_files_are_searched_in_any_case(folder: Path) -> None:
    """With path and line; hidden folders are left out; nothing is said plainly."""
    (folder / ".git").mkdir()
    (folder / ".git" / "c.txt").write_text("beta\n")
    shop = FolderTools(str(folder))
    assert shop.search_files("BETA") == "a.txt:2: Beta\nsub/b.txt:1: beta again"
    assert shop.search_files("beta", "sub") == "sub/b.txt:1: beta again"
    assert shop.search_files("beta", "a.txt") == "a.txt:2: Beta"
    assert shop.search_files("gamma") == "[nothing found in 2 text files]"


def test_writing_is_only_there_when_asked_for(folder: Path) -> None:
    """And then stays inside, away from hidden files."""
    shop = FolderTools(str(folder))
    names = {tool.name for tool in Toolbox(shop.tools()).tools}
    assert names == {"read_file", "list_directory", "search_files", "get_current_time"}
    assert "write_file" in {tool.name for tool in Toolbox(shop.tools(can_write=True)).tools}
    shop.write_file("new.txt", "hello")
    assert (folder / "new.txt").read_text() == "hello"
    with pytest.raises(PathRejected, match="hidden"):
        shop.write_file(".sessions/x", "no")
