"""Instructions over time: what repeats is merged, what is contradicted is replaced, nothing else
goes."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.core.extract.instructions import (
    fit_instructions,
    instruction_key,
    merge_instructions,
)
from holdfast.core.extract.statements import OTHER, find_statements, weakness
from holdfast.core.sentences.reading import FACT, LIKELY, RULE
from holdfast.core.tokens.counting import Estimator

COUNTER = Estimator()


@pytest.mark.parametrize(
    "said",
    [
        ("Never touch billing.py.", "Please never touch billing.py!"),
        ("Always run make check.", "As I said, run make check."),
        ("Don't rename load_config.", "Do not rename load_config."),
        ("Use tabs.", "Make sure to use tabs."),
    ],
)
def test_repeated_instruction_is_listed_once(said: tuple[str, str]) -> None:
    """The wording that was used last stays."""
    assert merge_instructions(said) == [said[-1]]


@pytest.mark.parametrize(
    "said",
    [
        ("Never touch billing.py.", "You may touch billing.py again."),
        ("Use tabs in the config.", "Don't use tabs in the config."),
        ("Don't use tabs in the config.", "From now on, use tabs in the config."),
        ("The ticket is QK-1.", "The ticket is now QK-2."),
        ("Our staging server is heron.", "Our staging server is egret."),
        ("Keep max_retries at 3.", "Set max_retries to 5."),
        ("use postgres for the queue", "use redis for the queue"),
        ("Write tabs.", "Write spaces instead of tabs."),
        ("Always sign the commits.", "Forget what I said about the commits."),
    ],
)
def test_later_instruction_replaces_what_it_contradicts(said: tuple[str, str]) -> None:
    """The user changed his mind."""
    assert merge_instructions(said) == [said[-1]]


@pytest.mark.parametrize(
    "said",
    [
        ("Never commit to main.", "Commit to main."),
        ("The ticket is QK-1.", "The ticket for the docs is QK-2."),
        ("The owner is Ines.", "The second owner is also Tom."),
        ("Never touch billing.py.", "Never touch pricing.py."),
        ("Keep max_retries at 3.", "Keep max_wait at 3."),
        ("use postgres for the queue", "also use redis for the queue"),
        ("The rule is never to log names.", "The rule is never to log addresses."),
        ("Do not use tabs in Python files.", "Use tabs in every Makefile."),
    ],
)
def test_doubtful_instruction_replaces_nothing(said: tuple[str, str]) -> None:
    """A request may be an exception, another subject is another rule: both stay, in order."""
    assert merge_instructions(said) == list(said)


WORDS = st.sampled_from(
    [
        "never",
        "always",
        "use",
        "touch",
        "tabs",
        "main",
        "the",
        "not",
        "again",
        "instead",
        "of",
        "for",
        "it",
    ]
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=6).map(" ".join)


@given(said=st.lists(SENTENCES, max_size=12))
def test_merging_keeps_sentences_as_they_were_said(said: list[str]) -> None:
    """Nothing is made up, no key occurs twice, the newest always stays, and merging what was
    merged changes nothing."""
    merged = merge_instructions(said)
    assert set(merged) <= set(said)
    keys = [instruction_key(sentence) for sentence in merged]
    assert len(set(keys)) == len(keys)
    assert merged[-1:] == said[-1:]
    assert merge_instructions(merged) == merged


@given(
    said=st.lists(SENTENCES, unique=True, max_size=12),
    room=st.integers(0, 120),
)
def test_list_that_is_too_long_keeps_its_order(said: list[str], room: int) -> None:
    """It fits, and is as it was where all of it fits."""
    kept = fit_instructions(said, {}, room, COUNTER)
    sizes = {sentence: COUNTER.count(f"- {sentence}\n") for sentence in said}
    assert sum(sizes[sentence] for sentence in kept) <= room
    assert kept == [sentence for sentence in said if sentence in set(kept)]
    assert kept == said or sum(sizes.values()) > room


def test_oldest_and_newest_stay_alike_and_rules_before_requests() -> None:
    """The middle goes first, and a request before a ban."""
    rules = [f"Never touch module_{number}.py." for number in range(20)]
    room = 10 * COUNTER.count(f"- {rules[10]}\n")
    kept = fit_instructions(rules, {}, room, COUNTER)
    assert kept[0] == rules[0]
    assert kept[-1] == rules[-1]
    assert abs(sum(rule in rules[:10] for rule in kept) - len(kept) / 2) <= 1
    asked = [f"Add a flag to tool_{number}.py." for number in range(20)]
    assert weakness(asked[0]) > weakness(rules[0])
    assert fit_instructions([*asked, *rules], {}, room, COUNTER) == kept


@given(st.integers(1, 400), st.integers(1, 40), st.integers(60, 3_000))
@example(rules=400, facts=40, room=1_000)
def test_rules_leave_a_share_of_the_list_to_facts(rules: int, facts: int, room: int) -> None:
    laid_down = [f"Never touch module_{n} of the old importer." for n in range(rules)]
    stated = [f"The ticket of the nightly export {n} is HF-{n}." for n in range(facts)]
    assert {weakness(fact) for fact in stated} == {FACT}

    kept = fit_instructions([*laid_down, *stated], {}, room, COUNTER)

    sizes = {fact: COUNTER.count(f"- {fact}\n") for fact in stated}
    used = sum(size for fact, size in sizes.items() if fact in kept)
    assert used + max(sizes.values()) > min(sum(sizes.values()), int(room * 0.3))
    if len(kept) < rules + facts and rules > 40:
        assert sum(fact in kept for fact in stated) <= 0.5 * len(kept)


@pytest.mark.parametrize(
    "said",
    [
        "The ticket of the nightly report is HF-81404A.",
        "Our contact at the bank is Ines.",
        "The budget for the second quarter is 400 euros.",
        "The owner of the billing table is the payments team.",
    ],
)
def test_fact_of_something_is_a_fact(said: str) -> None:
    assert weakness(said) == FACT


def test_what_is_said_for_the_record_is_as_strong_as_a_rule() -> None:
    assert weakness("For the record: the invoices went out on Monday.") == RULE


def test_pasted_document_gives_way_to_other_messages() -> None:
    """A hundred rules of one message do not push those of a hundred messages out."""
    pasted = [f"Clients must not send header_{number}." for number in range(40)]
    typed = [f"Never touch module_{number}.py." for number in range(10)]
    room = sum(COUNTER.count(f"- {text}\n") for text in (*typed, *pasted[:9]))
    sources = dict.fromkeys(pasted, "paste")
    for said in ([*pasted, *typed], [*typed, *pasted], [*typed[:5], *pasted, *typed[5:]]):
        assert set(typed) <= set(fit_instructions(said, sources, room, COUNTER))


def test_instructions_anywhere_in_a_giant_message_are_found() -> None:
    """However long it is, and wherever they stand in it."""
    lines = [f"line {number} went by\n" for number in range(8_000)]
    for place in (0, 1_500, 4_000, 7_000, 8_000):
        text = "".join((*lines[:place], "Never touch heron.py.\n", *lines[place:]))
        assert find_statements(text) == ["Never touch heron.py."]


def test_something_of_a_thing_does_not_replace_the_thing() -> None:
    """`The ticket of the staging server is …` says nothing about which server it is."""
    said = [
        "Our staging server is heron.",
        "The ticket of the staging server is QK-1.",
        "The owner of the release branch is Ines.",
        "The release branch is main-2.",
    ]
    assert merge_instructions(said) == said


def test_surest_statements_stay_where_there_are_too_many() -> None:
    """Words that only look like an order go before rules and facts."""
    noise = [f"Write call number answer {number} more table time." for number in range(40)]
    sure = [
        "Never touch heron.py.",
        "For the record: the port is 8443.",
        "Our client is Brightwater.",
    ]
    assert {weakness(text) for text in noise} <= {LIKELY, OTHER}
    room = sum(COUNTER.count(f"- {text}\n") for text in (*sure, *noise[:3]))
    kept = fit_instructions([*noise[:20], *sure, *noise[20:]], {}, room, COUNTER)
    assert set(sure) <= set(kept)
