"""`HoldfastSessionStore`: the SDK's contract, and the same lines as sessions of ours."""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from tests.support import peers

from holdfast.core.log.records import Assistant, ToolResult, User
from holdfast.errors import BadItem, UsageError
from holdfast.integrations.claude_agent import HoldfastSessionStore
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.ports import SessionStore

KEY = {"project_key": "-home-ann", "session_id": "0f1e2d3c-0000-4000-8000-000000000001"}
SIDE = {**KEY, "subpath": "subagents/agent-1"}


def line(number: int, kind: str, content: Any, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": KEY["session_id"],
        "timestamp": f"2026-01-01T00:00:{number:02}.000Z",
        "message": {"role": kind, "content": content, **more},
    }


CALLS = [
    {"type": "tool_use", "id": name, "name": "Read", "input": {"file_path": name}}
    for name in ("a", "b")
]
RESULTS = [{"type": "tool_result", "tool_use_id": name, "content": name} for name in ("a", "b")]
ENTRIES: list[dict[str, Any]] = [
    line(0, "user", "Read two files."),
    line(1, "assistant", CALLS, id="msg_1", stop_reason="tool_use", usage={"output_tokens": 5}),
    line(2, "user", [*RESULTS, {"type": "text", "text": "And be quick."}]),
    line(3, "assistant", [{"type": "text", "text": "Done."}], id="msg_2"),
    {"type": "custom-title", "customTitle": "Two files", "sessionId": KEY["session_id"]},
    {"type": "of the year 2030", "value": [1, None, "\ud800"]},
]


@pytest.fixture(autouse=True)
def sdk() -> None:
    peers.needs("claude-agent-sdk")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def test_all_contracts_of_the_sdk_are_kept_and_none_is_skipped(tmp_path: Path) -> None:
    from claude_agent_sdk.testing import run_session_store_conformance
    from claude_agent_sdk.testing.session_store_conformance import _OPTIONAL_METHODS, _has_optional

    made: list[HoldfastSessionStore] = []

    def make() -> HoldfastSessionStore:
        made.append(HoldfastSessionStore(root=str(tmp_path / str(len(made)))))
        return made[-1]

    asyncio.run(run_session_store_conformance(make))
    for opened in made:
        opened.close()
    assert len(made) == 15  # one to look at, and one for each of the 14 contracts
    optional = [_has_optional(made[0], name, frozenset()) for name in sorted(_OPTIONAL_METHODS)]
    assert optional == [True] * 4


def test_lines_are_a_session_of_ours_and_come_back_as_they_were(store: SessionStore) -> None:
    async def main() -> None:
        kept = HoldfastSessionStore(store=store)
        await kept.append(KEY, ENTRIES[:2])
        await kept.append(KEY, ENTRIES[2:])
        assert json.dumps(await kept.load(KEY)) == json.dumps(ENTRIES)
        key = kept.key_for(KEY)
        messages = [
            record
            for record in store.read(key)
            if isinstance(record, User | Assistant | ToolResult)
        ]
        assert [record.kind for record in messages] == [
            *("user", "assistant", "tool_result", "tool_result", "user", "assistant")
        ]
        assert store.info(key).label == "Two files"
        assert store.totals(key).turns >= 1

    asyncio.run(main())


def test_line_is_stored_once_whoever_repeats_it(store: SessionStore) -> None:
    async def main() -> None:
        first, second = (HoldfastSessionStore(store=store) for _ in range(2))
        await first.append(KEY, ENTRIES[:2])
        await second.append(KEY, [*ENTRIES[:4], ENTRIES[0]])
        await first.append(KEY, ENTRIES[:4])
        assert await first.load(KEY) == ENTRIES[:4]
        await first.append(KEY, ENTRIES[4:5])
        await second.append(KEY, ENTRIES[4:5])  # without a uuid: stored as often as it comes
        assert await second.load(KEY) == [*ENTRIES[:4], ENTRIES[4], ENTRIES[4]]

    asyncio.run(main())


