"""The gateway of one process: takes messages into the inbox, and answers them.

There is one for one folder: the second is refused, and learns the process of the first. Services
beside it receive messages from channels.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import logging
import os
import random
import secrets
import socket
import time
from collections import Counter
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Literal, Protocol

import msgspec

from holdfast.core.flow.effects import Cancelled
from holdfast.core.flow.events import (
    CompactionFinished,
    EpochBegun,
    Pruned,
    SessionReset,
    TroubleNoticed,
    TurnFinished,
)
from holdfast.core.limits import MESSAGE_KEY_CHARS_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant
from holdfast.core.models.replies import Reply
from holdfast.core.owners import (
    ANY_OWNER,
    NO_OWNER,
    NamedOwner,
    owner_argument,
    owner_of,
    owner_text,
)
from holdfast.core.queues import (
    INBOX,
    RESUMES,
    ResetReason,
    next_try,
    reason_of,
    reason_to_set_aside,
    reset_reason,
)
from holdfast.core.timers import is_silent
from holdfast.core.turn.replies import reply_of
from holdfast.engine.gateway.open_sessions import LiveFeed, OpenSessions
from holdfast.engine.gateway.own_loops import OwnLoops
from holdfast.engine.gateway.placing import PLACE, place_message
from holdfast.engine.gateway.worker import QueueWorker
from holdfast.engine.session.base import limit_lease
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.session.waiting_list import put_resume
from holdfast.engine.spending.meter import CallMeter, Spender, payer_of, paying, sign_body, who_pays
from holdfast.errors import (
    BadSetting,
    BudgetSpent,
    HoldfastError,
    NoSuchSession,
    StoreUnavailable,
    TooManyWaiting,
    UsageError,
)
from holdfast.ports import FINISHED, NewMessage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping

    from holdfast.core.flow.events import Event
    from holdfast.core.log.records import Content, Json
    from holdfast.core.owners import Owner
    from holdfast.engine.gateway.placing import MessagePlace
    from holdfast.engine.session.async_session import AsyncSession
    from holdfast.engine.spending.meter import BudgetNear
    from holdfast.ports import Clock, MessageState, QueuedMessage, SessionStore, WaitingMessages


class GatewayOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The limits of a gateway. Times are in seconds."""

    turns_max: int = 32
    """Turns that run at the same time in one process."""
    turn_seconds: float = 1_800.0
    """The longest turn; after it, the turn is cancelled and its message set aside."""
    waiting_max: int = 100
    """Messages that may wait in one session; more are refused until some are answered."""
    owner_waiting_max: int = 1_000
    """Messages that may wait for one owner."""
    sessions_max: int = 128
    """Sessions kept open; those used longest ago are closed, and opened again when a message comes.
    An open one holds its records in memory."""
    idle_seconds: float = 900.0
    """After which a session that no one uses is closed."""
    claim_seconds: float = 30.0
    """After which another process takes over the message of one that died or was stopped, and the
    turn with it, if it is shorter than a turn's lease (30 s)."""
    poll_seconds: float = 1.0
    """Between two looks for messages that other processes put."""
    drain_seconds: float = 30.0
    """Time that running turns get to end when the gateway stops; then others go on with them."""
    keep_seconds: float = 7 * 86_400.0
    """After which messages that are done are forgotten; the logs keep what was said."""
    reset_idle_seconds: float = 0.0
    """Start a fresh session, with a checkpoint of the old one, after so long without a message;
    0 for never."""
    reset_daily_hour: int | None = None
    """Start a fresh session with the first message after this hour (UTC) of each day."""

    def __post_init__(self) -> None:
        for name in ("turns_max", "waiting_max", "owner_waiting_max", "sessions_max"):
            if getattr(self, name) < 1:
                raise BadSetting(f"`{name}` cannot be {getattr(self, name)}", hint="give 1 or more")
        for name in ("turn_seconds", "claim_seconds", "poll_seconds"):
            if not getattr(self, name) > 0:
                raise BadSetting(f"`{name}` cannot be {getattr(self, name)}", hint="give seconds")
        hour = self.reset_daily_hour
        if hour is not None and not 0 <= hour < 24:
            raise BadSetting(f"`reset_daily_hour` cannot be {hour}", hint="give 0 to 23")


_FILE: Final = "gateway.lock"


@contextmanager
def only_gateway(folder: str | None) -> Iterator[None]:
    """Hold the folder for this process. The lock ends with the process, however it ends.

    Stores that are no folder are shared: there is nothing to hold.
    """
    if folder is None:
        yield
        return
    os.makedirs(folder, mode=0o700, exist_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    fd = os.open(os.path.join(folder, _FILE), flags, 0o600)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            pid = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise StoreUnavailable(
                f"another gateway serves `{os.path.abspath(folder)}`: process {pid}",
                hint="stop it first; for several processes use a PostgreSQL store",
            ) from None
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode(), 0)
        yield
    finally:
        os.close(fd)


