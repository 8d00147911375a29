"""Payloads come back by the hash of their content, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import BlobDamaged, BlobMissing, UsageError
from holdfast.testing.conformance.samples import raises

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.ports import BlobStore


def a_blob_comes_back(store: BlobStore) -> None:
    """A payload is returned by its SHA-256, whole or in pieces, empty or large."""
    for data in (b"", b"\0", b"some text" * 1_000, bytes(range(256)) * 8_000):
        sha256 = store.put(data)
        assert len(sha256) == 64
        assert store.get(sha256) == data
        assert b"".join(store.chunks(sha256)) == data
        assert store.size(sha256) == len(data)
        assert sha256 in store


def a_blob_goes_by_the_hash_of_its_content(store: BlobStore) -> None:
    """The ref is the SHA-256 of the payload itself, not of how it is kept."""
    expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert store.put(b"abc") == expected


def the_same_blob_is_stored_once(store: BlobStore) -> None:
    """Putting the same payload again gives the same ref; collecting it deletes one thing."""
    first, second = store.put(b"twice"), store.put(b"twice")
    assert first == second
    assert store.collect([], grace_seconds=0.0) == [first]
    assert first not in store


def a_missing_blob_is_an_error(store: BlobStore) -> None:
    """A ref without a payload raises `BlobMissing` with a hint, never an empty payload."""
    store.put(b"another")
    missing = "0" * 64
    assert missing not in store
    asks: tuple[Callable[[], object], ...] = (
        lambda: store.get(missing),
        lambda: list(store.chunks(missing)),
        lambda: store.size(missing),
    )
    for ask in asks:
        with raises(BlobMissing) as errors:
            ask()
        assert errors[0].hint


def a_blob_of_more_bytes_than_it_should_have_is_refused(store: BlobStore) -> None:
    """Who knows the size gets that many bytes or an error; the size itself is enough."""
    data = b"some text" * 1_000
    sha256 = store.put(data)
    assert b"".join(store.chunks(sha256, size=len(data))) == data
    with raises(BlobDamaged) as errors:
        list(store.chunks(sha256, size=len(data) - 1))
    assert errors[0].hint


def a_ref_that_is_no_hash_is_refused(store: BlobStore) -> None:
    """Anything but 64 lower-case hex digits is refused before it is looked for."""
    for bad in ("", "abc", "../" * 20 + "etc/passwd", "A" * 64, "0" * 63 + "\n", "0" * 65):
        with raises(UsageError):
            store.get(bad)


def only_unreferenced_blobs_are_collected(store: BlobStore) -> None:
    """Payloads that nothing refers to are deleted, and nothing else is."""
    kept, gone = store.put(b"kept"), store.put(b"gone")
    assert store.collect([kept, "0" * 64], grace_seconds=0.0) == [gone]
    assert store.get(kept) == b"kept"
    assert gone not in store
    assert store.put(b"gone") == gone
    assert store.get(gone) == b"gone"


def young_blobs_are_left_alone(store: BlobStore) -> None:
    """Within the grace nothing is collected: its record may be about to be written."""
    young = store.put(b"young")
    assert store.collect([], grace_seconds=3_600.0) == []
    assert store.get(young) == b"young"
