"""`sessions_history`: what a session says, for another agent or a person, within one cap.

Each call is decided, read, redacted, bounded and audited, in that order. A refusal is data like any
other reply; nothing here raises for what a caller asks. The newest page costs the page: records are
read back from the end, and only those that fit are looked at closely.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.config import AGENT_DEFAULT
from holdfast.core.history.answers import ListedSession, SessionListing
from holdfast.core.history.capped_json import fit, refusal, text_within, with_length
from holdfast.core.history.page import render_page, scope_of
from holdfast.core.limits import HISTORY_BYTES_MAX, HISTORY_LIMIT_MESSAGES_MAX, LABEL_CHARS_MAX
from holdfast.core.text.cut import cut
from holdfast.engine.history.lookup import CURRENT, SessionLookup
from holdfast.engine.history.output_parts import OutputReader
from holdfast.engine.history.pages import PageReader
from holdfast.engine.history.replies import AuditedReplies, GivenReply, shorten
from holdfast.engine.history.request import RequestRefused, check_request, whole_number
from holdfast.engine.history.tools import history_tool, list_tool
from holdfast.engine.redactor import redactor as default_redactor
from holdfast.errors import NoSuchRecord, UsageError

if TYPE_CHECKING:
    from holdfast.core.history.access import Action, Caller
    from holdfast.core.history.answers import HistoryPage
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.engine.history.request import HistoryRequest
    from holdfast.engine.tools import ToolFunction
    from holdfast.ports import Audit, BlobStore, Clock, SessionInfo, SessionStore

_REWOUND: Final = (
    "the session was rewound and no longer has the record of this cursor; begin again without "
    "a cursor"
)


class History:
    """The sessions of a store as one caller may read them."""

    def __init__(
        self,
        store: SessionStore,
        *,
        caller: Caller,
        blobs: BlobStore | None = None,
        redactor: Redactor | None = None,
        audit: Audit | None = None,
        clock: Clock = time.time,
        max_bytes: int = HISTORY_BYTES_MAX,
        agent: str = AGENT_DEFAULT,
    ) -> None:
        """Blobs and audit log are those of the store unless others are given.

        A bare id means a session of the caller's agent, or of `agent` if the caller has none.
        """
        if max_bytes < 0:
            raise UsageError(f"a reply cannot have {max_bytes} bytes", hint="give a cap from 0 up")
        self._scope = scope_of(caller)
        self._redactor = redactor or default_redactor()
        self._cap = max_bytes
        self._lookup = SessionLookup(store, caller, caller.agent or agent)
        self._pages = PageReader(store, self._redactor, max_bytes, self._scope)
        self._outputs = OutputReader(
            store, blobs or store.blobs, self._redactor, max_bytes, self._scope
        )
        self.audit: Audit = audit or store.audit
        self._replies = AuditedReplies(
            caller, self.audit, redactor=self._redactor, clock=clock, max_bytes=max_bytes
        )

    def read(
        self,
        session: str = CURRENT,
        *,
        limit: int | None = None,
        include_tools: bool = False,
        query: str = "",
        cursor: str | None = "",
        around: str = "",
        output_ref: str = "",
        output_ref_max_chars: int | None = None,
        output_ref_offset: int | None = None,
    ) -> Json:
        """A page of messages, or a part of an output, as data. Refusals are replies, too.

        The page has the newest `limit` messages, those before a `cursor`, those `around` a record,
        or those that contain all words of a `query`. With `output_ref` it is a part of an offloaded
        payload instead.
        """
        try:
            page = self.page(
                session,
                limit=limit,
                include_tools=include_tools,
                query=query,
                cursor=cursor,
                around=around,
                output_ref=output_ref,
                output_ref_max_chars=output_ref_max_chars,
                output_ref_offset=output_ref_offset,
            )
        except RequestRefused as refused:
            return self._refusal(refused, session)
        found: Json = msgspec.to_builtins(page)
        return found

    def text(self, session: Any = CURRENT, **asked: Any) -> str:
        """`read` as compact JSON of at most `max_bytes`; it accepts any arguments a model gives."""
        reply: HistoryPage | Json
        try:
            reply = self.page(session, **asked)
        except RequestRefused as refused:
            reply = self._refusal(refused, session)
        return text_within(reply, self._cap)

    def page(
        self,
        session: Any = CURRENT,
        *,
        limit: Any = None,
        include_tools: Any = False,
        query: Any = "",
        cursor: Any = "",
        around: Any = "",
        output_ref: Any = "",
        output_ref_max_chars: Any = None,
        output_ref_offset: Any = None,
    ) -> HistoryPage:
        """`read` as a value, from any arguments a model gives. Raises `RequestRefused`."""
        action: Action = "output" if output_ref else "search" if query else "read"

        def give() -> GivenReply[HistoryPage]:
            request = check_request(
                limit=limit,
                include_tools=include_tools,
                query=query,
                cursor=cursor,
                around=around,
                output_ref=output_ref,
                output_ref_max_chars=output_ref_max_chars,
                output_ref_offset=output_ref_offset,
            )
            key, verdict = self._lookup.resolve(session)
            return GivenReply(self._reply(key, request), verdict.reason)

        return self._replies.give(action, session, give)

    def sessions(self, *, limit: Any = None) -> Json:
        """The sessions that the caller may read, the most recently active first."""
        try:
            reply: Json = msgspec.to_builtins(self.listing(limit=limit))
        except RequestRefused as refused:
            reply = self._refusal(refused)
        return reply

    def sessions_text(self, *, limit: Any = None) -> str:
        """`sessions` as compact JSON of at most `max_bytes`."""
        return text_within(self.sessions(limit=limit), self._cap)

    def listing(self, *, limit: Any = None) -> SessionListing:
        """`sessions` as a value. Raises `RequestRefused`."""

        def give() -> GivenReply[SessionListing]:
            most = whole_number("limit", limit, HISTORY_LIMIT_MESSAGES_MAX)
            infos = self._lookup.visible()
            rows = [self._row(info) for info in infos[:most]]

            def make(count: int) -> SessionListing:
                listing = SessionListing(
                    scope=self._scope,
                    content_redacted=any(is_redacted for _row, is_redacted in rows),
                    sessions=[row for row, _is_redacted in rows[:count]],
                    count=count,
                    omitted_count=len(infos) - count,
                    truncated=count < len(infos),
                )
                return with_length(listing)

            return GivenReply(fit(make, len(rows), self._cap), "Allowed: what may be read.")

        return self._replies.give("list", "", give)

    def tools(self) -> tuple[ToolFunction, ...]:
        """`sessions_history` and `sessions_list` for a model that acts for the caller."""
        return history_tool(self.text), list_tool(self.sessions_text)

    def _refusal(self, refused: RequestRefused, session: Any = "") -> Json:
        asked = self._redactor.text(shorten(session))
        return refusal(refused.status, refused.error, asked, self._cap)

    def _row(self, info: SessionInfo) -> tuple[ListedSession, bool]:
        label = self._redactor.text(info.label)
        row = ListedSession(
            session_key=self._redactor.text(str(info.key)),
            label=cut(label, LABEL_CHARS_MAX).text,
            agent=info.key.agent,
            messages=info.messages,
            last_active=info.last_active,
        )
        return row, label != info.label

    def _reply(self, key: SessionKey, request: HistoryRequest) -> HistoryPage:
        if request.output_ref:
            return self._outputs.reply(key, request)
        try:
            read = self._pages.around if request.around else self._pages.newest
            page = read(key, request)
        except NoSuchRecord as error:
            if request.around:
                raise
            raise RequestRefused("invalid", _REWOUND) from error
        return render_page(page, key, self._cap)
