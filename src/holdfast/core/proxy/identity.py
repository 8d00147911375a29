"""The session that a request belongs to, as far as the client itself says.

The terms of requests come with every call, and are logged where they change. Two histories with
other beginnings may be one conversation.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.common.values import as_dict
from holdfast.core.log.records import ModelChange, text_of
from holdfast.core.models.messages import read_tools
from holdfast.core.proxy.branches import CHAIN_FIELD
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from holdfast.core.log.records import Assistant, Json, Record
    from holdfast.core.models.messages import Tool


REQUEST_FIELD: Final = "request"
"""The field of a `model` record that holds the terms which changed, as the client sent them."""


def text_of_system(value: object) -> str:
    """The text of a system prompt: a string, blocks, or a content of Gemini's."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        parts = value.get("parts")
        value = parts if isinstance(parts, list) else [parts]
    blocks = value if isinstance(value, list) else ()
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def is_proxied(records: Iterable[Record]) -> bool:
    """True where the proxy logged some of the records."""
    return any(CHAIN_FIELD in record.extra for record in records)


def newest_terms(newest: Iterable[Record]) -> tuple[str, tuple[Tool, ...]]:
    """The system prompt and the tools of the last request on a path; shown the path backwards.

    Reads no further than to the records that state both.
    """
    terms: Json = {}
    for record in newest:
        if isinstance(record, ModelChange):
            changed = record.extra.get(REQUEST_FIELD)
            terms = {**(changed if isinstance(changed, dict) else {}), **terms}
            if "tools" in terms and ("system" in terms or "instructions" in terms):
                break
    system = terms.get("system", terms.get("instructions"))
    return text_of_system(system), read_tools(terms.get("tools"))


_ID_CHARS_MIN: Final = 8
"""A shorter id of a call is a counter, which other conversations have, too."""
_REPLIES_MIN: Final = 3
_CHARS_MIN: Final = 200
"""So many equal replies, with so much text, tell a conversation where its calls have no ids."""
_PLAIN: Final = lazy_pattern(r"[^a-z0-9]+|functions?|tooluse|toolu|tool|call")


def is_one_conversation(logged: Sequence[Assistant], sent: Sequence[Assistant]) -> bool:
    """Return whether replies that begin alike are of one conversation. The ids of calls decide
    where both have some that no counter made."""
    ours, theirs = _call_ids(logged), _call_ids(sent)
    if ours and theirs:
        return not ours.isdisjoint(theirs)
    known = {_words(reply) for reply in logged}
    return _are_telling([words for reply in sent if (words := _words(reply)) in known])


def can_be_known(sent: Sequence[Assistant]) -> bool:
    """Return whether a conversation can be told by its replies: others need not be looked at."""
    return bool(_call_ids(sent)) or _are_telling([_words(reply) for reply in sent])


def _are_telling(words: Sequence[str]) -> bool:
    return len(words) >= _REPLIES_MIN and sum(map(len, set(words))) >= _CHARS_MIN


def _call_ids(replies: Iterable[Assistant]) -> set[str]:
    """The ids of calls, as far as every client spells them alike."""
    found = set[str]()
    for reply in replies:
        for block in reply.content if isinstance(reply.content, list) else ():
            given, name = block.get("id"), block.get("name")
            if block.get("type") == "tool_use" and isinstance(given, str):
                bare = _PLAIN.sub("", given.casefold())
                named = _PLAIN.sub("", name.casefold()) if isinstance(name, str) else ""
                bare = bare.replace(named, "") if named else bare
                if len(bare) >= _ID_CHARS_MIN:
                    found.add(bare)
    return found


def _words(reply: Assistant) -> str:
    return re.sub(r"\s+", " ", text_of(reply.content)).strip()


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
    user_id = _text(as_dict(body.get("metadata")).get("user_id"))
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
        return _text(as_dict(found).get("session_id"))
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


def _text(value: Any) -> str:
    return value.strip() if isinstance(value, str) else ""
