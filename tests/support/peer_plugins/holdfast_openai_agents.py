"""A plugin for the tests of openai-agents: `HoldfastSession` in the place of `SQLiteSession`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import agents
import agents.memory
from suite_report import Report  # type: ignore[import-not-found, unused-ignore]

from holdfast.integrations.openai_agents import HoldfastSession

if TYPE_CHECKING:
    import pytest

_INSIDES = "looks into the connections, locks or tables of SQLite"
LEFT_OUT = {
    "test_sqlite_session_close_closes_worker_thread_connections": _INSIDES,
    "test_sqlite_session_reaps_connections_from_exited_worker_threads": _INSIDES,
    "test_sqlite_session_closes_retired_connections_before_the_next_allocation": _INSIDES,
    "test_sqlite_session_keeps_connections_of_live_worker_threads": _INSIDES,
    "test_sqlite_session_pop_item_skips_corrupt_most_recent": _INSIDES,
    "test_sqlite_session_pop_item_returns_none_after_dropping_only_corrupt_rows": _INSIDES,
    "test_sqlite_session_get_items_limit_skips_corrupt_newest_rows": _INSIDES,
    "test_sqlite_session_get_items_session_settings_limit_skips_corrupt_rows": _INSIDES,
    "test_sqlite_session_file_lock_is_shared_across_instances": _INSIDES,
    # What a failed `add_items` raises and leaves is in openai_agents/test_session.py.
    "test_sqlite_session_failed_add_items_releases_write_lock": _INSIDES,
    "test_sqlite_session_failed_clear_session_rolls_back": _INSIDES,
    "test_sqlite_session_failed_pop_item_releases_write_lock": _INSIDES,
    "test_sqlite_session_rollback_failure_evicts_connection": _INSIDES,
    "test_sqlite_session_close_retries_quarantined_connection": _INSIDES,
    "test_sqlite_session_post_commit_cancellation_propagates_after_known_outcome": _INSIDES,
}
"""Tests that cannot be about another class, by name, each with the reason."""

report = Report(LEFT_OUT)


class SQLiteSession(HoldfastSession):
    """Takes the arguments of the SDK's class; a database is a store beside it."""

    def __init__(
        self,
        session_id: str,
        db_path: Any = ":memory:",
        *_tables: str,
        session_settings: Any = None,
    ) -> None:
        report.count()
        root = "memory:" if str(db_path) == ":memory:" else f"{db_path}.holdfast"
        super().__init__(session_id, root=root, session_settings=session_settings)


agents.SQLiteSession = agents.memory.SQLiteSession = SQLiteSession


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(report)
