"""Clients of agents, in each dialect: they keep the history themselves, as chat programs do."""

from __future__ import annotations

import json
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from tests.engine.proxy.conversations import PATHS, Client
from tests.surfaces.http.servers import serving

from holdfast.core.dialects.registry import find_dialect, target
from holdfast.surfaces.serve_settings import AgentSettings
from holdfast.testing import Answer, Loopback

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    import httpx2

    from holdfast.core.log.records import Json
    from holdfast.engine.access_tokens import AccessToken
    from holdfast.ports import SessionStore
    from holdfast.testing.loopback import Asked

MODEL: Final = "holdfast/main"


class Chat:
    """A conversation with an agent, in the shapes of one dialect."""

    def __init__(
        self, http: httpx2.AsyncClient, dialect: str, token: str = "", *, is_streamed: bool = False
    ) -> None:
        self.http = http
        self.client = Client(dialect)
        self.token = token
        self.is_streamed = is_streamed
        self.step = self.session = ""

    @property
    def items(self) -> list[Any]:
        return self.client.items

    async def say(self, text: str, **headers: str) -> str:
        """Send a message, and take its answer into the history."""
        self.client.say(text)
        return await self.ask(**headers)

    async def ask(self, **headers: str) -> str:
        """Send the history as it is, and take the answer into it."""
        answer = await self.send(**headers)
        assert answer.status_code == 200, answer.text
        self.step = answer.headers["x-holdfast-step"]
        self.session = answer.headers["x-holdfast-session"]
        text = read_text(self.client.dialect, answer.content, is_streamed=self.is_streamed)
        self.client.hear(text)
        return text

    async def send(self, **headers: str) -> httpx2.Response:
        """Send the history as it is, and return the response."""
        path, body = request_of(self.client, is_streamed=self.is_streamed)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return await self.http.post(path, json=body, headers={**self.key(), **named})

    def key(self) -> dict[str, str]:
        """Return the token where the dialect has its key."""
        name = find_dialect(self.client.dialect).body.key_header
        bearer = "Bearer " if name == "authorization" else ""
        return {name: f"{bearer}{self.token}"} if self.token else {}


def request_of(client: Client, *, is_streamed: bool) -> tuple[str, Json]:
    """Return the address and the body of a request to the agent."""
    body = client.request(model=MODEL).body
    field = find_dialect(client.dialect).body.items_field
    kept: Json = {name: body[name] for name in ("model", "max_tokens") if name in body}
    path = PATHS[client.dialect]
    if client.dialect == "gemini":
        method = "streamGenerateContent?alt=sse" if is_streamed else "generateContent"
        return f"/v1beta/models/{MODEL}:{method}", {field: client.items}
    stream = {"stream": True} if is_streamed else {}
    return path, {**kept, field: client.items, **stream}


def read_text(dialect: str, data: bytes, *, is_streamed: bool) -> str:
    """Return the text of an answer, read as the dialect's own clients read it."""
    known = find_dialect(dialect)
    body = json.loads(data) if not is_streamed else read_stream(dialect, data)
    return known.read(body, target(dialect)).text


def read_stream(dialect: str, data: bytes) -> Json:
    """Return the whole reply of a stream."""
    reader = find_dialect(dialect).stream()
    for line in data.split(b"\n"):
        if line.startswith(b"data: {"):
            reader.take(json.loads(line[6:]))
    assert reader.is_complete, data
    return reader.body()


def numbered(asked: Asked) -> Answer:
    """Answer with a number, so that no two answers are equal."""
    return Answer(f"Answer {asked.number}.")


@asynccontextmanager
async def agents(
    store: SessionStore,
    *tokens: AccessToken,
    brain: Any = numbered,
    tools: Sequence[str] = (),
    **settings: Any,
) -> AsyncIterator[tuple[httpx2.AsyncClient, Loopback]]:
    """Serve an agent whose model is a provider that enforces its rules."""
    with Loopback(brain) as provider:
        model = f"anthropic:claude-opus-4-8@{provider.url}"
        main = AgentSettings(model=model, tools=tuple(tools), checkpoints="off")
        given = {"agents": {"main": main, "other": main}, **settings}
        async with serving(store, *tokens, **given) as http:
            yield http, provider
        assert provider.invalid == ()
