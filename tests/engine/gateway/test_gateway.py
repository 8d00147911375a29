"""The gateway answers every message once and in order, whatever happens to it on the way."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.engine.gateway.gateways import (
    FAST,
    AnsweringModel,
    done,
    make_gateway,
    running_gateway,
    said,
)

from holdfast.core.failures.classify import Failure
from holdfast.core.limits import LEASE_SECONDS
from holdfast.core.log.ids import SessionKey
from holdfast.core.owners import ANY_OWNER, NO_OWNER
from holdfast.core.queues import LOST_CLAIMS_MAX
from holdfast.engine.timers import Timers, TimerService
from holdfast.errors import KeyReused, ModelError, TooManyWaiting, TurnInProgress, UsageError
from holdfast.ports import NewMessage, QueuedMessage
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.core.models.replies import Reply
    from holdfast.core.queues import ResetReason
    from holdfast.ports import SessionStore

A, B = SessionKey("main", "a"), SessionKey("main", "b")


@pytest.fixture(params=["folder", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    opened = JsonlStore(tmp_path / "root") if request.param == "folder" else MemoryStore()
    with opened:
        opened.create(A)
        opened.create(B)
        yield opened


def test_a_message_is_answered(store: SessionStore) -> None:
    """A message that was taken is answered, and says with which record."""

    async def scenario() -> QueuedMessage:
        async with running_gateway(store) as gateway:
            message = await gateway.submit(A, "hello", owner="", extra={"from": "test"})
            assert message.state == "waiting"
            return await done(gateway, message)

    answered = asyncio.run(scenario())
    assert (answered.state, answered.tries) == ("answered", 1)
    assert said(store, A) == ["hello", "<re: hello"]
    assert answered.result == {"record": store.last(A, 1)[-1].id}


def test_messages_of_a_session_are_answered_in_order(store: SessionStore) -> None:
    """Each turn ends before the next begins; another session does not wait for it."""
    running: list[str] = []
    seen: list[int] = []

    async def answer(text: str) -> str:
        running.append(text[0])
        seen.append(max(running.count("a"), running.count("b")))
        await asyncio.sleep(0.01)
        running.remove(text[0])
        return f"re: {text}"

    async def scenario() -> None:
        async with running_gateway(store, AnsweringModel(answer)) as gateway:
            sent = []
            for number in range(6):
                sent.append(await gateway.submit(A, f"a{number}"))
                sent.append(await gateway.submit(B, f"b{number}"))
            for message in sent:
                assert (await done(gateway, message)).state == "answered"

    asyncio.run(scenario())
    assert said(store, A) == [text for n in range(6) for text in (f"a{n}", f"<re: a{n}")]
    assert said(store, B) == [text for n in range(6) for text in (f"b{n}", f"<re: b{n}")]
    assert set(seen) == {1}


def test_nobody_waits_for_another_session(store: SessionStore) -> None:
    """While a turn of one session hangs, those of another are answered."""

    async def scenario() -> None:
        free = asyncio.Event()

        async def answer(text: str) -> str:
            if text == "slow":
                await free.wait()
            return "done"

        async with running_gateway(store, AnsweringModel(answer)) as gateway:
            slow = await gateway.submit(A, "slow")
            for number in range(3):
                quick = await gateway.submit(B, f"quick {number}")
                assert (await done(gateway, quick)).state == "answered"
            assert gateway.is_running(A)
            free.set()
            assert (await done(gateway, slow)).state == "answered"

    asyncio.run(scenario())


def test_the_same_key_is_the_same_message(store: SessionStore) -> None:
    """A message that is sent again is answered once; another one under its key is refused."""
    model = AnsweringModel()

    async def scenario() -> None:
        async with running_gateway(store, model) as gateway:
            first = await gateway.submit(A, "hello", message_key="k")
            again = await gateway.submit(A, "hello", message_key="k")
            assert again.id == first.id
            await done(gateway, first)
            with pytest.raises(KeyReused):
                await gateway.submit(A, "other", message_key="k")
            with pytest.raises(UsageError, match="characters"):
                await gateway.submit(A, "other", message_key="k" * 501)
            assert (await gateway.submit(A, "hello", message_key="k")).state == "answered"

    asyncio.run(scenario())
    assert model.calls == 1


@pytest.mark.parametrize("is_told", [True, False], ids=["before", "after"])
def test_a_message_is_answered_once_around_a_crash(store: SessionStore, is_told: bool) -> None:
    """A process that ends before or after the answer leaves a message that is answered once."""
    model = AnsweringModel()

    async def first() -> None:
        gateway = make_gateway(store, model)
        await gateway.submit(A, "hello", message_key="k")
        (claimed,) = store.queues.claim("inbox", "killed", 600)
        if is_told:
            async with gateway.sessions.use(A) as session:
                await session.say("hello", key=claimed.key)

    async def second() -> QueuedMessage:
        async with running_gateway(store, model) as gateway:
            found = store.queues.find("inbox", NO_OWNER, "k")
            assert found is not None
            return await done(gateway, found)

    asyncio.run(first())
    assert asyncio.run(second()).state == "answered"
    assert said(store, A) == ["hello", "<re: hello"]
    assert model.calls == 1


def _fails(kind: str, action: str, after: int = 99) -> Any:
    seen: list[int] = []

    def answer(text: str) -> str:
        if not text.startswith("bad") or len(seen) >= after:
            return "done"
        seen.append(1)
        failure = Failure(kind=kind, action=action)  # type: ignore[arg-type]
        raise ModelError("it did not work", failure=failure)

    return answer


def test_a_message_that_cannot_be_answered_is_set_aside(store: SessionStore) -> None:
    """It has its reason, does not hold up the next one, and can be tried again."""
    model = AnsweringModel(_fails("auth", "abort", after=1))

    async def scenario() -> None:
        async with running_gateway(store, model) as gateway:
            bad = await gateway.submit(A, "bad")
            good = await gateway.submit(A, "good")
            failed = await done(gateway, bad)
            assert (failed.state, failed.tries) == ("failed", 1)
            assert "it did not work" in failed.reason
            assert (await done(gateway, good)).state == "answered"
            assert store.queues.retry(bad.id)
            gateway.wake()
            assert (await done(gateway, bad)).state == "answered"

    asyncio.run(scenario())


def test_a_message_that_ends_its_process_is_set_aside(store: SessionStore) -> None:
    """After so many claims without an outcome the message is taken for the cause, and one claim
    earlier it is not."""

    async def scenario() -> None:
        gateway = make_gateway(store)
        poison = await gateway.submit(A, "poison")
        innocent = await gateway.submit(B, "innocent")
        for number in range(LOST_CLAIMS_MAX):
            is_last = number == LOST_CLAIMS_MAX - 1
            held = store.queues.claim("inbox", "killed", 600, limit=1 if is_last else 2)
            assert [message.lost_claims for message in held] == [number] * len(held)
            assert store.queues.release_all("inbox") == len(held)
        async with running_gateway(store) as gateway:
            failed = await done(gateway, poison)
            assert (failed.state, failed.tries, failed.lost_claims) == ("failed", 1, 20)
            assert failed.reason == "set aside: 20 times the process ended that worked on it"
            answered = await done(gateway, innocent)
            assert (answered.state, answered.lost_claims) == ("answered", 19)
            after = await gateway.submit(A, "after")
            assert (await done(gateway, after)).state == "answered"

    asyncio.run(scenario())
    assert said(store, A) == ["after", "<re: after"]
    assert said(store, B) == ["innocent", "<re: innocent"]


def test_a_turn_has_a_limit(store: SessionStore) -> None:
    """A turn that takes too long is cancelled, its channel hears of it, and the next one runs."""
    options = msgspec.structs.replace(FAST, turn_seconds=0.3)
    heard: list[str] = []

    class Listening:
        async def on_answer(self, message: QueuedMessage, reply: Reply) -> None:
            heard.append(reply.text)

        async def on_failure(self, message: QueuedMessage, reason: str) -> None:
            heard.append(reason)

        async def on_reset(self, message: QueuedMessage, reason: ResetReason) -> None:
            heard.append(reason)

    async def scenario() -> None:
        async def answer(text: str) -> str:
            if text == "slow":
                await asyncio.Event().wait()
            return "done"

        channels = {"test": Listening()}
        model = AnsweringModel(answer)
        async with running_gateway(store, model, options, channels=channels) as gateway:
            slow = await gateway.submit(A, "slow", channel="test")
            assert (await done(gateway, slow)).state == "failed"
        async with running_gateway(store, model, channels=channels) as gateway:
            quick = await gateway.submit(A, "quick", channel="test")
            assert (await done(gateway, quick)).state == "answered"

    asyncio.run(scenario())
    assert heard == ["the turn took longer than 0.005 minutes", "done"]


def test_a_turn_can_be_cancelled(store: SessionStore) -> None:
    """A cancelled turn ends, its message is dropped, and the next message is answered."""

    async def scenario() -> None:
        started = asyncio.Event()

        async def answer(text: str) -> str:
            if text == "slow":
                started.set()
                await asyncio.Event().wait()
            return "done"

        async with running_gateway(store, AnsweringModel(answer)) as gateway:
            assert await gateway.cancel(A) is None
            slow = await gateway.submit(A, "slow")
            await started.wait()
            dropped = await gateway.cancel(A)
            assert dropped is not None
            assert (dropped.id, dropped.state, dropped.reason) == (slow.id, "dropped", "cancelled")
            quick = await gateway.submit(A, "quick")
            assert (await done(gateway, quick)).state == "answered"
            assert store.leases.current(A) is None

    asyncio.run(scenario())


@pytest.mark.files_only("its database is a machine that did not sleep")
def test_a_machine_that_sleeps_keeps_its_turns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop that was closed while a turn ran asks the model once, and answers once."""
    slept, boot, wall = 0.0, time.clock_gettime, time.time
    counts_sleep = (getattr(time, "CLOCK_BOOTTIME", None), time.CLOCK_REALTIME)
    monkeypatch.setattr(
        time, "clock_gettime", lambda which: boot(which) + slept * (which in counts_sleep)
    )
    monkeypatch.setattr(time, "time", lambda: wall() + slept)

    async def scenario() -> None:
        nonlocal slept
        started, may_end = asyncio.Event(), asyncio.Event()

        async def answer(_text: str) -> str:
            started.set()
            await may_end.wait()
            return "done"

        model = AnsweringModel(answer)
        with JsonlStore(tmp_path) as store:
            store.create(A)
            async with running_gateway(store, model) as gateway:
                message = await gateway.submit(A, "slow")
                await started.wait()
                slept += 7_200.0
                claimed = await asyncio.to_thread(store.queues.claim, "inbox", "other", 60.0)
                assert claimed == []
                with pytest.raises(TurnInProgress):
                    store.leases.acquire(A, "other", 60.0)
                may_end.set()
                ended = await done(gateway, message)
                assert (ended.state, ended.tries, ended.lost_claims) == ("answered", 1, 0)
            assert (model.calls, said(store, A)) == (1, ["slow", "<done"])

    asyncio.run(scenario())


