"""The records of one exchange: where they stand in the session, and how they are appended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.dialects.common.digests import extend_chain
from holdfast.core.dialects.prefix import SentRequest
from holdfast.core.dialects.registry import find_dialect
from holdfast.core.proxy.branches import CHAIN_FIELD, RESPONSE_FIELD
from holdfast.core.refusals import REFUSAL
from holdfast.core.turn.replies import assistant_record
from holdfast.errors import HoldfastError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.replies import Reply
    from holdfast.engine.proxy.fitting import Fitting
    from holdfast.engine.proxy.keeper import RequestLog
    from holdfast.engine.proxy.own_rounds import OwnRounds
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
