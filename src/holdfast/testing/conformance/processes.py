"""Promises between processes: leases hold, no append is refused, listings and followers keep up."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager, suppress
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.owners import ANY_OWNER
from holdfast.core.spending.amounts import Amount
from holdfast.core.spending.budgets import Account, Sums
from holdfast.errors import BudgetSpent, LeaseLost, TooManyWaiting, TurnInProgress
from holdfast.ports import (
    ANY_HEAD,
    HeldCall,
    IndexPassage,
    NewMessage,
    NewSource,
    SessionStore,
    WaitingMessages,
)
from holdfast.testing.conformance.samples import KEY, OTHER, message, raises, texts_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

_OpenStore = Callable[[], SessionStore]
_SHORT: Final = 0.5
"""Seconds of a lease that is to run out; a check waits for that."""
_LONG: Final = 600.0
"""Longer than any check takes."""
_PROCESSES: Final = 3
_WRITERS: Final = 4
_APPENDS: Final = 50
_SHARED: Final = 20
"""Calls of a model that every process makes under the same names."""
_ROOM: Final = 10
"""Calls that there is room for beside them."""
_ACCOUNT: Final = Account("agent", "main", "2026-11")
_TURNS: Final = 20
"""Enough for several to ask at once, again and again."""


def turns_of_several_processes_follow_each_other(open_store: _OpenStore) -> None:
    """No record of one turn is between two of another, and no turn is missing."""
    with open_store() as store:
        store.create(KEY)
        with _start(_PROCESSES, _take_turns, open_store) as (_workers, pipes):
            assert [pipe.recv() for pipe in pipes] == ["done"] * _PROCESSES
        texts = texts_of(store.read(KEY))
        assert len(texts) == 2 * _PROCESSES * _TURNS
        assert texts[::2] == texts[1::2]
        assert len(set(texts)) == _PROCESSES * _TURNS


def objects_for_one_place_share_its_leases(open_store: _OpenStore) -> None:
    """A store that is opened twice has its leases in one place, and says so."""
    with open_store() as store, open_store() as other:
        store.create(KEY)
        assert store.leases.place == other.leases.place
        _acquire(store, "first", _LONG)
        with raises(TurnInProgress):
            other.leases.acquire(KEY, "second", _LONG)


def a_killed_holder_is_followed(open_store: _OpenStore) -> None:
    """The lease of a process that was killed is free when its time is up, if not before."""
    with open_store() as store:
        store.create(KEY)
        with _start(1, _hold, open_store, _SHORT) as (workers, pipes):
            assert pipes[0].recv() == "held"
            workers[0].kill()
            workers[0].join()
            token = _acquire(store, "next", _LONG)
        store.append(KEY, [message("next")], expect=ANY_HEAD, token=token)
        assert texts_of(store.read(KEY)) == ["first", "next"]


def a_paused_holder_writes_nothing_after_its_successor(open_store: _OpenStore) -> None:
    """A process that is stopped between two records and goes on after a takeover is refused."""
    with open_store() as store:
        store.create(KEY)
        with _start(1, _hold, open_store, _SHORT) as (workers, pipes):
            assert pipes[0].recv() == "held"
            pid = workers[0].pid
            assert pid is not None
            os.kill(pid, signal.SIGSTOP)
            token = _acquire(store, "next", _LONG)
            store.append(KEY, [message("next")], expect=ANY_HEAD, token=token)
            pipes[0].send("go on")
            os.kill(pid, signal.SIGCONT)
            assert pipes[0].recv() == ("refused", "next")
            store.append(KEY, [message("and on")], expect=ANY_HEAD, token=token)
            store.leases.release(KEY, token)
        assert texts_of(store.read(KEY)) == ["first", "next", "and on"]


def appends_of_four_processes_are_all_taken(open_store: _OpenStore) -> None:
    """An append after whatever the head is succeeds, however many processes append."""
    with open_store() as store:
        store.create(KEY)
        with _start(_WRITERS, _append, open_store) as (_workers, pipes):
            _go(pipes)
            _finish(pipes)
        texts = texts_of(store.read(KEY))
        _check_appends(texts)
        assert store.verify(KEY).is_sound
        assert (store.info(KEY).records, store.totals(KEY).turns) == (len(texts) + 1, len(texts))


def a_listing_shows_what_was_appended(open_store: _OpenStore) -> None:
    """While others append, a listing never goes back; once an append returned, it shows it."""
    with open_store() as store:
        store.create(KEY)
        store.create(OTHER)
        before = store.info(KEY).records
        with _start(_WRITERS, _append, open_store) as (_workers, pipes):
            _go(pipes)
            left = list(pipes)
            while left:
                left = [pipe for pipe in left if not pipe.poll()]
                (info,) = store.sessions(agent=KEY.agent, limit=1, owner=ANY_OWNER)
                assert info.key in (KEY, OTHER)
                (row,) = (each for each in store.sessions(owner=ANY_OWNER) if each.key == KEY)
                assert row.records >= before
                before = row.records
            _finish(pipes)
        (info,) = store.sessions(agent=KEY.agent, limit=1, owner=ANY_OWNER)
        assert (info.key, info.records) == (KEY, _WRITERS * _APPENDS + 1)


def a_follower_sees_other_processes(open_store: _OpenStore) -> None:
    """Every record that other processes append comes once, in the order of the log."""
    with open_store() as store:
        store.create(KEY)
        with _start(_WRITERS, _append, open_store) as (_workers, pipes):
            follower = store.follow(KEY, idle_seconds=_LONG)
            _go(pipes)
            seen = texts_of(islice(follower, _WRITERS * _APPENDS))
            _finish(pipes)
        assert seen == texts_of(store.read(KEY))
        _check_appends(seen)


def messages_in_queues_are_claimed_once(open_store: _OpenStore) -> None:
    """Processes that put and claim at once deal with every message once, in its lane's order."""
    with open_store() as store:
        with _start(_WRITERS, _work_on_queue, open_store) as (_workers, pipes):
            _go(pipes)
            done = [name for pipe in pipes for name in pipe.recv()]
        every = _WRITERS * _APPENDS + 1
        messages = store.queues.messages("inbox", limit=every, owner=ANY_OWNER)
        assert len(messages) == _WRITERS * _APPENDS
        left = len(
            store.queues.messages(
                "inbox", states=("waiting", "running"), limit=every, owner=ANY_OWNER
            )
        )
        assert sorted(done) == sorted(set(done))
        assert len(done) + left == len(messages)
        assert all(message.tries <= 1 for message in messages)


