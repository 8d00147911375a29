"""The gateway of one process: takes messages into the inbox, and answers them.

A message is durable before it is acknowledged. It is answered under its key, so that the log has it
once and answered once, whichever process does it and however often it is tried. Several processes
share the work of one database; in a folder one process does all of it.
"""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from holdfast.core.limits import MESSAGE_KEY_CHARS_MAX
from holdfast.core.owners import (
    ANY_OWNER,
    NO_OWNER,
    NamedOwner,
    owner_argument,
    owner_of,
    owner_text,
)
from holdfast.engine.gateway.audit import PromptAudit
from holdfast.engine.gateway.live import LiveFeed
from holdfast.engine.gateway.open_sessions import OpenSessions
from holdfast.engine.gateway.options import GatewayOptions
from holdfast.engine.gateway.turns import MessageTurns, session_key
from holdfast.engine.gateway.worker import QueueWorker
from holdfast.engine.session.base import limit_lease
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError, TooManyWaiting, UsageError
from holdfast.ports import FINISHED, NewMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Content, Json
    from holdfast.core.models.replies import Reply
    from holdfast.core.owners import Owner
    from holdfast.core.queues.resets import ResetReason
    from holdfast.engine.gateway.services import Service
    from holdfast.engine.session.async_session import AsyncSession
    from holdfast.ports import Clock, QueuedMessage, SessionStore

INBOX: Final = "inbox"
"""The queue of messages that wait for a turn."""
_RETRY_SECONDS: Final = 5.0
"""Asked of a sender whose message found no room."""
_FORGET_SECONDS: Final = 3_600.0
"""Between two looks for messages to forget."""


class Channel(Protocol):
    """A way in that wants to hear of outcomes, such as a messenger.

    A call may be repeated after a crash: what it stores must be stored once.
    """

    async def on_answer(self, message: QueuedMessage, reply: Reply) -> None:
        """Take the answer, durably. The message counts as answered afterwards."""

    async def on_failure(self, message: QueuedMessage, reason: str) -> None:
        """Take that there will be no answer."""

    async def on_reset(self, message: QueuedMessage, reason: ResetReason) -> None:
        """Take that the message is about to begin a fresh session, and why."""


class MessageChanged(msgspec.Struct, frozen=True):
    """A message of the inbox has another state."""

    message: int
    """The id of the message."""
    session: str
    """The session it is about, `agent/id`."""
    state: str
    """The new state."""
    owner: str
    """The owner of the message."""
    reason: str = ""
    """The reason of a failure, in a sentence."""


