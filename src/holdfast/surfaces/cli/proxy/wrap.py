"""`wrap`: run a command whose model calls go through a proxy of its own."""

from __future__ import annotations

import argparse
import signal
import subprocess
from typing import TYPE_CHECKING, Final

from holdfast import config
from holdfast.errors import UsageError
from holdfast.surfaces.cli.app import App, Verb
from holdfast.surfaces.cli.proxy.proxy import add_proxy, build_app
from holdfast.surfaces.cli.serve.serve import start_log

if TYPE_CHECKING:
    from collections.abc import Sequence

_EXAMPLE: Final = """examples:
  holdfast wrap claude -p "What does this project do?"
  holdfast wrap --mode observe -- python my_agent.py --verbose"""


def _add_wrap(parser: argparse.ArgumentParser) -> None:
    add_proxy(parser)
    parser.add_argument(
        "command", nargs=argparse.REMAINDER, metavar="COMMAND…", help="the command to run"
    )


def _wrap(args: argparse.Namespace, app: App) -> int:
    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if not command:
        raise UsageError("no command to wrap", hint="for example `holdfast wrap claude`")
    start_log(args.log, app)
    # The command goes on to where this environment would have led it.
    before = [f"{name}={url}" for name, url in config.client_addresses().items()]
    proxy = build_app(args, app, before)
    from holdfast.surfaces.proxy.running import ProxyThread

    with ProxyThread(proxy) as running:
        app.out.note(f"{command[0]} runs through {running.url}, mode {args.mode}")
        status = _run(command, addresses(running.url))
    app.out.note(f"its conversations are in {app.store.describe()}: `holdfast sessions`")
    return status


def addresses(url: str) -> dict[str, str]:
    """The variables that lead clients to a proxy."""
    bases = {"openai": f"{url}/v1"}
    return {variable: bases.get(name, url) for variable, name in config.CLIENT_ADDRESSES}


def _run(command: Sequence[str], values: dict[str, str]) -> int:
    """Run a command in this terminal, and return its status as a shell would."""
    try:
        process = subprocess.Popen(command, env=config.child_environment(values))
    except OSError as error:
        raise UsageError(
            f"`{command[0]}` cannot be run: {error.strerror or error}",
            hint="check its name and that it is installed",
        ) from error
    # Ctrl-C is for the command, which has it from the terminal; we end when it does.
    held = {
        signal.SIGINT: signal.signal(signal.SIGINT, signal.SIG_IGN),
        signal.SIGTERM: signal.signal(signal.SIGTERM, lambda *_: process.terminate()),
    }
    try:
        status = process.wait()
    finally:
        for number, handler in held.items():
            signal.signal(number, handler)
    return 128 - status if status < 0 else status


VERBS = {"wrap": Verb(_add_wrap, _wrap, _EXAMPLE)}
