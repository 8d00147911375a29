"""`serve`: the HTTP gateway."""

from __future__ import annotations

import gc
import importlib.util
import logging
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import BadSetting, HoldfastError, UsageError
from holdfast.stores.opening import open_store
from holdfast.surfaces.cli.app import App, Verb

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from holdfast.core.history.access import Caller
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.ports import SessionStore
    from holdfast.surfaces.cli.terminal import Output
    from holdfast.surfaces.gateway_agents import GatewayAgents
    from holdfast.surfaces.http.server import HttpServer
    from holdfast.surfaces.serve_settings import ServeSettings
    from holdfast.surfaces.telegram.settings import TelegramSettings

_HEAD_BYTES_MAX: Final = 128 * 1024
"""Of the address and the headers: the longest parameters, each character in twelve bytes."""
_SWITCH_SECONDS: Final = 0.001
"""After which a thread that computes makes way: the event loop waits for each of them in turn."""
_EXAMPLE: Final = """examples:
  holdfast serve --port 8484
  holdfast serve --config holdfast.toml --json
  holdfast serve --new-token laptop --for alice --scope write"""


def _add_serve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--port", type=int, metavar="N", help="the port (8484); 0 for a free one")
    parser.add_argument(
        "--host", metavar="ADDRESS", help="the address (127.0.0.1); others need tokens"
    )
    parser.add_argument("--config", metavar="FILE", help="a TOML file with the settings")
    parser.add_argument("--model", metavar="NAME", help="the model that answers (HOLDFAST_MODEL)")
    parser.add_argument(
        "--log",
        choices=("text", "json", "off"),
        default="text",
        help="what is logged to stderr: warnings as text (default), every request as JSON, nothing",
    )
    parser.add_argument(
        "--demo", action="store_true", help="serve a recorded session from a temporary folder"
    )
    parser.add_argument("--new-token", metavar="NAME", help="make a token, print it once, and end")
    parser.add_argument(
        "--for", dest="token_owner", metavar="OWNER", default="", help="the token's owner; * is all"
    )
    parser.add_argument(
        "--scope", choices=("read", "write", "admin"), default="write", help="the token's scope"
    )


def check_packages(what: str, extra: str, names: Sequence[str]) -> None:
    """Raise `UsageError` with the extra where a package is missing. It is asked before anything is
    read, opened or recorded."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"{what} needs a package that is not installed: {', '.join(missing)}",
            hint=f"pip install 'holdfast[{extra}]'",
        )


def _serve(args: argparse.Namespace, app: App) -> int:
    from holdfast.surfaces.serve_settings import load_settings

    if args.new_token is not None:
        return _new_token(args, app)
    check_packages("`holdfast serve`", "serve", ("starlette", "uvicorn"))
    settings = load_settings(args.config)
    if settings.telegram is not None and not args.demo:
        check_packages("the table `telegram`", "telegram", ("httpx2",))
    given = {name: value for name in ("host", "port") if (value := getattr(args, name)) is not None}
    settings = msgspec.structs.replace(
        settings, server=msgspec.structs.replace(settings.server, **given)
    )
    settings.check()
    start_log(args.log, app)
    with ExitStack() as stack:
        store = app.store
        if args.demo:
            store = _demo_store(stack, app)
            # What people wrote to a bot would be lost with the temporary folder.
            settings = msgspec.structs.replace(settings, telegram=None)
        _listen(settings, store, args.model or app.settings.model, app)
    return 0


def _new_token(args: argparse.Namespace, app: App) -> int:
    from holdfast.surfaces.http.identity import new_token

    token, digest = new_token()
    kept = {
        "name": args.new_token,
        "sha256": digest,
        "owner": args.token_owner,
        "scope": args.scope,
    }
    if app.out.is_json:
        line = msgspec.json.encode({"token": token, "settings": kept})
    else:
        line = token.encode()
    with app.out.binary() as stream:  # the one place where a token is shown, once
        stream.write(line + b"\n")
    if app.out.is_json:
        return 0
    app.out.note("it is not kept anywhere: store it now. For the settings:")
    app.out.note("[[tokens]]")
    for name, value in kept.items():
        app.out.note(f"{name} = {msgspec.json.encode(value).decode()}")
    return 0


class _JsonLines(logging.Formatter):
    """One JSON object a line, with secrets masked."""

    def __init__(self, out: Output) -> None:
        super().__init__()
        self._out = out

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "ts": record.created,
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        fields = ("method", "route", "status", "seconds")
        line |= {name: value for name in fields if (value := getattr(record, name, None))}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return msgspec.json.encode(self._out.mask_value(line)).decode()


class _TextLines(logging.Formatter):
    """A sentence a line, with secrets masked."""

    def __init__(self, out: Output) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self._out = out

    def format(self, record: logging.LogRecord) -> str:
        return self._out.mask(super().format(record))


class _ThreadedHandler(logging.Handler):
    """Writes lines in a thread: the event loop never waits for the rules that mask them."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self._writer = logging.StreamHandler()
        self._writer.setFormatter(formatter)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="holdfast-log")

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._thread.submit(self._writer.handle, record)
        except RuntimeError:  # the interpreter ends, and starts no more threads
            self._writer.handle(record)


