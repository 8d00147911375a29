"""`serve`: the HTTP gateway."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import os
import sys
import tempfile
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.routing import Route

from holdfast.config import provider_key, service_manager
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import BadSetting, HoldfastError
from holdfast.stores.opening import open_store
from holdfast.surfaces.cli.command import Command, option
from holdfast.surfaces.cli.serve.log import LogOption, check_packages, start_log

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from starlette.types import Receive, Scope, Send

    from holdfast.core.history.access import Caller
    from holdfast.core.owners import Owner
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.spending.meter import CallMeter
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.ports import SessionStore
    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.cli.serve.services import RetentionService
    from holdfast.surfaces.cli.serve.systemd import ServiceManager
    from holdfast.surfaces.gateway_agents import GatewayAgents
    from holdfast.surfaces.http.admission import TokenRegister
    from holdfast.surfaces.http.server import HttpServer
    from holdfast.surfaces.proxy.served import ServedUpstreams
    from holdfast.surfaces.serve_settings import ServeSettings
    from holdfast.surfaces.telegram.settings import TelegramSettings

_HEAD_BYTES_MAX: Final = 128 * 1024
"""Of the address and the headers: the longest parameters, each character in twelve bytes."""
_SWITCH_SECONDS: Final = 0.001
"""After which a thread that computes makes way: the event loop waits for each of them in turn."""


class ServeCommand(Command, frozen=True, kw_only=True):
    """Runs the gateway."""

    example = """examples:
  holdfast serve --port 8484
  holdfast serve --config holdfast.toml --json"""
    port: Annotated[int | None, option("the port (8484); 0 for a free one", "N")] = None
    host: Annotated[
        str | None, option("the address (127.0.0.1); others need tokens", "ADDRESS")
    ] = None
    config: Annotated[str | None, option("a TOML file with the settings", "FILE")] = None
    model: Annotated[str | None, option("the model that answers (HOLDFAST_MODEL)", "NAME")] = None
    log: LogOption = "text"
    demo: Annotated[bool, option("serve ten sessions from a temporary folder")] = False

    def run(self, app: App) -> None:
        from holdfast.engine.access_tokens import StoredTokens

        check_packages("`holdfast serve`", "serve", ("starlette", "uvicorn", "markdown_it"))
        settings = self._read_settings()
        if settings.telegram is not None and not self.demo:
            check_packages("the table `telegram`", "telegram", ("httpx2",))
        settings.check(are_tokens_needed=StoredTokens(app.store).are_needed())
        start_log(self.log, app)
        with ExitStack() as stack:
            store = app.store
            if self.demo:
                store = _demo_store(stack, app)
            _listen(self._read_settings, store, self.model or app.settings.model, app)

    def _read_settings(self) -> ServeSettings:
        """Read the settings, again too: those of the command line come before the file."""
        from holdfast.surfaces.serve_settings import load_settings

        settings = load_settings(self.config)
        given = {"host": self.host, "port": self.port}
        given = {name: value for name, value in given.items() if value is not None}
        settings = replace(settings, server=replace(settings.server, **given))
        return _demo_settings(settings) if self.demo else settings


def _demo_store(stack: ExitStack, app: App) -> SessionStore:
    from holdfast.surfaces.cli.demo.home import make_home

    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-demo-"))
    root = os.path.join(folder, "sessions")
    with app.out.busy("making ten sessions"):
        make_home(root)
    return stack.enter_context(open_store(root))


def _demo_settings(settings: ServeSettings) -> ServeSettings:
    """Add the agents of the demo. There is no bot: what people wrote to it would be lost with the
    temporary folder."""
    from holdfast.surfaces.cli.demo.home import demo_agents
    from holdfast.surfaces.serve_settings import AgentSettings

    agents = {name: AgentSettings(**given) for name, given in demo_agents().items()}
    return replace(settings, agents=agents | settings.agents, telegram=None)


def _listen(read: Callable[[], ServeSettings], store: SessionStore, model: str, app: App) -> None:
    import uvicorn

    from holdfast.engine.gateway.gateway import only_gateway
    from holdfast.surfaces.cli.serve.reloading import SettingsService
    from holdfast.surfaces.cli.serve.systemd import ServiceManager, WatchdogService
    from holdfast.surfaces.listening import AnnouncingServer, make_protocol, unix_socket
    from holdfast.surfaces.serve_settings import load_certificate

    settings, found = read(), service_manager()
    server = build_server(
        settings,
        store,
        model,
        app.settings.secrets,
        telegram_token=app.settings.telegram_token,
        on_bot=lambda name: app.out.note(f"telegram: @{name} is listening"),
        read=read,
        manager=ServiceManager(found.socket) if found is not None else None,
    )
    services = server.gateway.services
    watchdog = WatchdogService(server, found) if found is not None else None
    if watchdog is not None:
        services.append(watchdog)

    config = uvicorn.Config(
        server.app(),
        host=settings.server.host,
        port=settings.server.port,
        log_level="warning",
        access_log=False,
        limit_concurrency=settings.server.connections_max,
        timeout_graceful_shutdown=max(1, round(settings.gateway.drain_seconds) + 5),
        server_header=False,
        http=make_protocol(settings.server.head_seconds),
        h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
        ws="none",
        lifespan="on",
        ssl_certfile=settings.server.certificate or None,
        ssl_keyfile=settings.server.certificate_key or None,
    )
    config.load()
    if config.ssl is not None:
        use = partial(load_certificate, context=config.ssl)
        for service in services:
            if isinstance(service, SettingsService):
                service.on_certificate = use

    def announce(url: str) -> None:
        if watchdog is not None:
            watchdog.is_listening = True
        _announce(url, store, app)

    with ExitStack() as stack:
        stack.enter_context(only_gateway(store.local_folder))
        sockets = None
        if settings.server.socket:
            path, mode = settings.server.socket, settings.server.socket_mode
            sockets = [stack.enter_context(unix_socket(path, mode))]
        uvicorn_server = AnnouncingServer(
            config,
            announce,
            server.gateway.live.close,  # streams have no end of their own
        )
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.freeze()  # what is loaded stays: a collection need not look at it
        try:
            uvicorn_server.run(sockets)
        except SystemExit as error:
            raise BadSetting(
                f"cannot listen on {settings.server.host}:{settings.server.port}",
                hint="another program may use the port: choose another with --port",
            ) from error
        if not uvicorn_server.started:
            raise HoldfastError("the gateway did not start", hint="its log says why")


def _loading(agents: GatewayAgents) -> list[Callable[[], None]]:
    """Return what loads all that the first turn would wait for, and every other one with it: the
    rules for secrets take seconds, and a vocabulary keeps the interpreter to itself for a quarter
    of a second. A turn of the offline model, in memory, brings the rest."""
    from holdfast.engine.redactor import load_library
    from holdfast.engine.session.session import Session
    from holdfast.providers.tokenizers import counter_for

    def rehearse() -> None:
        with (
            open_store("memory:") as store,
            Session.open("rehearsal", store=store, model="offline") as session,
        ):
            session.say("Is everything loaded?")

    def load_vocabularies() -> None:
        for model in agents.models:
            counter_for(model.target.model).count("a text")

    return [load_library, load_vocabularies, rehearse]


def _announce(url: str, store: SessionStore, app: App) -> None:
    if app.out.is_json:
        app.out.json({"listening": url, "store": store.describe(), "pid": os.getpid()})
        sys.stdout.flush()
    app.out.note(f"listening on {url} (stop with Ctrl-C)")
    app.out.note(f"sessions: {store.describe()}")
    if not url.startswith("unix:"):
        app.out.note(f"console: {url}/   API: {url}/openapi.json   MCP: {url}/mcp")


def build_server(
    settings: ServeSettings,
    store: SessionStore,
    model: str,
    secrets: Any = None,
    *,
    telegram_token: str = "",
    on_bot: Callable[[str], None] = lambda _name: None,
    read: Callable[[], ServeSettings] | None = None,
    manager: ServiceManager | None = None,
) -> HttpServer:
    """Put the gateway, the routes, the console, MCP and the bot together. With `read`, the settings
    can be read again while it runs, of which the `manager` is told."""
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.memory.vectors import VectorWorker, mask_embedder
    from holdfast.engine.redactor import redactor
    from holdfast.engine.spending.meter import CallMeter
    from holdfast.engine.timers import TimerService
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.surfaces.cli.serve.services import VectorService
    from holdfast.surfaces.console.console import console_pages
    from holdfast.surfaces.gateway_agents import GatewayAgents
    from holdfast.surfaces.http.chat_endpoints import ChatEndpoints, endpoint_paths
    from holdfast.surfaces.http.server import HttpServer
    from holdfast.surfaces.telegram.replies import CHANNEL, TelegramReplies
    from holdfast.surfaces.telegram.settings import TOKEN_VARIABLE

    bot = settings.telegram.settings(telegram_token) if settings.telegram is not None else None
    if bot is not None:
        secrets = {**(secrets or {}), TOKEN_VARIABLE: bot.token}
    for name, table in settings.upstreams.items():
        if table.key:
            secrets = {**(secrets or {}), table.key: _read_key(name, table.key)}
    meter = CallMeter(store.spending, settings.budgets)
    agents = GatewayAgents(store, settings.agents, model=model, meter=meter, secrets=secrets)
    masks = redactor(secrets or {})

    model_of_memory = mask_embedder(settings.memory.embedder, masks)
    worker = VectorWorker(store.search_index, model_of_memory) if model_of_memory else None

    def workspace_of(caller: Caller) -> CallerWorkspace:
        return CallerWorkspace(
            store,
            caller,
            redactor=masks,
            embedder=model_of_memory,
            worker=worker,
            terms_of=agents.turn_terms,
        )

    server = HttpServer(
        # A bot that another process runs over this store has its messages answered here, too.
        Gateway(
            store,
            agents.open,
            settings.gateway,
            channels={CHANNEL: TelegramReplies(store, masks)},
            meter=meter,
        ),
        workspace_of,
        tokens=settings.tokens,
        guard=settings.server.guard(),
        loading=_loading(agents),
    )
    if settings.telegram is not None and bot is not None:
        _add_bot(server.gateway, agents, settings.telegram.agent, bot, on_bot)
    server.gateway.services.append(TimerService(server.gateway))
    retention: RetentionService | None = None
    if settings.retention is not None:
        from holdfast.surfaces.cli.serve.services import RetentionService

        retention = RetentionService(server.gateway, settings.retention)
        server.gateway.services.append(retention)
    if read is not None:
        from holdfast.surfaces.cli.serve.reloading import SettingsService

        server.gateway.services.append(
            SettingsService(
                server, agents, settings, read=read, retention=retention, manager=manager
            )
        )
    if worker is not None:
        server.gateway.services.append(VectorService(worker))
    server.metrics.by_owner = settings.server.metrics_by_owner
    server.add_pages(console_pages(server))
    server.closing.append(agents.close)
    upstreams = _upstreams(settings, store, server.tokens, meter)
    if upstreams is not None:
        server.connections.append(upstreams.connect)
    names = settings.upstreams
    server.add_endpoint(endpoint_paths(names), ChatEndpoints(server, agents, masks.text, upstreams))
    mcp = _mcp_app(workspace_of, settings)
    if mcp is not None:
        server.mount(mcp)
    return server


def _upstreams(
    settings: ServeSettings, store: SessionStore, tokens: TokenRegister, meter: CallMeter
) -> ServedUpstreams | None:
    """Return the upstreams of the settings; None where there are none. Raises `BadSetting`."""
    if not settings.upstreams:
        return None
    check_packages("the table `upstreams`", "proxy", ("httpx2",))
    from holdfast.engine.proxy.exchange import ProxyKeeper
    from holdfast.surfaces.proxy.served import ServedUpstreams
    from holdfast.surfaces.proxy.upstream import read_upstreams

    tables, proxy = settings.upstreams, settings.proxy
    stated = [f"{name}={table.url}" for name, table in tables.items() if table.url]
    every = read_upstreams(stated)
    for name in tables:
        if name not in every:
            raise BadSetting(
                f"the upstream `{name}` has no address",
                hint=f"give it one: [upstreams.{name}] with url",
            )

    def make_keeper(owner: Owner) -> ProxyKeeper:
        return ProxyKeeper(
            store,
            agent=proxy.agent,
            owner=owner,
            mode=proxy.mode,
            has_tools=proxy.own_tools,
            is_shared=tokens.is_closed,
            meter=meter,
        )

    return ServedUpstreams(
        {name: every[name] for name in tables},
        {name: _read_key(name, table.key) for name, table in tables.items() if table.key},
        make_keeper,
        silent_seconds=proxy.silent_seconds,
    )


def _read_key(name: str, variable: str) -> str:
    key = provider_key(variable)
    if not key:
        raise BadSetting(
            f"the variable {variable} is not set, which has the key of the upstream `{name}`",
            hint="set it, or take the upstream out of the settings",
        )
    return key


def _add_bot(
    gateway: Gateway,
    agents: GatewayAgents,
    agent: str,
    settings: TelegramSettings,
    on_bot: Callable[[str], None],
) -> None:
    """Let the gateway run a Telegram bot."""
    from holdfast.surfaces.telegram.channel import TelegramChannel
    from holdfast.surfaces.telegram.service import TelegramService

    channel = TelegramChannel(
        gateway,
        settings,
        agent=agent,
        model=agents.model(agent),
        options=agents.options(agent),
        on_ready=lambda bot: on_bot(bot.username),
    )
    gateway.services.append(TelegramService(channel))


def _mcp_app(workspace_of: Any, settings: ServeSettings) -> Any:
    """MCP over HTTP, where its package is installed; it is imported when a client asks for it."""
    if importlib.util.find_spec("mcp_types") is None:
        return None
    from holdfast.errors import AccessDenied
    from holdfast.surfaces.http.admission import client_in

    names = ("127.0.0.1", "localhost", "[::1]", *settings.server.hosts)
    bare = [*names, *(f"{host}:*" for host in names)]
    origins = [f"http://{host}" for host in bare] + [f"https://{host}" for host in bare]

    def make() -> Any:
        from holdfast.surfaces.mcp.server import McpClient, build_server
        from holdfast.surfaces.mcp.transports import http_app

        def client_of(request: Any) -> McpClient:
            client = client_in(request.scope)
            if client is None:  # the server lets no such request in
                raise AccessDenied(
                    "a valid token is needed", hint="send `Authorization: Bearer TOKEN`"
                )
            may_write = client.may("write")
            return McpClient(client.caller, is_read_only=not may_write, person=client.name)

        return http_app(
            build_server(client_of, workspace_of),
            hosts=bare,
            origins=[*origins, *settings.server.origins],
        )

    return late_app("/mcp", make)


def late_app(path: str, make: Callable[[], Starlette]) -> Starlette:
    """Return an application for an address; the first request there makes the one that answers."""
    late = _LateApp(make)
    return Starlette(routes=[Route(path, endpoint=late)], lifespan=late.lifespan)


class _LateApp:
    def __init__(self, make: Callable[[], Starlette]) -> None:
        self._make = make
        self._stop = asyncio.Event()
        self._starting: asyncio.Task[Starlette] | None = None
        self._running: asyncio.Task[None] | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._starting is None:
            self._starting = asyncio.create_task(self._start())
        starting = self._starting
        try:
            app = await asyncio.shield(starting)  # others may wait for it, too
        except Exception:
            if self._starting is starting:
                self._starting = None  # the next request tries again
            raise
        await app.router(scope, receive, send)

    @asynccontextmanager
    async def lifespan(self, _app: Starlette) -> AsyncIterator[None]:
        """End the application at the end, if it was made."""
        try:
            yield
        finally:
            self._stop.set()
            if self._starting is not None:
                await asyncio.wait([self._starting])
            if self._running is not None:
                await self._running

    async def _start(self) -> Starlette:
        app = await run_in_thread(self._make)
        started = asyncio.Event()
        running = asyncio.create_task(self._run(app, started))
        entered = asyncio.create_task(started.wait())
        await asyncio.wait([running, entered], return_when=asyncio.FIRST_COMPLETED)
        entered.cancel()
        if running.done():
            running.result()
        self._running = running
        return app

    async def _run(self, app: Starlette, started: asyncio.Event) -> None:
        """Hold the lifespan: the task that enters it has to leave it, and a request ends before."""
        async with app.router.lifespan_context(app):
            started.set()
            await self._stop.wait()
