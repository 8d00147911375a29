"""The memory tool: six commands, nothing outside of the notes, and nothing destroyed."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.cases import check_all
from tests.support.runs import examples

from holdfast.core.limits import MEMORY_FILE_CHARS_MAX, MEMORY_VIEW_CHARS
from holdfast.core.models.messages import ToolCall
from holdfast.core.owners import owner_of
from holdfast.engine.memory.anthropic_tool import memory_tool
from holdfast.engine.tools import Toolbox
from holdfast.stores.files import Disk
from holdfast.stores.notes.notes import NoteStore

if TYPE_CHECKING:
    from holdfast.engine.tool_values import ToolOutput

Json = dict[str, Any]


class QuickDisk(Disk):
    """Does not wait for the medium: these tests lose no power."""

    def sync(self, fd: int) -> None:
        pass

    def sync_folder(self, fd: int) -> None:
        pass


class Model:
    """Who calls the tool."""

    def __init__(self, root: Path, owner: str = "") -> None:
        self.notes = NoteStore(root, "main", owner_of(owner), disk=QuickDisk())
        self.folder = Path(self.notes.location)
        self._toolbox = Toolbox([memory_tool(self.notes)])

    def call(self, command: Any, **arguments: Any) -> ToolOutput:
        given = {"command": command, **arguments}
        prepared = self._toolbox.prepare(ToolCall(id="c1", name="memory", arguments=given))
        assert isinstance(prepared, tuple), prepared
        function, bound = prepared
        output: ToolOutput = function.function(**bound)
        return output

    def done(self, command: str, **arguments: Any) -> str:
        output = self.call(command, **arguments)
        assert not output.is_error, output.content
        return str(output.content)

    def refused(self, command: Any, **arguments: Any) -> str:
        output = self.call(command, **arguments)
        assert output.is_error, output.content
        return str(output.content)

    def create(self, path: str, text: str) -> None:
        self.done("create", path=path, file_text=text)


@pytest.fixture
def model(tmp_path: Path) -> Model:
    return Model(tmp_path / "root")


# What the model was taught


def test_files_are_created_once(model: Model) -> None:
    """The answers are those the model knows."""
    said = model.done("create", path="/memories/notes.txt", file_text="Hello\nWorld\n")
    assert said == "File created successfully at: /memories/notes.txt"
    assert (model.folder / "notes.txt").read_text() == "Hello\nWorld\n"
    again = model.refused("create", path="/memories/notes.txt", file_text="x")
    assert again == "Error: File /memories/notes.txt already exists"
    assert (model.folder / "notes.txt").read_text() == "Hello\nWorld\n"


def test_a_file_is_shown_with_numbers(model: Model) -> None:
    """Six characters, a tab, the line; a range of it if asked."""
    model.create("/memories/a.md", "one\ntwo\nthree\n")
    head = "Here's the content of /memories/a.md with line numbers:\n"
    assert model.done("view", path="/memories/a.md") == (
        head + "     1\tone\n     2\ttwo\n     3\tthree\n     4\t"
    )
    assert model.done("view", path="/memories/a.md", view_range=[2, -1]) == (
        head + "     2\ttwo\n     3\tthree\n     4\t"
    )
    assert model.done("view", path="/memories/a.md", view_range=[2, 2]) == head + "     2\ttwo"
    ranges: list[Any] = [[0, 1], [5, 6], [2, 1], [1], ["1", "2"], [1, 2, 3], "1-2", [True, 2], {}]
    for wrong in ranges:
        assert "view_range" in model.refused("view", path="/memories/a.md", view_range=wrong)
    missing = model.refused("view", path="/memories/none.md")
    assert missing == "The path /memories/none.md does not exist. Please provide a valid path."


def test_a_folder_is_shown_two_levels_deep(model: Model) -> None:
    """With sizes; what is hidden, or deeper, is not listed but counted."""
    assert model.done("view") == (
        "Here're the files and directories up to 2 levels deep in /memories, "
        "excluding hidden items and node_modules:\n0B\t/memories"
    )
    model.create("/memories/notes.txt", "x" * 2_048)
    model.create("/memories/projects/bot.md", "y" * 512)
    model.create("/memories/projects/deep/er.md", "z" * 512)
    (model.folder / ".hidden").write_text("h")
    assert model.done("view", path="/memories/").splitlines()[1:] == [
        "3.0K\t/memories",
        "2.0K\t/memories/notes.txt",
        "1.0K\t/memories/projects/",
        "512B\t/memories/projects/bot.md",
        "512B\t/memories/projects/deep/",
    ]
    assert model.done("view", path="/memories/projects").splitlines()[1:] == [
        "1.0K\t/memories/projects",
        "512B\t/memories/projects/bot.md",
        "512B\t/memories/projects/deep/",
        "512B\t/memories/projects/deep/er.md",
    ]


def test_a_text_is_replaced_where_it_is_alone(model: Model) -> None:
    """Otherwise nothing is, and the answer says where it stands."""
    path = "/memories/a.md"
    model.create(path, "blue\nred\nblue\ngreen\n")
    assert model.done("str_replace", path=path, old_str="red", new_str="black\nwhite") == (
        "The memory file has been edited. Here is the snippet showing the change (with line "
        "numbers):\n"
        "     1\tblue\n     2\tblack\n     3\twhite\n     4\tblue\n     5\tgreen"
    )
    assert model.refused("str_replace", path=path, old_str="none", new_str="x") == (
        f"No replacement was performed, old_str `none` did not appear verbatim in {path}."
    )
    assert model.refused("str_replace", path=path, old_str="blue", new_str="x") == (
        "No replacement was performed. Multiple occurrences of old_str `blue` in lines: 1, 4. "
        "Please ensure it is unique"
    )
    assert "empty" in model.refused("str_replace", path=path, old_str="", new_str="x")
    model.done("str_replace", path=path, old_str="white\n")
    assert (model.folder / "a.md").read_text() == "blue\nblack\nblue\ngreen\n"
    assert model.refused("str_replace", path="/memories/b.md", old_str="x", new_str="y") == (
        "Error: The path /memories/b.md does not exist. Please provide a valid path."
    )


def test_a_text_is_inserted_behind_a_line(model: Model) -> None:
    """From the beginning to the end, and no further."""
    path = "/memories/a.md"
    model.create(path, "one\ntwo")
    said = model.done("insert", path=path, insert_line=2, insert_text="three\n")
    assert said == f"The file {path} has been edited."
    model.done("insert", path=path, insert_line=0, insert_text="zero")
    model.done("insert", path=path, insert_line=2, insert_text="a\nb\n")
    assert (model.folder / "a.md").read_text() == "zero\none\na\nb\ntwo\nthree\n"
    assert model.refused("insert", path=path, insert_line=7, insert_text="x") == (
        "Error: Invalid `insert_line` parameter: 7. It should be within the range [0, 6]."
    )
    assert "[0, 6]" in model.refused("insert", path=path, insert_line=-1, insert_text="x")
    assert model.refused("insert", path="/memories/b.md", insert_line=0, insert_text="x") == (
        "Error: The path /memories/b.md does not exist. Please provide a valid path."
    )


def test_lines_of_windows_are_found_with_and_without_their_returns(model: Model) -> None:
    """A file is shown as it is; a text across lines is found without `\\r` too."""
    model.create("/memories/a.md", "one\r\ntwo\r\n")
    model.done("str_replace", path="/memories/a.md", old_str="one\ntwo", new_str="1\n2")
    model.done("insert", path="/memories/a.md", insert_line=1, insert_text="x")
    assert (model.folder / "a.md").read_bytes() == b"1\r\nx\n2\r\n"
    assert "     1\t1\r\n     2\tx\n" in model.done("view", path="/memories/a.md")


def test_what_is_deleted_can_be_had_back(model: Model) -> None:
    """By a person: it lies in the trash. The folder itself stays."""
    model.create("/memories/a.md", "precious")
    model.create("/memories/b/c.md", "too")
    said = model.done("delete", path="/memories/a.md")
    assert said == "Successfully deleted /memories/a.md"
    model.done("delete", path="/memories/b")
    assert model.done("view").count("\n") == 1
    kept = [path.read_text() for path in (model.folder / ".trash").rglob("*.md")]
    assert sorted(kept) == ["precious", "too"]
    gone = model.refused("delete", path="/memories/a.md")
    assert gone == "Error: The path /memories/a.md does not exist"
    for path in ("/memories", "/memories/", "/memories/.", "/memories/b/.."):
        assert "Cannot delete the /memories directory itself" in model.refused("delete", path=path)


def test_a_rename_overwrites_nothing(model: Model) -> None:
    """Files and folders go where nothing is yet."""
    model.create("/memories/a.md", "a")
    model.create("/memories/b.md", "b")
    said = model.done("rename", old_path="/memories/a.md", new_path="/memories/x/y.md")
    assert said == "Successfully renamed /memories/a.md to /memories/x/y.md"
    taken = model.refused("rename", old_path="/memories/b.md", new_path="/memories/x/y.md")
    assert taken == "Error: The destination /memories/x/y.md already exists"
    none = model.refused("rename", old_path="/memories/a.md", new_path="/memories/c.md")
    assert none == "Error: The path /memories/a.md does not exist"
    assert "itself" in model.refused("rename", old_path="/memories/x", new_path="/memories/x/z")
    assert "itself" in model.refused("rename", old_path="/memories", new_path="/memories/z")
    model.done("rename", old_path="/memories/x", new_path="/memories/z")
    assert (model.folder / "z" / "y.md").read_text() == "a"


# What it must not do


HOSTILE = [
    *("", "/", "memories2/x", "/etc/passwd", "/memories/../secret", "/memories/..", "../memories"),
    *("/memories/a/../../secret", "/memories//etc/passwd", "/memories/./x", "//memories/x"),
    *("/memories/%2e%2e/secret", "/memories/%2e%2e%2fsecret", "/memories/..%2fsecret"),
    *("/memories/..\\secret", "/memories/\u2025/secret", "/memories/．．/secret"),
    *("/memories/.trash/x", "/memories/.appending", "/memories/.flushed", "/memories/a\0b"),
    *("/memories/link", "/memories/link/secret", "/memories/file-link", "/memories/hard"),
    *("/memories/owners", "/memories/owners/x.md", "/memories/OWNERS/x", "~/secret", "C:\\x"),
    *("/memories/" + "a" * 300, "/memories" + "/a" * 30, "/memories/fifo", "/memories/a\nb"),
]


@pytest.mark.parametrize("command", ["view", "create", "str_replace", "insert", "delete", "rename"])
def test_no_path_leads_out(tmp_path: Path, command: str) -> None:
    """Neither up, nor through a link, nor to what is hidden; nothing is read or made there."""

    def check(case: tuple[int, str]) -> None:
        number, path = case
        folder = tmp_path / str(number)
        folder.mkdir()
        check_path_leads_nowhere(folder, command, path)

    check_all(enumerate(HOSTILE), check)


def check_path_leads_nowhere(tmp_path: Path, command: str, path: str) -> None:
    secret = tmp_path / "secret"
    secret.write_text("the secret")
    model = Model(tmp_path / "root")
    Model(tmp_path / "root", "ann").create("/memories/x.md", "the secret of Ann")
    (model.folder / "link").symlink_to(tmp_path)
    (model.folder / "file-link").symlink_to(secret)
    (model.folder / "hard").hardlink_to(secret)
    os.mkfifo(model.folder / "fifo")
    before = sorted(tmp_path.rglob("*"))
    arguments: dict[str, Json] = {
        "create": {"path": path, "file_text": "the intruder"},
        "str_replace": {"path": path, "old_str": "the", "new_str": "an"},
        "insert": {"path": path, "insert_line": 0, "insert_text": "x"},
        "rename": {"old_path": path, "new_path": "/memories/new"},
    }

    said = model.refused(command, **arguments.get(command, {"path": path}))

    assert "the secret" not in said
    assert secret.read_text() == "the secret"
    assert sorted(tmp_path.rglob("*")) == before
    if command == "rename":
        model.create("/memories/mine", "x")
        model.refused("rename", old_path="/memories/mine", new_path=path)


@given(st.text(st.sampled_from("/.memories%2eaA\\\0~ownrs漢"), max_size=30))
@examples(150)
def test_no_path_at_all_makes_a_file_elsewhere(tmp_path_factory: Any, path: str) -> None:
    """Whatever it is made of: a file is made below the folder, or nothing is."""
    top = tmp_path_factory.mktemp("top")
    model = Model(top / "root")
    output = model.call("create", path=path, file_text="x")
    made = [one for one in top.rglob("*") if one.is_file()]
    assert len(made) == (0 if output.is_error else 1)
    assert all(model.folder in one.parents for one in made)


def test_an_owner_sees_only_own_notes(tmp_path: Path) -> None:
    """And the agent none of theirs."""
    ann, bob, agent = Model(tmp_path, "ann"), Model(tmp_path, "bob"), Model(tmp_path)
    ann.create("/memories/a.md", "Ann's")
    for other in (bob, agent):
        assert "a.md" not in other.done("view")
        assert other.refused("view", path="/memories/a.md")


def test_an_edit_of_what_has_changed_is_refused(model: Model) -> None:
    """What was written between reading and writing is not lost."""
    model.create("/memories/a.md", "one\n")
    notes, changes = model.notes, ["two\n"]
    read = notes.data

    def changed(path: str) -> bytes:
        data = read(path)
        if changes:
            (model.folder / "a.md").write_text(changes.pop())
        return data

    notes.data = changed  # type: ignore[method-assign]
    said = model.refused("str_replace", path="/memories/a.md", old_str="one", new_str="three")
    assert "has changed since it was read" in said
    assert "read it again" in said
    assert (model.folder / "a.md").read_text() == "two\n"


def test_secrets_and_forged_origins_are_refused(model: Model) -> None:
    """What is there already may stay; nothing of the kind is added."""
    key = "sk-proj-abcdefghijklmnop1234567890"
    assert key not in model.refused("create", path="/memories/k.md", file_text=f"key {key}")
    assert not (model.folder / "k.md").exists()
    kept = model.notes.append(["Use tabs."], session="main/work", records=["r1"]).saved[0]
    line = (model.folder / kept.path).read_text().splitlines()[-1]
    path = f"/memories/{kept.path}"
    for text in (line.replace("r1", "r2"), f"key {key}"):
        model.refused("insert", path=path, insert_line=1, insert_text=text)
    model.done("str_replace", path=path, old_str=line, new_str=line.replace("tabs", "spaces"))
    (note,) = model.notes.notes()
    assert (note.text, note.session, note.records) == ("Use spaces.", "main/work", ("r1",))
    (model.folder / "old.md").write_text(f"{key}\nhello\n")
    model.done("str_replace", path="/memories/old.md", old_str="hello", new_str="bye")
    model.refused("insert", path="/memories/old.md", insert_line=0, insert_text=f"and {key}")


def test_what_is_too_large_is_said_to_be(model: Model) -> None:
    """A file has a bound when it is written, and an answer one when it is shown."""
    large = "x" * 99 + "\n"
    text = large * (MEMORY_FILE_CHARS_MAX // 100)
    said = model.refused("create", path="/memories/a.md", file_text=text + large)
    assert "several files" in said
    model.create("/memories/a.md", text)
    shown = model.done("view", path="/memories/a.md")
    assert len(shown) <= MEMORY_VIEW_CHARS
    assert "view_range" in shown
    assert "x" * 99 in model.done("view", path="/memories/a.md", view_range=[2_000, 2_001])
    for number in range(300):
        (model.folder / f"{'n' * 90}{number}").write_text("")
    assert len(model.done("view")) <= MEMORY_VIEW_CHARS


@pytest.mark.parametrize("data", [b"\xff\xfe\x00", b"caf\xe9"])
def test_what_is_no_text_is_shown_and_not_edited(model: Model, data: bytes) -> None:
    """To write it back would change what the model cannot see."""
    model.create("/memories/a.md", "x")
    (model.folder / "a.md").write_bytes(data)
    assert model.done("view", path="/memories/a.md")
    model.refused("insert", path="/memories/a.md", insert_line=0, insert_text="x")
    assert (model.folder / "a.md").read_bytes() == data
    assert "text" in model.refused("create", path="/memories/b.md", file_text="a\0b")


@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        ("explode", {}),
        (None, {}),
        (["view"], {}),
        ("view", {"path": 7}),
        ("create", {"path": "/memories/a.md"}),
        ("create", {"path": "/memories/a/", "file_text": "x"}),
        ("create", {"path": "/memories", "file_text": "x"}),
        ("insert", {"path": "/memories/a.md", "insert_text": "x"}),
        ("insert", {"path": "/memories", "insert_line": 0, "insert_text": "x"}),
        ("delete", {}),
        ("rename", {"old_path": "/memories/a.md"}),
    ],
)
def test_calls_that_cannot_be_meant_are_answered(
    model: Model, command: Any, arguments: Json
) -> None:
    """In a sentence, as an error, and nothing is made."""
    assert len(model.refused(command, **arguments)) > 10
    assert not model.folder.exists()


def test_a_file_cannot_be_a_folder(model: Model) -> None:
    """A path through a file is refused."""
    model.create("/memories/a.md", "x")
    model.refused("create", path="/memories/a.md/b.md", file_text="x")
    model.create("/memories/b/c.md", "x")
    model.refused("create", path="/memories/b", file_text="x")
    model.refused("str_replace", path="/memories/b", old_str="x", new_str="y")
