"""`holdfast proxy` for benchmarks/overflow.py: a client that sends all it has, through it.

The client knows no window, and neither does the proxy: it is told by the provider's refusals. With
`compacts=True` the client replaces its older half by a summary, as some agents do by themselves.
"""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from benchmarks.overflow_cases import MODEL, OUTPUT, SYSTEM, TooLong, folder, wire_of

import holdfast
from holdfast import Assistant, JsonlStore, ToolResult, User
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.records import text_of
from holdfast.stores import ANY_OWNER
from holdfast.surfaces.proxy.app import ProxyApp, ProxySettings
from holdfast.surfaces.proxy.running import ProxyThread
from holdfast.surfaces.proxy.upstream import read_upstreams

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from benchmarks.overflow_cases import Answer, Json, OneModel, Turn

STEPS_MAX = 100
ASKS_FOR_SUMMARY = "Summarise the conversation above, for yourself.\n\n## Summary"
CHARS_PER_TOKEN = 4
"""As agents guess that compact by themselves."""
FULL_SHARE = 0.8
TOOL = {
    "name": "fetch",
    "description": "Fetch a file or a page and return its text.",
    "input_schema": {
        "type": "object",
        "properties": {"path": {"type": "string"}},
        "required": ["path"],
    },
}


def versions() -> str:
    return f"Holdfast {holdfast.__version__}"


def _provider(one: OneModel) -> type[BaseHTTPRequestHandler]:
    """The one model as Anthropic's API."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body: Json = json.loads(self.rfile.read(int(self.headers["content-length"])))
            is_summary = ASKS_FOR_SUMMARY in json.dumps(body["messages"][-1]).replace("\\n", "\n")
            try:
                status, said = 200, _reply(one.send(body, "summary" if is_summary else "answer"))
            except TooLong as refusal:
                error = {"type": "invalid_request_error", "message": str(refusal)}
                status, said = 400, {"type": "error", "error": error}
            data = json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


def _reply(answer: Answer) -> Json:
    block: Json = {"type": "text", "text": answer.text}
    if answer.path:
        call = {"id": answer.call, "name": "fetch", "input": {"path": answer.path}}
        block = {"type": "tool_use", **call}
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": [block],
        "stop_reason": "tool_use" if answer.path else "end_turn",
        "usage": {"input_tokens": answer.input_tokens, "output_tokens": answer.output_tokens},
    }


class Proxied:
    """An agent that keeps its messages in a list, behind the proxy."""

    def __init__(self, one: OneModel, place: Path, *, compacts: bool) -> None:
        self._one = one
        self._compacts = compacts
        self._root = folder(place, "sessions")
        self._messages: list[Json] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _provider(one))
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        upstream = f"http://127.0.0.1:{self._server.server_port}"
        self._store = JsonlStore(self._root)
        settings = ProxySettings(upstreams=dict(read_upstreams([f"anthropic={upstream}"])))
        self._proxy = ProxyThread(ProxyApp(settings, ProxyKeeper(self._store)))
        self._proxy.__enter__()

    def load(self, turns: Sequence[Turn]) -> None:
        self._messages = [message for turn in turns for message in wire_of(turn)]

    def say(self, text: str) -> str:
        self._messages.append({"role": "user", "content": text})
        for _ in range(STEPS_MAX):
            if self._compacts and self._is_full():
                self._compact()
            content = self._ask(self._messages)
            self._messages.append({"role": "assistant", "content": content})
            calls = [block for block in content if block["type"] == "tool_use"]
            if not calls:
                return "".join(block.get("text", "") for block in content)
            outputs = self._one.work.outputs
            results = [
                {
                    "type": "tool_result",
                    "tool_use_id": call["id"],
                    "content": outputs[call["input"]["path"]],
                }
                for call in calls
            ]
            self._messages.append({"role": "user", "content": results})
        raise RuntimeError(f"no answer after {STEPS_MAX} steps")

    def _ask(self, messages: list[Json]) -> list[Json]:
        body = {"model": MODEL, "max_tokens": OUTPUT, "system": SYSTEM, "tools": [TOOL]}
        data = json.dumps({**body, "messages": messages}).encode()
        headers = {"content-type": "application/json", "x-session-id": "torture"}
        asked = urllib.request.Request(f"{self._proxy.url}/v1/messages", data, headers)
        try:
            with urllib.request.urlopen(asked, timeout=120) as reply:
                content: list[Json] = json.loads(reply.read())["content"]
                return content
        except urllib.error.HTTPError as error:
            raise RuntimeError(error.read().decode()[:300]) from error

    def _is_full(self) -> bool:
        tokens = len(json.dumps(self._messages)) / CHARS_PER_TOKEN
        return tokens > FULL_SHARE * self._one.work.case.window

    def _compact(self) -> None:
        """Replace the older half, up to the beginning of a turn, by a summary."""
        starts = [
            at
            for at, message in enumerate(self._messages)
            if at and message["role"] == "user" and not _has_result(message)
        ]
        later = [at for at in starts if at >= len(self._messages) // 2]
        if not later:
            return  # one long turn: there is nothing older
        old = [*self._messages[: later[0]], {"role": "user", "content": ASKS_FOR_SUMMARY}]
        summary = "".join(block.get("text", "") for block in self._ask(old))
        first = {"role": "user", "content": f"<summary>\n{summary}\n</summary>"}
        told = {"role": "assistant", "content": "I know what was done."}
        self._messages = [first, told, *self._messages[later[0] :]]

    def kept(self) -> Iterator[str]:
        self._proxy.__exit__()
        self._server.shutdown()
        self._server.server_close()
        for info in self._store.sessions(owner=ANY_OWNER):
            for entry in self._store.read_all(info.key):
                record: Any = entry.record
                if isinstance(record, User | Assistant | ToolResult):
                    yield text_of(record.content)
        self._store.close()


def _has_result(message: Json) -> bool:
    content = message["content"]
    return isinstance(content, list) and any(block["type"] == "tool_result" for block in content)