def test_a_turn_of_another_process_can_be_cancelled(store: SessionStore) -> None:
    """A holder whose claim is taken away ends its turn."""
    options = msgspec.structs.replace(FAST, claim_seconds=0.3)

    async def scenario() -> None:
        started = asyncio.Event()

        async def answer(text: str) -> str:
            if text == "slow":
                started.set()
                await asyncio.Event().wait()
            return "done"

        async with running_gateway(store, AnsweringModel(answer), options) as gateway:
            await gateway.submit(A, "slow")
            await started.wait()
            other = make_gateway(store)
            assert await other.cancel(A) is not None
            quick = await gateway.submit(A, "quick")
            assert (await done(gateway, quick)).state == "answered"

    asyncio.run(scenario())


def test_a_late_holder_is_refused(store: SessionStore) -> None:
    """A message that was taken over is answered by one holder, and the other leaves it alone."""
    options = msgspec.structs.replace(FAST, claim_seconds=0.3)
    model = AnsweringModel()

    async def scenario() -> None:
        stuck, free = threading.Event(), threading.Event()

        def stall(text: str) -> str:
            stuck.set()
            free.wait(200)  # holds its whole loop, as a process that is stopped does
            return "late"

        def run_stalled() -> None:
            async def stalled() -> None:
                slow = AnsweringModel(stall)
                async with running_gateway(store, slow, options, is_alone=False) as gateway:
                    message = store.queues.find("inbox", NO_OWNER, "k")
                    assert message is not None
                    await done(gateway, message)

            asyncio.run(stalled())

        put = store.queues.put(
            NewMessage(
                queue="inbox", lane=str(A), key="k", body={"content": "hello"}, session=str(A)
            )
        )
        other = threading.Thread(target=run_stalled)
        other.start()
        assert await asyncio.to_thread(stuck.wait, 200)
        async with running_gateway(store, model, options, is_alone=False) as gateway:
            while (found := store.queues.message(put.id)) and found.claims < 2:
                await asyncio.sleep(0.02)
            free.set()
            assert (await done(gateway, put)).state == "answered"
        await asyncio.to_thread(other.join)

    asyncio.run(scenario())
    assert len([text for text in said(store, A) if text.startswith("<")]) == 1
    assert said(store, A)[0] == "hello"


