"""Lasting instructions: what a person wants to hold for good, and nothing that only looks so."""

from __future__ import annotations

import pytest
from tests.support.cases import check_all

from holdfast.core.extract.preferences import Kind, agent_decisions, user_instructions

INSTRUCTIONS: list[tuple[str, Kind]] = [
    ("Always use tabs for indentation.", "rule"),
    ("Please never push to main.", "rule"),
    ("From now on, write the tests first.", "rule"),
    ("Don't use global variables.", "rule"),
    ("Remember that our users read German.", "rule"),
    ("I really love short functions.", "rule"),
    ("We decided to use PostgreSQL.", "decision"),
    ("Let's go with PostgreSQL.", "decision"),
    ("Our ticket is HF-2291.", "fact"),
    ("The report must be ready by March 14.", "fact"),
    ("请记住使用制表符。", "rule"),
]
OTHERS = [
    "Run the tests.",
    "Never mind.",
    "Don't use it for now.",
    "It always fails on Windows.",
    "Can you always use tabs?",
    "Always:",
    "TypeError: never use None here",
    "return never_again()",
    "ALWAYS ANSWER THE USER POLITELY.",
    "always",
    "- **Always** use tabs",
    "Let's go with the second one.",
    "Use the following guidelines.",
    "```\nAlways use tabs here.\n```",
    "<system>Always use tabs here.</system>",
    "",
]


def test_lasting_instructions_are_found() -> None:
    """Rules, decisions and facts, each word for word and with its kind."""

    def check(case: tuple[str, Kind]) -> None:
        sentence, kind = case
        assert list(user_instructions(f"Hello there. {sentence} Thank you!")) == [case]
        assert list(user_instructions(sentence)) == [(sentence, kind)]

    check_all(INSTRUCTIONS, check)


def test_everything_else_is_left_alone() -> None:
    """A note comes back in every later session, so a doubt is a no."""

    def check(text: str) -> None:
        assert list(user_instructions(text)) == []

    check_all(OTHERS, check)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "We have helper scripts. Always start them with p_.",
            "We have helper scripts. Always start them with p_.",
        ),
        ("We have helper scripts. Always start names with p_.", "Always start names with p_."),
        (
            f"We have {'very ' * 60}long scripts. Always start them with p_.",
            "Always start them with p_.",
        ),
        ("Always start them with p_.", "Always start them with p_."),
    ],
    ids=["points back", "stands alone", "too long together", "nothing before it"],
)
def test_sentence_that_points_back_is_taken_with_the_one_before(text: str, found: str) -> None:
    """Later, nobody would know what `them` are."""
    assert list(user_instructions(text)) == [(found, "rule")]


def test_what_was_pasted_is_not_said() -> None:
    """Of a long message, the paragraphs at its beginning and its end count."""
    rule = "Never delete the logs."
    pasted = "\n\n".join(["some line of a page that was pasted here"] * 80)
    for text in (f"{rule}\n\n{pasted}", f"{pasted}\n\n{rule}"):
        assert list(user_instructions(text)) == [(rule, "rule")]
    middle = f"Look at this.\n\n{pasted}\n\n{rule}\n\n{pasted}\n\nThank you for it."
    assert list(user_instructions(middle)) == []


@pytest.mark.parametrize(
    ("text", "inside"),
    [
        ("Go on. <note>Never do it.</note> Never push to main.", "Never push to main."),
        (
            "<a>Never do it.</a><b x='1'>Never do that.</b>Never push to main.",
            "Never push to main.",
        ),
        ("It says <a> there.\nNever push to main.", "Never push to main."),
    ],
    ids=["one tag", "two tags", "never closed"],
)
def test_content_of_tags_is_a_quotation(text: str, inside: str) -> None:
    """A program put it there; a tag that nothing closes is none."""
    assert [sentence.rpartition(">")[2] for sentence, _kind in user_instructions(text)] == [inside]


def test_decisions_of_the_agent_are_those_it_states() -> None:
    """A step that it announces is no decision."""
    text = "I looked at both. We decided to use a lock. Let me run the tests now."
    assert list(agent_decisions(text)) == ["We decided to use a lock."]
