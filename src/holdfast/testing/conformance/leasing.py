"""A lease has one holder, and only its newest token writes."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from holdfast.errors import LeaseLost, NoSuchSession, TurnInProgress
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import ABSENT, KEY, OTHER, message, raises, texts_of

if TYPE_CHECKING:
    from holdfast.ports import SessionStore

_LONG = 600.0
"""Longer than any check takes."""


def a_lease_has_one_holder(store: SessionStore) -> None:
    """While a holder has the lease, another is refused and learns who has it, and since when."""
    store.create(KEY)
    before = time.time()
    assert store.leases.current(KEY) is None
    token = store.leases.acquire(KEY, "ann's turn", _LONG)
    with raises(TurnInProgress) as caught:
        store.leases.acquire(KEY, "bob's turn", _LONG)
    assert caught[0].holder == "ann's turn"
    assert before - 1 <= caught[0].since <= time.time() + 1
    found = store.leases.current(KEY)
    assert found is not None
    assert (found.token, found.holder) == (token, "ann's turn")
    assert found.since == caught[0].since


def leases_have_one_place(store: SessionStore) -> None:
    """Anyone who asks the store for its leases twice can tell that they are the same."""
    assert store.leases.place
    assert store.leases.place == store.leases.place


def a_lease_that_is_released_is_free(store: SessionStore) -> None:
    """After a release the next holder gets the lease at once, with a larger token."""
    store.create(KEY)
    tokens = []
    for number in range(5):
        tokens.append(store.leases.acquire(KEY, f"turn {number}", _LONG))
        store.leases.release(KEY, tokens[-1])
        assert store.leases.current(KEY) is None
    assert tokens == sorted(set(tokens))


def a_lease_that_ran_out_is_free(store: SessionStore) -> None:
    """A lease that is not renewed in time goes to the next who asks, with a larger token."""
    store.create(KEY)
    old = store.leases.acquire(KEY, "slow", 0.0)
    assert store.leases.current(KEY) is None
    assert store.leases.acquire(KEY, "next", _LONG) > old


def a_lease_is_renewed_until_another_takes_it(store: SessionStore) -> None:
    """Renewing keeps a lease, also one that ran out unnoticed; after a takeover it is lost."""
    store.create(KEY)
    token = store.leases.acquire(KEY, "slow", 0.0)
    store.leases.renew(KEY, token, _LONG)
    with raises(TurnInProgress):
        store.leases.acquire(KEY, "next", _LONG)
    store.leases.renew(KEY, token, 0.0)
    store.leases.acquire(KEY, "next", _LONG)
    with raises(LeaseLost) as caught:
        store.leases.renew(KEY, token, _LONG)
    assert caught[0].holder == "next"


def the_queue_of_a_lease_keeps_its_order(store: SessionStore) -> None:
    """A lease goes to the one who asked first, not to the one who asks at the right moment."""
    store.create(KEY)

    def ask(holder: str, queue_seconds: float = _LONG) -> int:
        return store.leases.acquire(KEY, holder, _LONG, queue_seconds=queue_seconds)

    def refusal(holder: str, queue_seconds: float = _LONG) -> str:
        with raises(TurnInProgress) as caught:
            ask(holder, queue_seconds)
        return str(caught[0].holder)

    store.append(KEY, [message("before")], expect=ANY_HEAD)
    token = ask("ann")
    assert [refusal(name) for name in ("bob", "cid", "bob", "dan")] == ["ann"] * 4
    assert refusal("eve", 0.0) == "ann"
    store.leases.release(KEY, token)
    assert store.leases.current(KEY) is None
    assert [refusal(name) for name in ("ann", "cid", "dan")] == ["bob"] * 3
    assert refusal("eve", 0.0) == "bob"
    token = ask("bob")
    assert refusal("bob again") == "bob"
    store.leases.leave_queue(KEY, "cid")
    store.leases.leave_queue(KEY, "cid")
    store.leases.leave_queue(KEY, "nobody")
    store.leases.release(KEY, token)
    assert [refusal(name, 0.0) for name in ("cid", "ann", "bob again")] == ["dan"] * 3
    for name in ("dan", "ann", "bob again"):
        store.leases.release(KEY, ask(name))
    store.leases.release(KEY, ask("cid", 0.0))


def a_place_in_the_queue_runs_out(store: SessionStore) -> None:
    """A place in the queue ends with its time: no one waits for a holder that is gone."""
    store.create(KEY)
    token = store.leases.acquire(KEY, "ann", _LONG)
    for name, seconds in (("gone", 0.001), ("bob", _LONG)):
        with raises(TurnInProgress):
            store.leases.acquire(KEY, name, _LONG, queue_seconds=seconds)
    time.sleep(0.002)
    store.leases.release(KEY, token)
    with raises(TurnInProgress) as caught:
        store.leases.acquire(KEY, "gone", _LONG, queue_seconds=_LONG)
    assert caught[0].holder == "bob"
    store.leases.release(KEY, store.leases.acquire(KEY, "bob", _LONG))
    store.leases.acquire(KEY, "gone", _LONG)


def an_older_token_releases_nothing(store: SessionStore) -> None:
    """A holder that lost its lease does not end its successor's, however often it tries."""
    store.create(KEY)
    old = store.leases.acquire(KEY, "slow", 0.0)
    new = store.leases.acquire(KEY, "next", _LONG)
    store.leases.release(KEY, old)
    store.leases.release(KEY, old)
    found = store.leases.current(KEY)
    assert found is not None
    assert found.token == new
    store.leases.release(KEY, new)
    store.leases.release(KEY, new)
    assert store.leases.current(KEY) is None


