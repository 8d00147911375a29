"""The live part of a session begins at the newest compaction that counts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.log.records import Compaction, Rewind, Undo
from holdfast.core.window import ANY_WINDOW, Window
from holdfast.ports import ANY_HEAD
from holdfast.testing.conformance.samples import KEY, message, texts_of

if TYPE_CHECKING:
    from holdfast.ports import SessionStore


def a_session_without_a_boundary_is_live_as_a_whole(store: SessionStore) -> None:
    """Without a compaction the live part is the path."""
    store.create(KEY)
    store.append_each(KEY, [message("a"), message("b")])
    live = store.live(KEY)
    assert list(live.records) == list(store.read(KEY))
    assert (live.boundary, live.head, live.findings) == (None, store.head(KEY), ())


def the_live_part_begins_at_the_first_kept_record(store: SessionStore) -> None:
    """A compaction hides what came before its first kept record from `live`, and nothing else."""
    store.create(KEY)
    texts = ["a", "b", "c"]
    _a, b, _c = store.append_each(KEY, [message(text) for text in texts]).ids
    store.append(KEY, [Compaction(summary="a", first_kept=b)], expect=ANY_HEAD)
    store.append(KEY, [message("d")], expect=ANY_HEAD)
    live = store.live(KEY)
    assert [record.kind for record in live.records] == ["user", "user", "compaction", "user"]
    assert texts_of(live.records) == ["b", "c", "d"]
    assert live.boundary is not None
    assert live.boundary.summary == "a"
    assert texts_of(store.read(KEY)) == ["a", "b", "c", "d"]
    assert texts_of(store.last(KEY, 99)) == ["a", "b", "c", "d"]


def a_compaction_that_keeps_nothing_starts_the_live_part(store: SessionStore) -> None:
    """Without a first kept record the live part begins with the compaction itself."""
    store.create(KEY)
    store.append_each(KEY, [message("a"), Compaction(summary="a"), message("b")])
    live = store.live(KEY)
    assert [record.kind for record in live.records] == ["compaction", "user"]
    assert live.boundary == live.records[0]


def the_newest_compaction_counts(store: SessionStore) -> None:
    """Of several compactions the newest is the boundary; it may keep from before an older one."""
    store.create(KEY)
    a, _one, _b, _two = store.append_each(
        KEY, [message("a"), Compaction(summary="one"), message("b"), Compaction(summary="two")]
    ).ids
    live = store.live(KEY)
    assert live.boundary is not None
    assert (live.boundary.summary, len(live.records)) == ("two", 1)
    store.append(KEY, [Compaction(summary="three", first_kept=a)], expect=ANY_HEAD)
    assert texts_of(store.live(KEY).records) == ["a", "b"]


def a_compaction_binds_its_window_and_smaller_ones(store: SessionStore) -> None:
    """A compaction made for one window is passed over by readers with a larger one."""
    store.create(KEY)
    store.append_each(
        KEY,
        [
            message("a"),
            Compaction(summary="large", window=200_000),
            message("b"),
            Compaction(summary="small", window=32_000),
            message("c"),
        ],
    )

    def boundary(tokens: int) -> str | None:
        found = store.live(KEY, window=Window(tokens)).boundary
        return None if found is None else found.summary

    assert [boundary(tokens) for tokens in (1, 32_000)] == ["small"] * 2
    assert [boundary(tokens) for tokens in (32_001, 200_000)] == ["large"] * 2
    assert store.live(KEY).boundary == store.live(KEY, window=ANY_WINDOW).boundary
    assert store.live(KEY, window=ANY_WINDOW).boundary == store.live(KEY, window=Window(1)).boundary
    assert boundary(200_001) is None
    assert texts_of(store.live(KEY, window=Window(200_000)).records) == ["b", "c"]
    assert texts_of(store.live(KEY, window=Window(200_001)).records) == ["a", "b", "c"]


def an_undone_compaction_is_no_boundary(store: SessionStore) -> None:
    """Taken back, a compaction hides nothing; what was said after it stays."""
    store.create(KEY)
    _a, first, _b, second, _c = store.append_each(
        KEY,
        [
            message("a"),
            Compaction(summary="1"),
            message("b"),
            Compaction(summary="2"),
            message("c"),
        ],
    ).ids
    store.append(KEY, [Undo(target=second)], expect=ANY_HEAD)
    live = store.live(KEY)
    assert live.boundary is not None
    assert live.boundary.id == first
    assert texts_of(live.records) == ["b", "c"]
    store.append(KEY, [Undo(target=first), message("d")], expect=ANY_HEAD)
    assert store.live(KEY).boundary is None
    assert texts_of(store.live(KEY).records) == ["a", "b", "c", "d"]


def a_rewind_to_before_a_compaction_undoes_it(store: SessionStore) -> None:
    """A compaction on an abandoned branch is no boundary."""
    store.create(KEY)
    _a, b, _compaction, _c = store.append_each(
        KEY, [message("a"), message("b"), Compaction(summary="s"), message("c")]
    ).ids
    store.append(KEY, [Rewind(to=b)], expect=ANY_HEAD)
    live = store.live(KEY)
    assert live.boundary is None
    assert texts_of(live.records) == ["a", "b"]


def a_boundary_that_keeps_from_nowhere_is_reported(store: SessionStore) -> None:
    """When the first kept record is not on the path, `live` starts at the summary and says so."""
    store.create(KEY)
    store.append_each(KEY, [message("a"), Compaction(summary="s", first_kept="gone"), message("b")])
    live = store.live(KEY)
    assert [record.kind for record in live.records] == ["compaction", "user"]
    assert [finding.kind for finding in live.findings] == ["lost-boundary"]
