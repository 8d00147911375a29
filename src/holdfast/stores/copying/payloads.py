"""Copies the payloads that logs name, each once.

A record says where its payloads are. Records of other versions and damaged lines may name some that
nobody can find by their place: so whatever looks like a hash counts too, if the source has such a
payload. Text can have any number of those, a hex dump one for each digit. They are compared with
the beginnings of the hashes that the source has, and cost no request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.log.damage import Flaw
from holdfast.core.log.records import decode
from holdfast.core.log.refs import hex_runs, refs_of
from holdfast.errors import BlobDamaged, BlobMissing
from holdfast.stores.payloads import is_hash

if TYPE_CHECKING:
    from holdfast.ports import BlobStore

_DIGITS: Final = 64
"""Of a hash."""
_START: Final = 12
"""Digits of a hash that are compared first: with a million payloads, of a billion places in text
four begin like one of them."""


class Payloads:
    """Copies payloads from one place to another."""

    def __init__(self, source: BlobStore, target: BlobStore, *, is_dry_run: bool) -> None:
        self._source, self._target = source, target
        self._is_dry_run = is_dry_run
        self._starts: set[str] | None = None
        self._seen: set[bytes] = set()
        self.stored = 0
        self.lost: list[str] = []
        """Hashes of payloads that are named, and that the source cannot give."""

    def copy(self, lines: bytes) -> None:
        """Store every payload that these lines name, before they are written themselves."""
        if self._source is self._target:
            return
        named = _refs_in(lines)
        for name in sorted(named | self._find_mentions(lines, named)):
            if name in self._seen:
                continue
            self._seen.add(name)
            sha256 = name.hex()
            is_there = sha256 in self._target or self._copy(sha256)
            if not is_there and name in named:
                self.lost.append(sha256)

    def _find_mentions(self, lines: bytes, named: set[bytes]) -> set[bytes]:
        """Return what looks like the hash of a payload of the source."""
        found: set[str] = set()
        for digits in hex_runs(lines):
            if len(digits) == _DIGITS and bytes.fromhex(digits) in named:
                continue
            if self._starts is None:
                self._starts = {listed[:_START] for listed in self._source}
            for at in range(len(digits) - _DIGITS + 1) if self._starts else ():
                if digits[at : at + _START] in self._starts:
                    found.add(digits[at : at + _DIGITS])
        return {bytes.fromhex(sha256) for sha256 in found}

    def _copy(self, sha256: str) -> bool:
        try:
            if self._is_dry_run:
                is_there = sha256 in self._source
                self.stored += is_there
                return is_there
            self._target.put(self._source.get(sha256))
        except (BlobMissing, BlobDamaged):
            return False
        self.stored += 1
        return True


def _refs_in(lines: bytes) -> set[bytes]:
    """Return the payloads that the records in these lines refer to."""
    found = set()
    for line in lines.split(b"\n"):
        if b"sha256" in line:
            item = decode(line)
            refs = () if isinstance(item, Flaw) else refs_of(item)
            found |= {bytes.fromhex(ref.sha256) for ref in refs if is_hash(ref.sha256)}
    return found
