"""One request of a client and its reply: what is sent, what is stored, what follows a refusal."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.common.digests import extend_chain
from holdfast.core.dialects.prefix import SentRequest
from holdfast.core.dialects.registry import find_dialect, target
from holdfast.core.log.records import CallFailure
from holdfast.core.proxy.branches import CHAIN_FIELD, RESPONSE_FIELD, ROUND_FIELD
from holdfast.core.proxy.endpoints import ProxyProblem, without_compression, without_encoding
from holdfast.core.refusals import REFUSAL
from holdfast.core.turn.replies import assistant_record
from holdfast.engine.proxy.fitting import Fitting, UpstreamRefusal
from holdfast.engine.proxy.keeper import RequestLog
from holdfast.engine.proxy.own_rounds import OwnRounds
from holdfast.engine.proxy.reply_reading import ReplyReader, decompress
from holdfast.engine.spending.meter import PassedCalls
from holdfast.errors import AccessDenied, HoldfastError
from holdfast.providers.failures import name_failure

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.replies import Reply
    from holdfast.core.proxy.branches import ChainPlace
    from holdfast.core.proxy.endpoints import Headers
    from holdfast.engine.proxy.reply_reading import ChunkState
    from holdfast.engine.proxy.request import ClientRequest
    from holdfast.engine.proxy.session_branches import LoggedSession


class ExchangeLog:
    """Appends what comes of a request behind the request. Its methods block."""

    def __init__(
        self,
        keeper: RequestLog,
        request: ClientRequest,
        session: LoggedSession,
        after: str,
        *,
        is_whole: bool,
    ) -> None:
        self.session = session
        self.after = after
        """The record that the next one follows."""
        self.is_stored = False
        """True once the reply is stored, or the failure."""
        self._keeper = keeper
        self._request = request
        self._is_whole = is_whole

    def append(self, records: Sequence[Record]) -> str:
        """Make records durable; the last one, or nothing where that failed and may fail."""
        try:
            with self.session.lock:
                self.after = self.session.append(records, self.after)
        except (HoldfastError, OSError) as error:
            self._keeper.warn_or_raise(error)
            return ""
        return self.after

    def store(self, record: Record, fitting: Fitting | None, results: Sequence[Record] = ()) -> str:
        """Store what ends the exchange, and a window that it confirms."""
        self.is_stored = True
        learned = [] if fitting is None else fitting.window_records(record)
        return self.append([record, *results, *learned])

    def store_reply(
        self, reply: Reply, cause: str, fitting: Fitting | None, rounds: OwnRounds | None
    ) -> None:
        """Store a reply; `cause` says why it is not whole."""
        request = self._request
        sent = fitting.origin() if fitting is not None else SentRequest(request.dialect)
        record = assistant_record(reply, request.provider, request.model, sent)
        extra = {**record.extra, **({"cause": cause} if cause else {})}
        if reply.stop == "refusal" and not cause and fitting is not None:
            extra[REFUSAL] = True
        results: list[Record] = []
        if self._is_whole and not cause:
            extra[CHAIN_FIELD] = _reply_chains(request, rounds.as_seen(reply) if rounds else reply)
            if rounds is not None:
                extra |= rounds.wire_of(reply)
                results = rounds.answer(reply, goes_on=False)
        response = find_dialect(request.dialect).body.response_id(_body_of(reply))
        if response:
            extra[RESPONSE_FIELD] = response
        stored = self.store(msgspec.structs.replace(record, extra=extra), fitting, results)
        if response and stored:
            self._keeper.remember_response(response, self.session.key, stored)


def _reply_chains(request: ClientRequest, reply: Reply) -> list[str]:
    """The chain of the conversation with this reply, and the one without the last message."""
    digests = find_dialect(request.dialect).items.reply_digests(reply.content)
    atoms, chains = request.atoms, request.chains
    found = [extend_chain(chains[-1], digests).hex()]
    before = len(atoms) - 1
    while before >= 0 and atoms[before].item == atoms[-1].item:
        before -= 1
    if before >= 0 and atoms[-1].kind == "user" and atoms[before].kind != "assistant":
        found.append(extend_chain(chains[before], digests).hex())
    return found


def _body_of(reply: Reply) -> Json:
    raw = msgspec.json.decode(reply.raw) if isinstance(reply.raw, bytes) else reply.raw
    return raw if isinstance(raw, dict) else {}


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
        """`is_whole` is True where the request holds the whole conversation."""
        self._request = request
        self._target = target(request.dialect, provider=request.provider, model=request.model)
        self.reader: ReplyReader | None = None
        """The answer, once it has begun."""
        self.rounds: OwnRounds | None = None
        """The rounds of a reply that may call our tools; then the client's is not as it came."""
        self._calls = 1
        self.call = PassedCalls(keeper.meter, keeper.spender)
        """Counts each call that is made for it."""
        self.is_logged = session is not None
        self._log: ExchangeLog | None = None
        self._fitting: Fitting | None = None
        if session is None:
            return
        self._log = ExchangeLog(keeper, request, session, after, is_whole=is_whole)
        if is_whole and request.holds_history and keeper.mode != "observe":
            self._fitting = Fitting(keeper, request, session, self._target)
            with session.lock:
                self._log.after = self._fitting.decide(after, place)

    @property
    def body(self) -> bytes:
        """The body to send."""
        if self._fitting is None or not self.is_changed:
            return self._request.as_sent
        return self._fitting.body

    def hold(self) -> None:
        """Hold the call that is about to be made. Raises `ProxyProblem` where a budget is spent."""
        if not self.call.is_counted:
            return
        body = msgspec.json.decode(self.body) if self.is_changed else self._request.fields
        session = "" if self._log is None else str(self._log.session.key)
        self.call.hold(self._target, body if isinstance(body, dict) else {}, session)

    @property
    def is_changed(self) -> bool:
        """True where the body is not the client's: then it is not compressed."""
        return self._fitting is not None and self._fitting.body is not self._request.data

    def request_headers(self, passed: Headers) -> Headers:
        """The headers to send with the body, of those that pass."""
        headers = without_encoding(passed) if self.is_changed else passed
        has_tools = self._fitting is not None and self._fitting.tools is not None
        return without_compression(headers) if has_tools else headers

    def headers(self) -> dict[str, str]:
        """The proxy's own response headers."""
        if self._log is None:
            return {"x-holdfast-action": "passed"}
        changed = {} if self._fitting is None else self._fitting.headers()
        return {
            "x-holdfast-session": self._log.session.key.session,
            "x-holdfast-action": "passed",
            "x-holdfast-calls": str(self._calls),
            **changed,
        }

    def open(self, content_type: str, encoding: str) -> ReplyReader:
        """Begin to read an answer."""
        self.reader = ReplyReader(self._target, content_type, encoding)
        tools = None if self._fitting is None else self._fitting.tools
        if self.rounds is None and tools is not None and self.reader.is_readable:
            self.rounds = OwnRounds(self._request, self._target, tools)
        return self.reader

    def take(self, chunk: bytes) -> ChunkState:
        assert self.reader is not None
        self.call.note_first()
        return self.reader.take(chunk) if self._log is not None else "pass"

    def pass_on(self, chunk: bytes) -> list[bytes]:
        """The chunks for the client after one of the provider's, which was taken."""
        reader, rounds = self.reader, self.rounds
        if rounds is None or reader is None:
            return [chunk]
        if not reader.is_readable:
            what = "the upstream's stream is not in the encoding that it names"
            raise ProxyProblem(502, what, "try again")
        return rounds.pass_on(reader.plain)

    def end_stream(self) -> tuple[list[bytes], bool]:
        """Store the reply of a stream; returns the chunks that end it, and True where it goes on
        in the reply to another request, which `body` then is."""
        rounds = self.rounds
        if rounds is None or self._log is None or self._log.is_stored:
            self.finish()
            return [], False
        if self._go_on():
            return rounds.end_round(), True
        ending = rounds.finish()
        self.finish()
        return ending, False

    def end_whole(self, data: bytes) -> bytes | None:
        """Store a reply that is not streamed; returns the client's, or None where it goes on."""
        reader, rounds = self.reader, self.rounds
        if rounds is None or reader is None or not reader.is_readable:
            self.finish()
            return data
        data = rounds.take_whole(reader.plain_body)
        if self._go_on():
            return None
        self.finish()
        return data

    def _go_on(self) -> bool:
        """Answer calls of our tools, where the reply has no other ones."""
        rounds, log, fitting = self.rounds, self._log, self._fitting
        found = None if self.reader is None else self.reader.reply()
        if rounds is None or log is None or fitting is None or found is None:
            return False
        reply, is_whole = found
        if not is_whole or not rounds.goes_on(reply):
            return False
        self.call.settle(found)
        record = assistant_record(
            reply, self._request.provider, self._request.model, fitting.origin()
        )
        extra = {**record.extra, ROUND_FIELD: True, **rounds.wire_of(reply)}
        results = rounds.answer(reply, goes_on=True)
        log.append([msgspec.structs.replace(record, extra=extra), *results])
        self.reader = None  # it is stored
        with log.session.lock:
            after = fitting.go_on(log.after)
        if after is None:
            raise ProxyProblem(
                502, "the conversation does not fit with what the model read", "try again"
            )
        log.after = after
        self._calls += 1
        return True

    def refuse(self, status: int | None, headers: Mapping[str, str], data: bytes) -> bool:
        """Take a refusal; True where `body` is now a smaller request to send instead. One that
        came as the first event of a stream has no status."""
        plain = decompress(data, headers.get("content-encoding", ""))
        refusal = UpstreamRefusal(status, dict(headers), plain)
        self.call.refuse()
        failure, log = name_failure(refusal), self._log
        if log is None:
            return False
        if self._fitting is not None:
            with log.session.lock:
                smaller = self._fitting.shrink(failure, log.after)
            if smaller is not None:
                log.after = smaller
                self._calls += 1
                return True
            if failure.kind == "policy":
                with log.session.lock:
                    why = failure.subclass or failure.kind
                    log.after = self._fitting.end_turn(why, log.after)
        record = CallFailure(
            cause=failure.message[:2_000] or f"status {refusal.status_code}",
            failure=failure.kind,
            status=refusal.status_code,
        )
        log.store(record, self._fitting)
        return False

    def finish(self) -> None:
        """Store the reply. Raises `ProxyProblem` where that fails and the mode promises a log."""
        reader, log = self.reader, self._log
        if reader is None or log is None or log.is_stored:
            return
        found = reader.reply()
        self.call.settle(found)  # before the log: what is there was counted
        if found is None:
            said = msgspec.json.encode(reader.error).decode() if reader.error else ""
            cause = said[:2_000] or "the upstream's answer cannot be read"
            log.store(CallFailure(cause=cause), self._fitting)
            return
        reply, is_whole = found
        if is_whole and reply.stop == "refusal" and self._fitting is not None:
            with log.session.lock:
                why = reply.stop_reason or reply.stop
                log.after = self._fitting.end_turn(why, log.after)
        cause = "" if is_whole else "the upstream ended before the reply was whole"
        log.store_reply(reply, cause, self._fitting, self.rounds)

    def break_off(self, cause: str) -> None:
        """Store what came before either side hung up, with the cause. Never raises."""
        found = None if self.reader is None else self.reader.reply()
        self.call.settle(found)
        log = self._log
        if log is None or log.is_stored:
            return
        try:
            if found is not None:
                why = "" if found[1] else cause
                log.store_reply(found[0], why, self._fitting, self.rounds)
            else:
                log.store(CallFailure(cause=cause), self._fitting)
        except Exception as error:  # there is no one left to tell
            _log.warning("what came before the end cannot be stored (%s): %s", cause, error)


