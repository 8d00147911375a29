"""The path of a log from its newest line back, by the rules of `tree` and `chain`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from holdfast.core.log.chain import Chain, ends_chain
from holdfast.core.log.damage import Flaw
from holdfast.core.log.ids import positional_id

if TYPE_CHECKING:
    from holdfast.core.log.chain import Stands


Item = TypeVar("Item", bound="Stands")


class Backtrack(Generic[Item]):
    """Follows the path from the head towards the root, given the lines newest first.

    `offer` takes a line and returns the records on the path that are certain by now, newest first;
    `finish` does so after the first line of the log. Lines of an append of several records are
    held until the line before it is seen, for a lost page may be there. No other line is needed
    again, unless a named parent turns out to be missing: then `missing` is the position of the
    record that names it, and `bridge` says where to start again.
    """

    def __init__(self) -> None:
        self._wanted: str | None = None
        self._wanted_by: int | None = None
        self._restart: int | None = None
        """The end of the lines among which `_wanted_by` was settled; None for the log's."""
        self._held: list[tuple[int, Item | Flaw | None]] = []
        self._held_end: int | None = None
        self._newer: int | None = None
        """The position of the line offered last."""

    def offer(self, position: int, item: Item | Flaw | None) -> list[tuple[int, Item]]:
        found = self.finish() if self._held and ends_chain(item) else []
        if not self._held:
            self._held_end = self._newer
        self._newer = position
        if item is None or isinstance(item, Flaw) or item.more is not None:
            self._held.append((position, item))
        elif self._is_next(position, item):
            found.append((position, item))
        return found

    def finish(self) -> list[tuple[int, Item]]:
        """Settle the lines held: no line before them belongs to them."""
        held, self._held = self._held, []
        complete = held if _is_whole(held) else _complete(held)
        return [
            (position, item)
            for position, item in complete
            if item is not None and not isinstance(item, Flaw) and self._is_next(position, item)
        ]

    @property
    def missing(self) -> int | None:
        """After `finish`: the record whose named parent never came, if there is one."""
        return self._wanted_by if self._wanted is not None else None

    def bridge(self) -> int | None:
        """Take the record before instead of the missing parent; restart from before the result."""
        assert self._wanted is not None
        self._wanted = None
        self._newer = self._restart
        return self._restart

    def _is_next(self, position: int, item: Item) -> bool:
        """Return whether a record is on the path, and go on from there."""
        if self._wanted_by is not None and position >= self._wanted_by:
            return False  # read again for the sake of its append
        if self._wanted is not None and self._wanted != (item.id or positional_id(position)):
            return False
        self._wanted, self._wanted_by = item.parent, position
        self._restart = self._held_end
        return True


def _is_whole(held: list[tuple[int, Item | Flaw | None]]) -> bool:
    """True for the lines of one complete append, newest first: nearly always."""
    return [getattr(item, "more", None) for _position, item in held] == list(range(len(held)))


def _complete(held: list[tuple[int, Item | Flaw | None]]) -> list[tuple[int, Item | Flaw | None]]:
    chain = Chain()
    counted = {
        line[0]
        for position, item in reversed(held)
        for line in chain.add(position, 0, item).counted
    }
    return [line for line in held if line[0] in counted]
