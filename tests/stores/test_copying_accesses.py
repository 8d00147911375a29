"""The audit log of a target has every access of the source, and is read a page at a time."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from holdfast.core.history.access import Access
from holdfast.ports import AuditPage
from holdfast.stores.audit import MemoryAudit
from holdfast.stores.copying import copy_accesses

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


def access(number: int) -> Access:
    return Access(
        ts=float(number),
        action="read",
        agent="main",
        session="s",
        owner="ann",
        target=f"main/{number} {'x' * 200}",
        is_allowed=True,
        reason="",
    )


NUMBERS = st.lists(st.integers(0, 4), max_size=12)


@given(there=NUMBERS, here=NUMBERS)
def test_accesses_that_are_missing_follow_in_their_order(there: list[int], here: list[int]) -> None:
    """Each as often as the source has it; those of the target stay, and a second run adds none."""
    source, target = MemoryAudit(), MemoryAudit()
    source.note_all(map(access, here))
    target.note_all(map(access, there))
    lacking = sum((Counter(here) - Counter(there)).values())
    assert copy_accesses(source, target, is_dry_run=True) == (lacking, 0)
    assert copy_accesses(source, target) == (lacking, 0)
    found = [int(each.ts) for each in target.entries().accesses]
    assert found[: len(there)] == there
    assert Counter(found) == Counter(there) | Counter(here)
    added, rest = found[len(there) :], iter(here)
    assert all(number in rest for number in added), "in the order of the source"
    assert copy_accesses(source, target) == (0, 0)


class EndlessAudit:
    """An audit log of any length that is made while it is read."""

    def __init__(self, pages: int) -> None:
        self._pages = pages
        self.noted = 0

    def note(self, access: Access) -> None:
        raise NotImplementedError

    def note_all(self, accesses: Iterable[Access]) -> None:
        self.noted += sum(1 for _access in accesses)

    def entries(self, last: int | None = None) -> AuditPage:
        raise NotImplementedError

    def pages(self) -> Iterator[AuditPage]:
        for page in range(self._pages):
            yield AuditPage(tuple(access(page * 500 + number) for number in range(500)), 0)

    def reduce(self, change: Callable[[Access], Access], mentions: Iterable[str]) -> int:
        raise NotImplementedError


def _peak(pages: int) -> int:
    """Return the memory that a comparison takes, the first half being at the target already."""
    source, target = EndlessAudit(2 * pages), EndlessAudit(pages)
    tracemalloc.start()
    try:
        assert copy_accesses(source, target) == (pages * 500, 0)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_an_audit_log_is_never_whole_in_memory() -> None:
    """Eight times as many accesses take about the same memory."""
    assert _peak(8) < 1.5 * _peak(1)
