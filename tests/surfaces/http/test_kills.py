"""`holdfast serve`, and its database, are killed at random moments under load.

Clients send and repeat what got no answer. Every message that was acknowledged is in its log once,
in order and answered once; every answer arrives at those who follow the session; no tool ran twice,
and no message is left running. Its budget has each call once: those whose replies are in a log,
and at most one more for each claim that was lost.
"""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pytest
from tests.support.runs import is_whole
from tests.surfaces.http.kill_clients import ChattingClient, FollowingClient, SendingClient
from tests.surfaces.http.real import ServeProcess

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Rewind, User, text_of
from holdfast.core.owners import ANY_OWNER
from holdfast.core.spending.budgets import period_at
from holdfast.stores.opening import open_store
from holdfast.testing.servers import PostgresServer, ServerUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.ports import SessionStore

SETTINGS: Final = """
[server]
requests_burst = 1000000
requests_per_second = 100000.0
[gateway]
claim_seconds = 2.0
poll_seconds = 1.0
drain_seconds = 1.0
waiting_max = 100000
owner_waiting_max = 1000000
[agents.main]
notes = "off"
checkpoints = "off"
tools = ["tests.surfaces.http.kill_tools:mark"]
[budgets.agents.main]
month_requests = 1000000000
"""
MESSAGES: Final = 50 if is_whole() else 12
"""That the clients send from one kill to the next."""
PATIENCE: Final = 240.0
"""Seconds without an answer after the last kill; a lease of a killed process ends first."""
SESSIONS: Final = 6

pytestmark = [
    pytest.mark.timeout(3_000),
    pytest.mark.files_only("it starts processes of its own"),
]


class KillRun(NamedTuple):
    """A store under load, and everything that was seen of it."""

    servers: list[ServeProcess]
    senders: list[SendingClient]
    followers: list[FollowingClient]
    marks: Path


def _seed() -> int:
    """The same kills every time, and others in the nightly run."""
    seed = random.getrandbits(30) if is_whole() else 7
    print(f"seed {seed}")
    return seed


