"""One request of a client and its reply: what is sent, what is stored, what follows a refusal."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.log.records import CallFailure
from holdfast.core.models.dialects import target
from holdfast.core.proxy.atoms import reply_atoms
from holdfast.core.proxy.branches import CHAIN_FIELD, RESPONSE_FIELD
from holdfast.core.proxy.digests import extend_chain
from holdfast.core.turn.replies import assistant_record
from holdfast.engine.proxy.fitting import Fitting, UpstreamRefusal
from holdfast.engine.proxy.reply_reading import ReplyReader, decompress
from holdfast.errors import HoldfastError
from holdfast.providers.failures import name_failure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from holdfast.core.log.records import Record
    from holdfast.core.models.replies import Reply
    from holdfast.core.proxy.branches import ChainPlace
    from holdfast.engine.proxy.keeper import ProxyKeeper
    from holdfast.engine.proxy.reply_reading import ChunkState
    from holdfast.engine.proxy.request import ClientRequest
    from holdfast.engine.proxy.session_branches import LoggedSession

_log: Final = logging.getLogger(__name__)


class ProxyExchange:
    """A request on its way. Methods that append block; run them in a thread."""

    def __init__(
        self,
        keeper: ProxyKeeper,
        request: ClientRequest,
        session: LoggedSession | None,
        after: str,
        place: ChainPlace | None = None,
        *,
        is_whole: bool = True,
    ) -> None:
        self._keeper = keeper
        self._request = request
        self._session = session
        self._after = after
        self._is_whole = is_whole
        """True where the request holds the whole conversation."""
        self._target = target(request.dialect, provider=request.provider, model=request.model)
        self.reader: ReplyReader | None = None
        """The answer, once it has begun."""
        self._is_stored = False
        self._calls = 1
        self._fitting: Fitting | None = None
        is_cuttable = is_whole and request.holds_history
        if session is not None and is_cuttable and keeper.mode != "observe":
            self._fitting = Fitting(keeper, request, session, self._target)
            with session.lock:
                self._after = self._fitting.decide(after, place)

    @property
    def is_logged(self) -> bool:
        return self._session is not None

    @property
    def body(self) -> bytes:
        """The body to send."""
        if self._fitting is None or not self.is_changed:
            return self._request.as_sent
        return self._fitting.body

    @property
    def is_changed(self) -> bool:
        """True where the body is not the client's: then it is not compressed."""
        return self._fitting is not None and self._fitting.body is not self._request.data

    @property
    def is_cut_off(self) -> bool:
        """True where a stream ended in good form, and the reply had not."""
        reader = self.reader
        if reader is None or not reader.is_stream or reader.is_complete or reader.error is not None:
            return False
        # The other two have no event that ends a stream.
        has_end = self._request.dialect in ("anthropic", "openai-responses")
        return reader.is_between_events and has_end

    def headers(self) -> dict[str, str]:
        """The proxy's own response headers."""
        if self._session is None:
            return {"x-holdfast-action": "passed"}
        changed = {} if self._fitting is None else self._fitting.headers()
        return {
            "x-holdfast-session": self._session.key.session,
            "x-holdfast-action": "passed",
            "x-holdfast-calls": str(self._calls),
            **changed,
        }

    def open(self, content_type: str, encoding: str) -> ReplyReader:
        """Begin to read an answer."""
        self.reader = ReplyReader(self._target, content_type, encoding)
        return self.reader

    def take(self, chunk: bytes) -> ChunkState:
        assert self.reader is not None
        return self.reader.take(chunk) if self._session is not None else "pass"

    def refuse(self, status: int, headers: Mapping[str, str], data: bytes) -> bool:
        """Take a refusal; True where `body` is now a smaller request to send instead."""
        plain = decompress(data, headers.get("content-encoding", ""))
        return self._refuse(UpstreamRefusal(status, dict(headers), plain))

    def refuse_stream(self) -> bool:
        """Take an error that came as the first event of a stream."""
        assert self.reader is not None
        body = msgspec.json.encode(self.reader.error or {})
        return self._refuse(UpstreamRefusal(None, {}, body))

    def _refuse(self, refusal: UpstreamRefusal) -> bool:
        failure = name_failure(refusal)
        session = self._session
        if session is None:
            return False
        if self._fitting is not None:
            with session.lock:
                smaller = self._fitting.shrink(failure, self._after)
            if smaller is not None:
                self._after = smaller
                self._calls += 1
                return True
        record = CallFailure(
            cause=failure.message[:2_000] or f"status {refusal.status_code}",
            failure=failure.kind,
            status=refusal.status_code,
        )
        self._store(record)
        return False

    def finish(self) -> None:
        """Store the reply. Raises `ProxyProblem` where that fails and the mode promises a log."""
        reader, session = self.reader, self._session
        if self._is_stored or reader is None or session is None:
            return
        found = reader.reply()
        if found is None:
            said = msgspec.json.encode(reader.error).decode() if reader.error else ""
            cause = said[:2_000] or "the upstream's answer cannot be read"
            self._store(CallFailure(cause=cause))
            return
        reply, is_whole = found
        cause = "" if is_whole else "the upstream ended before the reply was whole"
        self._store_reply(reply, cause)

    def break_off(self, cause: str) -> None:
        """Store what came before either side hung up, with the cause. Never raises."""
        if self._is_stored or self._session is None:
            return
        found = None if self.reader is None else self.reader.reply()
        try:
            if found is not None:
                self._store_reply(found[0], "" if found[1] else cause)
            else:
                self._store(CallFailure(cause=cause))
        except Exception as error:  # there is nobody left to tell
            _log.warning("what came before the end cannot be stored (%s): %s", cause, error)

    def _store_reply(self, reply: Reply, cause: str) -> None:
        session, request = self._session, self._request
        assert session is not None
        record = assistant_record(reply, request.provider, request.model)
        extra = {**record.extra, **({"cause": cause} if cause else {})}
        if self._is_whole and not cause:
            extra[CHAIN_FIELD] = _reply_chains(request, reply)
        response = _response_id(reply) if request.dialect == "openai-responses" else ""
        if response:
            extra[RESPONSE_FIELD] = response
        stored = self._store(msgspec.structs.replace(record, extra=extra))
        if response and stored:
            self._keeper.remember_response(response, session.key, stored)

    def _store(self, record: Record) -> str:
        session = self._session
        assert session is not None
        self._is_stored = True
        learned = [] if self._fitting is None else self._fitting.window_records(record)
        try:
            with session.lock:
                self._after = session.append([record, *learned], self._after)
        except (HoldfastError, OSError) as error:
            self._keeper.warn_or_raise(error)
            return ""
        return self._after


def _reply_chains(request: ClientRequest, reply: Reply) -> list[str]:
    """The chain of the conversation with this reply, and the one without the last message."""
    digests = reply_atoms(reply.content, request.dialect)
    atoms, chains = request.atoms, request.chains
    found = [extend_chain(chains[-1], digests).hex()]
    before = len(atoms) - 1
    while before >= 0 and atoms[before].item == atoms[-1].item:
        before -= 1
    if before >= 0 and atoms[-1].kind == "user" and atoms[before].kind != "assistant":
        found.append(extend_chain(chains[before], digests).hex())
    return found


def _response_id(reply: Reply) -> str:
    raw = msgspec.json.decode(reply.raw) if isinstance(reply.raw, bytes) else reply.raw
    found = raw.get("id") if isinstance(raw, dict) else None
    return found if isinstance(found, str) else ""
