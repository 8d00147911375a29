"""`proxy`: any agent through a durable log, by one address."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Final

from holdfast.core.window import window_argument
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.cli.serve.serve import check_packages, start_log

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from holdfast.surfaces.proxy.app import ProxyApp

_PORT: Final = 8485
"""The next one after that of `holdfast serve`."""
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
        "--own-tools",
        action="store_true",
        help="give the model of a conversation that was cut two tools that the proxy answers "
        "itself: context and sessions_history (off)",
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
    check_proxy_packages()
    start_log(args.log, app)

    def announce(url: str) -> None:
        if app.out.is_json:
            app.out.json({"listening": url, "mode": args.mode, "pid": os.getpid()})
            sys.stdout.flush()
            return
        app.out.note(f"listening on {url} (stop with Ctrl-C), mode {args.mode}")
        app.out.note(f"sessions: {app.store.describe()}")
        app.out.note(f"ANTHROPIC_BASE_URL={url}   OPENAI_BASE_URL={url}/v1")

    proxy = build_app(args, app)
    from holdfast.surfaces.proxy.running import run_proxy

    run_proxy(proxy, args.host, args.port, announce)
    return 0


def check_proxy_packages() -> None:
    """Raise `UsageError` where a package of the proxy is missing."""
    check_packages("the proxy", "proxy", ("starlette", "uvicorn", "httpx2"))


def build_app(args: argparse.Namespace, app: App, defaults: Sequence[str] = ()) -> ProxyApp:
    """Put a proxy together from its options. Raises where its packages are missing.

    `defaults` are upstreams for which there is no option.
    """
    check_proxy_packages()
    from holdfast.engine.proxy.keeper import ProxyKeeper
    from holdfast.surfaces.proxy.addresses import read_upstreams
    from holdfast.surfaces.proxy.app import ProxyApp, ProxySettings

    keeper = ProxyKeeper(
        app.store,
        agent=app.settings.agent,
        owner=app.owner_of_new,
        mode=args.mode,
        window=window_argument(args.window, "--window"),
        has_tools=args.own_tools,
    )
    upstreams = read_upstreams([*defaults, *args.upstream])
    settings = ProxySettings(upstreams=dict(upstreams), silent_seconds=args.silent_seconds)
    return ProxyApp(settings, keeper)


VERBS = {"proxy": Verb(_add_proxy, _proxy, _EXAMPLE)}
