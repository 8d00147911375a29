"""The page of access tokens, for an operator: list, make, revoke."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from holdfast.core.history.access import RIGHTS
from holdfast.core.text.typed import convert_typed
from holdfast.engine.operations.server import CreateToken, ListTokens, NewToken, RevokeToken
from holdfast.surfaces.console.layout import form_route, page_route, show
from holdfast.surfaces.http.operations import operate
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import JsonBody

if TYPE_CHECKING:
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_Text = Annotated[str, msgspec.Meta(max_length=200)]


class TokenForm(JsonBody, frozen=True):
    """A token to make; without days, it never expires."""

    name: _Text
    owner: _Text = ""
    scope: _Text = "write"
    days: _Text = ""


def _page(call: HttpCall, made: NewToken | None = None) -> HttpAnswer:
    found = ListTokens().answer(call.workspace).value
    return show(call, "tokens.html", "Tokens", tokens=found.tokens, made=made, scopes=RIGHTS)


async def _create(call: HttpCall) -> HttpAnswer:
    form: TokenForm = call.body
    try:
        days = float(form.days) if form.days.strip() else None
        asked = {"name": form.name, "owner": form.owner, "scope": form.scope, "days": days}
        given = convert_typed(asked, CreateToken)
    except ValueError as error:
        raise Problem(
            400, f"no such token can be made: {error}", hint="nothing was made"
        ) from error
    made = await operate(CreateToken, call, **msgspec.structs.asdict(given))
    return _page(call, made)


ROUTES: Final = (
    page_route(
        "GET", "/tokens", "Tokens", _page, action="list", scope="admin", is_for_operator=True
    ),
    page_route(
        "POST",
        "/tokens",
        CreateToken.title,
        _create,
        body=TokenForm,
        operation=CreateToken,
        scope="admin",
        is_for_operator=True,
    ),
    form_route("/tokens/{name}/revoke", RevokeToken, (), lambda _call: "/tokens"),
)
