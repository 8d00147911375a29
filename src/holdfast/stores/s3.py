"""Payloads in a bucket of any S3-compatible service: `s3://bucket/prefix`.

A payload is one object, `<prefix>/ab/<hash>.zst`, written before the record that names it and
verified every time it is read. Endpoint, region and keys come from the usual AWS variables.

Collecting does not race with writing, though S3 has no locks. A collector leaves a mark beside the
object, looks at the object once more, deletes it, and takes the mark away. A writer looks for the
mark after its write, and then whether the object is there; where it finds a mark, or no object, it
writes again. So whichever of the two looks second sees the other. Ages are differences between
times of the server; our own clock does not count.
"""

from __future__ import annotations

import hashlib
import time
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from holdfast.core.limits import BLOB_GRACE_SECONDS
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import StoreError, StoreUnavailable, UsageError
from holdfast.stores.payloads import as_file, check_hash, compress, is_hash, missing, read_verified

if TYPE_CHECKING:
    import io
    from collections.abc import Iterable, Iterator
    from datetime import datetime

KIND: Final = "s3"
"""The beginning of the address of a bucket."""
_SUFFIX: Final = ".zst"
_MARK: Final = ".deleting"
_CLOCK: Final = "clock"
_MULTIPART_BYTES: Final = 16 * 1024 * 1024
"""Larger payloads are uploaded in parts of this size, several at a time."""
_READ_BYTES: Final = 1024 * 1024
"""Read at a time."""
_TRIES: Final = 20
"""Writes of a payload that a collector is deleting; each waits longer."""
_MARK_SECONDS: Final = 60.0
"""A mark this much older than a write is that of a collector that died."""
_DELETE_SECONDS: Final = 5.0
"""A collector that was stopped for longer after its look does not delete."""
_RETRIES: Final = 4
_RETRY_SECONDS: Final = 30
"""Bounds for trying again after an error of the service (5xx) or of the network."""

_CODE: Final = lazy_pattern(r"<Code>(\w{1,60})</Code>")
_EXPLAINED: Final = (
    (
        lazy_pattern(r"NoSuchBucket|InvalidBucketName"),
        "the bucket does not exist",
        "make it, or check its name and the endpoint (AWS_ENDPOINT_URL)",
    ),
    (
        lazy_pattern(r"RequestTimeTooSkewed|RequestExpired|time.{0,40}skew"),
        "the clock of this machine differs too much from that of the service",
        "set the clock (NTP), then try again",
    ),
    (
        lazy_pattern(
            r"InvalidAccessKeyId|SignatureDoesNotMatch|AccessDenied|status code: 40[13]|"
            r"PermissionDenied|Unauthenticated|NotSignedUp|InvalidToken|ExpiredToken"
        ),
        "the service refuses the key",
        "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, that the bucket exists, and what the "
        "key may do in it",
    ),
    (
        lazy_pattern(r"(?i)credential|169\.254\.169\.254|IMDS"),
        "no key was found",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    ),
    (
        lazy_pattern(r"status code: 5\d\d|SlowDown|InternalError|ServiceUnavailable"),
        "the service failed again and again",
        "try again later; nothing that was stored is lost",
    ),
    (
        lazy_pattern(r"(?i)connect|dns|refused|timed out|timeout|error sending request"),
        "nothing answers at the endpoint",
        "check AWS_ENDPOINT_URL and the network",
    ),
)
"""The meaning of a service's words, and the next step: first match."""


