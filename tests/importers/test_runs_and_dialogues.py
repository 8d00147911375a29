"""Benchmarks' runs, terminal agents and dialogues: what is special about each."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.importers.samples import SAMPLES, STAMP, document, jsonl, only, read, shape, skipped

from holdfast.core.log.records import Assistant, Compaction, ModelChange, ToolResult, User
from holdfast.importers import places


def test_mini_swe_agent_usage_and_model_come_from_the_stored_response() -> None:
    """Its calls are words in a text, so there are none to carry as calls."""
    response = {
        "model": "vendor/model",
        "provider": "Google",
        "created": 1772359200,
        "usage": {"prompt_tokens": 9},
    }
    found = only(
        document(
            {
                "trajectory_format": "mini-swe-agent-1",
                "instance_id": "lib__lib-1",
                "messages": [
                    {"role": "system", "content": "Use a shell."},
                    {"role": "user", "content": "Fix it"},
                    {"role": "assistant", "content": "ls", "extra": {"response": response}},
                ],
            }
        )
    )

    reply = found.records[1]
    assert isinstance(reply, Assistant)
    assert (reply.model, reply.provider, reply.ts) == ("vendor/model", "google", 1772359200.0)
    assert reply.usage == {"prompt_tokens": 9}
    assert (found.name, found.system) == ("lib__lib-1", "Use a shell.")


def test_openhands_events_beside_calls() -> None:
    """The prompt, the tools, condensations, errors of the environment and quiet events."""
    tool = {"type": "function", "function": {"name": "ls", "parameters": {}}}
    found = only(
        jsonl(
            {
                "metadata": {"llm_config": {"model": "some-model"}},
                "history": [
                    {"action": "system", "args": {"content": "Be brief.", "tools": [tool]}},
                    {
                        "action": "message",
                        "source": "user",
                        "args": {"content": "Fix it", "image_urls": ["https://example.org/a.png"]},
                    },
                    {"action": "recall", "source": "user", "args": {}},
                    {"observation": "error", "source": "agent", "content": "No such parameter"},
                    {"action": "condensation", "args": {"summary": "It was long."}},
                    {"action": "condensation", "args": {}},
                ],
            }
        )
    )

    user, error, compaction = found.records
    assert isinstance(user, User)
    assert isinstance(user.content, list)
    assert user.content[1]["source"] == {"type": "url", "url": "https://example.org/a.png"}
    assert error.extra == {"role": "environment", "meta": True}
    assert isinstance(compaction, Compaction)
    assert (found.system, found.tools[0]["name"]) == ("Be brief.", "ls")
    assert skipped(found) == {"event `recall`": 1, "condensation": 1}


def test_openhands_failed_command_is_an_error_and_a_reply_with_two_calls_is_one() -> None:
    """Each action of a reply repeats it whole; it is carried once."""
    calls = [
        {"id": f"t{n}", "function": {"name": "run", "arguments": "{}"}, "type": "function"}
        for n in (1, 2)
    ]
    reply = {"id": "gen", "choices": [{"message": {"content": "Two.", "tool_calls": calls}}]}
    events: list[Any] = [{"action": "message", "source": "user", "args": {"content": "Go"}}]
    for call_id, code in (("t1", 0), ("t2", 1)):
        about = {"tool_call_id": call_id, "function_name": "run", "model_response": reply}
        events.append({"action": "run", "source": "agent", "tool_call_metadata": about})
        events.append(
            {
                "observation": "run",
                "content": f"exit {code}",
                "extras": {"exit_code": code},
                "tool_call_metadata": about,
            }
        )

    found = only(jsonl({"history": events}))

    assert [record.kind for record in found.records] == [
        "user",
        "assistant",
        "tool_result",
        "tool_result",
    ]
    assert [one.is_error for one in found.records if isinstance(one, ToolResult)] == [False, True]


def test_spans_of_two_agents_are_two_sessions_and_cut_requests_are_told() -> None:
    """Each agent has a conversation; where a request is not readable its reply still is."""

    def call(number: int, given: str, reply: str) -> Any:
        return {
            "span_id": f"c{number}",
            "timestamp": f"2026-03-01T10:00:0{number}Z",
            "span_attributes": {
                "openinference.span.kind": "LLM",
                "input.value": given,
                "output.value": json.dumps({"content": reply}),
            },
        }

    whole = json.dumps({"messages": [{"role": "user", "content": "Go"}]})

    def agent(number: int, *calls: Any) -> Any:
        return {
            "span_id": f"a{number}",
            "span_attributes": {"openinference.span.kind": "AGENT"},
            "child_spans": list(calls),
        }

    first, second = read(
        document(
            {
                "trace_id": "f00",
                "spans": [
                    agent(1, call(1, whole, "One"), call(2, whole[:20], "Two")),
                    agent(2, call(3, whole, "Three")),
                ],
            }
        ),
        "trace.json",
    )

    assert [one[1] for one in shape(first.records)] == ["Go", "One", "Two"]
    assert [one[1] for one in shape(second.records)] == ["Go", "Three"]
    assert skipped(first)["request that cannot be read"] == 1


def test_inspect_attachments_are_put_back() -> None:
    """Long texts are stored once and referred to; the usage belongs to the last reply."""
    sample = {
        "id": "s 1",
        "epoch": 2,
        "attachments": {"ab": "A long text"},
        "messages": [
            {"role": "user", "content": "attachment://ab"},
            {
                "role": "assistant",
                "content": "Yes",
                "tool_calls": [{"id": "t1", "function": "ls", "arguments": {"path": "."}}],
            },
        ],
        "output": {"usage": {"input_tokens": 5}},
    }
    found = only(document({"eval": {"task": "greet", "model": "m"}, "samples": [sample]}))

    assert shape(found.records) == [
        ("user", "A long text"),
        ("assistant", "Yes", ("t1", "ls", {"path": "."})),
    ]
    assert isinstance(found.records[1], Assistant)
    assert found.records[1].usage == {"input_tokens": 5}
    assert found.name == "greet-s-1-epoch-2"


def test_toolbench_without_a_chosen_chain_keeps_the_question() -> None:
    """A search that failed has no conversation to carry, and says so."""
    found = only(
        document({"tree": {"size": 9}, "answer_generation": {"query": "Where?", "function": []}})
    )

    assert shape(found.records) == [("user", "Where?")]
    assert skipped(found) == {"search tree": 1}


def test_aider_tells_the_voices_apart() -> None:
    """Two spaces end the lines of user and program; headings and quotations are the model's."""
    text = (
        "# aider chat started at 2026-03-01 10:00:00\n\n"
        "> Aider v1  \n> Model: x  \n\n"
        "#### /add a.py  \n\n"
        "#### Explain this  \n#### in two lines  \n\n"
        "Here:\n\n#### A heading\n\n> A quotation\n\nDone.\n\n"
        "> Tokens: 9 sent  \n\n"
        "# aider chat started at 2026-03-02 10:00:00\n\n> Aider v1  \n\n"
        "# aider chat started at 2026-03-03 10:00:00\n\n#### Hi  \n\nHello.\n"
    )

    first, second = read(text.encode(), ".aider.chat.history.md")

    assert shape(first.records) == [
        ("user", "Explain this\nin two lines"),
        ("assistant", "Here:\n\n#### A heading\n\n> A quotation\n\nDone."),
    ]
    assert shape(second.records) == [("user", "Hi"), ("assistant", "Hello.")]
    assert (first.name, first.records[0].ts) == ("aider-2026-03-01-10-00-00", 1772359200.0)
    assert skipped(first) == {
        "output of the program": 2,
        "command to the program": 1,
        "chat without messages": 1,
    }


