"""Names in texts: paths, symbols, ids, versions, numbers."""

from __future__ import annotations

import pytest

from holdfast.core.extract.names import identifiers, mentions, rank_names, weigh
from holdfast.core.narrative.digest import Digest
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


@pytest.mark.parametrize(
    ("digests", "first"),
    [
        ([{"old_name": 1.0}, {"new_name": 1.0}], "new_name"),
        ([{"twice_said": 1.0}, {"once_said_": 1.0}, {"twice_said": 1.0}], "twice_said"),
        ([{"in_a_call": 3.0, "in_a_text": 1.0}], "in_a_call"),
        ([{"short": 1.0, "a_very_long_name_that_costs_much": 1.0}], "short"),
        (
            [{"a_very_long_name_that_costs_much": 9.0, "short": 1.0}],
            "a_very_long_name_that_costs_much",
        ),
        ([{"name_b": 1.0, "name_a": 1.0}], "name_a"),
    ],
)
def test_names_that_later_steps_need_come_first(
    digests: list[dict[str, float]], first: str
) -> None:
    """The recent, the repeated, those of calls, and at the same weight the short."""
    found = rank_names([Digest("r", names=names, is_step=True) for names in digests])
    assert found[0] == first
    assert sorted(found) == sorted({name for names in digests for name in names})


def test_mention_counts_half_after_eighty_steps() -> None:
    """Steps make a name old; records that are no steps do not."""
    for steps, first in ((79, "old_name"), (81, "new_name")):
        digests = [
            Digest("old", names={"old_name": 2.0}),
            *(Digest("step", is_step=True) for _ in range(steps)),
            *(Digest("note") for _ in range(30)),
            Digest("new", names={"new_name": 1.0}),
        ]
        assert rank_names(digests)[0] == first


def test_numbers_weigh_little_and_boilerplate_nothing() -> None:
    """A line number or `__init__` does not push a real name out."""
    found = weigh(["18080", "__init__", "TYPE_CHECKING", "/dev/null", "name", "real_name"], 2.0)
    assert set(found) == {"18080", "real_name"}
    assert found["18080"] < 1.0 < found["real_name"] == 2.0


def test_what_any_agent_knows_weighs_less() -> None:
    """`os.path` is in every second file; `billing.charge` is in this project."""
    found = weigh(["os.path", "fmt.Errorf", "this.items", "billing.charge"], 2.0)
    assert {name for name, weight in found.items() if weight < 2} == set(found) - {"billing.charge"}


@pytest.mark.parametrize("quoted", ["`run()`", "`name_of:`", '`"some_key",`'])
def test_punctuation_around_a_quoted_name_is_no_part_of_it(quoted: str) -> None:
    assert all(
        name[-1].isalnum() and name[0].isalnum() for name in identifiers(f"see {quoted} now")
    )


def test_escaped_lines_are_lines() -> None:
    """JSON that was printed has its line breaks as two characters; a path of Windows has none."""
    assert identifiers(r"done\nFixFoo\tbar_baz") == ["FixFoo", "bar_baz"]
    assert "new_dir" in identifiers(r"C:\new_dir\table_one")


def test_names_that_everything_has_are_left_out() -> None:
    weights = weigh(["content", "/dev/null", "Learnings:", "parse_header", "8080"], 1.0)
    assert list(weights) == ["parse_header", "8080"]
    assert weights["8080"] < weights["parse_header"]
