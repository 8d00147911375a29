"""What a person laid down, found by the reply that says it again: in any language."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.memory.ranking import query_terms
from holdfast.core.memory.standing import Uptake, find_standing, may_stand

RULE = Uptake(
    1,
    "Good morning! When naming attributes, start them with 't_'.",
    "Noted. I'll start all attributes with 't_'.",
)
SMALL_TALK = Uptake(2, "It rained on the market today, what a pity.", "Oh no! Stay warm.")


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        ("Always include try statements in functions.", "Sure, try statements in all functions."),
        ("Attribute heißen bei uns immer mit Vorsilbe.", "Gut, Attribute mit Vorsilbe also."),
        (
            "Все имена атрибутов начинай с подчёркивания.",
            "Хорошо, имена атрибутов с подчёркивания.",
        ),
    ],
)
def test_what_a_reply_says_again_stands(said: str, reply: str) -> None:
    assert may_stand(said, reply)
    assert not may_stand(said, "OK.")
    assert not may_stand(said, f"{reply} {'Here is how that is done. ' * 40}")  # it answers
    assert not may_stand(f"{said[:-1]}?", reply)  # a question lays nothing down


def test_it_stands_whatever_is_asked() -> None:
    (words,) = find_standing([RULE, SMALL_TALK], query_terms("a linked list class"), 1_000)

    assert words.exchange == RULE.id
    assert words.text == "When naming attributes, start them with 't_'."


def test_a_later_value_replaces_the_earlier_one() -> None:
    later = Uptake(
        3,
        "From today, when naming attributes, start them with 'q_'.",
        "Understood, attributes will start with 'q_'.",
    )
    (words,) = find_standing([RULE, later], {}, 1_000)

    assert "'q_'" in words.text
    (words,) = find_standing([later, Uptake(4, RULE.said, RULE.reply)], {}, 1_000)
    assert "'t_'" in words.text  # the order of time decides


def test_a_rule_that_is_only_noted_stands() -> None:
    """A quotation shows what is laid down, and the words of rules that were taken up put it before
    small talk with a quotation."""
    noted = Uptake(3, "When naming methods, end them with '_m'.", "Noted, I will.")
    film = Uptake(4, "Yesterday we saw 'Heat', what a pity.", "Oh no!")
    first, second, _film = find_standing([RULE, noted, film], {}, 1_000)

    assert {first.exchange, second.exchange} == {RULE.id, noted.id}
    assert may_stand(noted.said, noted.reply)
    assert not may_stand("When naming methods, end them well.", noted.reply)


def test_a_rule_that_is_only_noted_replaces_an_earlier_one() -> None:
    noted = Uptake(3, "From now on, I need you to start attributes with 'q_'.", "Noted, I will.")
    (words,) = find_standing([RULE, noted], {}, 1_000)

    assert "'q_'" in words.text


def test_of_two_values_the_one_that_still_holds_is_left() -> None:
    both = Uptake(
        1,
        "Start attributes with 't_' and end methods with '_m'.",
        "I'll start attributes with 't_' and end methods with '_m'.",
    )
    later = Uptake(2, "From now on, end methods with '_q'.", "Sure, I'll end methods with '_q'.")
    texts = {words.text for words in find_standing([both, later], {}, 1_000)}

    assert texts == {"Start attributes with 't_' …", later.said}
    turned = Uptake(2, "Now start attributes with 'p_'.", "Sure, I'll start attributes with 'p_'.")
    texts = {words.text for words in find_standing([both, turned], {}, 1_000)}
    assert texts == {"… and end methods with '_m'.", turned.said}


def test_words_of_the_query_come_first() -> None:
    other = Uptake(
        5,
        "Put the decorator 'timer' on each function.",
        "Each function gets the decorator 'timer'.",
    )
    first, _second = find_standing([other, RULE], query_terms("attributes of a class"), 1_000)

    assert "attributes" in first.text
    first, _second = find_standing([other, RULE], query_terms("write a function"), 1_000)
    assert "function" in first.text


@given(
    st.lists(st.builds(Uptake, st.integers(), st.text(max_size=120), st.text(max_size=120))),
    st.integers(0, 300),
)
def test_a_block_is_bounded(exchanges: list[Uptake], cap: int) -> None:
    assert sum(len(words.text) for words in find_standing(exchanges, {}, cap)) <= cap
