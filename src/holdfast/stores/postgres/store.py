"""Sessions in a PostgreSQL database: the `SessionStore` of many machines.

An append is one statement: it locks the row of its session, compares the head and the lease, and
writes the records and the facts about them. Reading takes no lock. Nothing that was written is
ever changed.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING, Final

from holdfast.core.owners import NO_OWNER, owner_of
from holdfast.ports import Appended, DiskUse, SessionStore, SideStores
from holdfast.ports.sessions import follow, follower_of
from holdfast.stores.postgres.appending import Appender
from holdfast.stores.postgres.catalogue import PostgresEraser
from holdfast.stores.postgres.connections import CONNECTIONS_MAX
from holdfast.stores.postgres.doorbell import Doorbell
from holdfast.stores.postgres.leases import PostgresLeases
from holdfast.stores.postgres.rows import to_text

if TYPE_CHECKING:
    import threading
    from collections.abc import Iterator

    from holdfast.core.log.batch import Batch, Lines
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.owners import FoundOwner, Owner, OwnerFilter
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports import BlobStore, Clock, Durability, Entropy, Trashed
    from holdfast.stores.notes.notes import StoredNotes
    from holdfast.stores.postgres.connections import Connections
    from holdfast.stores.postgres.queues import PostgresQueues
    from holdfast.stores.postgres.search import PostgresSearchIndex
    from holdfast.stores.postgres.side_stores import PostgresAudit, PostgresSummaries
    from holdfast.stores.postgres.spending import PostgresSpending

_SYNC: Final = """UPDATE {s}.logs SET size = size
  WHERE agent = %s AND session = %s AND state = 0 RETURNING id,
  set_config('synchronous_commit', CASE current_setting('synchronous_commit')
    WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)"""

_SIZE: Final = """SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::int8
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
  WHERE n.nspname = %s AND c.relkind = 'r'"""
"""With indexes and large values, and without payloads that are kept elsewhere."""


class PostgresSideStores(SideStores):
    """Everything that a `PostgresStore` keeps beside its logs."""

    _connections: Connections
    _leases: PostgresLeases
    _blobs: BlobStore | None

    @property
    def leases(self) -> PostgresLeases:
        return self._leases

    @property
    def blobs(self) -> BlobStore:
        if self._blobs is not None:
            return self._blobs
        from holdfast.stores.postgres.side_stores import (
            PostgresBlobs,  # loaded where it is used
        )

        return PostgresBlobs(self._connections)

    @property
    def audit(self) -> PostgresAudit:
        from holdfast.stores.postgres.side_stores import PostgresAudit

        return PostgresAudit(self._connections)

    @property
    def summaries(self) -> PostgresSummaries:
        from holdfast.stores.postgres.side_stores import PostgresSummaries

        return PostgresSummaries(self._connections)

    @property
    def queues(self) -> PostgresQueues:
        from holdfast.stores.postgres.queues import PostgresQueues

        return PostgresQueues(self._connections)

    @property
    def spending(self) -> PostgresSpending:
        from holdfast.stores.postgres.spending import PostgresSpending

        return PostgresSpending(self._connections)

    @property
    def search_index(self) -> PostgresSearchIndex:
        from holdfast.stores.postgres.search import PostgresSearchIndex

        return PostgresSearchIndex(self._connections)

    def notes(
        self,
        agent: str,
        owner: Owner = NO_OWNER,
        *,
        clock: Clock = time.time,
        redactor: Redactor | None = None,
    ) -> StoredNotes:
        from holdfast.stores.notes.notes import StoredNotes
        from holdfast.stores.notes.table import TableFiles
        from holdfast.stores.postgres.side_stores import PostgresNoteTable

        table = PostgresNoteTable(self._connections, agent, owner, clock=clock)
        return StoredNotes(TableFiles(table), agent, owner, clock=clock, redactor=redactor)

    def note_scopes(self, agent: str) -> dict[str, FoundOwner]:
        from holdfast.stores.notes.notes import note_scope

        query = """SELECT DISTINCT owner FROM {s}.notes
          WHERE agent = %s AND NOT encode(path, 'escape') LIKE '.trash/%%'"""
        rows = self._connections.rows("list notes", query, [agent])
        owners = (owner_of(to_text(row[0])) for row in rows)
        return {note_scope(agent, owner): owner for owner in owners}


class PostgresStore(PostgresEraser, PostgresSideStores, SessionStore):
    """The `SessionStore` of many machines. Safe for threads, processes and hosts.

    `address` is `postgresql://user@host/database`; `?schema=NAME` chooses a schema other than
    `holdfast`. The tables are made when it is first opened.
    """

    def __init__(
        self,
        address: str,
        *,
        clock: Clock = time.time,
        entropy: Entropy = random.getrandbits,
        connections_max: int = CONNECTIONS_MAX,
        blobs: BlobStore | None = None,
    ) -> None:
        """`blobs` keeps payloads elsewhere than in the database."""
        super().__init__(address, clock=clock, entropy=entropy, connections_max=connections_max)
        self._appender = Appender(self._connections, self._encode, self._absent, self.restore_head)
        self._leases = PostgresLeases(self._connections, self._absent)
        self._doorbell = Doorbell(self._connections)
        self._blobs = blobs

    def describe(self, key: SessionKey | None = None) -> str:
        address = self._connections.address
        where = f"{address.shown}, schema {address.schema}"
        return where if key is None else f"{where}, session {key}"

    def disk_use(self) -> DiskUse:
        schema = self._connections.address.schema
        ((size,),) = self._connections.rows("measure the tables", _SIZE, [schema])
        return DiskUse(int(size))

    def append_batch(
        self,
        key: SessionKey,
        batch: Batch,
        *,
        expect: str | None,
        durability: Durability,
        token: int | None,
    ) -> Appended:
        is_buffered = durability == "buffered"
        appended = self._appender.append(
            key, batch, expect=expect, is_buffered=is_buffered, token=token
        )
        self._doorbell.ring(key)
        return appended

    def extend_log(self, key: SessionKey, data: bytes, *, at: int) -> None:
        super().extend_log(key, data, at=at)
        self._doorbell.ring(key)

    def follow(
        self,
        key: SessionKey,
        after: str | None = None,
        *,
        idle_seconds: float | None = None,
        stop: threading.Event | None = None,
    ) -> Iterator[Record]:
        follower = follower_of(self, key, after)
        return follow(follower, idle_seconds, stop, self._doorbell.watch(key))

    def _encode(self, batch: Batch, head: str) -> tuple[Lines, float]:
        now = self._clock()
        return batch.encode(after=head, now=now, random_bits=self._entropy(28)), now

    def remove(self, key: SessionKey) -> Trashed:
        trashed = super().remove(key)
        self.summaries.forget(key)  # a cache of words; a restored session makes it again
        self._doorbell.ring(key)
        return trashed

    def begin_erasure(self, *keys: SessionKey, owner: OwnerFilter) -> None:
        super().begin_erasure(*keys, owner=owner)
        for key in keys:
            self.summaries.forget(key)
            self._doorbell.ring(key)

    def sync(self, key: SessionKey) -> None:
        where = (key.agent, key.session)
        if not self._connections.rows(f"sync session `{key.session}`", _SYNC, where):
            raise self._absent(key)

    def close(self) -> None:
        self._doorbell.close()
        self._connections.close()
