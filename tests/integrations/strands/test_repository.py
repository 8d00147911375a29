"""`HoldfastSessionRepository`: messages come back equal, and are records of ours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support import peers

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, User, text_of
from holdfast.integrations import strands as adapter
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.ports import SessionStore

CALL = {"toolUse": {"toolUseId": "c1", "name": "look", "input": {"where": "here"}}}
RESULT = {
    "toolUseId": "c1",
    "status": "error",
    "content": [{"text": "nothing"}, {"json": {"a": 1}}],
}
MESSAGES: list[Any] = [
    {"role": "user", "content": [{"text": "Look."}, {"cachePoint": {"type": "default"}}]},
    {
        "role": "assistant",
        "content": [
            {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "s"}}},
            {"text": "I look."},
            CALL,
        ],
    },
    {"role": "user", "content": [{"toolResult": RESULT}, {"text": "Go on."}]},
    {"role": "user", "content": [{"image": {"format": "png", "source": {"bytes": b"\x00\xff"}}}]},
    {"role": "assistant", "content": [{"citationsContent": {"content": []}}]},
]


@pytest.fixture(autouse=True)
def framework() -> None:
    peers.needs("strands-agents")


@pytest.fixture
def store(tmp_path: Path) -> Any:
    with open_store(tmp_path / "store") as opened:
        yield opened


def fill(store: SessionStore, session_id: str = "thread-1", **about: Any) -> Any:
    """A repository with a session, an agent and its messages."""
    from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

    repository: Any = adapter.HoldfastSessionRepository(store=store, **about)
    repository.create_session(Session(session_id, SessionType.AGENT))
    for agent_id in ("default", "other"):
        repository.create_agent(session_id, SessionAgent(agent_id, {"n": 1}, {}))
        for number, message in enumerate(MESSAGES):
            said = SessionMessage.from_message(message, number)
            repository.create_message(session_id, agent_id, said)
    return repository


def said_in(repository: Any, agent_id: str = "default") -> list[Any]:
    return [m.to_message() for m in repository.list_messages("thread-1", agent_id)]


def test_messages_come_back_equal_and_are_records(store: SessionStore) -> None:
    fill(store)
    again: Any = adapter.HoldfastSessionRepository(store=store)
    for agent_id in ("default", "other"):
        assert said_in(again, agent_id) == MESSAGES
    assert again.read_agent("thread-1", "other").state == {"n": 1}
    assert [m.message_id for m in again.list_messages("thread-1", "default", 2, 1)] == [1, 2]
    kinds = [record.kind for record in store.read(SessionKey("main", "thread-1"))]
    assert kinds == [
        *("session", "peer_state", "user", "assistant", "tool_result", "user"),
        *("user", "peer_item"),
    ]


def test_a_redaction_changes_the_conversation_for_everybody(store: SessionStore) -> None:
    from strands.types.session import SessionAgent

    repository = fill(store)
    repository.update_agent("thread-1", SessionAgent("default", {"n": 2}, {}))
    for number in (0, 4):
        found = repository.read_message("thread-1", "default", number)
        found.redact_message = {"role": "user", "content": [{"text": f"[redacted {number}]"}]}
        repository.update_message("thread-1", "default", found)
    said = said_in(repository)
    assert [said[0]["content"][0]["text"], said[4]["content"][0]["text"]] == [
        *("[redacted 0]", "[redacted 4]")
    ]
    assert said[1:4] == MESSAGES[1:4]
    assert repository.read_agent("thread-1", "default").state == {"n": 2}
    path = [r for r in store.read(SessionKey("main", "thread-1")) if isinstance(r, User)]
    assert "Look." not in [text_of(record.content) for record in path]


def test_what_another_program_wrote_is_a_message(store: SessionStore) -> None:
    from strands.types.session import SessionMessage

    repository = fill(store)
    key = SessionKey("main", "thread-1")
    call = {"type": "tool_use", "id": "c2", "name": "look", "input": {"where": "there"}}
    store.append(key, [User(content="Hello."), Assistant(content=[call])], expect=store.head(key))
    found = repository.list_messages("thread-1", "default")
    assert [m.message_id for m in found] == list(range(7))
    assert found[5].message == {"role": "user", "content": [{"text": "Hello."}]}
    assert found[6].message["content"][0]["toolUse"]["input"] == {"where": "there"}
    repository.create_message("thread-1", "default", SessionMessage.from_message(MESSAGES[0], 7))
    assert repository.read_message("thread-1", "default", 2).message == MESSAGES[2]
    assert repository.read_message("thread-1", "default", 5).message == found[5].message


def test_a_message_is_appended_without_reading_the_others(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    from strands.types.session import SessionMessage

    repository = fill(store)
    taken = 0
    back = store.back

    def count(key: Any, **about: Any) -> Any:
        nonlocal taken
        for record in back(key, **about):
            taken += 1
            yield record

    monkeypatch.setattr(store, "back", count)
    for number in range(5, 45):
        said = SessionMessage.from_message(MESSAGES[0], number)
        repository.create_message("thread-1", "default", said)
    assert taken <= 2 * 40


@pytest.mark.parametrize("delete", ["trash", "erase"])
def test_deleting_takes_the_agents_along(store: SessionStore, delete: Any) -> None:
    repository = fill(store, delete=delete)
    repository.delete_session("thread-1")
    assert repository.read_session("thread-1") is None
    assert repository.list_messages("thread-1", "other") == []
    assert len(list(store.trash())) == (2 if delete == "trash" else 0)


def test_refusals_are_errors_of_the_sdk(store: SessionStore) -> None:
    from strands.types.exceptions import SessionException
    from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

    repository = fill(store, owner="ann")
    message = SessionMessage.from_message(MESSAGES[0], 9)
    odd = SessionMessage.from_message({"role": "user", "content": [{"text": object()}]}, 9)
    refused: list[Any] = [
        lambda: repository.create_session(Session("thread-1", SessionType.AGENT)),
        lambda: repository.create_agent("thread-1", SessionAgent("default", {}, {})),
        lambda: repository.create_agent("none", SessionAgent("default", {}, {})),
        lambda: repository.update_agent("thread-1", SessionAgent("none", {}, {})),
        lambda: repository.create_message("thread-1", "none", message),
        lambda: repository.create_message("thread-1", "default", odd),
        lambda: repository.update_message("thread-1", "default", odd),
        lambda: repository.delete_session("none"),
        lambda: adapter.HoldfastSessionRepository(store=store).read_session("thread-1"),
    ]
    for call in refused:
        with pytest.raises(SessionException):
            call()
    assert said_in(repository) == MESSAGES
    for name in ("Größe / 漢字", "größe / 漢字", "x" * 5_000, "../../etc"):
        fill(store, name, owner="ann")
        assert len(repository.list_messages(name, "other")) == 5
    repository.close()
    with pytest.raises(RuntimeError, match="HoldfastSessionRepository is closed"):
        repository.read_session("thread-1")


def test_two_writers_with_one_number_keep_both_messages(
    store: SessionStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rival that writes between a writer's look at the log and its append."""
    from strands.types.session import SessionMessage

    repository = fill(store)
    rival: Any = adapter.HoldfastSessionRepository(store=store)
    append = store.append

    def append_late(*args: Any, **about: Any) -> Any:
        monkeypatch.setattr(store, "append", append)
        rival.create_message("thread-1", "default", SessionMessage.from_message(MESSAGES[0], 5))
        return append(*args, **about)

    monkeypatch.setattr(store, "append", append_late)
    late = SessionMessage.from_message(MESSAGES[1], 5)
    repository.create_message("thread-1", "default", late)
    assert late.message_id == 6  # the manager goes on from there
    rival.create_message("thread-1", "default", SessionMessage.from_message(MESSAGES[2], 2))
    found = repository.list_messages("thread-1", "default")
    assert [m.message_id for m in found] == [*range(8)]
    assert [m.message for m in found[5:]] == [MESSAGES[0], MESSAGES[1], MESSAGES[2]]


def test_a_message_that_is_written_again_is_stored_once(store: SessionStore) -> None:
    """As a caller does that does not know whether its first call was committed."""
    from strands.types.session import SessionMessage

    repository = fill(store)
    said = SessionMessage.from_message(MESSAGES[0], 5)
    for _attempt in range(3):
        repository.create_message("thread-1", "default", said)
    assert [m.message_id for m in repository.list_messages("thread-1", "default")] == [*range(6)]


def test_session_in_a_log_of_that_name_is_found(store: SessionStore) -> None:
    """The log of another program, without a session of Strands in its header, gets one."""
    from strands.types.session import Session, SessionType

    repository: Any = adapter.HoldfastSessionRepository(store=store)
    key = repository._home.ensure(("thread-1",))
    assert repository.read_session("thread-1") is None
    made = Session("thread-1", SessionType.AGENT)
    repository.create_session(made)
    assert repository.read_session("thread-1") == made
    assert [record.kind for record in store.read(key)] == ["session", "peer_state"]