def a_full_lane_takes_no_more_of_any_process(open_store: _OpenStore) -> None:
    """Processes that put at once, and are refused from a number on, never get beyond it."""
    with open_store() as store:
        with _start(_WRITERS, _fill_lane, open_store) as (_workers, pipes):
            _go(pipes)
            taken = [key for pipe in pipes for key in pipe.recv()]
        messages = store.queues.messages("inbox", limit=_WRITERS * _APPENDS, owner=ANY_OWNER)
        assert sorted(taken) == sorted(message.key for message in messages)
        assert len(taken) == _ROOM


def calls_of_several_processes_are_counted_once(open_store: _OpenStore) -> None:
    """Processes that hold and settle the same calls at once count each of them once, and let no
    more in than a limit has room for."""
    with open_store() as store:
        with _start(_WRITERS, _spend, open_store) as (_workers, pipes):
            _go(pipes)
            held = [number for pipe in pipes for number in pipe.recv()]
        (sums,) = store.spending.sums([_ACCOUNT]).values()
        assert len(held) == _WRITERS * _SHARED
        assert sums == Sums(_SHARED + _ROOM, 10 * _SHARED + _ROOM, 0, 0, 0)


def notes_of_several_processes_are_kept_once(open_store: _OpenStore) -> None:
    """Each note is there once, no matter who adds it at the same time, and none is missing."""
    with open_store() as store:
        with _start(_WRITERS, _add_notes, open_store) as (_workers, pipes):
            for _turn in range(_TURNS):  # all at once, again and again
                _go(pipes)
                _finish(pipes)
        found = sorted(note.text for note in store.notes(KEY.agent).notes())
        shared = [f"shared {number}" for number in range(_TURNS)]
        own = [f"own {number} of {name}" for name in range(_WRITERS) for number in range(_TURNS)]
        assert found == sorted([*shared, *own])