def an_append_with_an_older_token_is_refused(store: SessionStore) -> None:
    """Once a newer token exists, an older one writes nothing, also after the newer one ended."""
    store.create(KEY)
    old = store.leases.acquire(KEY, "slow", 0.0)
    store.append(KEY, [message("in time")], expect=ANY_HEAD, token=old)
    new = store.leases.acquire(KEY, "next", _LONG)
    with raises(LeaseLost):
        store.append(KEY, [message("late")], expect=ANY_HEAD, token=old)
    head = store.append(KEY, [message("new")], expect=ANY_HEAD, token=new).head
    with raises(LeaseLost):
        store.append(KEY, [message("late"), message("too")], expect=head, token=old)
    store.leases.release(KEY, new)
    with raises(LeaseLost):
        store.append(KEY, [message("late")], expect=head, token=old)
    assert texts_of(store.read(KEY)) == ["in time", "new"]
    assert store.head(KEY) == head


def an_append_with_a_token_that_was_never_given_is_refused(store: SessionStore) -> None:
    """A token is compared with the one that was given, not with its size."""
    store.create(KEY)
    with raises(LeaseLost):
        store.append(KEY, [message("none")], expect=ANY_HEAD, token=1)
    token = store.leases.acquire(KEY, "turn", _LONG)
    for other in (token - 1, token + 1):
        with raises(LeaseLost):
            store.append(KEY, [message("other")], expect=ANY_HEAD, token=other)
    assert texts_of(store.read(KEY)) == []


def a_lease_blocks_neither_readers_nor_other_appends(store: SessionStore) -> None:
    """While a turn runs, messages are appended without a token, and everything can be read."""
    store.create(KEY)
    token = store.leases.acquire(KEY, "turn", _LONG)
    store.append(KEY, [message("asked")], expect=ANY_HEAD, token=token)
    store.append(KEY, [message("by the way")], expect=ANY_HEAD)
    store.append(KEY, [message("answered")], expect=ANY_HEAD, token=token)
    assert texts_of(store.read(KEY)) == ["asked", "by the way", "answered"]
    assert store.verify(KEY).is_sound


def leases_of_two_sessions_are_independent(store: SessionStore) -> None:
    """The turn of one session says nothing about another's."""
    store.create(KEY)
    store.create(OTHER)
    token = store.leases.acquire(KEY, "turn", _LONG)
    other = store.leases.acquire(OTHER, "turn", _LONG)
    store.append(KEY, [message("a")], expect=ANY_HEAD, token=token)
    store.append(OTHER, [message("b")], expect=ANY_HEAD, token=other)
    store.leases.release(KEY, token)
    assert store.leases.current(OTHER) is not None


def a_lease_needs_a_session(store: SessionStore) -> None:
    """There is no lease of a session that does not exist."""
    for act in (
        lambda: store.leases.acquire(ABSENT, "turn", _LONG),
        lambda: store.leases.current(ABSENT),
        lambda: store.leases.renew(ABSENT, 1, _LONG),
        lambda: store.leases.release(ABSENT, 1),
        lambda: store.leases.leave_queue(ABSENT, "turn"),
    ):
        with raises(NoSuchSession):
            act()


def a_lease_ends_with_its_session(store: SessionStore) -> None:
    """A session made again under an old name does not know the tokens of the old one."""
    store.create(KEY)
    old = store.leases.acquire(KEY, "turn", _LONG)
    store.remove(KEY)
    store.create(KEY)
    with raises(LeaseLost):
        store.append(KEY, [message("late")], expect=ANY_HEAD, token=old)
    new = store.leases.acquire(KEY, "turn", _LONG)
    assert new != old
    with raises(LeaseLost):
        store.append(KEY, [message("late")], expect=ANY_HEAD, token=old)


def a_lease_goes_to_one_of_many_threads(store: SessionStore) -> None:
    """Of many threads that ask at once, one gets the lease."""
    store.create(KEY)
    ready = threading.Barrier(8)
    given: list[int] = []
    refused: list[str] = []

    def ask(number: int) -> None:
        ready.wait()
        try:
            given.append(store.leases.acquire(KEY, f"turn {number}", _LONG))
        except TurnInProgress as error:
            refused.append(error.holder)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(given) == 1
    assert len(set(refused)) == 1
    assert len(refused) == 7
