"""Tell the user's words and the assistant's answers from everything else, by record type.

A note that a program put in, a summary, a checkpoint: none of them is anybody's words, and none of
them is recognised by its text. Where an application had to put context in front of a prompt, it
keeps the prompt itself in the record's `original_prompt`, and that is what was said.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.log.records import Assistant, User, text_of
from holdfast.core.text.cut import scrub

if TYPE_CHECKING:
    from holdfast.core.log.records import Record

META: Final = "meta"
"""The field of a `user` record that is true where a program wrote all of it."""
ORIGINAL_PROMPT: Final = "original_prompt"
"""The field of a `user` record that holds the user's own words, where a program put more around
them."""
CLIENT_SUMMARY: Final = "client_summary"
"""The field of a `user` record in which a client goes on from a summary of its own model: that
summary, without what the client writes around it."""
SILENT_FIELDS: Final = frozenset(("chain", "terms", "response", "wire", "round"))
"""Fields of a message that the proxy keeps for itself: they say nothing beside its content."""


def is_from_program(record: User) -> bool:
    """Return whether a program wrote all of a user message."""
    return record.extra.get(META) is True


def client_summary(record: User) -> str:
    """The summary that a client goes on from in a message; empty where it holds none."""
    found = record.extra.get(CLIENT_SUMMARY)
    return scrub(found).strip() if isinstance(found, str) else ""


def user_text(record: Record) -> str:
    """The user's own words in a record; empty where there are none."""
    if not isinstance(record, User) or is_from_program(record):
        return ""
    original = record.extra.get(ORIGINAL_PROMPT)
    return scrub(original if isinstance(original, str) else text_of(record.content)).strip()


def assistant_text(record: Record) -> str:
    """The assistant's text in a record; empty where it only called tools."""
    if not isinstance(record, Assistant):
        return ""
    return scrub(text_of(record.content)).strip()