ServiceState = Literal["starting", "running", "standby", "failed", "stopped"]
"""`standby`: another process does the work over the same store, and this one takes over after it.
`failed`: it is tried again later."""


class ServiceStatus(msgspec.Struct, frozen=True):
    """The state of a service, for an operator."""

    name: str
    state: ServiceState
    detail: str = ""
    """The work it does, or the problem and the way out."""
    since: float = 0.0


class Service(Protocol):
    """Receives messages for a gateway, and sends its answers. The gateway starts and stops it."""

    @property
    def status(self) -> ServiceStatus:
        """The state, now."""

    async def start(self) -> None:
        """Begin to receive. A service that cannot work says so in its status."""

    async def stop(self) -> None:
        """Receive nothing more. The turns of the gateway end after this."""

    async def close(self) -> None:
        """Send what the last turns answered, for a while, and end."""


class PromptAudit:
    """The turns of this process: epochs, reasoning that was not accepted, missed caches."""

    def __init__(self) -> None:
        self.epochs: Counter[str] = Counter()
        """Epochs that neither a compaction nor a prune began, by cause."""
        self.reasoning: Counter[tuple[str, str]] = Counter()
        """Blocks by state, `dropped` or `allowed`, and the provider's reason."""
        self.cache_misses: Counter[str] = Counter()
        """Misses by the provider's reason."""
        self.compactions: Counter[tuple[str, str, str]] = Counter()
        """Compactions that were applied, by agent, reason and method."""
        self.prunes: Counter[str] = Counter()
        """Prunes by agent."""
        self.refusals: Counter[str] = Counter()
        """Replies that a provider's policy or the model refused, by agent."""

    def take(self, event: Event, agent: str = "main") -> None:
        """Count an event, where it says something about a prompt."""
        match event:
            case EpochBegun(cause=cause):
                self.epochs[cause] += 1
            case TroubleNoticed(kind="reasoning-dropped", reasoning=blocks):
                self.reasoning.update(
                    ("dropped" if block.is_dropped else "allowed", block.reason) for block in blocks
                )
            case TroubleNoticed(kind="cache-missed", detail=reason):
                self.cache_misses[reason] += 1
            case CompactionFinished(outcome="applied", reason=why, method=method):
                self.compactions[(agent, why, method or "")] += 1
            case Pruned():
                self.prunes[agent] += 1
            case TurnFinished(reply=reply) if reply.stop == "refusal":
                self.refusals[agent] += 1
            case _:  # every other event is about something else
                pass


BUDGET: Final = "budget"
"""The key of a failed message's result for the times of the budget that was spent."""
_TURN_WAIT_SECONDS: Final = 5.0
"""For a turn of another program on the same session; the message is then tried again."""
_RENEWALS: Final = 6
"""Renewals in the time of one claim. A message that is dropped meanwhile is noticed by one."""
_JITTER: Final = 0.2
"""The share by which waits differ, so that messages that failed together do not come together."""

log = logging.getLogger(__name__)


class _ClaimLost(Exception):
    """The message was dropped, or another process has taken it over."""


