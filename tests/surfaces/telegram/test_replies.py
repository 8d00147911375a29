"""Messages of a bot may be answered by any gateway over its store."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.engine.gateway.gateways import AnsweringModel, running_gateway
from tests.surfaces.telegram.bots import echo, running_bot

from holdfast.core.secrets.redaction import Redactor
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.cli.serve.serve import build_server
from holdfast.surfaces.serve_settings import ServeSettings
from holdfast.surfaces.telegram.replies import CHANNEL, TelegramReplies

if TYPE_CHECKING:
    from tests.support.bot_api import BotApiServer


def test_another_process_answers(server: BotApiServer) -> None:
    """A gateway without the bot stores the answer, and the bot sends it."""

    async def scenario() -> None:
        with MemoryStore() as store:
            channels = {CHANNEL: TelegramReplies(store, Redactor())}
            async with (
                running_gateway(store, AnsweringModel(echo), channels=channels),
                running_bot(store, server, does_answer=False) as bot,
            ):
                assert await bot.ask("hello") == "re: hello"

    asyncio.run(scenario())


def test_the_http_gateway_answers_them() -> None:
    with MemoryStore() as store:
        built = build_server(ServeSettings(), store, "offline")
        assert isinstance(built.gateway.channels[CHANNEL], TelegramReplies)
