"""Reporting credentials that nobody registered, once the record that held them is stored."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.flow.effects import Append, Emit
from holdfast.core.flow.events import SecretFound

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Record
    from holdfast.core.secrets.found import SecretFinding
    from holdfast.core.turn.run import RunState


def append_one(run: RunState, record: Record) -> Flow[str]:
    """Append a record without the secrets that are to have handles; returns its id."""
    record, hidden = run.secret_watch.hide(record)
    stored = yield Append((record,))
    yield from report_secrets(run, stored[0], hidden)
    record_id: str = stored[0].id
    return record_id


def report_secrets(run: RunState, record: Record, hidden: Iterable[SecretFinding]) -> Flow[None]:
    """Emit what was found in a stored record, and what was hidden before it was stored."""
    watch = run.secret_watch
    for finding in watch.take_new((*hidden, *watch.look(record))):
        yield Emit(SecretFound(record.id, record.kind, finding.kind, finding.is_stored))
