"""The settings of `holdfast serve`: one TOML file, every key checked."""

from __future__ import annotations

import importlib
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.config import file_overrides
from holdfast.core.approval_rules import read_rules
from holdfast.core.log.ids import check_name
from holdfast.core.retention import Retention  # noqa: TC001 - read from the file
from holdfast.core.spending.budgets import Budgets, read_budgets
from holdfast.core.text.typed import convert_typed
from holdfast.core.turn.options import Limits, Summary, SummaryWriter
from holdfast.engine.access_tokens import AccessToken  # noqa: TC001 - read from the file
from holdfast.engine.gateway.gateway import GatewayOptions
from holdfast.engine.simulation.policies import policy_from
from holdfast.errors import BadSetting
from holdfast.surfaces.http.guard import (
    HEAD_SECONDS,
    LOOPBACK,
    GuardSettings,
    check_address,
)
from holdfast.surfaces.telegram.settings import (
    API_BASE,
    TOKEN_VARIABLE,
    DmScope,
    TelegramSettings,
    name_approvers,
)

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

    from holdfast.config import FileOverride


class AgentSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An agent: the model that answers, and the terms of its sessions."""

    model: str = ""
    """As `anthropic:NAME`; empty for HOLDFAST_MODEL, or the offline model."""
    summary: SummaryWriter | Summary = "model"
    """The writer of summaries: `model`, `extract`, or a table with `model` and `ahead`."""
    system: str = ""
    window: int | None = None
    policy: dict[str, Any] | str = "balanced"
    """A name, or thresholds that are to be other than by default."""
    notes: Literal["model", "off"] = "off"
    checkpoints: Literal["cuts", "turns", "off"] = "turns"
    tools: tuple[str, ...] = ()
    """Functions that the model may call, as `package.module:function`."""
    timers: bool = False
    """The model may set, list and cancel timers of its own session."""
    limits: Limits = Limits()
    """The bounds of a turn, its recovery and its summaries; rules about approvals are tables
    `[[agents.NAME.limits.approvals]]`."""


_GONE_KEYS: Final = {
    "summary_model": "summary.model",
    "background_summary": "summary.ahead",
    **{name: f"limits.{name}" for name in Limits.__struct_fields__},
}
"""Keys that an agent had, and the ones that took their place."""


class HttpSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The address of the server, and what it lets in."""

    host: str = "127.0.0.1"
    port: int = 8484
    socket: str = ""
    """The path of a unix socket to listen on, in the place of the address."""
    socket_mode: int = 0o660
    """Who may connect to it, as the permissions of a file."""
    certificate: str = ""
    """The file with the certificate of the server and those above it, for TLS."""
    certificate_key: str = ""
    """The file with its private key."""
    hosts: tuple[str, ...] = ()
    """Host names beside those of the loopback address."""
    origins: tuple[str, ...] = ()
    """Origins of other pages that may send requests."""
    body_bytes_max: int = 10 * 1024 * 1024
    body_seconds: float = 30.0
    head_seconds: float = HEAD_SECONDS
    """The longest time for the address and the headers of a request to arrive."""
    requests_per_second: float = 200.0
    requests_burst: int = 1_000
    connections_max: int = 1_000
    metrics_by_owner: bool = False
    """Count calls of models by owner too: a series for each."""

    def guard(self) -> GuardSettings:
        """The limits of what is let in."""
        own = () if self.host in (*LOOPBACK, "0.0.0.0", "::") else (self.host,)  # noqa: S104
        return GuardSettings(
            hosts=(*self.hosts, *own),
            origins=self.origins,
            body_bytes_max=self.body_bytes_max,
            body_seconds=self.body_seconds,
            requests_per_second=self.requests_per_second,
            requests_burst=self.requests_burst,
        )


class TelegramTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The bot that the server runs. Its token is not in the file."""

    agent: str = "main"
    """The agent whose sessions the chats are."""
    allow: tuple[int, ...] = ()
    """Ids of people and groups whose messages are answered. No one's, where it is empty."""
    approvers: dict[str, str] = {}
    """Names of the people who may decide about calls in the chats of the bot, by id."""
    dm_scope: DmScope = "per-channel-peer"
    api_base: str = API_BASE

    def settings(self, token: str) -> TelegramSettings:
        """Return the settings of the bot. Raises `BadSetting` without its token."""
        check_name("agent", self.agent)
        if not token:
            raise BadSetting(
                f"the settings have a table `telegram`, and {TOKEN_VARIABLE} is not set",
                hint="set it to the token that @BotFather gives, or take the table out",
            )
        return TelegramSettings(
            token=token,
            allow=frozenset(self.allow),
            approvers=name_approvers(self.approvers),
            dm_scope=self.dm_scope,
            api_base=self.api_base,
        )


class UpstreamTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A model provider, or another server with its API, that clients reach through this one."""

    url: str = ""
    """Its address; empty for that of the provider with this name."""
    key: str = ""
    """The variable of the environment with the key that it takes. Without it, the client's own key
    is passed on, which takes a server without tokens."""


class ProxyTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The conversations that go through to upstreams."""

    agent: str = "main"
    """The agent whose sessions they are."""
    mode: Literal["observe", "guard", "save"] = "guard"
    """`observe` only logs, `guard` cuts what would overflow, `save` cuts when it pays."""
    own_tools: bool = False
    """Give the model of a conversation that was cut two tools that the server answers itself."""
    silent_seconds: float = 600.0
    """The longest silence of an upstream."""


class MemoryTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The memory that clients search."""

    embedder: str = "off"
    """The model for vectors: `fastembed`, `fastembed:NAME`, `openai:NAME`, or
    `openai:NAME@http://host/v1`."""


class ServeSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Everything in the file."""

    server: HttpSettings = HttpSettings()
    gateway: GatewayOptions = GatewayOptions()
    agents: dict[str, AgentSettings] = msgspec.field(default_factory=dict)
    tokens: tuple[AccessToken, ...] = ()
    budgets: Budgets | None = None
    """Without this table, nothing is limited."""
    upstreams: dict[str, UpstreamTable] = msgspec.field(default_factory=dict)
    proxy: ProxyTable = ProxyTable()
    memory: MemoryTable = MemoryTable()
    retention: Retention | None = None
    """Without this table, every session is kept."""
    telegram: TelegramTable | None = None
    """Without this table, the server runs no bot."""

    def check(self, *, are_tokens_needed: bool = False) -> None:
        """Raise where the settings contradict each other. The store says whether tokens are needed
        without any in the settings."""
        are_tokens_needed = are_tokens_needed or bool(self.tokens)
        if not self.server.socket:
            check_address(self.server.host, are_tokens_needed=are_tokens_needed)
        if bool(self.server.certificate) != bool(self.server.certificate_key):
            raise BadSetting(
                "TLS takes two files, `server.certificate` and `server.certificate_key`",
                hint="name both, or none",
            )
        if self.server.certificate:
            load_certificate(self.server.certificate, self.server.certificate_key)
        for agent in self.agents.values():
            policy_from(agent.policy)
        check_name("agent", self.proxy.agent)
        for name, upstream in self.upstreams.items():
            if are_tokens_needed and not upstream.key:
                raise BadSetting(
                    f"the upstream `{name}` has no key of the server's own; clients send tokens",
                    hint=f'name the variable that holds it: key = "{name.upper()}_API_KEY"',
                )
        names = [token.name for token in self.tokens]
        for name in names:
            if names.count(name) > 1:
                raise BadSetting(f"two tokens are called `{name}`", hint="give each its own name")


def load_certificate(
    certificate: str, key: str, context: ssl.SSLContext | None = None
) -> ssl.SSLContext:
    """Load the certificate of a server, into a context that is used already or a new one. Raises
    `BadSetting`."""
    import ssl

    context = context or ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password="")
    except (OSError, ValueError) as error:  # an error of TLS is one of the system
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise BadSetting(
            f"cannot use the certificate `{certificate}` with the key `{key}`: {reason}",
            hint="`server.certificate` and `server.certificate_key` name PEM files that belong "
            "together; the key has no password",
        ) from error
    return context


def load_settings(
    path: str | None, overrides: Sequence[FileOverride] | None = None
) -> ServeSettings:
    """Read the file; without one, the defaults. Variables of the environment come before it.

    Raises `BadSetting` with the place of a mistake.
    """
    given = _read_file(path) if path is not None else {}
    settings = _convert(given, f"`{path}`")
    for override in file_overrides() if overrides is None else overrides:
        _put_value(given, override)
        settings = _convert(given, f"the variable `{override.variable}`")
    return settings


def _put_value(given: dict[str, Any], override: FileOverride) -> None:
    """Put the value of a variable where the file would have it."""
    table, names = given, [part.casefold() for part in override.place]
    for name in names[:-1]:
        # An agent is the one of that name in the file, however it is written there.
        known = {found.casefold(): found for found in table}
        inner = table.setdefault(known.get(name, name), {})
        if not isinstance(inner, dict):
            raise BadSetting(
                f"the variable `{override.variable}` names no key: `{name}` is not a table",
                hint="docs/gateway.md lists every table and key",
            )
        table = inner
    try:
        value = tomllib.loads(f"value = {override.value}")["value"]
    except tomllib.TOMLDecodeError:
        value = override.value
    table[names[-1]] = value


def _read_file(path: str) -> dict[str, Any]:
    try:
        return tomllib.loads(Path(path).read_text("utf-8"))
    except OSError as error:
        raise BadSetting(
            f"cannot read the settings `{path}`: {error.strerror}", hint="name a TOML file"
        ) from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadSetting(f"`{path}` is not TOML: {error}", hint="correct the file") from error


def _convert(given: dict[str, Any], source: str) -> ServeSettings:
    _refuse_gone_keys(given, source)
    read_budgets(given.get("budgets"), source)
    try:
        settings = convert_typed(given, ServeSettings)
    except msgspec.ValidationError as error:
        raise BadSetting(f"{source}: {error}", hint="docs/gateway.md lists every key") from error
    for name, agent in settings.agents.items():
        read_rules(agent.limits.approvals, f"{source}: agents.{name}.limits.approvals")
    return settings


def _refuse_gone_keys(given: dict[str, Any], source: str) -> None:
    """Raise for a key of an agent that is gone, with the key that took its place."""
    agents = given.get("agents")
    for name, agent in agents.items() if isinstance(agents, dict) else ():
        for key in agent if isinstance(agent, dict) else ():
            if place := _GONE_KEYS.get(key):
                raise BadSetting(
                    f"{source}: an agent has no key `{key}` - at `$.agents.{name}`",
                    hint=f"write it as `{place}`",
                )


def load_tools(names: tuple[str, ...]) -> list[Callable[..., Any]]:
    """Import the functions that an agent's model may call."""
    found = []
    for name in names:
        module, colon, attribute = name.partition(":")
        try:
            tool = getattr(importlib.import_module(module), attribute)
        except (ImportError, AttributeError) as error:
            raise BadSetting(
                f"cannot import the tool `{name}`: {error}",
                hint="write `package.module:function`, and start where the package can be found",
            ) from error
        if not colon or not callable(tool):
            raise BadSetting(f"`{name}` is not a function", hint="write `package.module:function`")
        found.append(tool)
    return found
