"""A plugin for LangGraph's tests: `HoldfastSaver` in the place of its savers."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any

import langgraph.checkpoint.memory
import langgraph.checkpoint.sqlite
import langgraph.checkpoint.sqlite.aio
from suite_report import Report  # type: ignore[import-not-found, unused-ignore]

from holdfast.integrations.langgraph import HoldfastSaver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import pytest

_FIELDS = "sets or reads the dictionaries of `InMemorySaver`"
_SQL = "is about SQLite's statements, and makes no saver or reads its connection"
LEFT_OUT = {
    "test_memory_saver": "is about the context managers that only `InMemorySaver` has",
    "test_load_blobs_omits_delta_channel": _FIELDS,
    "test_get_channel_writes_collects_ancestor_writes_only": _FIELDS,
    "test_get_channel_writes_at_root_returns_empty": _FIELDS,
    "test_fallback_returns_ancestor_writes_oldest_first": _FIELDS,
    "test_async_fallback_returns_ancestor_writes_oldest_first": _FIELDS,
    "test_async_fallback_concurrent_tasks_do_not_interfere": _FIELDS,
    "test_seed_from_pre_delta_ancestor_blob": _FIELDS,
    "test_seed_bounds_walk_without_dropping_its_own_writes": _FIELDS,
    "test_search_where": _SQL,
    "test_metadata_predicate": _SQL,
    "test_metadata_predicate_sql_injection_prevention": _SQL,
    "test_walk_step_looks_up_the_parent_by_primary_key": _SQL,
    "test_checkpoint_search_sql_injection_prevention": "asserts which filters SQL cannot express",
    "test_delta_channel_conformance": "asks for a capability that no released suite knows",
    "test_informative_async_errors": "asserts that `SqliteSaver` has no asynchronous methods",
}
"""Tests that cannot be about another class, by name, each with the reason."""

report = Report(LEFT_OUT)


class Saver(HoldfastSaver):
    """Takes the arguments of LangGraph's savers; each is a store in memory."""

    def __init__(self, *_connection: Any, serde: Any = None) -> None:
        report.count()
        super().__init__(root="memory:", serde=serde)


class SqliteSaver(Saver):
    """In the place of the blocking saver."""

    @classmethod
    @contextmanager
    def from_conn_string(cls, _address: str) -> Iterator[SqliteSaver]:
        yield cls()


class AsyncSqliteSaver(Saver):
    """In the place of the asynchronous one."""

    @classmethod
    @asynccontextmanager
    async def from_conn_string(cls, _address: str) -> AsyncIterator[AsyncSqliteSaver]:
        yield cls()


langgraph.checkpoint.memory.InMemorySaver = Saver
langgraph.checkpoint.sqlite.SqliteSaver = SqliteSaver
langgraph.checkpoint.sqlite.aio.AsyncSqliteSaver = AsyncSqliteSaver


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(report)
