"""Parameters that several operations or commands have: their help and their bounds."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from msgspec import Meta

from holdfast.core.limits import (
    EXCERPT_CHARS_MAX,
    EXCERPT_CHARS_MIN,
    HISTORY_LIMIT_MESSAGES_MAX,
    ID_CHARS_MAX,
    PATTERN_CHARS_MAX,
    RECALL_LIMIT_MAX,
    RECALL_QUERY_CHARS_MAX,
)
from holdfast.core.window import WINDOW

TEXT_CHARS_MAX: Final = 2_000
"""A statement; a longer text is a document, which belongs in a file."""
NOTE_CHARS_MAX: Final = 8_000
"""A note is one statement; some list the steps of a recipe."""
WINDOW_TOKENS_MAX: Final = 100_000_000
"""Fifty times the largest window there is."""
PAGE_ROWS_MAX: Final = 200
_LINES_CHARS_MAX: Final = 50
_OFFSET_MAX: Final = 2**53
"""The largest whole number that every client reads exactly."""

NAME_RULE: Final = Meta(
    min_length=1,
    max_length=ID_CHARS_MAX,
    # As text: msgspec would compile a pattern of its own at every start.
    extra_json_schema={"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$"},
)
Name = Annotated[str, NAME_RULE]
"""An id of an agent or a session. A door checks its characters, and so does the store."""
DaysInTrash = Annotated[
    float, Meta(description="Keep sessions that were removed within this many days.", ge=0)
]
RowCount = Annotated[int, Meta(description="The largest number of rows.", ge=1)]
PageLimit = Annotated[RowCount, Meta(le=PAGE_ROWS_MAX)]
NewId = Annotated[
    Name | None, Meta(description="The id of the new session; generated unless given.")
]
NewLabel = Annotated[
    str, Meta(description="The label of the new session: a name for people.", max_length=200)
]
OtherLabel = Annotated[
    str, Meta(description="The new label; an empty one removes it.", max_length=200)
]
RecordName = Annotated[str, Meta(min_length=1, max_length=200)]
RecordToRead = Annotated[
    RecordName, Meta(description="The id of the record, or a unique start of it.")
]
LastRecord = Annotated[
    RecordName | None, Meta(description="The last record that is copied; the newest unless given.")
]
ExpectedHead = Annotated[
    RecordName | None, Meta(description="Append only where this record is the head.")
]
NewHead = Annotated[RecordName | None, Meta(description="The record that becomes the head.")]
TurnCount = Annotated[
    int,
    Meta(description="The number of turns to go back, without a record.", ge=1, le=1_000),
]
SearchScope = Annotated[Literal["notes", "sessions", "all"], Meta(description="Where to search.")]
SessionName = Annotated[
    str, Meta(description="The session: its id, agent/id, its label, or `current`.")
]
AgentName = Annotated[
    str,
    Meta(
        description="The agent whose notes to use; the caller's unless given.",
        max_length=ID_CHARS_MAX,
        # As text: msgspec would compile a pattern of its own at every start.
        extra_json_schema={"pattern": "^([A-Za-z0-9][A-Za-z0-9_-]*)?$"},
    ),
]
RecallQuery = Annotated[
    str,
    Meta(
        description="A question, words, or an exact name or number.",
        min_length=1,
        max_length=RECALL_QUERY_CHARS_MAX,
    ),
]
Citation = Annotated[
    str,
    Meta(
        description="Such as 2026-11-16.md#L3-L9, a whole file such as MEMORY.md, or "
        "agent/session#record.",
        min_length=1,
        max_length=PATTERN_CHARS_MAX,
    ),
]
HitLimit = Annotated[
    int,
    Meta(
        description="The largest number of hits.",
        ge=1,
        le=RECALL_LIMIT_MAX,
    ),
]
MessageLimit = Annotated[
    int,
    Meta(
        description="The largest number of user and assistant messages.",
        ge=1,
        le=HISTORY_LIMIT_MESSAGES_MAX,
    ),
]
CharLimit = Annotated[
    int,
    Meta(
        description="The largest number of characters to show.",
        ge=EXCERPT_CHARS_MIN,
        le=EXCERPT_CHARS_MAX,
    ),
]
Offset = Annotated[
    Annotated[int, Meta(ge=0, le=_OFFSET_MAX)] | None,
    Meta(description="The first character to show, counting from 0. Not with lines."),
]
Lines = Annotated[
    Annotated[str, Meta(max_length=_LINES_CHARS_MAX)] | None,
    Meta(
        description='The lines, counting from 1: "120:180", "120:", ":50", or "-50:" for '
        "the last 50."
    ),
]
Pattern = Annotated[
    Annotated[str, Meta(max_length=PATTERN_CHARS_MAX)] | None,
    Meta(
        description="A regular expression: the lines that match, numbered, with two lines "
        "around each."
    ),
]
TokenCount = Annotated[int, Meta(ge=1, le=WINDOW_TOKENS_MAX)]
"""A number of tokens."""
WindowTokens = Annotated[TokenCount | None, WINDOW]
