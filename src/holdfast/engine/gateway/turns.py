"""One message of the inbox: its turn, and what is stored about how it ended."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.flow.effects import Cancelled
from holdfast.core.flow.events import SessionReset
from holdfast.core.log.ids import SessionKey
from holdfast.core.queues.resets import ResetReason, reset_reason
from holdfast.core.queues.retries import next_try, reason_of, reason_to_set_aside
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError, NoSuchSession

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from holdfast.core.models.replies import Reply
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.session.async_session import AsyncSession
    from holdfast.ports import MessageState, QueuedMessage

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
        limit = asyncio.timeout(self._options.turn_seconds)
        try:
            if reason := reason_to_set_aside(message):
                await self._fail(message, reason)
                return
            async with self._keep_claim(message):
                async with limit:
                    reply = await self._answer(message, key)
                channel = self._gateway.channels.get(str(message.body.get("channel", "")))
                if channel is not None:
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
        except Exception as error:  # a tool, a channel or a bug: the lane must go on
            await self._try_again(message, error)

    async def _answer(self, message: QueuedMessage, key: SessionKey) -> Reply:
        gateway = self._gateway
        async with gateway.sessions.use(key) as session:
            reason = await self._reset_reason(session, message)
        if reason:
            await self._reset(key, message, reason)
        async with gateway.sessions.use(key) as session:
            removers = [
                session.on(lambda event: gateway.live.publish(key, event)),
                session.on(gateway.audit.take),
            ]
            try:
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
        self, message: QueuedMessage, state: MessageState, *, reason: str = "", record: str = ""
    ) -> None:
        assert state in ("answered", "failed", "dropped")
        result = {"record": record} if record else None
        queues = self._gateway.store.queues
        if await run_in_thread(queues.finish, message, state, reason=reason, result=result):
            self._gateway.publish(msgspec.structs.replace(message, state=state, reason=reason))
        else:
            await self._publish_state(message)

    async def _fail(self, message: QueuedMessage, reason: str) -> None:
        log.warning("message %d of %s failed: %s", message.id, message.session, reason)
        channel = self._gateway.channels.get(str(message.body.get("channel", "")))
        if channel is not None:
            await channel.on_failure(message, reason)
        await self._finish(message, "failed", reason=reason)

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


def session_key(message: QueuedMessage) -> SessionKey:
    """Return the session that a message is for."""
    agent, _, session = message.session.partition("/")
    return SessionKey(agent, session)
