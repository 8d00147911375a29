"""A store keeps messages in queues: each once, in the order of its lane, until it is done."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner
from holdfast.core.queues import as_copy, is_equal
from holdfast.errors import KeyReused, TooManyWaiting
from holdfast.ports import NewMessage, WaitingMessages
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
    assert store.queues.find("inbox", NamedOwner("ann"), "k1") == put
    assert store.queues.message(put.id + 1) is None
    assert store.queues.find("inbox", NamedOwner("bob"), "k1") is None


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


def a_new_message_is_judged_by_what_waits(store: SessionStore) -> None:
    """A judge sees what waits before a new message; where it refuses, nothing is stored. A message
    that is known is not judged again."""
    for key, lane, owner in (("k1", "a", "ann"), ("k2", "a", "ann"), ("k3", "b", "ann")):
        store.queues.put(_new(key, lane, owner=owner))
    store.queues.put(_new("k4", "a", owner="bob"))
    store.queues.put(_new("k5", "a", queue="outbox"))
    (running,) = store.queues.claim("inbox", "w", _LONG)
    seen: list[WaitingMessages] = []
    store.queues.put(_new("k6"), seen.append)
    assert seen == [WaitingMessages(in_lane=3, of_owner=2)]
    assert store.queues.finish(running, "answered")
    store.queues.put(_new("k7", "c", owner="bob"), seen.append)
    assert seen[1:] == [WaitingMessages(in_lane=0, of_owner=1)]

    def refuse(_before: WaitingMessages) -> None:
        raise TooManyWaiting("the lane", 3, 1.0)

    before = store.queues.counts("inbox", owner=ANY_OWNER)
    with raises(TooManyWaiting):
        store.queues.put(_new("k8"), refuse)
    assert store.queues.counts("inbox", owner=ANY_OWNER) == before
    assert store.queues.put(_new("k6"), refuse).key == "k6"
    with raises(KeyReused):
        store.queues.put(_new("k6", "b"), refuse)


def ids_do_not_count_the_messages_of_others(store: SessionStore) -> None:
    """An id says when a message came, and nothing of what other owners send meanwhile."""
    for number in range(20):
        put = store.queues.put(_new(f"b{number}", f"lane{number}", owner="bob"))
        assert abs(put.id / 1e6 - put.created) < 1, "the time is in it"
    first, second = store.queues.put(_new("k1")), store.queues.put(_new("k2"))
    assert first.id < second.id
    ids = {message.id for message in store.queues.messages(limit=100, owner=ANY_OWNER)}
    assert len(ids) == 22


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
    """A renewed claim lasts; one that ran out can be renewed while no one took it over."""
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
    assert _keys(queues.messages("inbox", owner=ANY_OWNER)) == ["k4", "k3", "k2", "k1", "k0"]
    assert _keys(queues.messages(owner=ANY_OWNER)) == ["o", "k4", "k3", "k2", "k1", "k0"]
    page = queues.messages("inbox", limit=2, owner=ANY_OWNER)
    assert _keys(page) == ["k4", "k3"]
    page = queues.messages("inbox", limit=2, before=page[-1].id, owner=ANY_OWNER)
    assert _keys(page) == ["k2", "k1"]
    assert _keys(queues.messages("inbox", owner=NamedOwner("ann"))) == ["k3", "k1"]
    assert _keys(queues.messages("inbox", owner=NO_OWNER)) == []
    assert _keys(queues.messages("inbox", lane="lane0", owner=ANY_OWNER)) == ["k3", "k0"]
    (held,) = queues.claim("inbox", "w", _LONG)
    assert _keys(queues.messages("inbox", states=("running",), owner=ANY_OWNER)) == ["k0"]
    assert queues.finish(held, "answered")
    assert _keys(queues.messages("inbox", states=("answered", "failed"), owner=ANY_OWNER)) == ["k0"]
    assert queues.counts("inbox", owner=ANY_OWNER) == {"waiting": 4, "answered": 1}
    assert queues.counts("inbox", owner=NamedOwner("ann")) == {"waiting": 2}
    assert queues.counts("inbox", lane="lane0", owner=ANY_OWNER) == {"waiting": 1, "answered": 1}
    assert queues.counts("absent", owner=ANY_OWNER) == {}


def messages_that_are_done_are_forgotten(store: SessionStore) -> None:
    """Messages that are done go after a while; those that wait, run or failed stay."""
    for key in ("a1", "b1", "c1", "d1"):
        store.queues.put(_new(key, key[0]))
    done, failed, _running = store.queues.claim("inbox", "w", _LONG, limit=3)
    assert store.queues.finish(done, "answered")
    assert store.queues.finish(failed, "failed", reason="no")
    assert store.queues.forget(older_than_seconds=_LONG) == 0
    assert store.queues.forget(older_than_seconds=-_LONG) == 1
    assert _keys(store.queues.messages("inbox", owner=ANY_OWNER)) == ["d1", "c1", "b1"]


def an_erasure_takes_messages_along(store: SessionStore) -> None:
    """The messages about a session, or of an owner, are deleted whatever their state."""
    store.queues.put(_new("s1", session="main/s"))
    store.queues.put(_new("t1", "b", session="main/t"))
    store.queues.put(_new("u1", "c", session="", owner="bob"))
    store.queues.claim("inbox", "w", _LONG)
    assert store.queues.erase("main/s") == 1
    assert _keys(store.queues.messages("inbox", owner=ANY_OWNER)) == ["u1", "t1"]
    assert store.queues.erase(NamedOwner("ann")) == 1
    assert store.queues.erase(NamedOwner("ann")) == 0
    assert store.queues.erase("main/absent") == 0
    assert _keys(store.queues.messages("inbox", owner=ANY_OWNER)) == ["u1"]


def messages_are_copied_with_ids_states_and_keys(store: SessionStore) -> None:
    """Copies are in every state, the oldest first, and come back as they were; once."""
    for number, key in enumerate(["w1", "d1", "f1", "x1", "r1", "w2"]):
        store.queues.put(_new(key, f"lane{number % 5}", {"text": f"{key} \u2603 \x00"}))
    claimed = {each.key: each for each in store.queues.claim("inbox", "w", _LONG, limit=5)}
    assert store.queues.postpone(claimed["w1"], _LONG, reason="busy")
    assert store.queues.finish(claimed["d1"], "answered", result={"record": "r"})
    assert store.queues.finish(claimed["f1"], "failed", reason="no")
    assert store.queues.drop(claimed["x1"].id, "unwanted")
    before = store.queues.copies(owner=ANY_OWNER)
    assert [(each.key, each.state) for each in before] == [
        *(("w1", "waiting"), ("d1", "answered"), ("f1", "failed"), ("x1", "dropped")),
        *(("r1", "running"), ("w2", "waiting")),
    ]
    assert store.queues.copies(after=before[1].id, limit=2, owner=ANY_OWNER) == before[2:4]
    assert store.queues.copies(owner=NamedOwner("bob")) == []
    copies = [as_copy(each) for each in before]
    assert store.queues.erase(NamedOwner("ann")) == 6
    assert store.queues.restore(copies, dry_run=True) == ["added"] * 6
    assert store.queues.copies(owner=ANY_OWNER) == []
    assert store.queues.restore(copies) == ["added"] * 6
    assert store.queues.restore(copies) == ["same"] * 6
    kept = store.queues.copies(owner=ANY_OWNER)
    assert all(map(is_equal, copies, kept))
    assert [each.id for each in kept] == [each.id for each in before]
    # Keys, order and ids go on as they were.
    assert store.queues.put(_new("d1", "lane1", {"text": "d1 \u2603 \x00"})).state == "answered"
    assert store.queues.put(_new("n1", "new")).id > kept[-1].id
    assert _keys(store.queues.claim("inbox", "v", _LONG, limit=9)) == ["r1", "n1"]


def a_claim_that_ran_out_is_copied_as_lost(store: SessionStore) -> None:
    """A message of a process that ended waits in the copy; it is not worked on any more."""
    store.queues.put(_new("k1"))
    store.queues.claim("inbox", "w", -1.0)
    (copy,) = store.queues.copies(owner=ANY_OWNER)
    assert (copy.state, copy.tries, copy.lost_claims) == ("waiting", 0, 1)


def a_copy_replaces_only_an_earlier_state(store: SessionStore) -> None:
    """A message that went on here since, or is another one, is left alone."""
    put = store.queues.put(_new("k1"))
    earlier = store.queues.copies(owner=ANY_OWNER)
    (claimed,) = store.queues.claim("inbox", "w", _LONG)
    assert store.queues.restore(earlier) == ["conflict"]
    assert store.queues.finish(claimed, "answered")
    later = store.queues.copies(owner=ANY_OWNER)
    assert store.queues.restore(earlier) == ["conflict"]
    assert store.queues.erase(NamedOwner("ann")) == 1
    assert store.queues.restore(earlier) == ["added"]
    assert store.queues.restore(later) == ["updated"]
    assert store.queues.counts("inbox", owner=ANY_OWNER) == {"answered": 1}
    others = [
        msgspec.structs.replace(earlier[0], key="k2"),  # another one has its id
        msgspec.structs.replace(earlier[0], id=put.id + 9),  # another one has its key
        msgspec.structs.replace(later[0], body={"text": "else"}),
        msgspec.structs.replace(later[0], lane="b"),
    ]
    assert store.queues.restore(others) == ["conflict"] * 4
    assert list(map(is_equal, later, store.queues.copies(owner=ANY_OWNER))) == [True]


def a_copy_does_not_overtake_its_lane(store: SessionStore) -> None:
    """Before a message that is worked on, none appears in its lane; elsewhere it may."""
    for key, lane in (("a1", "a"), ("b1", "b"), ("a2", "a")):
        store.queues.put(_new(key, lane))
    first, beside, _last = store.queues.copies(owner=ANY_OWNER)
    assert store.queues.erase(NamedOwner("ann")) == 3
    store.queues.put(_new("a3"))
    (running,) = store.queues.claim("inbox", "w", _LONG)
    assert store.queues.restore([first, beside]) == ["conflict", "added"]
    assert store.queues.finish(running, "answered")
    assert store.queues.restore([first]) == ["added"]
    assert _keys(store.queues.claim("inbox", "w", _LONG, limit=9)) == ["a1", "b1"]
