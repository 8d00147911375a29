"""Every message of a person on the list is answered once; every command has its answer."""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.engine.gateway.gateways import FAST, AnsweringModel, said
from tests.support.bot_api import BOT, TOKEN, BotApiServer, Fault, buttons
from tests.surfaces.telegram.bots import echo, running_bot

from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.session.opening import follow_continuation
from holdfast.errors import BadSetting
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.surfaces.telegram.api import TelegramError
from holdfast.surfaces.telegram.commands import OFFERED

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.ports import SessionStore

TG_99 = SessionKey("main", "tg_99")


@pytest.fixture
def store() -> Iterator[SessionStore]:
    with MemoryStore() as opened:
        yield opened


class SlowModel(AnsweringModel):
    """A model that thinks about `slow` until it is told to go on."""

    def __init__(self) -> None:
        super().__init__(self._think)
        self.started = asyncio.Event()
        self.free = asyncio.Event()

    async def _think(self, text: str) -> str:
        if echo(text).startswith("re: slow"):
            self.started.set()
            await self.free.wait()
        return echo(text)


def current(store: SessionStore) -> list[str]:
    return said(store, follow_continuation(store, TG_99))


def test_a_message_is_answered_in_the_session_of_its_sender(
    store: SessionStore, server: BotApiServer
) -> None:
    async def scenario() -> None:
        async with running_bot(store, server) as bot:
            assert await bot.ask("hello") == "re: hello"
            assert await bot.ask("again") == "re: again"
            assert await bot.ask("me, too", user=98, chat=98) == "re: me, too"
            await bot.until(lambda: not server.updates)
        listed = [command["command"] for command in server.commands]
        assert listed == [command.name for command in OFFERED]

    asyncio.run(scenario())
    assert said(store, TG_99) == ["hello", "<re: hello", "again", "<re: again"]
    assert store.header(TG_99).owner == "telegram:99"
    assert store.header(SessionKey("main", "tg_98")).owner == "telegram:98"


def test_a_stranger_gets_one_answer_and_no_session(
    store: SessionStore, server: BotApiServer
) -> None:
    model = AnsweringModel()

    async def scenario() -> None:
        async with running_bot(store, server, model, allow=frozenset()) as bot:
            for number in range(5):
                server.say(f"hello {number}", user=5, date=1_700_000_000 + number)
            (text,) = await bot.texts(1, chat=5)
            assert "Your id is 5" in text
            await bot.until(lambda: not server.updates)

    asyncio.run(scenario())
    assert len(server.texts(5)) == 1
    assert model.calls == 0
    assert store.sessions(owner=ANY_OWNER) == []


def test_updates_count_once(store: SessionStore, server: BotApiServer) -> None:
    """The same update again, and an older one after a newer one, are answered once each."""

    async def scenario() -> None:
        async with running_bot(store, server) as bot:
            first = server.say("first")
            update = server.updates[-1] if server.updates else None
            await bot.texts(1)
            if update is not None:
                server.push(update)
            message = {
                "message_id": 900,
                "date": 1_700_000_000,
                "chat": {"id": 99, "type": "private"},
                "from": {"id": 99, "is_bot": False, "first_name": "P"},
                "text": "older",
            }
            server.push({"update_id": first - 500, "message": message})
            server.push({"update_id": first - 500, "message": message})
            await bot.texts(2)
            assert await bot.ask("last") == "re: last"

    asyncio.run(scenario())
    assert server.texts() == ["re: first", "re: older", "re: last"]


def test_numbers_may_start_anew(store: SessionStore, server: BotApiServer) -> None:
    """After a quiet week Telegram begins with any number, also a smaller or a used one."""

    async def scenario() -> None:
        async with running_bot(store, server, poll_seconds=1) as bot:
            number = server.say("first", date=1_700_000_000)
            await bot.texts(1)
            await bot.until(lambda: server.offsets[-2:] == [number + 1, 0])
            message = {
                "message_id": 901,
                "chat": {"id": 99, "type": "private"},
                "from": {"id": 99, "is_bot": False, "first_name": "P"},
            }
            for date, used in ((1_800_000_000, number), (1_800_000_001, number - 400)):
                server.push(
                    {"update_id": used, "message": {**message, "date": date, "text": f"at {date}"}}
                )
            await bot.texts(3)

    asyncio.run(scenario())
    assert server.texts() == ["re: first", "re: at 1800000000", "re: at 1800000001"]


