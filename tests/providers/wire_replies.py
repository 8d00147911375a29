"""One answer as each provider writes it, whole and as a stream of events cut anywhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hypothesis.strategies import SearchStrategy

Json = dict[str, Any]

DIALECTS = ("anthropic", "openai-chat:deepseek", "openai-responses", "gemini")
"""Those with thinking that goes back."""


class Said(NamedTuple):
    """An answer in no dialect."""

    thinking: str
    text: str
    calls: tuple[tuple[str, str, Json], ...]


def answers() -> SearchStrategy[Said]:
    """Answers with a thought, some text and calls, at least one of the last two."""
    words = st.sampled_from(
        ("Yes.", "漢字 and 😀", "two\nlines\n", '{"a": 1}', "x" * 90, " padded ", "``` code ```")
    )
    arguments = st.dictionaries(
        st.sampled_from(("path", "count", "ä", "deep")),
        st.one_of(st.integers(-9, 9), words, st.booleans(), st.lists(words, max_size=2)),
        max_size=3,
    )
    call = st.tuples(st.sampled_from(("read_file", "bash")), arguments)
    calls = st.lists(call, max_size=3).map(
        lambda found: tuple(
            (f"call_{number}", name, given) for number, (name, given) in enumerate(found)
        )
    )
    return st.builds(
        Said, st.sampled_from(("", "Let me see.", "漢字")), st.just("") | words, calls
    ).filter(lambda said: bool(said.text or said.calls))


def body_of(said: Said, dialect: str) -> Json:
    """The answer as the dialect's API returns it without streaming."""
    return _BODIES[dialect.partition(":")[0]](said)


def events_of(said: Said, dialect: str, size: int) -> list[Json]:
    """The same as a stream, its texts in pieces of `size` characters."""
    return list(_EVENTS[dialect.partition(":")[0]](said, size))


def pieces(text: str, size: int) -> Iterator[str]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


def anthropic_body(said: Said) -> Json:
    thought = {"type": "thinking", "thinking": said.thinking, "signature": "c2lnbmF0dXJl"}
    content: list[Json] = [thought] if said.thinking else []
    content += [{"type": "text", "text": said.text}] if said.text else []
    content += [
        {"type": "tool_use", "id": call_id, "name": name, "input": given}
        for call_id, name, given in said.calls
    ]
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": content,
        "stop_reason": "tool_use" if said.calls else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 7},
    }


def _anthropic_events(said: Said, size: int) -> Iterator[Json]:
    body = anthropic_body(said)
    usage = {"input_tokens": 9, "cache_read_input_tokens": 4, "output_tokens": 1}
    yield {
        "type": "message_start",
        "message": {**body, "content": [], "stop_reason": None, "usage": usage},
    }
    empty: Json
    for index, block in enumerate(body["content"]):
        match block["type"]:
            case "text":
                empty = {"type": "text", "text": ""}
                deltas = [
                    {"type": "text_delta", "text": one} for one in pieces(block["text"], size)
                ]
            case "thinking":
                empty = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [
                    {"type": "thinking_delta", "thinking": one}
                    for one in pieces(block["thinking"], size)
                ]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            case _:
                empty = {**block, "input": {}}
                text = json.dumps(block["input"]) if block["input"] else ""
                deltas = [
                    {"type": "input_json_delta", "partial_json": one} for one in pieces(text, size)
                ]
        yield {"type": "content_block_start", "index": index, "content_block": empty}
        yield {"type": "ping"}
        for delta in deltas:
            yield {"type": "content_block_delta", "index": index, "delta": delta}
        yield {"type": "content_block_stop", "index": index}
    yield {
        "type": "message_delta",
        "delta": {"stop_reason": body["stop_reason"], "stop_sequence": None},
        "usage": {"output_tokens": 7},
    }
    yield {"type": "message_stop"}


def chat_body(said: Said) -> Json:
    message: Json = {"role": "assistant", "content": said.text or None}
    if said.thinking:
        message["reasoning_content"] = said.thinking
    if said.calls:
        message["tool_calls"] = [
            {
                "id": call_id,
                "type": "function",
                "function": {"name": name, "arguments": json.dumps(given)},
            }
            for call_id, name, given in said.calls
        ]
    reason = "tool_calls" if said.calls else "stop"
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 13, "completion_tokens": 7, "total_tokens": 20},
    }


