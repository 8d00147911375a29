"""The port of turn leases: the right to run a session's turn, held by one holder at a time.

A lease blocks nobody: readers and other appends go on. Its token fences: once a newer token exists,
an append that carries an older one is refused by the same step that would have written it.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey


class LeaseHolder(NamedTuple):
    """The holder of a lease."""

    token: int
    """The number of the lease; a newer lease has a larger one."""
    holder: str
    """In the words that `acquire` was given; they name one turn and no other."""
    since: float
    """Seconds since 1970."""


class Leases(Protocol):
    """At most one lease per session. Every method raises `NoSuchSession` where there is none."""

    @property
    def place(self) -> str:
        """The folder, the database or the memory that they are in: the same for objects that share
        their leases, and for no others."""

    def acquire(
        self, key: SessionKey, holder: str, seconds: float, *, queue_seconds: float = 0.0
    ) -> int:
        """Take the lease of a session and return its token, which is larger than all before it.

        Raises `TurnInProgress` while another holder has the lease, or waits for it in front of this
        one. A lease is free once it was released, `seconds` after it was last renewed (by the
        store's own clock, which no change of the wall clock moves), and sooner if the store notices
        that its holder is dead.

        A holder that is refused keeps its place in the queue for `queue_seconds`, and longer by
        asking again; with 0 it takes none.
        """

    def leave_queue(self, key: SessionKey, holder: str) -> None:
        """Give up a holder's place in the queue, if it has one."""

    def renew(self, key: SessionKey, token: int, seconds: float) -> None:
        """Keep the lease for so many seconds from now. Raises `LeaseLost` where a newer token
        exists; a lease that ran out and that nobody took is renewed."""

    def release(self, key: SessionKey, token: int) -> None:
        """End the lease. An older token changes nothing."""

    def current(self, key: SessionKey) -> LeaseHolder | None:
        """Return the holder; None where the lease is free."""


_CLOCK: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def uptime() -> float:
    """Return the seconds since this machine started, those it slept included where the system
    counts them. All its processes read the same clock, and nothing sets it. A holder asks it
    whether its lease may have run out on another machine, which did not sleep."""
    return time.clock_gettime(_CLOCK)


def awake_time() -> float:
    """Return the seconds that this machine was awake. All its processes read the same clock, and
    nothing sets it. What processes of one machine hold lasts so long: a machine that slept has
    stopped the holder as well as those who wait for it."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


@cache
def this_boot() -> str:
    """Return what identifies this start of this machine, the same in all its containers.

    `uptime` and `awake_time` count from it.
    """
    with suppress(OSError), open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
        return file.read().strip()
    return os.uname().nodename
