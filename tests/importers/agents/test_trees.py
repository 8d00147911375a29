"""Formats whose lines form a tree: pi, OpenClaw, Qwen, Codex's compactions, our own logs."""

from __future__ import annotations

from typing import Any

from tests.importers.samples import STAMP, jsonl, only, shape, skipped

from holdfast.core.log.records import Assistant, Compaction, Label, ModelChange, User


def entry(kind: str, place: str, parent: str | None, **more: Any) -> Any:
    return {"type": kind, "id": place, "parentId": parent, "timestamp": STAMP, **more}


def said(place: str, parent: str | None, text: str, role: str = "user") -> Any:
    return entry("message", place, parent, message={"role": role, "content": text})


HEADER = {"type": "session", "version": 3, "id": "p1", "timestamp": STAMP, "cwd": "/x"}


def test_pi_newest_branch_with_its_compaction_model_and_labels() -> None:
    """The path to the last entry; what it keeps after a compaction is named."""
    found = only(
        jsonl(
            HEADER,
            entry("model_change", "e1", None, modelId="some-model", provider="acme"),
            said("e2", "e1", "One"),
            said("e3", "e2", "Dead end", "assistant"),
            said("e4", "e2", "Two", "assistant"),
            entry("compaction", "e5", "e4", summary="One.", firstKeptEntryId="e4", tokensBefore=9),
            entry("label", "e6", "e5", targetId="e2", label="start"),
            entry("session_info", "e7", "e6", name="A talk"),
            entry("thinking_level_change", "e8", "e7", thinkingLevel="high"),
            said("e9", "e8", "Three"),
        )
    )

    model, one, two, compaction, label, three = found.records
    assert isinstance(model, ModelChange)
    assert (model.model, model.provider) == ("some-model", "acme")
    assert shape([one, two, three]) == [("user", "One"), ("assistant", "Two"), ("user", "Three")]
    assert isinstance(compaction, Compaction)
    assert (compaction.first_kept, compaction.tokens_before) == ("e4", 9)
    assert isinstance(label, Label)
    assert (label.target, label.label) == ("e2", "start")
    assert found.label == "A talk"
    assert skipped(found) == {"abandoned branch": 1, "entry `thinking_level_change`": 1}


def test_pi_first_version_without_ids_is_one_branch() -> None:
    """There the order of the lines is the conversation."""
    lines = [{**said("", None, text), "id": None} for text in ("One", "Two")]
    for line in lines:
        del line["parentId"], line["id"]

    assert [one[1] for one in shape(only(jsonl(HEADER, *lines)).records)] == ["One", "Two"]


def test_pi_file_that_lost_its_header_is_still_one() -> None:
    """The first line is the first to go when somebody trims a file."""
    found = only(jsonl(said("e2", "e1", "One"), said("e3", "e2", "Two", "assistant")), "cut.jsonl")

    assert (found.format, found.name) == ("pi", "cut")
    assert shape(found.records) == [("user", "One"), ("assistant", "Two")]


def test_pi_thoughts_commands_and_custom_messages_are_what_the_model_saw() -> None:
    """Signatures keep their place; a command run by hand is shown as pi shows it."""
    thought = {"type": "thinking", "thinking": "Hm.", "thinkingSignature": "c2ln"}
    shell = {"role": "bashExecution", "command": "ls", "output": "a.txt", "exitCode": 2}
    hidden = {**shell, "excludeFromContext": True}
    found = only(
        jsonl(
            HEADER,
            entry("message", "e1", None, message={"role": "assistant", "content": [thought]}),
            entry("message", "e2", "e1", message=shell),
            entry("message", "e3", "e2", message=hidden),
            entry("custom_message", "e4", "e3", customType="note", content="It is late."),
        )
    )

    reply, ran, note = found.records
    assert isinstance(reply, Assistant)
    assert reply.content == [{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}]
    assert isinstance(ran, User)
    assert ran.content == "Ran `ls`\n```\na.txt\n```\n\nCommand exited with code 2"
    assert note.extra == {"role": "custom", "custom_type": "note"}
    assert skipped(found) == {"command run by hand": 1}


def qwen(place: str, parent: str | None, kind: str, **more: Any) -> Any:
    line = {"uuid": place, "parentUuid": parent, "sessionId": "s1", "timestamp": STAMP}
    return {**line, "type": kind, **more}


