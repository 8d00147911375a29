"""`token`: the access tokens of a server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeVar, cast

import msgspec

from holdfast.core.history.access import OPERATOR
from holdfast.core.history.answers import Result
from holdfast.core.owners import filter_text, owner_text
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.server import (
    CreateToken,
    ListTokens,
    RevokeToken,
    TokenList,
    TokenRow,
)
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import HoldfastError
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.command import Command, ResultCommand, option, takes
from holdfast.surfaces.formatting import local_time

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.engine.operations.operation import Operation
    from holdfast.surfaces.cli.app import App

R = TypeVar("R", bound=Result)


def _call(operation: Operation[R], app: App) -> R:
    """Carry out an operation as the operator; it is in the audit log."""
    try:
        return operation.call(CallerWorkspace(app.store, OPERATOR))
    except RequestRefused as refused:
        if isinstance(refused.cause, HoldfastError):
            raise refused.cause from refused
        raise


class _NewToken(Command, frozen=True, kw_only=True):
    """Make a token, for --owner; it is shown once."""

    token: Annotated[CreateToken, takes("name", "scope", days=option("", "DAYS"))]
    for_settings: Annotated[
        bool, option("print it for the settings of a server, and do not store its hash")
    ] = False

    def run(self, app: App) -> None:
        asked = msgspec.structs.replace(self.token, owner=owner_text(app.owner_of_new))
        if self.for_settings:
            secret, known = asked.make(time.time())
            kept = {
                name: value
                for name, value in msgspec.to_builtins(known).items()
                if value is not None
            }
            _print_once(app, secret, {"settings": kept})
            app.out.note("for the settings:\n[[tokens]]")
            for name, value in kept.items():
                app.out.note(f"{name} = {msgspec.json.encode(value).decode()}")
            return
        found = _call(asked, app)
        about = msgspec.to_builtins(found)
        _print_once(app, about.pop("token"), about)


def _print_once(app: App, secret: str, about: Json) -> None:
    """Print a token as it is; what is said about it is masked as everywhere."""
    found: Json = {"token": secret, **cast("Json", app.out.mask_value(about))}
    line = msgspec.json.encode(found) if app.out.is_json else secret.encode()
    with app.out.binary() as stream:  # the one place where a token is shown, once
        stream.write(line + b"\n")
    app.out.note("it is stored nowhere but here: keep it now")


class _ListTokens(ResultCommand, frozen=True, kw_only=True):
    """List the tokens of the store, the newest first."""

    def run(self, app: App) -> TokenList:
        found = _call(ListTokens(), app)
        owner = filter_text(app.owner)
        return TokenList(tokens=[row for row in found.tokens if owner in (None, row.owner)])

    def show(self, found: TokenList, app: App) -> None:
        if not found.tokens:
            app.out.note("no tokens; make one with `holdfast token new NAME --owner OWNER`")
        app.out.table(
            ("Name", "Owner", "Scope", "Made", "Expires"),
            (
                (
                    Cell(row.name, "name"),
                    row.owner,
                    row.scope,
                    local_time(row.created),
                    _end_of(row),
                )
                for row in found.tokens
            ),
        )


def _end_of(row: TokenRow) -> str:
    if row.expires is None:
        return "never"
    return f"{local_time(row.expires)}{' (expired)' if row.is_expired else ''}"


class _RevokeToken(ResultCommand, frozen=True, kw_only=True):
    """Revoke a token: it is refused at once, and its streams end."""

    token: Annotated[RevokeToken, takes("name")]

    def run(self, app: App) -> TokenRow:
        return _call(self.token, app)

    def show(self, found: TokenRow, app: App) -> None:
        app.out.line(f"{found.name}: revoked")


class TokenCommand(Command, frozen=True, kw_only=True):
    """Holds the commands on access tokens."""

    example = """examples:
  holdfast token new laptop --owner alice
  holdfast token new admin --owner '*' --scope admin --days 90
  holdfast token list
  holdfast token revoke laptop"""
    verbs: ClassVar[dict[str, type[Command]]] = {
        "new": _NewToken,
        "list": _ListTokens,
        "revoke": _RevokeToken,
    }
