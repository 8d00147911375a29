"""Decisions about messages that are copied from one store into another.

A message keeps its id: the keys of answers are made of it, and so is the order of a lane. Nothing
is remembered between two copies: what the target has is compared with the source, and a message
that went on at the target is left alone there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.queues.bodies import encode_body, is_same
from holdfast.core.queues.messages import FINISHED

if TYPE_CHECKING:
    from holdfast.core.queues.messages import QueuedMessage

MessageCopy = Literal["added", "updated", "same", "conflict"]
"""`added`: it was not at the target. `updated`: the target had an earlier state of it. `same`:
nothing was to be done. `conflict`: the target has another message with its id or its key, has gone
on with it, or is further in its lane; it was not touched."""

_MOMENT: Final = 0.001
"""Seconds within which two times are one: stores round them differently."""
_AS_THEY_ARE: Final = ("state", "tries", "lost_claims", "claims", "holder", "reason")
_TIMES: Final = ("created", "changed", "due")


def as_copy(message: QueuedMessage) -> QueuedMessage:
    """Return a message as another store gets it: one that is worked on waits there.

    Its claim is one without an outcome, as where a process ends that worked on it.
    """
    if message.state != "running":
        return message
    tries, lost = message.tries - 1, message.lost_claims + 1
    return msgspec.structs.replace(message, state="waiting", tries=tries, lost_claims=lost)


def compare_copy(
    copy: QueuedMessage,
    with_its_id: QueuedMessage | None,
    with_its_key: QueuedMessage | None,
    *,
    is_lane_further: bool,
) -> MessageCopy:
    """Decide about a copy, beside the messages of the target that have its id and its key.

    `is_lane_further` is True where a later message of its lane waits or is worked on there.
    """
    there = with_its_id
    is_free = with_its_id is None and with_its_key is None
    opens = copy.state not in FINISHED and (there is None or there.state in FINISHED)
    if opens and is_lane_further:
        return "conflict"  # it would be worked on beside the one that follows it
    if is_free:
        return "added"
    if there is None or with_its_key is None or with_its_key.id != there.id:
        return "conflict"
    if not is_same(there, copy):
        return "conflict"
    if is_equal(copy, there):
        return "same"
    is_earlier = there.claims <= copy.claims and there.changed <= copy.changed + _MOMENT
    return "updated" if is_earlier and there.state != "running" else "conflict"


def is_equal(copy: QueuedMessage, there: QueuedMessage) -> bool:
    """Return whether two stores say the same about a message."""
    times = [(getattr(copy, name), getattr(there, name)) for name in _TIMES]
    return (
        is_same(there, copy)
        and all(getattr(copy, name) == getattr(there, name) for name in _AS_THEY_ARE)
        and all(abs(ours - theirs) <= _MOMENT for ours, theirs in times)
        and encode_body(copy.result or {}) == encode_body(there.result or {})
    )
