"""Bots for tests: a channel over a store, at a server of the Bot API on this machine."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from tests.engine.gateway.gateways import FAST, AnsweringModel
from tests.support.bot_api import TOKEN, BotApiServer

from holdfast.engine.gateway.gateway import Gateway
from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.options import SessionOptions
from holdfast.surfaces.telegram.channel import TelegramChannel
from holdfast.surfaces.telegram.settings import TelegramSettings

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.engine.gateway.gateway import GatewayOptions
    from holdfast.ports import AsyncModel, Clock, SessionStore

OPTIONS = SessionOptions(summary="extract")


def echo(text: str) -> str:
    """Answer the words of the person, without the context in front of them."""
    return f"re: {text.rpartition(chr(10))[2]}"


class RunningBot:
    """A bot that runs in the event loop of a test."""

    def __init__(
        self,
        server: BotApiServer,
        gateway: Gateway,
        channel: TelegramChannel,
        running: asyncio.Task[None],
    ) -> None:
        self.server = server
        self.gateway = gateway
        self.channel = channel
        self.running = running

    async def stop(self) -> None:
        """Stop it, as an operator does."""
        self.running.cancel()
        await asyncio.wait([self.running])
        await self.gateway.stop()
        await self.channel.close(0)

    async def ended(self, seconds: float = 30.0) -> None:
        """Wait until the bot has given up."""
        done, _ = await asyncio.wait([self.running], timeout=seconds)
        assert done, "the bot goes on"

    async def until(self, is_met: Callable[[], Any], seconds: float = 30.0) -> None:
        """Wait until a condition about the server holds."""
        await asyncio.to_thread(self.server.wait_for, is_met, seconds)

    async def texts(self, count: int, chat: int = 99) -> list[str]:
        """Wait for so many messages of the bot in a chat, and return all of them."""
        return await asyncio.to_thread(self.server.wait_for_texts, count, chat)

    async def ask(self, text: str, *, chat: int = 99, **fields: Any) -> str:
        """Send a message, and return the next one of the bot."""
        before = len(self.server.texts(chat))
        self.server.say(text, user=fields.pop("user", 99), chat=chat, **fields)
        return (await self.texts(before + 1, chat))[before]


def make_settings(server: BotApiServer, **more: Any) -> TelegramSettings:
    given: dict[str, Any] = {"allow": frozenset({99, 98, -100}), "poll_seconds": 5, **more}
    return TelegramSettings(token=TOKEN, api_base=server.url, **given)


@asynccontextmanager
async def running_bot(
    store: SessionStore,
    server: BotApiServer,
    model: AsyncModel | None = None,
    options: GatewayOptions = FAST,
    *,
    does_answer: bool = True,
    clock: Clock = time.time,
    session: SessionOptions = OPTIONS,
    **settings: Any,
) -> AsyncIterator[RunningBot]:
    """Without `does_answer`, the answers are left to another gateway."""
    answering = model or AnsweringModel(echo)

    async def open_session(key: SessionKey) -> AsyncSession:
        return await asyncio.to_thread(AsyncSession, store, key, answering, session)

    gateway = Gateway(store, open_session, options, clock=clock)
    channel = TelegramChannel(
        gateway, make_settings(server, **settings), agent="main", model=answering, options=session
    )
    if does_answer:
        await gateway.start(is_alone=True)
    running = asyncio.create_task(channel.run())
    bot = RunningBot(server, gateway, channel, running)
    try:
        yield bot
        assert running.cancelled() or not running.done() or running.result() is None
    finally:
        await bot.stop()
