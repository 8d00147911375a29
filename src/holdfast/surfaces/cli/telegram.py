"""`telegram`: runs a Telegram bot whose chats are sessions of the store."""

from __future__ import annotations

import asyncio
import signal
from typing import TYPE_CHECKING, Annotated, Any

from holdfast.core.owners import ANY_OWNER
from holdfast.errors import UsageError
from holdfast.surfaces.cli.command import Command, WindowOption, option
from holdfast.surfaces.cli.serve.log import check_packages
from holdfast.surfaces.telegram.settings import (
    API_BASE,
    TOKEN_VARIABLE,
    DmScope,
    TelegramSettings,
    read_approvers,
    read_ids,
)

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.engine.session.async_session import AsyncSession
    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.telegram.updates import BotIdentity


class TelegramCommand(Command, frozen=True, kw_only=True):
    """Runs a bot."""

    example = f"""examples:
  export {TOKEN_VARIABLE}=…                        from @BotFather
  holdfast telegram --allow 123456789 --model anthropic:claude-sonnet-4-6
  holdfast telegram                       tells everyone who writes their id, and answers no one"""
    allow: Annotated[
        str,
        option("the people and groups whose messages are answered (default: none)", "ID[,ID]"),
    ] = ""
    approvers: Annotated[
        str,
        option(
            "the people who get buttons for calls that wait for approval, by the names that the "
            "log has (default: none)",
            "ID=NAME[,ID=NAME]",
        ),
    ] = ""
    model: Annotated[
        str | None,
        option("the model (default: HOLDFAST_MODEL, or `offline`, which needs no key)", "NAME"),
    ] = None
    window: WindowOption = None
    system: Annotated[str, option("the system prompt", "TEXT")] = ""
    dm_scope: Annotated[
        DmScope,
        option(
            "the sessions of private chats: one for all (main), or one for each person "
            "(per-peer, or per-channel-peer: `tg_ID`, the default), or for each person and bot "
            "(per-account-channel-peer)",
            "SCOPE",
        ),
    ] = "per-channel-peer"
    api_base: Annotated[str, option(f"a server of the Bot API (default: {API_BASE})", "URL")] = (
        API_BASE
    )

    def run(self, app: App) -> None:
        allow, token = read_ids(self.allow), app.settings.telegram_token
        if not token:
            raise UsageError(
                "no bot: it needs its token",
                hint=f"set {TOKEN_VARIABLE} to the token that @BotFather gives; it is not taken as "
                "an argument, which other users of the machine could read",
            )
        if app.owner != ANY_OWNER:
            raise UsageError(
                "`holdfast telegram` takes no --owner: each person owns their sessions",
                hint="their owner is `telegram:ID`",
            )
        settings = TelegramSettings(
            token=token,
            allow=allow,
            approvers=read_approvers(self.approvers),
            dm_scope=self.dm_scope,
            api_base=self.api_base,
        )
        check_packages("`holdfast telegram`", "telegram", ("httpx2",))
        from holdfast.engine.gateway.gateway import only_gateway

        with only_gateway(app.store.local_folder):
            asyncio.run(self._serve(app, settings))

    async def _serve(self, app: App, settings: TelegramSettings) -> None:
        """Run the bot until a signal ends it; turns that run may end, and are answered."""
        from holdfast.engine.gateway.gateway import Gateway
        from holdfast.engine.session.async_session import AsyncSession
        from holdfast.engine.session.options import SessionOptions, check_window
        from holdfast.engine.timers import TimerService
        from holdfast.providers.models import async_model
        from holdfast.surfaces.telegram.channel import TelegramChannel
        from holdfast.surfaces.telegram.service import TelegramService

        store, agent = app.store, app.settings.agent
        model = async_model(self.model or app.settings.model)
        secrets = {**app.settings.secrets, TOKEN_VARIABLE: settings.token}
        options = SessionOptions(system=self.system, window=self.window, secrets=secrets)
        check_window(options, model)

        async def open_session(key: SessionKey) -> AsyncSession:
            return await asyncio.to_thread(AsyncSession, store, key, model, options)

        gateway = Gateway(store, open_session)
        channel = TelegramChannel(
            gateway,
            settings,
            agent=agent,
            model=model,
            options=options,
            on_ready=lambda bot: _announce(app, settings, bot),
        )
        service = TelegramService(channel, retry_seconds=None)
        gateway.services += [service, TimerService(gateway)]
        await gateway.start(is_alone=store.local_folder is not None)
        ended = asyncio.create_task(service.wait())
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, ended.cancel)
        try:
            await asyncio.wait([ended])
        finally:
            await gateway.stop()
        if not ended.cancelled():
            ended.result()


def _announce(app: App, settings: TelegramSettings, bot: BotIdentity) -> None:
    """Say on one line that the bot is ready."""
    if app.out.is_json:
        ready: dict[str, Any] = {"listening": f"@{bot.username}", "allow": sorted(settings.allow)}
        app.out.json(ready)
        return
    count = len(settings.allow)
    whom = f"{count:,} on the list" if count else "the list of people is empty: --allow ID"
    app.out.line(f"@{bot.username} is listening ({whom}); Ctrl-C stops it.")
