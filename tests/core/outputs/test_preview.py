"""Previews: within any cap, exact about what is missing, and true in everything they say."""

from __future__ import annotations

import json
import re
from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.strategies import texts as any_texts
from tests.support.runs import sample

from holdfast.core.outputs.preview import Preview, count_lines, preview
from holdfast.core.text.cut import scrub

REF = "0123456789abcdef"
TRACE = (
    "Traceback (most recent call last):\n"
    '  File "app.py", line 9, in <module>\n'
    "    run()\n"
    '  File "app.py", line 4, in run\n'
    '    raise ValueError("the end of it")\n'
    "ValueError: the end of it\n"
)
LEVELS = ("DEBUG", "INFO", "WARN", "ERROR", "FATAL")


def log_of(levels: list[str]) -> str:
    return "".join(
        f"2026-01-01T00:{number // 60 % 60:02}:{number % 60:02}Z {level} request {number} done\n"
        for number, level in enumerate(levels)
    )


LOG = log_of(["INFO", "INFO", "WARN", "INFO", "ERROR"] * 400)
SOURCE = "".join(f"def function_{n}(value):\n    return value + {n}\n\n\n" for n in range(400))
JSON = json.dumps({"rows": [{"id": n, "name": f"row {n}"} for n in range(900)], "total": 900})
CSV = "id,name,when\n" + "".join(f"{n},row {n},today\n" for n in range(1_500))
MARKDOWN = "".join(f"## Part {n}\n\nSome words about part {n}.\n\n" for n in range(400))
LINES = "".join(f'{{"id": {n}, "name": "row {n}"}}\n' for n in range(900))
SHAPES = {
    "log": LOG,
    "text": "words and words and more words\n" * 900,
    "source": SOURCE,
    "json": JSON,
    "lines": LINES,
    "table": CSV,
    "markdown": MARKDOWN,
    "one line": "x" * 30_000,
    "traceback": "doing it\n" * 2_000 + TRACE,
    "wide": "漢字かな交じり文。\n" * 4_000,
    "blank": "\n" * 20_000,
}


def shown(text: str, cap: int) -> Preview:
    return preview(text, cap, ref=REF)


# Within the cap


@given(any_texts(120), st.integers(0, 400))
@example("a\n" * 500, 0)
def test_previews_are_within_any_cap(text: str, cap: int) -> None:
    """For any text and any cap from 0 up; whole where it fits; the same every time."""
    made = shown(text, cap)
    assert len(made.text) <= cap
    assert made == shown(text, cap)
    clean = scrub(text)
    assert made.lines == count_lines(clean) == len(lines_of(clean))
    if len(clean) <= cap:
        assert made.text == clean


def lines_of(text: str) -> list[str]:
    lines = text.split("\n")
    return lines if lines[-1] else lines[:-1]


@pytest.mark.parametrize("name", SHAPES)
def test_previews_of_every_shape_are_within_every_cap(name: str) -> None:
    """All the caps at which something more begins to fit, and far beyond."""
    for cap in sample((*range(0, 1_500, 17), *range(1_500, 9_000, 431)), share=1 / 12):
        assert len(shown(SHAPES[name], cap).text) <= cap


@given(any_texts(120), st.integers(600, 2_500), st.sampled_from(["", "{", "a,b\n", "# x\n## y\n"]))
def test_previews_of_long_texts_of_anything_are_within_the_cap(
    text: str, cap: int, lead: str
) -> None:
    """Whatever it begins like."""
    assert len(shown(lead + (text + "\n") * 60, cap).text) <= cap


# What is shown and what is not


def parts_of(made: str) -> tuple[str, str, int, int, int, int]:
    """The beginning, the end, and what the gap says is between them."""
    body = made.split(f"[Output, ref {REF}:]\n", 1)[1]
    gap = re.search(
        rf"\[… ([\d,]+) characters left out: offset (\d+) to (\d+), lines (\d+) to (\d+), "
        rf"ref {REF} …\]\n",
        body,
    )
    assert gap is not None
    count, start, end, first, last = (int(one.replace(",", "")) for one in gap.groups())
    assert count == end - start
    tail = body[gap.end() :].removesuffix(f"[End of the preview, ref {REF}]")
    return body[: gap.start()], tail, start, end, first, last


