"""The rounds of one reply in which the proxy answers calls of its own tools."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.dialects.registry import find_dialect
from holdfast.core.log.records import ToolResult
from holdfast.core.proxy.branches import WIRE_FIELD
from holdfast.core.proxy.event_stream import EventSplitter
from holdfast.engine.proxy.own_tools import LAST_NOTE, OWN_NAMES, ROUNDS_MAX, TOO_MANY
from holdfast.engine.proxy.reply_reading import ReplyReader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import ToolCall
    from holdfast.core.models.replies import Reply
    from holdfast.engine.proxy.own_tools import OwnTools
    from holdfast.engine.proxy.request import ClientRequest

_log: Final = logging.getLogger(__name__)
_DONE: Final = b"[DONE]"


class OwnRounds:
    """Makes the client's reply of the provider's rounds, and records what it does not see."""

    def __init__(self, request: ClientRequest, target: Target, tools: OwnTools) -> None:
        self._request = request
        self._target = target
        self._tools = tools
        self._rounds = find_dialect(request.dialect).rounds
        self._joiner = self._rounds.make_joiner(OWN_NAMES)
        self._splitter = EventSplitter()
        self._seen: ReplyReader | None = None
        """The reply as the client sees it."""
        self._bodies: list[Json] = []
        self._count = 0

    # Streams

    def pass_on(self, data: bytes) -> list[bytes]:
        """The events for the client that some bytes of the provider's bring."""
        return self._take(self._splitter.feed(data))

    def _take(self, events: Sequence[tuple[bytes, bytes]]) -> list[bytes]:
        passed: list[bytes] = []
        for raw, data in events:
            if data == _DONE:
                self._joiner.hold(raw)
                continue
            try:
                event: Any = msgspec.json.decode(data) if data else None
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                event = None
            passed += self._join(event, raw) if isinstance(event, dict) else [raw]
        return self._note(passed)

    def _join(self, event: Json, raw: bytes) -> list[bytes]:
        try:
            return self._joiner.take(event, raw)
        except Exception as error:  # a host that deviates must not end its client's stream
            _log.warning("an event of the reply cannot be merged: %r", error)
            return [raw]

    def _note(self, passed: list[bytes]) -> list[bytes]:
        if self._seen is None:
            self._seen = ReplyReader(self._target, "text/event-stream", "")
        for event in passed:
            self._seen.take(event)
        return passed

    def end_round(self) -> list[bytes]:
        """End a round that another follows; returns what is still to be passed on."""
        passed = [*self._take(self._splitter.end()), *self._note(self._joiner.end_round())]
        self._splitter = EventSplitter()
        return passed

    def finish(self) -> list[bytes]:
        """The events that end the client's stream."""
        return [*self._take(self._splitter.end()), *self._note(self._joiner.finish())]

    # Replies that are not streamed

    def take_whole(self, data: bytes) -> bytes:
        """The client's body after a round, of which `data` is the provider's."""
        try:
            body: Any = msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return data
        if not isinstance(body, dict):
            return data
        self._bodies.append(body)
        try:
            joined = self._rounds.make_joiner(OWN_NAMES).join(self._bodies)
        except Exception as error:  # its bytes reach the client, whatever we make of them
            _log.warning("the reply cannot be joined: %r", error)
            return data
        data = data if joined == body else msgspec.json.encode(joined)
        self._seen = ReplyReader(self._target, "application/json", "")
        self._seen.take(data)
        return data

    # What is logged

    def goes_on(self, reply: Reply) -> bool:
        """True where a reply calls our tools alone, and is to be answered here."""
        own = _own_calls(reply)
        is_alone = bool(own) and len(own) == len(reply.calls)
        return is_alone and reply.stop == "tools" and self._count < ROUNDS_MAX

    def as_seen(self, reply: Reply) -> Reply:
        """A reply as the client has it, with what came in the rounds before."""
        found = None if self._seen is None else self._seen.reply()
        return reply if found is None else found[0]

    def wire_of(self, reply: Reply) -> dict[str, Any]:
        """The field of a reply that has it as the provider knows it, where the client does not."""
        if not self._count and not _own_calls(reply):
            return {}
        request = self._request
        own = {call.id for call in _own_calls(reply)}
        body = _body_of(reply)
        unread = set(self._rounds.call_ids(body, OWN_NAMES)) - own
        is_stored = request.fields.get("store") is not False
        return {WIRE_FIELD: self._rounds.reply_items(body, unread, is_stored=is_stored)}

    def answer(self, reply: Reply, *, goes_on: bool) -> list[Record]:
        """The results of the calls of our tools in a reply, as records."""
        calls = _own_calls(reply)
        known = self._rounds.calls_to_answer(calls, _body_of(reply), OWN_NAMES)
        is_over = not goes_on and self._count >= ROUNDS_MAX
        self._count += goes_on
        records: list[Record] = []
        for call, wire in zip(calls, known, strict=True):
            text, is_error = (TOO_MANY, True) if is_over else self._tools.answer(call)
            text += LAST_NOTE if goes_on and self._count == ROUNDS_MAX else ""
            items = self._rounds.result_items(wire, text, is_error=is_error)
            records.append(
                ToolResult(
                    tool_use_id=call.id,
                    name=call.name,
                    content=text,
                    is_error=is_error,
                    extra={WIRE_FIELD: items},
                )
            )
        return records


def _own_calls(reply: Reply) -> list[ToolCall]:
    return [call for call in reply.calls if call.name in OWN_NAMES]


def _body_of(reply: Reply) -> Json:
    body: Any = msgspec.json.decode(reply.raw) if isinstance(reply.raw, bytes) else reply.raw
    return body if isinstance(body, dict) else {}