def start_log(kind: str, app: App) -> None:
    """Log to stderr: warnings as text, every request as JSON, or nothing."""
    log = logging.getLogger("holdfast")
    if kind == "off":
        log.disabled = True
        return
    log.handlers = [_ThreadedHandler((_JsonLines if kind == "json" else _TextLines)(app.out))]
    log.propagate = False
    log.setLevel(logging.INFO if kind == "json" else logging.WARNING)


def _demo_store(stack: ExitStack, app: App) -> SessionStore:
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-demo-"))
    root = os.path.join(folder, "sessions")
    with app.out.busy("recording the demo session"):
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "demo", "--fast", "--json", "--keep", root],
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        raise HoldfastError(f"the demo session could not be made: {done.stderr[-500:]}")
    return stack.enter_context(open_store(root))


def _listen(settings: ServeSettings, store: SessionStore, model: str, app: App) -> None:
    import uvicorn

    from holdfast.engine.gateway.gateway import only_gateway
    from holdfast.surfaces.listening import AnnouncingServer, make_protocol

    server = build_server(
        settings,
        store,
        model,
        app.settings.secrets,
        telegram_token=app.settings.telegram_token,
        on_bot=lambda name: app.out.note(f"telegram: @{name} is listening"),
    )

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
    )
    with only_gateway(store.local_folder):
        uvicorn_server = AnnouncingServer(
            config,
            lambda url: _announce(url, store, app),
            server.gateway.live.close,  # streams have no end of their own
        )
        sys.setswitchinterval(_SWITCH_SECONDS)
        gc.freeze()  # what is loaded stays: a collection need not look at it
        try:
            uvicorn_server.run()
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
        return
    app.out.note(f"listening on {url} (stop with Ctrl-C)")
    app.out.note(f"sessions: {store.describe()}")
    app.out.note(f"console: {url}/   API: {url}/openapi.json   MCP: {url}/mcp")


def build_server(
    settings: ServeSettings,
    store: SessionStore,
    model: str,
    secrets: Any = None,
    *,
    telegram_token: str = "",
    on_bot: Callable[[str], None] = lambda _name: None,
) -> HttpServer:
    """Put the gateway, the routes, the console, MCP and the bot together."""
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.memory.vectors import VectorWorker, mask_embedder
    from holdfast.engine.redactor import redactor
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.surfaces.cli.serve.vector_service import VectorService
    from holdfast.surfaces.console.console import console_pages
    from holdfast.surfaces.gateway_agents import GatewayAgents
    from holdfast.surfaces.http.server import HttpServer
    from holdfast.surfaces.telegram.replies import CHANNEL, TelegramReplies
    from holdfast.surfaces.telegram.settings import TOKEN_VARIABLE

    bot = settings.telegram.settings(telegram_token) if settings.telegram is not None else None
    if bot is not None:
        secrets = {**(secrets or {}), TOKEN_VARIABLE: bot.token}
    agents = GatewayAgents(store, settings.agents, model=model, secrets=secrets)
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
        ),
        workspace_of,
        tokens=settings.tokens,
        guard=settings.server.guard(),
        loading=_loading(agents),
    )
    if settings.telegram is not None and bot is not None:
        _add_bot(server.gateway, agents, settings.telegram.agent, bot, on_bot)
    if worker is not None:
        server.gateway.services.append(VectorService(worker))
    server.add_pages(console_pages(server))
    mcp = _mcp_app(server, workspace_of, settings)
    if mcp is not None:
        server.mount(mcp)
    return server


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


def _mcp_app(server: HttpServer, workspace_of: Any, settings: ServeSettings) -> Any:
    """MCP over HTTP, where its package is installed; it is imported when a client asks for it."""
    if importlib.util.find_spec("mcp_types") is None:
        return None
    from holdfast.errors import AccessDenied
    from holdfast.surfaces.cli.serve.late_app import late_app
    from holdfast.surfaces.http.guard import read_headers

    names = ("127.0.0.1", "localhost", "[::1]", *settings.server.hosts)
    bare = [*names, *(f"{host}:*" for host in names)]
    origins = [f"http://{host}" for host in bare] + [f"https://{host}" for host in bare]

    def make() -> Any:
        from holdfast.surfaces.mcp.server import McpClient, build_server
        from holdfast.surfaces.mcp.transports import http_app

        def client_of(request: Any) -> McpClient:
            client = server.find_client(read_headers(request.scope))
            if client is None:  # it expired since the server let the request in
                raise AccessDenied(
                    "a valid token is needed", hint="send `Authorization: Bearer TOKEN`"
                )
            return McpClient(client.caller, is_read_only=not client.may("write"))

        return http_app(
            build_server(client_of, workspace_of),
            hosts=bare,
            origins=[*origins, *settings.server.origins],
        )

    return late_app("/mcp", make)


VERBS = {"serve": Verb(_add_serve, _serve, _EXAMPLE)}
