"""The port of the memory index: passages of notes and sessions, by their terms and vectors.

It is a cache and never trusted over what it was made from: each source has a stamp, and a search
compares the stamps first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, NamedTuple, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

SourceKind = Literal["note", "session"]
Role = Literal["note", "user", "assistant"]

PLACE_BITS: Final = 24
"""The id of a passage is that of its source, then its place there: neighbours are one apart."""


class IndexSource(msgspec.Struct, frozen=True):
    """A file of notes or a session, as far as it is in the index."""

    id: int
    """The number of the source in the index."""
    kind: SourceKind
    """The kind of source."""
    name: str
    """The path of the file, or the key of the session."""
    stamp: str
    """The state of the file or the log; another stamp means that it changed."""
    head: str
    """The record of a session up to which it is in the index."""
    passages: int
    """Number of passages."""
    terms: int
    """Number of terms in all of them."""
    oldest: float | None
    """The time of the oldest passage."""
    newest: float | None
    """The time of the newest passage."""


class IndexPassage(msgspec.Struct, frozen=True):
    """A part of a source, with its terms."""

    text: str
    """Its text."""
    terms: Sequence[str]
    """Its search terms."""
    role: Role
    """The speaker, or `note`."""
    record: str = ""
    """The record of a session that it is from."""
    first_line: int = 0
    """Its first line in a file of notes, counted from 1."""
    last_line: int = 0
    """Its last line there."""
    ts: float | None = None
    """Its time, in seconds since 1970."""


class FoundPassage(msgspec.Struct, frozen=True):
    """A passage as it is in the index."""

    id: int
    """The number of the passage in the index."""
    text: str
    """Its text."""
    terms: Sequence[str]
    """Its search terms."""
    role: Role
    """The speaker, or `note`."""
    record: str
    """The record of a session that it is from."""
    first_line: int
    """Its first line in a file of notes, counted from 1."""
    last_line: int
    """Its last line there."""
    ts: float | None
    """Its time, in seconds since 1970."""

    @property
    def source(self) -> int:
        return source_of(self.id)

    @property
    def place(self) -> int:
        return self.id & ((1 << PLACE_BITS) - 1)


class Matches(msgspec.Struct, frozen=True):
    """The passages that hold the terms of a query."""

    holding: dict[str, int]
    """The number of passages that hold each term."""
    sources: dict[str, dict[int, int]]
    """The number of times a term occurs in each source, as far as it was looked up."""
    best: list[int]
    """The passages that hold the most and the rarest of them, and some of those that hold all of
    them next to each other."""


def places_of(source: int, start: int = 0) -> tuple[int, int]:
    """Return the span of the ids that passages of a source have, from a place on."""
    return (source << PLACE_BITS) + start, (source + 1) << PLACE_BITS


def source_of(passage: int) -> int:
    """Return the source of a passage."""
    return passage >> PLACE_BITS


class VectorRun(NamedTuple):
    """Vectors of passages whose ids follow each other."""

    first: int
    """The id of the first."""
    length: int
    """The number of vectors."""
    data: bytes
    """One vector after another, each of the same length."""


class PassageVectors(Protocol):
    """The vectors of indexed passages, all made by one embedding model."""

    def use_model(self, name: str) -> None:
        """Delete the vectors of another model: they cannot be compared."""

    def missing(self, limit: int, sources: Collection[int] | None = None) -> list[tuple[int, str]]:
        """Return passages that have no vector yet, by id and text, the newest first: of some
        sources, or of all."""

    def count(self, sources: Collection[int]) -> int:
        """Return the number of passages of some sources that have a vector."""

    def add(self, model: str, vectors: Iterable[tuple[int, bytes]]) -> bool:
        """Store vectors of passages that are still there.

        Stores none and returns False where another model is in use by now.
        """

    def load(self, model: str, spans: Sequence[tuple[int, int]]) -> list[VectorRun]:
        """Return the vectors that are there of each span in turn, in runs that are as long as
        possible; none where another model is in use.

        A span is the first id, and the one after the last.
        """


class SearchIndex(Protocol):
    """Passages by the terms in them. Safe for threads, and for many processes.

    Methods raise `StoreUnavailable` where the index does not work. The next call then has another
    one, which may be empty: whoever searches brings it up to date again.
    """

    @property
    def vectors(self) -> PassageVectors:
        """The vectors of its passages."""

    def sources(self) -> list[IndexSource]:
        """Return everything that is in the index."""

    def replace(
        self,
        kind: SourceKind,
        name: str,
        *,
        stamp: str,
        head: str,
        passages: Sequence[IndexPassage],
    ) -> None:
        """Put a source into the index, in place of its earlier state."""

    def extend(
        self, known: IndexSource, *, stamp: str, head: str, passages: Sequence[IndexPassage]
    ) -> None:
        """Add what was written to a source since. Does nothing where another process did."""

    def forget(self, sources: Iterable[int]) -> None:
        """Remove sources that no longer exist."""

    def erase(self, session: str | None, scopes: Sequence[str] = ()) -> None:
        """Delete a session (`agent/id`), the files with notes from it, and scopes of notes.

        Their words are nowhere in the index afterwards, nor in what it leaves on a disk. The other
        notes of these files are indexed again by the next search.
        """

    def matches(
        self,
        query: Mapping[str, float],
        phrase: Sequence[str],
        allowed: Mapping[int, IndexSource],
    ) -> Matches:
        """Return the passages of the allowed sources that hold terms of the query.

        `query` has the weight of each term, `phrase` the terms in their order. The work is
        bounded: the rarest terms are looked up first, and terms that are everywhere only as far
        as there is room.
        """

    def passages(self, ids: Sequence[int]) -> list[FoundPassage]:
        """Return those of the passages that are still there."""

    def around(self, passage: int) -> list[FoundPassage]:
        """Return a passage and its neighbours in the same source, in order."""

    def holding(self, wanted: Iterable[str], most: int) -> dict[str, int]:
        """Return the number of passages that hold each of the terms; counting ends at `most`."""

    def count_by_source(
        self, holding: Mapping[str, int], allowed: Mapping[int, IndexSource]
    ) -> dict[str, dict[int, int]]:
        """Return how often each term occurs in each of the allowed sources, the rarest first.

        `holding` is the number of passages that hold a term; terms with too many are left out.
        """

    def close(self) -> None:
        """Release what is held open; the next call opens it again."""
