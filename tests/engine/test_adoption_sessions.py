"""Transcripts become sessions once, and grow with their source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.importers.same_conversation import CONVERSATIONS
from tests.importers.samples import SAMPLES
from tests.shared_data import need_data
from tests.support.cases import check_all
from tests.support.runs import RUN

from holdfast import Session, SessionKey, User
from holdfast.core.adoption import is_same
from holdfast.core.log.records import Header, Rewind
from holdfast.core.owners import NamedOwner
from holdfast.engine.adoption import SessionAdopter, is_in_use
from holdfast.errors import UsageError
from holdfast.importers import read_transcript
from holdfast.importers.common.base import Source
from holdfast.importers.places import load
from holdfast.stores import ANY_HEAD, MemoryStore
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from holdfast.core.log.records import Record
    from holdfast.importers.common.base import Imported

KEY = SessionKey("main", "s")
ORIGIN = {"file": "talk.jsonl", "format": "any", "sha256": "0"}


def path(store: MemoryStore, key: SessionKey) -> list[Record]:
    """Return the records of a session as its source had them."""
    return [each for each in store.read(key) if not isinstance(each, Header | Rewind)]


def same(found: list[Record], wanted: list[Record]) -> bool:
    return len(found) == len(wanted) and all(map(is_same, found, wanted))


def sessions_in(data: bytes, name: str, kind: str) -> list[Imported]:
    try:
        return [each for each in read_transcript(data, name, format=kind) if each.records]
    except UsageError:
        return []


def adopt_beginnings(data: bytes, name: str, kind: str, cuts: list[int]) -> None:
    """Adopt beginnings of a file one after the other: at the end, the whole is there, once."""
    store = MemoryStore()
    for end in (*cuts, len(data)):
        for found in sessions_in(data[:end], name, kind):
            key = SessionKey("main", found.name)
            done = SessionAdopter(store).adopt(key, found.records, ORIGIN, label=found.label)
            again = SessionAdopter(store).adopt(key, found.records, ORIGIN, label=found.label)
            there = [each for each in path(store, done.key) if each.kind != "label"]
            wanted = [each for each in found.records if each.kind != "label"]
            assert again.state == "same", (kind, end, done.state)
            assert again.key == done.key
            assert len(there) == len(wanted), (kind, end, done.state)
            unlike = [
                (one_here, one_there)
                for one_here, one_there in zip(there, wanted, strict=True)
                if one_here.kind != "compaction" and not is_same(one_here, one_there)
            ]
            assert not unlike, (kind, end, done.state)
            assert not store.verify(done.key).findings


def line_ends(data: bytes) -> list[int]:
    return [place + 1 for place, byte in enumerate(data) if byte == 0x0A]


def test_every_format_grows_line_by_line() -> None:
    """Whatever a file had when it was adopted: later, the session has what the file has."""
    every = {**{kind: (kind, *each) for kind, each in SAMPLES.items()}}
    every |= {name: (kind, "s.jsonl", data) for name, (kind, data) in CONVERSATIONS.items()}

    def check(name: str) -> None:
        kind, file, data = every[name]
        adopt_beginnings(data, file, kind, line_ends(data))

    check_all(every, check)


def test_real_transcripts_grow() -> None:
    """Claude Code, Codex, pi and OpenClaw, cut at a few lines each."""
    data_folder = need_data() / "agents"
    count = {"quick": 2, "test": 4}.get(RUN, 200)
    for kind, pattern in (
        ("claude-code", "claude-code/*/*.jsonl.gz"),
        ("codex", "format-samples/codex*.jsonl"),
        ("pi", "pi/**/*.jsonl*"),
        ("openclaw", "format-samples/openclaw/*.jsonl*"),
    ):
        found = sorted(data_folder.glob(pattern), key=lambda file: file.stat().st_size)
        assert found, pattern
        for file in found[:count]:
            data = Source(load(str(file)), file.name).data
            ends = line_ends(data)
            adopt_beginnings(data, file.name, kind, ends[:: max(1, len(ends) // 5)])


def test_a_session_that_went_on_here_keeps_what_it_has() -> None:
    """The source's continuation becomes a fork; the next adoption continues that fork."""
    store = MemoryStore()
    talk: list[Any] = [User(content=str(number), ts=float(number + 1)) for number in range(6)]
    adopter = SessionAdopter(store)
    adopter.adopt(KEY, talk[:2], ORIGIN)
    store.append(KEY, [User(content="mine")], expect=ANY_HEAD)

    forked = adopter.adopt(KEY, talk[:4], ORIGIN)
    more = SessionAdopter(store).adopt(KEY, talk, ORIGIN)

    assert (forked.state, forked.shared, forked.beside) == ("forked", 2, KEY)
    assert (more.state, more.key, more.added) == ("grown", forked.key, 2)
    assert [each.content for each in path(store, KEY) if isinstance(each, User)] == [
        *("0", "1", "mine")
    ]
    assert same(path(store, forked.key), talk)
    assert store.header(forked.key).parent_session == str(KEY)
    assert len(list(store.keys())) == 2


