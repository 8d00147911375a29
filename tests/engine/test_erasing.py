"""Gone means gone: after an erasure no file of the store has a word of the session."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.stores.jsonl.test_index import QuickDisk
from tests.stores.test_sqlite_files_shredding import bytes_written
from tests.support.databases import read_index
from tests.support.runs import is_whole

from holdfast import (
    OPERATOR,
    Assistant,
    Caller,
    History,
    JsonlStore,
    Memory,
    Session,
    SessionKey,
    ToolResult,
    User,
    erase,
    reseed,
)
from holdfast.core.log.records import Flush, Label, OutputRef
from holdfast.core.owners import ANY_OWNER, NO_OWNER, NamedOwner, OwnerFilter, owner_of
from holdfast.engine.erasing import erase_owner
from holdfast.engine.memory.notes import refresh
from holdfast.errors import NoSuchSession, TurnInProgress, UsageError
from holdfast.ports import NewMessage
from holdfast.stores import ANY_HEAD, MemoryStore
from holdfast.stores.payloads import load_zstd
from holdfast.stores.search.sqlite import FILE_NAME
from holdfast.stores.sqlite_files import SqliteCache
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.databases import Contents

    from holdfast import Record
    from holdfast.ports import SessionInfo, SessionStore

zstd = load_zstd()

KEY = SessionKey("main", "qidsession")
FORK = SessionKey("main", "branch")
OTHER = SessionKey("main", "other")
OWNER = "qowner"
WORDS = (
    *("quser", "qreply", "qoutput", "qlabel", "qrelabel", "qnote", "qdiscard", "qbookmark"),
    *("qcheckpoint", "qtrashed", "qquarantine", "qleftover", "qtool", "qid", "qmodel"),
)
"""The beginning of the words that a session leaves somewhere; each place has its own."""
COPIES = "it copies a folder with files of every kind, and looks at each"


def files_with(root: Path, words: tuple[str, ...]) -> dict[str, set[str]]:
    """Return the words found in each file below the root, by name and content, also unpacked."""
    found: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*")):
        texts = [path.name.encode()]
        if path.is_file():
            data = path.read_bytes()
            texts.append(data)
            if path.suffix == ".zst":
                texts.append(zstd.decompress(data))
            if path.name == FILE_NAME:
                texts.append(read_index(path))
        text = b"\n".join(texts).lower()
        held = {word for word in words if word.encode() in text}
        if held:
            found[str(path.relative_to(root))] = held
    return found


def live_everywhere(root: Path) -> None:
    """Write a session whose words are in every place where a session can put them."""
    with JsonlStore(root) as store:
        live_in(store, str(root))
        log = root / "agents" / "main" / "sessions" / f"{KEY.session}.jsonl"
        log.write_bytes(log.read_bytes() + b'{"qquarantine": damaged}\n')
        store.repair(KEY)
        log.with_name(f".{log.name}.123-456.tmp").write_bytes(b"qleftover")
    (root / "index.sqlite3.corrupt").write_bytes(b"quser of an index that was set aside")


def live_in(store: SessionStore, root: str) -> None:
    """Write a session whose words are in every place that every store has."""

    def qtool() -> str:
        """Return a lot."""
        return "qoutput " + "line of output\n" * 20_000

    store.create(KEY, label="qtrashed as a label", owner=owner_of(OWNER))
    store.append(KEY, [User(content="qtrashed words")], expect=ANY_HEAD)
    store.remove(KEY)
    store.create(OTHER, owner=owner_of(OWNER))
    store.append(OTHER, [User(content="other words stay")], expect=ANY_HEAD)
    store.notes("main", owner_of(OWNER)).append("a note of the other", session=str(OTHER))
    store.notes("main", owner_of(OWNER)).append("qhand written by a person")
    store.blobs.put(b"a payload of nobody")

    store.create(KEY, label="qlabel of the session", owner=owner_of(OWNER))
    script = ScriptedModel([calls(("c1", "qtool", {})), "qreply is what it said"])
    with Session.open(
        KEY.session, model=script, store=store, tools=[qtool], owner=OWNER
    ) as session:
        session.say("quser said that; always use qnote when noting")
        session.rename("qrelabel")
        session.checkpoint(current_objective="qcheckpoint")
    refresh(store, KEY)
    flush = Flush(notes=["qnote is worth keeping", "qdiscard was thrown away"], trigger="asked")
    records: list[Record] = [
        flush,
        Label(label="qbookmark", target=store.head(KEY)),
        Assistant(content="more", model="qmodel-1", provider="qmodel"),
        ToolResult(tool_use_id="c", content="short"),
    ]
    store.append(KEY, records, expect=ANY_HEAD)
    with Session.open(KEY.session, model=ScriptedModel([]), store=store, owner=OWNER) as session:
        assert session.key == KEY  # its notes go into files now
    notes = store.notes("main", owner_of(OWNER))
    notes.append(["qdiscard in a file of its own"], session=str(KEY))
    notes.put("thrown.md", None, f"- qdiscard <!-- hf: 2026 {KEY} -->\n".encode())
    notes.discard("thrown.md")

    with Memory.open(root, owner=OWNER) as memory:
        assert memory.search("quser", scope="all")
        assert memory.search("qnote", scope="all")
    store.leases.release(KEY, store.leases.acquire(KEY, "a turn", 60.0))
    store.fork(KEY, FORK, at=None)
    caller = Caller("main", OTHER.session, owner=owner_of(OWNER), visibility="agent")
    history = History(store, caller=caller)
    for name in (KEY.session, str(KEY), "qrelabel", "qlabel of the session"):
        history.text(session=name, query="quser")
    History(store, caller=Caller("main", KEY.session, owner=owner_of(OWNER))).text(
        session=OTHER.session
    )
    reseed(store, KEY, identity=OPERATOR)
    store.sessions(owner=ANY_OWNER)


@cache
def template(folder: Path) -> Path:
    root = folder / "root"
    live_everywhere(root)
    return root


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return template(tmp_path_factory.mktemp("lived"))


@pytest.fixture
def root(lived: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(lived, tmp_path / "root"))


def everything(root: Path) -> dict[str, bytes]:
    """Return the files of the other sessions, and payloads."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file() and path.name.partition(".")[0] in (OTHER.session, FORK.session)
    }


