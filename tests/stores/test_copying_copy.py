"""A copy has everything that its source has, for every pair of stores, however often it is run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import pytest
from tests.stores.stores_to_copy import (
    BARE,
    DAMAGED,
    KINDS,
    OWNED,
    PLAIN,
    fill,
    opener,
    state_of,
    view_of,
)

from holdfast import Assistant, SessionKey, User
from holdfast.core.owners import ANY_OWNER, NamedOwner, owner_of
from holdfast.core.queues import is_equal
from holdfast.errors import StoreError, StoreUnavailable, UsageError
from holdfast.ports import NewMessage
from holdfast.stores import ANY_HEAD, MemoryStore, copy_store, open_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.queues import MessageCopy
    from holdfast.ports import CopyReport, QueuedMessage

PAIRS = [(source, target) for source in KINDS for target in KINDS]


def states(report: CopyReport) -> dict[str, str]:
    return {str(session.key): session.state for session in report.sessions}


@pytest.mark.sampled(1 / 3, "other")
@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_a_copy_is_its_source(kind: str, other: str, tmp_path: Path, postgres_address: str) -> None:
    """Everything that can be seen of the target is what the source shows, down to each byte."""
    with (
        opener(kind, tmp_path, postgres_address)() as source,
        opener(other, tmp_path, postgres_address)() as target,
    ):
        fill(source)
        before = state_of(source)
        planned = copy_store(source, target, dry_run=True)
        assert (*target.keys(), *target.blobs) == ()
        report = copy_store(source, target)
        assert report.is_complete
        assert {*states(report).values()} == {"copied"}
        assert states(planned) == states(report)
        assert [session.payloads for session in planned.sessions] == [
            session.payloads for session in report.sessions
        ]
        assert state_of(target) == state_of(source) == before
        assert (report.trashed, target.trash()) == (1, [])
        assert report.accesses == planned.accesses == 5
        again = copy_store(source, target)
        assert {*states(again).values()} == {*(notes.state for notes in again.notes)} == {"same"}
        assert sum(session.added for session in again.sessions) == again.accesses == 0
        assert state_of(target) == before
        # Both go on from there in the same way.
        for store in (source, target):
            store.append(
                DAMAGED,
                [User(id="z1", ts=9.0, content="a"), User(id="z2", ts=9.0, content="b")],
                expect=ANY_HEAD,
            )
        assert view_of(target, DAMAGED)["path"] == view_of(source, DAMAGED)["path"]


@pytest.mark.sampled(1 / 3, "other")
@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_what_has_grown_is_brought_up_to_date(
    kind: str, other: str, tmp_path: Path, postgres_address: str
) -> None:
    """Records, notes and accesses that came since the last copy follow; nothing else is written."""
    with (
        opener(kind, tmp_path, postgres_address)() as source,
        opener(other, tmp_path, postgres_address)() as target,
    ):
        fill(source)
        copy_store(source, target)
        source.append(PLAIN, [User(content=f"new {n}") for n in range(3)], expect=ANY_HEAD)
        source.append(BARE, [User(content="the first")], expect=ANY_HEAD)
        source.create(SessionKey("main", "later"))
        source.notes("main").append(["A second note."], once="flush 2")
        source.audit.note(source.audit.entries().accesses[0])
        report = copy_store(source, target)
        assert report.is_complete
        assert {name: state for name, state in states(report).items() if state != "same"} == {
            str(PLAIN): "updated",
            str(BARE): "updated",
            "main/later": "copied",
        }
        assert report.accesses == 1
        assert state_of(target) == state_of(source)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_changed_at_the_target_stays(
    kind: str, tmp_path: Path, postgres_address: str
) -> None:
    """A session or a file that somebody wrote to there is a conflict; the others are copied."""
    with MemoryStore() as source, opener(kind, tmp_path, postgres_address)() as target:
        fill(source)
        copy_store(source, target)
        target.append(PLAIN, [User(content="at the target")], expect=ANY_HEAD)
        source.append(OWNED, [User(content="at the source")], expect=ANY_HEAD)
        target.append(OWNED, [User(content="at the target")], expect=ANY_HEAD)
        source.append(DAMAGED, [User(content="more")], expect=ANY_HEAD)
        notes = target.notes("main")
        notes.put("folder/MEMORY.md", notes.data("folder/MEMORY.md"), b"# Theirs\n")
        before = [view_of(target, key) for key in (PLAIN, OWNED)]
        report = copy_store(source, target)
        assert not report.is_complete
        assert states(report)[str(PLAIN)] == states(report)[str(OWNED)] == "conflict"
        assert states(report)[str(DAMAGED)] == "updated"
        assert [view_of(target, key) for key in (PLAIN, OWNED)] == before
        assert notes.data("folder/MEMORY.md") == b"# Theirs\n"
        (found,) = [each for each in report.notes if not each.is_done]
        assert (found.state, found.scope) == ("conflict", notes.scope)
        position = len(b"".join(source.export(PLAIN)))
        (conflict,) = [each for each in report.sessions if each.key == PLAIN]
        assert f"`@{position}`" in conflict.detail


def test_one_owner_can_be_copied_alone(tmp_path: Path) -> None:
    """Only the owner's sessions and notes, and the payloads that these name."""
    with MemoryStore() as source, open_store(tmp_path / "target") as target:
        fill(source)
        report = copy_store(source, target, owner=NamedOwner("ann"))
        assert sorted(target.keys()) == sorted([DAMAGED, OWNED])
        assert [notes.scope for notes in report.notes] == [
            source.notes("helper", NamedOwner("ann")).scope
        ]
        assert (*target.blobs, *target.audit.entries().accesses) == ()
        copy_store(source, target, agent="main")
        assert set(target.agents()) == {"main", "helper"}
        assert [note.text for note in target.notes("helper").notes()] == []


