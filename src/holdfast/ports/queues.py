"""The port of queues: messages that are kept from their arrival until they are dealt with.

A gateway puts what arrives into the `inbox` before it acknowledges it, and what it sends into an
outbox before it sends it. A message is in a lane; the messages of a lane are worked on one at a
time and in order, those of different lanes side by side. Whoever works on a message claims it for
some seconds. A claim that runs out is free for the next, and whatever its old holder says about the
message later is refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.owners import NamedOwner, Owner, OwnerFilter
    from holdfast.core.queues.copies import MessageCopy
    from holdfast.core.queues.messages import MessageState, NewMessage, QueuedMessage


class MovableMessages(Protocol):
    """Messages on their way from one store into another."""

    def copies(self, *, owner: OwnerFilter, after: int = 0, limit: int = 50) -> list[QueuedMessage]:
        """Return messages in every state, those after the id `after`, the oldest first.

        One whose claim has run out waits, and its claim is a lost one.
        """

    def restore(
        self, messages: Sequence[QueuedMessage], *, dry_run: bool = False
    ) -> list[MessageCopy]:
        """Keep messages of another store with their ids and states, in one step.

        Returns what `compare_copy` decides about each; with `dry_run` nothing else happens. New
        messages get ids after theirs.
        """


class Queues(MovableMessages, Protocol):
    """Durable queues. Times are seconds since 1970, by one clock for all who share them."""

    def put(self, message: NewMessage) -> QueuedMessage:
        """Keep a message durably.

        A message with the same key, queue and owner is returned as it is now; raises `KeyReused`
        where that has another lane, session or body.
        """

    def claim(
        self, queue: str, holder: str, seconds: float, *, limit: int = 1
    ) -> list[QueuedMessage]:
        """Claim the first message of up to `limit` lanes, those that came first.

        A lane whose first message is claimed, or not due yet, gives none. A claim is a try; a
        claim that ran out had no outcome and is a lost claim instead.
        """

    def renew(self, message: QueuedMessage, seconds: float) -> bool:
        """Extend a claim; False where it was lost."""

    def finish(
        self,
        message: QueuedMessage,
        state: Literal["answered", "delivered", "failed", "dropped"],
        *,
        reason: str = "",
        result: Json | None = None,
    ) -> bool:
        """End the work on a claimed message; False where the claim was lost."""

    def postpone(
        self,
        message: QueuedMessage,
        seconds: float,
        *,
        reason: str = "",
        is_counted: bool = True,
    ) -> bool:
        """Let a claimed message wait for so long; False where the claim was lost.

        `is_counted` is False for a try that was not begun.
        """

    def release_all(self, queue: str) -> int:
        """Let every claimed message wait again, at once: for the only process that claims.

        Their claims are lost claims. Returns their number.
        """

    def message(self, message_id: int) -> QueuedMessage | None:
        """Return a message."""

    def find(self, queue: str, owner: Owner, key: str) -> QueuedMessage | None:
        """Return the message with this key."""

    def messages(
        self,
        queue: str | None = None,
        *,
        owner: OwnerFilter,
        lane: str | None = None,
        states: Sequence[MessageState] = (),
        before: int | None = None,
        limit: int = 50,
    ) -> list[QueuedMessage]:
        """Return messages, the newest first; those before the id `before` for the next page.

        None is any queue or lane; no states are all of them.
        """

    def retry(self, message_id: int) -> bool:
        """Let a failed or dropped message wait again, with nothing counted; False where it is in
        another state."""

    def drop(self, message_id: int, reason: str) -> bool:
        """Set a message aside that is not done; False where it is. Its claim is lost."""

    def counts(
        self, queue: str, *, owner: OwnerFilter, lane: str | None = None
    ) -> dict[MessageState, int]:
        """Return the number of messages in each state that has some."""

    def forget(self, *, older_than_seconds: float) -> int:
        """Delete answered, delivered and dropped messages that did not change for so long."""

    def erase(self, of: str | NamedOwner) -> int:
        """Delete the messages about a session (`agent/id`), or those of an owner, for good.

        Returns their number.
        """