def run_with_kills(
    root: str,
    folder: Path,
    kill: Callable[[KillRun, random.Random], None],
    *,
    processes: int,
    kills: int,
    allowed: tuple[int, ...] = (),
    sender: type[SendingClient] = SendingClient,
) -> None:
    """Kill something again and again under load, and check what there is at the end."""
    seed = _seed()
    marks, luck = folder / "marks", random.Random(seed)
    marks.touch()
    names = [f"s{number}" for number in range(SESSIONS)]
    with open_store(root) as store:
        for name in names:
            store.create(SessionKey("main", name))
        starts = {name: store.head(SessionKey("main", name)) for name in names}
    servers = [
        ServeProcess(root, SETTINGS, folder, environ={"MARKS": str(marks)})
        for _number in range(processes)
    ]
    turns = threading.Semaphore(SESSIONS)
    senders = [sender(name, servers, turns, seed + n, allowed) for n, name in enumerate(names)]
    followers = [
        FollowingClient(name, servers, seed - n, start)
        for n, (name, start) in enumerate(starts.items())
    ]
    run = KillRun(servers, senders, followers, marks)
    try:
        for server in servers:
            server.start()
        for client in (*senders, *followers):
            client.start()
        size = 0
        for number in range(kills):
            wanted = sent(senders) + luck.randint(1, MESSAGES // 2)
            turns.release(MESSAGES)
            while sent(senders) < wanted:
                time.sleep(0.01)
            while number % 4 == 3 and marks.stat().st_size == size:
                time.sleep(0.01)  # on any machine, some lives are long enough for a turn
            size = marks.stat().st_size
            time.sleep(luck.uniform(0.0, 0.3))
            kill(run, luck)
        for client in senders:
            client.stop()
        with open_store(root) as store:
            seconds = wait_until_answered(store)
            figures = check(store, run)
        print({"kills": kills, **figures, "seconds": round(seconds, 1)})
    finally:
        for client in (*senders, *followers):
            client.is_done.set()
        for server in servers:
            server.__exit__()


def sent(senders: list[SendingClient]) -> int:
    return sum(len(sender.sent) for sender in senders)


def wait_until_answered(store: SessionStore) -> float:
    """Wait for the messages that are on their way, and return the seconds that it took."""
    began = progress = time.monotonic()
    left = 0
    while counts := store.queues.counts("inbox", owner=ANY_OWNER):
        before, left = left, counts.get("waiting", 0) + counts.get("running", 0)
        if not left:
            break
        progress = time.monotonic() if left != before else progress
        assert time.monotonic() < progress + PATIENCE, open_rows(store)
        time.sleep(0.1)
    return time.monotonic() - began


def open_rows(store: SessionStore) -> list[str]:
    """Return what is not answered, and why, with the lease of its session."""
    rows = store.queues.messages(
        "inbox", states=("waiting", "running"), limit=1_000, owner=ANY_OWNER
    )
    return [
        f"{row.key}: {row.state} by {row.holder or 'nobody'}, {row.tries}+{row.lost_claims} "
        f"tries, {row.reason}; lease {store.leases.current(SessionKey('main', row.lane[5:]))}"
        for row in rows
    ]


def check(store: SessionStore, run: KillRun) -> dict[str, Any]:
    """Check the promise, and return figures."""
    messages = store.queues.messages("inbox", limit=100_000, owner=ANY_OWNER)
    states = {f"{message.state}: {message.reason}" for message in messages}
    assert states == {"answered: "}
    for sender in run.senders:
        assert answered_keys(store, SessionKey("main", sender.session)) == sender.sent
    marks = Counter(run.marks.read_text().split())
    assert [name for name, number in marks.items() if number > 1] == []
    arrived = wait_until_followed(store, run.followers)
    assert [each for client in (*run.senders, *run.followers) for each in client.mistakes] == []
    for server in run.servers:
        assert "Traceback" not in server.log()
    lost = [message.lost_claims for message in messages]
    replies, calls = count_replies(store), count_calls(store)
    assert replies <= calls <= replies + sum(lost) + sum(message.tries for message in messages)
    return {
        "acknowledged": len(messages),
        "sent again": sum(sender.repeats for sender in run.senders),
        "known": sum(sender.known for sender in run.senders),
        "lost claims": sum(lost),
        "most of one": max(lost),
        "answers": len(messages),
        "records followed": len(arrived),
        "twice on the wire": arrived.total() - len(arrived),
        "streams": sum(follower.connections for follower in run.followers),
        "replies": replies,
        "calls billed": calls,
    }


def count_replies(store: SessionStore) -> int:
    """Return the replies of the model in all logs."""
    return sum(
        isinstance(record, Assistant)
        for number in range(SESSIONS)
        for record in store.read(SessionKey("main", f"s{number}"))
    )


def count_calls(store: SessionStore) -> int:
    """Return the calls that the budget of the agent has, in whatever month they were made."""
    now = time.time()
    months = {period_at("month", at, "UTC") for at in (now, now - 7_200)}
    sums = store.spending.accounts(sorted(months))
    return sum(found.requests for account, found in sums.items() if account.kind == "agent")


def wait_until_followed(store: SessionStore, followers: list[FollowingClient]) -> Counter[str]:
    """Wait until each follower has every record of its session, and return how often each came."""
    arrived: Counter[str] = Counter()
    for follower in followers:
        key = SessionKey("main", follower.session)
        wanted = {record.id for record in store.read(key)} - {follower.start_id}
        began = time.monotonic()
        while not wanted <= set(follower.records):
            assert time.monotonic() < began + PATIENCE, wanted - set(follower.records)
            time.sleep(0.05)
        assert set(follower.records) == wanted, "a record came that is not in the log"
        arrived.update(follower.records)
    return arrived


def answered_keys(store: SessionStore, key: SessionKey) -> list[str]:
    """Return the keys of the messages in a log, in order; `?` behind one that has no answer, `!`
    behind one that has two."""
    found: list[str] = []
    answers = 1
    for record in store.read(key):
        if isinstance(record, User):
            if not answers:
                found[-1] += "?"
            found.append(text_of(record.content).split("'")[1])
            answers = 0
        elif isinstance(record, Assistant) and record.stop_reason == "end_turn":
            answers += 1
            if answers > 1:
                found[-1] += "!"
    if not answers:
        found[-1] += "?"
    return found


def kill_a_process(run: KillRun, luck: random.Random) -> None:
    victim = luck.choice(run.servers)
    victim.kill()
    victim.start()


def test_a_killed_gateway_answers_once(tmp_path: Path) -> None:
    """One process on a folder."""
    kills = 100 if is_whole() else 1
    run_with_kills(str(tmp_path / "store"), tmp_path, kill_a_process, processes=1, kills=kills)


def test_a_killed_gateway_answers_once_at_every_door(tmp_path: Path) -> None:
    """Clients that keep the history themselves, at the addresses of every API: the log has no
    branch, for nobody edited anything."""
    kills = 100 if is_whole() else 1
    root = str(tmp_path / "store")
    run_with_kills(root, tmp_path, kill_a_process, processes=1, kills=kills, sender=ChattingClient)
    with open_store(root) as store:
        for number in range(SESSIONS):
            records = [entry.record for entry in store.read_all(SessionKey("main", f"s{number}"))]
            assert [record for record in records if isinstance(record, Rewind)] == []


def test_one_of_three_killed_gateways_is_followed(tmp_path: Path, postgres_address: str) -> None:
    """Three processes on PostgreSQL; clients ask any of them."""
    processes, kills = (3, 100) if is_whole() else (2, 1)
    run_with_kills(postgres_address, tmp_path, kill_a_process, processes=processes, kills=kills)


def test_a_killed_database_loses_nothing(tmp_path: Path) -> None:
    """The server of the database is killed with all its processes; the gateways go on after it."""
    try:
        database = PostgresServer()
    except ServerUnavailable as error:
        pytest.skip(f"NOT TESTED on PostgreSQL: {error} ({error.hint})")

    def kill_the_database(_run: KillRun, luck: random.Random) -> None:
        database.stop(signal.SIGKILL)
        time.sleep(luck.uniform(0, 0.5))
        database.start()

    with database:
        run_with_kills(
            database.address,
            tmp_path,
            kill_the_database,
            processes=3 if is_whole() else 1,
            kills=100 if is_whole() else 1,
            allowed=(503,),
        )