class MessageTurns:
    """Runs the turns of claimed messages."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._options = gateway.options

    async def run(self, message: QueuedMessage) -> None:
        """Answer a claimed message. Every outcome but the end of the process is stored."""
        key = session_key(message)
        self._gateway.publish(message)
        with paying(payer_of(message.body)):
            await self._run(message, key)

    async def _run(self, message: QueuedMessage, key: SessionKey) -> None:
        limit = asyncio.timeout(self._options.turn_seconds)
        try:
            if reason := reason_to_set_aside(message):
                await self._fail(message, reason)
                return
            async with self._keep_claim(message):
                async with limit:
                    reply = await self._answer(message, key)
                channel = self._gateway.channels.get(str(message.body.get("channel", "")))
                is_silent_reply = is_silent(message.body.get("extra"), reply.text)
                if channel is not None and not is_silent_reply:
                    await channel.on_answer(message, reply)
            await self._finish(message, "answered", record=reply.record)
        except _ClaimLost:
            await self._publish_state(message)
        except asyncio.CancelledError:
            await self._give_back(message)
            raise
        except Cancelled:
            await self._finish(message, "dropped", reason="cancelled")
        except TimeoutError as error:
            if not limit.expired():
                await self._try_again(message, error)
                return
            minutes = self._options.turn_seconds / 60
            await self._fail(message, f"the turn took longer than {minutes:g} minutes")
        except NoSuchSession as error:
            await self._fail(message, reason_of(error))
        except BudgetSpent as error:
            if error.is_held:
                await self._try_again(message, error)
            else:
                times = {"resets": error.resets, "retry_seconds": error.retry_seconds}
                await self._fail(message, reason_of(error), {BUDGET: times})
        except Exception as error:  # a tool, a channel or a bug: the lane must go on
            await self._try_again(message, error)

    async def _answer(self, message: QueuedMessage, key: SessionKey) -> Reply:
        gateway = self._gateway
        async with gateway.sessions.use(key) as session:
            reason = await self._reset_reason(session, message)
        if await run_in_thread(place_message, gateway.store, message):
            await gateway.sessions.forget(key)
        if reason:
            await self._reset(key, message, reason)
        async with gateway.sessions.use(key) as session:
            removers = [
                session.on(lambda event: gateway.live.publish(key, event)),
                session.on(lambda event: gateway.audit.take(event, key.agent)),
            ]
            try:
                if message.body.get(RESUMES):
                    return await session.resume(
                        on_delta=lambda delta: gateway.live.publish(key, delta),
                        wait=_TURN_WAIT_SECONDS,
                    ) or await _newest_reply(session)
                return await session.say(
                    message.body.get("content", ""),
                    key=message.key,
                    extra=message.body.get("extra"),
                    on_delta=lambda delta: gateway.live.publish(key, delta),
                    wait=_TURN_WAIT_SECONDS,
                )
            finally:
                for remove in removers:
                    remove()

    async def _reset_reason(self, session: AsyncSession, message: QueuedMessage) -> ResetReason:
        options = self._options
        if not options.reset_idle_seconds and options.reset_daily_hour is None:
            return ""
        if message.body.get(RESUMES) or message.body.get(PLACE):
            return ""  # it goes on with what was said, however long ago
        store, key = session.store, session.key
        info = await run_in_thread(store.info, key)
        stored = await run_in_thread(store.find_message, key, message.key)
        if stored is not None or not info.messages:
            return ""
        return reset_reason(
            info.last_active,
            self._gateway.now(),
            idle_seconds=options.reset_idle_seconds,
            daily_hour=options.reset_daily_hour,
        )

    async def _reset(self, key: SessionKey, message: QueuedMessage, reason: ResetReason) -> None:
        """Begin a fresh session. It is announced before: after a crash both are done again."""
        sessions = self._gateway.sessions
        channel = self._gateway.channels.get(str(message.body.get("channel", "")))
        if channel is not None:
            await channel.on_reset(message, reason)
        async with sessions.use(key) as session:
            old = session.key
            fresh = await session.reset(moves_name=True)
        await sessions.forget(key)
        self._gateway.live.publish(key, SessionReset(old.session, fresh.key.session, reason))

    @contextlib.asynccontextmanager
    async def _keep_claim(self, message: QueuedMessage) -> AsyncIterator[None]:
        """Renew the claim while the block runs; where it is lost, the block is cancelled."""
        task = asyncio.current_task()
        assert task is not None
        lost = False

        async def renew() -> None:
            nonlocal lost
            seconds = self._options.claim_seconds
            while True:
                await asyncio.sleep(seconds / _RENEWALS)
                try:
                    queues = self._gateway.store.queues
                    is_held = await run_in_thread(queues.renew, message, seconds)
                except HoldfastError as error:  # the next renewal may work
                    log.warning("cannot renew a claim: %s", error)
                    continue
                if not is_held:
                    lost = True
                    task.cancel()
                    return

        renewal = asyncio.create_task(renew())
        try:
            yield
        except (asyncio.CancelledError, Cancelled) as error:
            if lost:
                task.uncancel()
                raise _ClaimLost from error
            raise
        finally:
            renewal.cancel()
            await asyncio.gather(renewal, return_exceptions=True)

    async def _finish(
        self,
        message: QueuedMessage,
        state: MessageState,
        *,
        reason: str = "",
        record: str = "",
        result: Json | None = None,
    ) -> None:
        assert state in ("answered", "failed", "dropped")
        result = {"record": record} if record else result
        queues = self._gateway.store.queues
        if await run_in_thread(queues.finish, message, state, reason=reason, result=result):
            self._gateway.publish(msgspec.structs.replace(message, state=state, reason=reason))
        else:
            await self._publish_state(message)

    async def _fail(self, message: QueuedMessage, reason: str, result: Json | None = None) -> None:
        log.warning("message %d of %s failed: %s", message.id, message.session, reason)
        channel = self._gateway.channels.get(str(message.body.get("channel", "")))
        if channel is not None:
            await channel.on_failure(message, reason)
        await self._finish(message, "failed", reason=reason, result=result)

    async def _try_again(self, message: QueuedMessage, error: Exception) -> None:
        again, reason = next_try(error, message.tries), reason_of(error)
        if again is None:
            await self._fail(message, reason)
            return
        seconds = again.seconds * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311
        queues = self._gateway.store.queues
        await run_in_thread(
            lambda: queues.postpone(message, seconds, reason=reason, is_counted=again.is_counted)
        )
        asyncio.get_running_loop().call_later(seconds, self._gateway.wake)
        await self._publish_state(message)

    async def _give_back(self, message: QueuedMessage) -> None:
        queues = self._gateway.store.queues
        with contextlib.suppress(HoldfastError):
            await asyncio.shield(
                run_in_thread(lambda: queues.postpone(message, 0, is_counted=False))
            )

    async def _publish_state(self, message: QueuedMessage) -> None:
        found = await run_in_thread(self._gateway.store.queues.message, message.id)
        if found is not None:
            self._gateway.publish(found)


async def _newest_reply(session: AsyncSession) -> Reply:
    """Return the answer of a session that a process before this one has brought to its end."""
    records = await session.messages(_REPLY_RECORDS)
    newest = next((rec for rec in reversed(records) if isinstance(rec, Assistant)), None)
    return reply_of(newest) if newest is not None else Reply(content=[])


def session_key(message: QueuedMessage) -> SessionKey:
    """Return the session that a message is for."""
    return session_key_of(message.session)


def _publish_near(live: LiveFeed, loop: asyncio.AbstractEventLoop, near: BudgetNear) -> None:
    """Tell those who follow a session of a budget, from whichever thread."""
    if near.session:
        loop.call_soon_threadsafe(live.publish, session_key_of(near.session), near)


def session_key_of(name: str) -> SessionKey:
    """Return the key that is written `agent/id`."""
    agent, _, session = name.partition("/")
    return SessionKey(agent, session)


_REPLY_RECORDS: Final = 20
"""Records at the end of a session among which its newest reply is."""
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
        meter: CallMeter | None = None,
        clock: Clock = time.time,
    ) -> None:
        """`meter` counts the calls of the models that sessions are opened with."""
        self.store = store
        self.meter = meter or CallMeter(store.spending)
        self.options = options or GatewayOptions()
        self.channels: dict[str, Channel] = dict(channels or {})
        self.services: list[Service] = []
        """Started and stopped with the gateway."""
        self.loops = OwnLoops(store, self.meter)
        """The sessions of loops that clients run themselves."""
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
        self.meter.on_near = partial(_publish_near, self.live, asyncio.get_running_loop())
        await run_in_thread(partial(self.meter.tend, is_alone=is_alone))
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
        await self.sessions.forget_all()
        await run_in_thread(self.loops.close)

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
        place: MessagePlace | None = None,
    ) -> QueuedMessage:
        """Take a message for a session that exists; it is durable when this returns.

        The same `message_key` again is the same message. Raises `TooManyWaiting`, and `BudgetSpent`
        where a client waits for the answer. `extra` is kept
        with the user's words in the log; `about` is for the channel. Without a `place`, the message
        follows what was said last.
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
        body |= {PLACE: msgspec.to_builtins(place)} if place else {}
        body = sign_body(body)
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
        queues, owner = self.store.queues, owner_of(message.owner)
        if who_pays().is_waiting and queues.find(INBOX, owner, message.key) is None:
            key = session_key_of(message.lane)
            self.meter.check(Spender(owner, key.agent, message.lane))

        def judge(before: WaitingMessages) -> None:
            if before.in_lane >= self.options.waiting_max:
                raise TooManyWaiting(f"session `{message.lane}`", before.in_lane, _RETRY_SECONDS)
            most = self.options.owner_waiting_max
            if isinstance(owner, NamedOwner) and before.of_owner >= most:
                raise TooManyWaiting("the inbox of this owner", before.of_owner, _RETRY_SECONDS)

        return queues.put(message, judge)

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
                await run_in_thread(self.meter.tend)
                if now - forgot >= _FORGET_SECONDS:
                    forgot = now
                    await run_in_thread(forget)


async def resume_session(
    gateway: Gateway, key: SessionKey, name: str, *, owner: Owner
) -> QueuedMessage:
    """Let a session go on where it stopped, behind what waits in it; durable when this returns.

    The channel of its newest message gets the answer. The same `name` again is the same message."""
    stored = await run_in_thread(put_resume, gateway.store, key, name, owner)
    gateway.wake()
    gateway.publish(stored)
    return stored