@pytest.mark.parametrize(
    ("kind", "conversation", "name"),
    [
        ("longmemeval", [("user", "Hi")], "s1"),
        ("realmem", [("user", "Hi")], "ab12"),
        ("qmsum", [("user", "Welcome .")], "val"),
        (
            "memorycode",
            [("user", "Hello."), ("assistant", "Hi."), ("assistant", "Hi again.")],
            "dialogue_9",
        ),
        ("memorybank", [("user", "Hi"), ("assistant", "Hello.")], "bank-Ann-2026-03-01"),
        ("goodai-ltm", [("user", "Hi"), ("assistant", "Hello.")], "master_log"),
    ],
)
def test_dialogues_have_two_voices(kind: str, conversation: list[Any], name: str) -> None:
    """Who asks is the user, who answers the assistant; marks of the benchmark stay beside them."""
    found = only(SAMPLES[kind][1], SAMPLES[kind][0])

    assert shape(found.records) == conversation
    assert found.name == name


def test_dialogues_keep_dates_speakers_and_marks() -> None:
    """What a test of memory needs later."""
    marked = only(SAMPLES["longmemeval"][1]).records[0]
    meeting = only(SAMPLES["qmsum"][1], "val.jsonl").records[0]

    assert (marked.ts, marked.extra) == (1772359200.0, {"has_answer": True})
    assert isinstance(meeting, User)
    assert meeting.name == "Chair"


