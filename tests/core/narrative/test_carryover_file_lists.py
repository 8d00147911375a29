"""Lists of files in a carry-over."""

from __future__ import annotations

import os.path
from functools import partial

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.growth import is_superlinear

from holdfast.core.narrative.carryover import (
    FileList,
    common_folder,
    file_lines,
    newest_files,
    read_files,
)
from holdfast.core.tokens.counting import Estimator

PATHS = st.lists(
    st.lists(st.sampled_from(["a", "b", "src", ""]), min_size=1, max_size=60).map(
        lambda parts: "/" + "/".join(parts)
    ),
    min_size=1,
    max_size=8,
    unique=True,
)


@given(PATHS)
@example(["/" * 200])
@example(["/srv/app/" + "d/" * 100 + name for name in "abcdef"])
def test_the_shared_folder_is_above_a_path_and_the_list_can_be_read_back(paths: list[str]) -> None:
    folder = common_folder(paths)

    assert not folder or any(path.startswith(f"{folder}/") for path in paths)
    assert read_files(file_lines(FileList(tuple(paths)))).paths == tuple(paths)


def test_the_folder_that_saves_most_is_written_once() -> None:
    paths = [f"/srv/app/source/module_{n}/main.py" for n in range(9)]

    assert common_folder(paths) == os.path.commonpath(paths)


def test_a_path_of_slashes_is_read_in_linear_time() -> None:
    """Its folders together were as long as the square of it."""
    for sign in ("/", "a/", "/a"):
        assert not is_superlinear(partial(_folder_of, sign))


def _folder_of(sign: str, size: int) -> str:
    return common_folder(["/" + sign * size] * 3)


def test_a_shared_folder_leaves_room_for_more_files() -> None:
    """It is written once, so that it is counted once."""
    folder = "/srv/" + "source-of-the-application/" * 8
    paths = tuple(f"{folder}{name}.py" for name in "abcdefgh")
    counter = Estimator()
    room = counter.count("\n".join([folder, *paths[:3]]))

    assert newest_files(FileList(paths), room, counter) == FileList(paths)


def test_files_that_earlier_lists_left_out_are_added_up() -> None:
    """A carry-over may hold the lists of several cuts."""
    lines = ["(2 earlier ones not listed)", "/a.py", "(1,003 earlier ones not listed)"]

    assert read_files(lines) == FileList(("/a.py",), 1_005)
