"""Claude Code: one message from several lines, one conversation from a tree."""

from __future__ import annotations

from typing import Any

import pytest
from tests.importers.samples import (
    SAID,
    STAMP_SECONDS,
    claude_line,
    claude_reply,
    claude_user,
    jsonl,
    only,
    shape,
    skipped,
    tool_result,
    tool_use,
)

from holdfast.core.log.records import Assistant, Compaction, ToolResult, User
from holdfast.core.log.replay import is_from_program
from holdfast.core.narrative.carryover import carry_over
from holdfast.core.tokens.counting import Estimator
from holdfast.importers import read_transcript
from holdfast.importers.common.base import Draft

THOUGHT = {"type": "thinking", "thinking": "Look first.", "signature": "c2ln"}


def test_lines_of_one_call_are_one_message_with_its_usage_once() -> None:
    """Blocks come together in order; the usage is the last one reported, not a placeholder."""
    found = only(
        jsonl(
            claude_user("u1", None, "List the files"),
            claude_reply("a1", "u1", [THOUGHT], "m1", out=1),
            claude_reply("a2", "a1", [SAID], "m1", out=1),
            claude_reply("a3", "a2", [tool_use("t1", command="ls")], "m1", out=77),
            claude_user("u2", "a3", [tool_result("t1", "a.txt", is_error=True)]),
        )
    )

    user, reply, result = found.records
    assert isinstance(user, User)
    assert isinstance(reply, Assistant)
    assert reply.content == [THOUGHT, SAID, tool_use("t1", command="ls")]
    assert reply.usage == {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 77}
    assert (reply.provider, reply.model, reply.id) == ("anthropic", "claude-test-1", "a1")
    assert reply.extra == {"message_id": "m1"}
    assert isinstance(result, ToolResult)
    assert (result.name, result.is_error, result.ts) == ("Bash", True, STAMP_SECONDS)
    assert found.name == "5e551011-0000-4000-8000-000000000001"


def test_results_between_the_lines_of_one_call_come_after_it() -> None:
    """A tool may answer before the last line of the message is written."""
    found = only(
        jsonl(
            claude_user("u1", None, "Both"),
            claude_reply("a1", "u1", [tool_use("t1")], "m1"),
            claude_user("u2", "a1", [tool_result("t1", "one")]),
            claude_reply("a2", "u2", [tool_use("t2")], "m1"),
            claude_user("u3", "a2", [tool_result("t2", "two")]),
        )
    )

    assert shape(found.records) == [
        ("user", "Both"),
        ("assistant", "", ("t1", "Bash", {}), ("t2", "Bash", {})),
        ("result", "t1", "one"),
        ("result", "t2", "two"),
    ]


def test_parallel_results_are_kept_though_their_lines_fork() -> None:
    """Results hang on different lines of a message; the parents alone lead past one of them."""
    found = only(
        jsonl(
            claude_user("u1", None, "Both"),
            claude_reply("a1", "u1", [tool_use("t1")], "m1"),
            claude_reply("a2", "a1", [tool_use("t2")], "m1"),
            claude_user("u2", "a1", [tool_result("t1", "one")]),
            claude_user("u3", "a2", [tool_result("t2", "two")]),
            claude_reply("a3", "u3", [SAID], "m2"),
        )
    )

    assert [one[:2] for one in shape(found.records)][2:4] == [("result", "t1"), ("result", "t2")]
    assert "abandoned branch" not in skipped(found)


def test_newest_branch_is_carried_and_the_other_counted() -> None:
    """A prompt that was edited leaves a branch behind."""
    found = only(
        jsonl(
            claude_user("u1", None, "First"),
            claude_reply("a1", "u1", [SAID], "m1"),
            claude_user("u2", "a1", "A wrong turn"),
            claude_reply("a2", "u2", [SAID], "m2"),
            claude_user("u3", "a1", "A better one"),
        )
    )

    assert [one[1] for one in shape(found.records)] == ["First", "On it.", "A better one"]
    assert skipped(found)["abandoned branch"] == 2


def test_a_line_without_a_parent_begins_another_session() -> None:
    """After a clear the model saw nothing of what came before: that is a second conversation."""
    first, second = read_transcript(
        jsonl(
            claude_user("u1", None, "Before"),
            claude_user("u2", None, "After"),
            claude_reply("a2", "u2", [SAID], "m2"),
        ),
        "x.jsonl",
    )

    assert shape(first.records) == [("user", "Before")]
    assert len(second.records) == 2
    assert second.name == f"{first.name}-2"


def test_compaction_is_a_boundary_in_the_same_session() -> None:
    """The boundary says what it followed and how large; the summary is what the model saw."""
    boundary = claude_line(
        "system",
        "b1",
        None,
        None,
        subtype="compact_boundary",
        logicalParentUuid="a1",
        compactMetadata={"trigger": "auto", "preTokens": 167091},
    )
    found = only(
        jsonl(
            claude_user("u1", None, "Long story"),
            claude_reply("a1", "u1", [SAID], "m1"),
            boundary,
            claude_user("u2", "b1", "It was long.", isCompactSummary=True),
            claude_user("u3", "u2", "Go on"),
        )
    )

    compaction = found.records[2]
    assert isinstance(compaction, Compaction)
    assert (compaction.summary, compaction.tokens_before) == ("It was long.", 167091)
    assert (compaction.reason, compaction.method, compaction.first_kept) == ("auto", "model", None)
    assert [record.kind for record in found.records] == ["user", "assistant", "compaction", "user"]