class Bucket:
    """The objects below a prefix of a bucket."""

    def __init__(self, address: str, options: dict[str, Any]) -> None:
        parts = urlsplit(address)
        if parts.scheme != KIND or not parts.netloc or parts.username or parts.query:
            raise UsageError(
                "cannot read the address of the bucket",
                hint="write it as `s3://bucket/prefix`; keys are in the AWS variables",
            )
        self.address = f"{KIND}://{parts.netloc}{parts.path}".rstrip("/")
        self._name, self._prefix = parts.netloc, parts.path.strip("/")
        self._options = options
        self._opened: Any = None

    def put(self, name: str, data: bytes) -> None:
        """Write an object; one that is there is written again, and then as old as a new one."""
        import obstore

        if len(data) > _MULTIPART_BYTES:
            obstore.put(self._store, name, data, chunk_size=_MULTIPART_BYTES)
            return
        try:
            obstore.put(self._store, name, data, mode="create")
        except obstore.exceptions.AlreadyExistsError:
            obstore.put(self._store, name, data, mode="overwrite", use_multipart=False)

    def last_modified(self, name: str) -> datetime | None:
        """Return when an object was written; None where there is none."""
        import obstore

        try:
            found: datetime = obstore.head(self._store, name)["last_modified"]
        except FileNotFoundError:
            return None
        return found

    def open(self, name: str) -> io.BufferedReader | None:
        """Return the content of an object; None where there is none. Raises where the bucket is
        not there, which `last_modified` cannot tell."""
        import obstore

        try:
            found = obstore.get(self._store, name)
        except FileNotFoundError as error:
            if _explain_text(str(error)) is not None:
                raise
            return None
        return as_file(iter(found.stream(min_chunk_size=_READ_BYTES)))

    def delete(self, name: str) -> None:
        """Delete an object; one that is not there is no error."""
        import obstore

        obstore.delete(self._store, name)

    def names(self) -> Iterator[str]:
        """Yield the name of every object."""
        import obstore

        for page in obstore.list(self._store):
            yield from (entry["path"] for entry in page)

    def now(self) -> datetime:
        """Return the time of the service, which is that of an object just written."""
        self.put(_CLOCK, b"")
        changed = self.last_modified(_CLOCK)
        if changed is None:
            raise StoreError(
                f"cannot tell the time of {self.address}: an object just written is missing",
                hint="nothing was deleted; check that the service is consistent",
            )
        return changed

    @contextmanager
    def explaining(self, doing: str) -> Iterator[None]:
        """Turn errors of the service into ours. Keys are in none of them."""
        try:
            yield
        except (OSError, ValueError) as error:
            raise self._explain(error, doing) from None
        except Exception as error:
            if not type(error).__module__.startswith("obstore"):
                raise
            raise self._explain(error, doing) from None

    def _explain(self, error: Exception, doing: str) -> StoreError:
        text = f"{type(error).__name__}: {error}"
        code = _CODE.search(text)
        what, hint = _explain_text(text) or (
            f"the service refused ({code[1] if code else type(error).__name__})",
            "try the same with another client of the service, which says more",
        )
        return StoreUnavailable(f"cannot {doing} in {self.address}: {what}", hint=hint)

    @property
    def _store(self) -> Any:
        if self._opened is None:
            try:
                from obstore.store import S3Store
            except ImportError as error:
                raise UsageError(
                    "cannot open a bucket: its client is not installed",
                    hint="pip install 'holdfast[s3]'",
                ) from error
            retry = {"max_retries": _RETRIES, "retry_timeout": timedelta(seconds=_RETRY_SECONDS)}
            defaults = {"client_options": {"allow_http": True}, "retry_config": retry}
            options = {**defaults, **self._options}
            self._opened = S3Store(self._name, prefix=self._prefix or None, **options)
        return self._opened


