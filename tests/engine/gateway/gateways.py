"""Gateways for tests: over any store, with a model that answers as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from holdfast.core.dialects.registry import find_variant
from holdfast.core.log.records import Assistant, User, text_of
from holdfast.core.models.dialects import Target
from holdfast.core.models.replies import Reply
from holdfast.core.window import Window
from holdfast.engine.gateway.gateway import Gateway, GatewayOptions
from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.options import SessionOptions

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.ports import OnDelta, QueuedMessage, SessionStore

FAST = GatewayOptions(poll_seconds=0.05, drain_seconds=0.2)
Answer = Callable[[str], Awaitable[str] | str]


def _echo(text: str) -> str:
    return f"re: {text}"


class AnsweringModel:
    """A model that answers the newest message with what a function makes of it."""

    def __init__(self, answer: Answer = _echo) -> None:
        self.target = Target(find_variant("anthropic"), "test", "test-model")
        self.window = Window(100_000)
        self.answer = answer
        self.calls = 0

    async def send(self, request: Any, on_delta: OnDelta | None = None) -> Reply:
        self.calls += 1
        content = request["messages"][-1]["content"]
        text = content if isinstance(content, str) else text_of(content)
        said = self.answer(text)
        if not isinstance(said, str):
            said = await said
        return Reply(content=[{"type": "text", "text": said}], model="test-model")


def make_gateway(
    store: SessionStore,
    model: AnsweringModel | None = None,
    options: GatewayOptions = FAST,
    **more: Any,
) -> Gateway:
    answering = model or AnsweringModel()
    session_options = SessionOptions(**more.pop("session", {}))

    async def open_session(key: SessionKey) -> AsyncSession:
        return await asyncio.to_thread(AsyncSession, store, key, answering, session_options)

    return Gateway(store, open_session, options, **more)


@asynccontextmanager
async def running_gateway(
    store: SessionStore,
    model: AnsweringModel | None = None,
    options: GatewayOptions = FAST,
    *,
    is_alone: bool = True,
    **more: Any,
) -> AsyncIterator[Gateway]:
    gateway = make_gateway(store, model, options, **more)
    await gateway.start(is_alone=is_alone)
    try:
        yield gateway
    finally:
        await gateway.stop()


async def done(gateway: Gateway, message: QueuedMessage, seconds: float = 120) -> QueuedMessage:
    """Wait for a message, and return it as it ended."""
    found = await gateway.wait(message.id, seconds)
    assert found is not None
    return found


def said(store: SessionStore, key: SessionKey) -> list[str]:
    """Return what was said in a session, in order, with `<` before the answers."""
    return [
        f"{'<' if isinstance(record, Assistant) else ''}{text_of(record.content)}"
        for record in store.read(key)
        if isinstance(record, User | Assistant)
    ]
