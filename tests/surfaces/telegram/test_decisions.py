"""Buttons below a call that waits: each decision is that of a named person, and counts once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.engine.gateway.gateways import AnsweringModel
from tests.support.bot_api import BotApiServer, Sent, buttons
from tests.surfaces.telegram.bots import RunningBot, running_bot

from holdfast import CallKey, tool
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import CallState
from holdfast.core.models.replies import Reply
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.operations.approvals import calls_of, show_waiting
from holdfast.engine.session.options import SessionOptions
from holdfast.ports import NewMessage
from holdfast.providers.models import async_model
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.telegram.settings import ChatPlace
from holdfast.surfaces.telegram.updates import IncomingUpdate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractAsyncContextManager

    from holdfast.ports import OnDelta, SessionStore

TG_99 = SessionKey("main", "tg_99")
ANN_BOB = {99: "ann", 98: "bob"}


@pytest.fixture
def store() -> Iterator[SessionStore]:
    with MemoryStore() as opened:
        yield opened


class Shop:
    """A tool that gives money back, and its ledger by key."""

    def __init__(self, **approval: Any) -> None:
        self.ledger: dict[str, int] = {}

        @tool(approval=lambda amount, **_: f"{amount} euros", retry="safe", **approval)
        def refund(amount: int, key: CallKey, note: str = "") -> str:
            """Give money back."""
            self.ledger.setdefault(key, amount)
            return f"refunded {amount}"

        self.options = SessionOptions(summary="extract", tools=[refund])

    def bot(
        self, store: SessionStore, server: BotApiServer, model: Any = None, **more: Any
    ) -> AbstractAsyncContextManager[RunningBot]:
        given = {"approvers": ANN_BOB, **more}
        answering = model or async_model("offline")
        return running_bot(store, server, answering, session=self.options, **given)

    @property
    def paid(self) -> list[int]:
        return list(self.ledger.values())


def questions(server: BotApiServer, chat: int = 99) -> list[Sent]:
    with server.changed:
        return [sent for sent in server.sent if sent.chat == chat and buttons(sent)]


def states(store: SessionStore, key: SessionKey = TG_99) -> list[tuple[str, str]]:
    """Return what was decided, and by whom."""
    found = [record for record in store.read(key) if isinstance(record, CallState)]
    return [(record.state, record.by) for record in found if record.by]


async def asked(bot: RunningBot, text: str, *, chat: int = 99, **more: Any) -> Sent:
    """Say something that makes a call wait, and return its question."""
    before = len(questions(bot.server, chat))
    bot.server.say(text, chat=chat, **more)
    await bot.until(lambda: len(questions(bot.server, chat)) > before)
    return questions(bot.server, chat)[-1]


async def press(bot: RunningBot, question: Sent, word: str, user: int = 99) -> str:
    """Press a button, and return what the app shows."""
    before = len(bot.server.alerts)
    (data,) = [each for each in buttons(question) if each.startswith(word)]
    bot.server.press(data, user=user, chat=question.chat)
    await bot.until(lambda: len(bot.server.alerts) > before)
    return bot.server.alerts[before]


async def edited(bot: RunningBot, question: Sent) -> str:
    """Wait until a question has no buttons, and return its text."""

    def find() -> Sent:
        return next(sent for sent in bot.server.sent if sent.id == question.id)

    await bot.until(lambda: not buttons(find()))
    return find().text


@pytest.mark.parametrize(
    ("word", "outcome", "paid"),
    [("approve", "Approved by ann.", [80]), ("deny", "Denied by ann.", [])],
)
def test_a_press_decides(
    store: SessionStore, server: BotApiServer, word: str, outcome: str, paid: list[int]
) -> None:
    """In the name of whoever pressed; the session goes on, and its answer comes to the chat."""
    shop = Shop()

    async def scenario() -> None:
        async with shop.bot(store, server) as bot:
            question = await asked(bot, "refund(amount=80)")
            assert "80 euros" in question.text
            assert '"amount": 80' in question.text
            assert shop.paid == []
            count = len(server.texts())
            assert await press(bot, question, word) == outcome
            assert await edited(bot, question) == f"{question.text}\n{outcome}"
            assert len(await bot.texts(count + 1)) == count + 1

    asyncio.run(scenario())
    assert shop.paid == paid
    assert [by for _, by in states(store)] == ["ann"]


def test_who_may_not_decide(store: SessionStore, server: BotApiServer) -> None:
    """A person without a name in the settings, or none of the tool's approvers, is told so."""
    shop = Shop(approvers=["bob"])
    group = SessionKey("main", "tg_chat-100_99")

    async def scenario() -> None:
        async with shop.bot(store, server) as bot:
            question = await asked(bot, "@loopback_bot refund(amount=80)", chat=-100, user=99)
            for user, words in ((97, "not among those"), (99, "may not decide about")):
                for word in ("approve", "deny"):
                    assert words in await press(bot, question, word, user)
            assert questions(server, -100) == [question], "its buttons stay"
            assert states(store, group) == []
            assert await press(bot, question, "approve", 98) == "Approved by bob."
            assert "may not decide about" in await late_press(bot, question, "approve", 99)
            await edited(bot, question)
            await bot.until(lambda: shop.paid)

    asyncio.run(scenario())
    assert shop.paid == [80]
    assert states(store, group) == [("approved", "bob")]


