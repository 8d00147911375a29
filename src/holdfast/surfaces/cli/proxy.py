"""`proxy` and `wrap`: any agent through a durable log, by one address."""

from __future__ import annotations

import http.client
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Annotated, Final, Literal
from urllib.parse import urlsplit

import msgspec

from holdfast import config
from holdfast.errors import UsageError
from holdfast.surfaces.cli.command import Command, WindowOption, option, place
from holdfast.surfaces.cli.serve.log import LogOption, check_packages, start_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.proxy.app import ProxyApp

_PORT: Final = 8485
"""The next one after that of `holdfast serve`."""
_SECONDS: Final = 15.0
"""For an upstream to answer a request for its models."""
_OURS: Final = "Holdfast proxy: "


class _ProxyOptions(Command, frozen=True, kw_only=True):
    """The options of a proxy."""

    upstream: Annotated[
        tuple[str, ...],
        option(
            "where requests go: anthropic, openai and gemini have their providers' addresses; "
            "another NAME is reached at /NAME/…",
            "NAME=URL",
        ),
    ] = ()
    mode: Annotated[
        Literal["observe", "guard", "save"],
        option(
            "observe: log only; guard: cut what would overflow, and recover (default); save: cut "
            "when it pays"
        ),
    ] = "guard"
    window: WindowOption = None
    own_tools: Annotated[
        bool,
        option(
            "give the model of a conversation that was cut two tools that the proxy answers "
            "itself: context and sessions_history (off)"
        ),
    ] = False
    silent_seconds: Annotated[float, option("the longest silence of an upstream (600)", "N")] = (
        600.0
    )
    config: Annotated[
        str | None,
        option("a TOML file with the settings of `serve`: its table `budgets` holds here", "FILE"),
    ] = None
    log: LogOption = "text"

    def build(self, app: App, defaults: Sequence[str] = ()) -> ProxyApp:
        """Put a proxy together from its options. Raises where its packages are missing.

        `defaults` are upstreams for which there is no option.
        """
        check_packages("the proxy", "proxy", ("starlette", "uvicorn", "httpx2"))
        from holdfast.engine.proxy.exchange import ProxyKeeper
        from holdfast.engine.spending.meter import CallMeter
        from holdfast.surfaces.proxy.app import ProxyApp, ProxySettings
        from holdfast.surfaces.proxy.upstream import read_upstreams
        from holdfast.surfaces.serve_settings import load_settings

        budgets = load_settings(self.config).budgets
        keeper = ProxyKeeper(
            app.store,
            agent=app.settings.agent,
            owner=app.owner_of_new,
            mode=self.mode,
            window=self.window,
            has_tools=self.own_tools,
            meter=CallMeter(app.store.spending, budgets) if budgets is not None else None,
        )
        upstreams = dict(read_upstreams([*defaults, *self.upstream]))
        return ProxyApp(
            ProxySettings(upstreams=upstreams, silent_seconds=self.silent_seconds), keeper
        )


class ProxyCommand(_ProxyOptions, frozen=True, kw_only=True):
    """Runs a proxy."""

    example = """examples:
  holdfast proxy --port 8485
  ANTHROPIC_BASE_URL=http://127.0.0.1:8485 claude
  OPENAI_BASE_URL=http://127.0.0.1:8485/v1 python my_agent.py
  holdfast proxy --upstream openai=http://127.0.0.1:8000/v1 --mode observe --json"""
    port: Annotated[int, option(f"the port ({_PORT}); 0 for a free one", "N")] = _PORT
    host: Annotated[str, option("a loopback address", "ADDRESS")] = "127.0.0.1"

    def run(self, app: App) -> None:
        proxy = self.build(app)
        start_log(self.log, app)
        from holdfast.surfaces.proxy.running import run_proxy

        run_proxy(proxy, self.host, self.port, lambda url: self._announce(url, app))

    def _announce(self, url: str, app: App) -> None:
        if app.out.is_json:
            app.out.json({"listening": url, "mode": self.mode, "pid": os.getpid()})
            sys.stdout.flush()
        app.out.note(f"listening on {url} (stop with Ctrl-C), mode {self.mode}")
        app.out.note(f"sessions: {app.store.describe()}")
        app.out.note(f"ANTHROPIC_BASE_URL={url}   OPENAI_BASE_URL={url}/v1")


class WrapCommand(_ProxyOptions, frozen=True, kw_only=True):
    """Runs a command through a proxy."""

    example = """examples:
  holdfast wrap claude -p "What does this project do?"
  holdfast wrap --mode observe -- python my_agent.py --verbose"""
    command: Annotated[tuple[str, ...], place("the command to run", "COMMAND…", is_rest=True)] = ()

    def run(self, app: App) -> int:
        command = self.command[1:] if self.command[:1] == ("--",) else self.command
        if not command:
            raise UsageError("no command to wrap", hint="for example `holdfast wrap claude`")
        # The command goes on to where this environment would have led it.
        before = [f"{name}={url}" for name, url in config.client_addresses().items()]
        start_log(self.log, app)
        proxy = self.build(app, before)
        from holdfast.surfaces.proxy.running import ProxyThread

        with ProxyThread(proxy) as running:
            app.out.note(f"{command[0]} runs through {running.url}, mode {self.mode}")
            status = _run(command, running.url)
        app.out.note(f"its conversations are in {app.store.describe()}: `holdfast sessions`")
        return status


def _run(command: Sequence[str], url: str) -> int:
    """Run a command that calls a proxy in this terminal; returns its status as a shell would."""
    bases = {"openai": f"{url}/v1"}
    values = {variable: bases.get(name, url) for variable, name in config.CLIENT_ADDRESSES}
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


def check_upstreams(given: Sequence[str], app: App) -> Iterator[tuple[str, int, str]]:
    """Ask each upstream for its models, through a proxy, without a key.

    Yields its name, the status of the answer, and what the proxy said where there was none.
    """
    options = ProxyCommand(upstream=tuple(given), mode="observe", silent_seconds=_SECONDS)
    proxy = options.build(app)
    from holdfast.surfaces.proxy.running import ProxyThread

    with ProxyThread(proxy) as running:
        address = urlsplit(running.url)
        for name in proxy.upstreams:
            path = "v1beta/models" if name == "gemini" else "v1/models"
            connection = http.client.HTTPConnection(
                address.hostname or "", address.port, timeout=2 * _SECONDS
            )
            try:
                connection.request("GET", f"/{name}/{path}")
                answer = connection.getresponse()
                yield name, answer.status, _own_words(answer.read())
            except OSError as error:
                yield name, 0, str(error)
            finally:
                connection.close()


def _own_words(body: bytes) -> str:
    """Our own sentence in an error; empty for an answer of the upstream's."""
    try:
        said = msgspec.json.decode(body)["error"]["message"]
    except (msgspec.DecodeError, UnicodeDecodeError, LookupError, TypeError):
        return ""
    return said if isinstance(said, str) and said.startswith(_OURS) else ""
