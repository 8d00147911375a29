"""Copies the messages in queues: with ids, states and keys, in the order in which they came."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from holdfast.core.queues.copies import as_copy, is_equal
from holdfast.errors import StoreError
from holdfast.ports.copying import CopiedMessages

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.core.owners import OwnerFilter
    from holdfast.core.queues.copies import MessageCopy
    from holdfast.ports import QueuedMessage, Queues

_PAGE: Final = 50
"""Messages that are held at a time, and written in one step. A body may have some megabytes."""
_NAMED_MAX: Final = 20
"""Conflicts whose ids are told."""


def copy_messages(
    source: Queues,
    target: Queues,
    *,
    agent: str | None = None,
    owner: OwnerFilter,
    is_dry_run: bool = False,
) -> CopiedMessages:
    """Bring the target's queues up to date, and read again what was written."""
    outcomes: Counter[MessageCopy] = Counter()
    running = 0
    conflicts: list[int] = []
    for page in _pages(source, agent, owner):
        running += sum(message.state == "running" for message in page)
        copies = [as_copy(message) for message in page]
        decided = target.restore(copies, dry_run=is_dry_run)
        outcomes.update(decided)
        pairs = list(zip(copies, decided, strict=True))
        conflicts += [copy.id for copy, outcome in pairs if outcome == "conflict"]
        conflicts = conflicts[:_NAMED_MAX]
        if not is_dry_run:
            _verify(target, [copy for copy, outcome in pairs if outcome in ("added", "updated")])
    return CopiedMessages(
        messages=outcomes.total(),
        added=outcomes["added"],
        updated=outcomes["updated"],
        running=running,
        conflicts=tuple(conflicts),
        conflicts_count=outcomes["conflict"],
    )


def _pages(source: Queues, agent: str | None, owner: OwnerFilter) -> Iterator[list[QueuedMessage]]:
    """The messages, the oldest first; of an agent, those about its sessions."""
    after = 0
    while page := source.copies(owner=owner, after=after, limit=_PAGE):
        after = page[-1].id
        chosen = [
            message for message in page if agent is None or message.session.startswith(f"{agent}/")
        ]
        if chosen:
            yield chosen


def _verify(target: Queues, copies: Sequence[QueuedMessage]) -> None:
    for copy in copies:
        found = target.message(copy.id)
        if found is None or not is_equal(copy, found):
            raise StoreError(
                f"the copy of message {copy.id} is not what was written",
                hint="let nobody use the target meanwhile; look for errors of its disk or database",
            )
