"""Operations on links by which a person without a token decides about a call."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

from msgspec import Meta

from holdfast.core.history.answers import Result
from holdfast.core.owners import owner_of
from holdfast.engine.approval_links import (
    LinkAllows,
    make_link,
    revoke_links,
    rotate_key,
)
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.approvals import CallName, calls_of, name_of, session_of_call
from holdfast.engine.operations.operation import Operation
from holdfast.engine.workspace.workspace import MAY_READ
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.turn.calls import ParkedCall
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.ports import SessionStore

LINK_PATH: Final = "/decide"
"""The page of a link, behind the address of the server."""
LINK_SECONDS: Final = 3 * 86_400.0
"""Over a weekend."""
LINK_SECONDS_MAX: Final = 30 * 86_400.0
"""A link lies in mails for as long."""
LINK_SECONDS_MIN: Final = 60.0
"""A person has to read what it is about."""
_NAME_CHARS_MAX: Final = 200
"""Of a person, as long as the name of a session may be."""
_Session = Annotated[
    str, Meta(description="Its session; found by the key, unless given.", max_length=300)
]


class CallLink(Result, frozen=True):
    """A link to a page where a person decides about a call. It is shown once."""

    link: str
    """The link; without an address, its path and its signature."""
    key: str
    """The key of the call."""
    session: str
    """The session that made the call, as `agent/id`."""
    by: str
    """The person who decides."""
    allows: LinkAllows
    """The decisions that it allows."""
    expires: float
    """The time when it ends, in seconds since 1970."""


class RevokedLinks(Result, frozen=True):
    """Links that are not valid any more."""

    revoked: int
    """Their number."""


class SignedKey(Result, frozen=True):
    """A new key signs links; those of the keys before are not valid any more."""


class LinkCall(Operation[CallLink], frozen=True, kw_only=True):
    """Make a link to a page where a person without a token decides about a call that waits, once.

    Anyone who has the link decides in the name of that person.
    """

    title = "Make a link to decide about a call"
    audit = "approve"
    right = "admin"
    is_for_operator = True
    is_idempotent = False
    session_key: _Session = ""
    key: CallName
    by: Annotated[
        str,
        Meta(
            description="The person who gets it, for the log; one of the approvers of the call.",
            min_length=1,
            max_length=_NAME_CHARS_MAX,
        ),
    ]
    allows: Annotated[LinkAllows, Meta(description="The decisions that it allows.")] = "decide"
    seconds: Annotated[
        float,
        Meta(description="The time until it ends.", ge=LINK_SECONDS_MIN, le=LINK_SECONDS_MAX),
    ] = LINK_SECONDS
    address: Annotated[
        str,
        Meta(
            description="The address of the server as that person reaches it, such as "
            "https://agents.example; the link begins with it.",
            max_length=300,
        ),
    ] = ""

    @property
    def target(self) -> str:
        return self.session_key or self.key

    def answer(self, workspace: CallerWorkspace) -> GivenReply[CallLink]:
        maker = name_of(workspace)
        session, reason = workspace.resolve(
            session_of_call(workspace, self.session_key, self.key), to_change=True
        )
        try:
            made = self.make(workspace.store, session, workspace.clock())
        except UsageError as error:
            raise RequestRefused(
                "conflict", str(error), code=error.code, hint=error.hint or ""
            ) from error
        # It is a secret on purpose: masked, it would open nothing.
        return GivenReply(made, f"{reason} A link for {self.by}, by {maker}.", is_masked=True)

    def make(self, store: SessionStore, session: SessionKey, now: float) -> CallLink:
        """Make it for a call of a session that was found. Raises `UsageError`."""
        address = _check_address(self.address)
        call = _waiting_call(store, session, self.key, self.by, now)
        expires = min(now + self.seconds, call.until or now + self.seconds)
        owner = owner_of(store.header(session).owner)
        token = make_link(
            store,
            session,
            call.key,
            owner=owner,
            by=self.by,
            allows=self.allows,
            expires=expires,
            now=now,
        )
        return CallLink(
            link=f"{address}{LINK_PATH}?link={token}",
            key=call.key,
            session=str(session),
            by=self.by,
            allows=self.allows,
            expires=expires,
        )


class RevokeLinks(Operation[RevokedLinks], frozen=True, kw_only=True):
    """Revoke every link to a call that no one has used."""

    title = "Revoke the links to a call"
    audit = "approve"
    right = "write"
    session_key: _Session = ""
    key: CallName

    @property
    def target(self) -> str:
        return self.session_key or self.key

    def answer(self, workspace: CallerWorkspace) -> GivenReply[RevokedLinks]:
        name_of(workspace)
        session, reason = workspace.resolve(
            session_of_call(workspace, self.session_key, self.key), to_change=True
        )
        return GivenReply(self.revoke(workspace.store, session), reason)

    def revoke(self, store: SessionStore, session: SessionKey) -> RevokedLinks:
        """Revoke those to a call of a session that was found."""
        owner = owner_of(store.header(session).owner)
        return RevokedLinks(revoked=revoke_links(store, owner, self.key))


class RotateLinkKey(Operation[SignedKey], frozen=True):
    """Sign links with a new key. Every link that was made before is not valid any more."""

    title = "Rotate the key of links"
    audit = "approve"
    right = "admin"
    is_for_operator = True
    is_idempotent = False

    def answer(self, workspace: CallerWorkspace) -> GivenReply[SignedKey]:
        name_of(workspace)
        return GivenReply(self.rotate(workspace.store), MAY_READ)

    def rotate(self, store: SessionStore) -> SignedKey:
        """Rotate the key of a store."""
        rotate_key(store)
        return SignedKey()


def _waiting_call(
    store: SessionStore, session: SessionKey, key: str, by: str, now: float
) -> ParkedCall:
    """Return the call, about which that person may decide now. Raises `UsageError`."""
    call = calls_of(store, session).find(key)
    if call is None or not call.is_waiting(now):
        raise UsageError(
            "this call no longer waits", hint="no link was made; list the calls that wait"
        )
    if not call.may_decide(by):
        raise UsageError(
            f"`{by}` may not decide about the call of `{call.name}`",
            hint=f"it waits for {' or '.join(f'`{name}`' for name in call.approvers)}; "
            "no link was made",
        )
    return call


def _check_address(address: str) -> str:
    """Return the address of a server without its last slash. Raises `UsageError`."""
    try:
        parts = urlsplit(address)
        is_plain = parts.scheme in ("http", "https") and bool(parts.hostname)
        is_plain = is_plain and not (parts.query or parts.fragment or parts.username)
    except ValueError:
        is_plain = False
    if address and not (is_plain and address.isascii() and address.isprintable()):
        raise UsageError(
            f"`{address[:100]}` is not the address of a server",
            hint="write it as https://agents.example; no link was made",
        )
    return address.rstrip("/")
