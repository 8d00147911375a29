"""Settings, read once at the edge. The only reader of the environment.

| variable           | meaning                                         | default     |
|--------------------|-------------------------------------------------|-------------|
| `HOLDFAST_ROOT`    | the store: a folder, or another address         | `.sessions` |
| `HOLDFAST_BLOBS`   | other blobs for it: a folder or `s3://…`        | the store's |
| `HOLDFAST_AGENT`   | the agent that new sessions belong to           | `main`      |
| `HOLDFAST_MODEL`   | the model that `holdfast chat` talks to         | `offline`   |
| `HOLDFAST_EMBEDDER` | the model for [vectors](memory.md#vectors)     | `off`       |
| `HOLDFAST_SECRETS` | names of variables whose values are secrets,    | none        |
|                    | with commas between them                        |             |
| `OPENAI_API_KEY`   | the key of an embedding model `openai:NAME`     | none        |
| `FASTEMBED_CACHE_PATH` | the weights of `fastembed` models     | `~/.cache/fastembed` |
| `TELEGRAM_BOT_TOKEN` | the bot that `telegram` and `serve` run      | none        |
| `HOLDFAST__TABLE__KEY` | a key in the settings file of `serve`      | the file's  |
| `TZ`               | the time zone of timers that name none          | the system's |
| `NOTIFY_SOCKET`, `WATCHDOG_USEC` | set by systemd for `serve` | unset      |
| `NO_COLOR`         | no colours in the terminal, whatever its value  | unset       |
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from holdfast.core.log.ids import check_name
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

ROOT_DEFAULT = ".sessions"
AGENT_DEFAULT = "main"
EMBEDDER_DEFAULT = "off"
MODEL_DEFAULT = "offline"
_ZONE_FILE = "/etc/localtime"
"""It needs no key and no network."""
FILE_PREFIX = "HOLDFAST__"
"""Of variables that stand for keys of a settings file."""
CLIENT_ADDRESSES = (
    ("ANTHROPIC_BASE_URL", "anthropic"),
    ("OPENAI_API_BASE", "openai"),
    ("OPENAI_BASE_URL", "openai"),
    ("GOOGLE_GEMINI_BASE_URL", "gemini"),
)
"""The variables by which clients are led to another server; of two for one upstream, the second
wins."""


@dataclass(frozen=True, slots=True)
class Settings:
    root: str = field(default=ROOT_DEFAULT, repr=False)
    """The address of the store. It may hold a password."""
    agent: str = AGENT_DEFAULT
    model: str = MODEL_DEFAULT
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Name → value of what must not leave a log; never written anywhere."""

    blobs: str | None = field(default=None, repr=False)
    """The address of other blobs than the store's own."""

    embedder: str = EMBEDDER_DEFAULT
    """The embedding model of memory."""

    telegram_token: str = field(default="", repr=False)
    """The token of the bot that `holdfast telegram` and `serve` run; never written anywhere."""

    def __post_init__(self) -> None:
        check_name("agent", self.agent)


def load(
    *,
    root: str | None = None,
    agent: str | None = None,
    model: str | None = None,
    looks_upwards: bool = False,
    environ: Mapping[str, str] = os.environ,
) -> Settings:
    """The settings: what the caller says, else the environment, else the defaults.

    With `looks_upwards`, the default folder is searched for as git does: here, then above.
    """
    found = root or environ.get("HOLDFAST_ROOT") or ""
    if not found and looks_upwards:
        found = find_root(os.getcwd())
    return Settings(
        root=found or ROOT_DEFAULT,
        agent=agent or environ.get("HOLDFAST_AGENT") or AGENT_DEFAULT,
        model=model or environ.get("HOLDFAST_MODEL") or MODEL_DEFAULT,
        secrets=_secrets(environ),
        blobs=environ.get("HOLDFAST_BLOBS") or None,
        embedder=environ.get("HOLDFAST_EMBEDDER") or EMBEDDER_DEFAULT,
        telegram_token=environ.get("TELEGRAM_BOT_TOKEN") or "",
    )


def provider_key(variable: str, environ: Mapping[str, str] = os.environ) -> str:
    """Return the key of a provider; empty where there is none."""
    return environ.get(variable) or ""


