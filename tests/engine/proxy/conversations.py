"""Conversations of a client that knows nothing of the proxy, in each dialect."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.log.records import Header
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.proxy.request import ClientRequest

if TYPE_CHECKING:
    from holdfast.core.log.records import Json, Record
    from holdfast.engine.proxy.exchange import ProxyExchange, ProxyKeeper
    from holdfast.ports import SessionStore

DIALECTS: tuple[str, ...] = (
    "anthropic",
    "openai-chat",
    "openai-responses",
    "gemini",
)
MODELS = {
    "anthropic": "claude-opus-4-8",
    "openai-chat": "gpt-4o",
    "openai-responses": "gpt-4o",
    "gemini": "gemini-2.5-pro",
}
PATHS = {
    "anthropic": "/v1/messages",
    "openai-chat": "/v1/chat/completions",
    "openai-responses": "/v1/responses",
    "gemini": f"/v1beta/models/{MODELS['gemini']}:generateContent",
}


def path_for(dialect: str, *, is_streamed: bool = False) -> str:
    """The address of a request. Gemini has another one for a stream."""
    if dialect == "gemini" and is_streamed:
        return PATHS[dialect].replace(":g", ":streamG") + "?alt=sse"
    return PATHS[dialect]


TOOL = {"name": "read", "description": "Reads.", "parameters": {"type": "object", "properties": {}}}


class Client:
    """Holds a conversation as its own list, in the shapes of one dialect."""

    def __init__(self, dialect: str, system: str = "You are an agent.") -> None:
        self.dialect = dialect
        self.system = system
        self.items: list[Any] = []
        self.headers: dict[str, str] = {}
        self.extra: Json = {}
        self.has_tools = True
        self._calls = 0
        self.ids = "call_"
        """How the ids of calls begin. A provider's own begin otherwise in each conversation."""

    def say(self, text: str) -> None:
        if self.dialect == "gemini":
            self.items.append({"role": "user", "parts": [{"text": text}]})
            return
        kind = {"type": "message"} if self.dialect == "openai-responses" else {}
        self.items.append({**kind, "role": "user", "content": text})

    def hear(self, text: str, call: str = "") -> bytes:
        """Take a reply into the conversation; returns it as the provider sends it."""
        self._calls += 1
        call_id = f"{self.ids}{self._calls}"
        body = wire_reply(self.dialect, text, call, call_id)
        if self.dialect == "anthropic":
            self.items.append({"role": "assistant", "content": body["content"]})
        elif self.dialect == "openai-chat":
            self.items.append(body["choices"][0]["message"])
        elif self.dialect == "gemini":
            self.items.append(body["candidates"][0]["content"])
        else:
            self.items += [
                {name: value for name, value in item.items() if name != "id"}
                for item in body["output"]
            ]
        return json.dumps(body).encode()

    def answer(self, output: str) -> None:
        """Answer the last call."""
        call_id = f"{self.ids}{self._calls}"
        if self.dialect == "anthropic":
            block = {"type": "tool_result", "tool_use_id": call_id, "content": output}
            self.items.append({"role": "user", "content": [block]})
        elif self.dialect == "openai-chat":
            self.items.append({"role": "tool", "tool_call_id": call_id, "content": output})
        elif self.dialect == "gemini":
            part = {"functionResponse": {"name": "read", "response": {"output": output}}}
            self.items.append({"role": "user", "parts": [part]})
        else:
            kind = "function_call_output"
            self.items.append({"type": kind, "call_id": call_id, "output": output})

    def request(self, **changes: Any) -> ClientRequest:
        body: Json = {"model": MODELS[self.dialect], **self.extra, **changes}
        schema = TOOL["parameters"]
        if self.dialect == "anthropic":
            body |= {"max_tokens": 500, "system": self.system, "messages": self.items}
            tools: list[Json] = [{"name": "read", "description": "R", "input_schema": schema}]
        elif self.dialect == "openai-chat":
            first = [{"role": "system", "content": self.system}]
            body |= {"messages": [*first, *self.items]}
            tools = [{"type": "function", "function": TOOL}]
        elif self.dialect == "gemini":
            for name in ("model", "stream", "stream_options"):  # they are in the address
                body.pop(name, None)
            body |= {"systemInstruction": {"parts": [{"text": self.system}]}}
            body |= {"contents": self.items, "generationConfig": {"maxOutputTokens": 500}}
            tools = [{"functionDeclarations": [TOOL]}]
        else:
            body |= {"instructions": self.system, "input": self.items, "store": False}
            tools = [{"type": "function", **TOOL}]
        if self.has_tools:
            body["tools"] = tools
        body |= {name: value for name, value in self.extra.items() if name in body}
        return ClientRequest(
            dialect=self.dialect,
            upstream=self.dialect.partition("-")[0],
            headers=dict(self.headers),
            data=json.dumps(body).encode(),
            path_model=changes.get("model", MODELS["gemini"]) if self.dialect == "gemini" else "",
        )


def wire_reply(dialect: str, text: str, call: str, call_id: str) -> Json:
    given = {"path": call}
    if dialect == "anthropic":
        block = {"type": "tool_use", "id": call_id, "name": "read", "input": given}
        content: list[Json] = [{"type": "text", "text": text}, *([block] if call else [])]
        usage = {"input_tokens": 10, "output_tokens": 5}
        return {"type": "message", "role": "assistant", "content": content, "usage": usage}
    if dialect == "gemini":
        made = {"functionCall": {"name": "read", "args": given}}
        parts: list[Json] = [*([{"text": text}] if text else []), *([made] if call else [])]
        reply = {"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}
        used = {"promptTokenCount": 10, "candidatesTokenCount": 5, "totalTokenCount": 15}
        return {"candidates": [reply], "usageMetadata": used}
    arguments = json.dumps(given, indent=1)
    if dialect == "openai-chat":
        function = {"name": "read", "arguments": arguments}
        calls = [{"id": call_id, "type": "function", "function": function}]
        message = {"role": "assistant", "content": text, **({"tool_calls": calls} if call else {})}
        reason = "tool_calls" if call else "stop"
        return {"choices": [{"index": 0, "message": message, "finish_reason": reason}]}
    said = [{"type": "output_text", "text": text}]
    items: list[Json] = [{"type": "message", "id": "m", "role": "assistant", "content": said}]
    if call:
        about = {"call_id": call_id, "name": "read", "arguments": arguments}
        items.append({"type": "function_call", "id": "f", **about})
    return {"object": "response", "id": f"resp_{call_id}", "status": "completed", "output": items}


def exchange(keeper: ProxyKeeper, client: Client, text: str, call: str = "") -> ProxyExchange:
    """Send a client's conversation as it is, and get a reply."""
    begun = keeper.begin(client.request())
    begun.open("application/json", "")
    begun.take(client.hear(text, call))
    begun.finish()
    return begun


def path(store: SessionStore, session: str) -> list[Record]:
    """The messages on the path to the head of a session."""
    keys = [info.key for info in store.sessions(owner=ANY_OWNER) if info.key.session == session]
    found = [record for record in store.read(keys[0]) if not isinstance(record, Header)]
    return [record for record in found if record.kind in ("user", "assistant", "tool_result")]


def texts(records: list[Record]) -> list[str]:
    """Each message as one text, with calls by their argument."""
    shown = []
    for record in records:
        content = getattr(record, "content", None)
        blocks = content if isinstance(content, list) else [{"type": "text", "text": content}]
        parts = [
            block.get("text") or msgspec.json.encode(block.get("input")).decode()
            for block in blocks
        ]
        shown.append(" ".join(str(part) for part in parts))
    return shown