def test_a_full_queue_refuses(store: SessionStore) -> None:
    """A session, and an owner, take so many messages; a message sent again is not refused."""
    options = msgspec.structs.replace(FAST, waiting_max=2, owner_waiting_max=3)

    async def scenario() -> None:
        gateway = make_gateway(store, options=options)
        await gateway.submit(A, "1", owner="ann", message_key="k1")
        await gateway.submit(A, "2", owner="ann")
        with pytest.raises(TooManyWaiting) as caught:
            await gateway.submit(A, "3", owner="ann")
        assert caught.value.retry_seconds > 0
        await gateway.submit(A, "1", owner="ann", message_key="k1")
        await gateway.submit(B, "4", owner="ann")
        with pytest.raises(TooManyWaiting, match="owner"):
            await gateway.submit(SessionKey("main", "c"), "5", owner="ann")
        await gateway.submit(B, "6", owner="bob")

    asyncio.run(scenario())


def test_no_more_wait_than_may(store: SessionStore) -> None:
    """Messages that come at once are taken up to the limit of their session and of their owner."""
    options = msgspec.structs.replace(FAST, waiting_max=3, owner_waiting_max=5)

    async def scenario() -> None:
        gateway = make_gateway(store, options=options)
        sent = [gateway.submit(key, f"{n}", owner="ann") for key in (A, B) for n in range(12)]
        answers = await asyncio.gather(*sent, return_exceptions=True)
        assert {type(answer) for answer in answers} == {QueuedMessage, TooManyWaiting}
        taken = [answer for answer in answers if isinstance(answer, QueuedMessage)]
        assert len(taken) == 5
        lanes = [message.lane for message in taken]
        assert max(map(lanes.count, lanes)) == 3

    asyncio.run(scenario())