@pytest.mark.sampled(1 / 3, "other")
@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_notes_of_every_owner_are_copied(
    kind: str, other: str, tmp_path: Path, postgres_address: str
) -> None:
    """A store knows whose notes it has, also of owners without a session and with odd names."""
    owners = ["eve", "Eve", "a/b", "漢", "x" * 300, " "]
    with (
        opener(kind, tmp_path, postgres_address)() as source,
        opener(other, tmp_path, postgres_address)() as target,
    ):
        for owner in owners:
            source.notes("main", owner_of(owner)).append([f"Of {owner!r}"])
            source.notes("main", owner_of(owner)).put("list.md", None, b"a\n")
        assert copy_store(source, target).is_complete
        assert set(target.note_scopes("main").values()) == set(map(owner_of, owners))
        for owner in owners:
            there = target.notes("main", owner_of(owner))
            assert list(there.notes()) == list(source.notes("main", owner_of(owner)).notes())
            assert len(there.files()) == 2


@pytest.mark.parametrize(
    "damage", ["missing", "empty", "of another", "no name", "not text", "a link", "folder"]
)
def test_notes_of_an_unknown_owner_are_reported(damage: str, tmp_path: Path) -> None:
    """A folder from before names were kept, or with a damaged one, gives notes to nobody else: who
    names the owner gets them copied, and the next note of the owner mends it."""
    with open_store(tmp_path / "source") as source, MemoryStore() as target:
        notes = source.notes("main", NamedOwner("eve"))
        notes.append(["Nobody knows me."])
        file = Path(notes.location, ".owner")
        content = {"of another": b'{"owner": "ann"}', "no name": b'{"owner": 7}'}
        file.unlink()
        match damage:
            case "missing":
                pass
            case "a link":
                Path(tmp_path, "elsewhere").write_bytes(b'{"owner": "eve"}')
                file.symlink_to(tmp_path / "elsewhere")
            case "folder":
                file.mkdir()
            case _:
                file.write_bytes(content.get(damage, b"\xff" if damage == "not text" else b""))
        report = copy_store(source, target)
        assert [notes.state for notes in report.notes] == ["failed"]
        assert not report.is_complete
        assert copy_store(source, target, owner=NamedOwner("eve")).is_complete
        assert [note.text for note in target.notes("main", NamedOwner("eve")).notes()] == [
            "Nobody knows me."
        ]
        if damage == "folder":
            file.rmdir()
        notes.append(["Now they do."])
        assert copy_store(source, target).is_complete
        assert (
            target.note_scopes("main")
            == source.note_scopes("main")
            == {notes.scope: NamedOwner("eve")}
        )


def test_a_folder_that_only_has_a_name_has_no_notes(tmp_path: Path) -> None:
    """The owner's name goes with the notes when these are erased, and alone it is none."""
    with open_store(tmp_path / "source") as source:
        notes = source.notes("main", NamedOwner("eve"))
        notes.put("a.md", None, b"mine\n")
        notes.discard("a.md")
        assert source.note_scopes("main") == {}
        notes.erase(None)
        assert not Path(notes.location).exists()
        (tmp_path / "source/agents/main/memory/owners/README").write_text("of a person")
        assert source.note_scopes("main") == {}


