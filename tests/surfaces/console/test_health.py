"""The page of health, and those of `verify`: bounded, within one owner, on every kind of store."""

from __future__ import annotations

import asyncio
import re
import time
from contextlib import closing
from html import unescape
from typing import TYPE_CHECKING

import pytest
from tests.surfaces.console.stores import fill
from tests.surfaces.http.servers import serving, token_for

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import CallFailure, User
from holdfast.core.owners import owner_of
from holdfast.ports import ANY_HEAD, NewMessage
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.surfaces.console import verification

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.ports import SessionStore

KEY = SessionKey("main", "work")
ADDRESSES = ("/health", "/health?measure=true", "/health/verify", "/s/main/work/verify")


def ask(store: SessionStore, *addresses: str, owner: str = "") -> list[str]:
    """Return the text of pages without tags, for one owner or for the operator."""
    token, settings = token_for(owner or "*")

    async def scenario() -> list[str]:
        async with serving(store, settings) as client:
            headers = {"Authorization": f"Bearer {token}"}
            answers = [await client.get(address, headers=headers) for address in addresses]
            assert [answer.status_code for answer in answers] == [200] * len(addresses)
            return [read_text(answer.text) for answer in answers]

    return asyncio.run(scenario())


def read_text(page: str) -> str:
    main = page[page.index("<main") : page.index("</main>")]
    return " ".join(unescape(re.sub("<[^>]*>", " ", main)).split())


def make(store: SessionStore, session: str = "work", owner: str = "", words: str = "hello") -> None:
    key = SessionKey("main", session)
    store.create(key, owner=owner_of(owner))
    store.append(key, [User(content=words)], expect=ANY_HEAD)


def fail(store: SessionStore, session: str, reason: str, owner: str = "") -> None:
    """Put a message into the queue that is set aside with this reason."""
    name = f"main/{session}"
    message = NewMessage(
        queue="inbox", lane=name, key=reason, body={"content": "x"}, owner=owner, session=name
    )
    store.queues.put(message)
    (claimed,) = store.queues.claim("inbox", "test", 60)
    assert store.queues.finish(claimed, "failed", reason=reason)


@pytest.mark.files_only("the log is damaged in its file")
def test_damage_is_found_and_shown(tmp_path: Path) -> None:
    """The list says which session is damaged, and its page where, as the command does."""
    with JsonlStore(tmp_path) as store:
        make(store, "sound")
        make(store)
        path = tmp_path / "agents" / "main" / "sessions" / "work.jsonl"
        path.write_bytes(path.read_bytes() + b"<b>no json</b>\n")
        store.append(KEY, [User(content="later")], expect=ANY_HEAD)
        (finding,) = store.verify(KEY).findings
        health, listed, own, sound = ask(
            store, "/health", "/health/verify", "/s/main/work/verify", "/s/main/sound/verify"
        )
    assert "with damage found by a listing 1" in health
    assert "1 of 2 sessions sound" in listed
    assert "1 damaged place" in listed
    assert finding.kind in own
    assert f"{finding.position}" in own
    assert "<b>no json</b>" in own
    assert "nothing is wrong" in sound


def test_a_page_reads_no_more_than_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pages follow each other until every session was read once; a log that is too long is named,
    and not read."""
    with MemoryStore() as store:
        for number in range(7):
            make(store, f"s{number}")
        make(store, "giant", words="x" * 9_000)
        read: list[str] = []
        verify = store.verify

        def count(key: SessionKey) -> object:
            read.append(key.session)
            return verify(key)

        size = store.info(SessionKey("main", "s0")).bytes
        monkeypatch.setattr(store, "verify", count)
        monkeypatch.setattr(verification, "_PAGE_BYTES", 3 * size + 20)
        token, settings = token_for("*")

        async def scenario() -> list[int]:
            address, parts = "/health/verify", []
            async with serving(store, settings) as client:
                while address:
                    before = len(read)
                    headers = {"Authorization": f"Bearer {token}"}
                    text = (await client.get(address, headers=headers)).text
                    parts.append(len(read) - before)
                    following = re.search(r'href="([^"]+)" rel="next"', text)
                    address = unescape(following[1]) if following else ""
                own = await client.get("/s/main/giant/verify", headers=headers)
                assert "too long for a page" in own.text
            return parts

        assert max(asyncio.run(scenario())) <= 3
        assert sorted(read) == [f"s{number}" for number in range(7)]


def test_opening_the_page_reads_no_log_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither verification nor the measurement runs unless somebody asks for it."""
    with MemoryStore() as store:
        make(store)

        def refuse(*_args: object, **_options: object) -> object:
            raise AssertionError("the page does it on each load")

        monkeypatch.setattr(store, "verify", refuse)
        monkeypatch.setattr(store, "disk_use", refuse)
        monkeypatch.setattr(store.search_index, "sources", refuse)
        (text,) = ask(store, "/health")
    assert "Measure now" in text
    assert "Verify the sessions" in text


