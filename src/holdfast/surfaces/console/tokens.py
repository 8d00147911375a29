"""Tokens in a browser: the form that takes one, its cookie, and the page that lists them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from holdfast.core.history.access import RIGHTS
from holdfast.core.text.typed import convert_typed
from holdfast.engine.operations.server import CreateToken, ListTokens, NewToken, RevokeToken
from holdfast.surfaces.console.layout import (
    form_route,
    operation_route,
    page_route,
    see_other,
    show,
)
from holdfast.surfaces.http.identity import TOKEN_COOKIE
from holdfast.surfaces.http.operations import operate
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import HttpQuery, JsonBody, Route

if TYPE_CHECKING:
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall
    from holdfast.surfaces.http.server import HttpServer

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
    operation_route("/tokens", CreateToken, _create, TokenForm),
    form_route("/tokens/{name}/revoke", RevokeToken, (), lambda _call: "/tokens"),
)


Address = Annotated[str, msgspec.Meta(max_length=2_000)]


class LoginQuery(HttpQuery, frozen=True):
    """The page to show after it."""

    next: Address = "/"


class LoginForm(JsonBody, frozen=True):
    """A token."""

    token: Annotated[str, msgspec.Meta(max_length=500)]
    next: Address = "/"


def login_routes(server: HttpServer) -> tuple[Route, ...]:
    """Return the pages that let a browser in and out."""

    async def let_in(call: HttpCall) -> HttpAnswer:
        form: LoginForm = call.body
        token = form.token.strip()
        tokens = server.tokens
        if await tokens.find(token) is None and await tokens.are_needed():
            return _form(form.next, "The token is not known, or has expired.", 403)
        return see_other(_own_page(form.next), **{"Set-Cookie": _cookie(call, token)})

    return (
        page_route(
            "GET",
            "/login",
            "Log in",
            lambda call: _form(call.query.next),
            query=LoginQuery,
            is_open=True,
        ),
        page_route("POST", "/login", "Log in", let_in, body=LoginForm, scope="read", is_open=True),
        page_route(
            "POST",
            "/logout",
            "Log out",
            lambda call: see_other("/login", **{"Set-Cookie": f"{_cookie(call, '')}; Max-Age=0"}),
            scope="read",
            is_open=True,
        ),
    )


def _form(address: str, problem: str = "", status: int = 200) -> HttpAnswer:
    following = _own_page(address)
    return show(None, "login.html", "Log in", status=status, problem=problem, next=following)


def _own_page(address: str) -> str:
    """An address on this server; a login leads nowhere else."""
    is_own = address.startswith("/") and not address.startswith(("//", "/\\"))
    return address if is_own and address.isascii() and address.isprintable() else "/"


def _cookie(call: HttpCall, token: str) -> str:
    """Return the cookie. `Lax`: the browser sends it with a link from another site, too."""
    safe = "".join(char for char in token if char.isascii() and (char.isalnum() or char in "_-."))
    secure = "; Secure" if call.headers.get("origin", "").startswith("https://") else ""
    return f"{TOKEN_COOKIE}={safe}; Path=/; HttpOnly; SameSite=Lax{secure}"