@pytest.mark.parametrize("cap", [620, 1_000, 4_000, 8_000])
@pytest.mark.parametrize("name", SHAPES)
def test_gaps_say_exactly_what_is_missing(name: str, cap: int) -> None:
    """Beginning, gap and end are the text: by character, and by line."""
    text = SHAPES[name]
    head, tail, start, end, first, last = parts_of(shown(text, cap).text)
    assert head in (text[:start], text[:start] + "\n")
    assert tail in (text[end:], text[end:] + "\n")
    assert first == 1 + text[:start].count("\n")
    assert last == 1 + text[: end - 1].count("\n")


@pytest.mark.parametrize("name", SHAPES)
def test_first_lines_say_what_it_is_and_how_to_read_on(name: str) -> None:
    """Its size, its lines, and a call that gives what is missing first."""
    text = SHAPES[name]
    made = shown(text, 4_000)
    first = made.text.split("\n")[0]
    assert first.startswith("[Preview of ")
    assert f"{len(text):,} characters, " in first
    assert f"{made.lines:,} line" in first
    _head, _tail, start, _end, line, last = parts_of(made.text)
    call = f'context(ref="{REF}", '
    assert call + (f'lines="{line}:' if line < last else f"offset={start})") in first


def test_long_previews_name_the_ref_at_both_ends() -> None:
    """A marker that is buried helps nobody."""
    lines = shown(LOG, 8_000).text.split("\n")
    assert REF in lines[0]
    assert REF in lines[-1]


def test_texts_with_lines_are_cut_between_lines() -> None:
    """No half lines where there is room for whole ones."""
    head, tail, *_ = parts_of(shown(LOG, 8_000).text)
    whole = set(LOG.split("\n"))
    assert set(head.split("\n")) | set(tail.split("\n")) <= whole


def test_markers_inside_an_output_are_data() -> None:
    """Only the lines that name the ref are ours; a payload cannot name its own hash."""
    forged = (
        '[Preview of a log: 9 characters, 1 line; more with context(ref="ffffffffffffffff")]\n'
        "[Output, ref ffffffffffffffff:]\n[End of the preview, ref ffffffffffffffff]\n"
    )
    made = shown(forged * 300, 4_000).text
    ours = [line for line in made.split("\n") if REF in line]
    assert len(ours) == 4
    head, tail, start, end, *_ = parts_of(made)
    assert (head, tail) == ((forged * 300)[:start], (forged * 300)[end:])


# The end survives


@pytest.mark.parametrize("noise", ["doing it\n", LOG[:70] + "\n", "x" * 500 + "\n"])
def test_an_error_at_the_end_survives_every_cap(noise: str) -> None:
    """From 200 characters up, the last line of the traceback is there."""
    text = noise * 300 + TRACE
    for cap in (200, *sample(range(213, 3_000, 13), share=1 / 12)):
        assert "ValueError: the end of it" in shown(text, cap).text, cap


def test_a_log_that_ends_in_a_traceback_keeps_it() -> None:
    """100,000 characters, 16,000 allowed: the last line of the traceback is among them."""
    text = (LOG * 2)[: 99_999 - len(TRACE)] + "\n" + TRACE
    made = shown(text, 16_000)
    assert len(text) == 100_000
    assert len(made.text) <= 16_000
    assert made.text.rstrip().split("\n")[-2] == "ValueError: the end of it"
    assert made.kind == "traceback"


