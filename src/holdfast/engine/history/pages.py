"""Pages of a session: records read back from the end, and only those that fit looked at closely.

What a model refused is on no page: the reader of a page is a model, too. A refusal is logged before
the reply that ends its turn, so one turn is all that a page looks ahead.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.history.page import Gathering, in_turn, record_in, units_back, units_forward
from holdfast.core.history.sanitise import (
    call_names,
    clean_record,
    is_message,
    is_result,
    is_within,
    matches,
    searchable,
)
from holdfast.core.limits import HISTORY_SEARCH_CHARS_MAX
from holdfast.core.log.records import Assistant, ToolUse, tool_calls
from holdfast.core.refusals import as_told, tell_back
from holdfast.errors import NoSuchRecord

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.core.history.page import Page, PageUnit
    from holdfast.core.history.sanitise import Clean
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.ports import SessionStore

_GLANCE: Final = 8
"""Redacting a text costs this many times more than seeing that it has no match."""
_NEAR_RECORDS: Final = 8_192
"""The distance up to which a record is looked for from the end; beyond it the log is searched."""


class PageReader:
    """Reads pages of at most `cap` bytes. `scope` names what the caller sees."""

    def __init__(
        self,
        store: SessionStore,
        redactor: Redactor,
        cap: int,
        scope: str,
        *,
        limit: int,
        include_tools: bool,
    ) -> None:
        self._store = store
        self._redactor = redactor
        self._cap = cap
        self._scope = scope
        self._limit = limit
        self._tools = include_tools

    def newest(self, key: SessionKey, cursor: str, words: Sequence[str]) -> Page:
        """The newest messages, or those before a cursor; with `words`, those that contain them."""
        before = record_in(cursor, key) if cursor else None
        units = units_back(self._back(key, before), include_tools=self._tools)
        gathering = Gathering(self._limit, self._cap, tuple(words))
        if words:
            return self._matching(key, words, units, gathering)
        for unit in units:
            gathering.take(unit, self._clean(unit))
            if gathering.is_done:
                break
        return gathering.page(
            self._redactor.text(str(key)), self._scope, has_older=next(units, None) is not None
        )

    def _matching(
        self,
        key: SessionKey,
        words: Sequence[str],
        units: Iterator[PageUnit],
        gathering: Gathering,
    ) -> Page:
        """The newest messages that contain all words, within the bound of one search."""
        searched, found, last = 0, 0, ""
        for unit in units:
            last = unit.first
            texts = [searchable(record) for record in unit.records]
            if any(is_within(words, text) for text in texts):
                cleans = tuple(self._clean(unit))
                hits = sum(matches(clean, words) for clean in cleans)
                if hits:
                    found += hits
                    gathering.take(unit, cleans)
                searched += sum(map(len, texts))
            else:
                searched += sum(map(len, texts)) // _GLANCE
            if gathering.is_done or gathering.is_short or searched > HISTORY_SEARCH_CHARS_MAX:
                break
        page = gathering.page(self._redactor.text(str(key)), self._scope, has_older=False)
        has_older = next(units, None) is not None
        return msgspec.structs.replace(page, matches=found, older=last if has_older else None)

    def around(self, key: SessionKey, record: str) -> Page:
        """The messages around a record, older and newer ones in turn."""
        anchor = self._anchor(key, record)
        start, tools = self._unit_start(key, anchor), self._tools
        newer = units_forward(
            _tell_forward(self._store.read(key, start=start)), include_tools=tools
        )
        older = units_back(self._back(key, start), include_tools=tools)
        gathering = Gathering(self._limit, self._cap, ())
        first = next(newer, None)
        if first is not None:
            gathering.take(first, self._clean(first), wanted=anchor.id)
        turns = in_turn(older, newer)
        while not gathering.is_done and (turn := next(turns, None)) is not None:
            unit, is_newer = turn
            gathering.take(unit, self._clean(unit), is_newer=is_newer)
        page = gathering.page(
            self._redactor.text(str(key)), self._scope, has_older=next(older, None) is not None
        )
        has_newer = gathering.is_short_of_newer or next(newer, None) is not None
        return msgspec.structs.replace(page, has_newer=has_newer)

    def _back(self, key: SessionKey, before: str | None) -> Iterator[Record]:
        """The records before one, or all, newest first, without what a model refused."""
        turn = () if before is None else next(_turns(self._store.read(key, start=before)), ())
        return tell_back(self._store.back(key, before=before), turn)

    def _anchor(self, key: SessionKey, record: str) -> Record:
        """The record of that id, which is usually one that a recent page showed."""
        for record_before in islice(self._store.back(key), _NEAR_RECORDS):
            if record_before.id == record:
                return record_before
        found = self._store.find(key, record)
        if found.id != record:
            raise NoSuchRecord(record, key.session)
        return found

    def _unit_start(self, key: SessionKey, record: Record) -> str:
        """The first record of the unit that a record belongs to: a result belongs to its call."""
        start = record.id
        if not is_result(record) and not isinstance(record, ToolUse):
            return start
        for before in self._store.back(key, before=start):
            if isinstance(before, Assistant):
                return before.id
            if isinstance(before, ToolUse):
                start = before.id
            elif is_message(before) and not is_result(before):
                break
        return start

    def _clean(self, unit: PageUnit) -> Iterator[Clean]:
        names = call_names(unit.records)
        return (clean_record(record, self._redactor, names) for record in unit.records)


def _turns(oldest_first: Iterable[Record]) -> Iterator[list[Record]]:
    """Yield the records up to each reply that ends a turn, and those behind the last one."""
    turn: list[Record] = []
    for record in oldest_first:
        turn.append(record)
        if isinstance(record, Assistant) and not tool_calls(record.content):
            yield turn
            turn = []
    yield turn


def _tell_forward(oldest_first: Iterable[Record]) -> Iterator[Record]:
    """Yield records without what a model refused."""
    for turn in _turns(oldest_first):
        yield from as_told(turn)