def test_a_parent_that_is_not_in_the_file_is_the_line_before() -> None:
    """Files are cut and trimmed; the conversation goes on."""
    found = only(
        jsonl(claude_user("u1", None, "One"), claude_user("u2", "gone", "Two")),
    )

    assert len(found.records) == 2


def test_what_no_model_saw_is_listed() -> None:
    """Progress, snapshots, notes of the program and its error messages are counted by kind."""
    line = claude_line("system", "s1", "u1", None, subtype="turn_duration")
    error = claude_reply("e1", "u1", [SAID], "m9", isApiErrorMessage=True)
    found = only(
        jsonl(
            claude_user("u1", None, "Hi", toolUseResult={"stdout": "x"}),
            claude_line("progress", "p1", "u1", None),
            {"type": "file-history-snapshot", "snapshot": {}},
            line,
            error,
        )
    )

    assert shape(found.records) == [("user", "Hi")]
    assert skipped(found) == {
        "API error message": 1,
        "toolUseResult": 1,
        "progress": 1,
        "file-history-snapshot": 1,
        "system turn_duration": 1,
    }


def test_meta_lines_are_carried_and_marked() -> None:
    """What the program adds as a user message is what the model saw."""
    found = only(jsonl(claude_user("u1", None, "Skill text", isMeta=True)))

    assert found.records[0].extra == {"meta": True}


def test_synthetic_messages_claim_no_model_and_no_usage() -> None:
    """The program wrote them; a usage of zero would be taken for a measurement."""
    made = claude_reply("a1", "u1", [SAID], "m1")
    made["message"]["model"] = "<synthetic>"
    found = only(jsonl(claude_user("u1", None, "Hi"), made))

    reply = found.records[1]
    assert isinstance(reply, Assistant)
    assert (reply.model, reply.provider, reply.usage) == (None, None, None)
    assert reply.extra["synthetic"] is True


def test_sub_agents_are_sessions_of_their_own() -> None:
    """A sidechain is a conversation with another model, beside the main one or alone in a file."""
    side = claude_user("x1", None, "Search", isSidechain=True, agentId="a77")
    main, agent = read_transcript(jsonl(claude_user("u1", None, "Hi"), side), "x.jsonl")
    alone = only(jsonl(side))

    assert shape(main.records) == [("user", "Hi")]
    assert shape(agent.records) == shape(alone.records) == [("user", "Search")]
    assert agent.name == alone.name == f"{main.name}-agent-a77"


def test_words_typed_while_the_model_worked_are_carried() -> None:
    """They are kept as an attachment, and were sent with the next request."""
    attachment = {"type": "queued_command", "prompt": "Also the tests"}
    found = only(
        jsonl(
            claude_user("u1", None, "Fix it"),
            claude_line("attachment", "x1", "u1", None, attachment=attachment),
        )
    )

    assert shape(found.records)[-1] == ("user", "Also the tests")
    assert found.records[-1].extra == {}


@pytest.mark.parametrize(
    ("attachment", "text"),
    [
        (
            {"type": "file", "filename": "/a", "content": {"file": {"content": "body"}}},
            "body",
        ),
        ({"type": "nested_memory", "content": {"type": "memory", "content": "notes"}}, "notes"),
        ({"type": "edited_text_file", "filename": "/a", "snippet": "1: x"}, "1: x"),
        ({"type": "hook_additional_context", "content": ["one", "two"]}, "one\ntwo"),
        ({"type": "invoked_skills", "skills": [{"content": "how to"}]}, "how to"),
    ],
)
def test_attachments_with_a_text_are_what_the_model_saw(attachment: Any, text: str) -> None:
    """Files, memories, edits and hooks: carried, and marked with their kind."""
    line = claude_line("attachment", "x1", "u1", None, attachment=attachment)

    found = only(jsonl(claude_user("u1", None, "Look"), line))

    assert shape(found.records)[-1] == ("user", text)
    assert found.records[-1].extra["attachment"] == attachment["type"]


def test_attachments_without_a_text_are_listed() -> None:
    """Modes, permissions, lists of tools: the words for them are not in the file."""
    lines = [
        claude_line("attachment", f"x{place}", "u1", None, attachment=attachment)
        for place, attachment in enumerate(
            [{"type": "todo_reminder", "content": []}, {"type": "nested_memory", "content": {}}]
        )
    ]

    found = only(jsonl(claude_user("u1", None, "Look"), *lines))

    assert shape(found.records) == [("user", "Look")]
    assert skipped(found) == {"attachment todo_reminder": 1, "attachment nested_memory": 1}


