"""The values of a thread's channels, by version: each is stored once.

A list is its difference from the version before it. A version that is stored again has its newest
value, and what goes on from it keeps the value that it went on from.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

Packed = tuple[str, str]
"""A value as a serializer wrote it: the name of its kind, and its bytes as text."""
EMPTY: Final = ("empty", "")
"""A channel that has a version and no value."""
_CONTENTS: Final = 4
"""The fields of a value that say what it is: all but its tips."""
_Version = tuple[str, str, str]
"""The namespace, the channel, and its version as text."""


class StoredValue(msgspec.Struct, gc=False):
    """A version of a channel, as a checkpoint keeps it. A message among its elements is None: its
    record came before the checkpoint."""

    version: tuple[str, Any]
    whole: Packed | None = None
    base: str | None = None
    keep: int = 0
    items: tuple[Packed | None, ...] = ()


class _Value(NamedTuple):
    """A version of a channel: a value, or a list that goes on from another version."""

    whole: Packed | None
    base: str | None = None
    keep: int = 0
    items: Sequence[Packed] = ()
    tips: Sequence[str] = ()
    """For each element, the record of the last message up to it; empty where there is none."""
    tip: str = ""
    """The record of the last message in it; empty where there is none."""


class ChannelValues:
    """The values of all channels of a thread."""

    def __init__(self, root: str) -> None:
        self._root = root
        """The first record of the log."""
        self._values: dict[_Version, _Value] = {}
        self.newest: dict[tuple[str, str], str] = {}
        """The version of each channel that was stored last."""

    def add(
        self, ns: str, channel: str, stored: StoredValue, messages: Iterator[tuple[str, Packed]]
    ) -> None:
        """Take the next version of a channel, and the messages that it lacks."""
        version = spell_version(_read_tag(stored.version))
        value = self._read(ns, channel, stored, messages)
        known = self._values.get((ns, channel, version))
        if known is not None and known[:_CONTENTS] != value[:_CONTENTS]:
            value = self._replace(ns, channel, version, value)
        self._values[ns, channel, version] = value
        self.newest[ns, channel] = version

    def whole(self, ns: str, channel: str, version: Any) -> Packed | None:
        """Return the value of a version: `EMPTY` where it has none, None for a list."""
        stored = self._values.get((ns, channel, spell_version(version)))
        return EMPTY if stored is None else stored.whole

    def items(self, ns: str, channel: str, version: str) -> list[Packed]:
        """Return the elements of a list."""
        chain: list[_Value] = []
        stored = self._values.get((ns, channel, version))
        while stored is not None:
            chain.append(stored)
            if stored.whole is not None or stored.base is None:
                break
            stored = self._values.get((ns, channel, stored.base))
        items: list[Packed] = []
        for link in reversed(chain):
            if link.whole is None:
                del items[link.keep :]
                items += link.items
        return items

    def tip_at(self, ns: str, channel: str, version: str | None, keep: int) -> str:
        """Return the record of the last message among the first `keep` elements of a version."""
        while version is not None:
            stored = self._values[ns, channel, version]
            if keep >= stored.keep + len(stored.items):
                return stored.tip or self._root
            if keep > stored.keep:  # inside of what it added
                return stored.tips[keep - stored.keep - 1] or self._root
            version = stored.base
        return self._root

    def _read(
        self, ns: str, channel: str, stored: StoredValue, messages: Iterator[tuple[str, Packed]]
    ) -> _Value:
        if stored.whole is not None:
            return _Value(stored.whole)
        tip = "" if ns else self.tip_at(ns, channel, stored.base, stored.keep)
        items: list[Packed] = []
        tips: list[str] = []
        for item in stored.items:
            if item is None:
                tip, packed = next(messages)
            else:
                packed = item
            items.append(packed)
            tips.append(tip)
        return _Value(None, stored.base, stored.keep, items, tips, tip)

    def _replace(self, ns: str, channel: str, version: str, value: _Value) -> _Value:
        """Return the value of a version that is stored again, and written in another way."""
        known = self._values[ns, channel, version]
        value = self._without_base(ns, channel, value)
        if known.whole is None and self.items(ns, channel, version) == value.items:
            return known  # the same list: kept as a difference, it takes less room
        for place, stored in list(self._values.items()):
            if place[:2] == (ns, channel) and stored.base == version:  # it keeps what this was
                self._values[place] = self._without_base(ns, channel, stored)
        return value

    def _without_base(self, ns: str, channel: str, value: _Value) -> _Value:
        """Return a list that goes on from no other version: one that is stored again may go on
        from itself."""
        if value.whole is not None or value.base is None:
            return value
        kept = self.items(ns, channel, value.base)[: value.keep]
        tips = [
            "" if ns else self.tip_at(ns, channel, value.base, count + 1)
            for count in range(len(kept))
        ]
        return _Value(None, None, 0, [*kept, *value.items], [*tips, *value.tips], value.tip)


def tag_version(version: Any) -> list[Any]:
    """Return a version as it is stored."""
    return [type(version).__name__, version]


def spell_version(version: Any) -> str:
    """Return a version as text: 1, 1.0 and "1" are three."""
    return f"{type(version).__name__}:{version}"


def _read_tag(tagged: Sequence[Any]) -> Any:
    kind, version = tagged
    return float(version) if kind == "float" else version
