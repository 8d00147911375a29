"""Lives behind the proxy: a client that keeps its own conversation and sends all of it."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from tests.lives.lives import (
    FAULTS,
    MODELS,
    Change,
    Compact,
    Fail,
    Fork,
    Inject,
    Life,
    Pause,
    Resume,
    Rewind,
    Say,
    Switch,
    Undo,
)
from tests.lives.living import Provider, fetch, words
from tests.lives.oracle import Fault, Sent, epoch_cause, judge
from tests.surfaces.proxy.proxies import running_proxy

from holdfast.core.log.records import Json
from holdfast.core.owners import ANY_OWNER
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from tests.lives.lives import Step

ROOM = 100_000_000
TOOL: Json = {
    "name": "fetch",
    "description": "Fetch a text.",
    "parameters": {
        "type": "object",
        "properties": {"words": {"type": "integer"}, "tag": {"type": "string"}},
    },
}


Spoil = Callable[[Json, int], Json]
"""Changes a request, given its number: what no client may do."""


class Proxied:
    """A client of the provider's raw API behind a proxy, as a life goes on.

    Without a proxy it has all the room it needs: then nothing but the client itself can break a
    law, and `spoil` makes it.
    """

    def __init__(self, life: Life, *, is_direct: bool = False, spoil: Spoil | None = None) -> None:
        self.life = life
        self.is_direct = is_direct
        self.spoil = spoil
        self.provider = Provider(life, ROOM if is_direct else 0)
        Provider.current = self.provider
        self.provider.epochs = self._epochs
        self.store = MemoryStore()
        self.model = MODELS[life.dialect][life.model]
        self.system = "You are an agent."
        self.tools = [TOOL]
        self.items: list[Any] = []
        self.turns = 0
        self.before: list[tuple[list[Any], int | None]] = []
        """The conversation, and its last request, before each turn."""
        self.undone: list[tuple[list[Any], int | None]] = []
        self.faults: list[Fault] = []

    def run(self) -> list[Fault]:
        loopback = self.provider.loopback
        if self.is_direct:
            self._live()
            return [*self.faults, *judge(self.provider.sent)]
        answer = loopback._answer

        def noting(method: str, path: str, headers: dict[str, str], raw: bytes) -> Any:
            epochs = self._epochs()
            reply = answer(method, path, headers, raw)
            provider = self.provider
            sent = Sent(loopback.requests[-1], epochs, provider.tip, False, provider.step)
            provider.sent.append(sent)
            provider.tip = len(provider.sent) - 1
            return reply

        loopback._answer = noting  # type: ignore[method-assign]
        with loopback, ExitStack() as self.stack:
            self._start()
            self._live()
        return [*self.faults, *judge(self.provider.sent)]

    def _live(self) -> None:
        for step in self.life.steps:
            self.provider.step = repr(step)
            self._take(step)

    def _start(self) -> None:
        """A proxy of its own, over the same store: as after a restart."""
        if self.is_direct:
            return
        self.stack.close()
        proxy = running_proxy(self.provider.loopback, self.store, window=self.life.window)
        self.proxy = self.stack.enter_context(proxy)

    def _epochs(self) -> tuple[str, ...]:
        """Every epoch of every session: a client's conversation can be in any of them."""
        return tuple(
            sorted(
                entry.record.id
                for info in self.store.sessions(owner=ANY_OWNER)
                for entry in self.store.read_all(info.key)
                if epoch_cause(entry.record) is not None
            )
        )

    def _take(self, step: Step) -> None:
        match step:
            case Say():
                self._say(step)
            case Inject(words=count):
                self.items += _user(self.life.dialect, words(count, f"context{self.turns}"))
            case Compact() | Undo():
                if self.undone:
                    self.items, self.provider.tip = self.undone.pop()
            case Rewind(turns=turns):
                for _ in range(min(turns, len(self.before))):
                    self.undone.append((list(self.items), self.provider.tip))
                    self.items, self.provider.tip = self.before.pop()
            case Fork():
                kept = (list(self.items), self.provider.tip, list(self.before))
                self._say(Say(5, ((5,),)))
                self.items, self.provider.tip, self.before = kept
            case Resume():
                self._start()
            case Switch() if self.life.dialect == "gemini":
                pass  # a client that keeps another model's signatures is refused without a proxy
            case Switch(model=place):
                models = MODELS[self.life.dialect]
                self.model = models[place % len(models)]
            case Change():
                pass  # a client that changes its own prefix loses its reasoning without a proxy
            case Pause(seconds=seconds):
                self.provider.now += seconds
            case Fail(name=name):
                self.provider.loopback.fail_next(FAULTS[name])

    def _say(self, step: Say) -> None:
        self.turns += 1
        self.undone.clear()
        self.before.append((list(self.items), self.provider.tip))
        self.provider.plan = list(step.rounds)
        self.items += _user(self.life.dialect, words(step.words, f"turn{self.turns}"))
        for _ in range(12):
            reply = self._post()
            if reply is None:
                break
            calls = self._hear(reply)
            if not calls:
                break
        self.provider.loopback.heal()

    def _post(self) -> Json | None:
        """One request, sent again after a failure that was told to happen, as an SDK does."""
        for _ in range(3):
            before = len(self.provider.sent)
            status, data = self._request()
            struck = [one.received.fault for one in self.provider.sent[before:]]
            try:
                body = json.loads(data)
            except ValueError:
                body = {}
            if status == 200 and isinstance(body, dict) and body and not body.get("error"):
                return body
            if not any(struck):
                sent = self.provider.sent[before:]
                if not any(one.received.violations for one in sent):
                    words = f"{status}: {data[:200]!r}"
                    self.faults.append(Fault(f"died: status {status}", words))
                return None
        return None

    def _request(self) -> tuple[int, bytes]:
        path, body = _body(self.life, self.model, self.system, self.tools, self.items)
        headers = {"content-type": "application/json", "x-api-key": "any"}
        headers |= {"authorization": "Bearer any", "x-goog-api-key": "any"}
        if self.is_direct:
            body = json.loads(json.dumps(body))
            if self.spoil is not None:
                body = self.spoil(body, len(self.provider.sent))
            reply = self.provider.handle(path, json.dumps(body).encode(), headers)
            return (0, b"") if reply.is_broken else (reply.status, reply.body)
        connection = http.client.HTTPConnection("127.0.0.1", self.proxy.port, timeout=60)
        try:
            connection.request("POST", path, json.dumps(body), headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            connection.close()

    def _hear(self, reply: Json) -> list[Any]:
        """Take a reply into the conversation as it came, and answer its calls."""
        items, calls = _said(self.life.dialect, reply)
        self.items += items
        if calls:
            outputs = [(call_id, name, fetch(**given)) for call_id, name, given in calls]
            self.items += _results(self.life.dialect, outputs)
        return calls


def _user(dialect: str, text: str) -> list[Any]:
    match dialect:
        case "gemini":
            return [{"role": "user", "parts": [{"text": text}]}]
        case "openai-responses":
            return [{"type": "message", "role": "user", "content": text}]
        case _:
            return [{"role": "user", "content": text}]


def _body(
    life: Life, model: str, system: str, tools: list[Json], items: list[Any]
) -> tuple[str, Json]:
    shows: Json = {}
    match life.dialect:
        case "anthropic":
            if life.thinking and "4-6" not in model:
                shows = {"thinking": {"type": "adaptive", "display": "summarized"}}
            declared = [
                {"name": one["name"], "description": "", "input_schema": one["parameters"]}
                for one in tools
            ]
            told: Json = {"model": model, "max_tokens": 1_000, "system": system, "tools": declared}
            return "/v1/messages", {**told, **shows, "messages": items}
        case "openai-chat":
            declared = [{"type": "function", "function": one} for one in tools]
            first = [{"role": "system", "content": system}]
            body = {"model": model, "tools": declared, "messages": [*first, *items]}
            return "/v1/chat/completions", body
        case "openai-responses":
            declared = [{"type": "function", **one} for one in tools]
            head: Json = {
                "model": model,
                "store": False,
                "include": ["reasoning.encrypted_content"],
            }
            wanted: Json = {**head, "instructions": system, "tools": declared, "input": items}
            return "/v1/responses", wanted
        case "gemini":
            asked: Json = {
                "systemInstruction": {"parts": [{"text": system}]},
                "tools": [{"functionDeclarations": tools}],
                "generationConfig": {"maxOutputTokens": 1_000},
                "contents": items,
            }
            return f"/v1beta/models/{model}:generateContent", asked
        case _:
            raise AssertionError(life.dialect)


def _said(dialect: str, reply: Json) -> tuple[list[Any], list[Any]]:
    match dialect:
        case "anthropic":
            content = reply.get("content") or []
            calls = [(b["id"], b["name"], b["input"]) for b in content if b["type"] == "tool_use"]
            return ([{"role": "assistant", "content": content}] if content else []), calls
        case "openai-chat":
            message = reply["choices"][0]["message"]
            made = message.get("tool_calls") or []
            calls = [
                (one["id"], one["function"]["name"], json.loads(one["function"]["arguments"]))
                for one in made
            ]
            is_empty = message.get("content") is None and not made
            return ([] if is_empty else [message]), calls
        case "openai-responses":
            made = [item for item in reply["output"] if item["type"] == "function_call"]
            calls = [(i["call_id"], i["name"], json.loads(i["arguments"])) for i in made]
            said = reply["output"]
            return ([] if said and said[-1]["type"] == "reasoning" else said), calls
        case _:
            content = reply["candidates"][0].get("content") or {}
            made = [p["functionCall"] for p in content.get("parts", ()) if "functionCall" in p]
            calls = [(one["id"], one["name"], one["args"]) for one in made]
            return ([content] if content.get("parts") else []), calls


def _results(dialect: str, outputs: list[tuple[str, str, str]]) -> list[Any]:
    match dialect:
        case "anthropic":
            blocks = [
                {"type": "tool_result", "tool_use_id": call_id, "content": text}
                for call_id, _name, text in outputs
            ]
            return [{"role": "user", "content": blocks}]
        case "openai-chat":
            return [
                {"role": "tool", "tool_call_id": call_id, "content": text}
                for call_id, _name, text in outputs
            ]
        case "openai-responses":
            return [
                {"type": "function_call_output", "call_id": call_id, "output": text}
                for call_id, _name, text in outputs
            ]
        case _:
            parts = [
                {"functionResponse": {"id": call_id, "name": name, "response": {"output": text}}}
                for call_id, name, text in outputs
            ]
            return [{"role": "user", "parts": parts}]
