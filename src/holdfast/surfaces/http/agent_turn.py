"""A turn of an agent for one client: the text as it is written, and the whole answer at its end."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.core.dialects.common.reading import INTERRUPTED, TokenCounts
from holdfast.core.flow import events as flow_events
from holdfast.core.log.records import text_of
from holdfast.core.models.replies import Delta
from holdfast.core.models.usage import read_usage
from holdfast.core.proxy.agent_history import turn_of
from holdfast.core.proxy.agent_request import SEPARATOR, SaidText
from holdfast.core.proxy.endpoints import ProxyProblem
from holdfast.engine.gateway.gateway import BUDGET, MessageChanged, session_key
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.session.opening import follow_continuation
from holdfast.engine.spending.meter import budget_headers
from holdfast.errors import BudgetSpent
from holdfast.ports import FINISHED
from holdfast.ports.sessions import follower_of
from holdfast.surfaces.http.events import LineMask

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from typing import Any

    from holdfast.core.dialects.common.speaking import AgentReply
    from holdfast.core.log.records import Assistant
    from holdfast.core.models.replies import Stop
    from holdfast.engine.chats.agent_chats import AgentChats
    from holdfast.engine.gateway.open_sessions import Watcher
    from holdfast.ports import QueuedMessage

QUIET_SECONDS: Final = 10.0
"""After which a comment tells proxies and clients that a stream lives."""


class AgentTurn:
    """One message on its way to its answer. Create it while its session is watched."""

    def __init__(self, chats: AgentChats, message: QueuedMessage, watcher: Watcher) -> None:
        self.message = message
        self.said = SaidText()
        self._chats = chats
        self._watcher = watcher
        self._mask = LineMask(chats.show)
        self._is_live = message.state == "waiting"
        """True where the pieces of its text are all seen: not of a turn that runs already."""
        self._is_running = False
        self._stop: Stop = "end"
        """The reason of the end, where the turn runs in this process."""

    async def texts(self) -> AsyncIterator[str]:
        """Yield pieces of the text until the turn has ended; an empty one after a quiet while."""
        gateway, quiet = self._chats.gateway, 0.0
        while self.message.state not in FINISHED:
            seconds = gateway.options.poll_seconds
            pieces = await self._watcher.pieces(seconds)
            text = await run_in_thread(self._take, pieces) if pieces else ""
            quiet = 0.0 if text else quiet + (0.0 if pieces else seconds)
            if text:
                yield text
            elif quiet >= QUIET_SECONDS:
                quiet = 0.0
                yield ""
            if not pieces or self._has_ended(pieces):
                await self._look()
            if gateway.live.is_closed and self.message.state not in FINISHED:
                raise ProxyProblem(
                    503,
                    "the server is stopping; the message is kept, and will be answered",
                    "send the same request again",
                    code="stopping",
                )

    def _has_ended(self, pieces: Sequence[Any]) -> bool:
        return any(
            isinstance(piece, MessageChanged)
            and piece.message == self.message.id
            and piece.state in FINISHED
            for piece in pieces
        )

    async def _look(self) -> None:
        queues = self._chats.gateway.store.queues
        found = await run_in_thread(queues.message, self.message.id)
        if found is None:
            raise ProxyProblem(404, "the message is gone", "send the request again", code="gone")
        self.message = found

    def _take(self, pieces: Sequence[Any]) -> str:
        """Take what happened in the session; returns the text for the client."""
        if self._watcher.left_out:
            self._is_live = False  # the rest comes whole
        return "".join(map(self._take_piece, pieces)) if self._is_live else ""

    def _take_piece(self, piece: Any) -> str:
        match piece:
            case MessageChanged():
                self._is_running = piece.message == self.message.id and piece.state == "running"
                return ""
            case Delta(kind="text", text=text) if self._is_running:
                shown = self._mask.feed("text", text)
                return self.said.add(shown) if shown else ""
            case flow_events.TurnFinished(reply=reply) if self._is_running:
                self._stop = reply.stop
                return ""
            case flow_events.CallFailed() if self._is_running:
                self._mask.flush()
                self.said.restart()
                return ""
            case flow_events.CallStarted() | flow_events.ToolStarted() if self._is_running:
                left = self._flush()
                self.said.settle()
                return left
            case _:  # everything else is for those who follow the session
                return ""

    def _flush(self) -> str:
        return "".join(self.said.add(text) for _kind, text in self._mask.flush())

    def finish(self, answer: AgentReply) -> AgentReply:
        """Return the whole answer, from the log. It blocks. Raises `ProxyProblem` where the message
        was not answered."""
        if self.message.state != "answered":
            raise _not_answered(self.message, self._chats.show(self.message.reason))
        replies = self._replies()
        if replies and replies[-1].stop_reason == INTERRUPTED:
            raise ProxyProblem(
                409,
                "the turn was cancelled before its answer was whole",
                "send another message: what came of the answer stays in the session",
                code="cancelled",
            )
        show = self._chats.show
        texts = [show(text_of(record.content)) for record in replies]
        return replace(
            answer,
            text=SEPARATOR.join(filter(None, texts)),
            stop=self._stop,
            counts=_sum_usage(replies),
        )

    def _replies(self) -> list[Assistant]:
        store = self._chats.gateway.store
        key = follow_continuation(store, session_key(self.message))
        user = store.find_message(key, self.message.key)
        record = str((self.message.result or {}).get("record", ""))
        if user is None:
            return []
        return turn_of(follower_of(store, key, user.id).read(), user.id, record)


def _sum_usage(replies: Sequence[Assistant]) -> TokenCounts:
    known = [read_usage(record.usage, record.provider or "") for record in replies]
    usages = [usage for usage in known if usage is not None]
    return TokenCounts(
        prompt=sum(usage.prompt for usage in usages),
        read=sum(usage.cached_read for usage in usages),
        written=sum(usage.cached_write for usage in usages),
        output=sum(usage.output or 0 for usage in usages),
    )


def _not_answered(message: QueuedMessage, reason: str) -> ProxyProblem:
    if message.state == "dropped":
        return ProxyProblem(
            409,
            f"the message was set aside: {reason}",
            "send the same request again to have it answered",
            code="cancelled",
        )
    if budget := (message.result or {}).get(BUDGET):
        spent = BudgetSpent("", budget["resets"], budget["retry_seconds"])
        return ProxyProblem(
            429, reason, spent.hint or "", code=spent.code, headers=budget_headers(spent)
        )
    return ProxyProblem(
        502,
        f"the agent could not answer: {reason}",
        "remove the cause and send the same request again; the message is kept",
        code="turn_failed",
    )


async def drain(turn: AgentTurn) -> None:
    """Wait for the end of a turn."""
    async for _text in turn.texts():
        await asyncio.sleep(0)
