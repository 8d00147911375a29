"""The page of branches: every end of the session's tree, and the way to go on from one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.engine.operations.sessions import RewindSession
from holdfast.surfaces.console.layout import form_route, page_route, session_path
from holdfast.surfaces.console.plans import show_session

if TYPE_CHECKING:
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_BRANCHES: Final = 100
"""Branches on the page, the newest."""


def show_branches(call: HttpCall) -> HttpAnswer:
    """Every branch: where it left, what was said last on it, and a button to switch to it."""
    key = call.session()
    found = sorted(call.store.branches(key), key=lambda branch: -branch.position)
    shown = found[:_BRANCHES]
    return show_session(call, key, "/branches", "branches.html", branches=shown, whole=len(found))


_SESSION: Final = "/s/{agent}/{session}/branches"
ROUTES: Final = (
    page_route("GET", _SESSION, "Branches", show_branches, action="read"),
    form_route(
        f"{_SESSION}/switch", RewindSession, ("to",), lambda call: session_path(call.session())
    ),
)
