"""The pages of `verify`: sessions read whole, a page of them at a time, and one with its damage."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlencode

import msgspec

from holdfast.core.log.ids import SessionKey
from holdfast.engine.operations.sessions import FindSessions, cursor_after
from holdfast.errors import NoSuchSession, StoreError
from holdfast.surfaces.console.html import Html, join, tag
from holdfast.surfaces.console.layout import (
    facts,
    gist,
    number,
    page,
    page_route,
    row,
    session_path,
    table,
)
from holdfast.surfaces.console.plans import heading
from holdfast.surfaces.formatting import count, size_text
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from holdfast.core.log.damage import Finding
    from holdfast.core.log.views import LogReport
    from holdfast.engine.operations.sessions import SessionRow
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_PAGE_SESSIONS: Final = 25
"""Sessions of one page."""
_PAGE_BYTES: Final = 32 * 1024 * 1024
"""Bytes of logs that one page reads. A longer log is verified by the command alone."""
_FINDINGS: Final = 100
"""Findings on the page of a session; the command shows all."""
_OK: Final = "sound"


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
    rows: list[Html] = []
    unsound = 0
    for info in chosen:
        key = SessionKey(info.agent, info.id)
        result, is_sound = _result(call, key, info)
        unsound += not is_sound
        rows.append(_row(key, info, result))
    body: list[object] = [tag("h1", "Verify"), tag("p", tag("a", "Health", href="/health"))]
    if rows:
        summary = f"{len(rows) - unsound} of {count(len(rows), 'session')} sound"
        body.append(tag("p", summary, id="verified"))
        heads = ("session", "result", ">records", ">size")
        body.append(table(heads, rows, "Sessions, the most recently active first"))
    else:
        body.append(tag("p", "No session here."))
    if following:
        address = f"/health/verify?{urlencode({'cursor': following})}"
        body.append(tag("p", tag("a", "Verify older sessions", href=address, rel="next")))
    body.append(_command("holdfast verify"))
    return page("Verify", *body, here="/health")


def _choose(listed: list[SessionRow]) -> list[SessionRow]:
    """Return the first of the sessions, as many as one page reads; at least one."""
    size = 0
    for place, info in enumerate(listed):
        size += info.bytes if info.bytes <= _PAGE_BYTES else 0
        if size > _PAGE_BYTES:
            return listed[:place]
    return listed


def _result(call: HttpCall, key: SessionKey, info: SessionRow) -> tuple[object, bool]:
    """Return the result in words, and whether the session is sound."""
    if info.bytes > _PAGE_BYTES:
        return "too long for a page: the command verifies it", False
    try:
        report = call.store.verify(key)
    except (StoreError, NoSuchSession) as error:
        return f"cannot be read: {error.code}", False
    return _words(report), report.is_sound


def _words(report: LogReport) -> Html:
    damage = sum(finding.is_damage for finding in report.findings)
    notes = len(report.findings) - damage
    said = count(damage, "damaged place") if damage else _OK
    shown = tag("span", said, class_="state bad" if damage else "state")
    return join(shown, f" {count(notes, 'note')}" if notes else "")


def _row(key: SessionKey, info: SessionRow, result: object) -> Html:
    return row(
        tag("a", gist(info.label or info.title or info.id, 90), href=session_path(key, "/verify")),
        result,
        number(info.records),
        size_text(info.bytes),
        numbers=(2, 3),
        id=f"v-{key}",
    )


def show_session(call: HttpCall) -> HttpAnswer:
    """Read one session whole, and show each finding."""
    key = call.session()
    title, top = heading(call, key, "/verify")
    command = _command(f"holdfast verify {key.session} --agent {key.agent}")
    size = call.store.info(key).bytes
    if size > _PAGE_BYTES:
        said = f"A log of {size_text(size)} is too long for a page."
        return page(title, top, tag("h2", "Verify"), tag("p", said), command)
    try:
        report = call.store.verify(key)
    except StoreError as error:
        said = call.workspace.mask(f"It cannot be read: {error}")
        return page(title, top, tag("h2", "Verify"), tag("p", said, class_="problem"), command)
    return page(
        title,
        top,
        tag("h2", "Verify"),
        facts(
            ("result", _words(report)),
            ("records", number(report.records)),
            ("branches", tag("a", number(report.branches), href=session_path(key, "/branches"))),
            ("size", size_text(report.bytes)),
        ),
        _findings(call, report.findings),
        command,
    )


def _findings(call: HttpCall, findings: tuple[Finding, ...]) -> Html:
    if not findings:
        return tag("p", "Every line was read, and nothing is wrong.")
    rows = [_finding_row(call, finding) for finding in findings[:_FINDINGS]]
    left = len(findings) - len(rows)
    heads = ("kind", ">at byte", ">bytes", "what is there", "meaning")
    return tag(
        "div",
        table(heads, rows, "Findings, in the order of the log"),
        tag("p", f"{number(left)} more: the command shows all of them.") if left else None,
        tag(
            "p",
            "Nothing was changed. ",
            tag("code", "holdfast verify --repair"),
            " writes a repaired copy.",
        ),
    )


def _finding_row(call: HttpCall, finding: Finding) -> Html:
    is_bad = finding.is_damage
    return row(
        tag("span", finding.kind, class_="state bad" if is_bad else "state"),
        number(finding.position),
        number(finding.size) if finding.size else "",
        gist(call.workspace.mask(finding.preview or finding.detail), 200),
        finding.meaning,
        numbers=(1, 2),
    )


def _command(words: str) -> Html:
    return tag("pre", tag("code", words), data_copy=True, tabindex="0")


ROUTES: Final = (
    page_route(
        "GET", "/health/verify", "Verify", show_verification, query=VerifyQuery, action="list"
    ),
    page_route(
        "GET", "/s/{agent}/{session}/verify", "Verify a session", show_session, action="read"
    ),
)