def test_a_gateway_that_stops_hands_over(store: SessionStore) -> None:
    """Turns that do not end in time go on in the next process, with no try counted."""

    async def hang() -> None:
        async def answer(text: str) -> str:
            await asyncio.Event().wait()
            return ""

        async with running_gateway(store, AnsweringModel(answer)) as gateway:
            await gateway.submit(A, "hello", message_key="k")
            while not gateway.running:
                await asyncio.sleep(0.01)

    asyncio.run(hang())
    found = store.queues.find("inbox", NO_OWNER, "k")
    assert found is not None
    assert (found.state, found.tries) == ("waiting", 0)
    assert store.leases.current(A) is None

    async def answer() -> QueuedMessage:
        async with running_gateway(store) as gateway:
            return await done(gateway, found)

    assert asyncio.run(answer()).state == "answered"
    assert said(store, A) == ["hello", "<re: hello"]


def test_an_idle_session_is_reset(store: SessionStore) -> None:
    """After a pause a message begins a fresh session that knows the old one; the name leads on."""
    options = msgspec.structs.replace(FAST, reset_idle_seconds=3_600)
    now = [0.0]
    model = AnsweringModel(lambda text: "done")

    async def scenario() -> None:
        import time

        def clock() -> float:
            return time.time() + now[0]

        async with running_gateway(store, model, options, clock=clock) as gateway:
            await done(gateway, await gateway.submit(A, "remember the word heron"))
            await done(gateway, await gateway.submit(A, "more"))
            now[0] = 7_200
            await done(gateway, await gateway.submit(A, "and now?"))
            now[0] = 0
            await done(gateway, await gateway.submit(A, "still there"))
            async with gateway.sessions.use(A) as session:
                assert session.key != A
                assert said(store, session.key) == ["and now?", "<done", "still there", "<done"]
                plan = await session.plan()
                assert "heron" in str(plan)

    asyncio.run(scenario())
    assert said(store, A) == ["remember the word heron", "<done", "more", "<done"]


