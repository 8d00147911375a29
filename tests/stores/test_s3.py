"""Payloads in a bucket: collection against writers, large ones, and what goes wrong."""

from __future__ import annotations

import http.client
import random
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import obstore
import pytest
from tests.support.runs import is_whole

from holdfast.errors import BlobDamaged, BlobMissing, HoldfastError, StoreUnavailable, UsageError
from holdfast.stores import s3
from holdfast.stores.s3 import S3Blobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ABSENT = "0" * 64


def _asks(blobs: S3Blobs) -> list[Callable[[], object]]:
    """Return everything that can be asked of a store of payloads."""
    return [
        lambda: blobs.put(b"x"),
        lambda: blobs.get(ABSENT),
        lambda: list(blobs.chunks(ABSENT)),
        lambda: blobs.size(ABSENT),
        lambda: ABSENT in blobs,
        lambda: list(blobs),
        lambda: blobs.collect([], grace_seconds=0.0),
    ]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"bucket": "no-such-bucket"}, "the bucket does not exist|refuses the key"),  # by request
        ({"secret_access_key": "wrong-but-secret"}, "refuses the key"),
        ({"access_key_id": "nobody"}, "refuses the key"),
        ({"endpoint": "http://127.0.0.1:9"}, "nothing answers"),
    ],
    ids=["bucket", "secret", "key", "endpoint"],
)
def test_each_failure_has_one_sentence_and_a_next_step(
    s3_options: dict[str, Any], change: dict[str, Any], says: str
) -> None:
    """Whatever is asked: what is wrong, of which bucket, what to do; and no key is shown."""
    bucket = change.get("bucket", "tests")
    options = {**s3_options, "retry_config": {"max_retries": 0}, **change}
    options.pop("bucket", None)
    blobs = S3Blobs(f"s3://{bucket}/errors", **options)
    for ask in _asks(blobs):
        with pytest.raises(StoreUnavailable, match=says) as caught:
            ask()
        assert f"s3://{bucket}/errors" in str(caught.value)
        assert caught.value.hint
        shown = repr(caught.value) + str(caught.value.__cause__) + str(caught.value.hint)
        for secret in (s3_options["secret_access_key"], "wrong-but-secret"):
            assert secret not in shown


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("Server returned non-2xx status code: 503 Service Unavailable: SlowDown", "failed again"),
        ("status code: 403 Forbidden: <Code>RequestTimeTooSkewed</Code>", "clock of this machine"),
        ("status code: 403 Forbidden: <Code>AccessDenied</Code>", "refuses the key"),
        ("error trying to connect: dns error", "nothing answers"),
    ],
)
def test_words_of_a_service_are_explained(text: str, says: str) -> None:
    """Failures that a test server does not have."""
    found = s3._explain_text(text)
    assert found is not None
    assert says in found[0]


class _Failing:
    """Answers the first requests with an error of the service, and passes the others on to it."""

    def __init__(self, endpoint: str, failures: int) -> None:
        self.failures = failures
        self.requests = 0
        self.options: dict[str, Any] = {}
        self._behind = endpoint.removeprefix("http://")

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.requests += 1
        body = request.rfile.read(int(request.headers.get("Content-Length", 0)))
        if self.requests <= self.failures:
            request.send_response(503)
            request.send_header("Content-Length", "0")
            request.end_headers()
            return
        behind = http.client.HTTPConnection(self._behind)
        behind.request(request.command, request.path, body, dict(request.headers))  # as signed
        reply = behind.getresponse()
        data = reply.read()
        request.send_response_only(reply.status)
        for name, value in reply.getheaders():
            if name.lower() not in ("transfer-encoding", "connection"):
                request.send_header(name, value)
        if reply.getheader("Content-Length") is None:
            request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)
        behind.close()


@contextmanager
def _in_front(options: dict[str, Any], failures: int) -> Iterator[_Failing]:
    """A service that fails, in front of the real one."""
    failing = _Failing(options["endpoint"], failures)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: object) -> None:
            pass

    for method in ("GET", "HEAD", "PUT", "POST", "DELETE"):
        setattr(Handler, f"do_{method}", lambda request: failing.answer(request))

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        failing.options = {**options, "endpoint": f"http://127.0.0.1:{server.server_port}"}
        try:
            yield failing
        finally:
            server.shutdown()
            thread.join()


def test_an_error_of_the_service_is_tried_again(s3_options: dict[str, Any]) -> None:
    """A service that fails for a moment is waited for, and then everything is there."""
    with _in_front(s3_options, failures=s3._RETRIES) as failing:
        blobs = S3Blobs("s3://tests/passing", **failing.options)
        sha256 = blobs.put(b"payload")
        assert failing.requests > s3._RETRIES
    assert S3Blobs("s3://tests/passing", **s3_options).get(sha256) == b"payload"


