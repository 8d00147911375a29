"""Appends through the adapters: they read nothing that is known, and trust the log alone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.support.peer_writers import OPENERS, opener

from holdfast.core.log.batch import new_header
from holdfast.core.log.records import User, decode
from holdfast.integrations.common import originals
from holdfast.stores import lines, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.support.peer_writers import Writer

    from holdfast.core.log.ids import SessionKey
    from holdfast.ports import SessionStore

OTHER_OWNER: Final = "bob"
LOOKS: Final = {"pydantic_ai": 1}
"""Times that an append may open a log: the framework itself asks for the revision first. A database
needs no open log for that."""


@pytest.fixture(params=OPENERS)
def open_writer(request: pytest.FixtureRequest) -> Callable[[SessionStore], Writer]:
    return opener(request.param)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SessionStore]:
    with open_store(tmp_path) as found:
        yield found


def test_append_opens_no_log_to_read(
    open_writer: Callable[[SessionStore], Writer],
    store: SessionStore,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """What was written here is known; the append itself finds out where others have written."""
    writer = open_writer(store)
    for number in range(3):
        writer.append(f"before-{number}")
    opened: list[str] = []
    original = type(store).open_log

    def open_log(self: Any, key: SessionKey, **about: Any) -> Any:
        opened.append(str(key))
        return original(self, key, **about)

    monkeypatch.setattr(type(store), "open_log", open_log)
    for number in range(5):
        writer.append(f"after-{number}")
    looks = LOOKS.get(request.node.callspec.params["open_writer"], 0)
    assert len(opened) <= 5 * looks
    assert all(f"after-{number}" in writer.texts() for number in range(5))


WHOLE: Final = ("openai_agents", "langgraph", "claude_agent")
"""Adapters whose resume reads items without their records, from the first look at a log on."""


@pytest.mark.parametrize("name", WHOLE)
def test_first_resume_decodes_no_more_records_of_a_longer_log(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even to count them for the index: a session that others wrote is read at once."""
    counts = []
    for turns in (5, 50):
        with open_store(tmp_path / f"{turns}") as store:
            writer = opener(name)(store)
            for number in range(turns):
                writer.append(f"text-{number}")
        decoded = 0

        def count(line: bytes) -> Any:
            nonlocal decoded
            decoded += 1
            return decode(line)

        with open_store(tmp_path / f"{turns}") as store, monkeypatch.context() as patched:
            for place in (lines, originals):
                patched.setattr(place, "decode", count)
            texts = opener(name)(store).texts()
        assert all(f"text-{number}" in texts for number in range(turns))
        counts.append(decoded)
    assert counts[0] == counts[1] < 8


@pytest.mark.parametrize("name", [*OPENERS, "langgraph, async"])
def test_store_is_never_called_on_an_event_loop(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A store blocks; an adapter with coroutines calls it in another thread."""
    calls: list[bool] = []

    def watched(original: Any) -> Any:
        def call(*args: Any, **about: Any) -> Any:
            calls.append(asyncio._get_running_loop() is not None)
            return original(*args, **about)

        return call

    with open_store(tmp_path) as store:
        for method in ("append_batch", "create_log", "open_log", "head", "info", "keys"):
            found = getattr(type(store), method)
            monkeypatch.setattr(type(store), method, watched(found))
        if name in OPENERS:
            writer = opener(name)(store)
            writer.append("one")
            writer.append("two")
            assert "two" in writer.texts()
        else:
            opener("langgraph")
            asyncio.run(use_saver(store))
    assert calls
    assert not any(calls)


async def use_saver(store: SessionStore) -> None:
    from langgraph.checkpoint.base import empty_checkpoint

    from holdfast.integrations.langgraph import HoldfastSaver

    saver: Any = HoldfastSaver(store=store)
    config: Any = {"configurable": {"thread_id": "thread-1", "checkpoint_ns": ""}}
    config = await saver.aput(config, empty_checkpoint(), {}, {})
    await saver.aput_writes(config, [("channel", "x")], task_id="task")
    assert (await saver.aget_tuple(config)).pending_writes
    assert [found async for found in saver.alist(config)]
    await saver.adelete_thread("thread-1")
    assert await saver.aget_tuple(config) is None


def test_writers_that_take_turns_keep_everything(
    open_writer: Callable[[SessionStore], Writer], tmp_path: Path
) -> None:
    """What one remembers never overrules what another wrote: the log has all of it."""
    with open_store(tmp_path) as first_store, open_store(tmp_path) as second_store:
        writers = [open_writer(first_store), open_writer(second_store)]
        for number in range(6):
            writers[number // 2 % 2].append(f"turn-{number}")
        log = b"".join(first_store.export(writers[0].key)).decode()
    assert all(f"turn-{number}" in log for number in range(6))


def test_session_that_another_process_removed_begins_again(
    open_writer: Callable[[SessionStore], Writer], tmp_path: Path
) -> None:
    """Also for a line that was there already: the removed session is in the trash, not the new."""
    with open_store(tmp_path) as store, open_store(tmp_path) as others:
        writer = open_writer(store)
        writer.append("one")
        writer.append("two")
        others.remove(writer.key)
        writer.append("two")
        assert "two" in writer.texts()
        assert len(others.trash()) == 1


def test_session_of_another_owner_is_not_written_to(
    open_writer: Callable[[SessionStore], Writer], tmp_path: Path
) -> None:
    """Also where it took the place of one that was written here a moment ago."""
    with open_store(tmp_path) as store, open_store(tmp_path) as others:
        writer = open_writer(store)
        writer.append("one")
        writer.append("two")
        others.remove(writer.key)
        others.create_log(writer.key, [new_header(writer.key, now=1.0, owner=OTHER_OWNER)])
        others.append(writer.key, [User(content="of bob")], expect=None)
        with pytest.raises(Exception, match="does not belong"):
            writer.append("three")
        assert b"three" not in b"".join(others.export(writer.key))