def passages_of_several_processes_are_indexed_once(open_store: _OpenStore) -> None:
    """A source that several processes bring up to date has each of its passages once."""
    with open_store() as store:
        index = store.search_index
        with _start(_WRITERS, _extend_index, open_store) as (_workers, pipes):
            _go(pipes)
            _finish(pipes)
        (source,) = index.sources()
        assert (source.passages, source.head) == (_TURNS, str(_TURNS))
        matches = index.matches({"word": 1.0}, ["word"], {source.id: source})
        texts = sorted(row.text for row in index.passages([each.id for each in matches.best]))
        assert texts == sorted(f"word {number}" for number in range(_TURNS))


def _extend_index(pipe: Connection, open_store: _OpenStore, number: int) -> None:
    with open_store() as store:
        index = store.search_index
        if number == 0:
            index.replace([NewSource("session", str(KEY), "0", "0", [])])
        pipe.recv()
        done = 0
        while done < _TURNS:
            for source in index.sources():
                done = int(source.head)
                if done < _TURNS:
                    passage = IndexPassage(f"word {done}", ["word", str(done)], "user")
                    head = str(done + 1)
                    index.extend(source, stamp=head, head=head, passages=[passage])
    pipe.send("done")


def _work_on_queue(pipe: Connection, open_store: _OpenStore, _number: int) -> None:
    """Put messages into two lanes that all share, and deal with whatever is claimed."""
    done: list[str] = []
    held: dict[str, int] = {}
    with open_store() as store:
        pipe.recv()
        for number in range(_APPENDS):
            lane, key = f"lane{number % 2}", f"{os.getpid()}-{number}"
            store.queues.put(NewMessage(queue="inbox", lane=lane, key=key, body={}))
            for claimed in store.queues.claim("inbox", key, _LONG, limit=2):
                assert claimed.id > held.get(claimed.lane, 0)
                held[claimed.lane] = claimed.id
                running = store.queues.messages(
                    "inbox", lane=claimed.lane, states=("running",), owner=ANY_OWNER
                )
                assert [message.id for message in running] == [claimed.id]
                assert store.queues.finish(claimed, "answered")
                done.append(claimed.key)
        pipe.send(done)


def _fill_lane(pipe: Connection, open_store: _OpenStore, _number: int) -> None:
    """Put messages into one lane for as long as there is room."""
    taken: list[str] = []

    def judge(before: WaitingMessages) -> None:
        if before.in_lane >= _ROOM:
            raise TooManyWaiting("the lane", before.in_lane, 1.0)

    with open_store() as store:
        pipe.recv()
        for number in range(_APPENDS):
            key = f"{os.getpid()}-{number}"
            with suppress(TooManyWaiting):
                store.queues.put(NewMessage(queue="inbox", lane="a", key=key, body={}), judge)
                taken.append(key)
        pipe.send(taken)


