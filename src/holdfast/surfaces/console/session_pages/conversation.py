"""The pages of what was said: the conversation, a record, an offloaded output; send and cancel."""

from __future__ import annotations

import secrets
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from holdfast.core.log.records import Header
from holdfast.engine.operations.context import ReadOutput
from holdfast.engine.operations.inbox import CancelTurn, SendMessage
from holdfast.engine.operations.next_request import terms_now
from holdfast.engine.operations.sessions import ReadRecord
from holdfast.engine.session.opening import follow_continuation
from holdfast.ports.sessions import follower_of
from holdfast.surfaces.console.html import Html, join, tag
from holdfast.surfaces.console.layout import (
    form_route,
    fragment,
    long_text,
    page,
    page_route,
    session_path,
)
from holdfast.surfaces.console.plans import heading, try_request
from holdfast.surfaces.console.records import RecordView
from holdfast.surfaces.http.operations import query_of
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.projection.ledger import LedgerLine
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_PAGE_RECORDS: Final = 40
"""Records on a page: a screenful, and a margin."""
PAGE_BYTES: Final = 130_000
"""Of records on a page, so that it stays below 200 KB with its frame."""
RecordId = Annotated[str, msgspec.Meta(max_length=200)]


class ConversationQuery(HttpQuery, frozen=True):
    """The place in the conversation."""

    before: RecordId = ""
    """Records before this one; the newest by default."""


class TailQuery(HttpQuery, frozen=True):
    """The last record that the page has."""

    after: RecordId = ""


def show_conversation(call: HttpCall) -> HttpAnswer:
    """The newest records, with a link to those before them."""
    key = call.session()
    now = follow_continuation(call.store, key)
    before = call.query.before or None
    view = RecordView(call, key, fates(call, now))
    newest_first = iter(call.store.back(now, before=before))
    newest = next(newest_first, None)
    drawn, first, has_more = draw(view, chain([newest] if newest else [], newest_first))
    title, top = heading(call, key, "")
    earlier = session_path(key, "", before=first)
    last = newest.id if newest else ""  # not the head: a record may have come since
    body: list[object] = [
        top,
        tag(
            "ol", *([_earlier(earlier)] if has_more else []), *drawn, id="records", class_="records"
        )
        if drawn
        else tag("p", "Nothing was said yet."),
    ]
    if before is None:
        body.append(_live(key, last))
        body.append(_send_form(key) if call.client.may("write") else None)
    else:
        body.append(tag("p", tag("a", "Newest records", href=session_path(key))))
    return page(title, *body)


def _earlier(address: str) -> Html:
    """A link that the script replaces by the records before."""
    return tag(
        "li",
        tag(
            "a",
            "Earlier records",
            href=address,
            rel="prev",
            hx_get=address,
            hx_select="#records > li",
            hx_target="closest li",
            hx_swap="outerHTML",
        ),
        class_="earlier",
    )


def draw(view: RecordView, newest_first: Iterable[Record]) -> tuple[list[Html], str, bool]:
    """Return records that fit a page, oldest first, the id of the first, and whether more came
    before it."""
    drawn: list[Html] = []
    first, size = "", 0
    for record in newest_first:
        if isinstance(record, Header):
            continue
        if len(drawn) == _PAGE_RECORDS or size > PAGE_BYTES:
            return drawn[::-1], first, True
        shown = view.show(record)
        size += len(shown.encode())
        drawn.append(shown)
        first = record.id
    return drawn[::-1], first, False


def fates(call: HttpCall, key: SessionKey) -> dict[str, LedgerLine]:
    """Return the fate of each record in the next request, by its id."""
    found = try_request(call.store, key, terms_now(call.workspace, key))
    if isinstance(found, str):
        return {}
    return {line.record: line for line in found.ledger if line.record}


def _live(key: SessionKey, last: str) -> Html:
    """The end of the page, which the script keeps up to date."""
    return tag(
        "div",
        tag("pre", id="delta", hidden=True, aria_live="polite"),
        tag("p", id="live-state", class_="dim", role="status"),
        id="live",
        data_events=f"/v1/sessions/{key.agent}/{key.session}/events",
        data_tail=session_path(key, "/tail"),
        data_last=last,
    )


