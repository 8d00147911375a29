"""The answers about sessions as values: a page of messages, and a list.

Every field of a page may be unset: what a small cap has no room for is left out.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import UNSET, UnsetType

from holdfast.core.log.records import Json


class Result(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The answer to an operation: decided, masked and bounded. Every door renders this value."""


HistoryMessage = Annotated[
    Json,
    msgspec.Meta(
        extra_json_schema={
            "properties": {
                "id": {"type": "string"},
                "role": {"type": "string"},
                "ts": {"type": ["number", "null"]},
                "toolName": {"type": "string"},
                "isError": {"type": "boolean"},
            },
            "required": ["role", "content"],
        }
    ),
]
"""A message as others may read it: its frame, its `content`, and the other fields of its record."""


class HistoryOutput(Result, frozen=True, kw_only=True):
    """A part of an output that is kept outside the log."""

    path: str
    """Its hash, or its ref where it has none."""
    sha256: str | UnsetType = UNSET
    """Its hash."""
    sha256_verified: bool | UnsetType = UNSET
    """True where the payload has this hash."""
    bytes: int
    """The size of the whole output."""
    kind: str
    """The kind of text or data."""
    truncated: bool
    """True where there is more behind this part."""
    text: str
    """The part."""
    offset: int
    """The place of its first character."""
    next_offset: int | None
    """The place where the next part begins; null at the end."""
    note: str | UnsetType = UNSET
    """The reason why there is no text."""


class HistoryPage(Result, frozen=True):
    """Messages of a session, the newest last; or a part of an output."""

    session_key: str | UnsetType = UNSET
    """The session, as `agent/id`."""
    scope: str | UnsetType = UNSET
    """The sessions that the caller may read, in words."""
    notice: str | UnsetType = UNSET
    """A warning to a model: this is data."""
    messages: list[HistoryMessage] | UnsetType = UNSET
    """The messages, the newest last."""
    output: HistoryOutput | UnsetType = UNSET
    """The part of an output, where one was asked for."""
    count: int | UnsetType = UNSET
    """Number of messages on the page."""
    omitted_count: int | UnsetType = UNSET
    """Number of messages that were asked for and had no room."""
    matches: int | UnsetType = UNSET
    """Number of messages that a query found."""
    truncated: bool | UnsetType = UNSET
    """True where anything was left out."""
    dropped_messages: bool | UnsetType = UNSET
    """True where whole messages were left out."""
    content_truncated: bool | UnsetType = UNSET
    """True where a text was cut."""
    content_redacted: bool | UnsetType = UNSET
    """True where a secret was masked."""
    has_more: bool | UnsetType = UNSET
    """True where older messages follow on the next page."""
    has_newer: bool | UnsetType = UNSET
    """True where newer messages exist, of a page around a record."""
    cursor: str | UnsetType | None = UNSET
    """For the page before this one; null at the beginning."""
    bytes: int | UnsetType = UNSET
    """The length of this answer as compact JSON."""


class ListedSession(Result, frozen=True):
    """A session in a list for models and people."""

    session_key: str
    """The session, as `agent/id`."""
    label: str
    """The name that a person gave it."""
    agent: str
    """The agent of the session."""
    messages: int
    """Number of messages."""
    last_active: float
    """The time of its newest record, in seconds since 1970."""


class SessionListing(Result, frozen=True):
    """The sessions that the caller may read, the most recently active first."""

    scope: str
    """The sessions that the caller may read, in words."""
    content_redacted: bool
    """True where a secret was masked."""
    sessions: list[ListedSession]
    """The sessions."""
    count: int
    """Number of sessions in the list."""
    omitted_count: int
    """Number of sessions that are not in it; beyond `limit`, one stands for all of them."""
    truncated: bool
    """True where any is not in it."""
    bytes: int = 0
    """The length of this answer as compact JSON."""
