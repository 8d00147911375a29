"""The list of calls that wait for a person, across the sessions of a store.

It is a queue of the store, so that it is listed by owner and page without opening a session. The
log alone says what became of a call: an entry is put up before the record that parks its call, and
taken down by anyone who finds it decided.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.core.flow.arguments import shorten
from holdfast.core.owners import ANY_OWNER, owner_of, owner_text
from holdfast.core.queues import INBOX, PAID_BY, RESUMES
from holdfast.errors import KeyReused, UsageError
from holdfast.ports import NewMessage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.ports import QueuedMessage, SessionStore, SideStores

WAITING: Final = "approvals"
"""The queue with an entry for each call."""
DECIDED: Final = "decided"
_PAGE: Final = 500
_WAY: Final = ("channel", "about", PAID_BY)
"""Of a message: the way that its answer goes, and who pays for it."""


def mark_waiting(store: SessionStore, key: SessionKey, calls: Iterable[str]) -> None:
    """Put calls of a session on the list. One that was taken down is put up again."""
    queues = store.queues
    newest = queues.messages(INBOX, owner=ANY_OWNER, lane=str(key), limit=1)
    body: Json = {"by_inbox": True, **_way_of(newest[0])} if newest else {}
    owner = owner_of(store.header(key).owner)
    for call in calls:
        entry = NewMessage(
            queue=WAITING,
            lane=str(key),
            key=call,
            body=body,
            owner=owner_text(owner),
            session=str(key),
        )
        with suppress(KeyReused):  # it was put up behind another message
            queues.put(entry)
        known = queues.find(WAITING, owner, call)
        if known is not None and known.state == "dropped":
            queues.retry(known.id)


def list_waiting(
    store: SideStores, owner: OwnerFilter, *, before: int | None = None, limit: int = 50
) -> list[QueuedMessage]:
    """Return entries of the list, the newest first."""
    return store.queues.messages(
        WAITING, owner=owner, states=("waiting",), before=before, limit=limit
    )


def take_down(store: SideStores, entry: QueuedMessage) -> None:
    """Take a call off the list: a person decided, or no one may any more."""
    store.queues.drop(entry.id, DECIDED)


def find_entry(store: SideStores, owner: OwnerFilter, call: str) -> QueuedMessage:
    """Return the entry of a call, also of one that was decided recently. Raises `UsageError`."""
    found = search_entry(store, owner, lambda entry: entry.key == call)
    if found is None:
        raise UsageError(
            f"no call {shorten(call)} waits here",
            hint="list the calls that wait for their keys",
        )
    return found


def search_entry(
    store: SideStores, owner: OwnerFilter, is_it: Callable[[QueuedMessage], bool]
) -> QueuedMessage | None:
    """Return the newest entry that is the one, also of a call that was decided recently."""
    before: int | None = None
    while True:
        page = store.queues.messages(WAITING, owner=owner, before=before, limit=_PAGE)
        found = next((entry for entry in page if is_it(entry)), None)
        if found is not None or len(page) < _PAGE:
            return found
        before = page[-1].id


def put_resume(store: SideStores, key: SessionKey, name: str, owner: Owner) -> QueuedMessage:
    """Let a gateway go on with a session where it stopped, behind what waits in it. The channel of
    its newest message gets the answer. The same `name` again is the same message."""
    queues = store.queues
    found = queues.find(INBOX, owner, name)
    if found is not None:
        return found
    newest = queues.messages(INBOX, owner=ANY_OWNER, lane=str(key), limit=1)
    newest = newest or queues.messages(WAITING, owner=ANY_OWNER, lane=str(key), limit=1)
    message = NewMessage(
        queue=INBOX,
        lane=str(key),
        key=name,
        body={RESUMES: True, **(_way_of(newest[0]) if newest else {})},
        owner=owner_text(owner),
        session=str(key),
    )
    return queues.put(message)


def resume_decided(store: SideStores, key: SessionKey, call: str, owner: Owner) -> bool:
    """Let a gateway go on with a session whose call was decided, where one runs its turns."""
    entry = store.queues.find(WAITING, owner, call)
    runs_by_inbox = entry is not None and bool(entry.body.get("by_inbox"))
    if runs_by_inbox:
        put_resume(store, key, resume_name(call), owner)
    return runs_by_inbox


def resume_name(call: str) -> str:
    """Return the key of the message with which a session goes on after a decision."""
    return f"call {call}"


def _way_of(message: QueuedMessage) -> Json:
    return {name: message.body[name] for name in _WAY if name in message.body}
