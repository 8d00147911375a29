"""Retelling a stored session: from its newest boundary, for its owner, and on the record."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conversations import sound_logs
from tests.shared_data import need_data
from tests.support.runs import sample

from holdfast import OPERATOR, Assistant, Caller, JsonlStore, SessionKey, User, importers, reseed
from holdfast.core.history import reseed as core
from holdfast.core.owners import owner_of
from holdfast.core.secrets.redaction import Redactor
from holdfast.core.tokens.counting import Estimator
from holdfast.errors import (
    AccessDenied,
    HoldfastWarning,
    NoSuchSession,
    StoreUnavailable,
    UsageError,
)
from holdfast.importers.places import load
from holdfast.records import Compaction
from holdfast.stores import ANY_HEAD, MemoryStore
from holdfast.stores.audit import MemoryAudit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from holdfast.core.history.access import Access
    from holdfast.core.log.records import Record
    from holdfast.ports import AuditPage

KEY = SessionKey("main", "trip")
ANN = "ann"
TRIP: list[Record] = [User(content="Which train?"), Assistant(content="The 9:12.")]


def stored(*records: Record, owner: str = ANN) -> MemoryStore:
    store = MemoryStore()
    store.create(KEY, owner=owner_of(owner))
    if records:
        store.append(KEY, records, expect=ANY_HEAD)
    return store


class FullAudit:
    """An audit log on a disk that is full."""

    def note(self, access: Access) -> None:
        raise StoreUnavailable("cannot record an access: no space left")

    def note_all(self, accesses: Iterable[Access]) -> None:
        raise NotImplementedError

    def entries(self, last: int | None = None) -> AuditPage:
        raise NotImplementedError

    def pages(self) -> Iterator[AuditPage]:
        raise NotImplementedError

    def reduce(self, change: Callable[[Access], Access], mentions: Iterable[str]) -> int:
        raise NotImplementedError


# Whose session it is


def test_a_session_is_retold_for_its_owner() -> None:
    told = reseed(stored(*TRIP), KEY, identity=ANN)

    assert told.text == "User: Which train?\n\nAssistant: The 9:12."
    assert told.is_whole
    assert told.cap == 12_288


@pytest.mark.parametrize("identity", ["bob", "", "Ann", "ann ", Caller("main", "trip")])
def test_nobody_elses_backend_gets_it(identity: str | Caller) -> None:
    """The account has changed: no history, a reason, and a line in the audit log."""
    audit = MemoryAudit()

    with pytest.raises(AccessDenied, match="session `main/trip` cannot be reseeded") as refused:
        reseed(stored(*TRIP), KEY, identity=identity, audit=audit)

    assert refused.value.hint
    assert "9:12" not in str(refused.value)
    [access] = audit.entries().accesses
    assert (access.action, access.is_allowed, access.bytes) == ("reseed", False, 0)
    assert access.reason.startswith("Refused")
    assert access.owner == ("" if isinstance(identity, Caller) else identity)


def test_a_named_owner_does_not_get_what_is_nobodys() -> None:
    """A doubt is a refusal; where nobody has an owner, nobody needs to be named."""
    store = stored(*TRIP, owner="")

    with pytest.raises(AccessDenied):
        reseed(store, KEY, identity=ANN)
    assert reseed(store, KEY).text


def test_the_operator_may_retell_any_session() -> None:
    assert reseed(stored(*TRIP), KEY, identity=OPERATOR).text


def test_a_caller_who_may_read_it_may_retell_it() -> None:
    caller = Caller("main", None, owner=owner_of(ANN), visibility="agent")

    assert reseed(stored(*TRIP), KEY, identity=caller).text


@pytest.mark.files_only("it damages files")
def test_a_damaged_header_opens_nothing_but_to_the_operator(tmp_path: Path) -> None:
    """Nobody knows whose session it is."""
    with JsonlStore(tmp_path) as store:
        store.create(KEY, owner=owner_of(ANN))
        store.append(KEY, TRIP, expect=ANY_HEAD)
    log = tmp_path / "agents" / "main" / "sessions" / "trip.jsonl"
    log.write_bytes(b"#" + log.read_bytes()[1:])

    with JsonlStore(tmp_path) as store:
        with pytest.raises(AccessDenied):
            reseed(store, KEY, identity=ANN)
        assert "9:12" in reseed(store, KEY, identity=OPERATOR).text


def test_what_was_handed_out_is_recorded() -> None:
    audit = MemoryAudit()

    told = reseed(stored(*TRIP), KEY, identity=ANN, audit=audit, clock=lambda: 1_700_000_000.0)

    [access] = audit.entries().accesses
    assert (access.ts, access.target, access.is_allowed) == (1_700_000_000.0, "main/trip", True)
    assert access.bytes == len(told.text.encode())


@pytest.mark.parametrize("identity", [ANN, "bob"])
def test_nothing_is_handed_out_that_cannot_be_recorded(identity: str) -> None:
    with pytest.raises(StoreUnavailable):
        reseed(stored(*TRIP), KEY, identity=identity, audit=FullAudit())


def test_a_full_disk_does_not_keep_the_operator_from_the_files() -> None:
    with pytest.warns(HoldfastWarning, match="not in the audit log"):
        assert reseed(stored(*TRIP), KEY, identity=OPERATOR, audit=FullAudit()).text


def test_only_the_operator_is_told_that_a_session_is_not_there() -> None:
    """To everybody else, what is missing and what is not theirs look the same."""
    missing = SessionKey("main", "else")

    with pytest.raises(NoSuchSession, match="else"):
        reseed(stored(), missing, identity=OPERATOR)
    with pytest.raises(AccessDenied) as nothing_there:
        reseed(stored(), missing, identity="bob")
    with pytest.raises(AccessDenied) as not_theirs:
        reseed(stored(*TRIP), KEY, identity="bob")
    assert str(nothing_there.value).replace("else", "trip") == str(not_theirs.value)


# How much of it


def test_it_starts_at_the_newest_compaction() -> None:
    records: list[Record] = [
        User(content="long ago"),
        Compaction(summary="Trains were looked up.", window=32_000),
        User(content="And now?"),
    ]

    text = reseed(stored(*records), KEY, identity=ANN).text

    assert text == "Compaction summary: Trains were looked up.\n\nUser: And now?"


@pytest.mark.parametrize(
    ("size", "cap"),
    [({"cap": 500}, 500), ({"cap": 0}, 0), ({"window": 200_000}, 64_000), ({"tokens": 90}, 90)],
)
def test_the_size_can_be_given_in_three_ways(size: dict[str, int], cap: int) -> None:
    long: list[Record] = [User(content="word " * 2_000), Assistant(content="The end.")]

    told = reseed(stored(*long), KEY, identity=ANN, counter=Estimator(), **size)  # type: ignore[arg-type]

    assert told.cap == cap
    assert told.unit == ("tokens" if "tokens" in size else "characters")
    measured = Estimator().count(told.text) if told.unit == "tokens" else len(told.text)
    assert measured <= cap


@pytest.mark.parametrize("size", [{"cap": 1, "tokens": 1}, {"cap": -1}, {"window": -5}])
def test_a_size_that_makes_no_sense_is_refused(size: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        reseed(stored(*TRIP), KEY, identity=ANN, **size)  # type: ignore[arg-type]


def test_the_number_of_messages_can_be_bounded_as_well() -> None:
    told = reseed(stored(*TRIP), KEY, identity=ANN, messages_max=1)

    assert (told.messages, told.omitted) == (1, 1)
    assert told.text.endswith("\n\nAssistant: The 9:12.")


def test_the_marker_says_where_all_of_it_is() -> None:
    long: list[Record] = [User(content="word " * 2_000), Assistant(content="The end.")]

    text = reseed(stored(*long), KEY, identity=ANN, cap=300).text

    assert text.startswith("[Earlier history ")
    assert "All of it: session main/trip.]" in text


@pytest.mark.parametrize("cap", [0, 9, 77, 1_000, 12_288, 64_000])
def test_real_sessions_are_retold_within_any_cap(cap: int) -> None:
    """With the newest words at the end, and a marker where something is missing."""
    folder = need_data() / "agents" / "claude-code" / "entire"
    for path in sample(
        sorted(folder.glob("*.jsonl.gz"))[:8], share=1 / 4, name=lambda path: f"{path.name} {cap}"
    ):
        for session in importers.read_transcript(load(str(path)), path.name):
            whole = core.reseed(session.records, 10**9, messages_max=10**9)
            told = core.reseed(session.records, cap)

            assert len(told.text) <= cap
            assert told.messages + told.omitted == whole.messages
            assert told.text.endswith(whole.text[-min(cap, 4) :].lstrip() if cap else "")
            assert told.is_whole or cap < 10 or told.text.startswith("[")


# No secret leaves

KEYS = ("sk-ant-api03-Zq8wXr2Lk9Tb4Vn7Yp1Md6", "ghp_a8Kd93jfL20sKq81mZx77PqRt54WnBv2Yc0")


@pytest.mark.parametrize("key", KEYS)
def test_what_looks_like_a_key_is_masked_without_being_asked(key: str) -> None:
    call = {"type": "tool_use", "id": "c", "name": "curl", "input": {"header": key}}
    store = stored(
        Compaction(summary=f"The key was {key}."),
        User(content=f"Use {key}, please"),
        Assistant(content=[{"type": "text", "text": f"Using {key}"}, call]),
    )

    text = reseed(store, KEY, identity=ANN).text

    assert key not in text
    assert text.count("[masked") == 4


@given(sound_logs(max_turns=4, words=120), st.integers(0, 3_000), st.data())
def test_no_registered_secret_is_in_any_text(
    records: list[Record], cap: int, data: st.DataObject
) -> None:
    """Wherever it stands and wherever the cut falls, not even half of it is left."""
    secret = "correct-horse-battery-staple"
    place = data.draw(st.integers(0, len(records) - 1))
    planted: list[Record] = [
        User(content=f"{_text(record)} {secret}") if number == place else record
        for number, record in enumerate(records)
    ]

    told = reseed(stored(*planted), KEY, identity=ANN, cap=cap, redactor=Redactor({"PASS": secret}))

    assert secret not in told.text
    assert "battery" not in told.text


def _text(record: Record) -> str:
    content = getattr(record, "content", "")
    return content if isinstance(content, str) else ""