def test_a_session_in_use_is_copied_and_reported(tmp_path: Path) -> None:
    """At the source a turn may run: the copy says so. At the target it is a conflict."""
    with open_store(tmp_path / "source") as source, MemoryStore() as target:
        fill(source)
        token = source.leases.acquire(PLAIN, "a turn of mine", 60)
        report = copy_store(source, target)
        (plain,) = [each for each in report.sessions if each.key == PLAIN]
        assert (plain.state, plain.turn, plain.is_done) == ("copied", "a turn of mine", False)
        assert not report.is_complete
        source.append(PLAIN, [User(content="the answer")], expect=ANY_HEAD, token=token)
        source.leases.release(PLAIN, token)
        there = target.leases.acquire(PLAIN, "theirs", 60)
        (plain,) = [each for each in copy_store(source, target).sessions if each.key == PLAIN]
        assert plain.state == "conflict"
        assert "theirs" in plain.detail
        target.leases.release(PLAIN, there)
        assert copy_store(source, target).is_complete
        assert view_of(target, PLAIN) == view_of(source, PLAIN)


@pytest.mark.sampled(1 / 3, "other")
@pytest.mark.parametrize(("kind", "other"), PAIRS)
def test_messages_move_with_their_states_and_order(
    kind: str, other: str, tmp_path: Path, postgres_address: str
) -> None:
    """The target goes on where the source was: same ids, keys known, each lane in its order."""
    with (
        opener(kind, tmp_path, postgres_address)() as source,
        opener(other, tmp_path, postgres_address)() as target,
    ):
        for number in range(120):
            lane = f"{number % 3}"
            source.queues.put(
                NewMessage(queue="inbox", lane=lane, key=f"{number}", body={"n": number})
            )
        for held in source.queues.claim("inbox", "w", 600, limit=3):
            source.queues.finish(held, "answered", result={"record": held.key})
        planned = copy_store(source, target, dry_run=True).messages
        assert (planned.messages, planned.added, target.queues.copies(owner=ANY_OWNER)) == (
            120,
            120,
            [],
        )
        report = copy_store(source, target)
        assert (report.messages.added, report.is_complete) == (120, True)
        before, after = (
            store.queues.messages(limit=500, owner=ANY_OWNER) for store in (source, target)
        )
        assert list(map(is_equal, before, after)) == [True] * 120
        assert [each.id for each in after] == [each.id for each in before]
        again = copy_store(source, target).messages
        assert (again.added, again.updated, again.is_done) == (0, 0, True)
        known = NewMessage(queue="inbox", lane="0", key="0", body={"n": 0})
        assert target.queues.put(known).result == {"record": "0"}, "it is not answered twice"
        new = target.queues.put(NewMessage(queue="outbox", lane="0", key="new", body={}))
        assert new.id > after[0].id, "ids go on behind those of the source"
        order: dict[str, list[int]] = {}
        while claimed := target.queues.claim("inbox", "w", 600, limit=9):
            for held in claimed:
                order.setdefault(held.lane, []).append(int(held.key))
                target.queues.finish(held, "answered")
        assert order == {f"{lane}": [*range(lane + 3, 120, 3)] for lane in range(3)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_message_that_is_worked_on_waits_at_the_target(
    kind: str, tmp_path: Path, postgres_address: str
) -> None:
    """The copy is not complete before the source has dealt with it, and then takes that over."""
    with MemoryStore() as source, opener(kind, tmp_path, postgres_address)() as target:
        for number, owner in enumerate(["ann", "ann", "bob"]):
            body = {"text": "hi"}
            source.queues.put(
                NewMessage(queue="inbox", lane=f"{number}", key=f"{number}", body=body, owner=owner)
            )
        (held,) = source.queues.claim("inbox", "a worker", 600)
        report = copy_store(source, target)
        assert (report.messages.added, report.messages.running) == (3, 1)
        assert not report.is_complete
        found = target.queues.message(held.id)
        assert found is not None
        assert (found.state, found.tries, found.lost_claims) == ("waiting", 0, 1)
        source.queues.finish(held, "answered", result={"record": "r"})
        report = copy_store(source, target)
        assert (report.messages.updated, report.is_complete) == (1, True)
        assert target.queues.counts("inbox", owner=ANY_OWNER) == {"waiting": 2, "answered": 1}


def test_messages_of_one_owner_or_agent_are_copied_alone(tmp_path: Path) -> None:
    with MemoryStore() as source, open_store(tmp_path / "target") as target:
        fill(source)
        assert copy_store(source, target, owner=NamedOwner("bob")).messages.added == 5
        assert {each.owner for each in target.queues.messages(owner=ANY_OWNER)} == {"bob"}
        assert copy_store(source, target, agent=OWNED.agent).messages.added == 5
        assert copy_store(source, target).messages.added == 0


def test_an_interrupted_copy_of_messages_goes_on(tmp_path: Path) -> None:
    """Whatever page it ended with, the next one adds the others; nothing is there twice."""
    with MemoryStore() as source, open_store(tmp_path / "target") as target:
        for number in range(130):
            source.queues.put(NewMessage(queue="inbox", lane="a", key=f"{number}", body={}))
        restore, calls = target.queues.restore, 0

        def fail(messages: Sequence[QueuedMessage], *, dry_run: bool = False) -> list[MessageCopy]:
            nonlocal calls
            calls += 1
            if calls > 1:
                raise StoreUnavailable("the disk is gone")
            return restore(messages, dry_run=dry_run)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(target.queues, "restore", fail)
            with pytest.raises(StoreUnavailable):
                copy_store(source, target)
        assert 0 < len(target.queues.copies(limit=500, owner=ANY_OWNER)) < 130
        report = copy_store(source, target)
        assert report.is_complete
        assert report.messages.added == 130 - 50
        keys = [each.key for each in target.queues.copies(limit=500, owner=ANY_OWNER)]
        assert keys == [f"{number}" for number in range(130)]


def test_messages_that_went_on_at_the_target_are_conflicts(tmp_path: Path) -> None:
    """They are named and left alone; the others are copied."""
    with MemoryStore() as source, open_store(tmp_path / "target") as target:
        put = [
            source.queues.put(NewMessage(queue="inbox", lane=f"{number}", key=f"{number}", body={}))
            for number in range(3)
        ]
        taken = put[0].id
        target.queues.restore([msgspec.structs.replace(put[0], lane="z", key="theirs")])
        report = copy_store(source, target)
        assert (report.messages.conflicts, report.messages.added) == ((taken,), 2)
        assert not report.is_complete
        found = target.queues.message(taken)
        assert found is not None
        assert found.key == "theirs"


def test_a_copy_that_is_not_what_was_written_is_an_error() -> None:
    with MemoryStore() as source, MemoryStore() as target:
        source.queues.put(NewMessage(queue="inbox", lane="a", key="k", body={"text": "hi"}))
        restore = target.queues.restore

        def spoil(messages: Sequence[QueuedMessage], *, dry_run: bool = False) -> list[MessageCopy]:
            changed = [msgspec.structs.replace(each, body={"text": "ho"}) for each in messages]
            return restore(changed, dry_run=dry_run)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(target.queues, "restore", spoil)
            with pytest.raises(StoreError, match=r"message \d+ is not what was written"):
                copy_store(source, target)


def test_a_store_is_not_copied_into_itself(tmp_path: Path) -> None:
    """However it is spelled."""
    with open_store(tmp_path / "store") as store, open_store(tmp_path / "store") as same:
        for target in (store, same):
            with pytest.raises(UsageError, match="into itself"):
                copy_store(store, target)


def test_a_damaged_payload_does_not_stop_the_others(tmp_path: Path) -> None:
    """It is reported with its session, and the records are copied."""
    with open_store(tmp_path / "source") as source, MemoryStore() as target:
        fill(source)
        (path,) = (tmp_path / "source" / "blobs").rglob("*.zst")
        path.write_bytes(b"spoilt")
        said = '{"sha256":"%s"}' % ("ab" * 32)
        call = {"type": "tool_use", "id": "c", "name": "sum", "input": {"sha256": "cd" * 32}}
        source.append(PLAIN, [User(content=said), Assistant(content=[call])], expect=ANY_HEAD)
        report = copy_store(source, target)
        (plain,) = [each for each in report.sessions if each.key == PLAIN]
        assert plain.state == "copied"
        assert plain.detail.endswith(f": {path.stem[:12]}"), "64 digits are not always a payload"
        assert not list(target.blobs)
        assert b"".join(target.export(PLAIN)) == b"".join(source.export(PLAIN))


def test_payloads_that_both_stores_share_stay_where_they_are(tmp_path: Path) -> None:
    """With one place for payloads, none is copied and none is lost."""
    shared = tmp_path / "payloads"
    with (
        open_store(tmp_path / "source", blobs=shared) as source,
        open_store(tmp_path / "target", blobs=shared) as target,
    ):
        fill(source)
        report = copy_store(source, target)
        assert report.is_complete
        assert sum(session.payloads for session in report.sessions) == 0
    with open_store(tmp_path / "source", blobs=shared) as source, MemoryStore() as target:
        copied = copy_store(source, target)
        assert sum(session.payloads for session in copied.sessions) == 1
        assert len(list(target.blobs)) == 1