class Gateway:
    """Answers messages to the sessions of a store. Use it on one event loop."""

    def __init__(
        self,
        store: SessionStore,
        open_session: Callable[[SessionKey], Awaitable[AsyncSession]],
        options: GatewayOptions | None = None,
        *,
        channels: Mapping[str, Channel] | None = None,
        clock: Clock = time.time,
    ) -> None:
        self.store = store
        self.options = options or GatewayOptions()
        self.channels: dict[str, Channel] = dict(channels or {})
        self.services: list[Service] = []
        """Started and stopped with the gateway."""
        self.live = LiveFeed()
        self.audit = PromptAudit()

        async def open_leased(key: SessionKey) -> AsyncSession:
            session = await open_session(key)
            # The message of a process that stops is taken over together with its turn.
            limit_lease(session, self.options.claim_seconds)
            return session

        self.sessions = OpenSessions(
            open_leased,
            limit=self.options.sessions_max,
            idle_seconds=self.options.idle_seconds,
        )
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{secrets.token_hex(4)}"
        """The name of this process among those that share the work."""
        self._clock = clock
        self._worker = QueueWorker(
            store,
            INBOX,
            self.holder,
            MessageTurns(self).run,
            limit=self.options.turns_max,
            claim_seconds=self.options.claim_seconds,
            poll_seconds=self.options.poll_seconds,
        )
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, *, is_alone: bool = False) -> None:
        """Begin to answer. A process that `is_alone` goes on at once with what another left."""
        if is_alone:
            await run_in_thread(self.store.queues.release_all, INBOX)
        self._tasks = [
            asyncio.create_task(self._worker.run(), name="holdfast-inbox"),
            asyncio.create_task(self._tidy(), name="holdfast-tidy"),
        ]
        for service in self.services:
            await service.start()

    async def stop(self) -> None:
        """Let running turns end, for a while; what is left is for the next process."""
        tasks, self._tasks = self._tasks, []
        for service in self.services:
            await service.stop()
        await self._worker.stop(self.options.drain_seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for service in self.services:
            await service.close()
        await self.sessions.close()

    async def submit(
        self,
        key: SessionKey,
        content: Content,
        *,
        message_key: str | None = None,
        owner: str | Owner = NO_OWNER,
        channel: str = "",
        extra: Json | None = None,
        about: Json | None = None,
    ) -> QueuedMessage:
        """Take a message for a session that exists; it is durable when this returns.

        The same `message_key` again is the same message. Raises `TooManyWaiting`. `extra` is kept
        with the user's words in the log; `about` is for the channel.
        """
        name = message_key or secrets.token_hex(12)
        if len(name) > MESSAGE_KEY_CHARS_MAX:
            raise UsageError(
                f"the key of a message cannot have {len(name):,} characters",
                hint=f"use at most {MESSAGE_KEY_CHARS_MAX}",
            )
        body: Json = {"content": content}
        body |= {"channel": channel} if channel else {}
        body |= {"extra": extra} if extra else {}
        body |= {"about": about} if about else {}
        message = NewMessage(
            queue=INBOX,
            lane=str(key),
            key=name,
            body=body,
            owner=owner_text(owner_argument(owner)),
            session=str(key),
        )
        stored = await run_in_thread(self._put, message)
        self._worker.wake()
        self.publish(stored)
        return stored

    def _put(self, message: NewMessage) -> QueuedMessage:
        queues = self.store.queues
        if queues.find(INBOX, owner_of(message.owner), message.key) is None:
            self._check_room(message)
        return queues.put(message)

    def _check_room(self, message: NewMessage) -> None:
        queues = self.store.queues
        lane = queues.counts(INBOX, owner=ANY_OWNER, lane=message.lane)
        waiting = lane.get("waiting", 0) + lane.get("running", 0)
        if waiting >= self.options.waiting_max:
            raise TooManyWaiting(f"session `{message.lane}`", waiting, _RETRY_SECONDS)
        owner = owner_of(message.owner)
        if isinstance(owner, NamedOwner):
            waiting = queues.counts(INBOX, owner=owner).get("waiting", 0)
            if waiting >= self.options.owner_waiting_max:
                raise TooManyWaiting("the inbox of this owner", waiting, _RETRY_SECONDS)

    async def wait(self, message_id: int, seconds: float) -> QueuedMessage | None:
        """Return a message when it is done, or as it is after so many seconds."""
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        with self.live.watch(message_id) as watcher:
            while True:
                found = await run_in_thread(self.store.queues.message, message_id)
                if found is None or found.state in FINISHED or loop.time() >= until:
                    return found
                look = min(until, loop.time() + self.options.poll_seconds)
                while (left := look - loop.time()) > 0:  # that it runs now costs no look
                    pieces = await watcher.pieces(left)
                    if any(piece.state in FINISHED for piece in pieces):
                        break

    async def cancel(self, key: SessionKey) -> QueuedMessage | None:
        """Cancel the turn that runs in a session, in whichever process; returns its message."""
        queues = self.store.queues
        running = await run_in_thread(
            lambda: queues.messages(
                INBOX, owner=ANY_OWNER, lane=str(key), states=("running",), limit=1
            )
        )
        session = self.sessions.find(key)
        dropped = None
        for message in running:
            if await run_in_thread(queues.drop, message.id, "cancelled"):
                dropped = await run_in_thread(queues.message, message.id)
        if session is not None:
            session.cancel()
        if dropped is not None:
            self.publish(dropped)
        return dropped

    def is_running(self, key: SessionKey) -> bool:
        """Return whether a turn of this session runs in this process."""
        return self._worker.is_running(str(key))

    @property
    def running(self) -> int:
        """The number of turns that run in this process."""
        return self._worker.running

    @property
    def state(self) -> Literal["answering", "stopped", "blocked"]:
        """`answering` from the start to the stop, as long as the loops that answer messages run;
        `blocked` while no message can be claimed: on a full disk, without the database."""
        if not self._tasks or any(task.done() for task in self._tasks):
            return "stopped"
        return "answering" if self._worker.claim_failure is None else "blocked"

    def wake(self) -> None:
        """Look for messages now: one was put, or is to be tried again."""
        self._worker.wake()

    def publish(self, message: QueuedMessage) -> None:
        """Tell those who watch that a message has another state."""
        piece = MessageChanged(
            message.id, message.session, message.state, message.owner, message.reason
        )
        self.live.publish(None, piece)
        self.live.publish(session_key(message), piece)
        self.live.publish(message.id, piece)

    def now(self) -> float:
        return self._clock()

    async def _tidy(self) -> None:
        """Close idle sessions, and forget messages that are long done."""
        forget = partial(self.store.queues.forget, older_than_seconds=self.options.keep_seconds)
        forgot = 0.0
        while True:
            await asyncio.sleep(min(60.0, max(1.0, self.options.idle_seconds / 4)))
            now = asyncio.get_running_loop().time()
            with suppress(HoldfastError, OSError):  # the next round may work
                await self.sessions.evict()
                if now - forgot >= _FORGET_SECONDS:
                    forgot = now
                    await run_in_thread(forget)
