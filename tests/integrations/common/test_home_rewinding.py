"""Taking messages back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Label, Unknown, User
from holdfast.integrations.common.home import clear_path, move_head
from holdfast.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

KEY = SessionKey("main", "s")


def test_cleared_path_is_empty_and_clearing_it_again_writes_nothing(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        store.create(KEY)
        store.append(KEY, [Label(label="kept")], expect=None)
        before = store.head(KEY)
        clear_path(store, KEY)
        assert store.head(KEY) == before
        store.append(KEY, [User(content="hi"), Unknown(type="item")], expect=None)
        clear_path(store, KEY)
        after = store.head(KEY)
        clear_path(store, KEY, "item")
        assert store.head(KEY) == after
        assert [record.kind for record in store.read(KEY)] == ["session", "rewind"]
        store.append(KEY, [Unknown(type="item")], expect=None)
        clear_path(store, KEY, "item")
        assert [record.kind for record in store.read(KEY)] == ["session", "rewind"]


def test_head_is_moved_only_from_where_it_was_seen(tmp_path: Path) -> None:
    with open_store(tmp_path) as store:
        first = store.create(KEY)
        second = store.append(KEY, [User(content="a")], expect=None).head
        store.append(KEY, [User(content="b")], expect=None)
        assert not move_head(store, KEY, first, second)
        assert move_head(store, KEY, second, store.head(KEY), [User(content="c")])
        said = [record.content for record in store.read(KEY) if isinstance(record, User)]
        assert said == ["a", "c"]