@pytest.mark.files_only(COPIES)
def test_words_are_in_every_place_before(root: Path) -> None:
    """The test would notice a word that stays: each place holds one before."""
    found = files_with(root, WORDS)
    assert set().union(*found.values()) == set(WORDS)
    places = {Path(name).name.partition(".")[2] or name for name in found}
    assert {"jsonl", "summary.json", "writer", "lease", "quarantine", "sqlite3"} <= places
    assert {"sqlite3.corrupt", "md"} <= places
    assert any(name.startswith("trash/") for name in found)
    assert any(name.endswith(".zst") for name in found)
    assert "audit.jsonl" in found
    assert any("/.trash/" in name for name in found)


@pytest.mark.files_only(COPIES)
def test_an_erased_session_leaves_no_word(root: Path) -> None:
    """Every byte of every file: only the fork, which is reported, has the same words."""
    before = everything(root)
    with JsonlStore(root) as store:
        report = erase(store, KEY, owner=ANY_OWNER)
        found = files_with(root, WORDS)
        fork = {f"agents/main/sessions/{FORK.session}.jsonl"}
        payloads = {name for name in found if name.startswith("blobs/")}
        assert found.keys() - payloads == fork | {"index.sqlite3"} & found.keys()
        assert everything(root) == before
        assert report.sessions[-1].key == KEY
        assert {copy.where for copy in report.remaining if copy.kind == "fork"} == {str(FORK)}
        assert {copy.where for copy in report.remaining if copy.kind == "reader"} == {str(OTHER)}
        assert any(copy.kind == "notes" for copy in report.remaining)

        erase(store, FORK, owner=ANY_OWNER)
        assert files_with(root, WORDS) == {}
        assert [note.text for note in store.notes("main", owner_of(OWNER)).notes()] == [
            *("a note of the other", "qhand written by a person")
        ]
        assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [OTHER]
        assert not store.verify(OTHER).findings
        [*_old, last] = store.audit.entries().accesses
        assert (last.action, last.target[:7]) == ("erase", "erased:")


