"""Server-sent events: the records of a session as they are appended, and pieces of replies.

The id of an event is the id of its record, so that a client which reconnects with `Last-Event-ID`
misses no record. Pieces of a reply have no id: the record that follows has all of it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any, Final, Union, get_type_hints

import msgspec

from holdfast.core.failures.classify import Failure
from holdfast.core.flow import events as flow_events
from holdfast.core.log.records import to_json
from holdfast.core.models.messages import ToolCall
from holdfast.core.models.replies import Delta
from holdfast.core.owners import ANY_OWNER, is_wanted, owner_of
from holdfast.engine.gateway.gateway import MessageChanged
from holdfast.engine.operations.sessions import LoggedRecord
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.session.opening import follow_continuation
from holdfast.engine.spending.meter import BudgetNear
from holdfast.errors import HoldfastError, NoSuchRecord
from holdfast.ports.sessions import follower_of
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import Given, HttpAnswer, HttpQuery, Route

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Record
    from holdfast.core.models.replies import DeltaKind
    from holdfast.surfaces.http.route import HttpCall

MEDIA_TYPE: Final = "text/event-stream"
_LOOK_SECONDS: Final = 1.0
"""Between two looks for records of other processes."""
_QUIET_SECONDS: Final = 15.0
"""After which a comment tells proxies and clients that the stream lives."""
_SHOWN: Final = (
    flow_events.TurnStarted,
    flow_events.TurnFailed,
    flow_events.TurnCancelled,
    flow_events.CallStarted,
    flow_events.CallFailed,
    flow_events.ToolStarted,
    flow_events.ToolFinished,
    flow_events.CompactionStarted,
    flow_events.SessionReset,
    flow_events.TurnWaiting,
)
"""Events that are sent by their name; the records have the rest."""


def _kind_of(kind: Any) -> type:
    """Return an event with its name among its fields, as a client gets it."""
    hints = get_type_hints(kind, localns={"Failure": Failure, "ToolCall": ToolCall})
    required = len(kind.__struct_fields__) - len(kind.__struct_defaults__)
    defaults = [(each,) for each in kind.__struct_defaults__]
    given = [*[()] * required, *defaults]
    return msgspec.defstruct(
        kind.__name__,
        [(name, hints[name], *default) for name, default in zip(hints, given, strict=True)],
        frozen=True,
        module=kind.__module__,
        namespace={"__doc__": kind.__doc__},
        tag_field="event",
        tag=kind.__name__,
    )


TurnEvent: Final[Any] = Union[tuple(map(_kind_of, _SHOWN))]  # noqa: UP007  (made of a tuple)
"""A step of a turn."""


class StreamIdle(Given, frozen=True):
    """No message of the session waits or runs any more: the stream ends."""


class StreamFailed(Given, frozen=True):
    """The stream ends because the session cannot be read."""

    detail: str
    """The reason, in a sentence."""


class EventsQuery(HttpQuery, frozen=True):
    """The place to begin."""

    after: Annotated[str, msgspec.Meta(max_length=200)] = ""
    """A record; those after it are sent first. Without it, only new ones are."""
    until_idle: bool = False
    """End the stream when no message of the session waits or runs any more."""


async def _events(call: HttpCall) -> HttpAnswer:
    key = await run_in_thread(call.session)
    after = call.headers.get("last-event-id") or call.query.after
    try:
        stream = await run_in_thread(SessionStream, call, key, after)
    except NoSuchRecord as error:
        raise Problem(
            400,
            f"there is no record `{after}` to begin after",
            hint="begin without Last-Event-ID and `after`, and read the messages again",
        ) from error
    return HttpAnswer(stream.events(), media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


class SessionStream:
    """The events of one session for one client."""

    def __init__(self, call: HttpCall, key: SessionKey, after: str) -> None:
        self._call = call
        self._key = key
        self._record_key = follow_continuation(call.store, key)
        start = after or call.store.head(self._record_key)
        self._follower = follower_of(call.store, self._record_key, start)
        self._texts = LineMask(call.workspace.mask)
        self._last = start

    async def events(self) -> AsyncIterator[bytes]:
        """Yield events until the client goes away."""
        gateway, quiet = self._call.gateway, 0.0
        with gateway.live.watch(self._key) as watcher:
            yield _begin(self._last)
            while not gateway.live.is_closed:
                try:
                    records = await run_in_thread(self._read_records)
                except HoldfastError as error:
                    yield _event("error", StreamFailed(str(error)))
                    return
                for data in records:
                    yield data
                if self._call.query.until_idle and await run_in_thread(self._is_idle):
                    for data in await run_in_thread(self._read_records):
                        yield data
                    yield _event("idle", StreamIdle())
                    return
                pieces = await watcher.pieces(_LOOK_SECONDS)
                if pieces:
                    for data in await run_in_thread(self._show_pieces, pieces):
                        yield data
                quiet = 0.0 if pieces or records else quiet + _LOOK_SECONDS
                if quiet >= _QUIET_SECONDS:
                    quiet = 0.0
                    yield b": still here\n\n"

    def _is_idle(self) -> bool:
        counts = self._call.store.queues.counts("inbox", lane=str(self._key), owner=ANY_OWNER)
        return not (counts.get("waiting") or counts.get("running"))

    def _read_records(self) -> list[bytes]:
        """Read and mask what is new in the log. In a thread: it may wait for the rules."""
        return [self._record(record) for record in self._follower.read()]

    def _show_pieces(self, pieces: list[Any]) -> list[bytes]:
        return [data for piece in pieces for data in self._piece(piece)]

    def _record(self, record: Record) -> bytes:
        self._last = record.id
        return _event("record", self._call.workspace.mask(to_json(record)), record.id)

    def _piece(self, piece: Any) -> list[bytes]:
        if isinstance(piece, Delta):
            if piece.kind == "call":
                return [_event("delta", Delta("call", piece.text))]
            text = self._texts.feed(piece.kind, piece.text)
            return [_event("delta", Delta(piece.kind, text))] if text else []
        if isinstance(piece, MessageChanged):
            left = self._texts.flush()
            lines = [_event("delta", Delta(kind, text)) for kind, text in left]
            value = msgspec.to_builtins(piece)
            return [*lines, _event("message", self._call.workspace.mask(value))]
        if isinstance(piece, BudgetNear):
            return [_event("budget", self._call.workspace.mask(msgspec.to_builtins(piece)))]
        if isinstance(piece, _SHOWN):
            value = {"event": type(piece).__name__, **msgspec.to_builtins(piece, enc_hook=repr)}
            return [_event("turn", self._call.workspace.mask(value))]
        return []


class LineMask:
    """Masks text that comes in pieces: a line is shown when it is whole, so that no secret is
    shown in two halves."""

    def __init__(self, mask: Callable[[str], str]) -> None:
        self._mask = mask
        self._kept: dict[DeltaKind, str] = {}

    def feed(self, kind: DeltaKind, text: str) -> str:
        """Return the lines that are whole now."""
        whole, newline, rest = (self._kept.get(kind, "") + text).rpartition("\n")
        self._kept[kind] = rest
        return self._mask(whole + newline) if newline else ""

    def flush(self) -> list[tuple[DeltaKind, str]]:
        """Return what is left at the end of a reply."""
        left = [(kind, self._mask(text)) for kind, text in self._kept.items() if text]
        self._kept = {}
        return left


async def _feed(call: HttpCall) -> HttpAnswer:
    """The states of messages as they change, for the client's owner."""
    return HttpAnswer(_states(call), media_type=MEDIA_TYPE, headers={"Cache-Control": "no-store"})