def test_a_source_that_was_rewritten_becomes_a_fork() -> None:
    """Nothing that was adopted is lost."""
    store = MemoryStore()
    talk: list[Any] = [User(content=str(number), ts=float(number + 1)) for number in range(4)]
    other = [*talk[:2], User(content="another", ts=9.0)]
    adopter = SessionAdopter(store)
    adopter.adopt(KEY, talk, ORIGIN)
    forked = adopter.adopt(KEY, other, ORIGIN)
    assert (forked.state, forked.shared, forked.added) == ("forked", 2, 1)
    assert same(path(store, KEY), talk)
    assert same(path(store, forked.key), other)
    assert adopter.adopt(KEY, talk, ORIGIN).state == "same"
    assert adopter.adopt(KEY, other, ORIGIN).state == "same"
    nothing_shared = [User(content="anew", ts=1.5)]
    renamed = adopter.adopt(KEY, nothing_shared, ORIGIN)
    assert (renamed.state, renamed.key.session) == ("renamed", "s-adopted")
    refused = SessionAdopter(store, may_fork=False).adopt(KEY, [User(content="x")], ORIGIN)
    assert refused.state == "refused"


def test_a_dry_run_writes_nothing_and_says_the_same() -> None:
    """Each outcome of a dry run is that of the run."""
    talk: list[Any] = [User(content=str(number), ts=float(number + 1)) for number in range(4)]
    other = [talk[0], User(content="another", ts=9.0)]
    store = MemoryStore()
    for records in (talk[:2], talk[:2], talk, other):
        before = {key: store.head(key) for key in set(store.keys())}
        said = SessionAdopter(store, is_dry_run=True).adopt(KEY, records, ORIGIN)
        assert {key: store.head(key) for key in set(store.keys())} == before
        assert SessionAdopter(store).adopt(KEY, records, ORIGIN) == said


def test_sessions_of_other_owners_are_left_alone() -> None:
    """The id is taken, so another one is used."""
    store = MemoryStore()
    talk: list[Any] = [User(content="a", ts=1.0)]
    SessionAdopter(store, owner=NamedOwner("ann")).adopt(KEY, talk, ORIGIN)
    done = SessionAdopter(store, owner=NamedOwner("bob")).adopt(KEY, talk, ORIGIN)
    assert (done.state, store.header(done.key).owner) == ("renamed", "bob")
    again = SessionAdopter(store, owner=NamedOwner("bob")).adopt(KEY, talk, ORIGIN)
    assert (again.state, again.key) == ("same", done.key)


@pytest.mark.parametrize("late", ["", "a name"])
def test_times_are_those_of_the_source(late: str) -> None:
    """Also after a name that came later, and after a step that was completed."""
    store = MemoryStore()
    talk: list[Any] = [User(content="a", ts=1000.0)]
    SessionAdopter(store).adopt(KEY, talk, ORIGIN)
    SessionAdopter(store).adopt(KEY, [*talk, User(content="b", ts=2000.0)], ORIGIN, label=late)
    info = store.info(KEY)
    assert (info.created, info.last_active, info.label) == (1000.0, 2000.0, late)
    assert not is_in_use(store.back(KEY))


def test_a_turn_makes_it_a_session_in_use() -> None:
    """An adopted session is one to go on with; until then no plain `chat` opens it."""
    store = MemoryStore()
    SessionAdopter(store).adopt(KEY, [User(content="a", ts=1000.0)], ORIGIN)
    assert not is_in_use(store.back(KEY))
    Session(store, KEY, ScriptedModel(["yes"])).say("go on")
    assert is_in_use(store.back(KEY))
    assert is_in_use(iter(()))
    marked = msgspec.structs.replace(User(content="x"), extra={"imported": ORIGIN})
    assert not is_in_use([marked])
