"""Lists of messages of many conversations at once, within one window."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from holdfast.core.dialects.registry import target
from holdfast.core.log.records import User, encode
from holdfast.integrations.common.bounded import ListBounds, name_records

if TYPE_CHECKING:
    from holdfast.core.log.records import Record


def talk(name: str) -> list[Record]:
    records: list[Record] = [User(content=f"{name}: hello")]
    return name_records(records, [encode(record).decode() for record in records])


class Evicting(OrderedDict[str, Any]):
    """Loses its oldest item whenever one is set, as if another thread made room just then."""

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        if len(self) > 1:
            self.pop(next(iter(self)))


def test_a_conversation_is_kept_while_another_thread_evicts() -> None:
    bounds = ListBounds(target("gemini"), window=32_000)
    for name in ("ann", "bob"):
        bounds.fit(talk(name))
    bounds._decided = Evicting(bounds._decided)
    OrderedDict.__setitem__(bounds._decided, talk("ann")[0].id, [])
    for name in ("bob", "ann", "ann", "bob"):
        assert bounds.fit(talk(name)).is_unchanged
        assert list(bounds._decided)[-1] == talk(name)[0].id
