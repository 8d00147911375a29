"""A reply that arrives in pieces loses nothing, and none of its words is broken."""

from __future__ import annotations

import itertools

from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.surfaces.cli.chat.console import WordWrap
from holdfast.surfaces.formatting import cell_width

WORDS = st.text(
    st.sampled_from("abcdefgh.,:;`'\"()-_/0123456789äöü世界こ한\n \t"), min_size=0, max_size=200
)


def rows_of(text: str, columns: int, used: int = 0) -> list[str]:
    """What a terminal of this width shows."""
    rows, row, at = [], "", used
    for char in text:
        if char == "\n":
            rows.append(row)
            row, at = "", 0
            continue
        size = 8 - at % 8 if char == "\t" else cell_width(char)
        if at + size > columns:
            rows.append(row)
            row, at = "", 0
        row, at = row + char, at + size
    return [*rows, row]


def wrap(pieces: list[str], columns: int, used: int = 0) -> str:
    wrapped = WordWrap()
    wrapped.start(used)
    return "".join(wrapped.feed(piece, columns) for piece in pieces) + wrapped.end(columns)


@given(text=WORDS, cuts=st.lists(st.integers(0, 200)), columns=st.integers(12, 60))
@example(text="one two three four five six", cuts=[5, 6, 9, 20], columns=12)
@example(text="a" * 30 + " bb", cuts=[3], columns=12)
@example(text="世界" * 20, cuts=[7], columns=13)
@example(text="\n\n  x", cuts=[], columns=12)
@examples(400)
def test_all_words_are_there_and_whole(text: str, cuts: list[int], columns: int) -> None:
    edges = sorted({0, len(text), *(cut for cut in cuts if cut < len(text))})
    pieces = [text[a:b] for a, b in itertools.pairwise(edges)]
    shown = wrap(pieces, columns)
    assert shown == wrap([text], columns), "the pieces do not matter"
    assert "".join(shown.split()) == "".join(text.split())
    assert shown.count("\n") == text.count("\n")
    rows = rows_of(shown.replace("\t", " "), columns)
    if not any(cell_width(char) > 1 for char in text) and "\t" not in text:
        whole = {word for word in text.split() if len(word) <= columns}
        seen = {word for row in rows for word in row.split()}
        assert whole <= seen


def test_the_name_takes_its_columns() -> None:
    assert rows_of(wrap(["one two three"], 12, 11), 12, 11) == [" ", "one two     ", "three"]
