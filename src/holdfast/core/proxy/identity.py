"""The session that a request belongs to, as far as the client itself says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.log.records import Json

SESSION_HEADER: Final = "x-holdfast-session"
"""The header by which a client names its session."""
_ID_HEADERS: Final = ("x-claude-code-session-id", "thread-id", "session-id", "x-session-id")
"""Of Claude Code, Codex (its thread outlives its session), and opencode."""
_AGENT_HEADER: Final = "x-claude-code-agent-id"
_USER_SESSION: Final = lazy_pattern(r"_session_([0-9a-fA-F-]{36})$")
_BILLING: Final = "x-anthropic-billing-header"
"""The block of Claude Code's system prompt that changes with the conversation."""


class ClientId(msgspec.Struct, frozen=True):
    """The ids that a client sends with a request."""

    session: str = ""
    """An id that means one conversation; empty where there is none."""
    agent: str = ""
    """The sub-agent within it."""
    is_named: bool = False
    """True where the session was named for the proxy, and not for the provider."""
    scope: str = ""
    """A word that requests of several conversations may share, such as a cache key."""
    previous: str = ""
    """The response that this request goes on from, where the provider keeps the history."""


def find_client_id(headers: Mapping[str, str], body: Json, path_session: str = "") -> ClientId:
    """Find the client's own ids. `headers` have small names."""
    named = path_session or headers.get(SESSION_HEADER, "").strip()
    previous = _text(body.get("previous_response_id"))
    if named:
        return ClientId(named, is_named=True, previous=previous)
    user_id = _text(_mapping(body.get("metadata")).get("user_id"))
    session = next((headers[name].strip() for name in _ID_HEADERS if headers.get(name)), "")
    session = session or _session_in(user_id)
    if session:
        agent = headers.get(_AGENT_HEADER, "").strip()
        return ClientId(session, agent, previous=previous)
    scope = _text(body.get("prompt_cache_key")) or user_id
    return ClientId(scope=scope, previous=previous)


def _session_in(user_id: str) -> str:
    """Claude Code's `metadata.user_id` holds the session, as JSON or at its end."""
    if user_id.startswith("{"):
        try:
            found = msgspec.json.decode(user_id)
        except (msgspec.DecodeError, UnicodeError, RecursionError):
            return ""
        return _text(_mapping(found).get("session_id"))
    ending = _USER_SESSION.search(user_id[-200:])
    return ending[1] if ending else ""


def session_name(client: ClientId, opening: str) -> str:
    """The name of the session for a client's id, or for the digest of an opening."""
    name = client.session if client.is_named else f"proxy-{client.session or opening}"
    return f"{name}-agent-{client.agent}" if client.agent else name


def stable_system(system: str) -> str:
    """A system prompt without the lines that a client changes with every conversation."""
    lines = (line for line in system.split("\n") if not line.startswith(_BILLING))
    return "\n".join(lines)


def _mapping(value: object) -> Json:
    return value if isinstance(value, dict) else {}


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