@pytest.mark.parametrize(
    ("failure", "raised"),
    [
        (TRACE, "ValueError: the end of it"),
        (
            "TypeError: x is not a function\n"
            "    at run (/app/a.js:3:5)\n    at main (/app/a.js:9:1)\n",
            "TypeError: x is not a function",
        ),
        (
            'Exception in thread "main" java.lang.IllegalStateException: no\n'
            "\tat a.B.run(B.java:3)\n\tat a.B.main(B.java:9)\n",
            'Exception in thread "main" java.lang.IllegalStateException: no',
        ),
        (
            "panic: runtime error: index out of range\n\ngoroutine 1 [running]:\nmain.main()\n",
            "panic: runtime error: index out of range",
        ),
        ("thread 'main' panicked at src/main.rs:2:5:\nboom\n", "panicked at src/main.rs:2:5"),
    ],
)
def test_an_exception_in_the_middle_survives(failure: str, raised: str) -> None:
    """However much is printed after it, and with its line."""
    text = "doing it\n" * 3_000 + failure + "tidying up\n" * 3_000
    made = shown(text, 4_000)
    facts = made.text.split(f"[Output, ref {REF}:]")[0]
    assert "The last exception:" in facts
    assert raised in facts
    assert made.kind == "traceback"


def test_frames_without_an_exception_are_no_trace() -> None:
    """However many of them there are: each is looked at once."""
    assert shown("    at foo (bar:1)\n" * 100_000, 4_000).kind == "text"


@pytest.mark.parametrize(
    "line",
    [
        "=========== 3 failed, 120 passed in 4.20s ===========",
        "FAILED tests/test_a.py::test_b - AssertionError",
        "--- FAIL: TestThing (0.01s)",
        "Exit code 1",
        "Process exited with code 137",
        "Command failed with exit status 2: make",
        "src/main.c:12:5: error: expected ';'",
        "src/app.ts(3,7): error TS2322: Type 'x'",
        "error[E0308]: mismatched types",
        "make: *** [all] Error 2",
        "npm ERR! code ELIFECYCLE",
        "E       AssertionError: assert 1 == 2",
        "fatal: not a git repository",
        "Ran 12 tests in 0.3s",
    ],
)
def test_lines_that_tell_of_failure_are_found(line: str) -> None:
    """With their number, wherever in the output they stand."""
    text = "all is well here\n" * 2_000 + line + "\n" + "and goes on\n" * 2_000
    facts = shown(text, 4_000).text.split(f"[Output, ref {REF}:]")[0]
    assert "1 line about failures or results:" in facts
    assert f"  line 2001: {line}" in facts


# Facts are so


@given(st.lists(st.sampled_from(LEVELS), min_size=120, max_size=400))
def test_levels_of_a_log_are_counted(levels: list[str]) -> None:
    """The same numbers as a count by hand, and the times of the first and last line."""
    text = log_of(levels)
    made = shown(text, 3_000)
    assert made.kind == "log"
    for level, count in Counter(levels).items():
        assert re.search(rf"Lines by level: .*\b{level} {count}\b", made.text)
    last = text.split("\n")[-2].split(" ")[0]
    assert f"First time 2026-01-01T00:00:00Z, last time {last}." in made.text


@pytest.mark.parametrize("cap", [1_500, 4_000, 8_000])
@pytest.mark.parametrize("name", SHAPES)
def test_lines_that_are_listed_stand_where_it_says(name: str, cap: int) -> None:
    """Every `line N: …` among the facts is the beginning of that line."""
    text = SHAPES[name]
    facts = shown(text, cap).text.split(f"[Output, ref {REF}:]")[0]
    lines = text.split("\n")
    for number, said in re.findall(r"^  line (\d+)(?: and [\d,]+ alike)?: (.*)$", facts, re.M):
        assert lines[int(number) - 1].strip().startswith(said.removesuffix("…"))


def test_errors_of_a_log_are_listed_once_with_how_often_they_come() -> None:
    """Lines that differ only in numbers are one entry."""
    text = log_of(["INFO"] * 300)
    text += "2026-01-01T01:00:00Z ERROR disk 7 full\n" * 3 + "2026-01-01T01:00:01Z ERROR no net\n"
    text += log_of(["INFO"] * 300)
    made = shown(text, 4_000).text
    assert "Errors, 2 different:" in made
    assert "  line 301 and 2 alike: 2026-01-01T01:00:00Z ERROR disk 7 full" in made
    assert "  line 304: 2026-01-01T01:00:01Z ERROR no net" in made
    assert "600 lines are, but for numbers: INFO request # done" in made


