"""Cursors: they name a session and a record, and nothing else gets through."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import texts

from holdfast.core.history.page import cursor, record_in
from holdfast.core.log.ids import SessionKey
from holdfast.errors import UsageError

KEY = SessionKey("main", "abc")


@given(st.text("0123456789abcdef:@-_.", min_size=1, max_size=40))
def test_a_cursor_gives_back_its_record(record: str) -> None:
    assert record_in(cursor(KEY, record), KEY) == record


@given(texts())
def test_whatever_is_invented_is_refused(text: str) -> None:
    with pytest.raises(UsageError):
        record_in(text, KEY)


def test_a_changed_cursor_is_refused() -> None:
    """One digit of the record, of the checksum, or of the session."""
    good = cursor(KEY, "0011")
    for place in range(len(good)):
        other = "0" if good[place] != "0" else "1"
        with pytest.raises(UsageError):
            record_in(good[:place] + other + good[place + 1 :], KEY)


def test_a_cursor_of_another_session_is_refused() -> None:
    for other in (SessionKey("main", "abd"), SessionKey("other", "abc")):
        with pytest.raises(UsageError, match="another session"):
            record_in(cursor(other, "0011"), KEY)
