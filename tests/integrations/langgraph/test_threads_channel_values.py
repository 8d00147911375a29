"""The values of channels: each version is there, in the room of its difference."""

from __future__ import annotations

import pytest

from holdfast.integrations.langgraph.threads import (
    ChannelValues,
    GraphLine,
    GraphThread,
    StoredValue,
)

CHANNEL = ("", "messages")


def grow(count: int) -> list[StoredValue]:
    """Return the versions of a list that grows by one element each time."""
    return [
        StoredValue(
            ("int", number),
            base=f"int:{number - 1}" if number else None,
            keep=number,
            items=(("text", str(number)),),
        )
        for number in range(count)
    ]


def store_twice(count: int, how: str) -> ChannelValues:
    """Store each version twice: all of them again afterwards, or each at once."""
    values, made = ChannelValues("root"), grow(count)
    if how == "afterwards":  # as a thread that is copied twice
        first = StoredValue(("int", 0), base=f"int:{count - 1}", keep=1)
        again = [*made, first, *made[1:]]
    else:  # as a checkpoint that is put again: it goes on from itself
        again = [
            each
            for number, value in enumerate(made)
            for each in (
                value,
                StoredValue(("int", number), base=f"int:{number}", keep=number + 1),
            )
        ]
    for stored in again:
        values.add(*CHANNEL, stored, iter(()))
    return values


@pytest.mark.parametrize("how", ["afterwards", "at once"])
def test_a_list_that_is_stored_twice_is_kept_once(how: str) -> None:
    """Every version has its elements, and twice the versions take twice the room."""
    held = []
    for count in (40, 80):
        values = store_twice(count, how)
        for number in range(count):
            found = values.items(*CHANNEL, f"int:{number}")
            assert [data for _kind, data in found] == [str(each) for each in range(number + 1)]
        held.append(sum(len(value.items) for value in values._values.values()))
    assert held == [40, 80]


def test_a_version_with_another_value_leaves_what_went_on_from_it() -> None:
    """Older checkpoints keep the list that they had."""
    values = ChannelValues("root")
    for stored in grow(3):
        values.add(*CHANNEL, stored, iter(()))
    values.add(
        *CHANNEL, StoredValue(("int", 1), base="int:0", keep=0, items=(("text", "x"),)), iter(())
    )

    told = [
        [data for _kind, data in values.items(*CHANNEL, f"int:{number}")] for number in range(3)
    ]
    assert told == [["0"], ["x"], ["0", "1", "2"]]


def test_checkpoints_are_listed_while_another_thread_adds_one() -> None:
    """A saver reads a thread that a writer holds as well."""

    def add(name: str) -> None:
        empty = ("json", "e30=")
        line = GraphLine("graph_checkpoint", name, name=name, checkpoint=empty, metadata=empty)
        thread.add(line)

    class Growing(set[tuple[str, str]]):
        def __contains__(self, place: object) -> bool:
            add(f"more {len(thread.checkpoints)}")
            return False

    thread = GraphThread("root")
    for name in ("a", "b"):
        add(name)
    thread.deleted = Growing()
    assert thread.places() == [("", "b"), ("", "a")]
