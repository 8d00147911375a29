"""The log of a session over HTTP: verified, appended to, and the trash emptied."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.surfaces.http.servers import serving, token_for

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import NamedOwner
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.records import Json
    from holdfast.ports import SessionStore

KEY = SessionKey("main", "work")
RECORDS = "/v1/sessions/main/work/records"
VERIFY = "/v1/sessions/main/work/verify"
Asked = tuple[str, str, Any]


def make(store: SessionStore, session: str = "work", owner: str = "ann") -> None:
    key = SessionKey("main", session)
    store.create(key, owner=NamedOwner(owner))
    store.append(key, [User(content="hello")], expect=ANY_HEAD)


def ask(store: SessionStore, *asked: Asked, who: str = "*") -> list[tuple[int, Json]]:
    """Send requests one after the other; return the status and the JSON of each answer."""
    token, settings = token_for(who)

    async def scenario() -> list[tuple[int, Json]]:
        found = []
        async with serving(store, settings) as client:
            for method, path, body in asked:
                headers = {"Authorization": f"Bearer {token}"}
                done = await client.request(method, path, json=body, headers=headers)
                found.append((done.status_code, done.json()))
        return found

    return asyncio.run(scenario())


@pytest.mark.files_only("the log is damaged in its file")
def test_damage_is_reported_with_its_place(tmp_path: Path) -> None:
    """The answer has what `verify` of the store finds, with secrets masked."""
    with JsonlStore(tmp_path) as store:
        make(store)
        path = tmp_path / "agents" / "main" / "sessions" / "work.jsonl"
        path.write_bytes(path.read_bytes() + b"AKIAIOSFODNN7EXAMPLE, not JSON\n")
        store.append(KEY, [User(content="later")], expect=ANY_HEAD)
        ((status, found),) = ask(store, ("GET", VERIFY, None))
        report = store.verify(KEY)
    assert status == 200
    assert (found["isSound"], found["records"], found["head"]) == (
        False,
        report.records,
        report.head,
    )
    (finding,) = found["findings"]
    assert (finding["position"], finding["kind"]) == (
        report.findings[0].position,
        report.findings[0].kind,
    )
    assert "not JSON" in finding["preview"]
    assert "AKIAIOSFODNN7EXAMPLE" not in str(found)


def test_records_are_appended_all_or_none() -> None:
    """A record that is none, a header and a head that moved on refuse the whole request."""
    good = {"type": "user", "content": "one", "id": "r1"}
    with MemoryStore() as store:
        make(store)
        answers = ask(
            store,
            ("POST", RECORDS, {"records": [good, {"type": "assistant", "content": "two"}]}),
            ("POST", RECORDS, {"records": [{"type": "user", "content": "x"}, {"type": 7}]}),
            ("POST", RECORDS, {"records": [{"type": "session", "version": 1}]}),
            ("POST", RECORDS, {"records": [{"type": "user", "content": "x"}], "expect": "r1"}),
            ("POST", RECORDS, {"records": []}),
            ("GET", VERIFY, None),
        )
        contents = [str(getattr(record, "content", "")) for record in store.read(KEY)]
    assert [status for status, _answer in answers] == [201, 400, 400, 409, 400, 200]
    done, bad, header, *_, verified = (answer for _status, answer in answers)
    assert done["ids"] == ["r1", done["head"]]
    assert "records[1]" in bad["detail"]
    assert "header" in header["detail"]
    assert contents[1:] == ["hello", "one", "two"]
    assert verified["isSound"] is True


def test_only_an_operator_appends_records_and_empties_the_trash() -> None:
    """A record may say that a person approved a call, and the trash has those of all owners."""
    with MemoryStore() as store:
        make(store)
        make(store, "gone", "bob")
        store.remove(SessionKey("main", "gone"))
        records = {"records": [{"type": "user", "content": "x"}]}
        refused = ask(store, ("POST", RECORDS, records), ("DELETE", "/v1/trash", None), who="ann")
        kept = len(store.trash())
        (verified,) = ask(store, ("GET", VERIFY, None), who="ann")
        later, now = ask(
            store,
            ("DELETE", "/v1/trash?olderThan=30", None),
            ("DELETE", "/v1/trash", None),
        )
        left = len(store.trash())
    assert [status for status, _answer in refused] == [403, 403]
    assert (kept, left) == (1, 0)
    assert verified[0] == 200
    assert (later[0], later[1]["removed"]) == (200, [])
    assert [each["id"] for each in now[1]["removed"]] == ["gone"]