def test_titles_become_the_label() -> None:
    """A summary names this conversation only if its leaf is in the file; a given name wins."""
    lines = [
        claude_user("u1", None, "Hi"),
        {"type": "summary", "summary": "Somebody else's", "leafUuid": "zz"},
        {"type": "summary", "summary": "Greeting", "leafUuid": "u1"},
    ]

    assert only(jsonl(*lines)).label == "Greeting"
    assert skipped(only(jsonl(*lines))) == {"summary": 1}
    named = {"type": "custom-title", "customTitle": "My greeting", "sessionId": "s"}
    assert only(jsonl(*lines, named)).label == "My greeting"


def test_calls_without_ids_are_paired_by_their_order() -> None:
    """Some files have neither ids nor `tool_use` blocks; the order is all there is."""
    call = {"type": "tool_use", "name": "Bash", "input": {"command": "ls"}}
    found = only(
        jsonl(
            claude_user("u1", None, "Hi"),
            claude_reply("a1", "u1", [call], "m1"),
            claude_user("u2", "a1", [{"type": "tool_result", "content": "a.txt"}]),
        )
    )

    assert shape(found.records)[1:] == [
        ("assistant", "", ("call-1", "Bash", {"command": "ls"})),
        ("result", "call-1", "a.txt"),
    ]


def test_images_and_mixed_messages_keep_everything() -> None:
    """Results come first, then what the user said beside them; pictures stay blocks."""
    picture = {
        "type": "image",
        "source": {"type": "base64", "media_type": "image/png", "data": "iVBO"},
    }
    found = only(
        jsonl(
            claude_user("u1", None, [SAID, picture]),
            claude_reply("a1", "u1", [tool_use("t1")], "m1"),
            claude_user("u2", "a1", [SAID, tool_result("t1", [picture])]),
        )
    )

    said, _reply, result, more = found.records
    assert isinstance(said, User)
    assert said.content == [SAID, picture]
    assert isinstance(result, ToolResult)
    assert result.content == [picture]
    assert isinstance(more, User)
    assert more.content == [SAID]
    assert (result.id, more.id) == ("u2", "")


def test_refusals_failures_tasks_and_the_program_are_fields_of_the_records() -> None:
    """What the narrative tells of them is told by those fields, whatever language is spoken."""
    refused = (
        "The user doesn't want to proceed with this tool use. The tool use was rejected. "
        "To tell you how to proceed, the user said:\n不要推送到 main，开一个 PR"
    )
    todo = {"type": "tool_use", "id": "t3", "name": "TodoWrite"}
    todos = [
        {"content": "Bericht schreiben", "status": "pending", "activeForm": "…"},
        {"content": "Daten laden", "status": "completed", "activeForm": "…"},
    ]
    task = {"type": "tool_use", "id": "t4", "name": "TaskCreate"}
    found = only(
        jsonl(
            claude_user("u1", None, "发布它"),
            claude_reply("a1", "u1", [tool_use("t1", command="git push origin main")], "m1"),
            claude_user("u2", "a1", [tool_result("t1", refused, is_error=True)]),
            claude_reply("a2", "u2", [tool_use("t2", command="zurp")], "m2"),
            claude_user("u3", "a2", [tool_result("t2", "kein zurp hier", is_error=True)]),
            claude_user("u4", "u3", "<system-reminder>\nbe quick\n</system-reminder>"),
            claude_reply("a3", "u4", [{**todo, "input": {"todos": todos}}], "m3"),
            claude_user("u5", "a3", [tool_result("t3", "ok")]),
            claude_reply("a4", "u5", [{**task, "input": {"subject": "复查数字"}}], "m4"),
            claude_user("u6", "a4", [tool_result("t4", "Task #7 created")]),
        )
    )
    results = [one for one in found.records if isinstance(one, ToolResult)]
    assert [one.refused for one in results] == ["不要推送到 main，开一个 PR", None, None, None]
    assert [one.is_error for one in results] == [True, True, False, False]
    reminder = next(one for one in found.records if isinstance(one, User) and one.id == "u4")
    assert is_from_program(reminder)
    text = carry_over(found.records, cap_tokens=2_000, counter=Estimator()).text
    assert "→ refused by the user" in text
    assert "User, refusing the call: 不要推送到 main，开一个 PR" in text
    assert "zurp → failed: kein zurp hier" in text
    assert "User: be quick" not in text
    items = text.partition("## Open items\n")[2].partition("\n\n")[0].splitlines()
    assert items == ["- Bericht schreiben", "- 复查数字"]


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ("exec command rejected by user", ""),
        ("[Operation Cancelled] Reason: user", ""),
        (
            "The user rejected permission to use this specific tool call with the following "
            "feedback: usa la rama nueva",
            "usa la rama nueva",
        ),
        ("exit 1: rejected by the linter", None),
    ],
)
def test_what_each_client_writes_for_a_refusal_is_read(said: str, words: str | None) -> None:
    """Those of Codex, Gemini CLI and opencode come through the same draft."""
    draft = Draft()
    draft.assistant([tool_use("t1")])
    draft.result("t1", said)
    (result,) = [one for one in draft.records if isinstance(one, ToolResult)]
    assert result.refused == words