def test_an_erased_session_leaves_no_word_in_any_store(tmp_path: Path, contents: Contents) -> None:
    """In files and tables alike: every file, every value of every row, also unpacked."""

    def words() -> set[str]:
        everything = b"\n".join(data for _name, data in contents(tmp_path)).lower()
        return {word for word in WORDS if word.encode() in everything}

    with JsonlStore(tmp_path) as store:
        live_in(store, str(tmp_path))
        assert words() == set(WORDS) - {"qquarantine", "qleftover"}
        erase(store, KEY, owner=ANY_OWNER)
        erase(store, FORK, owner=ANY_OWNER)
        assert words() == set()
        assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [OTHER]


@pytest.mark.files_only(COPIES)
def test_an_erased_owner_leaves_no_word(root: Path) -> None:
    """All sessions of an owner, living and removed, and all notes, also those written by hand."""
    with JsonlStore(root) as store:
        bob = SessionKey("main", "bobs")
        store.create(bob, owner=NamedOwner("bob"))
        store.notes("main", NamedOwner("bob")).append("a note of bob", session=str(bob))
        report = erase_owner(store, OWNER)
        assert len(report.sessions) == 4
        assert report.notes == 1  # the others went with their sessions
        assert files_with(root, (*WORDS, "qhand", OWNER, "other words")) == {}
        assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [bob]
        assert [note.text for note in store.notes("main", NamedOwner("bob")).notes()] == [
            "a note of bob"
        ]


@pytest.mark.files_only("it counts how often a file is written anew")
@pytest.mark.parametrize("has_vectors", [False, True])
def test_an_erasure_writes_a_file_once_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_vectors: bool
) -> None:
    """However many sessions one call erases: the index of memory, where it has vectors, which are
    stored as they are. Another one is never written anew."""
    written: list[str] = []
    compact = SqliteCache.compact

    def spy(cache: SqliteCache) -> bool:
        written.append(Path(cache.path).name)
        return compact(cache)

    with JsonlStore(tmp_path) as store:
        for number in range(6):
            key = SessionKey("main", f"s{number}")
            store.create(key, owner=NamedOwner(OWNER))
            store.append(key, [User(content=f"words {number}")], expect=ANY_HEAD)
        store.notes("main", NamedOwner(OWNER)).append("a note")
        Memory(store, None, caller=OPERATOR).refresh()
        if has_vectors:
            store.search_index.vectors.use_model("one")
        monkeypatch.setattr(SqliteCache, "compact", spy)
        assert len(erase_owner(store, OWNER).sessions) == 6
    assert written == (["recall.sqlite3"] if has_vectors else [])