@pytest.mark.parametrize(("claim_seconds", "lease_seconds"), [(6.0, 6.0), (600.0, LEASE_SECONDS)])
def test_a_turn_is_taken_over_with_its_message(
    store: SessionStore,
    monkeypatch: pytest.MonkeyPatch,
    claim_seconds: float,
    lease_seconds: float,
) -> None:
    """Neither the claim nor the lease of a process that stops outlives `claim_seconds`: another
    one takes over at its first look after that."""
    leases = type(store.leases)
    acquire, asked = leases.acquire, []

    def noting(self: Any, key: Any, holder: str, seconds: float, **more: Any) -> int:
        asked.append(seconds)
        return acquire(self, key, holder, seconds, **more)

    monkeypatch.setattr(leases, "acquire", noting)

    async def scenario() -> None:
        options = msgspec.structs.replace(FAST, claim_seconds=claim_seconds)
        async with running_gateway(store, options=options) as gateway:
            answered = await done(gateway, await gateway.submit(A, "hello"))
            assert answered.state == "answered"

    asyncio.run(scenario())
    assert set(asked) == {lease_seconds}


@pytest.mark.parametrize("words", ["NO_REPLY", "Two letters."])
def test_a_heartbeat_with_nothing_to_say_is_not_delivered(store: SessionStore, words: str) -> None:
    """A timer sends its message by itself; the log has the turn either way."""
    heard: list[str] = []

    class Listening:
        async def on_answer(self, message: QueuedMessage, reply: Reply) -> None:
            heard.append(reply.text)

        async def on_failure(self, message: QueuedMessage, reason: str) -> None:
            heard.append(reason)

        async def on_reset(self, message: QueuedMessage, reason: ResetReason) -> None:
            heard.append(reason)

    async def scenario() -> None:
        model = AnsweringModel(lambda text: words if "Look" in text else "hello")
        async with running_gateway(store, model, channels={"test": Listening()}) as gateway:
            await done(gateway, await gateway.submit(A, "hi", channel="test"))
            Timers(store).set(A, "1s", "Look at the inbox.", owner=NO_OWNER, silent=True)
            gateway.services.append(service := TimerService(gateway))
            await service.start()
            answered: list[QueuedMessage] = []
            while len(answered) < 2:
                await asyncio.sleep(0.05)
                answered = store.queues.messages("inbox", owner=ANY_OWNER, states=("answered",))
            assert service.status.state == "running"

    asyncio.run(scenario())
    assert heard == ["hello", *([words] if words != "NO_REPLY" else [])]
    assert [text for text in said(store, A) if text[0] == "<"] == ["<hello", f"<{words}"]