class ProxyKeeper(RequestLog):
    """Keeps what goes through the proxy, from the request to the end of its reply."""

    def begin(self, request: ClientRequest) -> ProxyExchange:
        """Log the new part of a request, and decide about what is sent.

        Raises `ProxyProblem` where the request cannot be read, or cannot be logged and must be.
        """
        request = self._prefixes.attach(request)
        request.new_items  # noqa: B018 - raises for what is not a request of this dialect
        try:
            begun = self._begin(request)
        except AccessDenied as error:
            raise ProxyProblem(409, str(error), error.hint or "", code="session_taken") from error
        except (HoldfastError, OSError) as error:
            self.warn_or_raise(error)
            return ProxyExchange(self, request, None, "")
        self._prefixes.remember(request)
        return begun

    def _begin(self, request: ClientRequest) -> ProxyExchange:
        if request.client.previous:
            return self._go_on(request)
        with self._opening_lock(request) if request.atoms else nullcontext():
            session, known, place = self._find(request)
            with session.lock:
                after = self._log(request, session, known, place)
        return ProxyExchange(self, request, session, after, place)

    def _go_on(self, request: ClientRequest) -> ProxyExchange:
        """A request that has only the new part: the provider keeps the history."""
        with self._lock:
            found = self._responses.get(request.client.previous)
        found = found or self._search_response(request.client.previous)
        if found is None and self.is_shared:
            raise ProxyProblem(
                404,
                f"there is no response `{request.client.previous[:100]}` here to go on from",
                "send the whole conversation instead",
                code="previous_response_not_found",
            )
        key, after = found or (self._new_key(request), "")
        session = self._pool.get(key)
        with session.lock:
            if not session.refresh():
                session.create("proxy")
            place = session.branches.place_at(after or session.branches.root)
            after = self._log(request, session, 0, place)
        return ProxyExchange(self, request, session, after, place, is_whole=False)
