"""What a model is asked to note before a cut, and what is taken of its answer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import clean_texts
from tests.support.runs import examples

from holdfast.core.log.records import Flush, Record, User
from holdfast.core.memory.notes import (
    NOTE_CHARS,
    SILENT,
    ask_for_notes,
    is_silent,
    read_notes,
    saved_notes,
)
from holdfast.core.models.replies import Reply
from holdfast.core.secrets.redaction import has_secret, without_secrets


def replied(text: str) -> Reply:
    return Reply(content=[{"type": "text", "text": text}])


@pytest.mark.parametrize(
    "secret",
    [
        "Always use the key sk-proj-abcdefghijklmnop1234.",
        "Remember the password is hunter2!",
        "Never forget: AWS key AKIAABCDEFGHIJKLMNOP.",
        "Always connect to postgres://app:s3cr3t@db/orders.",
        "Remember ghp_abcdefghijklmnopqrstuvwxyz0123 please.",
        "Merk dir: das Passwort ist Geheim123.",
        "Always send Authorization: Bearer abcdefghijklmnop1234.",
    ],
)
def test_credentials_are_never_noted(secret: str) -> None:
    """Whatever a model lists."""
    assert read_notes(replied(f"- {secret}\n- The demo is on Friday.")) == [
        "The demo is on Friday."
    ]


def test_talk_about_credentials_is_no_credential() -> None:
    """A rule about where a key is kept may be kept itself."""
    for rule in ("Never commit the API key.", "Always read the password from the environment."):
        assert not has_secret(rule)
        assert read_notes(replied(f"- {rule}")) == [rule]


@given(text=clean_texts(200))
def test_leaving_secrets_out_twice_is_once(text: str) -> None:
    """What was put in place of a secret does not look like one."""
    once = without_secrets(f"password: {text} api_key={text}")
    assert without_secrets(once) == once


def test_saved_notes_are_those_of_every_flush() -> None:
    log: list[Record] = [Flush(notes=["a", "b"]), User(content="hi"), Flush(notes=["x"])]
    assert saved_notes(log) == ["a", "b", "x"]


def test_request_says_what_is_known_and_that_silence_is_fine() -> None:
    """With a transcript before it, or at the end of the conversation."""
    asked = ask_for_notes(known=["The demo is on </known_notes> Friday"])
    assert SILENT in asked
    assert asked.count("</known_notes>") == 1
    assert "The demo is on &lt;/known_notes> Friday" in asked
    piece = "<narrative>\nUser: hi\n</narrative>"
    assert piece in ask_for_notes(piece)
    assert ask_for_notes(piece).partition(":")[0] == ask_for_notes().partition(":")[0]


@pytest.mark.parametrize("text", ["<SILENT>", " `<SILENT>` ", "SILENT", "", "NO_REPLY", "None."])
def test_silence_is_an_answer(text: str) -> None:
    """Nothing to save is nothing saved."""
    assert is_silent(text)
    assert read_notes(replied(text)) == []


def test_lists_are_read_and_chat_is_not() -> None:
    """Only lines of a list are notes, new ones, cut to their cap."""
    text = f"Here you go:\n- The demo is on Friday.\n* the demo is on friday\n1. {'x' * 900}\nBye!"
    found = read_notes(replied(text), known=["something else"])
    assert found[0] == "The demo is on Friday."
    assert len(found) == 2
    assert len(found[1]) <= NOTE_CHARS
    assert read_notes(replied(text), known=["THE DEMO IS ON FRIDAY"]) == found[1:]


def test_answers_that_are_none_save_nothing() -> None:
    """A refusal, a tool call; and of an answer that was cut off, all but the last line."""
    text = "- one fact\n- half a fa"
    content = [{"type": "text", "text": text}]
    call = {"type": "tool_use", "id": "1", "name": "write", "input": {}}
    assert read_notes(Reply(content=content, stop="refusal")) == []
    assert read_notes(Reply(content=[*content, call])) == []
    assert read_notes(Reply(content=content, stop="length")) == ["one fact"]


@examples(60)
@given(
    extra=st.lists(clean_texts(300), max_size=4),
    count=st.integers(0, 5),
    chars=st.integers(0, 80),
)
def test_notes_keep_their_caps(extra: list[str], count: int, chars: int) -> None:
    """Whatever a model lists."""
    lines = "\n".join(f"- {text}" for text in extra)
    read = read_notes(replied(lines), notes_max=count, chars_max=chars)
    assert len(read) <= count
    assert all(len(note) <= chars for note in read)
