"""Turn leases in the row of their session. They end by the server's clock, one for all machines."""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any, Final

from holdfast.errors import LeaseLost, TurnInProgress
from holdfast.ports import LeaseHolder
from holdfast.stores.postgres.rows import to_bytes, to_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.errors import HoldfastError
    from holdfast.stores.postgres.connections import Connections

_WHERE: Final = "WHERE agent = %(agent)s AND session = %(session)s AND state = 0"
_UNTIL: Final = "clock_timestamp() + make_interval(secs => %(seconds)s)"
_AHEAD: Final = """SELECT ahead.holder, extract(epoch FROM ahead.since)::float8
  FROM {s}.lease_queue AS ahead LEFT JOIN {s}.lease_queue AS mine
    ON mine.log = ahead.log AND mine.holder = %(holder)s AND mine.until > clock_timestamp()
  WHERE ahead.log = l.id AND ahead.until > clock_timestamp() AND ahead.holder <> %(holder)s
    AND (mine.log IS NULL OR (ahead.since, ahead.holder) < (mine.since, mine.holder))
  ORDER BY ahead.since, ahead.holder LIMIT 1"""
_ACQUIRE: Final = f"""WITH taken AS (
    UPDATE {{s}}.logs AS l SET lease_token = nextval('{{s}}.lease_tokens'),
      lease_holder = %(holder)s, lease_try = %(nonce)s, lease_since = clock_timestamp(),
      lease_until = {_UNTIL}
    {_WHERE} AND (lease_holder IS NULL OR lease_until <= clock_timestamp())
      AND NOT EXISTS ({_AHEAD})
    RETURNING id, lease_token
  ), gone AS (
    DELETE FROM {{s}}.lease_queue AS q USING taken WHERE q.log = taken.id
      AND (q.holder = %(holder)s OR q.until <= clock_timestamp())
  )
  SELECT lease_token FROM taken"""
_QUEUE: Final = f"""WITH joined AS (
    INSERT INTO {{s}}.lease_queue AS q SELECT id, %(holder)s, clock_timestamp(), {_UNTIL}
    FROM {{s}}.logs {_WHERE} AND %(seconds)s > 0
    ON CONFLICT (log, holder) DO UPDATE SET until = EXCLUDED.until,
      since = CASE WHEN q.until > clock_timestamp() THEN q.since ELSE EXCLUDED.since END
    WHERE q.until < clock_timestamp() + make_interval(secs => %(seconds)s / 2)
  )
  SELECT lease_token, lease_holder, extract(epoch FROM lease_since)::float8,
    lease_holder IS NOT NULL AND lease_until > clock_timestamp(), lease_try, ahead.*
  FROM {{s}}.logs AS l LEFT JOIN LATERAL ({_AHEAD}) AS ahead ON true {_WHERE}"""
_LEAVE: Final = f"""DELETE FROM {{s}}.lease_queue USING {{s}}.logs AS l
  {_WHERE} AND log = l.id AND holder = %(holder)s RETURNING log"""
_RENEW: Final = f"""UPDATE {{s}}.logs SET lease_until = {_UNTIL}
  {_WHERE} AND lease_token = %(token)s RETURNING lease_token"""
_RELEASE: Final = f"""UPDATE {{s}}.logs SET lease_holder = NULL
  {_WHERE} AND lease_token = %(token)s RETURNING lease_token"""
_CURRENT: Final = f"""SELECT lease_token, lease_holder, extract(epoch FROM lease_since)::float8,
  lease_holder IS NOT NULL AND lease_until > clock_timestamp(), lease_try
  FROM {{s}}.logs {_WHERE}"""


class PostgresLeases:
    """The `Leases` of sessions in a database."""

    def __init__(
        self, connections: Connections, absent: Callable[[SessionKey], HoldfastError]
    ) -> None:
        self._connections = connections
        self._absent = absent

    @property
    def place(self) -> str:
        return f"{self._connections.address.shown} {self._connections.address.schema}"

    def acquire(
        self, key: SessionKey, holder: str, seconds: float, *, queue_seconds: float = 0.0
    ) -> int:
        nonce = secrets.token_bytes(8)
        values = {"holder": to_bytes(holder), "seconds": seconds, "nonce": nonce}
        while True:
            taken = self._change(_ACQUIRE, key, **values)
            if taken is not None:
                return taken
            waits = {"holder": to_bytes(holder), "seconds": queue_seconds}
            token, other, since, is_held, found, *ahead = self._read(key, _QUEUE, **waits)
            if is_held and found == nonce:
                return int(token)  # taken by a try whose answer was lost
            if is_held:
                raise TurnInProgress(str(key), to_text(other), since)
            if ahead[0] is not None:
                raise TurnInProgress(str(key), to_text(ahead[0]), ahead[1])

    def leave_queue(self, key: SessionKey, holder: str) -> None:
        if self._change(_LEAVE, key, holder=to_bytes(holder)) is None:
            self._read(key)  # raises `NoSuchSession`

    def renew(self, key: SessionKey, token: int, seconds: float) -> None:
        if self._change(_RENEW, key, token=token, seconds=seconds) is None:
            holder = self._read(key)[1]
            raise LeaseLost(str(key), to_text(holder or b""))

    def release(self, key: SessionKey, token: int) -> None:
        if self._change(_RELEASE, key, token=token) is None:
            self._read(key)  # raises `NoSuchSession`

    def current(self, key: SessionKey) -> LeaseHolder | None:
        token, holder, since, is_held, _nonce = self._read(key)
        return LeaseHolder(token, to_text(holder), since) if is_held else None

    def _read(self, key: SessionKey, query: str = _CURRENT, **values: object) -> tuple[Any, ...]:
        rows = self._connections.rows(
            f"read the lease of session `{key.session}`", query, {**_place(key), **values}
        )
        if not rows:
            raise self._absent(key)
        return rows[0]

    def _change(self, query: str, key: SessionKey, **values: object) -> int | None:
        """Run a statement that may be repeated; returns the token of the row it changed."""
        doing = f"change the lease of session `{key.session}`"
        rows = self._connections.rows(doing, query, {**_place(key), **values})
        return int(rows[0][0]) if rows else None


def _place(key: SessionKey) -> dict[str, object]:
    return {"agent": key.agent, "session": key.session}
