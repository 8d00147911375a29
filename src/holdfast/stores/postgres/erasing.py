"""Deletes sessions of a database for good.

A session whose erasure has begun has the state `ERASING`: no listing shows it and nothing restores
it. Its row is deleted last, so an erasure that was cut off can be run again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.refs import possible_hashes
from holdfast.core.owners import filter_text
from holdfast.ports.erasing import SessionEraser, describe_logs
from holdfast.stores.postgres.catalogue import PostgresCatalogue
from holdfast.stores.postgres.log import PostgresLog
from holdfast.stores.postgres.rows import to_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.owners import OwnerFilter
    from holdfast.ports.erasing import ErasableSession

_ERASING: Final = 2
"""The state of a log whose erasure has begun."""
_OF_KEY: Final = """agent = %(agent)s AND session = %(session)s
  AND (%(owner)s::bytea IS NULL OR owner = %(owner)s)"""
_LOGS: Final = f"SELECT id, size, state FROM {{s}}.logs WHERE {_OF_KEY} ORDER BY id"
_BEGIN: Final = f"""UPDATE {{s}}.logs SET state = 2, lease_token = 0, lease_holder = NULL
  WHERE {_OF_KEY} AND state < 2 RETURNING id"""
_PAGE: Final = 1_000
"""Rows that are looked through for hashes at a time."""
_HASHES: Final = """SELECT r.log, r.position, r.line FROM {s}.records r WHERE r.log = %s
  AND r.position > %s AND encode(r.line, 'escape') ~ '[0-9a-f]{{64}}' ORDER BY position LIMIT %s"""


class PostgresEraser(PostgresCatalogue, SessionEraser):
    """A `SessionEraser` of logs in a database."""

    def erasable(self, key: SessionKey, *, owner: OwnerFilter) -> ErasableSession:
        rows = self._connections.rows("find what to erase", _LOGS, _parameters(key, owner))
        logs = [
            PostgresLog(key, self._connections, number, size, is_erasing=state == _ERASING)
            for number, size, state in rows
        ]
        if not logs:
            raise self._absent(key)
        return describe_logs(key, logs)

    def begin_erasure(self, key: SessionKey, *, owner: OwnerFilter) -> None:
        self._connections.rows(
            f"begin to erase session `{key.session}`", _BEGIN, _parameters(key, owner)
        )

    def erasures(self) -> list[SessionKey]:
        query = "SELECT DISTINCT agent, session FROM {s}.logs WHERE state = 2"
        return sorted(SessionKey(*row) for row in self._rows("list erasures", query))

    def finish_erasure(self, key: SessionKey) -> None:
        query = "SELECT id FROM {s}.logs WHERE agent = %s AND session = %s AND state = 2"
        rows = self._rows("finish an erasure", query, (key.agent, key.session))
        self._delete([row[0] for row in rows])

    def hash_candidates(
        self, *, of: SessionKey | None = None, besides: SessionKey | None = None
    ) -> Iterator[str]:
        query = "SELECT id, agent, session, state FROM {s}.logs"
        for number, agent, session, state in self._rows("list logs", query):
            key = SessionKey(agent, session)
            if key == of if of is not None else (key != besides and state < 2):
                yield from self._hashes_in(number)

    def agents(self) -> set[str]:
        query = "SELECT agent FROM {s}.logs UNION SELECT agent FROM {s}.notes"
        return {row[0] for row in self._rows("list agents", query)}

    def erase_from_indexes(self, session: SessionKey | None, scopes: Sequence[str] = ()) -> None:
        from holdfast.stores.postgres.side_stores.search import PostgresSearchIndex

        index = PostgresSearchIndex(self._connections)
        index.erase(None if session is None else str(session), scopes)

    def _hashes_in(self, number: int) -> Iterator[str]:
        """Yield what could be a hash in a log. The server leaves out the lines without any."""
        position = -1
        while True:
            parameters = (number, position, _PAGE)
            rows = self._rows("look for hashes", _HASHES.replace("{{64}}", "{64}"), parameters)
            for _log, position, line in rows:  # noqa: B007 - the next page begins after it
                yield from possible_hashes(line)
            if len(rows) < _PAGE:
                return


def _parameters(key: SessionKey, owner: OwnerFilter) -> dict[str, object]:
    wanted = filter_text(owner)
    mine = None if wanted is None else to_bytes(wanted)
    return {"agent": key.agent, "session": key.session, "owner": mine}
