"""One conversation with a tool call, as every format that has calls would store it."""

from __future__ import annotations

import json
from typing import Any

from tests.importers.samples import STAMP, claude_reply, claude_user, document, jsonl

ASK, SAID, OUTPUT, ANSWER = "List the files", "On it.", "a.txt", "One file: a.txt"
GIVEN = {"path": "."}
WRITTEN = json.dumps(GIVEN)
PARTS_OF_CALL = [{"type": "text", "text": SAID}, {"type": "tool_use", "id": "t1", "name": "ls"}]


def _blocks(*, has_id: bool = True) -> list[Any]:
    call = {"type": "tool_use", "name": "ls", "input": GIVEN}
    return [{"type": "text", "text": SAID}, {**call, "id": "t1"} if has_id else call]


def _result(**more: Any) -> list[Any]:
    return [{"type": "tool_result", "content": OUTPUT, **more}]


def _chat() -> list[Any]:
    call = {"id": "t1", "type": "function", "function": {"name": "ls", "arguments": WRITTEN}}
    return [
        {"role": "user", "content": ASK},
        {"role": "assistant", "content": SAID, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "t1", "content": OUTPUT},
        {"role": "assistant", "content": ANSWER},
    ]


def _legacy_chat() -> list[Any]:
    call = {"name": "ls", "arguments": WRITTEN}
    return [
        {"role": "user", "content": ASK},
        {"role": "assistant", "content": SAID, "function_call": call},
        {"role": "function", "name": "ls", "content": OUTPUT},
        {"role": "assistant", "content": ANSWER},
    ]


def _anthropic() -> list[Any]:
    return [
        {"role": "user", "content": ASK},
        {"role": "assistant", "content": _blocks()},
        {"role": "user", "content": _result(tool_use_id="t1")},
        {"role": "assistant", "content": ANSWER},
    ]


def _items() -> list[Any]:
    return [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": ASK}]},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": SAID}],
        },
        {"type": "function_call", "call_id": "t1", "name": "ls", "arguments": WRITTEN},
        {"type": "function_call_output", "call_id": "t1", "output": OUTPUT},
        {
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": ANSWER}],
        },
    ]


def _contents() -> list[Any]:
    return [
        {"role": "user", "parts": [{"text": ASK}]},
        {
            "role": "model",
            "parts": [{"text": SAID}, {"functionCall": {"name": "ls", "args": GIVEN}}],
        },
        {
            "role": "user",
            "parts": [{"functionResponse": {"name": "ls", "response": {"output": OUTPUT}}}],
        },
        {"role": "model", "parts": [{"text": ANSWER}]},
    ]