@pytest.mark.files_only("it is about folders")
def test_the_disk_is_the_operators(tmp_path: Path) -> None:
    with JsonlStore(tmp_path) as store:
        make(store, owner="ann", words="x" * 100_000)
        measured, anns = (ask(store, "/health?measure=true", owner=who)[0] for who in ("", "ann"))
        use = store.disk_use()
    assert use.bytes > 100_000
    assert use.is_whole
    assert re.search(r"disk \d+\.\d KB free \d", measured)
    assert "disk" not in anns
    assert str(tmp_path) in measured
    assert str(tmp_path) not in anns


def test_every_store_tells_its_room_or_that_it_cannot() -> None:
    with MemoryStore() as store:
        make(store)
        (text,) = ask(store, "/health?measure=true")
        has_disk, caveat = store.disk_use() is not None, store.caveat
    assert ("this store does not report its size" in text) != has_disk
    assert bool(re.search(r"disk \d+\.\d [KMG]B free", text)) == has_disk
    assert caveat in text


def test_the_index_is_behind_until_a_search() -> None:
    with MemoryStore() as store:
        make(store, "a", owner="ann", words="the panda sleeps")
        make(store, "b", owner="ann", words="the panda eats")
        address = "/health?measure=true"
        before, _found, after = ask(store, address, "/memory?q=panda", address, owner="ann")
        store.append(SessionKey("main", "a"), [User(content="more")], expect=ANY_HEAD)
        (later,) = ask(store, address, owner="ann")
    assert "up to date in the index 0 of 2" in before
    assert "behind since" in before
    assert "up to date in the index 2 of 2" in after
    assert "behind since" not in after
    assert "up to date in the index 1 of 2" in later


def test_errors_by_class_and_day() -> None:
    """Messages by what their reasons are classified as, calls by the name that was stored."""
    now = time.time()
    with MemoryStore() as store:
        make(store)
        fail(store, "work", "rate limit exceeded, please retry")
        fail(store, "work", "Rate limit reached for requests")
        old = CallFailure(cause="too long", failure="context_overflow", status=400, ts=now - 9e6)
        new = CallFailure(cause="too long <b>", failure="context_overflow", status=400, ts=now)
        store.append(KEY, [old, new], expect=ANY_HEAD)
        (text,) = ask(store, "/health")
    assert re.search(r"rate_limit messages 0( 0){6} 2 2 just now", text), text
    assert re.search(r"context_overflow calls 1( 0){6} 1 2 just now too long <b>", text), text


def test_an_answer_that_is_an_error_is_counted() -> None:
    with MemoryStore() as store:
        token, settings = token_for("*")

        async def scenario() -> str:
            async with serving(store, settings) as client:
                headers = {"Authorization": f"Bearer {token}"}
                await client.get("/s/main/none", headers=headers)
                return read_text((await client.get("/health", headers=headers)).text)

        assert re.search(r"404 [A-Z][a-z ]+ 1 ", asyncio.run(scenario()))


def test_no_page_depends_on_another_owner() -> None:
    """With and without the things of another owner, an owner reads the same."""
    found = []
    for has_other in (True, False):
        with closing(MemoryStore()) as store:
            make(store, owner="ann", words="panda")
            fail(store, "work", "rate limit exceeded", owner="ann")
            if has_other:
                fill(store, "bob", "bobsecret", "bobs")
                fail(store, "bobs", "model overloaded", owner="bob")
                failure = CallFailure(cause="bobsecret", failure="auth")
                store.append(SessionKey("main", "bobs"), [failure], expect=ANY_HEAD)
                ask(store, "/memory?q=remember", owner="bob")
            texts = ask(store, *ADDRESSES, owner="ann")
            # A time in a log has more digits, or fewer.
            found.append([re.sub(r"\b\d+ B\b", "N B", text) for text in texts])
    assert found[0] == found[1]
    assert any("panda" in text for text in found[0])
