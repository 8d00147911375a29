"""Operations on a server itself: its access tokens, and its settings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, Protocol, runtime_checkable

from msgspec import Meta

from holdfast.core.history.access import Right
from holdfast.core.history.answers import Result
from holdfast.engine.access_tokens import NAME_CHARS_MAX, AccessToken, StoredTokens, new_token
from holdfast.engine.gateway.open_sessions import TOKENS
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import LiveOperation, Operation, run_in_thread
from holdfast.engine.workspace.workspace import MAY_READ

if TYPE_CHECKING:
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.workspace.workspace import CallerWorkspace

_DAY_SECONDS: Final = 86_400.0
_DAYS_MAX: Final = 36_500
"""A century: anyone who means for ever leaves the days out."""
_MAY: Final = "Allowed: an operator."
TokenName = Annotated[
    str, Meta(description="The name of the token.", min_length=1, max_length=NAME_CHARS_MAX)
]


class TokenRow(Result, frozen=True):
    """A token of the store, without the token itself."""

    name: str
    """Unique among the tokens of the store."""
    owner: str
    """The owner whose sessions it opens; `*` for every owner, empty for sessions without an
    owner."""
    scope: Right
    """`read` looks, `write` also sends and changes, `admin` also erases and sees the server."""
    created: float
    """The time it was made, in seconds since 1970."""
    expires: float | None
    """The time from which it is not valid, in seconds since 1970; null for never."""
    is_expired: bool
    """True from that time on."""


class NewToken(Result, frozen=True):
    """A token that was made. It is shown this once: the store keeps its hash."""

    token: str
    """The token, for `Authorization: Bearer`."""
    row: TokenRow
    """The token as lists show it."""


class TokenList(Result, frozen=True):
    """The tokens of the store, the newest first."""

    tokens: list[TokenRow]
    """The tokens."""


class CreateToken(LiveOperation[NewToken], frozen=True):
    """Make an access token. It is in the answer this once, and valid at once in every process that
    shares the store.

    From the first token on, a server of this store takes no request without one.
    """

    title = "Make an access token"
    audit = "token"
    right = "admin"
    is_for_operator = True
    is_idempotent = False
    name: TokenName
    owner: Annotated[
        str,
        Meta(
            description="The owner whose sessions it opens; `*` for every owner, empty for "
            "sessions without an owner.",
            max_length=200,
        ),
    ] = ""
    scope: Annotated[Right, Meta(description="What it may do.")] = "write"
    days: Annotated[
        Annotated[float, Meta(gt=0, le=_DAYS_MAX)] | None,
        Meta(description="The days until it expires; without them, never."),
    ] = None

    @property
    def target(self) -> str:
        return self.name

    def make(self, now: float) -> tuple[str, AccessToken]:
        """Return a token and what is to be kept of it."""
        secret, sha256 = new_token()
        expires = now + self.days * _DAY_SECONDS if self.days is not None else None
        return secret, AccessToken(self.name, sha256, self.owner, self.scope, expires)

    def answer(self, workspace: CallerWorkspace) -> GivenReply[NewToken]:
        now = workspace.clock()
        secret, made = self.make(now)
        StoredTokens(workspace.store, clock=workspace.clock).add(made)
        row = _row(made, now, now)
        return GivenReply(NewToken(token=secret, row=row), _MAY, is_masked=True)

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[NewToken]:
        found = await run_in_thread(self.answer, workspace)
        gateway.live.publish(TOKENS, self.name)
        return found


class ListTokens(Operation[TokenList], frozen=True):
    """List the access tokens of the store. Those in the settings of a server are not among them."""

    title = "List access tokens"
    audit = "list"
    right = "admin"
    is_for_operator = True

    def answer(self, workspace: CallerWorkspace) -> GivenReply[TokenList]:
        now = workspace.clock()
        known = StoredTokens(workspace.store, clock=workspace.clock).all()
        rows = [_row(token, created, now) for token, created in known]
        return GivenReply(TokenList(tokens=rows), MAY_READ)


class RevokeToken(LiveOperation[TokenRow], frozen=True):
    """Revoke an access token: its next request is refused in every process that shares the store,
    and its open streams end. What it has sent is answered."""

    title = "Revoke an access token"
    audit = "token"
    right = "admin"
    is_for_operator = True
    is_idempotent = False
    name: TokenName

    @property
    def target(self) -> str:
        return self.name

    def answer(self, workspace: CallerWorkspace) -> GivenReply[TokenRow]:
        token, created = StoredTokens(workspace.store, clock=workspace.clock).revoke(self.name)
        return GivenReply(_row(token, created, workspace.clock()), _MAY)

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[TokenRow]:
        found = await run_in_thread(self.answer, workspace)
        gateway.live.publish(TOKENS, self.name)
        return found


def _row(token: AccessToken, created: float, now: float) -> TokenRow:
    return TokenRow(
        name=token.name,
        owner=token.owner,
        scope=token.scope,
        created=created,
        expires=token.expires,
        is_expired=not token.is_valid(now),
    )


@runtime_checkable
class ReloadsSettings(Protocol):
    """A service of a gateway that can read its settings again."""

    async def reload(self) -> list[str]:
        """Read the settings, and let them take the place of the old ones: all of them or none.
        Returns the keys that changed. Raises `BadSetting`."""


class ReloadedSettings(Result, frozen=True):
    """The settings were read again, and are in force."""

    changed: list[str]
    """The keys whose values are other than before."""


class ReloadSettings(LiveOperation[ReloadedSettings], frozen=True):
    """Read the settings of the server again, as SIGHUP does.

    They are refused as a whole where anything in them is wrong, or takes a restart: the old ones
    stay in force then. Turns that run go on; the next ones have the new settings.
    """

    title = "Read the settings again"
    audit = "reload"
    right = "admin"
    is_for_operator = True

    async def act(
        self,
        workspace: CallerWorkspace,  # noqa: ARG002 - the settings are not in the store
        gateway: Gateway,
    ) -> GivenReply[ReloadedSettings]:
        service = next(
            (each for each in gateway.services if isinstance(each, ReloadsSettings)), None
        )
        if service is None:
            raise RequestRefused("not_found", "this server has no settings that can be read again")
        changed = await service.reload()
        return GivenReply(ReloadedSettings(changed=changed), "Allowed: an operator.")
