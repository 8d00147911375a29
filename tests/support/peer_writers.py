"""A conversation as a program has it through each adapter, for tests over all of them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from tests.support import peers

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.ports import SessionStore

NAME: Final = "thread-1"


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


class ProviderWriter:
    def __init__(self, store: SessionStore) -> None:
        from holdfast.integrations.agent_framework import HoldfastHistoryProvider

        self._provider: Any = HoldfastHistoryProvider(store=store)
        self.key = self._provider.key_for(NAME)

    def append(self, text: str) -> None:
        from agent_framework import Message

        asyncio.run(self._provider.save_messages(NAME, [Message("user", [text], message_id=text)]))

    def texts(self) -> str:
        found = asyncio.run(self._provider.get_messages(NAME))
        return repr([message.to_dict() for message in found])


OPENERS: Final[dict[str, tuple[str, Callable[[SessionStore], Writer]]]] = {
    "agent_framework": ("agent-framework-core", ProviderWriter),
    "openai_agents": ("openai-agents", OpenAIWriter),
    "langchain": ("langchain", ChatHistoryWriter),
    "langgraph": ("langgraph-checkpoint", SaverWriter),
    "strands": ("strands-agents", StrandsWriter),
    "strands storage": ("strands-agents", StorageWriter),
    "pydantic_ai": ("pydantic-ai-slim", PydanticWriter),
    "google_adk": ("google-adk", ServiceWriter),
    "claude_agent": ("claude-agent-sdk", TranscriptWriter),
}


def opener(name: str) -> Callable[[SessionStore], Writer]:
    """Return what opens a conversation through an adapter. Skips where its framework is missing."""
    package, make = OPENERS[name]
    peers.needs(package)
    return make
