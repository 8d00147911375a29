"""`proxy`: any agent through a durable log, by one address. `wrap`: a command through it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from holdfast.errors import BadSetting, HoldfastError, UsageError
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.cli.serve.serve import start_log

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from holdfast.surfaces.proxy.app import ProxyApp

_PORT: Final = 8485
"""The next one after that of `holdfast serve`."""
_HEAD_BYTES_MAX: Final = 256 * 1024
"""Of the address and the headers: some clients send long lists of betas and metadata."""
_EXAMPLE: Final = """examples:
  holdfast proxy --port 8485
  ANTHROPIC_BASE_URL=http://127.0.0.1:8485 claude
  OPENAI_BASE_URL=http://127.0.0.1:8485/v1 python my_agent.py
  holdfast proxy --upstream openai=http://127.0.0.1:8000/v1 --mode observe --json"""


def add_proxy(parser: argparse.ArgumentParser) -> None:
    """Add the options of a proxy."""
    parser.add_argument(
        "--upstream",
        action="append",
        default=[],
        metavar="NAME=URL",
        help="where requests go: anthropic, openai and gemini have their providers' addresses; "
        "another NAME is reached at /NAME/…",
    )
    parser.add_argument(
        "--mode",
        choices=("observe", "guard", "save"),
        default="guard",
        help="observe: log only; guard: cut what would overflow, and recover (default); save: cut "
        "when it pays",
    )
    parser.add_argument(
        "--window", type=int, metavar="N", help="the context window, where it is not the model's"
    )
    parser.add_argument(
        "--silent-seconds",
        type=float,
        default=600.0,
        metavar="N",
        help="the longest silence of an upstream (600)",
    )
    parser.add_argument(
        "--log",
        choices=("text", "json", "off"),
        default="text",
        help="what is logged to stderr: warnings as text (default), as JSON, nothing",
    )


def _add_proxy(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--port", type=int, default=_PORT, metavar="N", help=f"the port ({_PORT}); 0 for a free one"
    )
    parser.add_argument("--host", default="127.0.0.1", metavar="ADDRESS", help="a loopback address")
    add_proxy(parser)


def _proxy(args: argparse.Namespace, app: App) -> int:
    start_log(args.log, app)

    def announce(url: str) -> None:
        if app.out.is_json:
            app.out.json({"listening": url, "mode": args.mode, "pid": os.getpid()})
            sys.stdout.flush()
            return
        app.out.note(f"listening on {url} (stop with Ctrl-C), mode {args.mode}")
        app.out.note(f"sessions: {app.store.describe()}")
        app.out.note(f"ANTHROPIC_BASE_URL={url}   OPENAI_BASE_URL={url}/v1")

    run_proxy(build_app(args, app), args.host, args.port, announce)
    return 0


def build_app(args: argparse.Namespace, app: App) -> ProxyApp:
    """Put a proxy together from its options. Raises where its packages are missing."""
    try:
        from holdfast.surfaces.proxy.app import ProxyApp, ProxySettings
    except ImportError as error:
        raise UsageError(
            f"the proxy needs a package that is not installed: {error.name or error}",
            hint="pip install 'holdfast[proxy]'",
        ) from error
    from holdfast.engine.proxy.keeper import ProxyKeeper
    from holdfast.surfaces.proxy.addresses import read_upstreams

    keeper = ProxyKeeper(
        app.store,
        agent=app.settings.agent,
        owner=app.owner or "",
        mode=args.mode,
        window=args.window,
    )
    upstreams = read_upstreams(args.upstream)
    settings = ProxySettings(upstreams=dict(upstreams), silent_seconds=args.silent_seconds)
    return ProxyApp(settings, keeper)


def run_proxy(proxy: ProxyApp, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until a signal ends it. `announce` gets the address once it listens."""
    import uvicorn

    from holdfast.surfaces.http.guard import LOOPBACK
    from holdfast.surfaces.listening import AnnouncingServer

    if host not in LOOPBACK:
        raise BadSetting(
            f"the proxy cannot listen on `{host}`: it has no tokens, and anybody could use it",
            hint="listen on 127.0.0.1, and reach it through a tunnel of your own",
        )

    server = AnnouncingServer(
        uvicorn.Config(
            proxy,
            host=host,
            port=port,
            log_level="critical",
            access_log=False,
            server_header=False,
            date_header=False,
            http="h11",  # it bounds the size of headers
            h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
            timeout_graceful_shutdown=2,
            ws="none",
            lifespan="on",
        ),
        announce,
    )
    try:
        server.run()
    except SystemExit as error:
        raise BadSetting(
            f"cannot listen on {host}:{port}",
            hint="another program may use the port: choose another with --port",
        ) from error
    if not server.started:
        raise HoldfastError(f"the proxy cannot listen on {host}:{port}", hint="choose another port")


VERBS = {"proxy": Verb(_add_proxy, _proxy, _EXAMPLE)}
