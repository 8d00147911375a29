"""A session's log as a backend that keeps conversations of its own sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.history.backends import before_newest
from holdfast.core.history.reseed import reseed
from holdfast.engine.redactor import redactor

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Record
    from holdfast.engine.session.session_log import SessionLog


class LogConversation:
    """The conversation in a log. What is retold goes to another program, so secrets are masked."""

    def __init__(self, log: SessionLog) -> None:
        self._log = log

    @property
    def name(self) -> str:
        return str(self._log.key)

    def back(self) -> Iterator[Record]:
        return self._log.store.back(self._log.key)

    def retell(self, chars: int) -> str:
        records = before_newest(self._log.store.live(self._log.key).records)
        return reseed(records, chars, source=self.name, redactor=redactor()).text
