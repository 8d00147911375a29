"""Links by which a person without a token decides about one call.

A link is signed with a key that the store holds. The signature covers the call, its session and
owner, the name of the person, the decisions that the link allows, and the time when it ends. The
store keeps all of that and no signature, so a list of links opens none of them.
"""

from __future__ import annotations

import hmac
import secrets
from base64 import urlsafe_b64encode
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

import msgspec

from holdfast.core.owners import ANY_OWNER, NO_OWNER, owner_text
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.typed import convert_typed
from holdfast.errors import KeyReused
from holdfast.ports import NewMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.ports import QueuedMessage, SideStores

LINKS: Final = "approval-links"
"""The queue with an entry for each link; it waits until the link is used, revoked or over."""
_KEYS: Final = "approval-link-keys"
_LANE: Final = "keys"
_KEY_BYTES: Final = 32
"""Random bytes; as many as the signature has."""
_PAGE: Final = 500
"""Links that are read at once."""
_TOKEN: Final = lazy_pattern(r"([0-9]{1,19})\.([A-Za-z0-9_-]{43})")
LinkAllows = Literal["decide", "approve", "deny"]
LinkState = Literal["open", "used", "revoked", "expired"]
_REVOKED: Final = "revoked"
_USED: Final = "used"
_EXPIRED: Final = "expired"
_ROTATED: Final = "rotated"


class _Terms(msgspec.Struct, frozen=True):
    """The terms of a link, as the store keeps them."""

    by: str
    allows: LinkAllows
    expires: float
    key: int
    """The message that has the key."""


class ApprovalLink(NamedTuple):
    """A link whose signature is right."""

    message: QueuedMessage
    call: str
    session: str
    by: str
    allows: LinkAllows
    expires: float
    state: LinkState


def make_link(
    store: SideStores,
    key: SessionKey,
    call: str,
    *,
    owner: Owner,
    by: str,
    allows: LinkAllows,
    expires: float,
    now: float,
) -> str:
    """Return the token of a new link. It is stored nowhere."""
    _drop_expired(store, now)
    signer = _signing_key(store)
    terms = _Terms(by, allows, expires, signer.id)
    message = store.queues.put(
        NewMessage(
            queue=LINKS,
            lane=call,
            key=secrets.token_hex(16),
            body=msgspec.to_builtins(terms),
            owner=owner_text(owner),
            session=str(key),
        )
    )
    return f"{message.id}.{_sign(message, signer)}"


def find_link(store: SideStores, token: str, now: float) -> ApprovalLink | None:
    """Return the link of a token; None where no one signed it with a key that holds."""
    match = _TOKEN.fullmatch(token)
    message = store.queues.message(int(match[1])) if match is not None else None
    if match is None or message is None or message.queue != LINKS:
        return None
    terms = convert_typed(message.body, _Terms)
    signer = store.queues.message(terms.key)
    if signer is None or signer.queue != _KEYS or signer.state != "waiting":
        return None
    if not hmac.compare_digest(_sign(message, signer), match[2]):
        return None
    return ApprovalLink(
        message,
        call=message.lane,
        session=message.session,
        by=terms.by,
        allows=terms.allows,
        expires=terms.expires,
        state=_state_of(message, terms, now),
    )


def spend_link(store: SideStores, link: ApprovalLink) -> None:
    """Note that a link was used; no one can use it again."""
    store.queues.drop(link.message.id, _USED)


def revoke_links(store: SideStores, owner: OwnerFilter, call: str) -> int:
    """Revoke the links to a call; returns their number."""
    found = store.queues.messages(LINKS, owner=owner, lane=call, states=("waiting",), limit=_PAGE)
    return sum(store.queues.drop(message.id, _REVOKED) for message in found)


def rotate_key(store: SideStores) -> None:
    """Sign with a new key from now on. Links that were signed with another one are not valid any
    more."""
    old = _keys(store)
    _put_key(store)
    for message in old:
        store.queues.drop(message.id, _ROTATED)


def _state_of(message: QueuedMessage, terms: _Terms, now: float) -> LinkState:
    if message.state != "waiting":
        return _REVOKED if message.reason == _REVOKED else _USED
    return _EXPIRED if terms.expires <= now else "open"


def _sign(message: QueuedMessage, signer: QueuedMessage) -> str:
    """Return the signature of a link: 256 bits, in letters that an address may have."""
    covered = [message.id, message.lane, message.session, message.owner, message.key, message.body]
    secret = bytes.fromhex(signer.body["secret"])
    digest = hmac.digest(secret, msgspec.json.encode(covered, order="sorted"), "sha256")
    return urlsafe_b64encode(digest).decode().rstrip("=")


def _signing_key(store: SideStores) -> QueuedMessage:
    """Return the newest key; the first link makes one."""
    found = _keys(store)
    return found[0] if found else _put_key(store)


def _keys(store: SideStores) -> list[QueuedMessage]:
    return store.queues.messages(_KEYS, owner=NO_OWNER, lane=_LANE, states=("waiting",))


def _put_key(store: SideStores) -> QueuedMessage:
    newest = store.queues.messages(_KEYS, owner=NO_OWNER, lane=_LANE, limit=1)
    name = f"after {newest[0].id}" if newest else "first"
    body = {"secret": secrets.token_hex(_KEY_BYTES)}
    with suppress(KeyReused):
        return store.queues.put(NewMessage(queue=_KEYS, lane=_LANE, key=name, body=body))
    made = store.queues.find(_KEYS, NO_OWNER, name)  # another process was quicker
    assert made is not None
    return made


def _drop_expired(store: SideStores, now: float) -> None:
    for message in _waiting(store):
        if convert_typed(message.body, _Terms).expires <= now:
            store.queues.drop(message.id, _EXPIRED)


def _waiting(store: SideStores) -> Iterator[QueuedMessage]:
    before: int | None = None
    while True:
        page = store.queues.messages(
            LINKS, owner=ANY_OWNER, states=("waiting",), before=before, limit=_PAGE
        )
        yield from page
        if len(page) < _PAGE:
            return
        before = page[-1].id
