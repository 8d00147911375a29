"""`HoldfastSessionRepository`: a session repository of Strands.

A session has one log of its own, and each of its agents one beside it: the messages of an agent
are records, and so are its state and every change of either, in the order they were made.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine.adapters import require
from holdfast.integrations.common.home import PeerHome
from holdfast.integrations.strands.agent_logs import (
    AgentLogs,
    explaining,
    problem,
    state_record,
)

if TYPE_CHECKING:
    from holdfast.integrations.common.home import Delete
    from holdfast.integrations.common.names import PeerName
    from holdfast.ports import SessionStore

_DEFAULT_AGENT: Final = "default"
"""The agent of a program that names none. Its messages are in the log of the session itself, so
that every other surface finds them by the name of the session."""


class SessionMethods:
    """The sessions of a repository, and the groups of agents in them."""

    def __init__(
        self,
        *,
        root: str | None = None,
        store: SessionStore | None = None,
        agent: str | None = None,
        owner: str = "",
        delete: Delete = "trash",
    ) -> None:
        self._home = PeerHome(
            "HoldfastSessionRepository",
            root=root,
            store=store,
            agent=agent,
            owner=owner,
            delete=delete,
        )
        self._logs = AgentLogs(self._home)
        self._agents: dict[tuple[str, str], str] = {}
        """The agents that were seen here, with the time each was made: a message is appended
        without a look at what is before it."""

    def create_session(self, session: Any, **_options: Any) -> Any:
        """Make a session. Raises `SessionException` where there is one of that name."""
        if self.read_session(session.session_id) is not None:
            raise problem(f"Session {session.session_id} already exists")
        self._logs.create_session((session.session_id,), session.to_dict())
        return session

    def read_session(self, session_id: str, **_options: Any) -> Any:
        """Return a session; None where there is none."""
        return self._logs.read_session((session_id,))

    def delete_session(self, session_id: str, **_options: Any) -> None:
        """Delete a session with all its agents. Raises `SessionException` where there is none."""
        self._check_session(session_id)
        self._agents.clear()
        with explaining():
            for name, key in list(self._home.names()):
                if name[0] == session_id and len(name) <= 2:
                    self._home.remove(key)

    def create_multi_agent(self, session_id: str, multi_agent: Any, **_options: Any) -> None:
        """Store the state of a group of agents."""
        self._check_session(session_id)
        state = state_record(f"multi_agent {multi_agent.id}", multi_agent.serialize_state())
        self._logs.append((session_id,), [state])

    def read_multi_agent(
        self, session_id: str, multi_agent_id: str, **_options: Any
    ) -> dict[str, Any] | None:
        """Return the state of a group of agents; None where there is none."""
        state: dict[str, Any] | None = self._logs.read_state(
            (session_id,), f"multi_agent {multi_agent_id}", dict
        )
        return state

    def update_multi_agent(self, session_id: str, multi_agent: Any, **_options: Any) -> None:
        """Store the state of a group of agents again. Raises `SessionException` for a new one."""
        if self.read_multi_agent(session_id, multi_agent.id) is None:
            raise problem(
                f"MultiAgent state {multi_agent.id} in session {session_id} does not exist"
            )
        self.create_multi_agent(session_id, multi_agent)

    def close(self) -> None:
        """Release the store. Using the repository afterwards is a `RuntimeError`."""
        self._home.close()

    def _check_session(self, session_id: str) -> None:
        if self.read_session(session_id) is None:
            raise problem(f"Session {session_id} does not exist")


class RepositoryMethods(SessionMethods):
    """Keeps sessions, agents and their messages in any store. A `SessionRepository` of Strands.

    `root` is the address of a store, `store` an open one. A deleted session is in the trash; with
    `delete="erase"` it is gone, with everything made from it.
    """

    def create_agent(self, session_id: str, session_agent: Any, **_options: Any) -> None:
        """Make an agent of a session. Raises `SessionException` where there is one already."""
        self._check_session(session_id)
        if self._agent(session_id, session_agent.agent_id) is not None:
            raise problem(f"Agent {session_agent.agent_id} already exists in session {session_id}")
        self._put_agent(session_id, session_agent)

    def read_agent(self, session_id: str, agent_id: str, **_options: Any) -> Any:
        """Return an agent of a session; None where there is none."""
        return self._agent(session_id, agent_id)

    def update_agent(self, session_id: str, session_agent: Any, **_options: Any) -> None:
        """Store the state of an agent. Raises `SessionException` where there is no such agent."""
        session_agent.created_at = self._check_agent(session_id, session_agent.agent_id)
        self._put_agent(session_id, session_agent)

    def create_message(
        self, session_id: str, agent_id: str, session_message: Any, **_options: Any
    ) -> None:
        """Store a message durably. One whose number another writer took gets the next number."""
        name = _name_of(session_id, agent_id)
        if not self._logs.append_next(name, session_message):
            self._check_agent(session_id, agent_id)
            self._logs.append_message(name, session_message)

    def read_message(self, session_id: str, agent_id: str, message_id: int, **_options: Any) -> Any:
        """Return a message by its number; None where there is none."""
        return self._logs.find_message(_name_of(session_id, agent_id), message_id)

    def update_message(
        self, session_id: str, agent_id: str, session_message: Any, **_options: Any
    ) -> None:
        """Put a message in the place of that with its number; the log keeps the old one, on a
        branch."""
        name = _name_of(session_id, agent_id)
        before = self._logs.find_message(name, session_message.message_id)
        if before is None:
            raise problem(f"Message {session_message.message_id} does not exist")
        session_message.created_at = before.created_at
        with explaining():
            while not self._logs.replace(name, session_message):
                pass  # another writer was faster

    def list_messages(
        self,
        session_id: str,
        agent_id: str,
        limit: int | None = None,
        offset: int = 0,
        **_options: Any,
    ) -> list[Any]:
        """Return the messages of an agent in their order, from `offset` on, at most `limit`."""
        found = self._logs.read_messages(_name_of(session_id, agent_id))
        return found[offset:] if limit is None else found[offset : offset + limit]

    def _check_agent(self, session_id: str, agent_id: str) -> str:
        """Return the time at which an agent was made. Raises `SessionException`."""
        made = self._agents.get((session_id, agent_id))
        with explaining():
            if made is not None and self._home.exists(
                self._home.key_for(_name_of(session_id, agent_id))
            ):
                return made
        found = self._agent(session_id, agent_id)
        if found is None:
            raise problem(f"Agent {agent_id} in session {session_id} does not exist")
        return str(found.created_at)

    def _agent(self, session_id: str, agent_id: str) -> Any:
        from strands.types.session import SessionAgent

        name = _name_of(session_id, agent_id)
        found = self._logs.read_state(name, "agent", SessionAgent.from_dict)
        if found is not None:
            self._agents[session_id, agent_id] = found.created_at
        return found

    def _put_agent(self, session_id: str, session_agent: Any) -> None:
        state = state_record("agent", session_agent.to_dict())
        self._logs.append(_name_of(session_id, session_agent.agent_id), [state])


@cache
def repository_class() -> type:
    """Return `HoldfastSessionRepository`, made on first use."""
    require("strands")
    from strands.session.session_repository import SessionRepository

    return type(
        "HoldfastSessionRepository",
        (RepositoryMethods, SessionRepository),
        {"__doc__": RepositoryMethods.__doc__, "__module__": "holdfast.integrations.strands"},
    )


def _name_of(session_id: str, agent_id: str) -> PeerName:
    return (session_id,) if agent_id == _DEFAULT_AGENT else (session_id, agent_id)