def test_a_hundred_stickers_get_one_answer(store: SessionStore, server: BotApiServer) -> None:
    model = AnsweringModel()

    async def scenario() -> None:
        async with running_bot(store, server, model) as bot:
            for _number in range(100):
                server.say("", sticker={"file_id": "x"}, date=1_700_000_000)
            assert await bot.ask("hello") in ("re: hello", server.texts()[0])
            await bot.texts(2)
            await bot.until(lambda: not server.updates)

    asyncio.run(scenario())
    assert sorted(server.texts())[1] == "re: hello"
    assert "Only text is read" in sorted(server.texts())[0]
    assert len(server.texts()) == 2
    assert model.calls == 1


def test_a_caption_is_read_and_the_photo_is_not(store: SessionStore, server: BotApiServer) -> None:
    async def scenario() -> None:
        async with running_bot(store, server) as bot:
            server.say("", photo=[{"file_id": "x"}], caption="what is it?")
            texts = await bot.texts(2)
            assert sorted(texts) == ["The photo was not read, only its text.", "re: what is it?"]

    asyncio.run(scenario())
    assert said(store, TG_99)[0] == "what is it?"


def test_people_of_a_group_have_their_own_sessions(
    store: SessionStore, server: BotApiServer
) -> None:
    """Answers reply to their question; other talk of the group is nobody's business."""

    async def scenario() -> None:
        async with running_bot(store, server) as bot:
            server.say("hello all", user=5, chat=-100)
            server.say("@loopback_bot one", user=5, chat=-100)
            server.say("@loopback_bot two", user=6, chat=-100)
            await bot.texts(2, chat=-100)

    asyncio.run(scenario())
    assert sorted(server.texts(-100)) == ["re: one", "re: two"]
    assert all(message.fields["reply_parameters"]["message_id"] for message in server.sent)
    for user, words in ((5, "one"), (6, "two")):
        key = SessionKey("main", f"tg_chat-100_{user}")
        assert said(store, key) == [words, f"<re: {words}"]
        assert store.header(key).owner == f"telegram:{user}"


COMMANDS = {
    "start": "Session: tg_99",
    "menu": "/reset",
    "new": "Created new session",
    "mode": "Mode: continue",
    "reset": "Started fresh session",
    "status": "Window",
    "context": "",
    "compact": "",
    "checkpoint": "",
    "memory": "",
    "remind": "Usage: /remind",
    "timers": "No timers are set",
    "reschedule": "Usage: /reschedule",
    "unremind": "Usage: /unremind",
    "continue": "Nothing to continue",
    "cancel": "Nothing to cancel",
    "help": "Commands:",
}


def test_every_command_is_answered_once(store: SessionStore, server: BotApiServer) -> None:
    """Those of the one table, found in it; what a bot has not is refused."""
    assert {command.name for command in OFFERED} == COMMANDS.keys()

    async def scenario() -> None:
        async with running_bot(store, server) as bot:
            await bot.ask("hello")
            for name, words in COMMANDS.items():
                answer = await bot.ask(f"/{name}")
                assert answer
                assert words in answer, name
            for unknown in ("/newsletter", "/quit", "/model opus", "/list"):
                assert "Unknown command" in await bot.ask(unknown)
            assert await bot.ask("hello again") == "re: hello again"

    asyncio.run(scenario())
    assert len(server.texts()) == 1 + len(COMMANDS) + 4 + 1


def test_a_button_of_the_menu_is_a_command(store: SessionStore, server: BotApiServer) -> None:
    """The menu has a button for every command. Each press is run once, however often its update
    comes, also after a restart, in the session of whoever pressed it."""
    names = [f"/{command.name}" for command in OFFERED if command.name not in ("start", "menu")]

    async def scenario() -> None:
        async with running_bot(store, server) as bot:
            await bot.ask("hello")
            await bot.ask("/menu")
            assert buttons(server.sent[-1]) == names
            for count, name in enumerate(names, start=3):
                server.press(name)
                answer = (await bot.texts(count))[-1]
                assert COMMANDS[name[1:]] in answer, name
            assert await bot.ask("/menu@loopback_bot", user=5, chat=-100)
            server.press("/status", user=6, chat=-100)
            assert "tg_chat-100_6" in (await bot.texts(2, chat=-100))[-1]
            await bot.until(lambda: not server.callbacks and not server.updates)
            with server.changed:
                server.press("/new")
                pressed = server.updates[-1]
            await bot.texts(len(names) + 3)
        server.push(pressed)
        async with running_bot(store, server) as bot:
            assert await bot.ask("hello again") == "re: hello again"

    asyncio.run(scenario())
    assert len(server.texts()) == len(names) + 4, "the press that came again was not run again"