class S3Blobs:
    """A `BlobStore` in a bucket: `S3Blobs("s3://bucket/prefix")`."""

    def __init__(self, address: str, **options: Any) -> None:
        """`options` are those of `obstore.store.S3Store`; by default the AWS variables decide."""
        self._bucket = Bucket(address, options)

    def put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        stored = b"".join(compress(data))
        name = _name(sha256)
        with self._bucket.explaining(f"store blob {sha256[:12]}"):
            for tries in range(_TRIES):
                self._bucket.put(name, stored)
                if not self._is_being_deleted(name):
                    return sha256
                time.sleep(0.02 * tries)
        raise StoreUnavailable(
            f"cannot store blob {sha256[:12]} in {self._bucket.address}: a collector deletes it",
            hint="nothing is lost; try again when the collection is done",
        )

    def get(self, sha256: str) -> bytes:
        return b"".join(self._read(sha256))

    def chunks(self, sha256: str, *, size: int | None = None) -> Iterator[bytes]:
        for _chunk in self._read(sha256, size):
            pass
        # Verified again while it is delivered: it could have been changed in between.
        yield from self._read(sha256, size)

    def size(self, sha256: str) -> int:
        return sum(map(len, self._read(sha256)))

    def __contains__(self, sha256: str) -> bool:
        check_hash(sha256)
        with self._bucket.explaining(f"look for blob {sha256[:12]}"):
            name = _name(sha256)
            return (
                self._bucket.last_modified(name) is not None or self._bucket.open(name) is not None
            )

    def __iter__(self) -> Iterator[str]:
        with self._bucket.explaining("list blobs"):
            yield from filter(is_hash, map(_hash, self._bucket.names()))

    def collect(
        self, referenced: Iterable[str], *, grace_seconds: float = BLOB_GRACE_SECONDS
    ) -> list[str]:
        # First the payloads, then the references: what is stored meanwhile stays.
        unneeded = set(self)
        unneeded.difference_update(referenced)
        with self._bucket.explaining("collect blobs"):
            limit = self._bucket.now() - timedelta(seconds=min(grace_seconds, 1e9))
            return [sha256 for sha256 in sorted(unneeded) if self._delete_if_old(sha256, limit)]

    def discard(self, hashes: Iterable[str]) -> list[str]:
        gone = []
        with self._bucket.explaining("delete blobs"):
            for sha256 in sorted(filter(is_hash, hashes)):
                if self._bucket.last_modified(_name(sha256)) is not None:
                    self._bucket.delete(_name(sha256))
                    gone.append(sha256)
        return gone

    def sweep(self) -> list[str]:
        return []  # an object is there whole or not; a rule of the bucket ends uploads cut off

    def _is_being_deleted(self, name: str) -> bool:
        """Return whether what was just written may be, or was, deleted by a collector."""
        marked = self._bucket.last_modified(name + _MARK)
        written = self._bucket.last_modified(name)
        if written is None:
            return True
        return marked is not None and written - marked < timedelta(seconds=_MARK_SECONDS)

    def _delete_if_old(self, sha256: str, limit: datetime) -> bool:
        name = _name(sha256)
        changed = self._bucket.last_modified(name)
        if changed is None or changed > limit:
            return False
        self._bucket.put(name + _MARK, b"")
        try:
            looked_at = time.monotonic()
            changed = self._bucket.last_modified(name)
            is_old = changed is not None and changed <= limit
            if not is_old or time.monotonic() - looked_at > _DELETE_SECONDS:
                return False
            self._bucket.delete(name)
            return True
        finally:
            self._bucket.delete(name + _MARK)

    def _read(self, sha256: str, size: int | None = None) -> Iterator[bytes]:
        check_hash(sha256)
        with self._bucket.explaining(f"read blob {sha256[:12]}"):
            raw = self._bucket.open(_name(sha256))
            if raw is None:
                raise missing(sha256, f"in {self._bucket.address}")
            yield from read_verified(raw, sha256, size)


def _explain_text(text: str) -> tuple[str, str] | None:
    text = text.split("Debug source")[0]  # what follows has our request in it
    for pattern, what, hint in _EXPLAINED:
        if pattern.search(text):
            return what, hint
    return None


def _name(sha256: str) -> str:
    return f"{sha256[:2]}/{sha256}{_SUFFIX}"


def _hash(path: str) -> str:
    """Return the hash that an object is named by; something else for other objects."""
    stem = path.rsplit("/", 1)[-1]
    return stem.removesuffix(_SUFFIX) if stem.endswith(_SUFFIX) else ""
