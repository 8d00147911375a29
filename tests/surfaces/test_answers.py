"""Tables at a terminal: however narrow it is, every cell is there and no word is broken."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.surfaces.answers import GAP, StyledTable, layout, natural_width
from holdfast.surfaces.formatting import cell_width

WORDS = st.text("ab1,.é漢", min_size=1, max_size=12)
TEXTS = st.lists(WORDS, max_size=6).map(" ".join)
TABLES = st.integers(1, 8).flatmap(
    lambda count: st.builds(
        StyledTable,
        st.tuples(*[st.builds(str.__add__, st.sampled_from(["", ">"]), TEXTS)] * count),
        st.lists(st.tuples(*[TEXTS] * count), max_size=4).map(tuple),
    )
)
SESSIONS = StyledTable(
    (">Cost", ">Calls", ">Tokens", "Date", "Session", "Model", "First words"),
    (
        ("$30.33+", "453", "202,090", "2025-11-20", "d703a1a9-1b7b", "claude-sonnet-4-5", "Fix it"),
        ("", "0", "0", "", "29eb990e-c773", "", ""),
    ),
)


def lines_of(table: StyledTable, width: int | None = None) -> list[str]:
    return [GAP.join(cell.text for cell in line) for line in layout(table, width)]


@examples(200)
@given(table=TABLES, width=st.integers(32, 120))
@example(table=SESSIONS, width=32)
@example(table=SESSIONS, width=60)
@example(table=StyledTable(("Id", "Why"), (("abc", "because " * 30),)), width=40)
@example(table=StyledTable(("", ">"), (("", "1"),)), width=32)
@example(table=StyledTable(("x" * 12, "y" * 12), (("a", "1 1 1 1 11111111 1"),)), width=31)
def test_a_table_fits_and_keeps_every_word(table: StyledTable, width: int) -> None:
    """Each line is at most as wide as the terminal; the words of headings and cells are all there,
    as often as they are in the table."""
    lines = lines_of(table, width)
    assert max(cell_width(line) for line in lines) <= width
    cells = [heading.lstrip(">").upper() for heading in table.columns]
    cells += [str(cell) for row in table.rows for cell in row]
    expected = sorted(word for cell in cells for word in cell.split())
    assert sorted(word for line in lines for word in line.split()) == expected


@examples(100)
@given(table=TABLES)
@example(table=SESSIONS)
def test_a_table_that_fits_is_one_line_for_each_row(table: StyledTable) -> None:
    """At its own width, and at any that is larger; with one column less it is not."""
    plain = lines_of(table)
    wide = natural_width(table)
    assert len(plain) == len(table.rows) + 1
    assert {cell_width(line) for line in plain} == {wide}
    assert lines_of(table, wide + 7) == plain


def test_prose_is_wrapped_before_a_row_is_folded() -> None:
    """A row goes on in an indented line only where prose in its column could not be read."""
    table = StyledTable(("Id", "Why", ">Size"), (("abc", "because it was too long", "1,234"),))
    assert [line.rstrip() for line in lines_of(table, 28)] == [
        "ID   WHY                SIZE",
        "abc  because it was    1,234",
        "     too long",
    ]
    assert [line.rstrip() for line in lines_of(SESSIONS, 36)] == [
        "   COST  CALLS   TOKENS  DATE",
        "    SESSION        MODEL",
        "    FIRST WORDS",
        "$30.33+    453  202,090  2025-11-20",
        "    d703a1a9-1b7b  claude-sonnet-4-5",
        "    Fix it",
        "             0        0",
        "    29eb990e-c773",
    ]


def test_a_name_wider_than_a_line_is_broken_and_not_cut() -> None:
    table = StyledTable(("File", ">Tokens"), (("/a/very/long/path/to/a/file.go", "12"),))
    lines = [line.strip() for line in lines_of(table, 24)]
    assert "".join(lines[-3:-1]) == "/a/very/long/path/to/a/file.go"
    assert lines[-1] == "12"