def _spend(pipe: Connection, open_store: _OpenStore, number: int) -> None:
    """Make the calls that all share, and one after the other those of this process alone, as long
    as there is room."""
    held: list[int] = []

    def judge(sums: dict[Account, Sums]) -> None:
        if sums[_ACCOUNT].requests >= _SHARED + _ROOM:
            raise BudgetSpent("all of it", 0.0, 1.0)

    with open_store() as store:
        pipe.recv()
        ledger = store.spending
        for place in range(_SHARED):
            call = HeldCall(f"shared {place}", (_ACCOUNT,), Amount(100, 0), 1.0)
            ledger.hold(call, lambda _sums: None)
            ledger.settle(call, Amount(10, 0))
            held.append(place)
        for place in range(_ROOM):
            call = HeldCall(f"{number} {place}", (_ACCOUNT,), Amount(100, 0), 1.0)
            with suppress(BudgetSpent):
                ledger.hold(call, judge)
                ledger.settle(call, Amount(1, 0))
        pipe.send(held)


def _add_notes(pipe: Connection, open_store: _OpenStore, name: int) -> None:
    with open_store() as store:
        notes = store.notes(KEY.agent)
        for number in range(_TURNS):
            pipe.recv()
            notes.append([f"shared {number}", f"own {number} of {name}"])
            pipe.send("done")


def _append(pipe: Connection, open_store: _OpenStore, number: int) -> None:
    with open_store() as store:
        pipe.recv()
        for turn in range(_APPENDS):
            store.append(KEY, [message(f"{number}.{turn}")], expect=ANY_HEAD)
    pipe.send("done")


def _go(pipes: list[Connection]) -> None:
    for pipe in pipes:
        pipe.send("go")


def _finish(pipes: list[Connection]) -> None:
    assert [pipe.recv() for pipe in pipes] == ["done"] * len(pipes)


def _check_appends(texts: list[str]) -> None:
    """Each process's appends are all there, in its order."""
    assert len(texts) == _WRITERS * _APPENDS
    for number in range(_WRITERS):
        own = [text for text in texts if text.startswith(f"{number}.")]
        assert own == [f"{number}.{turn}" for turn in range(_APPENDS)]


def _take_turns(pipe: Connection, open_store: _OpenStore, number: int) -> None:
    with open_store() as store:
        for turn in range(_TURNS):
            text = f"{number}.{turn}"
            token = _acquire(store, text, _LONG)
            for _ in range(2):
                store.append(KEY, [message(text)], expect=ANY_HEAD, token=token)
            store.leases.release(KEY, token)
    pipe.send("done")


def _hold(pipe: Connection, open_store: _OpenStore, _number: int, seconds: float) -> None:
    """Write a first record, wait to be told, and try to write a second."""
    with open_store() as store:
        token = store.leases.acquire(KEY, "first", seconds)
        store.append(KEY, [message("first")], expect=ANY_HEAD, token=token)
        pipe.send("held")
        pipe.recv()
        try:
            store.append(KEY, [message("late")], expect=ANY_HEAD, token=token)
        except LeaseLost as error:
            pipe.send(("refused", error.holder))
        else:
            pipe.send("wrote")


def _acquire(store: SessionStore, holder: str, seconds: float) -> int:
    """Take the lease as soon as it is free."""
    while True:
        try:
            return store.leases.acquire(KEY, holder, seconds)
        except TurnInProgress:
            time.sleep(0.005)


@contextmanager
def _start(
    count: int, work: Callable[..., None], open_store: _OpenStore, *args: Any
) -> Iterator[tuple[list[Any], list[Connection]]]:
    """Run a function in new processes; those that are left at the end are killed.

    They are forked from a process in which nothing has happened but the import of this module: as
    new as if started by themselves, at a fraction of the time. It has the environment that there
    was when the first of them began.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([__name__])
    ends = [context.Pipe() for _ in range(count)]
    workers = [
        context.Process(target=work, args=(theirs, open_store, number, *args), daemon=True)
        for number, (_ours, theirs) in enumerate(ends)
    ]
    for worker in workers:
        worker.start()
    for _ours, theirs in ends:
        theirs.close()  # so that the end of a process is the end of its pipe
    try:
        yield workers, [ours for ours, _theirs in ends]
    finally:
        for worker in workers:
            worker.kill()
            worker.join()