async def late_press(bot: RunningBot, question: Sent, word: str, user: int = 99) -> str:
    """Press a button that an app shows though it was taken away."""
    server, before = bot.server, len(bot.server.alerts)
    (data,) = [each for each in buttons(question) if each.startswith(word)]
    server.push(late_update(server, question, data, user))
    await bot.until(lambda: len(server.alerts) > before)
    return server.alerts[before]


def late_update(server: BotApiServer, question: Sent, data: str, user: int) -> dict[str, Any]:
    query = f"late-{server.new_message()}"
    server.callbacks.add(query)
    kind = "private" if question.chat > 0 else "supergroup"
    message = {"message_id": question.id, "chat": {"id": question.chat, "type": kind}}
    person = {"id": user, "is_bot": False}
    return {"callback_query": {"id": query, "from": person, "message": message, "data": data}}


def test_the_first_decision_counts(store: SessionStore, server: BotApiServer) -> None:
    """Whoever presses later, or the same press with another number, is told of the first."""
    shop = Shop()

    async def scenario() -> None:
        async with shop.bot(store, server) as bot:
            question = await asked(bot, "refund(amount=80)")
            with server.changed:
                approve, deny = buttons(question)
                server.press(approve)
                same = {"callback_query": server.updates[-1]["callback_query"]}
                server.press(deny)
                server.push(same)
            await bot.until(lambda: len(server.alerts) == 2 and not server.updates)
            assert server.alerts == ["Approved by ann."] * 2
            assert await late_press(bot, question, "deny", 98) == "Approved by ann."
            await edited(bot, question)

    asyncio.run(scenario())
    assert len(states(store)) == 1
    pressed = store.queues.messages("updates:telegram:123456", owner=ANY_OWNER, limit=100)
    assert sum(message.body["kind"] == "decision" for message in pressed) == 3


def test_decided_elsewhere_or_too_late(store: SessionStore, server: BotApiServer) -> None:
    """A press says what became of the call, and the buttons go."""
    shop = Shop(expires=0.2)

    async def scenario() -> None:
        async with shop.bot(store, server) as bot:
            question = await asked(bot, "refund(amount=80)")
            (call,) = show_waiting(store, TG_99)
            while call.until is None or time.time() <= call.until:
                await asyncio.sleep(0.05)
            assert "expired" in await press(bot, question, "approve")
            assert (await edited(bot, question)).endswith("Expired: no one decided in time.")
            assert "no longer waits" in await late_press(
                bot, question._replace(fields=data_of("approve:" + "0" * 32)), "approve"
            )
        shop.options = Shop().options
        async with shop.bot(store, server) as bot:
            question = await asked(bot, "refund(amount=90)")
            (call,) = show_waiting(store, TG_99)
            calls_of(store, TG_99).deny(call.key, by="carl")
            assert await press(bot, question, "approve") == "Denied by carl."
            await edited(bot, question)

    asyncio.run(scenario())
    assert shop.paid == []
    assert states(store) == [("denied", "carl")]