@pytest.mark.files_only("it counts the bytes of files, and which are opened")
@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="needs the counters of Linux")
def test_an_erasure_costs_what_it_erases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Among ten times as many sessions, living and removed, it writes as much and opens as many
    logs; what it writes beyond its own logs is a few pages of each index."""
    written, opened, open_file = {}, {}, os.open
    for others in (40, 400):
        root = tmp_path / str(others)
        with JsonlStore(root, disk=QuickDisk()) as store:
            for number in range(others + 10):
                owner = OWNER if number < 10 else f"owner-{number // 10}"
                key = SessionKey("main", f"s{number}")
                store.create(key, owner=NamedOwner(owner))
                store.append(key, [User(content=f"{'words ' * 300}{number}")], expect=ANY_HEAD)
                if number % 4 == 0:
                    store.remove(key)
            store.sessions(owner=ANY_OWNER)
            store.trash_keys(owner=ANY_OWNER)
        logs: list[str] = []

        def spy(name: str, *rest: Any, logs: list[str] = logs, **more: Any) -> int:
            logs.extend([name] if str(name).endswith((".jsonl", ".erasing")) else [])
            return open_file(name, *rest, **more)

        with JsonlStore(root, disk=QuickDisk()) as store, monkeypatch.context() as patch:
            patch.setattr(os, "open", spy)
            before = bytes_written()
            assert len(erase_owner(store, OWNER).sessions) == 10
            written[others], opened[others] = bytes_written() - before, len(logs)
            left = store.sessions(owner=ANY_OWNER)
            assert len(left) == others * 3 // 4 + others % 4
    assert opened[400] == opened[40] <= 100
    assert written[400] <= 1.5 * written[40]


@pytest.mark.files_only("it counts how often a folder is listed")
def test_an_erasure_goes_through_a_folder_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many sessions go: the names of all are read no more often."""
    listed, listdir = {}, os.listdir
    for count in (2, 12):
        with JsonlStore(tmp_path / str(count), disk=QuickDisk()) as store:
            for number in range(100 + count):
                owner = NamedOwner(OWNER if number < count else "another")
                store.create(SessionKey("main", f"s{number}"), owner=owner)
            store.sessions(owner=ANY_OWNER)
            sizes: list[int] = []

            def spy(folder: int, sizes: list[int] = sizes) -> list[str]:
                names = listdir(folder)
                sizes.append(len(names))
                return names

            with monkeypatch.context() as patch:
                patch.setattr(os, "listdir", spy)
                assert len(erase_owner(store, OWNER).sessions) == count
            listed[count] = sum(size >= 100 for size in sizes)
    assert listed[12] == listed[2] <= 2


def test_an_erasure_lists_no_session_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many others there are: it asks for what is the owner's, and for possible copies."""
    asked: list[OwnerFilter] = []
    with MemoryStore() as store:
        for owner in ("ann", "bob"):
            store.create(SessionKey("main", owner), owner=NamedOwner(owner))
        listing = store.sessions

        def spy(*, owner: OwnerFilter, **more: Any) -> list[SessionInfo]:
            asked.append(owner)
            return listing(owner=owner, **more)

        monkeypatch.setattr(store, "sessions", spy)
        monkeypatch.setattr(store, "possible_copies", lambda _names: [])
        erase_owner(store, "ann", dry_run=True)
        erase_owner(store, "ann")
        erase(store, SessionKey("main", "bob"), owner="bob")
        assert set(asked) == {NamedOwner("ann")}
        assert listing(owner=ANY_OWNER) == []


def test_a_payload_of_two_sessions_goes_with_the_last_of_them() -> None:
    """It is counted once, and one that a third session uses stays."""
    with MemoryStore() as store:
        keys = [SessionKey("main", name) for name in ("one", "two", "stays")]
        refs = [OutputRef(sha256=store.blobs.put(data), bytes=6) for data in (b"of one", b"of all")]
        for key in keys:
            store.create(key)
            given = [refs[0], refs[1]] if key != keys[2] else [refs[1]]
            results = [
                ToolResult(tool_use_id=f"c{place}", content="", output_ref=ref)
                for place, ref in enumerate(given)
            ]
            store.append(key, results, expect=ANY_HEAD)
        report = erase(store, *keys[:2], owner=ANY_OWNER)
        assert [gone.blobs for gone in report.sessions] == [0, 1]
        assert list(store.blobs) == [refs[1].sha256]


@pytest.mark.files_only(COPIES)
def test_a_dry_run_counts_and_changes_nothing(root: Path) -> None:
    """The numbers of a dry run are those of the erasure."""
    with JsonlStore(root) as store:
        store.sessions(owner=ANY_OWNER)
        # What any listing writes to: the index of sessions knows those in the trash as well.
        caches = ("-shm", "index.changes", "index.sqlite3-wal")
        files = [path for path in root.rglob("*") if path.is_file()]
        files = [path for path in files if not path.name.endswith(caches)]
        before = [path.read_bytes() for path in files]
        planned = erase(store, KEY, dry_run=True, owner=ANY_OWNER)
        assert [path.read_bytes() for path in files] == before
        assert planned.is_dry_run
        done = erase(store, KEY, owner=ANY_OWNER)
        assert done.remaining == planned.remaining
        for told, gone in zip(planned.sessions, done.sessions, strict=True):
            assert (told.key, told.logs, told.bytes) == (gone.key, gone.logs, gone.bytes)
            assert told.blobs == gone.blobs


