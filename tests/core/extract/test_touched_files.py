"""Which files a call touches, whatever its tool is called."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from tests.strategies import clean_texts, json_objects

from holdfast.core.extract.touched_files import (
    PATH_CHARS,
    deletes_files,
    find_touches,
    whole_content,
)

PATCH = """*** Begin Patch
*** Update File: src/a.py
@@
-x
+y
*** Add File: src/b.py
+z
*** Delete File: src/c.py
*** End Patch"""
DIFF = """diff --git a/lib/x.c b/lib/x.c
--- a/lib/x.c
+++ b/lib/x.c
@@ -1 +1 @@
--- no file, a removed comment
diff --git a/lib/new.c b/lib/new.c
--- /dev/null
+++ b/lib/new.c"""


def changed_and_read(tool: str, arguments: dict[str, Any]) -> tuple[set[str], set[str]]:
    found = find_touches(tool, arguments)
    changed = {one.path for one in found if one.is_change}
    return changed, {one.path for one in found} - changed


@pytest.mark.parametrize(
    ("tool", "arguments", "paths"),
    [
        ("write_file", {"path": "a.txt", "content": "x"}, {"a.txt"}),
        ("Write", {"file_path": "/srv/a.txt", "content": "x"}, {"/srv/a.txt"}),
        ("MultiEdit", {"filePath": "src/a.ts", "edits": []}, {"src/a.ts"}),
        ("NotebookEdit", {"notebook_path": "n.ipynb", "new_source": "1"}, {"n.ipynb"}),
        ("str_replace_based_edit_tool", {"command": "create", "path": "/r/x.py"}, {"/r/x.py"}),
        (
            "str_replace_based_edit_tool",
            {"command": "str_replace", "path": "Makefile"},
            {"Makefile"},
        ),
        ("fs.delete", {"paths": ["a/b.py", "a/c.py"]}, {"a/b.py", "a/c.py"}),
        ("move_file", {"source": "a/b.py", "destination": "a/c.py"}, {"a/b.py", "a/c.py"}),
        ("apply_patch", {"input": PATCH}, {"src/a.py", "src/b.py", "src/c.py"}),
        ("anything", {"diff": DIFF}, {"lib/x.c", "lib/new.c"}),
        ("batch", {"files": [{"path": "x/y.go", "content": "p"}], "edits": 1}, {"x/y.go"}),
        ("editor", {"path": "notes.md", "new_str": "x"}, {"notes.md"}),
        ("search_replace", {"file": "a/b.rs"}, {"a/b.rs"}),
    ],
)
def test_changes_are_changes(tool: str, arguments: dict[str, Any], paths: set[str]) -> None:
    """By the verb in the name, by an argument that says what to do, or by a text for the file."""
    assert changed_and_read(tool, arguments) == (paths, set())


@pytest.mark.parametrize(
    ("tool", "arguments", "paths"),
    [
        ("read", {"path": "src/a.py", "offset": 10}, {"src/a.py"}),
        ("str_replace_based_edit_tool", {"command": "view", "path": "/r/x.py"}, {"/r/x.py"}),
        ("Grep", {"pattern": "x/y.py", "path": "src/a.py"}, {"src/a.py"}),
        ("get_last_edit", {"file": "src/a.py"}, {"src/a.py"}),
        ("compile", {"target": "main.c"}, {"main.c"}),
        ("lint", {"thing": "src/deep/a.py"}, {"src/deep/a.py"}),
        ("view_image", {"uri": "file:///tmp/p.png"}, {"/tmp/p.png"}),
        ("read", {"path": "My Notes.txt"}, {"My Notes.txt"}),
        ("compile", {"source": "/srv/app/LICENSE"}, {"/srv/app/LICENSE"}),
        ("compile", {"input": "./gradlew"}, {"./gradlew"}),
        ("compile", {"input": "../gradlew"}, {"../gradlew"}),
        ("compile", {"document": "~/notes"}, {"~/notes"}),
        ("compile", {"document": "C:\\work\\a.txt"}, {"C:\\work\\a.txt"}),
    ],
)
def test_everything_else_reads(tool: str, arguments: dict[str, Any], paths: set[str]) -> None:
    """A tool nobody has heard of is a reader."""
    assert changed_and_read(tool, arguments) == (set(), paths)


def test_copy_reads_one_and_changes_the_other() -> None:
    """What was copied is as it was."""
    found = changed_and_read("copy_file", {"source": "a/b.py", "destination": "a/c.py"})
    assert found == ({"a/c.py"}, {"a/b.py"})


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("bash", {"command": "cat src/a.py > src/b.py"}),
        ("fetch", {"url": "https://example.test/a.html"}),
        ("glob", {"pattern": "src/**/*.py"}),
        ("ls", {"path": "src"}),
        ("ls", {"path": "src/"}),
        ("run", {"cwd": "/srv/app"}),
        ("ask", {"prompt": "what is in src/a.py"}),
        ("ask", {"path": "the quick brown fox jumps over the dog"}),
        ("write_file", {"path": ".", "content": "x"}),
        ("read", {"path": "a\nb.py"}),
        ("read", {"path": "x" * (PATH_CHARS + 1)}),
        ("write", {"content": "src/a.py"}),
        ("write", {"old_string": "src/a.py", "new_string": "src/b.py"}),
        ("read", {}),
        ("compile", {"target": "release"}),
        ("compile", {"thing": "/srv/app/LICENSE"}),
        ("compile", {"source": "some words.txt"}),
        ("post", {"message": DIFF}),
    ],
)
def test_what_is_no_file_is_not_listed(tool: str, arguments: dict[str, Any]) -> None:
    """Commands, addresses, folders, patterns and prose are left alone."""
    assert find_touches(tool, arguments) == ()


@pytest.mark.parametrize(
    ("tool", "arguments", "text"),
    [
        *(
            ("Write", {"path": "a", key: "all of it"}, "all of it")
            for key in ("content", "contents")
        ),
        *(("create_file", {key: "all of it"}, "all of it") for key in ("file_text", "fileText")),
        ("save", {"text": "all of it"}, "all of it"),
        ("write_file", {"content": ""}, ""),
        ("write_file", {"content": ["no", "text"]}, None),
        ("write_file", {"path": "a"}, None),
        ("Edit", {"path": "a", "content": "a part"}, None),
        ("append_file", {"content": "a part"}, None),
        ("str_replace_based_edit_tool", {"command": "create", "file_text": "x"}, "x"),
        ("str_replace_based_edit_tool", {"command": "insert", "text": "x"}, None),
    ],
)
def test_content_of_a_file_that_is_written_whole(
    tool: str, arguments: dict[str, Any], text: str | None
) -> None:
    """A tool that writes a part does not say what the file holds."""
    assert whole_content(tool, arguments) == text


@pytest.mark.parametrize(
    ("tool", "is_deleting"),
    [
        *((name, True) for name in ("delete_file", "fs.remove", "unlink", "rm", "fs_rm")),
        *((name, False) for name in ("write_file", "perform", "format", "read")),
    ],
)
def test_tools_that_delete(tool: str, is_deleting: bool) -> None:
    """By a word in the name, and not by letters inside one."""
    assert deletes_files(tool) is is_deleting


@given(tool=clean_texts(), arguments=json_objects(12))
def test_any_call_can_be_looked_at(tool: str, arguments: dict[str, Any]) -> None:
    """Whatever a model calls: no failure, and every path is one printable line, listed once."""
    found = find_touches(tool, arguments)
    assert len({one.path for one in found}) == len(found)
    assert all(one.path.isprintable() and 0 < len(one.path) <= PATH_CHARS for one in found)
