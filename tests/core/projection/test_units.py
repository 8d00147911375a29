"""Messages and weights of a view, kept from one view to the next: the same as made again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.models.messages import Role, Text
from holdfast.core.projection.sizes import Scale, WeighedUnits
from holdfast.core.projection.units import (
    ContextUnit,
    JoinedMessages,
    MessagePart,
    Source,
    messages_of,
)


def unit(name: str, roles: str) -> ContextUnit:
    """A unit with a part for each letter: `u` for the user's role, `a` for the assistant's."""
    return ContextUnit(tuple(part(f"{name}{at}", role) for at, role in enumerate(roles)))


def part(record: str, letter: str) -> MessagePart:
    role: Role = "user" if letter == "u" else "assistant"
    source: Source = "user" if letter == "u" else "assistant"
    return MessagePart(record, source, role, (Text(f"words of {record}"),))


ROLES = st.text("ua", min_size=1, max_size=3)
CHANGES = st.lists(st.tuples(st.sampled_from(("add", "grow", "cut", "drop")), ROLES), max_size=30)


@given(changes=CHANGES)
@examples(300)
def test_kept_messages_and_weights_are_those_that_are_made_again(
    changes: list[tuple[str, str]],
) -> None:
    """Whatever is added, grows at the end, is cut from the beginning or dropped from the end."""
    joined, weighed = JoinedMessages(), WeighedUnits(Scale())
    units: list[ContextUnit] = []
    for number, (change, roles) in enumerate(changes):
        new = unit(f"r{number}", roles)
        if change == "add" or not units:
            units = [*units, new]
        elif change == "grow":
            units = [*units[:-1], ContextUnit((*units[-1].parts, *new.parts))]
        elif change == "cut":
            units = [new, *units[len(units) // 2 :]]
        else:
            units = units[:-1]
        assert joined.of(units) == messages_of(units)
        assert joined.of(units) is joined.of(units), "nothing is made twice"
        for end in (len(units), len(units) // 2, len(units)):
            again = Scale().units(units[:end])
            found = weighed.first(units, end)
            assert (found.counted, found.results) == (again.counted, again.results)
