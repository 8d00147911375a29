"""The page of branches: every end of the session's tree, and the way to go on from one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.engine.operations.sessions import RewindSession
from holdfast.surfaces.console import layout
from holdfast.surfaces.console.html import Html, tag
from holdfast.surfaces.console.layout import form_route, moment, number, page_route, session_path
from holdfast.surfaces.console.plans import heading

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.tree import Branch
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_BRANCHES: Final = 100
"""Branches on the page, the newest."""


def show_branches(call: HttpCall) -> HttpAnswer:
    """Every branch: where it left, what was said last on it, and a button to switch to it."""
    key = call.session()
    found = sorted(call.store.branches(key), key=lambda branch: -branch.position)
    title, top = heading(call, key, "/branches")
    heads = ("end", "last words of the user", "when", ">records", "left from", "go on")
    rows = [_branch_row(call, key, branch) for branch in found[:_BRANCHES]]
    return layout.page(
        title,
        top,
        tag("h2", "Branches"),
        tag(
            "p",
            f"{number(len(found))} in the log. A rewind leaves what was said after it on a branch "
            "of its own; switching goes on from there, and nothing is lost.",
        ),
        layout.table(heads, rows, "Branches, newest first"),
    )


def _branch_row(call: HttpCall, key: SessionKey, branch: Branch) -> Html:
    start = branch.forked_from
    return layout.row(
        tag("a", branch.head, href=session_path(key, f"/records/{branch.head}")),
        layout.gist(call.workspace.mask(branch.title), 120) or "nothing since the fork",
        moment(branch.ts),
        number(branch.records),
        tag("a", start, href=session_path(key, f"/records/{start}")) if start else "the beginning",
        _switch_form(key, branch, may=call.client.may("write")),
        numbers=(3,),
    )


def _switch_form(key: SessionKey, branch: Branch, *, may: bool) -> Html | str:
    if branch.is_current:
        return tag("b", "current")
    if not may:
        return ""
    return tag(
        "form",
        tag("input", type="hidden", name="to", value=branch.head),
        tag("button", "switch", class_="quiet", aria_label=f"switch to {branch.head}"),
        method="post",
        action=session_path(key, "/branches/switch"),
        class_="inline",
    )


_SESSION: Final = "/s/{agent}/{session}/branches"
ROUTES: Final = (
    page_route("GET", _SESSION, "Branches", show_branches, action="read"),
    form_route(
        f"{_SESSION}/switch", RewindSession, ("to",), lambda call: session_path(call.session())
    ),
)
