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
    owner: Annotated[str, msgspec.Meta(max_length=200)] | None = None
    """Only sessions of this owner; for an operator."""
    label: LabelText | None = None
    q: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """Words of the label or of the first message."""
    cursor: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    limit: Limit = 50


class SessionRow(Given, frozen=True):
    """A session in a listing."""

    agent: str
    id: str
    label: str
    title: str
    """The first words a user said."""
    owner: str
    created: float
    last_active: float
    records: int
    messages: int
    bytes: int
    damaged: int
    state: SessionState
    waiting: int
    parent: str | None = None
    reason: str | None = None


class SessionsPage(Given, frozen=True):
    """Sessions, the most recently active first."""

    sessions: list[SessionRow]
    next_cursor: str | None = None
    """For the next page; null at the end."""


class NewSession(JsonBody, frozen=True):
    """A session to make."""

    id: Name | None = None
    """Empty for a new id."""
    agent: Name = "main"
    label: LabelText = ""
    owner: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """The owner; an operator may name any, others only themselves."""


class Labelled(JsonBody, frozen=True):
    """A new label."""

    label: LabelText


class ForkBody(JsonBody, frozen=True):
    """The place of the fork, and the name of the copy."""

    at: RecordName | None = None
    """The last record that is copied; the newest by default."""
    id: Name | None = None
    label: LabelText = ""


class RewindBody(JsonBody, frozen=True):
    """The place to go back to."""

    to: RecordName | None = None
    turns: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1


class UndoBody(JsonBody, frozen=True):
    """The change to undo; the newest by default."""

    record: RecordName | None = None


class Removed(Given, frozen=True):
    """A session in the trash."""

    name: str
    """For `restore`."""
    agent: str
    id: str
    removed: float


class Trash(Given, frozen=True):
    """The trash, the newest first."""

    removed: list[Removed]


class RewoundTo(Given, frozen=True):
    """The head after a rewind or an undo."""

    head: str
    detail: str


class HistoryQuery(HttpQuery, frozen=True):
    """The messages to show."""

    limit: Annotated[int, msgspec.Meta(ge=1, le=200)] = 20
    include_tools: bool = False
    query: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    cursor: Annotated[str, msgspec.Meta(max_length=1_000)] = ""
    around: Annotated[str, msgspec.Meta(max_length=200)] = ""


def write_cursor(info: SessionInfo) -> str:
    """Return the place after a session in the listing."""
    place = msgspec.json.encode([info.last_active, info.key.agent, info.key.session])
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