@given(st.integers(60, 300), st.integers(2, 6), st.sampled_from(["\t", ",", ";"]))
def test_rows_of_a_table_are_counted(rows: int, columns: int, sign: str) -> None:
    """Names of the columns and number of rows, as they are."""
    names = [f"column {number}" for number in range(columns)]
    body = "".join(sign.join(["some text"] * columns) + "\n" for _ in range(rows))
    made = shown(sign.join(names) + "\n" + body * 3, 1_600)
    assert made.kind == "table"
    assert f"{3 * rows} rows below the names of {columns} columns: {', '.join(names)}" in made.text


def test_rows_with_quoted_line_ends_are_counted_as_rows() -> None:
    """A field may go over several lines."""
    text = "id,words\n" + "".join(f'{n},"one, two"\n' for n in range(200)) + '7,"a\nb"\n'
    assert "201 rows" in shown(text, 1_500).text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "| a | b |\n|---|---|\n" + "| some | words |\n" * 200,
            "(Markdown): 200 rows below the names of 2 columns: a, b",
        ),
        (
            "NAME       STATUS     AGE\n" + "pod-1      Running    3d\n" * 200,
            "(columns): 200 rows below the names of 3 columns: NAME, STATUS, AGE",
        ),
    ],
)
def test_tables_of_other_makes_are_known(text: str, said: str) -> None:
    """Markdown, and columns as commands print them."""
    made = shown(text, 1_500)
    assert made.kind == "table"
    assert said in made.text


@given(st.integers(100, 300), st.integers(1, 5))
def test_json_is_described_by_level(count: int, keys: int) -> None:
    """Types, numbers of keys and elements, and the first and last element of an array."""
    row = {f"key{number}": number for number in range(keys)}
    made = shown(json.dumps({"rows": [row] * count, "next": None, "ok": True}), 1_400)
    if len(json.dumps({"rows": [row] * count, "next": None, "ok": True})) <= 1_400:
        return
    assert made.kind == "json"
    assert "JSON: an object with 3 keys" in made.text
    assert f"  rows: an array of {count} (object)" in made.text
    assert f"    keys of the first object: {', '.join(row)}" in made.text
    assert "  next: null null" in made.text


def test_json_arrays_show_their_ends() -> None:
    """The first element and the last."""
    made = shown(json.dumps([{"id": n} for n in range(3_000)]), 4_000)
    assert "JSON: an array of 3,000 (object)" in made.text
    assert 'First element: {"id":0}' in made.text
    assert 'Last element: {"id":2999}' in made.text


def test_json_of_many_kinds_is_described() -> None:
    """Every kind of value, keys beyond those shown, and names that would break a line."""
    value = {
        "numbers": [1, 2.5],
        "mixed": [None, True, "x", [], {f"key {n}": n for n in range(60)}],
        "deep": {"er": {"est": 1}},
        "two\nlines": False,
        "words": "w" * 3_000,
        **{f"more {n}": n for n in range(60)},
    }
    made = shown(json.dumps(value), 4_000).text
    for said in (
        "JSON: an object with 65 keys",
        "  numbers: an array of 2 (number)",
        "  mixed: an array of 5 (array, boolean, null, object, text)",
        "key 39 and 20 more",
        "    er: an object with 1 keys",
        "  two lines: boolean false",
        "  words: text, 3,000 characters",
        "  … 25 more keys",
    ):
        assert f"\n{said}" in made or said.startswith("key"), said
    assert "more facts" in shown(json.dumps(value), 1_400).text


def test_json_lines_are_described_by_their_ends() -> None:
    """How many, and the keys of the first and the last."""
    made = shown(LINES, 2_500)
    assert made.kind == "json"
    assert "900 lines, and by the first and the last of them one object each." in made.text
    assert "The first has an object with 2 keys" in made.text


