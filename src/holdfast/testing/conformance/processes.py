"""A lease holds between processes, whatever becomes of its holder: done, killed, or paused."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import LeaseLost, TurnInProgress
from holdfast.ports import ANY_HEAD, SessionStore
from holdfast.testing.conformance.samples import KEY, message, texts_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from multiprocessing.connection import Connection

_OpenStore = Callable[[], SessionStore]
_SHORT: Final = 0.5
"""Seconds of a lease that is to run out; a check waits for that."""
_LONG: Final = 600.0
"""Longer than any check takes."""
_PROCESSES: Final = 3
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
    """Run a function in new processes; those that are left at the end are killed."""
    context = multiprocessing.get_context("spawn")
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
