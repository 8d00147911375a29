"""Sessions that a gateway holds open: bounded in number and in file descriptors."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace
from tests.engine.gateway.gateways import FAST, done, running_gateway
from tests.support.runs import is_whole

from holdfast.core.log.ids import SessionKey
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.ports import SessionStore


async def answer_in_each(gateway: Gateway, store: SessionStore, count: int) -> None:
    """Let a number of sessions answer one message each."""
    keys = [SessionKey("main", f"s{number}") for number in range(count)]
    for key in keys:
        store.create(key)
    for message in [await gateway.submit(key, "hello") for key in keys]:
        assert (await done(gateway, message)).state == "answered"


@pytest.mark.files_only("it counts the files of a folder that are open")
def test_open_sessions_share_file_descriptors(tmp_path: Path) -> None:
    """1,000 open sessions take fewer than 256."""

    async def count_files(folder: Path, sessions: int) -> int:
        with JsonlStore(folder) as store:
            before = len(os.listdir("/proc/self/fd"))
            options = replace(FAST, sessions_max=sessions)
            async with running_gateway(store, options=options) as gateway:
                await answer_in_each(gateway, store, sessions)
                assert len(gateway.sessions) == sessions
                return len(os.listdir("/proc/self/fd")) - before

    assert asyncio.run(count_files(tmp_path, 1_000 if is_whole() else 260)) < 256


def test_sessions_over_the_limit_and_idle_ones_are_closed(tmp_path: Path) -> None:
    async def scenario() -> None:
        with JsonlStore(tmp_path) as store:
            options = replace(FAST, sessions_max=5)
            async with running_gateway(store, options=options) as gateway:
                await answer_in_each(gateway, store, 12)
                assert len(gateway.sessions) <= 5
            options = replace(FAST, idle_seconds=0.01)
            async with running_gateway(store, options=options) as gateway:
                key = SessionKey("main", "s1")
                assert (await done(gateway, await gateway.submit(key, "again"))).state == "answered"
                await asyncio.sleep(0.05)
                await gateway.sessions.evict()
                assert len(gateway.sessions) == 0

    asyncio.run(scenario())


def test_a_session_that_was_forgotten_in_use_is_closed_after_it(tmp_path: Path) -> None:
    async def scenario() -> None:
        with JsonlStore(tmp_path) as store:
            key = SessionKey("main", "s")
            store.create(key)
            async with running_gateway(store) as gateway:
                closed = []
                async with gateway.sessions.use(key) as session:
                    close = session.close

                    async def note() -> None:
                        closed.append(session)
                        await close()

                    session.close = note  # type: ignore[method-assign]
                    await gateway.sessions.forget(key)
                    assert closed == []
                assert closed == [session]

    asyncio.run(scenario())
