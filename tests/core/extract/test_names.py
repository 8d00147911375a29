"""Names in texts: paths, symbols, ids, versions, numbers."""

from __future__ import annotations

import json

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.extract import names
from holdfast.core.extract.names import identifiers, mentions
from holdfast.core.tokens.counting import Estimator

COUNTER = Estimator()


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("see /etc/hosts.d/local for it", "/etc/hosts.d/local"),
        ("in src/app/main.go:42", "src/app/main.go"),
        ("run ./gradlew now", "./gradlew"),
        ("https://example.test/a/b?c=1 is it", "https://example.test/a/b?c=1"),
        ("call snake_case_name()", "snake_case_name"),
        ("call camelCaseName()", "camelCaseName"),
        ("set MAX_RETRY_COUNT=3", "MAX_RETRY_COUNT"),
        ("os.path.join it", "os.path.join"),
        ("commit 9fceb02d0ae5", "9fceb02d0ae5"),
        ("id 123e4567-e89b-12d3-a456-426614174000", "123e4567-e89b-12d3-a456-426614174000"),
        ("version v1.22.3", "v1.22.3"),
        ("port 18080", "18080"),
        ("use --dry-run first", "--dry-run"),
        ("the `retry` flag", "retry"),
    ],
)
def test_identifiers_are_found(text: str, name: str) -> None:
    """Whatever one would have to spell exactly."""
    assert name in identifiers(text)


def test_plain_words_are_no_identifiers() -> None:
    """Prose leaves no names, and a closing tag is no path."""
    assert identifiers("This is what we talked about, more or less.</note>") == []


def test_mentions_are_the_most_frequent_names_within_the_cap() -> None:
    """What a cleared result still tells, in one line."""
    text = "rare_name " + "common_name " * 5 + "1234567 " * 9
    assert mentions(text, 100, COUNTER).split() == ["common_name", "rare_name"]
    cap = COUNTER.count(" common_name")
    assert mentions(text, cap, COUNTER) == "common_name"
    assert mentions(text, 0, COUNTER) == ""


@pytest.mark.parametrize("quoted", ["`run()`", "`name_of:`", '`"some_key",`'])
def test_punctuation_around_a_quoted_name_is_no_part_of_it(quoted: str) -> None:
    assert all(
        name[-1].isalnum() and name[0].isalnum() for name in identifiers(f"see {quoted} now")
    )


def test_escaped_lines_are_lines() -> None:
    """JSON that was printed has its line breaks as two characters; a path of Windows has none."""
    assert identifiers(r"done\nFixFoo\tbar_baz") == ["FixFoo", "bar_baz"]
    assert "new_dir" in identifiers(r"C:\new_dir\table_one")


@pytest.mark.parametrize("mark", ["`", '"', "'"])
@pytest.mark.parametrize("name", ["retry", "preState", "some_key", "src/app/main.go", "v1.22.3"])
def test_a_name_quoted_in_printed_text_is_the_same(name: str, mark: str) -> None:
    """As often as a text was printed as JSON, or put in a string of a shell, which escape marks."""
    text = f"Use {mark}{name}{mark} here"
    for _print in range(3):
        assert identifiers(text) in ([name], []), text
        shell = text.replace(mark, f"\\{mark}")
        assert identifiers(shell) in ([name], []), shell
        text = json.dumps(text)


@given(st.text("aZ09f().,-_/:\\\"'*é…", max_size=14))
@example("defaced")
@example("(1234).")
@example("0xdeadbeef")
@example("Word5")
@example("A4B")
def test_words_that_need_no_pattern_have_the_names_it_finds(word: str) -> None:
    """Most words of a text are told at a glance, and no name is lost or made up by it."""
    found = [name.rstrip(".") for name in names._NAME.findall(names._unescape(word))]
    assert [*names._names(word)] == found
