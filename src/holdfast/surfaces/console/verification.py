"""The pages of `verify`: sessions read whole, a page of them at a time, and one with its damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final, NamedTuple
from urllib.parse import urlencode

import msgspec

from holdfast.core.log.ids import SessionKey
from holdfast.engine.operations.sessions import FindSessions, cursor_after
from holdfast.engine.operations.upkeep import VERIFY_BYTES_MAX, SessionVerification, VerifySession
from holdfast.errors import NoSuchSession, StoreError
from holdfast.surfaces.console.layout import page_route, show
from holdfast.surfaces.console.plans import show_session
from holdfast.surfaces.formatting import size_text
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.engine.operations.sessions import SessionRow
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_PAGE_SESSIONS: Final = 25
"""Sessions of one page."""
_PAGE_BYTES: Final = VERIFY_BYTES_MAX
"""Bytes of logs that one page reads. A longer log is verified by the command alone."""
_FINDINGS: Final = 100
"""Findings on the page of a session; the command shows all."""


class VerifyQuery(HttpQuery, frozen=True):
    """The sessions to verify."""

    cursor: Annotated[str, msgspec.Meta(max_length=300)] = ""
    """The place after which they begin."""


def show_verification(call: HttpCall) -> HttpAnswer:
    """Read some sessions whole, the most recently active first, and say which have damage."""
    asked = FindSessions(limit=_PAGE_SESSIONS, cursor=call.query.cursor)
    found = asked.answer(call.workspace).value
    chosen = _choose(found.sessions)
    following = found.next_cursor
    if len(chosen) < len(found.sessions):
        following = cursor_after(chosen[-1])
    lines = [_verify(call, info) for info in chosen]
    return show(
        call,
        "verify.html",
        "Verify",
        here="/health",
        lines=lines,
        sound=sum(line.report is not None and line.report.is_sound for line in lines),
        older=f"/health/verify?{urlencode({'cursor': following})}" if following else "",
    )


class _Line(NamedTuple):
    key: SessionKey
    info: SessionRow
    report: SessionVerification | None
    problem: str = ""


def _choose(listed: list[SessionRow]) -> list[SessionRow]:
    """Return the first of the sessions, as many as one page reads; at least one."""
    size = 0
    for place, info in enumerate(listed):
        size += info.bytes if info.bytes <= _PAGE_BYTES else 0
        if size > _PAGE_BYTES:
            return listed[:place]
    return listed


def _verify(call: HttpCall, info: SessionRow) -> _Line:
    key = SessionKey(info.agent, info.id)
    if info.bytes > _PAGE_BYTES:
        return _Line(key, info, None, "too long for a page: the command verifies it")
    try:
        return _Line(key, info, _read(call, key))
    except (StoreError, NoSuchSession) as error:
        return _Line(key, info, None, f"cannot be read: {error.code}")


def _read(call: HttpCall, key: SessionKey) -> SessionVerification:
    return VerifySession(session_key=str(key)).answer(call.workspace).value


def show_session_findings(call: HttpCall) -> HttpAnswer:
    """Read one session whole, and show each finding."""
    key = call.session()
    report, problem, size = None, "", call.store.info(key).bytes
    is_long = size > _PAGE_BYTES
    if is_long:
        problem = f"A log of {size_text(size)} is too long for a page."
    else:
        try:
            report = _read(call, key)
        except StoreError as error:
            problem = call.workspace.mask(f"It cannot be read: {error}")
    return show_session(
        call,
        key,
        "/verify",
        "verify_session.html",
        report=report,
        problem=problem,
        is_bad=not is_long,
        findings_max=_FINDINGS,
    )


ROUTES: Final = (
    page_route(
        "GET", "/health/verify", "Verify", show_verification, query=VerifyQuery, action="list"
    ),
    page_route(
        "GET",
        "/s/{agent}/{session}/verify",
        "Verify a session",
        show_session_findings,
        action="read",
    ),
)
