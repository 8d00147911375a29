"""One small transcript in every format, written by hand, and what the tests do with them."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from benchmarks.formats import WITH_BENCHMARKS

from holdfast import importers
from holdfast.core.log.records import Assistant, Record, ToolResult, User, text_of, tool_calls

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.importers.common.base import Imported

FORMATS: Final = WITH_BENCHMARKS
"""Every format that is read anywhere: ours, and those beside the benchmarks."""
read = partial(importers.read_transcript, formats=FORMATS)
detect = partial(importers.detect_format, formats=FORMATS)


def jsonl(*values: Any) -> bytes:
    """One object a line."""
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def document(value: Any) -> bytes:
    """One object over several lines, as programs write for people."""
    return json.dumps(value, indent=2).encode()


def only(data: bytes, name: str = "file.jsonl", kind: str | None = None) -> Imported:
    """The one session in a file."""
    (found,) = read(data, name, format=kind)
    return found


def shape(records: Iterable[Record]) -> list[Any]:
    """What a conversation comes to: who said what, which calls, which answers."""
    seen: list[Any] = []
    for record in records:
        match record:
            case User(content=content):
                seen.append(("user", text_of(content)))
            case Assistant(content=content):
                calls = [(call["id"], call["name"], call["input"]) for call in tool_calls(content)]
                seen.append(("assistant", text_of(content), *calls))
            case ToolResult(tool_use_id=call_id, content=content):
                seen.append(("result", call_id, text_of(content)))
            case _:
                seen.append((record.kind,))
    return seen


def skipped(found: Imported) -> dict[str, int]:
    counts: dict[str, int] = {}
    for one in found.skipped:
        counts[one.what] = counts.get(one.what, 0) + one.count
    return counts


STAMP = "2026-03-01T10:00:00.000Z"
STAMP_SECONDS = 1772359200.0


def claude_line(kind: str, uuid: str, parent: str | None, message: Any, **more: Any) -> Any:
    """A line as Claude Code writes it."""
    line = {
        "parentUuid": parent,
        "isSidechain": False,
        "sessionId": "5e551011-0000-4000-8000-000000000001",
        "type": kind,
        "uuid": uuid,
        "timestamp": STAMP,
        "message": message,
    }
    return {**line, **more}


def claude_user(uuid: str, parent: str | None, content: Any, **more: Any) -> Any:
    return claude_line("user", uuid, parent, {"role": "user", "content": content}, **more)


def claude_reply(
    uuid: str, parent: str | None, blocks: Any, message_id: str, out: int = 5, **more: Any
) -> Any:
    message = {
        "role": "assistant",
        "id": message_id,
        "model": "claude-test-1",
        "content": blocks,
        "stop_reason": None,
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": out},
    }
    return claude_line("assistant", uuid, parent, message, **more)


def tool_use(call_id: str, name: str = "Bash", **given: Any) -> Any:
    return {"type": "tool_use", "id": call_id, "name": name, "input": given}


def tool_result(call_id: str, content: Any, **more: Any) -> Any:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **more}


SAID = {"type": "text", "text": "On it."}

SAMPLES: dict[str, tuple[str, bytes]] = {
    "claude-code": (
        "a.jsonl",
        jsonl(
            claude_user("u1", None, "List the files"),
            claude_reply("a1", "u1", [SAID, tool_use("t1", command="ls")], "m1"),
            claude_user("u2", "a1", [tool_result("t1", "a.txt")]),
        ),
    ),
    "codex": (
        "rollout.jsonl",
        jsonl(
            {"timestamp": STAMP, "type": "session_meta", "payload": {"id": "c0de"}},
            {
                "timestamp": STAMP,
                "type": "response_item",
                "payload": {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_text", "text": "Hi"}],
                },
            },
        ),
    ),
    "pi": (
        "pi.jsonl",
        jsonl(
            {"type": "session", "version": 3, "id": "p1", "timestamp": STAMP, "cwd": "/x"},
            {
                "type": "message",
                "id": "m1",
                "parentId": None,
                "timestamp": STAMP,
                "message": {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
            },
        ),
    ),
    "openclaw": (
        "claw.jsonl",
        jsonl(
            {"type": "session", "version": 3, "id": "p1", "timestamp": STAMP, "cwd": "/x"},
            {
                "type": "custom_message",
                "customType": "openclaw.context",
                "content": "The time is ten.",
                "id": "m0",
                "parentId": None,
                "timestamp": STAMP,
            },
        ),
    ),
    "holdfast": (
        "log.jsonl",
        jsonl(
            {"type": "session", "id": "notes", "format": "holdfast", "version": 1},
            {"type": "user", "id": "r1", "content": "Hi"},
        ),
    ),
    "openai-chat": (
        "chat.json",
        document(
            [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello."},
            ]
        ),
    ),
    "anthropic": (
        "messages.json",
        document(
            {
                "model": "claude-test-1",
                "system": "Be brief.",
                "messages": [{"role": "user", "content": "Hi"}],
            }
        ),
    ),
    "openai-responses": (
        "items.json",
        document(
            [
                {"type": "message", "role": "user", "content": "Hi"},
                {"type": "function_call", "call_id": "f1", "name": "ls", "arguments": "{}"},
                {"type": "function_call_output", "call_id": "f1", "output": "a.txt"},
            ]
        ),
    ),
    "gemini": (
        "contents.json",
        document({"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]}),
    ),
    "gemini-cli": (
        "session.json",
        document(
            {
                "sessionId": "g1",
                "projectHash": "ab",
                "messages": [{"id": "m1", "type": "user", "timestamp": STAMP, "content": "Hi"}],
            }
        ),
    ),
    "qwen": (
        "qwen.jsonl",
        jsonl(
            {
                "uuid": "q1",
                "parentUuid": None,
                "sessionId": "s1",
                "timestamp": STAMP,
                "type": "user",
                "message": {"role": "user", "parts": [{"text": "Hi"}]},
            }
        ),
    ),
    "mini-swe-agent": (
        "x.traj.json",
        document(
            {
                "trajectory_format": "mini-swe-agent-1",
                "instance_id": "lib__lib-1",
                "info": {"mini_version": "1.0"},
                "messages": [
                    {"role": "system", "content": "Use a shell."},
                    {"role": "user", "content": "Fix it"},
                ],
            }
        ),
    ),
    "swe-agent": (
        "x.traj",
        document({"trajectory": [], "history": [{"role": "user", "content": "Fix it"}]}),
    ),
    "openhands": (
        "output.jsonl",
        jsonl(
            {
                "instance_id": "lib-1",
                "history": [
                    {"source": "user", "action": "message", "args": {"content": "Fix it"}},
                ],
            }
        ),
    ),
    "openinference": (
        "trace.json",
        document(
            {
                "trace_id": "f00",
                "spans": [
                    {
                        "span_id": "s1",
                        "timestamp": STAMP,
                        "span_attributes": {
                            "openinference.span.kind": "LLM",
                            "input.value": json.dumps(
                                {"messages": [{"role": "user", "content": "Hi"}]}
                            ),
                            "output.value": json.dumps({"role": "assistant", "content": "Hello."}),
                        },
                        "child_spans": [],
                    }
                ],
            }
        ),
    ),
    "inspect": (
        "eval.json",
        document(
            {
                "eval": {"task": "greet", "model": "m"},
                "samples": [{"id": 1, "messages": [{"role": "user", "content": "Hi"}]}],
            }
        ),
    ),
    "tau-bench": (
        "results.json",
        document([{"task_id": 3, "trial": 0, "traj": [{"role": "user", "content": "Hi"}]}]),
    ),
    "tau2-bench": (
        "results.json",
        document(
            {
                "info": {"agent_info": {"llm": "m"}},
                "simulations": [{"task_id": "3", "messages": [{"role": "user", "content": "Hi"}]}],
            }
        ),
    ),
    "history": (
        "group.json",
        document({"history": [{"role": "user", "name": "Ann", "content": "Hi"}]}),
    ),
    "toolbench": (
        "answer.json",
        document(
            {
                "tree": {},
                "answer_generation": {"train_messages": [[{"role": "user", "content": "Hi"}]]},
            }
        ),
    ),
    "aider": (
        ".aider.chat.history.md",
        b"# aider chat started at 2026-03-01 10:00:00\n\n> Aider v1  \n\n#### Hi  \n\nHello.\n",
    ),
    "copilot": (
        "events.jsonl",
        jsonl(
            {"type": "session.start", "data": {"sessionId": "k1"}, "id": "e1", "parentId": None},
            {"type": "user.message", "data": {"content": "Hi"}, "id": "e2", "parentId": "e1"},
        ),
    ),
    "cursor": (
        "cursor.jsonl",
        jsonl({"role": "user", "message": {"content": [{"type": "text", "text": "Hi"}]}}),
    ),
    "droid": (
        "droid.jsonl",
        jsonl(
            {"type": "session_start", "id": "d1", "title": "Greeting"},
            {"type": "message", "id": "m1", "message": {"role": "user", "content": "Hi"}},
        ),
    ),
    "grok": (
        "chat_history.jsonl",
        jsonl(
            {"type": "system", "content": "Be brief."},
            {"type": "user", "content": [{"type": "text", "text": "Hi"}], "prompt_index": 0},
        ),
    ),
    "hermes": (
        "hermes.json",
        document(
            {
                "session_id": "h1",
                "platform": "cli",
                "messages": [{"role": "user", "content": "Hi"}],
            }
        ),
    ),
    "kimi": (
        "wire.jsonl",
        jsonl(
            {"type": "metadata", "protocol_version": "1.4"},
            {
                "type": "context.append_message",
                "message": {"role": "user", "content": [{"type": "text", "text": "Hi"}]},
                "time": 1772359200000,
            },
        ),
    ),
    "antigravity": (
        "steps.jsonl",
        jsonl({"step_index": 0, "source": "USER_EXPLICIT", "type": "USER_INPUT", "content": "Hi"}),
    ),
    "opencode": (
        "export.json",
        document(
            {
                "info": {"id": "ses_1", "title": "Greeting"},
                "messages": [
                    {
                        "info": {"id": "msg_1", "role": "user"},
                        "parts": [{"type": "text", "text": "Hi"}],
                    }
                ],
            }
        ),
    ),
    "longmemeval": (
        "oracle.json",
        document(
            [
                {
                    "question_id": "q",
                    "haystack_session_ids": ["s1"],
                    "haystack_dates": ["2026/03/01 (Sun) 10:00"],
                    "haystack_sessions": [[{"role": "user", "content": "Hi", "has_answer": True}]],
                }
            ]
        ),
    ),
    "realmem": (
        "dialogues.json",
        document(
            {
                "dialogues": [
                    {
                        "session_uuid": "ab12",
                        "session_identifier": "Topic:S1",
                        "current_time": "2026-03-01 (Sunday)",
                        "dialogue_turns": [{"speaker": "User", "content": "Hi"}],
                    }
                ]
            }
        ),
    ),
    "qmsum": (
        "val.jsonl",
        jsonl({"meeting_transcripts": [{"speaker": "Chair", "content": "Welcome ."}]}),
    ),
    "memorycode": (
        "dialogue_9.json",
        document(
            {
                "context": {"mentor": "Ann", "mentee": "Bo"},
                "sessions": [{"text": "Ann: Hello.\n\nBo: Hi.\nB: Hi again."}],
            }
        ),
    ),
    "memorybank": (
        "bank.json",
        document(
            {
                "Ann": {
                    "name": "Ann",
                    "history": {"2026-03-01": [{"query": "Hi", "response": "Hello."}]},
                }
            }
        ),
    ),
    "goodai-ltm": (
        "master_log.jsonl",
        jsonl(
            {"type": 0, "test_id": "t", "timestamp": 1772359200.0, "data": {"message": "Hi"}},
            {"type": 4, "test_id": "t", "timestamp": 1772359201.0, "data": {"message": "Hello."}},
        ),
    ),
    "chatgpt": (
        "conversations.json",
        document(
            [
                {
                    "title": "Greeting",
                    "conversation_id": "g1",
                    "current_node": "n2",
                    "mapping": {
                        "n1": {"id": "n1", "message": None, "parent": None},
                        "n2": {
                            "id": "n2",
                            "parent": "n1",
                            "message": {
                                "id": "n2",
                                "author": {"role": "user"},
                                "content": {"content_type": "text", "parts": ["Hi"]},
                            },
                        },
                    },
                }
            ]
        ),
    ),
    "claude-web": (
        "conversations.json",
        document(
            [
                {
                    "uuid": "c1",
                    "name": "Greeting",
                    "chat_messages": [{"uuid": "m1", "sender": "human", "text": "Hi"}],
                }
            ]
        ),
    ),
    "sharegpt": (
        "share.json",
        document([{"id": "x1", "conversations": [{"from": "human", "value": "Hi"}]}]),
    ),
    "langchain": (
        "dump.json",
        document([{"type": "human", "data": {"content": "Hi", "type": "human"}}]),
    ),
    "goose": (
        "20260201_1.jsonl",
        jsonl(
            {"working_dir": "/work", "description": "Greeting", "message_count": 1},
            {"role": "user", "created": 1770000000, "content": [{"type": "text", "text": "Hi"}]},
        ),
    ),
    "amp": (
        "T-1.json",
        document(
            {
                "v": 3,
                "id": "T-1",
                "title": "Greeting",
                "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
            }
        ),
    ),
    "litellm": (
        "calls.jsonl",
        jsonl(
            {
                "call_type": "completion",
                "model": "gpt-5",
                "messages": [{"role": "user", "content": "Hi"}],
                "response": {"choices": [{"message": {"content": "Hello"}}]},
            }
        ),
    ),
    "vercel-ui": (
        "chat.json",
        document([{"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Hi"}]}]),
    ),
}
