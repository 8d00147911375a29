"""Slash commands of a Telegram chat, over the sessions that a gateway holds open.

A command runs at most once. Where the process ended while it ran, its sender is told so, and sends
it again if it did not work.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from holdfast.core.owners import ANY_OWNER
from holdfast.core.queues import INBOX
from holdfast.core.text.cut import count_of
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.surfaces.answers import StyledTable
from holdfast.surfaces.async_chat import AsyncChatContext, run_command_async
from holdfast.surfaces.slash_commands import commands_for, find

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import Json
    from holdfast.core.owners import Owner
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.session.options import SessionOptions
    from holdfast.ports import AsyncModel
    from holdfast.surfaces.answers import CommandAnswer
    from holdfast.surfaces.slash_commands.command import SlashCommand

OFFERED: Final = commands_for("messenger", "guest")
"""The commands of a bot."""
_WITH_BUTTONS: Final = ("start", "menu")
_ROW_BUTTONS: Final = 3
"""Buttons in a row: a phone shows the longest name in a third of its width."""
_CANCEL_SECONDS: Final = 30.0
"""For the store to note that a message is dropped."""


def find_command(text: str) -> SlashCommand | None:
    """Return the command that a text begins with, where a bot has it."""
    return find(text.split(maxsplit=1)[0], OFFERED)


def buttons_of(text: str) -> list[list[Json]]:
    """Return the rows of buttons below the answer to a command: those of the menu, or none.

    A button is a command that a press sends as if it were typed.
    """
    command = find_command(text)
    if command is None or command.name not in _WITH_BUTTONS:
        return []
    offered = [each for each in OFFERED if each.name not in _WITH_BUTTONS]
    buttons = [{"text": f"/{each.name}", "callback_data": f"/{each.name}"} for each in offered]
    return [buttons[at : at + _ROW_BUTTONS] for at in range(0, len(buttons), _ROW_BUTTONS)]


def answer_interrupted(text: str) -> str:
    """Return the answer to a command that was running when the process ended."""
    word = text.split(maxsplit=1)[0]
    return f"{word} was interrupted by a restart. Send it again if it did not work: /status shows."


class ChatCommands:
    """Runs the commands of people on the sessions of a gateway."""

    def __init__(
        self, gateway: Gateway, agent: str, model: AsyncModel, options: SessionOptions
    ) -> None:
        self._gateway = gateway
        self._agent = agent
        self._model = model
        self._options = options

    async def run(self, text: str, key: SessionKey, owner: Owner) -> str:
        """Run a command in a session, and return the words of its answer."""
        gateway, loop = self._gateway, asyncio.get_running_loop()

        def cancel() -> bool:
            """Cancel the turn, from the thread of the command."""
            cancelling = asyncio.run_coroutine_threadsafe(gateway.cancel(key), loop)
            return cancelling.result(_CANCEL_SECONDS) is not None

        chat = AsyncChatContext(
            gateway.store,
            self._agent,
            self._model,
            self._options,
            owner=owner,
            audience="guest",
            surface="messenger",
            cancel=cancel,
            moves_name=True,
        )
        command = find_command(text)
        dropped = 0
        if command is not None and command.name == "reset":
            dropped = await run_in_thread(self._drop_waiting, key)
            dropped += await gateway.cancel(key) is not None
        async with gateway.sessions.use(key) as session:
            before = session.key
            await chat.take(session)
            answer = await run_command_async(text, chat)
            has_moved = chat.session.key != before
        if has_moved:
            await gateway.sessions.forget(key)  # the next message opens the new session
        words = answer_text(answer)
        if dropped:
            words += f"\n{count_of(dropped, 'message')} without an answer: dropped."
        return words if answer.then != "resume" else await self._resume(key)

    def _drop_waiting(self, key: SessionKey) -> int:
        """Drop the messages that wait in a session: they were meant for what is left behind."""
        queues = self._gateway.store.queues
        count = 0
        while waiting := queues.messages(
            INBOX, lane=str(key), states=("waiting",), owner=ANY_OWNER
        ):
            count += sum(queues.drop(message.id, "dropped by /reset") for message in waiting)
        return count

    async def _resume(self, key: SessionKey) -> str:
        """Try the newest message again, where it was not answered."""
        queues = self._gateway.store.queues
        newest = await run_in_thread(
            lambda: queues.messages(INBOX, lane=str(key), limit=1, owner=ANY_OWNER)
        )
        message = newest[0] if newest else None
        if message is None or message.state in ("answered", "delivered"):
            return "Nothing to continue: the last message was answered."
        if message.state in ("waiting", "running"):
            return "The last message is being answered."
        if not await run_in_thread(queues.retry, message.id):
            return "Nothing to continue: the last message has just been dealt with."
        self._gateway.wake()
        return "Going on with the last message."


def answer_text(answer: CommandAnswer) -> str:
    """Return an answer as text, with its tables as code blocks: their columns stay aligned."""
    return "\n".join(
        f"```\n{part.text}\n```" if isinstance(part, StyledTable) else part.text
        for part in answer.parts
    )
