"""A store keeps messages in queues: each once, in the order of its lane, until it is done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from holdfast.errors import KeyReused
from holdfast.ports import NewMessage
from holdfast.testing.conformance.samples import raises

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.ports import QueuedMessage, SessionStore

_LONG = 600.0
"""Longer than any check takes."""


def _new(key: str, lane: str = "a", body: Json | None = None, **more: str) -> NewMessage:
    queue, owner = more.get("queue", "inbox"), more.get("owner", "ann")
    return NewMessage(
        queue=queue,
        lane=lane,
        key=key,
        body={"text": key} if body is None else body,
        owner=owner,
        session=more.get("session", "main/s"),
    )


def _keys(messages: list[QueuedMessage]) -> list[str]:
    return [message.key for message in messages]


def a_queued_message_comes_back_as_it_was_put(store: SessionStore) -> None:
    """A message waits with everything that was put, and other objects of the store see it."""
    body = {"text": "h\u00e9llo \u2603 \x00", "n": [1, None, True]}
    before = time.time()
    put = store.queues.put(_new("k1", body=body))
    assert (put.queue, put.lane, put.key, put.owner) == ("inbox", "a", "k1", "ann")
    assert (put.body, put.session, put.state, put.tries) == (body, "main/s", "waiting", 0)
    assert before - 5 <= put.created <= time.time() + 5
    assert put.due <= put.created + 1
    assert store.queues.message(put.id) == put
    assert store.queues.find("inbox", "ann", "k1") == put
    assert store.queues.message(put.id + 1) is None
    assert store.queues.find("inbox", "bob", "k1") is None


def a_key_names_one_message(store: SessionStore) -> None:
    """The same message again is the first one; another message under its key is refused."""
    first = store.queues.put(_new("k1"))
    assert store.queues.put(_new("k1")) == first
    (claimed,) = store.queues.claim("inbox", "w", _LONG)
    assert store.queues.finish(claimed, "answered", result={"record": "r1"})
    again = store.queues.put(_new("k1"))
    assert (again.id, again.state, again.result) == (first.id, "answered", {"record": "r1"})
    for other in (_new("k1", "b"), _new("k1", body={"text": "else"}), _new("k1", session="main/t")):
        with raises(KeyReused):
            store.queues.put(other)
    assert store.queues.put(_new("k1", owner="bob")).id != first.id
    assert store.queues.put(_new("k1", queue="outbox")).id != first.id
    assert store.queues.claim("inbox", "w", _LONG, limit=9)[0].owner == "bob"


def lone_surrogates_do_not_stop_a_queue(store: SessionStore) -> None:
    """Half a character in a body, a key or a lane is replaced, as in a log."""
    message = _new("k\ud800", "l\udc00", {"t\ud800": ["\ud800"]}, session="s\ud800")
    first = store.queues.put(message)
    assert store.queues.put(message) == first
    assert first.body == {"t\ufffd": ["\ufffd"]}
    assert _keys(store.queues.claim("inbox", "w", _LONG)) == ["k\ufffd"]


def a_lane_is_worked_on_in_order(store: SessionStore) -> None:
    """Of a lane the first message is claimed, and the next only when that is done."""
    for key in ("a1", "a2", "b1", "a3", "b2"):
        store.queues.put(_new(key, key[0]))
    first = store.queues.claim("inbox", "w", _LONG, limit=9)
    assert _keys(first) == ["a1", "b1"]
    assert [(message.state, message.tries, message.holder) for message in first] == [
        ("running", 1, "w")
    ] * 2
    assert store.queues.claim("inbox", "v", _LONG, limit=9) == []
    assert store.queues.finish(first[0], "answered")
    (second,) = store.queues.claim("inbox", "v", _LONG, limit=9)
    assert second.key == "a2"
    assert store.queues.finish(first[1], "failed", reason="no model")
    assert _keys(store.queues.claim("inbox", "v", _LONG, limit=9)) == ["b2"]
    assert store.queues.finish(second, "answered")
    assert _keys(store.queues.claim("inbox", "v", _LONG, limit=9)) == ["a3"]


def a_claim_gives_what_came_first(store: SessionStore) -> None:
    """With a limit, the lanes whose first message came first are served; queues are apart."""
    for key in ("c1", "a1", "b1"):
        store.queues.put(_new(key, key[0]))
    store.queues.put(_new("o1", "a", queue="outbox"))
    assert _keys(store.queues.claim("inbox", "w", _LONG, limit=2)) == ["c1", "a1"]
    assert _keys(store.queues.claim("outbox", "w", _LONG)) == ["o1"]
    assert _keys(store.queues.claim("inbox", "w", _LONG)) == ["b1"]


def a_claim_that_ran_out_is_taken_over(store: SessionStore) -> None:
    """The next holder gets the message, and the old one is refused whatever it says."""
    store.queues.put(_new("k1"))
    (old,) = store.queues.claim("inbox", "slow", 0.0)
    (new,) = store.queues.claim("inbox", "next", _LONG)
    assert (new.id, new.tries, new.lost_claims, new.holder) == (old.id, 1, 1, "next")
    assert not store.queues.renew(old, _LONG)
    assert not store.queues.finish(old, "answered")
    assert not store.queues.postpone(old, 0)
    found = store.queues.message(new.id)
    assert found is not None
    assert (found.state, found.holder, found.claims) == ("running", "next", new.claims)
    assert store.queues.renew(new, _LONG)
    assert store.queues.finish(new, "answered")
    assert not store.queues.finish(new, "failed")


def a_claim_is_renewed(store: SessionStore) -> None:
    """A renewed claim lasts; one that ran out can be renewed while nobody took it over."""
    store.queues.put(_new("k1"))
    (held,) = store.queues.claim("inbox", "w", 0.0)
    assert store.queues.renew(held, _LONG)
    assert store.queues.claim("inbox", "v", _LONG) == []


def a_postponed_message_holds_its_lane(store: SessionStore) -> None:
    """It is tried again when it is due; until then its lane waits, with the reason to be read."""
    store.queues.put(_new("a1"))
    store.queues.put(_new("a2"))
    (held,) = store.queues.claim("inbox", "w", _LONG)
    assert store.queues.postpone(held, _LONG, reason="overloaded")
    assert store.queues.claim("inbox", "w", _LONG, limit=9) == []
    found = store.queues.message(held.id)
    assert found is not None
    assert (found.state, found.reason, found.tries) == ("waiting", "overloaded", 1)
    assert found.due > time.time() + _LONG / 2
    assert not store.queues.retry(held.id)
    assert store.queues.drop(held.id, "not needed")
    assert _keys(store.queues.claim("inbox", "w", _LONG, limit=9)) == ["a2"]


def work_that_was_not_begun_is_no_try(store: SessionStore) -> None:
    """A message that is given back counts no try, and its old claim is over all the same."""
    store.queues.put(_new("a1"))
    (old,) = store.queues.claim("inbox", "w", _LONG)
    assert store.queues.postpone(old, 0, is_counted=False)
    (new,) = store.queues.claim("inbox", "v", _LONG)
    assert (old.tries, new.tries, new.lost_claims) == (1, 1, 0)
    assert not store.queues.finish(old, "answered")
    assert store.queues.finish(new, "answered")


def a_claim_without_an_outcome_is_lost(store: SessionStore) -> None:
    """Tries are those that had an outcome; claims that ran out or were released are apart."""
    queues = store.queues
    put = queues.put(_new("a1"))
    tries = lost = 0
    for ending in ("postponed", "ran out", "released", "released", "given back", "ran out") * 2:
        (held,) = queues.claim("inbox", "w", 0.0 if ending == "ran out" else _LONG)
        assert (held.tries, held.lost_claims) == (tries + 1, lost), ending
        if ending == "postponed":
            tries += 1
            assert queues.postpone(held, 0, reason="overloaded")
        elif ending == "given back":
            assert queues.postpone(held, 0, is_counted=False)
        else:
            lost += 1
            assert ending == "ran out" or queues.release_all("inbox") == 1
    (held,) = queues.claim("inbox", "w", _LONG)
    assert (held.tries, held.lost_claims) == (tries + 1, lost) == (3, 8)
    assert queues.finish(held, "failed", reason="no")
    assert queues.retry(put.id)
    (held,) = queues.claim("inbox", "w", _LONG)
    assert (held.tries, held.lost_claims) == (1, 0)


def a_message_that_was_set_aside_can_be_tried_again(store: SessionStore) -> None:
    """Failed and dropped messages wait again, with their tries counted from the start."""
    put = store.queues.put(_new("a1"))
    for state in ("failed", "dropped"):
        (held,) = store.queues.claim("inbox", "w", _LONG)
        assert held.tries == 1
        assert store.queues.finish(held, "failed", reason="no")
        if state == "dropped":
            assert store.queues.drop(put.id, "old")
        found = store.queues.message(put.id)
        assert found is not None
        assert found.state == state
        assert store.queues.retry(put.id)
        assert not store.queues.retry(put.id)
    (held,) = store.queues.claim("inbox", "w", _LONG)
    assert store.queues.drop(put.id, "cancelled while it runs")
    assert not store.queues.renew(held, _LONG)
    assert not store.queues.finish(held, "answered")
    assert store.queues.retry(put.id)
    (held,) = store.queues.claim("inbox", "w", _LONG)
    assert store.queues.finish(held, "answered")
    assert not store.queues.retry(put.id)
    assert not store.queues.drop(put.id, "it is done")
    assert not store.queues.retry(put.id + 1)
    assert not store.queues.drop(put.id + 1, "not there")


def a_process_that_is_alone_releases_every_claim(store: SessionStore) -> None:
    """Claims of a killed process end at once, in this queue only: their messages wait again."""
    store.queues.put(_new("a1"))
    store.queues.put(_new("o1", queue="outbox"))
    (old,) = store.queues.claim("inbox", "killed", _LONG)
    store.queues.claim("outbox", "other", _LONG)
    assert store.queues.release_all("inbox") == 1
    assert store.queues.release_all("inbox") == 0
    assert _keys(store.queues.claim("inbox", "w", _LONG)) == ["a1"]
    assert not store.queues.finish(old, "answered")
    assert store.queues.claim("outbox", "w", _LONG) == []


def messages_are_listed_in_pages(store: SessionStore) -> None:
    """The newest first, by queue, owner, lane and state, with nothing twice or left out."""
    for number in range(5):
        owner = "ann" if number % 2 else "bob"
        store.queues.put(_new(f"k{number}", f"lane{number % 3}", owner=owner))
    store.queues.put(_new("o", queue="outbox"))
    queues = store.queues
    assert _keys(queues.messages("inbox")) == ["k4", "k3", "k2", "k1", "k0"]
    assert _keys(queues.messages()) == ["o", "k4", "k3", "k2", "k1", "k0"]
    page = queues.messages("inbox", limit=2)
    assert _keys(page) == ["k4", "k3"]
    page = queues.messages("inbox", limit=2, before=page[-1].id)
    assert _keys(page) == ["k2", "k1"]
    assert _keys(queues.messages("inbox", owner="ann")) == ["k3", "k1"]
    assert _keys(queues.messages("inbox", owner="")) == []
    assert _keys(queues.messages("inbox", lane="lane0")) == ["k3", "k0"]
    (held,) = queues.claim("inbox", "w", _LONG)
    assert _keys(queues.messages("inbox", states=("running",))) == ["k0"]
    assert queues.finish(held, "answered")
    assert _keys(queues.messages("inbox", states=("answered", "failed"))) == ["k0"]
    assert queues.counts("inbox") == {"waiting": 4, "answered": 1}
    assert queues.counts("inbox", owner="ann") == {"waiting": 2}
    assert queues.counts("inbox", lane="lane0") == {"waiting": 1, "answered": 1}
    assert queues.counts("absent") == {}


def messages_that_are_done_are_forgotten(store: SessionStore) -> None:
    """Messages that are done go after a while; those that wait, run or failed stay."""
    for key in ("a1", "b1", "c1", "d1"):
        store.queues.put(_new(key, key[0]))
    done, failed, _running = store.queues.claim("inbox", "w", _LONG, limit=3)
    assert store.queues.finish(done, "answered")
    assert store.queues.finish(failed, "failed", reason="no")
    assert store.queues.forget(older_than_seconds=_LONG) == 0
    assert store.queues.forget(older_than_seconds=-_LONG) == 1
    assert _keys(store.queues.messages("inbox")) == ["d1", "c1", "b1"]


def an_erasure_takes_messages_along(store: SessionStore) -> None:
    """The messages about a session, or of an owner, are deleted whatever their state."""
    store.queues.put(_new("s1", session="main/s"))
    store.queues.put(_new("t1", "b", session="main/t"))
    store.queues.put(_new("u1", "c", session="", owner="bob"))
    store.queues.claim("inbox", "w", _LONG)
    assert store.queues.erase(session="main/s") == 1
    assert _keys(store.queues.messages("inbox")) == ["u1", "t1"]
    assert store.queues.erase(owner="ann") == 1
    assert store.queues.erase(owner="ann") == 0
    assert store.queues.erase(session="main/absent") == 0
    assert _keys(store.queues.messages("inbox")) == ["u1"]