def test_copilot_sub_agents_and_model_changes() -> None:
    """What a sub-agent said is not the conversation; its result is."""

    def event(kind: str, **data: Any) -> Any:
        return {"type": kind, "data": data, "id": kind, "timestamp": STAMP, "parentId": None}

    found = only(
        jsonl(
            event("session.start", sessionId="k1"),
            event("session.model_change", newModel="some-model"),
            event("user.message", content="Go", transformedContent="Go, and be quick"),
            event("assistant.message", content="inner", parentToolCallId="t1"),
            event(
                "tool.execution_complete", toolCallId="t1", success=False, error={"message": "x"}
            ),
            event("session.compaction_complete", summaryContent="It was long."),
        )
    )

    model, user, result, compaction = found.records
    assert isinstance(model, ModelChange)
    assert shape([user]) == [("user", "Go, and be quick")]
    assert isinstance(result, ToolResult)
    assert (result.content, result.is_error) == ("x", True)
    assert isinstance(compaction, Compaction)
    assert skipped(found)["sub-agent's assistant.message"] == 1


def test_grok_reasoning_stays_with_the_reply_it_led_to() -> None:
    """And where the reply never came it stands alone."""
    thought = {"type": "reasoning", "summary": [], "encrypted_content": "eHh4"}
    found = only(
        jsonl(
            {"type": "system", "content": "Be brief."},
            {"type": "user", "content": "Hi", "prompt_index": 0},
            thought,
            {"type": "assistant", "content": "Hello.", "model_id": "grok-test"},
            thought,
            {"type": "user", "content": "Still there?", "prompt_index": 1},
        )
    )

    first, second = (one for one in found.records if isinstance(one, Assistant))
    assert first.content == [thought, {"type": "text", "text": "Hello."}]
    assert second.content == [thought]
    assert found.system == "Be brief."


def test_antigravity_checkpoints_results_without_calls_and_cut_texts() -> None:
    """A step that nobody called for is carried as a result that stands alone."""
    found = only(
        jsonl(
            {"step_index": 0, "source": "USER_EXPLICIT", "type": "USER_INPUT", "content": "Go"},
            {
                "step_index": 1,
                "source": "MODEL",
                "type": "RUN_COMMAND",
                "content": "ok",
                "truncated_fields": ["content"],
            },
            {"step_index": 2, "source": "SYSTEM", "type": "CHECKPOINT", "content": "So far."},
            {"step_index": 3, "source": "SYSTEM", "type": "CONVERSATION_HISTORY"},
        )
    )

    assert shape(found.records) == [("user", "Go"), ("result", "step-1", "ok"), ("compaction",)]
    assert skipped(found) == {"part of a text": 1, "step `CONVERSATION_HISTORY`": 1}


def test_opencode_storage_folder_is_one_transcript(tmp_path: Any) -> None:
    """Messages and parts are files of their own; the folder is put together like an export."""
    for path, value in {
        "session/proj/ses_1.json": {"id": "ses_1", "title": "Files"},
        "message/ses_1/msg_1.json": {"id": "msg_1", "sessionID": "ses_1", "role": "user"},
        "message/ses_1/msg_2.json": {"id": "msg_2", "sessionID": "ses_1", "role": "assistant"},
        "part/msg_1/p1.json": {"type": "text", "text": "Hi"},
        "part/p2.json": {"type": "text", "text": "Hello.", "messageID": "msg_2"},
    }.items():
        file = tmp_path / "storage" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(value))

    (place,) = places.find(str(tmp_path))
    found = only(places.load(place), place)

    assert shape(found.records) == [("user", "Hi"), ("assistant", "Hello.")]
    assert (found.name, found.label) == ("ses_1", "Files")