def test_writers_at_once_lose_nothing_and_their_summary_is_of_all(store: SessionStore) -> None:
    from claude_agent_sdk import fold_session_summary

    async def main() -> None:
        stores = [HoldfastSessionStore(store=store) for _ in range(4)]
        lines = [line(number, "user", f"question {number}") for number in range(40)]
        await asyncio.gather(
            *(stores[number % 4].append(KEY, [entry]) for number, entry in enumerate(lines))
        )
        entries = await stores[0].load(KEY)
        assert entries is not None
        assert sorted(entry["uuid"] for entry in entries) == sorted(e["uuid"] for e in lines)
        (summary,) = await stores[1].list_session_summaries(KEY["project_key"])
        key: Any = KEY
        assert summary["data"] == fold_session_summary(None, key, entries)["data"]

    asyncio.run(main())


def test_deleted_session_goes_to_the_trash_with_its_subagents(store: SessionStore) -> None:
    async def main() -> None:
        kept = HoldfastSessionStore(store=store)
        await kept.append(KEY, ENTRIES[:1])
        await kept.append(SIDE, ENTRIES[:1])
        assert store.header(kept.key_for(SIDE)).parent_session == str(kept.key_for(KEY))
        assert await kept.list_subkeys(KEY) == [SIDE["subpath"]]
        await kept.delete(KEY)
        assert (await kept.load(KEY), await kept.load(SIDE)) == (None, None)
        assert len(store.trash()) == 2
        erasing = HoldfastSessionStore(store=store, delete="erase")
        await erasing.append(KEY, ENTRIES[:1])
        await erasing.delete(KEY)
        assert [trashed.key for trashed in store.trash()] == [kept.key_for(SIDE)]

    asyncio.run(main())


def test_messages_of_others_are_lines_too(store: SessionStore) -> None:
    """A session that Holdfast continued can be resumed by the SDK."""

    async def main() -> None:
        kept = HoldfastSessionStore(store=store)
        await kept.append(KEY, ENTRIES[:1])
        reply = Assistant(content=[CALLS[0]], provider="anthropic", model="claude-x")
        result = ToolResult(tool_use_id="a", content="text")
        store.append(kept.key_for(KEY), [reply, result, User(content="Go on.")], expect=None)
        entries = await kept.load(KEY)
        assert entries is not None
        assert [entry["message"]["role"] for entry in entries] == [
            *("user", "assistant", "user", "user")
        ]
        for before, entry in pairwise(entries):
            assert entry["parentUuid"] == before["uuid"]
        assert entries == await kept.load(KEY)

    asyncio.run(main())


@pytest.mark.parametrize("bad", [None, {}, {"project_key": "p"}, 3])
def test_bad_keys_and_entries_are_refused(bad: Any, store: SessionStore) -> None:
    async def main() -> None:
        kept = HoldfastSessionStore(store=store)
        for use in (kept.load, kept.delete, kept.list_subkeys):
            with pytest.raises(UsageError):
                await use(bad)
        with pytest.raises(BadItem):
            await kept.append(KEY, [ENTRIES[0], "text"])
        with pytest.raises(TypeError):
            await kept.append(KEY, [{"type": "user", "x": object()}])
        assert await kept.load(KEY) is None

    asyncio.run(main())


def test_sdk_lists_and_reads_the_sessions(store: SessionStore) -> None:
    import claude_agent_sdk

    kept: Any = HoldfastSessionStore(store=store)

    async def main() -> None:
        directory = "/home/ann/project"
        project = claude_agent_sdk.project_key_for_directory(directory)
        key = {**KEY, "project_key": project}
        await kept.append(key, ENTRIES)
        (found,) = await claude_agent_sdk.list_sessions_from_store(kept, directory=directory)
        assert found.session_id == KEY["session_id"]
        messages = await claude_agent_sdk.get_session_messages_from_store(
            kept, KEY["session_id"], directory=directory
        )
        assert [message.type for message in messages] == ["user", "assistant", "user", "assistant"]

    asyncio.run(main())
