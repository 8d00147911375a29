"""A chat that goes on for hundreds of messages never overflows its window."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.engine.gateway.gateways import AnsweringModel
from tests.support.runs import is_whole
from tests.surfaces.telegram.bots import echo, running_bot

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Compaction, User, text_of
from holdfast.core.tokens.estimate import estimate
from holdfast.core.window import Window
from holdfast.engine.session.opening import follow_continuation
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.bot_api import BotApiServer

    from holdfast.core.models.replies import Reply

WINDOW = 16_000
TG_99 = SessionKey("main", "tg_99")


class MeasuringModel(AnsweringModel):
    """A model that measures every request."""

    def __init__(self) -> None:
        super().__init__(echo)
        self.window = Window(WINDOW)
        self.sizes: list[int] = []

    async def send(self, request: Any, on_delta: Any = None) -> Reply:
        self.sizes.append(estimate(repr(request["messages"])))
        return await super().send(request, on_delta)


def test_three_hundred_messages_in_one_session(tmp_path: Path, server: BotApiServer) -> None:
    """In continue mode every message is answered in the same session, no request is larger than
    the window, and mode and session outlive restarts."""
    count = 300 if is_whole() else 60
    words = "the heron waits in shallow water and the ferry leaves at nine; " * (300 * 16 // count)
    model = MeasuringModel()

    async def talk(store: JsonlStore, numbers: range) -> None:
        async with running_bot(store, server, model) as bot:
            assert "Mode: continue" in await bot.ask("/mode continue")
            for number in numbers:
                answer = await bot.ask(f"{words}\nmessage {number}")
                assert answer == f"re: message {number}"
            assert "tg_99" in await bot.ask("/status")

    for start in range(0, count, count // 3):
        with JsonlStore(tmp_path) as store:
            asyncio.run(talk(store, range(start, start + count // 3)))
    with JsonlStore(tmp_path) as store:
        assert follow_continuation(store, TG_99) == TG_99
        records = list(store.read(TG_99))
    said = [text_of(each.content).rpartition("\n")[2] for each in records if isinstance(each, User)]
    assert said == [f"message {number}" for number in range(count)]
    assert sum(isinstance(each, Compaction) for each in records) >= 3
    assert len(model.sizes) >= count
    assert max(model.sizes) <= WINDOW