def test_json_too_long_to_parse_is_called_what_it_looks_like() -> None:
    """Keys near the beginning, and no number that was not counted."""
    text = '{"rows": [' + ",".join('{"id": 1}' for _ in range(500_000)) + "]}"
    made = shown(text, 2_000)
    assert made.kind == "json"
    assert "too long to be parsed here; keys near its beginning: rows, id" in made.text


@pytest.mark.parametrize("bad", ["{not json}" * 400, "[" * 5_000, "{" * 5_000 + "}" * 5_000])
def test_what_only_looks_like_json_is_text(bad: str) -> None:
    """Neither a bracket nor endless nesting makes it JSON."""
    assert shown(bad, 1_000).kind == "text"


@pytest.mark.parametrize(
    "text",
    [
        "| a | b |\n|---|---|\n" + "and then words\n" * 400,
        "NAME  STATUS  AGE\n" + "no-columns-here-at-all\n" * 400,
        "\n" + "a line without anything\n" * 400,
        "first, second\n" + "words, and, more, commas, here\n" * 400,
        "one\n" * 2,
    ],
)
def test_what_only_begins_like_a_table_is_text(text: str) -> None:
    """The rows have to agree with the first line."""
    assert shown(text, 1_000).kind == "text"


def test_names_of_columns_may_be_quoted() -> None:
    """With the sign that divides them inside."""
    made = shown('"id","last, first"\n' + '1,"Doe, Jane"\n' * 400, 2_000).text
    assert "400 rows below the names of 2 columns: id, last, first" in made


def test_traces_that_are_cut_off_are_traces() -> None:
    """Without what was raised, the last line that is there stands for it."""
    text = "doing it\n" * 2_000 + TRACE.rsplit("ValueError", 2)[0] + "\n"
    assert shown(text, 4_000).kind == "traceback"
    long = "doing it\n" * 2_000 + "thread 'main' panicked at " + "x" * 900 + "\n" + "on\n" * 900
    assert "The last exception:\n  line 2001: thread 'main' pan" in shown(long, 1_400).text


def test_lists_without_room_for_one_entry_are_left_out() -> None:
    """A heading alone says nothing."""
    text = "".join(f"def {'long' * 30}_{n}(value):\n    return value\n" for n in range(300))
    made = shown(text, 1_260).text
    assert ("Definitions" in made) is ("  line 1" in made)


def test_outlines_name_definitions_by_line() -> None:
    """Also where a tool has numbered the lines."""
    numbered = "".join(f"{n:>6}→{line}\n" for n, line in enumerate(SOURCE.split("\n"), 1))
    for text in (SOURCE, numbered):
        made = shown(text, 4_000)
        assert made.kind == "text"
        assert "Definitions, 400 in all:" in made.text
        assert "  line 1: def function_0(value):" in made.text
        assert "  line 1597: def function_399(value):" in made.text
        assert re.search(r"  … \d+ more\n", made.text)


def test_outlines_name_headings_and_files() -> None:
    """Headings of a document outside its code, and the files of a diff."""
    document = "# Title\n\n```sh\n# a comment\n```\n" + MARKDOWN
    made = shown(document, 4_000).text
    assert "Headings, 401 in all:" in made
    assert "# a comment" not in made.split(f"[Output, ref {REF}:]")[0]
    diff = "".join(f"diff --git a/f{n}.py b/f{n}.py\n" + "+line\n" * 50 for n in range(40))
    assert "Files of the diff, 40 in all:\n  line 1: diff --git a/f0.py" in shown(diff, 4_000).text


def test_long_outputs_are_described_by_their_ends_and_say_so() -> None:
    """What is counted in a part is said to be; line numbers of the end are true."""
    text = log_of(["INFO"] * 60_000) + "2026-01-02T00:00:00Z ERROR at the end\n"
    made = shown(text, 4_000)
    assert made.lines == 60_001
    assert re.search(r"In the first [\d,]+ and the last [\d,]+ lines: Lines by level:", made.text)
    assert "  line 60001: 2026-01-02T00:00:00Z ERROR at the end" in made.text
    short = "a\n" * 300_000 + "Exit code 3\n"
    assert "  line 300001: Exit code 3" in shown(short, 4_000).text
