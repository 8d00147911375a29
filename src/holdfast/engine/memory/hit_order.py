"""The order in which hits are shown: notes among sessions, each text once, the latest statement of
a fact before those that it replaced."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.memory.superseded import DatedStatement, find_superseded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from holdfast.core.memory.ranking import Ranked
    from holdfast.ports.side_stores import FoundPassage

_NOTES_EVERY: Final = 3
"""In a search of everything, at least every third hit is a note, as long as there are any."""
COMPARED: Final = 40
"""Best hits among which statements of the same fact are looked for, whatever the limit."""


def merge_kinds(
    lists: Sequence[Sequence[tuple[Ranked, FoundPassage]]],
) -> Iterator[tuple[Ranked, FoundPassage]]:
    """Notes and sessions in one list, by score, with a note at least at every third place."""
    notes, sessions = (list(reversed(ranks)) for ranks in lists)
    since_note = 0
    while notes or sessions:
        is_due = since_note >= _NOTES_EVERY - 1
        is_note = bool(notes) and (
            not sessions or is_due or notes[-1][0].score >= sessions[-1][0].score
        )
        since_note = 0 if is_note else since_note + 1
        yield (notes if is_note else sessions).pop()


def find_replaced(
    query: str, rows: Iterable[FoundPassage], speaker_of: Callable[[FoundPassage], str]
) -> dict[int, int]:
    """The passages that no longer hold, each with the latest one that states the fact anew.

    Only where there may be any, the speakers are looked up: what one person said of their own is
    not replaced by what another did.
    """
    said = [(row, row.ts) for row in rows if row.role != "assistant" and row.ts is not None]
    if not find_superseded([DatedStatement(row.id, row.text, ts) for row, ts in said], query):
        return {}
    statements = [DatedStatement(row.id, row.text, ts, speaker_of(row)) for row, ts in said]
    return find_superseded(statements, query)


def newest_first(
    ranked: Sequence[tuple[Ranked, FoundPassage]], replaced: Mapping[int, int]
) -> Iterator[tuple[Ranked, FoundPassage]]:
    """The same passages; one that replaced another right before it, if it was further down."""
    places = {row.id: place for place, (_rank, row) in enumerate(ranked)}
    shown: set[int] = set()
    for place, (rank, row) in enumerate(ranked):
        newer = replaced.get(row.id)
        if newer is not None and places[newer] > place and newer not in shown:
            shown.add(newer)
            yield msgspec.structs.replace(rank, id=newer), ranked[places[newer]][1]
        if row.id not in shown:
            shown.add(row.id)
            yield rank, row


def distinct_texts(
    found: Iterable[tuple[Ranked, FoundPassage]],
) -> Iterator[tuple[Ranked, FoundPassage]]:
    """Each text once: a fork has the words of its parent."""
    seen: set[str] = set()
    for rank, row in found:
        if row.text not in seen:
            seen.add(row.text)
            yield rank, row
