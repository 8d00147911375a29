"""Payloads go along with the records that name them, also from and to a bucket."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from tests.stores.stores_to_copy import PLAIN, fill, opener, state_of

from holdfast import User
from holdfast.errors import StoreUnavailable
from holdfast.stores import ANY_HEAD, MemoryStore, copy_store, open_store
from holdfast.stores.copying import Payloads
from holdfast.stores.in_memory import MemoryBlobs
from holdfast.stores.s3 import S3Blobs

if TYPE_CHECKING:
    from pathlib import Path

ABSENT = "5a" * 32


class CountedBlobs(MemoryBlobs):
    """Counts what would be a request to a service."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def __contains__(self, sha256: str) -> bool:
        self.asked += 1
        return super().__contains__(sha256)

    def get(self, sha256: str) -> bytes:
        self.asked += 1
        return super().get(sha256)


def test_a_hex_dump_costs_no_requests() -> None:
    """Each digit of it may begin a hash; none is asked for, and none is remembered."""
    source, target = CountedBlobs(), CountedBlobs()
    payloads = Payloads(source, target, is_dry_run=False)
    sha256 = source.put(b"a payload")
    dump = random.Random(1).randbytes(20_000).hex()
    payloads.copy(json.dumps({"type": "user", "content": dump}).encode() + b"\n")
    assert (source.asked, target.asked, payloads.lost) == (0, 0, [])
    assert not payloads._seen
    payloads.copy(f'{{"type":"of tomorrow","at":"{dump}{sha256}"}}\n'.encode())
    payloads.copy(f'{{"type":"user","damaged {sha256}\n'.encode())
    assert target.get(sha256) == b"a payload", "of a record that this version does not know"
    assert (payloads.stored, source.asked, target.asked) == (1, 1, 2)


def test_a_payload_that_is_missing_is_reported_once() -> None:
    """Where a record refers to it; a text that only looks like one is no loss."""
    source, target = CountedBlobs(), CountedBlobs()
    payloads = Payloads(source, target, is_dry_run=False)
    ref = {"sha256": ABSENT, "bytes": 3, "kind": "text"}
    odd = {"sha256": "not a hash", "bytes": 3, "kind": "text"}
    for output_ref in (ref, odd, ref):
        record = {"type": "tool_result", "id": "r", "tool_use_id": "c", "content": "x"}
        line = json.dumps({**record, "output_ref": output_ref})
        payloads.copy(f"{line}\n".encode())
    payloads.copy(f'{{"type":"user","id":"u","content":"{"cd" * 32}"}}\n'.encode())
    assert payloads.lost == [ABSENT]


@pytest.mark.parametrize("other", ["folder", "postgres"])
def test_payloads_go_from_and_to_a_bucket(
    other: str, tmp_path: Path, postgres_address: str, s3_blobs: S3Blobs, s3_options: dict[str, Any]
) -> None:
    """Both ways the target has what the source has, byte for byte; a second copy stores none."""
    open_other = opener(other, tmp_path, postgres_address)
    with MemoryStore() as made, open_other() as first:
        fill(made)
        made.append(PLAIN, [User(content="ab" * 4_000)], expect=ANY_HEAD)
        copy_store(made, first)
        before = state_of(first)
    with open_other() as first, open_store(tmp_path / "second", blobs=s3_blobs) as second:
        assert copy_store(first, second, dry_run=True).sessions[0].payloads == 0
        report = copy_store(first, second)
        assert report.is_complete
        assert sum(session.payloads for session in report.sessions) == len(list(first.blobs)) == 1
        assert state_of(second) == before
        assert not (tmp_path / "second" / "blobs").exists(), "none is in the store itself"
        again = copy_store(first, second)
        assert sum(session.payloads for session in again.sessions) == 0
    with open_store(tmp_path / "second", blobs=s3_blobs) as second, MemoryStore() as back:
        assert copy_store(second, back).is_complete
        assert state_of(back) == before
    elsewhere = S3Blobs("s3://tests/elsewhere", **s3_options)
    with (
        open_store(tmp_path / "second", blobs=s3_blobs) as second,
        open_store(tmp_path / "third", blobs=elsewhere) as third,
    ):
        assert copy_store(second, third).is_complete
        assert state_of(third) == before


def test_a_bucket_that_cannot_be_reached_ends_the_copy(
    tmp_path: Path, s3_options: dict[str, Any]
) -> None:
    """With the error of the bucket; no record is at the target before its payload."""
    options = {**s3_options, "endpoint": "http://127.0.0.1:9", "retry_config": {"max_retries": 0}}
    away = S3Blobs("s3://tests/away", **options)
    with MemoryStore() as source, open_store(tmp_path / "target", blobs=away) as target:
        sha256 = source.blobs.put(b"a payload")
        ref = {"sha256": sha256, "bytes": 9, "kind": "text"}
        line = json.dumps(
            {
                "type": "tool_result",
                "id": "r",
                "tool_use_id": "c",
                "content": "x",
                "output_ref": ref,
            }
        )
        source.extend_log(PLAIN, f"{line}\n".encode(), at=0)
        with pytest.raises(StoreUnavailable, match="nothing answers"):
            copy_store(source, target)
        assert list(target.keys()) == []
        with open_store(tmp_path / "target", blobs=MemoryBlobs()) as target:
            assert copy_store(source, target).is_complete
