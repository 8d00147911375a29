"""The parameters, bodies and answers of the routes of sessions."""

from __future__ import annotations

import base64
import binascii
from typing import Annotated, Literal

import msgspec

from holdfast.core.log.ids import SessionKey
from holdfast.core.text.typed import decode_typed
from holdfast.ports import SessionInfo
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import Given, HttpQuery, JsonBody, Name

Limit = Annotated[int, msgspec.Meta(ge=1, le=200)]
LabelText = Annotated[str, msgspec.Meta(max_length=200)]
RecordName = Annotated[str, msgspec.Meta(min_length=1, max_length=200)]

SessionState = Literal["idle", "running", "waiting"]


class SessionsQuery(HttpQuery, frozen=True):
    """The sessions to list."""

    agent: Name | None = None
    """Only sessions of this agent."""
    owner: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    """Only sessions of this owner; for an operator."""
    label: LabelText | None = None
    """Only sessions with this label."""
    q: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Words of the label or of the first message."""
    cursor: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    """The `nextCursor` of the page before."""
    limit: Limit = 50
    """The largest number of sessions on the page."""


class SessionRow(Given, frozen=True):
    """A session in a listing."""

    agent: str
    """The agent of the session."""
    id: str
    """The id of the session."""
    label: str
    """The name that a person gave it."""
    title: str
    """The first words a user said."""
    owner: str
    """The owner; empty where it has none."""
    created: float
    """The time it was made, in seconds since 1970."""
    last_active: float
    """The time of its newest record, in seconds since 1970."""
    records: int
    """Number of records."""
    messages: int
    """Number of messages."""
    bytes: int
    """The size of its log."""
    damaged: int
    """Number of damaged lines."""
    state: SessionState
    """`running` while a message is answered, `waiting` while one waits."""
    waiting: int
    """Number of messages that wait."""
    parent: str | None = None
    """The session it is a copy of."""
    reason: str | None = None
    """The reason that it was made from another one."""


class SessionsPage(Given, frozen=True):
    """Sessions, the most recently active first."""

    sessions: list[SessionRow]
    """The sessions of this page."""
    next_cursor: str | None = None
    """For the next page; null at the end."""


class NewSession(JsonBody, frozen=True):
    """A session to make."""

    id: Name | None = None
    """Empty for a new id."""
    agent: Name = "main"
    """The agent of the session."""
    label: LabelText = ""
    """A name for people."""
    owner: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """The owner; an operator may name any, others only themselves."""


class Labelled(JsonBody, frozen=True):
    """A new label."""

    label: LabelText
    """The new label; an empty one removes it."""


class ForkBody(JsonBody, frozen=True):
    """The place of the fork, and the name of the copy."""

    at: RecordName | None = None
    """The last record that is copied; the newest by default."""
    id: Name | None = None
    """The id of the copy; a new one by default."""
    label: LabelText = ""
    """The label of the copy."""


class RewindBody(JsonBody, frozen=True):
    """The place to go back to."""

    to: RecordName | None = None
    """The record that becomes the head."""
    turns: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1
    """Number of turns to go back, without `to`."""


class UndoBody(JsonBody, frozen=True):
    """The change to undo; the newest by default."""

    record: RecordName | None = None
    """The record of the change."""


class Removed(Given, frozen=True):
    """A session in the trash."""

    name: str
    """For `restore`."""
    agent: str
    """The agent of the session."""
    id: str
    """The id of the session."""
    removed: float
    """The time it was removed, in seconds since 1970."""


class Trash(Given, frozen=True):
    """The trash, the newest first."""

    removed: list[Removed]
    """The sessions in it."""


class RewoundTo(Given, frozen=True):
    """The head after a rewind or an undo."""

    head: str
    """The record that is the head now."""
    detail: str
    """The change, in a sentence."""


def write_cursor(info: SessionInfo) -> str:
    """Return the place after a session in the listing."""
    return _cursor_at(info.last_active, info.key.agent, info.key.session)


def cursor_after(row: SessionRow) -> str:
    """Return the place after a session as it was listed, also where it has changed since."""
    return _cursor_at(row.last_active, row.agent, row.id)


def _cursor_at(last_active: float, agent: str, session: str) -> str:
    place = msgspec.json.encode([last_active, agent, session])
    return base64.urlsafe_b64encode(place).decode().rstrip("=")


def read_cursor(cursor: str) -> SessionInfo:
    """Return the session that a page ended with, as far as the next one needs it."""
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        active, agent, session = decode_typed(data, tuple[float, str, str])
    except (ValueError, binascii.Error, msgspec.DecodeError) as error:
        raise Problem(
            400,
            "the cursor is not one of ours",
            hint="pass `nextCursor` of the page before as it is, or begin without a cursor",
        ) from error
    return SessionInfo(
        key=SessionKey(agent, session),
        label="",
        title="",
        created=0,
        last_active=active,
        records=0,
        messages=0,
        bytes=0,
        head="",
        damaged=0,
    )
