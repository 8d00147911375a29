"""A Telegram bot as a channel of a gateway.

Telegram is told that an update arrived after it is stored. Answers are stored in the outbox before
a message counts as answered.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.owners import ANY_OWNER
from holdfast.core.queues import INBOX
from holdfast.core.secrets.found import secrets_of
from holdfast.core.secrets.redaction import Redactor
from holdfast.core.secrets.vault import Vault
from holdfast.engine.gateway.gateway import ServiceStatus
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import BadSetting, HoldfastError
from holdfast.ports import FINISHED, NewMessage
from holdfast.surfaces.telegram.api import BotApi, TelegramError
from holdfast.surfaces.telegram.commands import OFFERED, ChatCommands
from holdfast.surfaces.telegram.decisions import PressedDecisions
from holdfast.surfaces.telegram.intake import UpdateIntake
from holdfast.surfaces.telegram.outbox import TelegramOutbox
from holdfast.surfaces.telegram.replies import CHANNEL
from holdfast.surfaces.telegram.updates import read_update, update_number

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from holdfast.engine.gateway.gateway import Gateway, ServiceState
    from holdfast.engine.session.options import SessionOptions
    from holdfast.ports import AsyncModel, QueuedMessage, SessionStore
    from holdfast.surfaces.telegram.settings import TelegramSettings
    from holdfast.surfaces.telegram.updates import BotIdentity

_TYPING_SECONDS: Final = 4.0
"""Telegram shows for five seconds that a bot is typing."""
_TYPING_MAX: Final = 100
"""Messages that are answered, whose chats see it; the others see the answer."""
_RETRY_SECONDS: Final = (0.5, 2.0, 5.0, 15.0, 30.0)
"""Between two polls that failed."""
_CONFLICT, _BAD_TOKEN = 409, (401, 404)

log = logging.getLogger(__name__)


class TelegramChannel:
    """Runs a bot: `run` until it is cancelled, then `close`. Its gateway is started and stopped by
    the caller."""

    def __init__(
        self,
        gateway: Gateway,
        settings: TelegramSettings,
        *,
        agent: str,
        model: AsyncModel,
        options: SessionOptions,
        on_ready: Callable[[BotIdentity], None] = lambda _bot: None,
    ) -> None:
        """`agent`, `model` and `options` are those that the gateway opens sessions with."""
        self._gateway = gateway
        self._settings = settings
        self._on_ready = on_ready
        self._api = BotApi(settings)
        self.status = ServiceStatus(CHANNEL, "starting", since=gateway.now())
        claim_seconds = gateway.options.claim_seconds
        self._right = PollingRight(gateway.store, settings.bot, gateway.holder, claim_seconds)
        masks = Redactor(Vault(secrets_of(options.secrets).values).redactor_secrets)
        self.outbox = TelegramOutbox(gateway.store, self._api, settings.bot, gateway.holder, masks)
        commands = ChatCommands(gateway, agent, model, options)
        decisions = PressedDecisions(gateway, settings, masks)
        self._intake = UpdateIntake(gateway, settings, agent, commands, decisions, self.outbox)
        gateway.channels[CHANNEL] = self.outbox

    async def run(self) -> None:
        """Run the bot until it is cancelled. Raises `TelegramError` where it cannot go on: the
        token is wrong, or another program receives its messages.

        While another process over the same store receives them, this one waits to take over. Until
        then it touches nothing that the other has claimed.
        """
        self._set_state("starting")
        bot = await self._introduce()
        if self._gateway.store.local_folder is not None:  # held by this process alone
            await self._right.take_over()
        while True:
            await self._right.acquire(self._stand_by)
            try:
                await self._receive(bot)
            except TelegramError:
                await self._right.release()
                raise
            log.warning("another process receives the messages of @%s now", bot.username)

    async def close(self, seconds: float) -> None:
        """Send what is stored, for at most so long, and close the connection."""
        async with self._api:
            with suppress(HoldfastError):
                if seconds and await self._right.is_held():  # else another process sends it
                    await self.outbox.send_rest(seconds)
            await self._right.release()

    async def _receive(self, bot: BotIdentity) -> None:
        """Receive messages and send answers, until another process has taken over."""
        for queue in (self._intake.queue, self.outbox.queue):
            await run_in_thread(self._gateway.store.queues.release_all, queue)
        loops: tuple[Awaitable[None], ...] = (
            *(self._poll(bot), self._intake.run(), self.outbox.run(), self._type()),
            self._right.keep(),
        )
        tasks = [asyncio.ensure_future(loop) for loop in loops]
        self._set_state("running", f"@{bot.username} is listening")
        self._on_ready(bot)
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _stand_by(self, holder: str) -> None:
        text = f"the process {holder} receives this bot's messages; this one waits to take over"
        log.warning("%s", text)
        self._set_state("standby", text)

    def _set_state(self, state: ServiceState, detail: str = "") -> None:
        self.status = ServiceStatus(CHANNEL, state, detail, self._gateway.now())

    async def _introduce(self) -> BotIdentity:
        """Ask who the bot is, and tell Telegram its commands, until the server can be reached."""
        commands = [(command.name, command.help) for command in OFFERED]
        for failures in count():
            try:
                bot = await self._api.me()
                self._check_identity(bot)
                await self._api.set_commands(commands)
            except TelegramError as error:
                if error.status in _BAD_TOKEN:
                    raise
                log.warning("%s", error)
                self._set_state("failed", str(error))
                await asyncio.sleep(_delay(error, failures))
            else:
                return bot
        raise AssertionError("the loop does not end")

    def _check_identity(self, bot: BotIdentity) -> None:
        """Raise where the server knows the token as that of another bot. Queues and sessions go by
        the id in the token: nothing that came would ever be answered."""
        if bot.id != self._settings.bot:
            raise BadSetting(
                f"the token is that of bot {self._settings.bot}, and "
                f"{self._settings.api_base} says that it is bot {bot.id} (@{bot.username})",
                hint="set TELEGRAM_BOT_TOKEN to the whole token that @BotFather gives, or correct "
                "`api_base`",
            )

    async def _poll(self, bot: BotIdentity) -> None:
        """Store every update, and ask for those after it: that is how Telegram learns of it."""
        offset: int | None = None
        failures, conflict_since = 0, None
        clock = asyncio.get_running_loop().time
        while True:
            try:
                updates = await self._api.updates(offset, self._settings.poll_seconds)
            except TelegramError as error:
                if error.status == _CONFLICT:
                    conflict_since = conflict_since or clock()
                is_over = clock() - (conflict_since or clock()) >= self._settings.conflict_seconds
                if error.status in _BAD_TOKEN or is_over:
                    raise
                text = f"{error} ({error.hint or 'it is tried again'})"
                log.warning("%s", text)
                self._set_state("failed", text)
                await asyncio.sleep(_delay(error, failures))
                failures += 1
                continue
            if failures:
                self._set_state("running", f"@{bot.username} is listening")
            failures, conflict_since = 0, None
            await self._store(updates, bot)
            numbers = [number for number in map(update_number, updates) if number is not None]
            # All before are confirmed by an answer without any, and new numbers may be smaller.
            offset = max(numbers) + 1 if numbers else None
            if updates and not numbers:
                await asyncio.sleep(_RETRY_SECONDS[-1])  # no server of the Bot API

    async def _store(self, updates: list[Any], bot: BotIdentity) -> None:
        """Store updates. A store that fails is asked again: nothing is confirmed before."""
        read = [read_update(update, bot, self._settings) for update in updates]
        wanted = [update for update in read if update is not None]
        for failures in count():
            try:
                return await self._intake.store(wanted)
            except HoldfastError as error:
                log.warning("an update cannot be stored: %s", error)
                await asyncio.sleep(_RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)])
        raise AssertionError("the loop does not end")

    async def _type(self) -> None:
        """Show in every chat whose message is being answered that the bot is typing."""
        queues, has_message = self._gateway.store.queues, self._intake.has_message
        while True:
            if self._gateway.running:
                running = await run_in_thread(
                    lambda: queues.messages(
                        INBOX, states=("running",), limit=_TYPING_MAX, owner=ANY_OWNER
                    )
                )
                abouts = [message.body.get("about") or {} for message in running]
                chats = {
                    (about["chat"], about.get("thread"))
                    for about in abouts
                    if about.get("bot") == self._settings.bot
                }
                for chat, thread in chats:
                    with suppress(TelegramError):  # no one needs it
                        await self._api.show_typing(chat, thread)
            has_message.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(_TYPING_SECONDS):
                    await has_message.wait()
                    await asyncio.sleep(0.2)  # until the turn runs


def _delay(error: TelegramError, failures: int) -> float:
    return error.retry_after or _RETRY_SECONDS[min(failures, len(_RETRY_SECONDS) - 1)]


_RENEWALS: Final = 6
"""Renewals in the time of one claim."""
_LOOK_SECONDS_MAX: Final = 5.0
"""Between two looks of a process that waits to take over."""
_LANE: Final = "poll"


class PollingRight:
    """The right of one process to receive the messages of a bot."""

    def __init__(self, store: SessionStore, bot: int, holder: str, seconds: float) -> None:
        """`seconds` is how long it outlives the process."""
        self.queue = f"poller:telegram:{bot}"
        self._store = store
        self._holder = holder
        self._seconds = seconds
        self._held: QueuedMessage | None = None

    async def acquire(self, on_wait: Callable[[str], None]) -> None:
        """Wait until it is free, and take it. `on_wait` gets the name of another holder, once."""
        told = ""
        while True:
            try:
                self._held, other = await run_in_thread(self._claim)
            except HoldfastError as error:
                log.warning("cannot ask who receives the bot's messages: %s", error)
                other = ""
            if self._held is not None:
                return
            if other and other != told:
                on_wait(other)
                told = other
            await asyncio.sleep(min(self._seconds / _RENEWALS, _LOOK_SECONDS_MAX))

    async def keep(self) -> None:
        """Keep it, and return when it is lost."""
        clock = asyncio.get_running_loop().time
        renewed = clock()
        while self._held is not None:
            await asyncio.sleep(self._seconds / _RENEWALS)
            began = clock()
            try:
                if not await self.is_held():
                    return
                renewed = began
            except HoldfastError as error:
                log.warning("cannot keep the right to receive the bot's messages: %s", error)
                if clock() - renewed >= self._seconds:
                    self._held = None

    async def is_held(self) -> bool:
        """Renew it; False where this process does not have it, or has lost it."""
        held = self._held
        if held is None:
            return False
        if not await run_in_thread(self._store.queues.renew, held, self._seconds):
            self._held = None
        return self._held is not None

    async def release(self) -> None:
        """Let another process have it."""
        held, self._held = self._held, None
        if held is None:
            return
        try:
            queues = self._store.queues
            await run_in_thread(lambda: queues.postpone(held, 0.0, is_counted=False))
        except HoldfastError as error:
            log.warning("another process has to wait for this bot: %s", error)

    async def take_over(self) -> None:
        """Free it from a process that ended: for the only one that uses the store."""
        await run_in_thread(self._store.queues.release_all, self.queue)

    def _claim(self) -> tuple[QueuedMessage | None, str]:
        """Try to take it; returns it, or the name of its holder."""
        queues = self._store.queues
        found = queues.put(NewMessage(queue=self.queue, lane=_LANE, key=_LANE, body={}))
        if found.state in FINISHED:
            queues.retry(found.id)  # set aside by a person
        claimed = queues.claim(self.queue, self._holder, self._seconds)
        return (claimed[0], "") if claimed else (None, found.holder)