def data_of(data: str) -> dict[str, Any]:
    return {"reply_markup": {"inline_keyboard": [[{"text": "x", "callback_data": data}]]}}


def test_each_call_has_its_buttons(store: SessionStore, server: BotApiServer) -> None:
    """Also those of one reply. Arguments that are not seen in full are not approved here."""
    shop = Shop()
    long = "x" * 2_000

    async def scenario() -> None:
        async with shop.bot(store, server) as bot:
            await asked(bot, f'refund(amount=80, note="{long}")')
            (cut,) = questions(server)
            assert [data.partition(":")[0] for data in buttons(cut)] == ["deny"]
            assert "in full" in cut.text
            assert await press(bot, cut, "deny") == "Denied by ann."
            await edited(bot, cut)
            server.say("refund(amount=1)\nrefund(amount=2)")
            await bot.until(lambda: len(questions(server)) == 2)
            first, second = questions(server)
            assert await press(bot, second, "approve") == "Approved by ann."
            assert await press(bot, first, "approve", 99) == "Approved by ann."
            await bot.until(lambda: len(shop.paid) == 2)
            assert sum("The answer comes when" in text for text in server.texts()) == 2

    asyncio.run(scenario())
    assert sorted(shop.paid) == [1, 2]


class AskingModel(AnsweringModel):
    """A model that gives money back twice, the second time when the first has its result."""

    async def send(self, request: Any, on_delta: OnDelta | None = None) -> Reply:
        said = await super().send(request, on_delta)
        if self.calls > 2:
            return said
        call = {"name": "refund", "input": {"amount": self.calls}, "id": f"call{self.calls}"}
        return Reply(content=[{"type": "tool_use", **call}], stop="tools")


def test_a_session_that_goes_on_may_ask_again(store: SessionStore, server: BotApiServer) -> None:
    """A call that a turn makes after a decision has its own question."""
    shop = Shop()
    model = AskingModel(lambda _text: "done")

    async def scenario() -> None:
        async with shop.bot(store, server, model) as bot:
            question = await asked(bot, "please")
            for amount in (1, 2):
                assert f'"amount": {amount}' in question.text
                assert await press(bot, question, "approve") == "Approved by ann."
                await edited(bot, question)
                if amount == 1:
                    await bot.until(lambda: questions(server))
                    (question,) = questions(server)
            await bot.until(lambda: server.texts()[-1] == "done")

    asyncio.run(scenario())
    assert shop.paid == [1, 2]
    assert sum("The answer comes when" in text for text in server.texts()) == 2


def test_without_named_people_there_are_no_buttons(
    store: SessionStore, server: BotApiServer
) -> None:
    shop = Shop()

    async def scenario() -> None:
        async with shop.bot(store, server, approvers={}) as bot:
            assert "waits for the approval" in await bot.ask("refund(amount=80)")
            assert "re" in await bot.ask("/status")

    asyncio.run(scenario())
    assert not questions(server)


@pytest.mark.parametrize("was_decided", [False, True])
def test_a_kill_between_a_press_and_its_answer(
    store: SessionStore, server: BotApiServer, was_decided: bool
) -> None:
    """The press is stored: the next process decides, or finds what was decided, and answers."""
    shop = Shop()

    async def scenario() -> None:
        async with shop.bot(store, server) as bot:
            question = await asked(bot, "refund(amount=80)")
        (call,) = show_waiting(store, TG_99)
        update = IncomingUpdate(
            update=5,
            kind="decision",
            text=buttons(question)[0],
            place=ChatPlace(123456, 99, 99),
            message=question.id,
            press="lost",
        )
        queue = "updates:telegram:123456"
        body = msgspec.to_builtins(update)
        store.queues.put(
            NewMessage(queue=queue, lane=update.text, key="press:lost", body=body, owner="x")
        )
        assert store.queues.claim(queue, "killed", 3_600)
        if was_decided:
            calls_of(store, TG_99).approve(call.key, by="ann")
        async with shop.bot(store, server) as bot:
            assert (await edited(bot, question)).endswith("Approved by ann.")
            await bot.until(lambda: any("refunded 80" in text for text in server.texts()))

    asyncio.run(scenario())
    assert shop.paid == [80]
    assert states(store) == [("approved", "ann")]
