"""`sessions_history`: what a session says, for another agent or a person, within one cap.

Each call is decided, read, redacted, bounded and audited, in that order. A refusal is data like any
other reply; nothing here raises for what a caller asks. The newest page costs the page: records are
read back from the end, and only those that fit are looked at closely.
"""

from __future__ import annotations

import hashlib
import time
import warnings
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from holdfast.config import AGENT_DEFAULT
from holdfast.core.history.access import (
    OPERATOR,
    Access,
    Caller,
    Gate,
    Subject,
    Verdict,
    decide,
    subject_of,
)
from holdfast.core.history.capped_json import first_within, largest, listing, refusal, stated
from holdfast.core.history.cursors import record_in
from holdfast.core.history.page import (
    MASKED,
    NOTICE,
    Gathering,
    in_turn,
    rendered,
    scope_of,
    units_back,
    units_forward,
)
from holdfast.core.history.sanitise import (
    call_names,
    cleaned,
    is_message,
    is_result,
    is_within,
    matches,
    searchable,
)
from holdfast.core.limits import (
    HISTORY_BYTES_MAX,
    HISTORY_LIMIT_MESSAGES_MAX,
    HISTORY_SEARCH_CHARS_MAX,
    ID_CHARS_MAX,
    LABEL_CHARS_MAX,
)
from holdfast.core.log.ids import Named, SessionKey, is_name, resolve
from holdfast.core.log.records import Assistant, ToolUse
from holdfast.core.text.cut import cut
from holdfast.engine.history.request import Asked, Refused, checked, whole_number
from holdfast.engine.history.tools import history_tool, list_tool
from holdfast.engine.outputs import Outputs
from holdfast.engine.redactor import redactor as default_redactor
from holdfast.errors import (
    AmbiguousName,
    HoldfastError,
    HoldfastWarning,
    NoSuchOutput,
    NoSuchRecord,
    NoSuchSession,
    StoreError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from holdfast.core.history.access import Action
    from holdfast.core.history.page import Page, Unit
    from holdfast.core.history.sanitise import Clean
    from holdfast.core.log.records import Json, Record
    from holdfast.core.outputs.excerpts import Excerpt
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.engine.outputs import Found
    from holdfast.engine.tools import ToolFunction
    from holdfast.ports import Audit, BlobStore, Clock, SessionInfo, SessionStore

CURRENT: Final = "current"
"""As the name of a session: the caller's own."""

_GLANCE: Final = 8
"""How much cheaper it is to see that a text has no match than to redact it."""
_SESSION_CHARS_MAX: Final = 2 * ID_CHARS_MAX + 1
_NEAR_RECORDS: Final = 8_192
"""How far back a record is looked for by walking; further, the log is read from its beginning."""
_NAME_CHARS: Final = 160
"""Of what a caller asked for, in a refusal."""
_REWOUND: Final = (
    "the place to go on from is no longer in the session, which was rewound; begin again without "
    "a cursor"
)
_UNRECORDED: Final = (
    "the access could not be written to the audit log, so nothing is given; the operator has to "
    "make the log writable"
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

        `agent` is whose session a bare id means, where the caller is none.
        """
        if max_bytes < 0:
            raise UsageError(f"a reply cannot have {max_bytes} bytes", hint="give a cap from 0 up")
        self._store = store
        self._caller = caller
        self._scope = scope_of(caller)
        self._blobs: BlobStore = blobs or store.blobs
        self._redactor = redactor or default_redactor()
        self._clock = clock
        self._agent = caller.agent or agent
        self._cap = max_bytes
        self.audit: Audit = audit or store.audit

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
        """A page of messages, or a part of an output, as data; refusals are replies, too.

        The newest `limit` messages; those before a `cursor`; those `around` a record; or those in
        which all words of a `query` are. With `output_ref`, an offloaded payload instead.
        """
        return _parsed(
            self.text(
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
        )

    def text(
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
    ) -> str:
        """The same as compact JSON, at most `max_bytes` of UTF-8, for whatever a model asks."""
        action: Action = "output" if output_ref else "search" if query else "read"

        def give() -> tuple[str, str]:
            asked = checked(
                limit=limit,
                include_tools=include_tools,
                query=query,
                cursor=cursor,
                around=around,
                output_ref=output_ref,
                output_ref_max_chars=output_ref_max_chars,
                output_ref_offset=output_ref_offset,
            )
            key, verdict = self._allowed(session)
            return self._reply(key, asked), verdict.reason

        return self._audited(action, session, give)

    def sessions(self, *, limit: Any = None) -> Json:
        """The sessions that the caller may read, the most recently active first."""
        return _parsed(self.sessions_text(limit=limit))

    def sessions_text(self, *, limit: Any = None) -> str:
        def give() -> tuple[str, str]:
            count = whole_number("limit", limit, HISTORY_LIMIT_MESSAGES_MAX)
            infos = self._visible()
            rows = [self._row(info) for info in infos[:count]]
            reply: Json = {
                "scope": self._scope,
                "contentRedacted": any(is_redacted for _row, is_redacted in rows),
            }
            said = [row for row, _is_redacted in rows]
            unseen = len(infos) - len(said)
            return listing(said, reply, self._cap, unseen=unseen), "Allowed: what may be read."

        return self._audited("list", "", give)

    def tools(self) -> tuple[ToolFunction, ...]:
        """`sessions_history` and `sessions_list` for a model that acts for the caller."""
        return history_tool(self.text), list_tool(self.sessions_text)

    # Deciding and recording

    def _audited(self, action: Action, target: Any, give: Callable[[], tuple[str, str]]) -> str:
        name = cut(str(target), _NAME_CHARS).text
        is_allowed = False
        try:
            text, reason = give()
            is_allowed = True
        except Refused as refused:
            reason = refused.error
            text = self._refusal(refused.status, refused.error, name)
        except (HoldfastError, OSError, RecursionError) as error:
            status, reason = self._explained(error)
            text = self._refusal(status, reason, name)
        access = Access(
            ts=self._clock(),
            action=action,
            agent=self._caller.agent,
            session=self._caller.session,
            owner=self._caller.owner,
            target=self._redactor.text(name),
            is_allowed=is_allowed,
            reason=self._redactor.text(reason),
            bytes=len(text.encode()) if is_allowed else 0,
        )
        try:
            self.audit.note(access)
        except (StoreError, OSError) as error:
            if self._caller != OPERATOR:
                return self._refusal("error", _UNRECORDED, name)
            warnings.warn(f"not in the audit log: {error}", HoldfastWarning, stacklevel=3)
        return text

    def _refusal(self, status: str, error: str, session: str) -> str:
        said, name = (self._redactor.text(one) for one in (error, session))
        return refusal(status, said, name, self._cap)

    def _explained(self, error: Exception) -> tuple[str, str]:
        """An error as a refusal. Others than the operator are not told about the store."""
        if isinstance(error, NoSuchSession) and self._caller != OPERATOR:
            # Its hint would name sessions that are nobody's business.
            return "forbidden", decide(self._caller, None, self._find).reason
        if isinstance(error, NoSuchRecord | NoSuchOutput | NoSuchSession):
            return "not_found", _sentence(error)
        if isinstance(error, UsageError):
            return "invalid", _sentence(error)
        if self._caller == OPERATOR:
            return "error", _sentence(error)
        code = error.code if isinstance(error, HoldfastError) else "store-error"
        return "error", f"the session could not be read ({code}); nothing is given"

    def _allowed(self, name: Any) -> tuple[SessionKey, Verdict]:
        """The session of that name, if the caller may read it."""
        if not isinstance(name, str) or not name.strip():
            raise Refused("invalid", f"no session is named; give its id, or `{CURRENT}`")
        if len(name) > _SESSION_CHARS_MAX:
            raise Refused("invalid", f"no session has a name of {len(name):,} characters")
        subject = self._subject(name.strip())
        verdict = decide(self._caller, subject, self._find)
        if subject is None or not verdict.is_allowed:
            raise Refused("forbidden", verdict.reason)
        return subject.key, verdict

    def _subject(self, name: str) -> Subject | None:
        """What a name stands for. Others' sessions are only found by their exact id."""
        for key in self._exact(name):
            found = self._find(key)
            if found is not None:
                return found
        visible = self._visible()
        try:
            key = resolve(name, (Named(info.key, info.label) for info in visible))
        except AmbiguousName as error:
            raise Refused("invalid", _sentence(error)) from error
        except NoSuchSession as error:
            if self._caller == OPERATOR:
                raise Refused("not_found", _sentence(error)) from error
            return None
        return next(subject_of(key, info) for info in visible if info.key == key)

    def _exact(self, name: str) -> Iterator[SessionKey]:
        caller = self._caller
        if name == CURRENT and caller.session is not None and is_name(caller.session):
            yield SessionKey(caller.agent, caller.session)
            return
        agent, slash, session = name.rpartition("/")
        agent = agent if slash else self._agent
        if is_name(agent) and is_name(session):
            yield SessionKey(agent, session)

    def _find(self, key: SessionKey) -> Subject | None:
        try:
            return subject_of(key, self._store.header(key))
        except NoSuchSession:
            return None
        except StoreError:
            return Subject(key, None)  # it is there, and nobody knows whose it is

    def _visible(self) -> list[SessionInfo]:
        infos = self._store.sessions()
        known = {info.key: subject_of(info.key, info) for info in infos}
        gate = Gate(self._caller, known.get)
        return [info for info in infos if gate.verdict(known[info.key]).is_allowed]

    def _row(self, info: SessionInfo) -> tuple[Json, bool]:
        label = self._redactor.text(info.label)
        row = {
            "sessionKey": str(info.key),
            "label": cut(label, LABEL_CHARS_MAX).text,
            "agent": info.key.agent,
            "messages": info.messages,
            "lastActive": info.last_active,
        }
        return row, label != info.label

    # Reading

    def _reply(self, key: SessionKey, asked: Asked) -> str:
        if asked.output_ref:
            return self._output(key, asked)
        try:
            page = self._around(key, asked) if asked.around else self._newest(key, asked)
        except NoSuchRecord as error:
            if asked.around:
                raise
            raise Refused("invalid", _REWOUND) from error
        return rendered(page, key, self._cap)

    def _newest(self, key: SessionKey, asked: Asked) -> Page:
        """The newest messages, or those before a cursor."""
        before = record_in(asked.cursor, key) if asked.cursor else None
        units = units_back(self._store.back(key, before=before), include_tools=asked.include_tools)
        gathering = Gathering(asked.limit, self._cap, asked.words)
        if asked.words:
            return self._found(key, asked, units, gathering)
        for unit in units:
            gathering.take(unit, self._cleaned(unit))
            if gathering.is_done:
                break
        return gathering.page(str(key), self._scope, has_older=next(units, None) is not None)

    def _found(
        self, key: SessionKey, asked: Asked, units: Iterator[Unit], gathering: Gathering
    ) -> Page:
        """The newest messages in which all words are, as far as one search looks."""
        searched, found, last = 0, 0, ""
        for unit in units:
            last = unit.first
            texts = [searchable(record) for record in unit.records]
            if any(is_within(asked.words, text) for text in texts):
                cleans = tuple(self._cleaned(unit))
                hits = sum(matches(one, asked.words) for one in cleans)
                if hits:
                    found += hits
                    gathering.take(unit, cleans)
                searched += sum(map(len, texts))
            else:
                searched += sum(map(len, texts)) // _GLANCE
            if gathering.is_done or gathering.is_short or searched > HISTORY_SEARCH_CHARS_MAX:
                break
        page = gathering.page(str(key), self._scope, has_older=False)
        has_older = next(units, None) is not None
        return msgspec.structs.replace(page, matches=found, older=last if has_older else None)

    def _around(self, key: SessionKey, asked: Asked) -> Page:
        """The messages around a record, older and newer ones in turn."""
        anchor = self._anchor(key, asked.around)
        start, tools = self._unit_start(key, anchor), asked.include_tools
        newer = units_forward(self._store.read(key, start=start), include_tools=tools)
        older = units_back(self._store.back(key, before=start), include_tools=tools)
        gathering = Gathering(asked.limit, self._cap, asked.words)
        first = next(newer, None)
        if first is not None:
            gathering.take(first, self._cleaned(first), wanted=anchor.id)
        turns = in_turn(older, newer)
        while not gathering.is_done and (turn := next(turns, None)) is not None:
            unit, is_newer = turn
            gathering.take(unit, self._cleaned(unit), is_newer=is_newer)
        page = gathering.page(str(key), self._scope, has_older=next(older, None) is not None)
        has_newer = gathering.is_short_of_newer or next(newer, None) is not None
        return msgspec.structs.replace(page, has_newer=has_newer)

    def _anchor(self, key: SessionKey, record: str) -> Record:
        """The record of that id; it is mostly one that was shown a moment ago."""
        for one in islice(self._store.back(key), _NEAR_RECORDS):
            if one.id == record:
                return one
        found = self._store.find(key, record)
        if found.id != record:
            raise NoSuchRecord(record, key.session)
        return found

    def _unit_start(self, key: SessionKey, record: Record) -> str:
        """Where the unit begins that a record belongs to: a result belongs to its call."""
        start = record.id
        if not is_result(record) and not isinstance(record, ToolUse):
            return start
        for before in self._store.back(key, before=start):
            if isinstance(before, Assistant):
                return before.id
            if isinstance(before, ToolUse):
                start = before.id
            elif is_message(before) and not is_result(before):
                break
        return start

    def _cleaned(self, unit: Unit) -> Iterator[Clean]:
        names = call_names(unit.records)
        return (cleaned(record, self._redactor, names) for record in unit.records)

    # Outputs

    def _output(self, key: SessionKey, asked: Asked) -> str:
        """A part of an offloaded payload, as much as fits."""
        noting = _Noting(self._redactor)
        outputs = Outputs(self._store, self._blobs, redactor=cast("Redactor", noting))
        found = outputs.find(key, asked.output_ref)
        part = outputs.read(
            key, asked.output_ref, offset=asked.offset or None, max_chars=asked.chars
        )
        reply = partial(self._output_reply, key, found, part, is_redacted=noting.is_redacted)
        chars = largest(len(part.text), lambda count: len(stated(reply(count))) <= self._cap)
        smaller = ({"truncated": True, "messages": []}, {"truncated": True})
        return first_within(
            (stated(reply(chars)), *(msgspec.json.encode(one) for one in smaller)), self._cap
        )

    def _output_reply(
        self, key: SessionKey, found: Found, part: Excerpt, chars: int, *, is_redacted: bool
    ) -> Json:
        is_cut = part.is_cut or chars < len(part.text)
        output: Json = {"path": found.sha256 or found.ref}
        if found.sha256:
            output |= {"sha256": found.sha256, "sha256Verified": True}
        output |= {"bytes": found.bytes, "kind": found.kind, "truncated": is_cut}
        output |= {"text": part.text[:chars], "offset": part.offset}
        # Where there is room for nothing, the same offset again would lead nowhere.
        output["nextOffset"] = part.offset + chars if is_cut and chars else None
        if part.note and not part.text:
            output["note"] = part.note
        return {
            "sessionKey": str(key),
            "scope": self._scope,
            "notice": f"{NOTICE} {MASKED}" if is_redacted else NOTICE,
            "messages": [],
            "output": output,
            "truncated": is_cut,
            "droppedMessages": False,
            "contentTruncated": is_cut,
            "contentRedacted": is_redacted,
        }


class _Noting:
    """A redactor that knows afterwards whether it had anything to do."""

    def __init__(self, redactor: Redactor) -> None:
        self._redactor = redactor
        self._before, self._after = hashlib.sha256(), hashlib.sha256()

    @property
    def is_redacted(self) -> bool:
        return self._before.digest() != self._after.digest()

    def stream(self, chunks: Iterable[str]) -> Iterator[str]:
        for text in self._redactor.stream(self._seen(chunks)):
            self._after.update(text.encode(errors="replace"))
            yield text

    def _seen(self, chunks: Iterable[str]) -> Iterator[str]:
        for text in chunks:
            self._before.update(text.encode(errors="replace"))
            yield text


def _parsed(text: str) -> Json:
    reply: Json = msgspec.json.decode(text) if text else {}
    return reply


def _sentence(error: Exception) -> str:
    hint = getattr(error, "hint", None)
    return f"{error}; {hint}" if hint else str(error)
