"""Facts in texts: files, values and names, and what is none of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.evaluation.needs import fact_kind, facts_in

WORDS = st.text("abcxyz019-", min_size=1, max_size=8).filter(lambda word: word.strip("-") == word)
HOSTS = st.builds(
    "{}.{}".format,
    st.lists(WORDS, min_size=1, max_size=2).map(".".join),
    st.sampled_from(("com", "org", "io")),
)
PATHS = st.lists(
    st.builds("{}{}".format, WORDS, st.sampled_from(("", ".py", ".md"))), min_size=1, max_size=4
)
AROUND = st.sampled_from((" {} ", "see {}.", "({})", "`{}`", '"{}"', "<{}>", "a: {}, b", "[x]({})"))


@given(
    scheme=st.sampled_from(("", "http://", "https://", "git+ssh://", "s3://")),
    host=HOSTS,
    path=PATHS.map("/".join),
    around=AROUND,
)
def test_an_address_of_the_web_names_no_file(
    scheme: str, host: str, path: str, around: str
) -> None:
    """An address is one value, whatever stands around it; no part of it is a file."""
    address = f"{scheme}{host}/{path}"
    found = facts_in(around.format(address))

    assert address in found
    assert {fact for fact in found if fact_kind(fact) == "file"} == set()


@given(path=PATHS.map("/".join), lead=st.sampled_from(("/", "./", "../", "~/", "src/", "file:///")))
def test_a_path_is_a_file(path: str, lead: str) -> None:
    """A path on this machine is one, also in an address with `file:`."""
    found = facts_in(f"open {lead}{path} now")

    expected = f"{lead.removeprefix('file://')}{path}".strip(".")  # as the end of a sentence is
    assert len(expected) < 4 or (expected in found and fact_kind(expected) == "file")


@pytest.mark.parametrize(
    ("fact", "kind"),
    [
        ("github.com/a/b", "value"),
        ("https://github.com/a/b/blob/main/c.py", "value"),
        ("src/app.com.py", "file"),
        ("docs/design.md", "file"),
        ("design.md", "file"),
        ("retry_count", "name"),
        ("8443", "value"),
    ],
)
def test_kinds(fact: str, kind: str) -> None:
    """Each kind by an example."""
    assert fact_kind(fact) == kind
    assert fact in facts_in(f"so {fact} it is")
