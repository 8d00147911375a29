"""Running summaries in the database: a cache. Whatever is wrong, the log has the answer."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import SIDECAR_BYTES_MAX
from holdfast.core.memory.running_summary import Sidecar, read_sidecar
from holdfast.errors import StoreError

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.stores.postgres.connections import Connections

_LOAD: Final = "SELECT data FROM {s}.summaries WHERE agent = %s AND session = %s"
_SAVE: Final = """INSERT INTO {s}.summaries (agent, session, data) VALUES (%s, %s, %s)
  ON CONFLICT (agent, session) DO UPDATE SET data = excluded.data RETURNING 1"""
_FORGET: Final = "DELETE FROM {s}.summaries WHERE agent = %s AND session = %s RETURNING 1"


class PostgresSummaries:
    """The `RunningSummaries` of sessions in a database."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def load(self, key: SessionKey) -> Sidecar | None:
        try:
            rows = self._connections.rows("read a summary", _LOAD, (key.agent, key.session))
        except StoreError:
            return None
        data = rows[0][0] if rows else b""
        return read_sidecar(data) if 0 < len(data) <= SIDECAR_BYTES_MAX else None

    def save(self, key: SessionKey, sidecar: Sidecar) -> bool:
        try:
            data = msgspec.json.encode(sidecar)
            self._connections.rows("keep a summary", _SAVE, (key.agent, key.session, data))
        except StoreError:
            return False
        return True

    def forget(self, key: SessionKey) -> None:
        with suppress(StoreError):
            self._connections.rows("forget a summary", _FORGET, (key.agent, key.session))