def test_files_of_a_folder_come_in_order_and_hidden_ones_stay_hidden(tmp_path: Any) -> None:
    """Except the one transcript that is hidden by its own name."""
    for name in ("b.json", "a.json", ".hidden.json", ".aider.chat.history.md", "deep/c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("{}")

    found = [place.removeprefix(str(tmp_path)) for place in places.find(str(tmp_path))]

    assert found == ["/.aider.chat.history.md", "/a.json", "/b.json", "/deep/c.json"]


def test_chatgpt_follows_the_current_node_and_shows_tools_as_calls() -> None:
    """Answers that were made again leave branches; what goes to a tool is a call of it."""

    def node(place: str, parent: str | None, role: str, text: str, **more: Any) -> Any:
        message = {
            "id": place,
            "author": {"role": role, "name": more.pop("name", None)},
            "content": {"content_type": "text", "parts": [text]},
            "create_time": 1772359200.0,
            **more,
        }
        return {"id": place, "parent": parent, "message": message}

    nodes = [
        node("n1", None, "system", ""),
        node("n2", "n1", "user", "How many?"),
        node("n3", "n2", "assistant", "An answer nobody liked"),
        node("n4", "n2", "assistant", "print(2)", recipient="python"),
        node("n5", "n4", "tool", "2", name="python"),
        node("n6", "n5", "assistant", "Two.", metadata={"model_slug": "gpt-test"}),
    ]
    talk = {
        "title": "Counting",
        "conversation_id": "c1",
        "current_node": "n6",
        "mapping": {one["id"]: one for one in nodes},
    }

    found = only(document([talk]))

    assert shape(found.records) == [
        ("user", "How many?"),
        ("assistant", "", ("call-1", "python", {"input": "print(2)"})),
        ("result", "call-1", "2"),
        ("assistant", "Two."),
    ]
    assert isinstance(found.records[3], Assistant)
    assert (found.records[3].model, found.label) == ("gpt-test", "Counting")
    assert skipped(found) == {"abandoned branch": 1, "empty message": 1}


def test_claude_web_attachments_are_part_of_what_was_said() -> None:
    """Their text is in the export; files are only named there."""
    message = {
        "uuid": "m1",
        "sender": "human",
        "created_at": STAMP,
        "content": [{"type": "text", "text": "Read this"}, {"type": "tool_use", "name": "x"}],
        "attachments": [{"file_name": "a.txt", "extracted_content": "the text"}],
        "files": [{"file_name": "a.png"}],
    }

    found = only(document([{"uuid": "c1", "name": "Reading", "chat_messages": [message]}]))

    assert shape(found.records) == [("user", "Read this\nthe text")]
    assert (found.name, found.label) == ("c1", "Reading")
    assert skipped(found) == {"block `tool_use`": 1, "file": 1}


def test_sharegpt_voices() -> None:
    """Humans ask, models answer, by whatever name; a voice nobody knows is listed."""
    turns = [("system", "Be brief."), ("human", "Hi"), ("gpt", "Hello."), ("ghost", "Boo")]
    line = {"id": 7, "conversations": [{"from": who, "value": said} for who, said in turns]}

    first, second = read(jsonl(line, line), "share.jsonl")

    assert shape(first.records) == [("user", "Hi"), ("assistant", "Hello.")]
    assert (first.system, first.name, second.name) == ("Be brief.", "7", "7-2")
    assert skipped(first) == {"message with the role 'ghost'": 1}


def test_the_tools_of_a_simulated_user_are_left_out() -> None:
    """The agent never saw them; what the user said is carried."""
    messages = [
        {"role": "assistant", "content": "What does the screen say?"},
        {"role": "user", "tool_calls": [{"id": "u1", "name": "look", "requestor": "user"}]},
        {"role": "tool", "id": "u1", "content": "no signal", "requestor": "user"},
        {"role": "user", "content": "No signal."},
        {"role": "assistant", "tool_calls": [{"id": "t1", "name": "reset", "arguments": {}}]},
        {"role": "tool", "tool_messages": [{"role": "tool", "id": "t1", "content": "done"}]},
    ]
    found = only(document({"simulations": [{"task_id": "7", "trial": 1, "messages": messages}]}))
    assert found.name.endswith("task7-trial1")
    kinds = [type(record).__name__ for record in found.records]
    assert kinds == ["Assistant", "User", "Assistant", "ToolResult"]
    assert found.records[-1].tool_use_id == "t1"  # type: ignore[union-attr]
    assert skipped(found) == {"call of the simulated user": 1, "result for the simulated user": 1}


def test_agents_of_a_conversation_keep_their_names() -> None:
    history = [
        {"role": "human", "content": "Find it."},
        {"role": "Orchestrator (to Searcher)", "content": "Search."},
        {"role": "assistant", "name": "Searcher", "content": "Found."},
    ]
    found = only(document({"id": "g1", "history": history}))
    kinds = [type(record).__name__ for record in found.records]
    assert kinds == ["User", "Assistant", "Assistant"]
    names = [record.extra.get("name") for record in found.records[1:]]
    assert names == ["Orchestrator (to Searcher)", "Searcher"]
