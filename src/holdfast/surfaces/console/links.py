"""The page of a link by which a person without a token decides about one call.

Looking at it decides nothing: programs fetch the links of mails and chats to preview them.
"""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

import msgspec

from holdfast.core.owners import ANY_OWNER, owner_of, owner_text
from holdfast.core.parameters import TEXT_CHARS_MAX
from holdfast.core.text.cut import cut
from holdfast.engine.approval_links import find_link, spend_link
from holdfast.engine.gateway.gateway import session_key
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.approvals import ApproveCall, DenyCall, calls_of, show_call
from holdfast.engine.operations.links import LINK_PATH
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError, StoreError
from holdfast.surfaces.console.layout import page_route, show
from holdfast.surfaces.formatting import call_outcome
from holdfast.surfaces.http.identity import Client
from holdfast.surfaces.http.route import HttpAnswer, HttpQuery, JsonBody, Route

if TYPE_CHECKING:
    from holdfast.engine.approval_links import ApprovalLink
    from holdfast.engine.operations.approvals import WaitingCall
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.surfaces.http.route import HttpCall
    from holdfast.surfaces.http.server import HttpServer

_Token = Annotated[str, msgspec.Meta(max_length=200)]
_ARGUMENTS_MAX: Final = 30_000
"""Characters: escaped, they fit a page. What is not seen in full is not approved."""
_HEADERS: Final = {"Cache-Control": "no-store", "X-Robots-Tag": "noindex"}
_NOT_VALID: Final = "This link is not valid, or not valid any more."
_OVER: Final = {
    "used": "This link was used.",
    "revoked": "This link was revoked.",
    "expired": "This link has expired.",
}
_GONE: Final = "This call no longer waits."


class LinkQuery(HttpQuery, frozen=True):
    """The link, as it was given to a person."""

    link: _Token = ""


class DecisionForm(JsonBody, frozen=True):
    """A decision."""

    link: _Token
    decision: Literal["approve", "deny"]
    words: Annotated[str, msgspec.Meta(max_length=TEXT_CHARS_MAX)] = ""


class _Seen(NamedTuple):
    """A link, the call that it is for, and the store as its person may use it."""

    link: ApprovalLink
    call: WaitingCall | None
    workspace: CallerWorkspace

    def over(self, now: float) -> str:
        """Return why no one can decide by it any more; empty while a person can."""
        if self.call is None:
            return _OVER.get(self.link.state, _GONE)
        outcome = call_outcome(self.call, now)
        if self.link.state != "open":
            return f"{_OVER[self.link.state]} {outcome}".rstrip()
        return f"{_GONE} {outcome}" if outcome else ""


def link_routes(server: HttpServer) -> tuple[Route, ...]:
    """Return the page of a link, and its form."""
    return (
        page_route(
            "GET", LINK_PATH, "A link", partial(_look, server), query=LinkQuery, is_open=True
        ),
        page_route(
            "POST",
            LINK_PATH,
            "Decide by a link",
            partial(_decide, server),
            body=DecisionForm,
            scope="read",
            is_open=True,
        ),
    )


def _look(server: HttpServer, call: HttpCall) -> HttpAnswer:
    seen = _see(server, call, call.query.link)
    if seen is None:
        return _page(None, _NOT_VALID, 404)
    over = seen.over(server.gateway.now())
    return _page(seen, over, 410 if over else 200, token=call.query.link)


async def _decide(server: HttpServer, call: HttpCall) -> HttpAnswer:
    form: DecisionForm = call.body
    seen = await run_in_thread(_see, server, call, form.link)
    if seen is None:
        return _page(None, _NOT_VALID, 404)
    over = seen.over(server.gateway.now())
    if over:
        return _page(seen, over, 410)
    link, workspace = seen.link, seen.workspace
    if link.allows not in ("decide", form.decision):
        return _page(seen, f"This link allows to {link.allows} alone.", 403, token=form.link)
    if form.decision == "approve" and len(_arguments(seen)) > _ARGUMENTS_MAX:
        return _page(seen, "What is not seen in full is not approved.", 403, token=form.link)
    asked: ApproveCall | DenyCall = ApproveCall(session_key=link.session, key=link.call)
    if form.decision == "deny":
        asked = DenyCall(session_key=link.session, key=link.call, words=form.words)
    try:
        await asked.run(workspace, server.gateway)
    except RequestRefused as refused:
        if refused.status == "error":
            raise
        return _page(seen, refused.found, 409)
    await run_in_thread(spend_link, server.gateway.store, link)
    after = await run_in_thread(_find_call, workspace, link)
    return _page(seen, call_outcome(after, server.gateway.now()) if after else _GONE, 200)


def _see(server: HttpServer, call: HttpCall, token: str) -> _Seen | None:
    """Return what a link is for; None where it is not valid. The audit log has either."""
    link = find_link(server.gateway.store, token, server.gateway.now())
    if link is None:
        call.workspace.replies.note("read", LINK_PATH, _NOT_VALID, None, b"")
        return None
    workspace = server.workspace(Client(link.by, ANY_OWNER, "write"))
    workspace.replies.asker = f"By a link for {link.by}."
    waiting = _find_call(workspace, link)
    found = None
    if waiting is not None:
        reason = "Allowed: the link is for this call."
        found = workspace.audit("read", link.session, lambda: GivenReply(waiting, reason))
    return _Seen(link, found, workspace)


def _find_call(workspace: CallerWorkspace, link: ApprovalLink) -> WaitingCall | None:
    """Return the call of a link; None where it is gone, or its session is another owner's now."""
    key = session_key(link.message)
    try:
        owner = owner_of(workspace.store.header(key).owner)
        if owner_text(owner) != link.message.owner:
            return None
        found = calls_of(workspace.store, key).find(link.call)
    except StoreError:
        raise
    except HoldfastError:
        return None  # erased, or in the trash
    return workspace.mask(show_call(key, owner, found)) if found is not None else None


def _arguments(seen: _Seen) -> str:
    given = seen.call.arguments if seen.call is not None else {}
    return json.dumps(given, ensure_ascii=False, indent=2)


def _page(seen: _Seen | None, outcome: str, status: int, *, token: str = "") -> HttpAnswer:
    text = _arguments(seen) if seen is not None else ""
    values: dict[str, Any] = {
        "waiting": seen.call if seen is not None else None,
        "link": seen.link if seen is not None else None,
        "token": token if status == 200 else "",
        "outcome": outcome,
        "arguments": cut(text, _ARGUMENTS_MAX).text,
        "is_whole": len(text) <= _ARGUMENTS_MAX,
    }
    found = show(None, "link.html", "Decide", status=status, **values)
    return HttpAnswer(found.value, found.status, found.media_type, _HEADERS)
