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
_ACQUIRE: Final = f"""UPDATE {{s}}.logs SET lease_token = nextval('{{s}}.lease_tokens'),
  lease_holder = %(holder)s, lease_try = %(nonce)s, lease_since = clock_timestamp(),
  lease_until = {_UNTIL}
  {_WHERE} AND (lease_holder IS NULL OR lease_until <= clock_timestamp()) RETURNING lease_token"""
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

    def acquire(self, key: SessionKey, holder: str, seconds: float) -> int:
        nonce = secrets.token_bytes(8)
        values = {"holder": to_bytes(holder), "seconds": seconds, "nonce": nonce}
        while True:
            taken = self._change(_ACQUIRE, key, **values)
            if taken is not None:
                return taken
            token, other, since, is_held, found = self._read(key)
            if is_held and found == nonce:
                return int(token)  # taken by a try whose answer was lost
            if is_held:
                raise TurnInProgress(str(key), to_text(other), since)

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

    def _read(self, key: SessionKey) -> tuple[Any, ...]:
        rows = self._connections.rows(
            f"read the lease of session `{key.session}`", _CURRENT, _place(key)
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