def _send_form(key: SessionKey) -> Html:
    return join(
        tag(
            "form",
            tag("label", "Message", for_="content"),
            tag("textarea", id="content", name="content", rows=3, required=True),
            tag(
                "input",
                type="hidden",
                name="idempotencyKey",
                value=f"console-{secrets.token_hex(12)}",
            ),
            tag("button", "Send"),
            method="post",
            action=session_path(key, "/send"),
            class_="send",
        ),
        tag(
            "form",
            tag("button", "Cancel the running turn", class_="quiet"),
            method="post",
            action=session_path(key, "/cancel"),
        ),
    )


def show_tail(call: HttpCall) -> HttpAnswer:
    """The records after one, for a page that is open; the last one is named at the end."""
    key = call.session()
    now = follow_continuation(call.store, key)
    after = call.query.after or call.store.head(now)
    follower = follower_of(call.store, now, after)
    found = list(islice(follower.read(), _PAGE_RECORDS))
    view = RecordView(call, key, {})
    last = found[-1].id if found else after
    return fragment(
        *(view.show(record) for record in found),
        tag("li", hidden=True, class_="last", data_last=last),
    )


def _conversation_path(call: HttpCall) -> str:
    return session_path(call.session()) + "#live"


def show_record(call: HttpCall) -> HttpAnswer:
    """One record: as the log has it, and its fate in the next request."""
    key, name = call.session(), call.path["record"]
    asked = ReadRecord(session_key=str(key), record=name)
    masked = asked.answer(call.workspace).value
    record = call.store.find(key, name)
    shown = msgspec.json.format(msgspec.json.encode(masked), indent=2).decode()
    line = fates(call, key).get(record.id)
    api = f"/v1/sessions/{key.agent}/{key.session}/records/{record.id}"
    title, top = heading(call, key, "-")
    fate = (
        f"{line.action}: {line.before:,} tokens in the log, {line.after:,} in the next request. "
        f"{line.why}"
        if line is not None
        else "not part of the next request"
    )
    return page(
        title,
        top,
        tag("h2", f"Record {record.id}"),
        tag("p", call.workspace.mask(fate)),
        tag(
            "p",
            tag("a", "As JSON", href=api),
            " · ",
            tag("code", f"holdfast show {record.id}", data_copy=True),
        ),
        long_text(shown),
    )


def show_output(call: HttpCall) -> HttpAnswer:
    """A part of an output that was moved out of the log: by page, by lines or by pattern."""
    key, query, ref = call.session(), call.query, call.path["ref"]
    given = msgspec.structs.asdict(query)
    part = ReadOutput(session_key=str(key), ref=ref, **given).call(call.workspace)
    title, top = heading(call, key, "-")
    following = part.next_offset
    here = session_path(key, f"/outputs/{ref}")
    return page(
        title,
        top,
        tag("h2", f"Output {ref}"),
        tag(
            "form",
            tag("label", "Lines ", tag("input", name="lines", value=query.lines or "", size=12)),
            tag("label", "Search ", tag("input", name="search", value=query.search or "")),
            tag("button", "Read"),
            method="get",
            action=here,
            class_="bar",
        ),
        long_text(part.text),
        tag("p", tag("a", "Next part", href=f"{here}?offset={following}")) if following else None,
    )


_SESSION: Final = "/s/{agent}/{session}"
ROUTES: Final = (
    page_route(
        "GET", _SESSION, "Conversation", show_conversation, query=ConversationQuery, action="read"
    ),
    page_route("GET", f"{_SESSION}/tail", "New records", show_tail, query=TailQuery, action="read"),
    page_route("GET", f"{_SESSION}/records/{{record}}", "Record", show_record, action="read"),
    page_route(
        "GET",
        f"{_SESSION}/outputs/{{ref}}",
        "Output",
        show_output,
        query=query_of(ReadOutput, ("offset", "lines", "search", "max_chars")),
    ),
    form_route(f"{_SESSION}/send", SendMessage, ("content", "idempotency_key"), _conversation_path),
    form_route(f"{_SESSION}/cancel", CancelTurn, (), _conversation_path),
)