def test_the_name_stays_with_the_chat(store: SessionStore, server: BotApiServer) -> None:
    """After /reset and /new a message goes to the fresh session, also after a restart."""

    async def talk(*steps: str) -> list[str]:
        async with running_bot(store, server) as bot:
            return [await bot.ask(step) for step in steps]

    asyncio.run(talk("hello", "/reset"))
    asyncio.run(talk("after the reset"))
    assert current(store) == ["after the reset", "<re: after the reset"]
    first = follow_continuation(store, TG_99)
    assert store.header(first).parent_session == str(TG_99)
    asyncio.run(talk("/new", "after new"))
    assert current(store) == ["after new", "<re: after new"]
    second = follow_continuation(store, TG_99)
    assert len({TG_99, first, second}) == 3
    assert store.header(second).parent_session is None
    assert {store.header(key).owner for key in (first, second)} == {"telegram:99"}
    assert said(store, TG_99) == ["hello", "<re: hello"]


def test_a_mode_is_kept_over_a_restart(store: SessionStore, server: BotApiServer) -> None:
    async def talk(*steps: str) -> list[str]:
        async with running_bot(store, server) as bot:
            return [await bot.ask(step) for step in steps]

    asyncio.run(talk("write a haiku", "/mode fresh"))
    answers = asyncio.run(talk("make it about rain", "/mode"))
    assert answers == ["re: make it about rain", answers[1]]
    assert "Mode: fresh" in answers[1]
    assert follow_continuation(store, TG_99) != TG_99
    assert current(store) == ["make it about rain", "<re: make it about rain"]


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"reset_idle_seconds": 3_600.0}, "nothing was said for a while"),
        ({"reset_daily_hour": 4}, "a new day began"),
    ],
)
def test_a_reset_by_the_gateway_is_announced(
    store: SessionStore, server: BotApiServer, options: dict[str, Any], why: str
) -> None:
    """Before the answer, the chat is told that a fresh session begins, and why; once."""
    later = [0.0]

    async def scenario() -> list[str]:
        gateway = msgspec.structs.replace(FAST, **options)
        async with running_bot(
            store, server, None, gateway, clock=lambda: time.time() + later[0]
        ) as bot:
            await bot.ask("hello")
            later[0] = 2 * 86_400.0
            server.say("back again")
            texts = await bot.texts(3)
            later[0] = 0.0
            return [*texts[1:], await bot.ask("more")]

    announced, answer, more = asyncio.run(scenario())
    assert announced.startswith("This begins a fresh session")
    assert why in announced
    assert (answer, more) == ("re: back again", "re: more")
    assert follow_continuation(store, TG_99) != TG_99


def test_a_reset_works_while_a_turn_runs(store: SessionStore, server: BotApiServer) -> None:
    """It ends the turn, drops what waits, and the next message is answered at once."""

    async def scenario() -> None:
        model = SlowModel()
        async with running_bot(store, server, model) as bot:
            server.say("slow")
            await model.started.wait()
            server.say("waits behind it")
            server.say("/compact")
            server.say("/status")
            assert "running since" in (await bot.texts(1))[0]
            server.say("/reset")
            server.say("now")
            texts = await bot.texts(4)
            assert "Started fresh session" in "".join(texts)
            assert "2 messages without an answer: dropped" in "".join(texts)
            await bot.until(lambda: "re: now" in server.texts())
        assert "re: slow" not in server.texts()

    asyncio.run(scenario())
    assert current(store) == ["now", "<re: now"]


def test_a_turn_is_cancelled_and_continued(store: SessionStore, server: BotApiServer) -> None:
    async def scenario() -> None:
        model = SlowModel()
        async with running_bot(store, server, model) as bot:
            server.say("slow")
            await model.started.wait()
            await bot.until(lambda: (99, "typing") in server.actions)
            assert "cancelled" in await bot.ask("/cancel")
            model.free.set()
            while store.leases.current(TG_99) is not None:
                await asyncio.sleep(0.01)
            server.say("/continue")  # its answer may come before its notice
            await bot.until(lambda: "re: slow" in server.texts())
            await bot.until(lambda: any("Going on" in text for text in server.texts()))

    asyncio.run(scenario())
    assert said(store, TG_99) == ["slow", "<re: slow"]


def test_nobody_waits_for_another(store: SessionStore, server: BotApiServer) -> None:
    async def scenario() -> None:
        model = SlowModel()
        async with running_bot(store, server, model) as bot:
            server.say("slow")
            await model.started.wait()
            server.say("/new", user=99)
            assert await bot.ask("quick", user=98, chat=98) == "re: quick"
            assert "has to wait" in (await bot.texts(1))[0]
            model.free.set()
            await bot.until(lambda: "re: slow" in server.texts())

    asyncio.run(scenario())


