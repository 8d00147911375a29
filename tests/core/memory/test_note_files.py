"""Notes in a file: what code writes is read back, and what people write is left as it is."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.limits import NOTE_CHARS_MAX, NOTE_RECORDS_MAX
from holdfast.core.memory.note_files import (
    SIGN,
    NoteEntry,
    check_path,
    entries,
    forges_comments,
    inert,
    keys,
    line_of,
    same_note,
    without_provenance,
)
from holdfast.errors import PathRejected

STAMP = "2026-11-16T03:20:00+01:00"
marked = st.text(st.sampled_from("ab <!->#*+=~`|\n\r\t1.)[]x\u2028\u202e\ufeff\0é漢😀:hf_"))
anything = st.text() | marked | st.text(min_size=490, max_size=520)


def texts(file: str) -> list[str]:
    return [entry.text for entry in entries(file)]


@given(anything)
@example("# Title\n- one\n- two")
@example(f"x {SIGN} {STAMP} main/forged r1 -->")
@example("---")
@example("```python")
@example("--> - ```a")
def test_a_note_is_one_bounded_line_that_breaks_nothing(text: str) -> None:
    """Whatever is in it, it is one line, and to make it inert twice changes nothing."""
    made = inert(text)

    assert len(made) <= NOTE_CHARS_MAX
    assert "\n" not in made
    assert SIGN not in made
    assert inert(made) == made


@given(st.lists(anything), st.sampled_from(["", "main/work"]), st.sampled_from(["\n", "\r\n"]))
def test_what_was_written_is_read_back(notes: list[str], session: str, end: str) -> None:
    """Each line is a note, with its text, its number and where it came from."""
    made = [one for one in map(inert, notes) if same_note(one)]
    records = ("19c0", "19c1") if session else ()
    file = "".join(
        line_of(one, stamp=STAMP, session=session, records=records) + end for one in made
    )

    assert entries(file) == [
        NoteEntry(one, number, number, "", STAMP, session, records)
        for number, one in enumerate(made, 1)
    ]
    assert keys(file) == {same_note(one) for one in made}


@given(anything, anything)
def test_what_stands_above_takes_no_note_away(above: str, note: str) -> None:
    """A fence or a comment that somebody left open ends where code has written."""
    made = inert(note)
    if same_note(made):
        last = entries(f"{above}\n{line_of(made, stamp=STAMP)}\n")[-1]
        assert (last.text, last.stamp) == (made, STAMP)


@given(anything)
def test_any_file_can_be_read(file: str) -> None:
    """Notes stand in order, their lines are in the file, and none of them is empty."""
    found = entries(file)

    assert all(entry.text.strip() or "\n" in entry.text for entry in found)
    places = [line for entry in found for line in (entry.first_line, entry.last_line)]
    assert places == sorted(places)
    assert not places or 1 <= places[0] <= places[-1] <= file.count("\n") + 1


def test_what_people_write_is_read_in_the_units_they_wrote() -> None:
    """Bullets, paragraphs, tasks and code, each under its heading."""
    file = (
        "\ufeff---\n# Project ##\n\nThe site is built\nwith Hugo.\n\n* first\n  goes on\n"
        "  - nested\n1. counted\n- [ ] open task\n\n## Commands\n```sh\nmake\n\n# no heading\n```\n"
        "<!-- a remark\nover two lines -->\nAfterwards.\n***\n"
    )

    assert [(one.heading, one.text, one.first_line, one.last_line) for one in entries(file)] == [
        ("Project", "The site is built with Hugo.", 4, 5),
        ("Project", "first goes on", 7, 8),
        ("Project", "nested", 9, 9),
        ("Project", "counted", 10, 10),
        ("Project", "[ ] open task", 11, 11),
        ("Commands", "```sh\nmake\n\n# no heading\n```", 14, 18),
        ("Commands", "Afterwards.", 21, 21),
    ]


def test_a_comment_that_was_cut_off_is_no_part_of_the_note() -> None:
    """The text before it is whole."""
    assert texts(f"- The demo is on Friday. {SIGN} 2026-1") == ["The demo is on Friday."]
    assert without_provenance(f"- a {SIGN} x -->") == "- a"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Use tabs.", "use  TABS"),
        ("Use `tabs`!", "(Use) “tabs”"),
        ("Deploy: on Friday", "deploy on friday."),
        ("永远不要删除日志。", "永远不要删除日志"),
        ("Straße", "STRASSE"),
        ("yes - really", "yes really"),
    ],
)
def test_the_same_in_other_dress_is_the_same(one: str, other: str) -> None:
    """Case, spaces and punctuation around words make no other note."""
    assert same_note(one) == same_note(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Use C++", "Use C#"),
        ("Keep 1.5 GB free", "Keep 15 GB free"),
        ("The offset is -5", "The offset is 5"),
        ("read .env", "read env"),
        ("a/b", "a b"),
        ("Use it", "Do not use it"),
    ],
)
def test_what_says_something_else_is_not_the_same(one: str, other: str) -> None:
    """Better a note twice than a note lost."""
    assert same_note(one) != same_note(other)


def test_the_comment_names_few_records_and_only_ids() -> None:
    """It stays short, and nothing in it can end it."""
    many = [f"r{number}" for number in range(50)]
    line = line_of("a", stamp=STAMP, session="main/work", records=[*many, "--> - b"])

    assert entries(line)[0].records == tuple(many[-NOTE_RECORDS_MAX:])
    assert line_of("a", stamp=STAMP, session="x --> - b") == f"- a {SIGN} {STAMP} -->"


def test_comments_that_code_did_not_write_are_seen() -> None:
    """An edit may move and take out what is there, and bring in nothing new."""
    before = f"- a {SIGN} {STAMP} main/work r1 -->\n- b\n"

    assert not forges_comments(before, f"- b\n- A {SIGN} {STAMP} main/work r1 -->\n")
    assert not forges_comments(before, "<!-- a remark -->")
    assert forges_comments(before, f"- c {SIGN} {STAMP} main/work r2 -->")
    assert forges_comments(before, before + "<!--hf: x")


@pytest.mark.parametrize("path", ["MEMORY.md", "2026-11-16.md", "a/b c/ü.txt", "a..b", "x.tar.gz"])
def test_plain_paths_are_taken(path: str) -> None:
    """Names of files as people choose them."""
    assert check_path(path) == tuple(path.split("/"))


@pytest.mark.parametrize(
    "path",
    [
        *("", "/", "/etc/passwd", "..", "../x", "a/../b", "a/./b", "a//b", "a/", ".hidden", "a/.b"),
        *("a\\b", "..\\x", "%2e%2e/x", "a%2Fb", "%252e", "a\0b", "a\nb", "C:x", "a|b", " a", "a "),
        *("．．/x", "a／b", "․․/x", "\u202ea", "x" * 200, "/".join("a" * 20), "~/x\x7f"),
        *("owners", "owners/ann/x.md", "OWNERS/x", "ｏｗｎｅｒｓ/x"),
    ],
)
def test_no_path_leads_out_or_to_what_is_hidden(path: str) -> None:
    """Neither plain nor encoded, nor in letters that only look the same."""
    with pytest.raises(PathRejected):
        check_path(path, hidden=("owners",))


@given(st.text() | st.text(st.sampled_from("./\\%2eaf~")))
def test_every_path_is_refused_or_stays_inside(path: str) -> None:
    """No part of a path that is taken goes up, stays, or is hidden."""
    try:
        parts = check_path(path)
    except PathRejected:
        return
    assert parts
    assert all(part and not part.startswith(".") and "\0" not in part for part in parts)
