"""An update is dealt with once, whenever the process that had it ended."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.engine.gateway.gateways import AnsweringModel, said
from tests.surfaces.telegram.bots import echo, running_bot

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Mode
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.engine.session.opening import find_session
from holdfast.errors import StoreUnavailable
from holdfast.ports import NewMessage
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.telegram.settings import ChatPlace
from holdfast.surfaces.telegram.updates import IncomingUpdate

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.bot_api import BotApiServer

    from holdfast.ports import SessionStore

QUEUE = "updates:telegram:123456"
TG_99 = SessionKey("main", "tg_99")


@pytest.fixture
def store() -> Iterator[SessionStore]:
    with MemoryStore() as opened:
        yield opened


def leave(store: SessionStore, kind: Any, text: str, *, was_claimed: bool) -> None:
    """Leave an update behind, as a process that was killed does."""
    place = ChatPlace(123456, 99, 99)
    update = IncomingUpdate(update=5, kind=kind, text=text, place=place, message=1, date=1)
    body = msgspec.to_builtins(update)
    store.queues.put(
        NewMessage(queue=QUEUE, lane="tg_99", key="5-1", body=body, owner="telegram:99")
    )
    if was_claimed:
        assert store.queues.claim(QUEUE, "killed", 3_600)


def run_bot(store: SessionStore, server: BotApiServer, texts: int, **more: Any) -> None:
    async def scenario() -> None:
        async with running_bot(store, server, **more) as bot:
            await bot.texts(texts)

    server.chats.add(99)
    asyncio.run(scenario())


@pytest.mark.parametrize("was_submitted", [False, True])
def test_a_message_is_answered_after_a_kill(
    store: SessionStore, server: BotApiServer, was_submitted: bool
) -> None:
    """Before or after it went to the inbox."""
    leave(store, "message", "hello", was_claimed=True)
    if was_submitted:
        find_session(store, "tg_99", "main", create=True, owner=NamedOwner("telegram:99"))
        body = {
            "content": "hello",
            "channel": "telegram",
            "extra": {"telegram": {"chat": 99, "user": 99, "message": 1}},
            "about": {**dict.fromkeys(("thread", "reply_to")), "bot": 123456, "chat": 99},
        }
        message = NewMessage(
            queue="inbox",
            lane=str(TG_99),
            key="telegram:123456:5-1",
            body=body,
            owner="telegram:99",
            session=str(TG_99),
        )
        message.body["about"]["session"] = str(TG_99)
        store.queues.put(message)
    run_bot(store, server, 1)
    assert server.texts() == ["re: hello"]
    assert said(store, TG_99) == ["hello", "<re: hello"]
    assert store.queues.counts("inbox", owner=ANY_OWNER) == {"answered": 1}


@pytest.mark.parametrize("was_claimed", [False, True])
@pytest.mark.parametrize("command", ["/reset", "/checkpoint", "/new"])
def test_a_command_runs_at_most_once(
    store: SessionStore, server: BotApiServer, command: str, was_claimed: bool
) -> None:
    """One that ran when its process was killed is not run again, and its sender is told. One that
    waits for turns has only been set beside the others until then."""
    leave(store, "command", command, was_claimed=was_claimed)
    run_bot(store, server, 1)
    (text,) = server.texts()
    is_first = not was_claimed or command == "/checkpoint"
    assert ("interrupted by a restart" in text) == (not is_first)
    assert bool(store.sessions(owner=ANY_OWNER)) == is_first


def test_a_store_that_fails_confirms_nothing(
    store: SessionStore, server: BotApiServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Telegram keeps an update until it is stored."""
    kind: Any = type(store.queues)
    put = kind.put
    failures = [StoreUnavailable("the disk is full"), StoreUnavailable("the disk is full")]
    waiting: list[int] = []

    def fail(queues: Any, message: NewMessage, *judge: Any) -> Any:
        if message.queue == QUEUE and failures:
            waiting.append(len(server.updates))
            raise failures.pop()
        return put(queues, message, *judge)

    monkeypatch.setattr(kind, "put", fail)
    server.say("hello")
    run_bot(store, server, 1)
    assert waiting == [1, 1], "it was confirmed before it was stored"
    assert server.texts() == ["re: hello"]


def test_a_fresh_session_knows_the_old_one(store: SessionStore, server: BotApiServer) -> None:
    """The request after /reset has its checkpoint, the one after /new nothing of it."""
    requests: list[str] = []

    class Watched(AnsweringModel):
        async def send(self, request: Any, on_delta: Any = None) -> Any:
            requests.append(str(request))
            return await super().send(request, on_delta)

    async def scenario() -> None:
        async with running_bot(store, server, Watched(echo)) as bot:
            for text in ("the code name is Heron", "/reset", "next", "/new", "last"):
                await bot.ask(text)

    asyncio.run(scenario())
    assert ["Heron" in request for request in requests] == [True, True, False]
    moved = [
        record.continued_in
        for info in store.sessions(owner=ANY_OWNER)
        for record in store.read(info.key)
        if isinstance(record, Mode) and record.continued_in
    ]
    assert len(moved) == 2


def test_a_session_of_another_owner_is_not_opened(
    store: SessionStore, server: BotApiServer
) -> None:
    """A name that somebody else has is an error that is said, and holds up nothing."""
    store.create(TG_99, owner=NamedOwner("somebody"))

    async def scenario() -> None:
        async with running_bot(store, server) as bot:
            assert "does not belong" in await bot.ask("hello")
            assert "does not belong" in await bot.ask("/status")
            assert await bot.ask("hello", user=98, chat=98) == "re: hello"

    asyncio.run(scenario())
    assert said(store, TG_99) == []


def test_secrets_are_masked_in_what_is_sent(store: SessionStore, server: BotApiServer) -> None:
    key = "gh" + "p_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"

    async def scenario() -> None:
        async with running_bot(store, server, AnsweringModel(lambda _text: f"it is {key}")) as bot:
            assert key not in await bot.ask("what is the key?")

    asyncio.run(scenario())
    assert key not in str(store.queues.messages("outbox:telegram:123456", owner=ANY_OWNER))