def test_each_message_that_is_not_taken_is_answered(
    store: SessionStore, server: BotApiServer
) -> None:
    """Each sender learns which message it was; in a flood, the fifth answer speaks for the rest."""

    async def scenario() -> None:
        model = SlowModel()
        options = msgspec.structs.replace(FAST, waiting_max=2)
        async with running_bot(store, server, model, options) as bot:
            for number in range(10):
                server.say(f"slow {number}", date=1_700_000_000)
            await bot.texts(5)
            await bot.until(lambda: not server.updates)
            model.free.set()
            await bot.texts(7)

    asyncio.run(scenario())
    refused = [message for message in server.sent if "was not taken" in message.fields["text"]]
    ids = [message.fields["reply_parameters"]["message_id"] for message in refused]
    assert len(set(ids)) == 5
    assert ["within this minute" in message.fields["text"] for message in refused].count(True) == 1
    answered = [text for text in server.texts() if "was not taken" not in text]
    assert answered == ["re: slow 0", "re: slow 1"]


def test_a_failure_is_said(store: SessionStore, server: BotApiServer) -> None:
    async def scenario() -> None:
        options = msgspec.structs.replace(FAST, turn_seconds=0.2)
        async with running_bot(store, server, SlowModel(), options) as bot:
            assert "took longer than" in await bot.ask("slow")

    asyncio.run(scenario())


def test_a_second_poller_is_said_plainly(
    store: SessionStore, server: BotApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    conflict = Fault(409, "Conflict: terminated by other getUpdates request")

    async def scenario() -> None:
        server.faults["getUpdates"] += [conflict]
        async with running_bot(store, server) as bot:
            assert await bot.ask("hello") == "re: hello", "it goes on when the other has ended"
        server.faults["getUpdates"] += [conflict] * 10
        async with running_bot(store, server, conflict_seconds=0.01) as bot:
            await bot.ended()

    with (
        caplog.at_level(logging.WARNING),
        pytest.raises(TelegramError, match="409 Conflict") as raised,
    ):
        asyncio.run(scenario())
    assert len(server.faults["getUpdates"]) >= 8, "it gives up when the time is over"
    assert "stop the other program" in str(raised.value.hint)
    assert "one program can receive the messages of a bot" in caplog.text


@pytest.mark.parametrize("status", [401, 404])
def test_a_wrong_token_is_said_plainly(
    store: SessionStore, server: BotApiServer, status: int
) -> None:
    async def scenario() -> None:
        server.faults["getMe"] += [Fault(status, "Unauthorized")]
        async with running_bot(store, server) as bot:
            await bot.ended()

    with pytest.raises(TelegramError, match="Unauthorized") as raised:
        asyncio.run(scenario())
    assert "the token is wrong" in str(raised.value.hint)


@pytest.mark.parametrize("number", [5, "123456", None])
def test_a_token_of_another_bot_is_said_at_the_start(
    store: SessionStore, server: BotApiServer, monkeypatch: pytest.MonkeyPatch, number: object
) -> None:
    """A server that knows the token as that of another bot, or does not say whose it is, ends the
    bot with both ids: it would be silent for ever."""
    monkeypatch.setitem(BOT, "id", number)

    async def scenario() -> None:
        async with running_bot(store, server) as bot:
            await bot.ended()

    if number == 5:
        with pytest.raises(BadSetting, match=r"bot 123456, and .* bot 5 \(@loopback_bot\)"):
            asyncio.run(scenario())
        return

    async def says_so() -> None:
        async with running_bot(store, server) as bot:
            while bot.channel.status.state != "failed":
                await asyncio.sleep(0.01)
            assert "not one of the Bot API" in bot.channel.status.detail

    asyncio.run(says_so())


def test_nothing_shows_the_token(
    store: SessionStore, server: BotApiServer, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither logs at any level, nor an error, nor anything stored or sent."""
    secret = TOKEN.partition(":")[2]

    async def scenario() -> None:
        server.faults["sendMessage"] += [Fault(400, f"Bad Request: bot{TOKEN}")]
        server.faults["getUpdates"] += [Fault(502, f"{TOKEN}"), Fault(500, is_done=True)]
        async with running_bot(store, server) as bot:
            server.say("hello")
            assert await bot.ask("again") == "re: again"

    with caplog.at_level(logging.DEBUG):
        asyncio.run(scenario())
    assert secret not in caplog.text
    assert "<token>" in caplog.text
    assert secret not in repr(store.queues.messages(owner=ANY_OWNER))


def test_over_a_folder(tmp_path: Path, server: BotApiServer) -> None:
    async def scenario() -> None:
        with JsonlStore(tmp_path) as store:
            async with running_bot(store, server) as bot:
                assert await bot.ask("hello") == "re: hello"
            assert said(store, TG_99) == ["hello", "<re: hello"]

    asyncio.run(scenario())
