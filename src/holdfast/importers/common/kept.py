"""The messages that another tool's compaction kept, as a boundary of ours keeps them.

A tool keeps the newest part of a conversation, or some messages out of all of it. The first is a
place in the log (`first_kept`), the second a list of messages (`turn`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.log.records import User, text_of, to_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.importers.common.base import Draft


def keep_from(draft: Draft, place: int) -> str | None:
    """The id of the record at `place`, with which the kept part begins; None where it is empty."""
    if place >= len(draft.records):
        return None
    record = draft.records[place]
    if not record.id:
        record = msgspec.structs.replace(record, id=f"kept-{place}")
        draft.records[place] = record
    return record.id


def keep_users(draft: Draft, texts: Sequence[str]) -> list[Json] | None:
    """The user messages with these texts, oldest first, as the log has them; None for none.

    A text that no message has, because the tool had shortened it, stands for itself.
    """
    kept: list[Json] = []
    end = len(draft.records)
    for number, text in enumerate(reversed(texts)):
        places = range(end - 1, -1, -1)
        place = next((at for at in places if _says(draft, at, text)), None)
        if place is None:
            made = User(content=text, id=f"kept-{len(draft.records)}-{number}")
            kept.append(to_json(made))
        else:
            keep_from(draft, place)
            kept.append(to_json(draft.records[place]))
            end = place
    return kept[::-1] or None


def _says(draft: Draft, place: int, text: str) -> bool:
    record = draft.records[place]
    return isinstance(record, User) and text_of(record.content) == text
