"""One process receives a bot's messages; the others wait, and touch nothing of what it has."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.engine.gateway.gateways import FAST
from tests.surfaces.telegram.bots import running_bot

from holdfast.ports import NewMessage
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.telegram.channel import PollingRight
from holdfast.surfaces.telegram.replies import outbox_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.bot_api import BotApiServer

    from holdfast.ports import SessionStore

OUTBOX = outbox_name(123456)
QUICK = msgspec.structs.replace(FAST, claim_seconds=3.0)


@pytest.fixture
def store() -> Iterator[SessionStore]:
    with MemoryStore() as opened:
        yield opened


async def until(is_met: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not is_met():
            await asyncio.sleep(0.01)


def test_a_second_process_waits_and_then_takes_over(
    store: SessionStore, server: BotApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """While it waits, what the first has claimed stays claimed, and Telegram hears of one poller.
    When the first has stopped, the second sends what that left, and receives."""

    async def scenario() -> None:
        async with running_bot(store, server, options=QUICK) as first:
            assert await first.ask("hello") == "re: hello"
            sending = NewMessage(
                queue=OUTBOX, lane="elsewhere", key="x", body={"chat": 99, "text": "on its way"}
            )
            row = store.queues.put(sending)
            (claimed,) = store.queues.claim(OUTBOX, first.gateway.holder, 3_600) or [row]
            async with running_bot(store, server, does_answer=False, options=QUICK) as second:
                await until(lambda: second.channel.status.state == "standby")
                assert first.gateway.holder in second.channel.status.detail
                assert await first.ask("again") == "re: again"
                found = store.queues.message(row.id)
                assert found is not None
                if claimed.holder == first.gateway.holder:  # else its own sender was faster
                    assert (found.holder, found.claims) == (claimed.holder, claimed.claims)
                assert first.channel.status.state == "running"
                await first.stop()
                await until(lambda: second.channel.status.state == "running")
                await second.until(lambda: "on its way" in server.texts())
                assert "Session: tg_99" in await second.ask("/start")

    with caplog.at_level(logging.WARNING):
        asyncio.run(scenario())
    assert server.texts().count("on its way") == 1
    assert "409" not in caplog.text
    assert "waits to take over" in caplog.text


def test_a_bot_that_lost_its_right_goes_on_when_it_is_free(
    store: SessionStore, server: BotApiServer
) -> None:
    """A process that was paused and overtaken receives nothing meanwhile."""

    async def scenario() -> None:
        async with running_bot(store, server, options=QUICK) as bot:
            assert await bot.ask("hello") == "re: hello"
            store.queues.release_all("poller:telegram:123456")
            (other,) = store.queues.claim("poller:telegram:123456", "another", 3_600)
            await until(lambda: bot.channel.status.state == "standby")
            assert "another" in bot.channel.status.detail
            polls = server.calls.count("getUpdates")
            server.say("who hears me?")
            await asyncio.sleep(0)
            assert server.calls.count("getUpdates") == polls
            store.queues.drop(other.id, "by hand")
            await bot.until(lambda: "re: who hears me?" in server.texts())
            assert "Session: tg_99" in await bot.ask("/start")

    asyncio.run(scenario())


def test_the_right_has_one_holder(store: SessionStore) -> None:
    """It ends with its process, and whoever was overtaken learns of it."""

    async def scenario() -> None:
        told: list[str] = []
        first = PollingRight(store, 1, "first", 0.2)
        second = PollingRight(store, 1, "second", 6.0)
        third = PollingRight(store, 2, "third", 6.0)
        assert not await first.is_held()
        await first.acquire(told.append)
        await third.acquire(told.append)  # of another bot
        await second.acquire(told.append)  # after the first did not renew
        assert told in ([], ["first"])
        assert not await first.is_held()
        await first.release()
        assert await second.is_held()
        waiting = asyncio.create_task(PollingRight(store, 1, "fourth", 0.2).acquire(told.append))
        await until(lambda: "second" in told)
        await second.release()
        await waiting

    asyncio.run(scenario())
