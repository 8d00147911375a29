"""Appends through the adapters: they read nothing that is known, and trust the log alone."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, Protocol

import pytest

from holdfast.core.log.batch import new_header
from holdfast.core.log.records import User
from holdfast.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.core.log.ids import SessionKey
    from holdfast.ports import SessionStore

NAME: Final = "thread-1"
OTHER_OWNER: Final = "bob"


class Writer(Protocol):
    """A session, as a program uses it through its framework."""

    key: SessionKey

    def append(self, text: str) -> None: ...
    def texts(self) -> str: ...


class OpenAIWriter:
    def __init__(self, store: SessionStore) -> None:
        from holdfast.integrations.openai_agents import HoldfastSession

        self._session = HoldfastSession(NAME, store=store)
        self.key = self._session.key

    def append(self, text: str) -> None:
        asyncio.run(self._session.add_items([{"role": "user", "content": text}]))

    def texts(self) -> str:
        return repr(asyncio.run(self._session.get_items()))


class ChatHistoryWriter:
    def __init__(self, store: SessionStore) -> None:
        from holdfast.integrations.langchain import HoldfastChatMessageHistory

        self._history = HoldfastChatMessageHistory(NAME, store=store)
        self.key = self._history.key

    def append(self, text: str) -> None:
        from langchain_core.messages import HumanMessage

        self._history.add_messages([HumanMessage(text)])

    def texts(self) -> str:
        return repr(self._history.messages)


class SaverWriter:
    def __init__(self, store: SessionStore) -> None:
        from holdfast.integrations.langgraph import HoldfastSaver

        self._saver: Any = HoldfastSaver(store=store)
        self.key = self._saver._home.key_for((NAME,))
        self._config: Any = {"configurable": {"thread_id": NAME, "checkpoint_ns": ""}}
        self._messages: list[Any] = []

    def append(self, text: str) -> None:
        from langchain_core.messages import HumanMessage
        from langgraph.checkpoint.base import empty_checkpoint

        self._messages.append(HumanMessage(text))
        checkpoint = empty_checkpoint()
        versions = {"messages": self._saver.get_next_version(None, None)}
        values = {"messages": list(self._messages)}
        checkpoint = {**checkpoint, "channel_values": values, "channel_versions": versions}
        self._config = self._saver.put(self._config, checkpoint, {}, versions)
        self._saver.put_writes(self._config, [("messages", text)], task_id=text)

    def texts(self) -> str:
        return repr([repr(found) for found in self._saver.list(None)])


class StrandsWriter:
    def __init__(self, store: SessionStore) -> None:
        from holdfast.integrations.strands import HoldfastSessionRepository

        self._repository: Any = HoldfastSessionRepository(store=store)
        self.key = self._repository._home.key_for((NAME,))
        self._number = -1

    def append(self, text: str) -> None:
        from strands.types.exceptions import SessionException
        from strands.types.session import Session, SessionAgent, SessionMessage, SessionType

        message: Any = {"role": "user", "content": [{"text": text}]}
        self._number += 1
        made = SessionMessage.from_message(message, self._number)
        try:
            self._repository.create_message(NAME, "default", made)
        except SessionException as error:
            if "does not exist" not in str(error):
                raise
            self._repository.create_session(Session(NAME, SessionType.AGENT))
            agent = SessionAgent(agent_id="default", state={}, conversation_manager_state={})
            self._repository.create_agent(NAME, agent)
            self._repository.create_message(NAME, "default", made)
        self._number = made.message_id

    def texts(self) -> str:
        return repr(self._repository.list_messages(NAME, "default"))


class StorageWriter:
    def __init__(self, store: SessionStore) -> None:
        from holdfast.integrations.strands import HoldfastStorage

        self._storage = HoldfastStorage(store=store)
        self.key = self._storage._home.key_for(("strands storage", "notes/a"))
        self._text = ""

    def append(self, text: str) -> None:
        self._text += f"{text} "
        asyncio.run(self._storage.write("notes/a", self._text.encode()))

    def texts(self) -> str:
        return repr(asyncio.run(self._storage.read("notes/a")))


class PydanticWriter:
    def __init__(self, store: SessionStore) -> None:
        from holdfast.integrations.pydantic_ai import HoldfastConversationStore

        self._store: Any = HoldfastConversationStore(store=store)
        self.key = self._store.key_for(NAME)
        self._held: Any = None

    def append(self, text: str) -> None:
        from pydantic_ai.conversation import Conversation
        from pydantic_ai.conversation_store import ConversationConflict
        from pydantic_ai.messages import ModelRequest, UserPromptPart

        while True:
            self._held = self._held or asyncio.run(self._store.load(NAME))
            self._held = self._held or Conversation(conversation_id=NAME)
            self._held.messages.append(ModelRequest(parts=[UserPromptPart(text)]))
            try:
                asyncio.run(self._store.save(self._held))
            except ConversationConflict:
                self._held = None
            else:
                return

    def texts(self) -> str:
        return repr(asyncio.run(self._store.load(NAME)))


class ServiceWriter:
    def __init__(self, store: SessionStore) -> None:
        from holdfast.integrations.google_adk import HoldfastSessionService

        self._service: Any = HoldfastSessionService(store=store)
        self._about: Any = {"app_name": "app", "user_id": "ann", "session_id": NAME}
        self.key = self._service.key_for(**self._about)
        self._held: Any = None

    def append(self, text: str) -> None:
        from google.adk.errors.session_not_found_error import SessionNotFoundError

        if self._held is None:
            self._held = self._open()
        try:
            asyncio.run(self._service.append_event(self._held, self._event(text)))
        except SessionNotFoundError:
            self._held = self._open()
            asyncio.run(self._service.append_event(self._held, self._event(text)))

    def _event(self, text: str) -> Any:
        from google.adk.events.event import Event
        from google.genai import types

        return Event(author="user", content=types.Content(parts=[types.Part(text=text)]))

    def _open(self) -> Any:
        found = asyncio.run(self._service.get_session(**self._about))
        return found or asyncio.run(self._service.create_session(**self._about))

    def texts(self) -> str:
        return repr(asyncio.run(self._service.get_session(**self._about)))


class TranscriptWriter:
    def __init__(self, store: SessionStore) -> None:
        from holdfast.integrations.claude_agent import HoldfastSessionStore

        self._store = HoldfastSessionStore(store=store)
        self._key: Any = {"project_key": "p", "session_id": NAME}
        self.key = self._store.key_for(self._key)

    def append(self, text: str) -> None:
        message = {"role": "user", "content": text}
        line = {"type": "user", "uuid": f"u-{text}", "sessionId": NAME, "message": message}
        asyncio.run(self._store.append(self._key, [line]))

    def texts(self) -> str:
        return repr(asyncio.run(self._store.load(self._key)))


WRITERS: Final[dict[str, tuple[str, Callable[[SessionStore], Writer]]]] = {
    "openai_agents": ("agents", OpenAIWriter),
    "langchain": ("langchain_core", ChatHistoryWriter),
    "langgraph": ("langgraph", SaverWriter),
    "strands": ("strands", StrandsWriter),
    "strands storage": ("strands", StorageWriter),
    "pydantic_ai": ("pydantic_ai", PydanticWriter),
    "google_adk": ("google", ServiceWriter),
    "claude_agent": ("claude_agent_sdk", TranscriptWriter),
}
LOOKS: Final = {"pydantic_ai": 1}
"""Times that a log is opened in an append: the framework itself asks for the revision first."""


@pytest.fixture(params=WRITERS)
def open_writer(request: pytest.FixtureRequest) -> Callable[[SessionStore], Writer]:
    package, make = WRITERS[request.param]
    if find_spec(package) is None:
        pytest.skip(f"needs the package {package}: `make peers` has it")
    return make


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
    assert len(opened) == 5 * looks
    assert all(f"after-{number}" in writer.texts() for number in range(5))


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
