"""The server of the tests behaves as Telegram's, and our client asks as it should.

python-telegram-bot, unmodified, is the witness: what it reads as an error, a conflict or a limit is
what Telegram's own server would have said.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import telegram
import telegram.error
from telegram.ext import ApplicationBuilder, MessageHandler, filters
from tests.support.bot_api import BOT, TOKEN, BotApiServer, Fault, buttons
from tests.surfaces.telegram.bots import make_settings

from holdfast.surfaces.telegram.api import BotApi, TelegramError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

LIMIT = 4_096
BOLD = telegram.MessageEntity("bold", 0, 99)


def run_client(server: BotApiServer, scenario: Callable[[telegram.Bot], Awaitable[None]]) -> None:
    async def work() -> None:
        async with telegram.Bot(TOKEN, base_url=f"{server.url}/bot") as bot:
            await scenario(bot)

    asyncio.run(work())


def test_the_library_is_served(server: BotApiServer) -> None:
    """Every method that is offered, as python-telegram-bot calls it."""

    async def scenario(bot: telegram.Bot) -> None:
        assert bot.username == BOT["username"]
        number = server.say("hello 😀")
        (update,) = await bot.get_updates(timeout=0)
        assert update.update_id == number
        assert update.message is not None
        assert update.message.text == "hello 😀"
        assert len(await bot.get_updates(timeout=0)) == 1, "not confirmed: it comes again"
        assert await bot.get_updates(offset=number + 1, timeout=0) == ()
        sent = await bot.send_message(99, "hi [there]")
        assert (sent.text, sent.chat.id) == ("hi [there]", 99)
        assert await bot.send_chat_action(99, "typing")
        assert await bot.set_my_commands([("start", "begin")])
        button = telegram.InlineKeyboardButton("Status", callback_data="/status")
        await bot.send_message(99, "menu", reply_markup=telegram.InlineKeyboardMarkup([[button]]))
        pressed = server.press("/status")
        (update,) = await bot.get_updates(offset=pressed, timeout=0)
        assert update.callback_query is not None
        assert (update.callback_query.data, update.callback_query.from_user.id) == ("/status", 99)
        assert await update.callback_query.answer("seen", show_alert=True)
        assert (server.callbacks, server.alerts) == (set(), ["seen"])
        await update.callback_query.edit_message_text("chosen")
        assert buttons(server.sent[-1]) == []
        with pytest.raises(telegram.error.BadRequest, match="not modified"):
            await update.callback_query.edit_message_text("chosen")

    run_client(server, scenario)
    assert server.texts() == ["hi [there]", "chosen"]
    assert server.actions == [(99, "typing")]
    assert server.commands == [{"command": "start", "description": "begin"}]


REFUSALS: list[tuple[str, type[Exception], Callable[[telegram.Bot], Awaitable[Any]]]] = [
    ("too long", telegram.error.BadRequest, lambda bot: bot.send_message(99, "😀" * 2_049)),
    ("text is empty", telegram.error.BadRequest, lambda bot: bot.send_message(99, " ")),
    ("not found", telegram.error.BadRequest, lambda bot: bot.send_message(5, "x")),
    ("ENTITY", telegram.error.BadRequest, lambda bot: bot.send_message(99, "x", entities=[BOLD])),
    (
        "thread not found",
        telegram.error.BadRequest,
        lambda bot: bot.send_message(99, "x", message_thread_id=4),
    ),
    ("blocked", telegram.error.Forbidden, lambda bot: bot.send_message(98, "x")),
    ("query", telegram.error.BadRequest, lambda bot: bot.answer_callback_query("9")),
    ("COMMAND", telegram.error.BadRequest, lambda bot: bot.set_my_commands([("A-b", "x")])),
]


def test_the_library_is_refused(server: BotApiServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """What Telegram refuses is refused, and read by the library as what it is."""
    monkeypatch.setenv("PTB_TIMEDELTA", "true")  # without it, the library warns of the future
    server.chats |= {99, 98}
    server.blocked.add(98)

    async def scenario(bot: telegram.Bot) -> None:
        for words, kind, ask in REFUSALS:
            with pytest.raises(kind, match=f"(?i){words}"):
                await ask(bot)
        assert await bot.send_message(99, "😀" * 2_048), "exactly 4,096 UTF-16 units"
        server.faults["sendMessage"] += [Fault(429, "Too Many Requests", {"retry_after": 7})]
        with pytest.raises(telegram.error.RetryAfter) as raised:
            await bot.send_message(99, "x")
        assert "7" in str(raised.value)

    run_client(server, scenario)


def test_a_second_poller_ends_the_first(server: BotApiServer) -> None:
    async def scenario(bot: telegram.Bot) -> None:
        first = asyncio.create_task(bot.get_updates(timeout=20))
        await asyncio.to_thread(server.wait_for, lambda: "getUpdates" in server.calls)
        async with BotApi(make_settings(server)) as api:
            second = asyncio.create_task(api.updates(None, 20))
            with pytest.raises(telegram.error.Conflict):
                await first
            server.say("hello")
            assert len(await second) == 1

    run_client(server, scenario)


def test_a_wrong_token_is_refused(server: BotApiServer) -> None:
    async def scenario() -> None:
        bot = telegram.Bot("1:wrong", base_url=f"{server.url}/bot")
        with pytest.raises(telegram.error.InvalidToken):
            await bot.initialize()
        await bot.request.shutdown()
        settings = make_settings(server)
        wrong = type(settings)(token="1:wrong-token", api_base=server.url)
        async with BotApi(wrong) as api:
            with pytest.raises(TelegramError, match="401 Unauthorized"):
                await api.me()

    asyncio.run(scenario())


def test_a_bot_of_the_library_runs(server: BotApiServer) -> None:
    """An echo bot with its own polling loop: each update is answered once and confirmed."""

    async def scenario() -> None:
        async def echo(update: Any, _context: Any) -> None:
            await update.message.reply_text(f"echo: {update.message.text}")

        builder = ApplicationBuilder().token(TOKEN).base_url(f"{server.url}/bot")
        application = builder.build()
        application.add_handler(MessageHandler(filters.TEXT, echo))
        async with application:
            await application.start()
            assert application.updater is not None
            await application.updater.start_polling(timeout=2)
            for number in range(3):
                server.say(f"message {number}")
            texts = await asyncio.to_thread(server.wait_for_texts, 3)
            assert texts == [f"echo: message {number}" for number in range(3)]
            await application.updater.stop()
            await application.stop()

    asyncio.run(scenario())
    assert server.updates == []


def test_a_lost_answer_may_have_worked(server: BotApiServer) -> None:
    """Errors say whether the server may have done what was asked."""
    server.chats.add(99)

    async def scenario() -> list[TelegramError]:
        failures = []
        async with BotApi(make_settings(server)) as api:
            for fault in (
                Fault(500, is_done=True),
                Fault(502, "<html>"),
                Fault(429, "slow down", {"retry_after": 3}),
                Fault(400, "group", {"migrate_to_chat_id": -100}),
            ):
                server.faults["sendMessage"] += [fault]
                with pytest.raises(TelegramError) as raised:
                    await api.send(99, "hello")
                failures.append(raised.value)
            assert await api.send(99, "hello", thread=None) > 0
        async with BotApi(type(api_settings)(token=TOKEN, api_base="http://127.0.0.1:9")) as api:
            with pytest.raises(TelegramError) as raised:
                await api.me()
            failures.append(raised.value)
        return failures

    api_settings = make_settings(server)
    lost, broken, slow, moved, unreached = asyncio.run(scenario())
    assert [each.status for each in (lost, broken, slow, moved, unreached)] == [0, 502, 429, 400, 0]
    assert [each.may_have_worked for each in (lost, broken, slow, moved, unreached)] == [
        *(True, True, False, False, False),
    ]
    assert (slow.retry_after, moved.migrated_to) == (3, -100)
    assert server.texts() == ["hello", "hello"], "one of them with an answer that was lost"
