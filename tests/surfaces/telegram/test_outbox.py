"""A message is kept until Telegram has it, in the order of its chat."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.bot_api import BOT, BotApiServer, Fault
from tests.surfaces.telegram.bots import make_settings

from holdfast.core.owners import ANY_OWNER, owner_of
from holdfast.core.secrets.redaction import Redactor
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.telegram.api import BotApi, TelegramError
from holdfast.surfaces.telegram.outbox import TelegramOutbox, next_send
from holdfast.surfaces.telegram.replies import outbox_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.ports import SessionStore

QUEUE = outbox_name(123456)
TO = {"bot": BOT["id"], "chat": 99}


@pytest.fixture
def store() -> Iterator[SessionStore]:
    with MemoryStore() as opened:
        yield opened


def make_outbox(store: SessionStore, api: BotApi) -> TelegramOutbox:
    return TelegramOutbox(store, api, 123456, "test", Redactor())


def put(store: SessionStore, to: dict[str, Any], key: str, text: str, owner: str) -> None:
    async def work() -> None:
        make_outbox(store, None).put(to, key, text, owner_of(owner))  # type: ignore[arg-type]

    asyncio.run(work())


def send_all(
    store: SessionStore, server: BotApiServer, until: Callable[[], bool] = bool
) -> TelegramOutbox:
    """Send what is stored, or until something is so, with another process each time."""

    async def work() -> TelegramOutbox:
        async with BotApi(make_settings(server)) as api:
            outbox = make_outbox(store, api)
            store.queues.release_all(QUEUE)
            sending = asyncio.create_task(outbox.send_rest(60))
            while not sending.done() and not until():
                await asyncio.sleep(0.01)
            sending.cancel()
            await asyncio.wait([sending])
            return outbox

    return asyncio.run(work())


def test_a_reply_is_sent_once_and_in_order(store: SessionStore, server: BotApiServer) -> None:
    server.chats.add(99)
    text = "\n\n".join(f"{number} " + "word " * 200 for number in range(12))
    for _again in range(3):
        put(store, TO, "answer:1", text, "telegram:99")
        put(store, TO, "answer:2", "the next", "telegram:99")
        send_all(store, server)
    texts = server.texts()
    assert texts[-1] == "the next"
    assert "".join("".join(texts[:-1]).split()) == "".join(text.split())
    assert store.queues.counts(QUEUE, owner=ANY_OWNER) == {"delivered": len(texts)}


def test_code_is_sent_as_code(store: SessionStore, server: BotApiServer) -> None:
    server.chats.add(99)
    put(store, TO, "a", "😀 so:\n```python\nprint(1)\n```\ndone", "")
    send_all(store, server)
    (message,) = server.sent
    assert message.text == "😀 so:\nprint(1)\ndone"
    assert message.fields["entities"] == [
        {"type": "pre", "offset": 7, "length": 8, "language": "python"}
    ]


@pytest.mark.files_only("it sets the clock, and a database has its own")
def test_a_limit_is_waited_for_with_its_delay(server: BotApiServer) -> None:
    """The chat waits in its order, other chats do not."""
    now = 1_000.0
    with MemoryStore(clock=lambda: now) as store:
        store.queues._awake = lambda: now  # waits go by it, not by the date
        server.chats |= {99, 98}
        server.faults["sendMessage"] += [Fault(429, "Too Many Requests", {"retry_after": 600})]
        put(store, TO, "a", "first", "")
        put(store, TO, "b", "second", "")
        send_all(
            store,
            server,
            lambda: any(m.reason for m in store.queues.messages(QUEUE, owner=ANY_OWNER)),
        )
        put(store, {**TO, "chat": 98}, "c", "other", "")
        now += 599
        send_all(
            store, server, lambda: store.queues.counts(QUEUE, owner=ANY_OWNER).get("delivered") == 1
        )
        assert [message.text for message in server.sent] == ["other"]
        now += 2
        send_all(store, server)
        assert [message.text for message in server.sent] == ["other", "first", "second"]
        assert store.queues.counts(QUEUE, owner=ANY_OWNER) == {"delivered": 3}


def test_what_telegram_refuses_is_set_aside(store: SessionStore, server: BotApiServer) -> None:
    """With its reason, and without holding up the next; a person can have it tried again."""
    server.chats.add(99)
    server.faults["sendMessage"] += [Fault(400, "Bad Request: something")]
    put(store, TO, "a", "first", "")
    put(store, TO, "b", "second", "")
    send_all(store, server)
    assert server.texts() == ["second"]
    (failed,) = store.queues.messages(QUEUE, states=("failed",), owner=ANY_OWNER)
    assert "400 Bad Request: something" in failed.reason
    assert store.queues.retry(failed.id)
    send_all(store, server)
    assert server.texts() == ["second", "first"]


def test_a_group_that_moved_is_followed(store: SessionStore, server: BotApiServer) -> None:
    server.chats |= {-5, -100}
    moved = Fault(400, "group chat was upgraded", {"migrate_to_chat_id": -100})
    server.faults["sendMessage"] += [moved]
    put(store, {**TO, "chat": -5}, "a", "hello", "")
    send_all(store, server)
    assert server.texts(-100) == ["hello"]


def test_a_killed_sender_is_counted(store: SessionStore, server: BotApiServer) -> None:
    """A message that a process had when it ended is sent again: it may arrive twice."""
    server.chats.add(99)
    put(store, TO, "a", "hello", "")
    (claimed,) = store.queues.claim(QUEUE, "killed", 600)
    outbox = send_all(store, server)
    assert (outbox.sent, outbox.sent_again) == (1, 1)
    assert server.texts() == ["hello"]
    assert not store.queues.finish(claimed, "delivered"), "the killed one is late"


def _error(status: int, *, lost: bool = False, after: float | None = None) -> TelegramError:
    return TelegramError("sendMessage", status, "", may_have_worked=lost, retry_after=after)


def test_when_a_message_is_sent_again() -> None:
    """By the server's delay, or slower and slower; what was refused or tried enough, never."""
    waits = [next_send(_error(500, lost=True), tries) for tries in range(1, 7)]
    assert [wait and wait.seconds for wait in waits] == [5.0, 25.0, 120.0, 600.0, None, None]
    assert all(next_send(_error(status), 1) is None for status in (400, 403, 413))
    limited = next_send(_error(429, after=17), 99)
    assert limited is not None
    assert (limited.seconds, limited.is_counted) == (17.0, False)
    for outage in (_error(0), _error(401)):
        again = next_send(outage, 99)
        assert again is not None
        assert not again.is_counted, "an outage says nothing about the message"
    assert next_send(_error(0, lost=True), 5) is None