def _chat_events(said: Said, size: int) -> Iterator[Json]:
    body = chat_body(said)

    def chunk(delta: Json, reason: str | None = None) -> Json:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "choices": [choice]}

    yield chunk({"role": "assistant", "content": ""})
    for piece in pieces(said.thinking, size):
        yield chunk({"reasoning_content": piece, "content": None})
    for piece in pieces(said.text, size):
        yield chunk({"content": piece})
    for index, (call_id, name, given) in enumerate(said.calls):
        function = {"name": name, "arguments": ""}
        opened = {"index": index, "id": call_id, "type": "function", "function": function}
        yield chunk({"tool_calls": [opened]})
        for piece in pieces(json.dumps(given), size):
            yield chunk({"tool_calls": [{"index": index, "function": {"arguments": piece}}]})
    yield chunk({}, body["choices"][0]["finish_reason"])
    yield {"id": "chatcmpl-1", "choices": [], "usage": body["usage"]}


def responses_body(said: Said) -> Json:
    output: list[Json] = []
    if said.thinking:
        summary = [{"type": "summary_text", "text": said.thinking}]
        sealed = {"encrypted_content": "c2VhbGVk", "status": None}
        output.append({"type": "reasoning", "id": "rs_1", "summary": summary, **sealed})
    if said.text:
        part = {"type": "output_text", "text": said.text, "annotations": []}
        about = {"id": "msg_1", "role": "assistant", "status": "completed"}
        output.append({"type": "message", **about, "content": [part]})
    output += [
        {
            "type": "function_call",
            "id": f"fc_{call_id}",
            "call_id": call_id,
            "name": name,
            "arguments": json.dumps(given),
            "status": "completed",
        }
        for call_id, name, given in said.calls
    ]
    return {
        "id": "resp_1",
        "object": "response",
        "status": "completed",
        "model": "m",
        "incomplete_details": None,
        "error": None,
        "output": output,
        "usage": {
            "input_tokens": 13,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 7,
        },
    }


def _responses_events(said: Said, size: int) -> Iterator[Json]:
    body = responses_body(said)
    begun = {**body, "status": "in_progress", "output": [], "usage": None}
    yield {"type": "response.created", "response": begun}
    for index, item in enumerate(body["output"]):
        at = {"output_index": index}
        opened = {**item, "content": []} if item["type"] == "message" else item
        opened = {**opened, "arguments": ""} if item["type"] == "function_call" else opened
        yield {"type": "response.output_item.added", **at, "item": opened}
        match item["type"]:
            case "message":
                for piece in pieces(said.text, size):
                    delta = {"content_index": 0, "delta": piece}
                    yield {"type": "response.output_text.delta", **at, **delta}
            case "reasoning":
                for piece in pieces(said.thinking, size):
                    yield {"type": "response.reasoning_summary_text.delta", **at, "delta": piece}
            case _:
                for piece in pieces(item["arguments"], size):
                    yield {"type": "response.function_call_arguments.delta", **at, "delta": piece}
        yield {"type": "response.output_item.done", **at, "item": item}
    yield {"type": "response.completed", "response": body}


def gemini_body(said: Said) -> Json:
    sealed = {"thought": True, "thoughtSignature": "dGhvdWdodA=="}
    parts: list[Json] = [{"text": said.thinking, **sealed}] if said.thinking else []
    parts += [{"text": said.text}] if said.text else []
    parts += [
        {
            "functionCall": {"id": call_id, "name": name, "args": given},
            **({"thoughtSignature": "c2lnbmF0dXJl"} if not number else {}),
        }
        for number, (call_id, name, given) in enumerate(said.calls)
    ]
    content = {"role": "model", "parts": parts}
    return {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": {"promptTokenCount": 13, "candidatesTokenCount": 7},
        "modelVersion": "m",
    }


def _gemini_events(said: Said, size: int) -> Iterator[Json]:
    body = gemini_body(said)
    usage = {"usageMetadata": {"promptTokenCount": 13}}
    for part in body["candidates"][0]["content"]["parts"]:
        shown = [part]
        if "text" in part:
            bare = {name: one for name, one in part.items() if name != "thoughtSignature"}
            shown = [{**bare, "text": text} for text in pieces(part["text"], size)]
            shown[-1] = {**part, "text": shown[-1]["text"]}  # sealed when all of it is there
        for piece in shown:
            yield {"candidates": [{"content": {"role": "model", "parts": [piece]}}], **usage}
    last = {"content": {"role": "model", "parts": [{"text": ""}]}, "finishReason": "STOP"}
    yield {**body, "candidates": [{**last, "index": 0}]}


_BODIES = {
    "anthropic": anthropic_body,
    "openai-chat": chat_body,
    "openai-responses": responses_body,
    "gemini": gemini_body,
}
_EVENTS = {
    "anthropic": _anthropic_events,
    "openai-chat": _chat_events,
    "openai-responses": _responses_events,
    "gemini": _gemini_events,
}