def _pi(session: str) -> bytes:
    call = {"type": "toolCall", "id": "t1", "name": "ls", "arguments": GIVEN}
    messages = [
        {"role": "user", "content": ASK},
        {
            "role": "assistant",
            "content": [{"type": "text", "text": SAID}, call],
            "usage": {"input": 3},
        },
        {"role": "toolResult", "toolCallId": "t1", "toolName": "ls", "content": OUTPUT},
        {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
    ]
    return jsonl(
        {"type": "session", "version": 3, "id": session, "timestamp": STAMP, "cwd": "/x"},
        *(
            {
                "type": "message",
                "id": f"m{place}",
                "parentId": f"m{place - 1}" if place else None,
                "timestamp": STAMP,
                "message": message,
            }
            for place, message in enumerate(messages)
        ),
    )


def _qwen() -> bytes:
    kinds = ["user", "assistant", "tool_result", "assistant"]
    return jsonl(
        *(
            {
                "uuid": f"q{place}",
                "parentUuid": f"q{place - 1}" if place else None,
                "sessionId": "s1",
                "timestamp": STAMP,
                "type": kind,
                "model": "qwen-test",
                "message": content,
            }
            for place, (kind, content) in enumerate(zip(kinds, _contents(), strict=True))
        )
    )


def _gemini_cli() -> bytes:
    answer = {"functionResponse": {"id": "t1", "name": "ls", "response": {"output": OUTPUT}}}
    call = {"id": "t1", "name": "ls", "args": GIVEN, "status": "success", "result": [answer]}
    return document(
        {
            "sessionId": "g1",
            "projectHash": "ab",
            "messages": [
                {"id": "m1", "type": "user", "content": ASK},
                {"id": "m2", "type": "gemini", "content": SAID, "toolCalls": [call]},
                {"id": "m3", "type": "gemini", "content": ANSWER, "tokens": {"input": 9}},
            ],
        }
    )


def _openhands() -> bytes:
    reply = {
        "id": "gen-1",
        "model": "some-model",
        "usage": {"prompt_tokens": 3},
        "choices": [{"message": _chat()[1], "finish_reason": "tool_calls"}],
    }
    about = {"tool_call_id": "t1", "function_name": "ls", "model_response": reply}
    return jsonl(
        {
            "instance_id": "lib-1",
            "history": [
                {"source": "user", "action": "message", "args": {"content": ASK}},
                {"source": "agent", "action": "run", "tool_call_metadata": about},
                {
                    "source": "agent",
                    "observation": "run",
                    "content": OUTPUT,
                    "tool_call_metadata": about,
                },
                {"source": "agent", "action": "message", "args": {"content": ANSWER}},
            ],
        }
    )


def _resolver() -> bytes:
    """OpenHands without the model's own replies."""
    return jsonl(
        {
            "issue": {"title": "Files"},
            "history": [
                {"action": "message", "content": ASK},
                {"action": "ls", "path": ".", "thought": SAID},
                {"observation": "ls", "content": OUTPUT},
                {"action": "finish", "thought": ANSWER},
            ],
        }
    )


def _spans() -> bytes:
    calls = [{"id": "t1", "type": "function", "function": {"name": "ls", "arguments": GIVEN}}]
    request = [
        {"role": "user", "content": ASK},
        {"role": "assistant", "content": SAID},
        {"role": "tool-call", "content": f"Calling tools:\n{calls!r}"},
        {"role": "tool-response", "content": f"Call id: t1\n{OUTPUT}"},
    ]

    def span(number: int, messages: Any, reply: str) -> Any:
        return {
            "span_id": f"s{number}",
            "timestamp": f"2026-03-01T10:00:0{number}Z",
            "span_attributes": {
                "openinference.span.kind": "LLM",
                "input.value": json.dumps({"messages": messages}),
                "output.value": json.dumps({"role": "assistant", "content": reply}),
                "llm.token_count.prompt": f"{number}00",
                "llm.model_name": "some-model",
            },
            "child_spans": [],
        }

    return document(
        {
            "trace_id": "f00",
            "spans": [
                {
                    "span_id": "s0",
                    "timestamp": STAMP,
                    "span_attributes": {"openinference.span.kind": "AGENT"},
                    "child_spans": [span(1, request[:1], SAID), span(2, request, ANSWER)],
                }
            ],
        }
    )


def _copilot() -> bytes:
    call = {"toolCallId": "t1", "name": "ls", "arguments": WRITTEN}
    events = [
        ("session.start", {"sessionId": "k1", "selectedModel": "some-model"}),
        ("user.message", {"content": ASK, "transformedContent": ASK}),
        ("assistant.message", {"content": SAID, "toolRequests": [call], "outputTokens": 4}),
        ("tool.execution_complete", {"toolCallId": "t1", "result": {"content": OUTPUT}}),
        ("assistant.message", {"content": ANSWER, "toolRequests": []}),
    ]
    return jsonl(
        *(
            {"type": kind, "data": data, "id": f"e{place}", "timestamp": STAMP, "parentId": None}
            for place, (kind, data) in enumerate(events)
        )
    )


def _kimi() -> bytes:
    def event(kind: str, **more: Any) -> Any:
        inner = {"type": kind, "stepUuid": "s", **more}
        return {"type": "context.append_loop_event", "event": inner, "time": 1772359200000}

    usage = {"inputOther": 5, "inputCacheRead": 20, "output": 7}
    return jsonl(
        {"type": "metadata", "protocol_version": "1.4"},
        {"type": "config.update", "systemPrompt": "Be brief.", "modelAlias": "kimi-test"},
        {
            "type": "context.append_message",
            "message": {"role": "user", "content": [{"type": "text", "text": ASK}]},
        },
        event("step.begin"),
        event("content.part", part={"type": "text", "text": SAID}),
        event("tool.call", toolCallId="t1", name="ls", args=GIVEN),
        event("tool.result", toolCallId="t1", result={"output": OUTPUT}),
        event("step.end", usage=usage, finishReason="tool_use"),
        event("step.begin"),
        event("content.part", part={"type": "text", "text": ANSWER}),
        event("step.end"),
    )


def _antigravity() -> bytes:
    call = {"name": "ls", "args": {"path": '"."'}}
    return jsonl(
        {"step_index": 0, "source": "USER_EXPLICIT", "type": "USER_INPUT", "content": ASK},
        {
            "step_index": 1,
            "source": "MODEL",
            "type": "PLANNER_RESPONSE",
            "content": SAID,
            "tool_calls": [call],
        },
        {"step_index": 2, "source": "MODEL", "type": "LIST_DIRECTORY", "content": OUTPUT},
        {"step_index": 3, "source": "MODEL", "type": "PLANNER_RESPONSE", "content": ANSWER},
    )


def _opencode() -> bytes:
    state = {
        "status": "completed",
        "input": GIVEN,
        "output": OUTPUT,
        "time": {"end": 1772359200000},
    }
    parts = [
        {"type": "step-start"},
        {"type": "text", "text": SAID},
        {"type": "tool", "callID": "t1", "tool": "ls", "state": state},
        {"type": "step-finish", "tokens": {"input": 5, "output": 7, "cache": {"read": 20}}},
        {"type": "step-start"},
        {"type": "text", "text": ANSWER},
        {"type": "step-finish", "tokens": {"input": 6, "output": 8}},
    ]
    return document(
        {
            "info": {"id": "ses_1", "title": "Files"},
            "messages": [
                {
                    "info": {"id": "msg_1", "role": "user"},
                    "parts": [{"type": "text", "text": ASK}],
                },
                {
                    "info": {"id": "msg_2", "role": "assistant", "modelID": "some-model"},
                    "parts": parts,
                },
            ],
        }
    )


def _grok() -> bytes:
    call = {"id": "t1", "name": "ls", "arguments": WRITTEN}
    return jsonl(
        {"type": "user", "content": [{"type": "text", "text": ASK}], "prompt_index": 0},
        {"type": "assistant", "content": SAID, "tool_calls": [call], "model_id": "grok-test"},
        {"type": "tool_result", "tool_call_id": "t1", "content": OUTPUT},
        {"type": "assistant", "content": ANSWER, "tool_calls": [], "model_id": "grok-test"},
    )


def _droid_stream() -> bytes:
    about = {"session_id": "d1", "timestamp": STAMP}
    return jsonl(
        {"type": "message", "role": "user", "text": ASK, **about},
        {"type": "message", "role": "assistant", "text": SAID, **about},
        {"type": "tool_call", "toolCallId": "t1", "toolName": "ls", "parameters": GIVEN, **about},
        {"type": "tool_result", "toolCallId": "t1", "value": OUTPUT, **about},
        {"type": "completion", "finalText": ANSWER, "usage": {"input_tokens": 3}, **about},
    )


def _codex() -> bytes:
    return jsonl(
        {
            "timestamp": STAMP,
            "type": "session_meta",
            "payload": {"id": "c0de", "instructions": "x"},
        },
        {"timestamp": STAMP, "type": "turn_context", "payload": {"model": "gpt-test"}},
        *({"timestamp": STAMP, "type": "response_item", "payload": item} for item in _items()),
    )


def _codex_bare() -> bytes:
    return jsonl(
        {"id": "c0de", "timestamp": STAMP, "instructions": "Be brief."},
        *({"timestamp": STAMP, **item} for item in _items()),
        {"record_type": "state"},
    )


def _codex_events() -> bytes:
    events = [
        {"type": "user_message", "message": ASK},
        {"type": "agent_message", "message": ANSWER},
    ]
    return jsonl(
        {"timestamp": STAMP, "type": "session_meta", "payload": {"id": "c0de"}},
        *({"timestamp": STAMP, "type": "event_msg", "payload": event} for event in events),
    )


def _langchain(*, is_dumped: bool) -> bytes:
    call = {"name": "ls", "args": GIVEN, "id": "t1", "type": "tool_call"}
    messages = [
        ("human", "HumanMessage", {"content": ASK}),
        ("ai", "AIMessage", {"content": SAID, "tool_calls": [call]}),
        ("tool", "ToolMessage", {"content": OUTPUT, "tool_call_id": "t1"}),
        ("ai", "AIMessage", {"content": ANSWER, "tool_calls": []}),
    ]
    if is_dumped:
        place = ["langchain", "schema", "messages"]
        return document(
            [
                {"lc": 1, "type": "constructor", "id": [*place, name], "kwargs": given}
                for _kind, name, given in messages
            ]
        )
    return document([{"type": kind, "data": given} for kind, _name, given in messages])


_RESULT = _result(tool_use_id="t1")


def _tau2() -> list[dict[str, Any]]:
    """Calls without `function`, and results whose id is that of their call."""
    messages: list[dict[str, Any]] = []
    for message in _chat():
        calls = [{"id": call["id"], **call["function"]} for call in message.get("tool_calls") or ()]
        changed = {**message, **({"tool_calls": calls} if calls else {})}
        if message["role"] == "tool":
            changed["id"] = changed.pop("tool_call_id")
        messages.append(changed)
    return messages


CONVERSATIONS: dict[str, tuple[str, bytes]] = {
    "claude-code": (
        "claude-code",
        jsonl(
            claude_user("u1", None, ASK),
            claude_reply("a1", "u1", _blocks(), "m1"),
            claude_user("u2", "a1", _RESULT),
            claude_reply("a2", "u2", [{"type": "text", "text": ANSWER}], "m2"),
        ),
    ),
    "codex": ("codex", _codex()),
    "codex, bare items": ("codex", _codex_bare()),
    "pi": ("pi", _pi("p1")),
    "openclaw": ("openclaw", _pi("openclaw-1")),
    "holdfast": (
        "holdfast",
        jsonl(
            {"type": "session", "id": "notes", "format": "holdfast", "version": 1},
            {"type": "user", "content": ASK},
            {"type": "assistant", "content": _blocks()},
            {"type": "tool_result", "tool_use_id": "t1", "content": OUTPUT},
            {"type": "assistant", "content": ANSWER},
        ),
    ),
    "seed format": (
        "holdfast",
        jsonl(
            {"type": "user", "content": ASK, "ts": 1.5},
            {"type": "assistant", "content": _blocks(), "ts": 2.5},
            {"type": "tool_use", "tool_use_id": "t1", "name": "ls", "input": GIVEN, "ts": 3.5},
            {"type": "tool_result", "tool_use_id": "t1", "content": OUTPUT, "ts": 3.5},
            {"type": "assistant", "content": ANSWER, "ts": 4.5},
        ),
    ),
    "openai-chat": ("openai-chat", document(_chat())),
    "openai-chat, old calls": ("openai-chat", document(_legacy_chat())),
    "openai-chat, a request": (
        "openai-chat",
        document({"model": "gpt-test", "messages": _chat(), "tools": []}),
    ),
    "openai-chat, a message a line": ("openai-chat", jsonl(*_chat())),
    "openai-chat, a list a line": ("openai-chat", jsonl({"messages": _chat()})),
    "anthropic": ("anthropic", document(_anthropic())),
    "anthropic, a request": (
        "anthropic",
        document({"system": [{"type": "text", "text": "Brief."}], "messages": _anthropic()}),
    ),
    "openai-responses": ("openai-responses", document(_items())),
    "openai-responses, a request": (
        "openai-responses",
        document({"instructions": "Be brief.", "input": _items()}),
    ),
    "openai-responses, a response": (
        "openai-responses",
        document({"object": "response", "id": "r1", "input": _items()[:4], "output": _items()[4:]}),
    ),
    "gemini": ("gemini", document({"contents": _contents()})),
    "gemini, a list": ("gemini", document(_contents())),
    "gemini-cli": ("gemini-cli", _gemini_cli()),
    "qwen": ("qwen", _qwen()),
    "swe-agent": ("swe-agent", document({"trajectory": [], "history": _chat()})),
    "openhands": ("openhands", _openhands()),
    "openhands, resolver": ("openhands", _resolver()),
    "openinference": ("openinference", _spans()),
    "inspect": (
        "inspect",
        document({"eval": {"task": "t"}, "samples": [{"id": 1, "messages": _chat()}]}),
    ),
    "tau-bench": ("tau-bench", document([{"task_id": 1, "trial": 0, "traj": _chat()}])),
    "tau2-bench": ("tau2-bench", document({"simulations": [{"messages": _tau2()}]})),
    "history": ("history", document({"history": _chat()})),
    "toolbench": (
        "toolbench",
        document(
            {
                "tree": {},
                "answer_generation": {"train_messages": [_legacy_chat()[:2], _legacy_chat()]},
            }
        ),
    ),
    "copilot": ("copilot", _copilot()),
    "cursor": (
        "cursor",
        jsonl(
            *(
                {"role": one["role"], "message": {"content": one["content"]}}
                for one in [
                    {"role": "user", "content": [{"type": "text", "text": ASK}]},
                    {"role": "assistant", "content": _blocks(has_id=False)},
                    {"role": "user", "content": _result(tool_use_id="other")},
                    {"role": "assistant", "content": [{"type": "text", "text": ANSWER}]},
                ]
            )
        ),
    ),
    "droid": (
        "droid",
        jsonl(
            {"type": "session_start", "id": "d1"},
            *({"type": "message", "message": message} for message in _anthropic()),
        ),
    ),
    "grok": ("grok", _grok()),
    "hermes": ("hermes", document({"session_id": "h1", "platform": "cli", "messages": _chat()})),
    "kimi": ("kimi", _kimi()),
    "antigravity": ("antigravity", _antigravity()),
    "opencode": ("opencode", _opencode()),
    "langchain": ("langchain", _langchain(is_dumped=False)),
    "langchain, dumped": ("langchain", _langchain(is_dumped=True)),
}
"""Spelling → its format and its bytes."""

STREAMS: dict[str, tuple[str, bytes]] = {"droid": ("droid", _droid_stream())}
"""Formats that store a reply's words and its calls apart."""

WITHOUT_CALLS: dict[str, tuple[str, bytes]] = {"codex, events only": ("codex", _codex_events())}