@pytest.mark.files_only(COPIES)
def test_removing_is_not_erasing(root: Path) -> None:
    """`rm` and `rm --empty` leave words in caches; the difference is what `erase` is for."""
    with JsonlStore(root) as store:
        store.remove(KEY)
        store.empty_trash()
        assert files_with(root, WORDS)


@pytest.mark.files_only(COPIES)
def test_an_erasure_waits_for_no_turn(root: Path) -> None:
    """While a turn runs nothing is erased, of none of the sessions."""
    with JsonlStore(root) as store:
        before = files_with(root, WORDS)
        store.leases.acquire(KEY, "a turn", 60.0)
        with pytest.raises(TurnInProgress):
            erase(store, FORK, KEY, owner=ANY_OWNER)
        assert {info.key for info in store.sessions(owner=ANY_OWNER)} >= {KEY, FORK}
        assert files_with(root, WORDS).keys() >= before.keys() - {"index.sqlite3-wal"}


@pytest.mark.files_only(COPIES)
def test_what_is_erased_cannot_be_named_again(root: Path) -> None:
    """A second erasure says that there is no such session; its id can be used for another."""
    with JsonlStore(root) as store:
        erase(store, KEY, owner=ANY_OWNER)
        with pytest.raises(NoSuchSession):
            erase(store, KEY, owner=ANY_OWNER)
        store.create(KEY)
        with pytest.raises(NoSuchSession):
            erase(store, KEY, owner=OWNER)
        with pytest.raises(UsageError):
            erase_owner(store, "")


def lend_to_bob(store: SessionStore) -> str:
    """Let Bob use an id, with a payload, a note and a message, and remove his session; the id is
    Ann's afterwards. Returns the hash of the payload."""
    bob = NamedOwner("bob")
    sha256 = store.blobs.put(b"the output of bob " * 99)
    store.create(KEY, owner=bob)
    ref = OutputRef(sha256=sha256, bytes=99 * 18, kind="text")
    store.append(KEY, [ToolResult(tool_use_id="c", content="", output_ref=ref)], expect=ANY_HEAD)
    store.notes("main", bob).append("a note of bob", session=str(KEY))
    store.remove(KEY)
    store.create(KEY, owner=NamedOwner("ann"))
    store.append(KEY, [User(content="hello")], expect=ANY_HEAD)
    store.notes("main").append("a note of nobody", session=str(KEY))
    return sha256


@pytest.mark.parametrize("way", ["session", "owner"])
def test_what_another_owner_had_under_the_id_stays(way: str) -> None:
    """An id can be used again after a removal: an erasure for Ann leaves Bob his removed session,
    his payload and his notes, and those of nobody. Bob's is erased without a word of Ann's."""
    with MemoryStore() as store:
        sha256 = lend_to_bob(store)
        by_session = way == "session"
        report = erase(store, KEY, owner="ann") if by_session else erase_owner(store, "ann")
        assert [(session.logs, session.blobs) for session in report.sessions] == [(1, 0)]
        (trashed,) = store.trash()
        assert store.restore(trashed.name) == KEY
        assert store.header(KEY).owner == "bob"
        assert store.blobs.get(sha256)
        for owner in (NamedOwner("bob"), NO_OWNER):
            assert len(list(store.notes("main", owner).notes())) == 1


def test_messages_of_who_has_the_id_now_stay() -> None:
    """Bob's removed session is erased, and what waits in Ann's, of the same id, is answered."""
    with MemoryStore() as store:
        lend_to_bob(store)
        new = NewMessage(
            queue="inbox", lane=str(KEY), key="k", body={}, owner="ann", session=str(KEY)
        )
        store.queues.put(new)
        erase_owner(store, "bob")
        assert [message.owner for message in store.queues.messages(owner=ANY_OWNER)] == ["ann"]
        assert store.trash() == []
        erase(store, KEY, owner=ANY_OWNER)
        assert store.queues.messages(owner=ANY_OWNER) == []


