"""Text on a terminal: no word is broken, and what is copied from it still means the same."""

from __future__ import annotations

import os
import pty
import sys
import threading
from itertools import pairwise
from typing import TYPE_CHECKING

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.surfaces.cli import terminal
from holdfast.surfaces.cli.terminal import ERASE_LINE, Output, keep_words
from holdfast.surfaces.formatting import cell_width

if TYPE_CHECKING:
    from collections.abc import Callable

    import pytest

WORDS = st.lists(st.text("ab-/\u00e9\u6f22\u5b57", min_size=1, max_size=24), max_size=30)


def rows_of(text: str, columns: int) -> list[str]:
    """Return the rows that a terminal shows of a text."""
    rows = [""]
    for item in text:
        if item == "\n":
            rows.append("")
        elif cell_width(rows[-1] + item) > columns:
            rows.append(item)
        else:
            rows[-1] += item
    return rows


@examples(200)
@given(
    words=WORDS,
    columns=st.integers(24, 80),
    cuts=st.lists(st.integers(0, 200), max_size=3),
    hang=st.integers(0, 12),
)
@example(
    words=["look", "at", "one", "of", "them:", "holdfast", "x" * 24], columns=24, cuts=[9], hang=0
)
@example(words=["\u6f22" * 12, "a", "\u6f22" * 12], columns=24, cuts=[], hang=0)
@example(
    words=["look", "at", "one", "of", "them:", "holdfast", "x" * 24], columns=24, cuts=[9], hang=4
)
@example(words=["a" * 20, "b" * 3, "c" * 20, "d" * 21, "e"], columns=24, cuts=[], hang=4)
def test_a_terminal_breaks_no_word_that_fits(
    words: list[str], columns: int, cuts: list[int], hang: int
) -> None:
    """Whatever parts a line has; the words and their order stay, so a copied command works. Rows
    after the first hang, unless a word needs the whole row."""
    words = [word for word in words if cell_width(word) <= columns]
    line = " ".join(words)
    ends = sorted(
        {0, len(line), *(min(cut, len(line)) for cut in cuts if line[cut - 1 : cut] == " ")}
    )
    parts = [line[start:end] for start, end in pairwise(ends)] or [""]
    kept = "".join(keep_words(parts, columns, hang))
    assert kept.split() == words
    rows = rows_of(kept, columns)
    assert [word for row in rows for word in row.split()] == words
    for row in rows[1:]:
        begun = len(row) - len(row.lstrip(" "))
        is_full = any(cell_width(word) > columns - hang for word in row.split())
        assert begun >= hang or is_full or not row.strip()


def test_lines_keep_their_newlines_and_wide_terminals_change_nothing() -> None:
    text = "one two\n  three four\n"
    assert keep_words([text], 80) == [text]
    assert keep_words(["aaaa bbbb\ncc dd"], 6) == ["aaaa  bbbb\ncc dd"]


def shown_at_terminal(columns: int, write: Callable[[Output], None]) -> str:
    """Return all that a base install writes at a real terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ["NO_COLOR"] = "1"
        import fcntl
        import struct
        import termios

        fcntl.ioctl(2, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        sys.stdout, sys.stderr = os.fdopen(1, "w"), os.fdopen(2, "w")
        for name in [name for name in sys.modules if name.split(".")[0] == "rich"]:
            del sys.modules[name]
        sys.modules["rich"] = None  # type: ignore[assignment]
        write(Output(False))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)
    heard = b""
    try:
        while more := os.read(terminal, 4096):
            heard += more
    except OSError:
        pass  # Linux says so at the end
    os.close(terminal)
    os.waitpid(pid, 0)
    return heard.decode().replace("\r\n", "\n")


def test_a_note_at_a_narrow_terminal_has_whole_words() -> None:
    """At a real terminal of 30 columns; text of a record is shown as it is."""

    def write(output: Output) -> None:
        output.note("compactions that the agent made; calls")
        output.text("compactions that the agent made; calls\n")

    first, second = shown_at_terminal(30, write).split("\n")[:2]
    assert rows_of(first, 30) == ["compactions that the agent    ", "made; calls"]
    assert second == "compactions that the agent made; calls"


def test_a_long_wait_is_told_of_without_rich(monkeypatch: pytest.MonkeyPatch) -> None:
    """In one row, which is erased at the end; a short wait shows nothing."""
    monkeypatch.setattr(terminal, "_MOMENT_SECONDS", 0.0)

    def wait(output: Output) -> None:
        with output.busy("reading a file with a name that is long"):
            while threading.active_count() > 1:  # until the line is there
                pass

    def count(output: Output) -> None:
        with output.progress("importing", 2) as step:
            step("a.jsonl")
            step("b.jsonl")

    assert shown_at_terminal(24, wait) == f"{ERASE_LINE}reading a file with a n{ERASE_LINE}"
    steps = [
        f"{ERASE_LINE}{number} of 2: {name}" for number, name in ((1, "a.jsonl"), (2, "b.jsonl"))
    ]
    begun = f"{ERASE_LINE}importing …"
    assert shown_at_terminal(24, count) == begun + "".join(steps) + ERASE_LINE
    monkeypatch.setattr(terminal, "_MOMENT_SECONDS", 60.0)
    assert shown_at_terminal(24, lambda output: output.busy("x").__enter__()) == ""


def test_headings_without_a_row_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    """A table of nothing says nothing."""
    Output(False).table(("A", ">B"), [])
    assert capsys.readouterr().out == ""
    Output(False).table(("A", ">B"), [["x", "1"]])
    assert capsys.readouterr().out == "A  B\nx  1\n"