def test_qwen_rewind_leaves_a_branch_and_compression_is_a_compaction() -> None:
    """The newest message decides; notes of the program after it do not."""

    def words(text: str, role: str = "user") -> Any:
        return {"role": role, "parts": [{"text": text}]}

    history = [words("A summary"), words("Kept", "model")]
    found = only(
        jsonl(
            qwen("q1", None, "user", message=words("One")),
            qwen("q2", "q1", "assistant", message=words("Dead end", "model")),
            qwen("q3", "q1", "system", subtype="rewind", systemPayload={}),
            qwen("q4", "q3", "user", message=words("Two")),
            qwen(
                "q5",
                "q4",
                "system",
                subtype="chat_compression",
                systemPayload={
                    "compressedHistory": history,
                    "info": {"originalTokenCount": 900},
                },
            ),
            qwen("q6", "q5", "assistant", message=words("Three", "model"), model="m"),
            qwen("q7", "q6", "system", subtype="ui_telemetry", systemPayload={}),
        )
    )

    assert shape(found.records) == [
        ("user", "One"),
        ("user", "Two"),
        ("compaction",),
        ("assistant", "Three"),
    ]
    compaction = found.records[2]
    assert isinstance(compaction, Compaction)
    assert (compaction.summary, compaction.tokens_before) == ("A summary", 900)


def codex(kind: str, **payload: Any) -> Any:
    return {"timestamp": STAMP, "type": kind, "payload": payload}


def test_codex_usage_models_compactions_and_titles() -> None:
    """A token count belongs to the reply before it, of one call and not of the whole session."""
    usage = {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 7}
    count = {"last_token_usage": usage, "total_token_usage": {"input_tokens": 9_999}}
    user = {"type": "message", "role": "user", "content": "Hi"}
    reply = {"type": "message", "role": "assistant", "content": "Hello."}
    found = only(
        jsonl(
            codex(
                "session_meta",
                id="c0de",
                base_instructions={"text": "Be brief."},
                dynamic_tools=[{"name": "ls", "description": "List"}],
            ),
            codex("turn_context", model="gpt-one"),
            codex("response_item", **user),
            codex("event_msg", type="user_message", message="Hi"),
            codex("response_item", **reply),
            codex("event_msg", type="token_count", info=count),
            codex("compacted", message="They greeted.", replacement_history=[user]),
            codex("turn_context", model="gpt-two"),
            codex("response_item", **user),
            codex("event_msg", type="thread_name_updated", thread_name="A greeting"),
            codex("response_item", type="ghost_snapshot", ghost_commit={}),
        )
    )

    assert [record.kind for record in found.records] == [
        "user",
        "assistant",
        "compaction",
        "model",
        "user",
    ]
    said_it, compaction = found.records[1:3]
    assert isinstance(said_it, Assistant)
    assert (said_it.usage, said_it.model) == (usage, "gpt-one")
    assert isinstance(compaction, Compaction)
    assert compaction.summary == "They greeted."
    assert (found.name, found.label, found.system) == ("c0de", "A greeting", "Be brief.")
    assert found.tools == [{"name": "ls", "description": "List", "parameters": {}}]
    assert skipped(found)["event `user_message`"] == 1
    assert skipped(found)["item `ghost_snapshot`"] == 1


def test_codex_usage_that_comes_after_the_results_goes_to_its_reply() -> None:
    """The count of a call is often written when the tools have answered already."""
    usage = {"input_tokens": 100, "output_tokens": 7}
    found = only(
        jsonl(
            codex("response_item", type="message", role="user", content="Hi"),
            codex("response_item", type="function_call", call_id="c", name="ls", arguments="{}"),
            codex("response_item", type="function_call_output", call_id="c", output="a.txt"),
            codex("event_msg", type="token_count", info={"last_token_usage": usage}),
        )
    )

    reply = found.records[1]
    assert isinstance(reply, Assistant)
    assert reply.usage == usage


def test_own_log_is_read_along_the_path_to_its_head() -> None:
    """A rewind leaves a branch behind; labels and the header name the session."""
    found = only(
        jsonl(
            {"type": "session", "id": "notes", "format": "holdfast", "version": 1, "label": "Old"},
            {"type": "user", "id": "r1", "content": "One"},
            {"type": "assistant", "id": "r2", "content": "Dead end"},
            {"type": "rewind", "id": "r3", "to": "r1", "parent": "r1"},
            {"type": "user", "id": "r4", "content": "Two"},
            {"type": "label", "id": "r5", "label": "New"},
            {"type": "from-the-future", "id": "r6", "depth": 3},
            {"type": "user", "content": {"not": "content"}},
        )
    )

    assert (found.name, found.label, found.format) == ("notes", "New", "holdfast")
    assert [record.id for record in found.records] == ["r1", "r4", "r6"]
    assert found.records[2].extra == {"depth": 3}
    assert skipped(found) == {"abandoned branch": 1, "rewind": 1, "line that is not a record": 1}
