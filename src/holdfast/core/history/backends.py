"""Backends that keep conversations of their own, such as an agent's command line.

Each reply of such a backend names the backend's session in its record. The next turn resumes that
session, or starts another one and says why: a backend that was given another history, account,
model or system prompt would answer for another.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.records import (
    Assistant,
    Compaction,
    InjectedContext,
    Rewind,
    ToolResult,
    User,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Json, Record

BACKEND: Final = "backend"
"""The field of an assistant record that names the backend's session."""
FIRST: Final = "it is the first reply"
"""Why a session is started where there was none."""


class BackendIdentity(msgspec.Struct, frozen=True, kw_only=True):
    """Whom a backend's session is for. Each part is a name or a digest, never a secret."""

    command: str
    account: str = ""
    model: str = ""
    system: str = ""
    folder: str = ""


class Resume(msgspec.Struct, frozen=True):
    """Go on in a session of the backend."""

    session: str


class Start(msgspec.Struct, frozen=True):
    """Begin a session of the backend, for a reason that the log keeps."""

    reason: str


_CHANGES: Final = {
    "command": "another command answered before",
    "account": "the account changed",
    "model": "the model changed",
    "system": "the system prompt changed",
    "folder": "the working folder changed",
}


def choose_session(
    newest_first: Iterable[Record], log: str, identity: BackendIdentity
) -> Resume | Start:
    """Decide between resuming and starting, from the path of the session `log`."""
    for record in newest_first:
        if isinstance(record, Rewind):
            return Start("the conversation was rewound")
        if isinstance(record, Assistant):
            return _judge(record.extra.get(BACKEND), log, identity)
    return Start(FIRST)


def _judge(state: object, log: str, identity: BackendIdentity) -> Resume | Start:
    if not isinstance(state, dict):
        return Start("another model answered before")
    for name, reason in _CHANGES.items():
        if state.get(name, "") != getattr(identity, name):
            return Start(reason)
    if state.get("log") != log:
        return Start("the session is a copy of another one")
    session = state.get("session")
    if not isinstance(session, str) or not session:
        return Start("it keeps no session of its own")
    return Resume(session)


def state_of(session: str, log: str, identity: BackendIdentity, started: str) -> Json:
    """The field of a reply's record; `started` is the reason if a session was begun for it."""
    parts: Json = msgspec.to_builtins(identity)
    state = {"session": session, "log": log, **parts, "started": started}
    return {name: value for name, value in state.items() if value}


def before_newest(records: Sequence[Record]) -> list[Record]:
    """The records without the messages since the last reply, which the backend gets by
    themselves."""
    places = [at for at, rec in enumerate(records) if isinstance(rec, Assistant | ToolResult)]
    start = places[-1] + 1 if places else 0
    new = {rec.id for rec in records[start:] if isinstance(rec, User | InjectedContext)}
    kept = (rec for rec in records if rec.id not in new)
    return [_without(rec, new) if isinstance(rec, Compaction) else rec for rec in kept]


def _without(compaction: Compaction, ids: set[str]) -> Compaction:
    """A compaction without its copies of these messages."""
    kept = [copy for copy in compaction.turn or () if str(copy.get("id")) not in ids]
    return msgspec.structs.replace(compaction, turn=kept or None)
