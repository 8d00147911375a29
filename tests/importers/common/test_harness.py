"""Text of a program in the user's place: told apart on import, by its tags and its marks."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.importers.test_real_transcripts import check_files, load, wanted_format

from holdfast.core.log.listing import Facts
from holdfast.core.log.records import User
from holdfast.core.log.replay import user_text
from holdfast.core.narrative.digest import digest_record
from holdfast.importers.common.harness import bare_summary, refusal, user_extra

REMINDER = "<system-reminder>\nThe file changed. Always read it again.\n</system-reminder>"
MARKUP = re.compile(r"<[A-Za-z][\w -]*>|Caveat: The messages below|# AGENTS\.md instructions")
TASKS = ("<blank>", "<pr_description>")
"""Words of the user that begin like markup: a benchmark's task, and somebody's question."""
COMMAND = "<command-name>/review</command-name>\n<command-args>the parser</command-args>"


@pytest.mark.parametrize(
    "content",
    [
        REMINDER,
        f"  {REMINDER}\n{REMINDER}",
        "<environment_context>\n<cwd>/tmp</cwd>\n</environment_context>",
        "<command-name>/clear</command-name>\n<command-args></command-args>",
        "<local-command-stdout>done</local-command-stdout>",
        "<task-notification>\n<task-id>7</task-id>",
        "# AGENTS.md instructions for /repo\n\n<INSTRUCTIONS>\nNever push.\n</INSTRUCTIONS>",
        [{"type": "text", "text": REMINDER}, {"type": "text", "text": REMINDER}],
    ],
)
def test_text_of_a_program_is_nobodys_words(content: Any) -> None:
    """Neither a message, nor an instruction, nor a title."""
    record = User(content=content, extra=user_extra(content, {}))
    digest = digest_record(record)
    facts = Facts()
    facts.add(0, record)

    assert record.extra == {"meta": True}
    assert user_text(record) == ""
    assert digest is not None
    assert {passage.kind for passage in digest.passages} <= {"program"}
    assert facts.title == ""


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (f"{REMINDER}\nNever push to main.", "Never push to main."),
        ([{"type": "text", "text": REMINDER}, {"type": "text", "text": "Go on."}], "Go on."),
        (COMMAND, "the parser"),
        ("<USER_REQUEST>\nList them.\n</USER_REQUEST>\n", "List them."),
    ],
)
def test_the_users_words_beside_it_are_theirs(content: Any, words: str) -> None:
    """The record is whole, and says which words are the user's."""
    record = User(content=content, extra=user_extra(content, {}))
    assert record.content == content
    assert user_text(record) == words


@pytest.mark.parametrize("text", ["<div> is not closed", "Is <output> a tag?", "hello", "", "<"])
def test_what_a_user_writes_is_left_alone(text: str) -> None:
    """A tag that no client uses, or one in the middle of a sentence, is the user's."""
    assert user_extra(text, {}) == {}
    assert user_extra(text, {"meta": True}) == {"meta": True}


@given(st.lists(st.sampled_from((REMINDER, "<", ">", "</", "<output>", " ", "words")), max_size=20))
def test_any_text_keeps_its_words(pieces: list[str]) -> None:
    """Words before the first tag are never lost."""
    text = "words " + "".join(pieces)
    assert user_text(User(content=text, extra=user_extra(text, {}))) == text.strip()


def test_no_transcript_begins_with_the_text_of_a_program() -> None:
    """First words and instructions of every real session are the user's."""

    def check(entry: dict[str, Any]) -> None:
        if wanted_format(entry) is None or entry["file"].startswith("memory/"):
            return
        for session in load(entry):
            facts = Facts()
            for record in session.records:
                facts.add(0, record)
                digest = digest_record(record) if isinstance(record, User) else None
                passages = digest.passages if digest is not None else ()
                for words in (one.text for one in passages if one.kind == "user"):
                    assert not MARKUP.match(words) or words.startswith(TASKS), words[:80]
            assert not MARKUP.match(facts.title) or facts.title.startswith(TASKS), facts.title

    check_files(check)


def test_a_refused_call_says_so_in_a_field() -> None:
    said = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected. "
        "To tell you how to proceed, the user said:\nnever push to main, open a PR"
    )
    assert refusal(said) == "never push to main, open a PR"
    assert refusal([{"type": "text", "text": said}]) == "never push to main, open a PR"
    assert refusal(said.partition(" To tell")[0]) == ""
    assert refusal("exit 1: the user said: no") is None


def test_a_summary_loses_what_the_client_wrote_around_it() -> None:
    bare = "1. Primary Request and Intent:\n   - Fix the tests"
    whole = (
        "This session is being continued from a previous conversation.\n\nAnalysis:\nLet me see."
        f"\n\nSummary:\n{bare}\n\nIf you need specific details from before compaction, read x."
    )
    assert bare_summary(whole) == bare
    assert user_extra(whole, {}) == {"meta": True, "client_summary": bare}
    beside = [{"type": "text", "text": whole}, {"type": "text", "text": "Go on."}]
    assert user_extra(beside, {}) == {"original_prompt": "Go on.", "client_summary": bare}
    assert bare_summary(bare) == bare
    assert bare_summary("Summary:") == "Summary:"
