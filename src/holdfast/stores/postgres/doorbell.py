"""The doorbell: who appends rings it, and who follows a session looks at once.

Appends do not ring it themselves: notifications of one database are committed one at a time. A
thread rings for all appends of the last moment together, and ends when there are none. Those who
listen share one connection.

A bell may be lost: with a connection, with a process, or in a pooler that hands out connections by
the transaction. It then takes until the next look: looks are rare only while bells are heard.
"""

from __future__ import annotations

import hashlib
import os
import threading
import time
from contextlib import contextmanager, suppress
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Final

from holdfast.errors import HoldfastError
from holdfast.ports.sessions import Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.stores.postgres.connections import Connection, Connections

RING_SECONDS: Final = 0.05
"""Between two bells of a process: appends of that time share one."""
_RING_SHARE: Final = 20
"""Bells take at most a twentieth of the time: on a busy server they are rarer."""
LOOK_SECONDS: Final = 2.0
"""Between two looks of a follower that hears bells: one may be lost."""
_SLICE_SECONDS: Final = 0.25
"""After which a thread that waits looks whether it is to stop."""
_RETRY_SECONDS: Final = 1.0
"""After which a lost connection for listening is made again; until then followers look often."""
_CLOSE_SECONDS: Final = 2.0
"""For the last bell, where the server does not answer."""
_SESSIONS_MAX: Final = 400
"""Sessions in one bell: it has at most 8,000 bytes."""
_RING: Final = """SELECT set_config('synchronous_commit', 'off', true), pg_notify(%s, u)
  FROM unnest(%s::text[]) AS u"""


class Doorbell:
    """The doorbell of one schema, in one process. A child that was forked has its own."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections
        self._channel = f"holdfast_{connections.address.schema}"
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._mutex = threading.Lock()
        self._rung: set[str] = set()
        self._watches: dict[int, _Heard] = {}
        self._closing = threading.Event()
        self._ringer: threading.Thread | None = None
        self._listener: threading.Thread | None = None
        self.is_heard = False
        """Bells come through: one came since the connection for listening was made."""

    # Ringing

    def ring(self, key: SessionKey) -> None:
        """Say that something was appended to a session: soon, and without waiting for it."""
        self._own()
        with self._mutex:
            self._rung.add(_name(key))
            if self._ringer is None:
                self._ringer = _start(self._ring_all, self._closing)

    def _ring_all(self, closing: threading.Event) -> None:
        """Ring until nothing was appended for a moment."""
        while True:
            with self._mutex:
                names, self._rung = sorted(self._rung), set()
                if not names:
                    self._ringer = None
                    return
            starts = range(0, len(names), _SESSIONS_MAX)
            bells = [" ".join(names[start : start + _SESSIONS_MAX]) for start in starts]
            began = time.monotonic()
            with suppress(HoldfastError):  # followers look by themselves
                self._connections.run(
                    "notify followers", partial(self._send, bells), is_repeatable=False
                )
            took = time.monotonic() - began
            closing.wait(min(max(RING_SECONDS, _RING_SHARE * took), LOOK_SECONDS))

    def _send(self, bells: list[str], connection: Connection) -> None:
        connection.execute(_RING, (self._channel, bells))

    # Listening

    @contextmanager
    def watch(self, key: SessionKey) -> Iterator[Watch]:
        """Listen for bells of a session, for as long as the block runs."""
        self._own()
        heard = _Heard(self, _name(key))
        with self._mutex:
            self._watches[id(heard)] = heard
            if self._listener is None:
                self._listener = _start(self._listen, self._closing)
        try:
            yield heard
        finally:
            self._own()
            with self._mutex:
                self._watches.pop(id(heard), None)

    def _listen(self, closing: threading.Event) -> None:
        """Hear bells until no one follows any more."""
        import psycopg

        while self._is_wanted(closing):
            with suppress(HoldfastError, psycopg.Error):
                connection = self._connections.connect()
                with connection:
                    self._hear(connection, closing)
                continue
            self.is_heard = False
            closing.wait(_RETRY_SECONDS)

    def _is_wanted(self, closing: threading.Event) -> bool:
        with self._mutex:
            if self._watches and not closing.is_set():
                return True
            self._listener, self.is_heard = None, False
            return False

    def _hear(self, connection: Connection, closing: threading.Event) -> None:
        self.is_heard = False
        connection.execute(f'LISTEN "{self._channel}"'.encode())
        self._wake(None)  # what was appended before rang for no one
        while self._watches and not closing.is_set():
            for bell in connection.notifies(timeout=_SLICE_SECONDS):
                self.is_heard = True
                self._wake(set(bell.payload.split()))

    def _wake(self, names: set[str] | None) -> None:
        with self._mutex:
            watches = list(self._watches.values())
        for heard in watches:
            if names is None or heard.name in names:
                heard.rung.set()

    def close(self) -> None:
        """Ring for the last appends, and end the threads. Anyone who follows goes on looking."""
        if self._pid != os.getpid():
            return
        with self._mutex:
            closing, self._closing = self._closing, threading.Event()
            threads = [thread for thread in (self._ringer, self._listener) if thread is not None]
        closing.set()
        for thread in threads:
            thread.join(_CLOSE_SECONDS)

    def _own(self) -> None:
        if self._pid != os.getpid():
            self._reset()  # threads and followers are those of the parent process


class _Heard(Watch):
    """Waits for bells of one session; where none come through, as without."""

    def __init__(self, bell: Doorbell, name: str) -> None:
        self.name = name
        self.rung = threading.Event()
        self._bell = bell

    def pause(self, last: float | None) -> float:
        return LOOK_SECONDS if self._bell.is_heard else super().pause(last)

    def wait(self, seconds: float, stop: threading.Event) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not stop.is_set():
            if self.rung.wait(min(left, _SLICE_SECONDS)):
                break
        self.rung.clear()


def _start(work: Callable[[threading.Event], None], closing: threading.Event) -> threading.Thread:
    thread = threading.Thread(target=work, args=(closing,), daemon=True, name="holdfast-doorbell")
    thread.start()
    return thread


@lru_cache(maxsize=1_000)
def _name(key: SessionKey) -> str:
    """Return the name of a session in a bell: of one length, and telling nothing about it."""
    return hashlib.sha256(str(key).encode("utf-8", "surrogatepass")).hexdigest()[:16]