async def _states(call: HttpCall) -> AsyncIterator[bytes]:
    quiet = 0.0
    with call.gateway.live.watch(None) as watcher:
        yield b"retry: 1000\n\n"
        while not call.gateway.live.is_closed:
            pieces = [
                piece
                for piece in await watcher.pieces(_LOOK_SECONDS)
                if isinstance(piece, MessageChanged)
                and is_wanted(owner_of(piece.owner), call.owner)
            ]
            if pieces:
                values = await run_in_thread(
                    call.workspace.mask, [msgspec.to_builtins(piece) for piece in pieces]
                )
                for value in values:
                    yield _event("message", value)
            quiet = 0.0 if pieces else quiet + _LOOK_SECONDS
            if quiet >= _QUIET_SECONDS:
                quiet = 0.0
                yield b": still here\n\n"
            await asyncio.sleep(0)


def _begin(event_id: str) -> bytes:
    """Say where the stream begins: a client that loses it before the first record goes on there."""
    return f"{_id_line(event_id)}retry: 1000\n\n".encode()


def _event(name: str, value: Any, event_id: str = "") -> bytes:
    data = msgspec.json.encode(value)
    return f"{_id_line(event_id)}event: {name}\ndata: ".encode() + data + b"\n\n"


def _id_line(event_id: str) -> str:
    return f"id: {event_id}\n" if event_id and event_id.isprintable() else ""


ROUTES: Final = (
    Route(
        "GET",
        "/v1/sessions/{agent}/{session}/events",
        "Follow a session",
        _events,
        MEDIA_TYPE,
        events={
            "record": LoggedRecord,
            "delta": Delta,
            "message": MessageChanged,
            "turn": TurnEvent,
            "budget": BudgetNear,
            "idle": StreamIdle,
            "error": StreamFailed,
        },
        query=EventsQuery,
        action="events",
        is_stream=True,
    ),
    Route(
        "GET",
        "/v1/events",
        "Follow the states of messages",
        _feed,
        MEDIA_TYPE,
        events={"message": MessageChanged},
        action="events",
        is_stream=True,
    ),
)
