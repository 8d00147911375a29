"""A bot that is killed at any moment loses nothing, and answers nothing twice."""

from __future__ import annotations

import random
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from tests.support.bot_api import BotApiServer
from tests.support.runs import is_whole
from tests.surfaces.cli.bot_processes import bot_process

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, User
from holdfast.core.log.views import key_of
from holdfast.core.owners import ANY_OWNER
from holdfast.engine.session.opening import follow_continuation
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.surfaces.telegram.replies import outbox_name

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.ports import SessionStore

pytestmark = [
    pytest.mark.files_only("a process of its own uses the folder"),
    pytest.mark.timeout(3_000),
]

USERS = (99, 98, 97)
OUTBOX = outbox_name(123456)


def open_rows(store: SessionStore) -> list[str]:
    """Return what is on its way, and why it is not done."""
    rows = store.queues.messages(states=("waiting", "running"), limit=10_000, owner=ANY_OWNER)
    return [
        f"{row.queue} {row.key}: {row.state} {row.tries}+{row.lost_claims} {row.reason}"
        for row in rows
        if not row.queue.startswith("poller:")  # it stands for the right to receive
    ]


def wait_until_quiet(store: SessionStore, server: BotApiServer, seconds: float = 600) -> None:
    until = time.monotonic() + seconds
    while True:
        updates, rows = len(server.updates), open_rows(store)  # in the order of their way
        if not updates and not rows:
            return
        assert time.monotonic() < until, f"{updates} updates; {rows}"
        time.sleep(0.05)


def wait_for_heads(store: SessionStore, seconds: float = 600) -> None:
    """Wait until the message is done that each chat waits for now."""

    def first_ids() -> dict[str, int]:
        rows = store.queues.messages(
            "inbox", states=("waiting", "running"), limit=10_000, owner=ANY_OWNER
        )
        return {row.lane: row.id for row in rows}  # rows are the newest first

    heads, until = first_ids(), time.monotonic() + seconds
    while set(heads.items()) & set(first_ids().items()):
        assert time.monotonic() < until, open_rows(store)
        time.sleep(0.05)


def wait_for_room(store: SessionStore, user: int, seconds: float = 600) -> None:
    """Wait until a chat has few open messages: over a hundred, its sender is told to come again."""
    until, lane = time.monotonic() + seconds, f"main/tg_{user}"
    while (
        len(
            store.queues.messages(
                "inbox", lane=lane, states=("waiting", "running"), limit=80, owner=ANY_OWNER
            )
        )
        > 60
    ):
        assert time.monotonic() < until, open_rows(store)
        time.sleep(0.05)


def test_killed_at_any_moment(tmp_path: Path) -> None:
    """Every message that was sent is answered once in the log and arrives at least once; whatever
    arrives twice was on its way when the process was killed."""
    kills = 100 if is_whole() else 2
    luck = random.Random(7)
    asked: dict[int, list[int]] = {user: [] for user in USERS}
    with BotApiServer() as server, JsonlStore(tmp_path) as store:
        for number in range(kills):
            with bot_process(tmp_path, server) as process:
                assert process.stdout is not None
                process.stdout.readline()
                for each in range(15):
                    user = luck.choice(USERS)
                    wait_for_room(store, user)
                    text = f"note {number}.{each}: fact {luck.random()}"
                    asked[user].append(server.say(text, user=user))
                    if luck.random() < 0.1:
                        server.say(luck.choice(("/status", "/checkpoint", "/nonsense")), user=user)
                    time.sleep(luck.random() * 0.05)
                time.sleep(luck.random() * 0.5)
                if number % 4 == 3:  # on any machine, some lives are long enough for a turn
                    wait_for_heads(store)
        with bot_process(tmp_path, server):
            wait_until_quiet(store, server)

        inbox = store.queues.messages("inbox", limit=10_000, owner=ANY_OWNER)
        assert [row for row in inbox if row.state != "answered"] == []
        for user, updates in asked.items():
            key = SessionKey("main", f"tg_{user}")
            records = [each for each in store.read(key) if isinstance(each, User | Assistant)]
            kinds = [type(record) for record in records]
            assert kinds == [User, Assistant] * len(updates), "lost, doubled or out of order"
            keys = [key_of(record) for record in records[::2]]
            numbers = [int((key or "").split(":")[2].partition("-")[0]) for key in keys]
            assert numbers == updates

        sent = Counter((message.chat, message.text) for message in server.sent)
        arrived = {message.id for message in server.sent}
        allowed: Counter[tuple[int, str]] = Counter()
        rows = store.queues.messages(OUTBOX, limit=10_000, owner=ANY_OWNER)
        for row in rows:
            assert row.state == "delivered", row.reason
            assert row.result is not None
            assert row.result["message_id"] in arrived
            allowed[row.body["chat"], row.body["text"]] += row.claims
        for user in USERS:  # rows are the newest first
            numbers = [
                row.result["message_id"] for row in rows if row.body["chat"] == user and row.result
            ]
            assert numbers == sorted(numbers, reverse=True), "out of order"
        answers = [row for row in rows if row.key.startswith("answer:")]
        assert len(answers) == sum(map(len, asked.values()))
        unexplained = sent - allowed
        assert not unexplained, f"sent more often than it was tried: {unexplained}"
        duplicates = len(server.sent) - len(rows)
        assert 0 <= duplicates <= kills * len(USERS)
        print(f"{len(answers)} messages, {kills} kills, {duplicates} sent twice")


def test_the_story_of_a_chat_that_outgrows_its_window(tmp_path: Path) -> None:
    """A long chat never overflows, is killed and goes on; a reset knows what it was about; and
    fresh mode outlives a restart."""
    essay = "The heron stands in the shallow water and waits for a fish to come by. " * 45
    with BotApiServer() as server, JsonlStore(tmp_path) as store:

        def ask(text: str) -> str:
            before = len(server.texts())
            server.say(text)
            return server.wait_for_texts(before + 1, seconds=60)[before]

        with bot_process(tmp_path, server, "--window", "16000"):
            assert ask("Remember: the project is called Heron and its deadline is 12 March.")
            for number in range(24):
                assert "could not" not in ask(f"Part {number}. {essay}")
            status = ask("/status")
            assert "tg_99" in status
            assert "%" in status
            server.say(f"The last part before the power cut. {essay}")
        with bot_process(tmp_path, server, "--window", "16000"):
            wait_until_quiet(store, server)
            messages = store.read(SessionKey("main", "tg_99"))
            said = [type(each) for each in messages if isinstance(each, User | Assistant)]
            assert said == [User, Assistant] * 26
            compacted = ask("/compact")
            assert "tokens" in compacted or "compact" in compacted
            assert "Started fresh session" in ask("/reset")
            assert "Mode: fresh" in ask("/mode fresh")
            assert "Heron" in ask("What is the project called?")
        with bot_process(tmp_path, server, "--window", "16000"):
            wait_until_quiet(store, server)  # the last answer may come again
            assert "Mode: fresh" in ask("/mode")
            before = follow_continuation(store, SessionKey("main", "tg_99"))
            assert ask("And when is it due?")
            after = follow_continuation(store, SessionKey("main", "tg_99"))
            assert len({SessionKey("main", "tg_99"), before, after}) == 3
            assert {store.header(key).owner for key in (before, after)} == {"telegram:99"}
