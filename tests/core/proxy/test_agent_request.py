"""A request to an agent: what it asks for, and the text of the answer as it is sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.dialects.common.digests import Atom, AtomKind
from holdfast.core.dialects.registry import all_dialects
from holdfast.core.proxy.agent_request import (
    SEPARATOR,
    SaidText,
    check_fields,
    find_agent,
    find_last_message,
)
from holdfast.core.proxy.endpoints import ProxyProblem

CALLS = st.lists(
    st.tuples(st.lists(st.text("ab\n ", min_size=1), max_size=4), st.booleans()), max_size=5
)
"""Calls of one turn: the pieces of each, and whether it fails and is made again."""


@given(CALLS, st.randoms())
@examples(500)
def test_a_stream_is_the_whole_text_or_has_it_behind(
    calls: list[tuple[list[str], bool]], luck: object
) -> None:
    """A client has the whole text in the end, whatever failed, and each word of it once where the
    text of a failed call came again."""
    said, got, texts = SaidText(), "", []
    for pieces, fails in calls:
        for piece in pieces if fails else ():
            got += said.add(piece)
        if fails:
            said.restart()
        for piece in pieces:
            got += said.add(piece)
        said.settle()
        texts.append("".join(pieces))
    whole = SEPARATOR.join(filter(None, texts))
    got += said.finish(whole)
    assert got == said.sent == whole


@given(st.text(min_size=1), st.text(min_size=1))
def test_another_text_stands_behind_the_first(failed: str, text: str) -> None:
    said = SaidText()
    got = said.add(failed)
    said.restart()
    got += said.add(text)
    got += said.finish(text)
    assert got.endswith(text)
    assert got == text or text.startswith(failed) or got == failed + SEPARATOR + text


def test_only_the_agents_of_the_server_are_found() -> None:
    assert find_agent("holdfast/a", ["a", "b"]) == "a"
    assert find_agent("gpt-4o", ["a"]) == ""
    with pytest.raises(ProxyProblem, match="no agent `c`"):
        find_agent("holdfast/c", ["a"])


def test_what_asks_for_nothing_is_taken_and_what_is_not_done_is_refused() -> None:
    """In each dialect: empty values pass, tuning is named, everything else is an error."""
    for dialect in all_dialects():
        api = dialect.agent
        values: list[object] = [None, [], {}, "", False]
        plain = {name: value for name in ("tools", "x") for value in values}
        assert check_fields({**plain, **api.plain_values}, api) == []
        assert check_fields(dict.fromkeys(api.fields, 1), api) == []
        tuned = dict.fromkeys(sorted(api.tuning_fields), 1)
        assert check_fields(tuned, api) == sorted(api.tuning_fields)
        for name in ("tools", "no_such_field"):
            with pytest.raises(ProxyProblem, match=f"`{name}`"):
                check_fields({name: 1}, api)


@pytest.mark.parametrize(
    ("kinds", "place"),
    [(["user"], 0), (["user", "assistant", "user"], 2), (["assistant"], -1), ([], -1)],
)
def test_the_last_message_is_the_users(kinds: list[AtomKind], place: int) -> None:
    atoms = [Atom(kind, b"", number) for number, kind in enumerate(kinds)]
    if place < 0:
        with pytest.raises(ProxyProblem):
            find_last_message(atoms)
    else:
        assert find_last_message(atoms) == place


def test_blocks_of_one_message_are_one() -> None:
    atoms = [Atom("user", b"1", 0), Atom("assistant", b"2", 1), *[Atom("user", b"3", 2)] * 3]
    assert find_last_message(atoms) == 2