@dataclass(frozen=True)
class ServiceManagerAddress:
    """The service manager that started this process, such as systemd."""

    socket: str
    """The path of its socket, or `@` and an abstract name."""
    watchdog_seconds: float
    """After which a process that says nothing is restarted; 0 for never."""


def service_manager(environ: MutableMapping[str, str] = os.environ) -> ServiceManagerAddress | None:
    """Return the service manager that wants to be told; None where there is none.

    Programs that this process starts do not inherit it.
    """
    address, watched = environ.pop("NOTIFY_SOCKET", ""), environ.pop("WATCHDOG_PID", "")
    micros = environ.pop("WATCHDOG_USEC", "")
    is_watched = watched in ("", str(os.getpid())) and micros.isdecimal()
    if not address:
        return None
    return ServiceManagerAddress(address, int(micros) / 1_000_000 if is_watched else 0.0)


def zone_names(environ: Mapping[str, str] = os.environ) -> list[str]:
    """Return names that the time zone of this machine may have: the variable first."""
    places = (environ.get("TZ", "").removeprefix(":"), os.path.realpath(_ZONE_FILE))
    return [place.rpartition("/zoneinfo/")[2] for place in places]


def find_root(start: str) -> str:
    """Return the nearest `.sessions` in a folder or above it; empty if there is none.

    A folder of another user does not count: anyone who can write into a folder above could
    otherwise choose where sessions go.
    """
    place = os.path.abspath(start)
    while True:
        folder = os.path.join(place, ROOT_DEFAULT)
        if os.path.isdir(folder) and os.stat(folder).st_uid == os.getuid():
            return folder
        above = os.path.dirname(place)
        if above == place:
            return ""
        place = above


def _secrets(environ: Mapping[str, str]) -> dict[str, str]:
    """The secrets in the environment. One that is named and not there is more likely misspelled
    than meant, and would not be masked."""
    asked = (environ.get("HOLDFAST_SECRETS") or "").split(",")
    names = [name for item in asked if (name := item.strip())]
    for name in names:
        if not environ.get(name):
            raise BadSetting(
                f"HOLDFAST_SECRETS names `{name}`, and there is no variable `{name}`",
                hint="set it, or take its name out of HOLDFAST_SECRETS",
            )
    return {name: environ[name] for name in names}


@dataclass(frozen=True, slots=True)
class FileOverride:
    """A variable that stands for a key of a settings file."""

    variable: str
    place: tuple[str, ...]
    """The tables and the key, as the variable spells them."""
    value: str = field(repr=False)


def file_overrides(environ: Mapping[str, str] = os.environ) -> list[FileOverride]:
    """Return what the environment says instead of a settings file: `HOLDFAST__SERVER__PORT` is
    `port` in the table `server`."""
    return [
        FileOverride(name, tuple(name.removeprefix(FILE_PREFIX).split("__")), environ[name])
        for name in sorted(environ)
        if name.startswith(FILE_PREFIX)
    ]


def agent_homes(names: Iterable[str], environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables with these names by which other agents are told where their files are,
    and this user's home folder as `HOME`."""
    homes = {name: environ[name] for name in names if environ.get(name)}
    return {**homes, "HOME": os.path.expanduser("~")}


def client_addresses(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the addresses to which this environment leads model clients, by upstream."""
    found = {
        name: environ[variable] for variable, name in CLIENT_ADDRESSES if environ.get(variable)
    }
    return {name: address.rstrip("/") for name, address in found.items()}


def child_environment(
    values: Mapping[str, str], environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return this environment with other values, for a program that is started."""
    return {**environ, **values}


def wants_colour(stream: TextIO, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether to colour what is written there. `NO_COLOR` and a dumb terminal say no."""
    return stream.isatty() and not environ.get("NO_COLOR") and environ.get("TERM", "dumb") != "dumb"


def names_network_proxy() -> bool:
    """Return whether the environment names a proxy for what goes out (`HTTPS_PROXY`)."""
    from urllib.request import getproxies  # it reads the settings of the system, too

    found = getproxies()
    return any(found.get(name) for name in ("http", "https", "all"))


def weights_folder(environ: Mapping[str, str] = os.environ) -> str:
    """Return the folder where fastembed keeps the weights of its models."""
    return environ.get("FASTEMBED_CACHE_PATH") or "~/.cache/fastembed"
