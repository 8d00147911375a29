"""The pages of what was said: the conversation, a record, an offloaded output; send and cancel."""

from __future__ import annotations

import secrets
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Final

import msgspec

from holdfast.core.limits import PATTERN_CHARS_MAX
from holdfast.core.log.records import Header
from holdfast.core.log.replay import Boundaries
from holdfast.core.window import ANY_WINDOW
from holdfast.engine.operations.context import ReadOutput, terms_now
from holdfast.engine.operations.history import ReadMessages
from holdfast.engine.operations.inbox import CancelTurn, SendMessage
from holdfast.engine.operations.sessions import ReadRecord
from holdfast.engine.session.opening import follow_continuation
from holdfast.ports.sessions import follower_of
from holdfast.surfaces.console.layout import form_route, page_route, session_path, show
from holdfast.surfaces.console.plans import show_session, try_request
from holdfast.surfaces.console.records import RecordView
from holdfast.surfaces.http.operations import query_of
from holdfast.surfaces.http.route import HttpQuery

if TYPE_CHECKING:
    from collections.abc import Iterable

    from markupsafe import Markup

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.projection.ledger import LedgerLine
    from holdfast.ports import SessionStore
    from holdfast.surfaces.http.route import HttpAnswer, HttpCall

_PAGE_RECORDS: Final = 40
"""Records on a page: a screenful, and a margin."""
_FOUND: Final = 20
"""Messages that a search shows; more are on the pages before."""
PAGE_BYTES: Final = 130_000
"""Of records on a page, so that it stays below 200 KB with its frame."""
_VIEW_RECORDS: Final = 5_000
"""Records that a page plans a request of; a view of more takes longer than a page should."""
RecordId = Annotated[str, msgspec.Meta(max_length=200)]


class ConversationQuery(HttpQuery, frozen=True):
    """The place in the conversation."""

    before: RecordId = ""
    """Records before this one; the newest by default."""
    q: Annotated[str, msgspec.Meta(max_length=PATTERN_CHARS_MAX)] = ""
    """Only messages that contain all of these words."""
    cursor: Annotated[str, msgspec.Meta(max_length=PATTERN_CHARS_MAX)] = ""
    """The place of a search to go on from."""


class TailQuery(HttpQuery, frozen=True):
    """The last record that the page has."""

    after: RecordId = ""


def show_conversation(call: HttpCall) -> HttpAnswer:
    """The newest records, with a link to those before them."""
    key = call.session()
    if call.query.q.strip():
        return _search(call, key)
    now = follow_continuation(call.store, key)
    before = call.query.before or None
    view = RecordView(call, key, fates(call, now))
    newest_first = iter(call.store.back(now, before=before))
    newest = next(newest_first, None)
    drawn, first, has_more = draw(view, chain([newest] if newest else [], newest_first))
    return show_session(
        call,
        key,
        "",
        "conversation.html",
        drawn=drawn,
        has_more=has_more,
        earlier=session_path(key, "", before=first),
        is_newest=before is None,
        last=newest.id if newest else "",  # not the head: a record may have come since
        message_key=f"console-{secrets.token_hex(12)}",
        query="",
    )


def _search(call: HttpCall, key: SessionKey) -> HttpAnswer:
    """The messages that contain the words that were asked for, and results of tools with them."""
    query = call.query
    asked = ReadMessages(
        session_key=str(key),
        limit=_FOUND,
        include_tools=True,
        query=query.q,
        cursor=query.cursor,
    )
    page = asked.answer(call.workspace).value
    view = RecordView(call, key, {})
    ids = [str(message["id"]) for message in page.messages or ()]
    drawn = [view.show(call.store.find(key, found)) for found in ids]
    older = page.cursor if page.has_more is True else ""
    return show_session(
        call,
        key,
        "",
        "conversation.html",
        drawn=drawn,
        has_more=bool(older),
        earlier=session_path(key, "", q=query.q, cursor=older),
        is_newest=False,
        last="",
        message_key="",
        query=query.q,
    )


def draw(view: RecordView, newest_first: Iterable[Record]) -> tuple[list[Markup], str, bool]:
    """Return records that fit a page, oldest first, the id of the first, and whether more came
    before it."""
    drawn: list[Markup] = []
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
    """Return the fate of each record in the next request, by its id; none where the view has so
    many records that planning it would hold up the page."""
    if not _has_short_view(call.store, key):
        return {}
    found = try_request(call.store, key, terms_now(call.workspace, key))
    if isinstance(found, str):
        return {}
    return {line.record: line for line in found.ledger if line.record}


def _has_short_view(store: SessionStore, key: SessionKey) -> bool:
    """Return whether the session is short, or was cut not long ago."""
    if store.info(key).records <= _VIEW_RECORDS:
        return True
    boundaries = Boundaries(ANY_WINDOW)
    return any(map(boundaries.is_one, islice(store.back(key), _VIEW_RECORDS)))


def show_tail(call: HttpCall) -> HttpAnswer:
    """The records after one, for a page that is open; the last one is named at the end."""
    key = call.session()
    now = follow_continuation(call.store, key)
    after = call.query.after or call.store.head(now)
    follower = follower_of(call.store, now, after)
    found = list(islice(follower.read(), _PAGE_RECORDS))
    view = RecordView(call, key, {})
    drawn = [view.show(record) for record in found]
    return show(call, "tail.html", "", drawn=drawn, last=found[-1].id if found else after)


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
    return show_session(call, key, "-", "record_page.html", record=record, shown=shown, line=line)


def show_output(call: HttpCall) -> HttpAnswer:
    """A part of an output that was moved out of the log: by page, by lines or by pattern."""
    key, query, ref = call.session(), call.query, call.path["ref"]
    given = msgspec.structs.asdict(query)
    part = ReadOutput(session_key=str(key), ref=ref, **given).call(call.workspace)
    return show_session(call, key, "-", "output.html", part=part, query=query, ref=ref)


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