def test_a_service_that_goes_on_failing_is_asked_a_few_times(s3_options: dict[str, Any]) -> None:
    """Then the error says so; nothing was stored."""
    with _in_front(s3_options, failures=1_000) as failing:
        blobs = S3Blobs("s3://tests/lasting", **failing.options)
        with pytest.raises(StoreUnavailable, match="failed again") as caught:
            blobs.put(b"payload")
        assert caught.value.hint
        assert failing.requests == 1 + s3._RETRIES
    assert list(S3Blobs("s3://tests/lasting", **s3_options)) == []


def test_an_address_holds_no_keys() -> None:
    for bad in ("s3://", "http://bucket", "s3://key:secret@bucket/x", "bucket", "s3:///x"):
        with pytest.raises(UsageError) as caught:
            S3Blobs(bad)
        assert "secret" not in str(caught.value)


def test_a_large_payload_is_uploaded_in_parts(
    s3_blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3, "_MULTIPART_BYTES", 5 * 1024 * 1024)
    data = random.Random(1).randbytes(12 * 1024 * 1024)
    sha256 = s3_blobs.put(data)
    assert b"".join(s3_blobs.chunks(sha256, size=len(data))) == data
    assert s3_blobs.put(data) == sha256
    assert list(s3_blobs) == [sha256]


def test_a_changed_object_is_not_delivered(s3_blobs: S3Blobs) -> None:
    """Not one byte of it; storing the payload again repairs it."""
    sha256 = s3_blobs.put(b"as it was" * 1_000)
    other = s3_blobs.put(b"something else")
    swapped = bytes(obstore.get(s3_blobs._bucket._store, s3._name(other)).bytes())
    for bad in (swapped, b"", b"garbage"):
        obstore.put(s3_blobs._bucket._store, s3._name(sha256), bad)
        with pytest.raises(BlobDamaged):
            next(s3_blobs.chunks(sha256))
        with pytest.raises(BlobDamaged):
            s3_blobs.get(sha256)
    s3_blobs.put(b"as it was" * 1_000)
    assert s3_blobs.get(sha256) == b"as it was" * 1_000


def test_grace_is_counted_by_the_server(s3_blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever our own clock says."""
    sha256 = s3_blobs.put(b"young")
    monkeypatch.setattr("time.time", lambda: 4e9)
    assert s3_blobs.collect([], grace_seconds=60.0) == []
    assert s3_blobs.collect([sha256], grace_seconds=0.0) == []
    assert s3_blobs.collect([], grace_seconds=0.0) == [sha256]
    with pytest.raises(BlobMissing):
        s3_blobs.get(sha256)


class _Pausing:
    """Runs a writer between two requests of a collector, at every one of them."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, at: int, write: Callable[[], None]) -> None:
        self._left, self._write = at, write
        for name in ("put", "head", "delete"):
            monkeypatch.setattr(obstore, name, self._around(getattr(obstore, name)))

    def _around(self, request: Callable[..., Any]) -> Callable[..., Any]:
        def asked(*args: Any, **more: Any) -> Any:
            if threading.current_thread() is threading.main_thread():
                self._left -= 1
                if self._left == -1:
                    self._write()
            return request(*args, **more)

        return asked


def test_what_is_stored_while_a_collector_runs_stays(
    s3_blobs: S3Blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A payload that is stored again between any two requests of a collector is there after."""
    places = range(8)  # a collector of one payload makes seven requests
    payloads = {s3_blobs.put(b"needed again %d" % at): b"needed again %d" % at for at in places}
    time.sleep(2.2)  # the service counts in seconds: now they are older than the grace
    is_deleted = []
    for at, (sha256, data) in zip(places, payloads.items(), strict=True):
        writers = [threading.Thread(target=s3_blobs.put, args=(data,))]

        def write(writer: threading.Thread = writers[0]) -> None:
            writer.start()
            writer.join(0.3)  # it may be waiting for this collector

        with monkeypatch.context() as patch:
            _Pausing(patch, at, write)
            is_deleted += s3_blobs.collect(set(payloads) - {sha256}, grace_seconds=1.0)
        if writers[0].ident is None:
            writers[0].start()
        writers[0].join()
        assert s3_blobs.get(sha256) == data
    assert is_deleted, "no collector deleted anything: this tests nothing"


def test_writers_and_collectors_at_once(s3_blobs: S3Blobs) -> None:
    """Whatever `put` returned is there, unless a collector began after it."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def collect() -> None:
        while not stop.is_set():
            try:
                s3_blobs.collect([], grace_seconds=3_600.0)
            except HoldfastError as error:
                failures.append(error)

    collector = threading.Thread(target=collect)
    collector.start()
    for number in range(200 if is_whole() else 15):
        data = b"payload %d" % (number % 3)
        assert s3_blobs.get(s3_blobs.put(data)) == data
    stop.set()
    collector.join()
    assert failures == []
