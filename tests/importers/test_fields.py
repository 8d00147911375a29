"""What a source states of a call or a message is a field of the record, in every format."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from tests.importers.same_conversation import ASK, CONVERSATIONS, OUTPUT
from tests.importers.samples import FORMATS, only

from holdfast.core.log.records import ToolResult, User
from holdfast.core.log.replay import META, ORIGINAL_PROMPT, user_text
from holdfast.integrations.common import langchain_messages
from holdfast.integrations.strands import messages as strands_messages

REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected. "
    "To tell you how to proceed, the user said: abre una PR"
)
REMINDER = "<system-reminder>Write tests.</system-reminder>"
OWN = {kind for kind, _data in CONVERSATIONS.values()} & {"holdfast"}
"""Our own format states all of it by itself."""
SPELLINGS = [name for name, (kind, _data) in CONVERSATIONS.items() if kind not in OWN]


def with_text(spelling: str, old: str, new: str) -> bytes:
    _kind, data = CONVERSATIONS[spelling]
    changed = data.replace(old.encode(), new.encode())
    assert changed != data
    return changed


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_refusal_is_a_field_with_the_words_that_the_user_gave(spelling: str) -> None:
    """A client writes a sentence in the place of the result; the narrative reads none."""
    kind, _data = CONVERSATIONS[spelling]
    found = only(with_text(spelling, OUTPUT, REFUSED), "talk.json", kind)
    (result,) = [record for record in found.records if isinstance(record, ToolResult)]
    assert result.refused == "abre una PR"

    untouched = only(CONVERSATIONS[spelling][1], "talk.json", kind)
    (result,) = [record for record in untouched.records if isinstance(record, ToolResult)]
    assert result.refused is None


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_text_of_a_program_is_no_word_of_the_user(spelling: str) -> None:
    """Alone it is `meta`; before words, these are the `original_prompt`."""
    kind, _data = CONVERSATIONS[spelling]
    (alone,) = users(with_text(spelling, ASK, REMINDER), kind)
    assert alone.extra.get(META) is True
    assert user_text(alone) == ""
    (before,) = users(with_text(spelling, ASK, f"{REMINDER} {ASK}"), kind)
    assert before.extra.get(ORIGINAL_PROMPT) == user_text(before) == ASK


def users(data: bytes, kind: str) -> list[User]:
    return [record for record in only(data, "talk.json", kind).records if isinstance(record, User)]


WITHOUT = {
    "no calls are stored": {
        *("chatgpt", "claude-web", "goodai-ltm", "longmemeval", "memorybank", "memorycode"),
        *("qmsum", "realmem", "sharegpt", "aider"),
    },
    "results are told apart by the format's own tests": {
        *("amp", "goose", "litellm", "mini-swe-agent", "vercel-ui"),
    },
}
"""Formats that are not among the conversations, and why."""


def test_every_format_is_asked_or_says_why_not() -> None:
    """A new importer states its fields too."""
    asked = {kind for kind, _data in CONVERSATIONS.values()}
    assert set(FORMATS) - asked == set().union(*WITHOUT.values())


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ("User rejected the tool call for `rm` with id 1", ""),
        ("User rejected the tool call for `rm` with reason: usa git", "usa git"),
        ("Tool execution was not approved.", ""),
        ("This tool call is rejected.", ""),
        ("tool cancelled by user", ""),
        ("The tool was cancelled by user 7.", None),
        ("a file with reason: none", None),
    ],
)
def test_frameworks_state_a_refusal_too(said: str, reason: str | None) -> None:
    """In the adapters that read messages by themselves, as in those that read as importers do."""
    message = SimpleNamespace(
        type="tool", content=said, tool_call_id="c", name="rm", status="error"
    )
    of_langchain = langchain_messages.record_from_message(message)
    answer = {"toolUseId": "c", "status": "error", "content": [{"text": said}]}
    (of_strands,) = strands_messages.records_from_message(
        {"role": "user", "content": [{"toolResult": answer}]}
    )
    for record in (of_langchain, of_strands):
        assert isinstance(record, ToolResult)
        assert (record.refused, record.is_error) == (reason, True)


def test_frameworks_state_the_text_of_a_program() -> None:
    message = SimpleNamespace(type="human", content=REMINDER, name=None)
    of_langchain = langchain_messages.record_from_message(message)
    (of_strands,) = strands_messages.records_from_message(
        {"role": "user", "content": [{"text": REMINDER}]}
    )
    for record in (of_langchain, of_strands):
        assert isinstance(record, User)
        assert record.extra.get(META) is True