class Killed(BaseException):
    """The process ends here."""


STEPS: tuple[tuple[Any, str], ...] = (
    *((os, name) for name in ("rename", "unlink", "replace", "write", "rmdir")),
    *((shutil, "rmtree"), (SqliteCache, "erase")),
)
"""Every call by which an erasure changes something on disk."""


def killer(number: int, at: int, real: Callable[..., Any], count: list[int]) -> Callable[..., Any]:
    def call(*args: Any, **more: Any) -> Any:
        count[0] += 1
        if count[0] == at:
            raise Killed(number)
        return real(*args, **more)

    return call


def killed_erasures(lived: Path, folder: Path) -> Iterator[tuple[int, Path]]:
    """Yield a root for every change that an erasure makes, with the process killed before it."""
    at = 0
    while True:
        at += 1 if is_whole() else 4
        root = Path(shutil.copytree(lived, folder / str(at)))
        count = [0]
        with pytest.MonkeyPatch.context() as patch, JsonlStore(root) as store:
            for number, (place, name) in enumerate(STEPS):
                patch.setattr(place, name, killer(number, at, getattr(place, name), count))
            with suppress(Killed):
                erase(store, KEY, owner=ANY_OWNER)
                return
        yield at, root


@pytest.mark.files_only(COPIES)
def test_an_erasure_that_was_killed_is_finished_by_the_next(lived: Path, tmp_path: Path) -> None:
    """Killed before any change: the session is whole, or in no listing; the next run ends it."""
    kills = 0
    for at, root in killed_erasures(lived, tmp_path):
        kills = at
        with JsonlStore(root) as store:
            healthy = {info.key for info in store.sessions(owner=ANY_OWNER)}
            restorable = {trashed.key for trashed in store.trash()}
            hashes = set(store.hash_candidates(of=KEY))
            if KEY in healthy | restorable:
                # Nothing was erased yet: its payload is still there.
                assert any(sha256 in store.blobs for sha256 in hashes), at
                assert files_with(root, ("qnote",)).keys() - {"index.sqlite3"}, at
            if KEY in healthy | restorable or KEY in store.erasures():
                erase(store, KEY, owner=ANY_OWNER)
            for copy in [info.key for info in store.sessions(owner=ANY_OWNER) if info.reason]:
                assert copy == FORK, at
                erase(store, copy, owner=ANY_OWNER)
            assert files_with(root, WORDS) == {}, at
            assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [OTHER]
        shutil.rmtree(root)
    assert kills > 30


@pytest.fixture(params=["files", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    with JsonlStore(tmp_path) if request.param == "files" else MemoryStore() as made:
        yield made


def test_every_store_erases(store: SessionStore) -> None:
    """Log, trash, payloads and audit entries, in files and in memory alike."""
    shared, own = store.blobs.put(b"shared"), store.blobs.put(b"own")
    for key, hashes in ((KEY, [shared, own]), (OTHER, [shared])):
        store.create(key, label=f"label of {key.session}")
        results = [ToolResult(tool_use_id="c", content=sha256) for sha256 in hashes]
        store.append(key, results, expect=ANY_HEAD)
    History(store, caller=OPERATOR).text(session=KEY.session)
    History(store, caller=OPERATOR).text(session=OTHER.session)
    report = erase(store, KEY, clock=lambda: 5.0, owner=ANY_OWNER)
    assert (report.sessions[0].blobs, report.sessions[0].accesses) == (1, 1)
    assert [info.key for info in store.sessions(owner=ANY_OWNER)] == [OTHER]
    assert store.trash() == []
    assert set(store.blobs) == {shared}
    accesses = store.audit.entries().accesses
    assert [access.target for access in accesses[:2]] == ["", OTHER.session]
    assert (accesses[2].action, accesses[2].ts) == ("erase", 5.0)
    assert KEY.session not in str(accesses)
