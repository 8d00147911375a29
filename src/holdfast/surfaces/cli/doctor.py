"""`doctor`: checks the set-up end to end, and says what to do about what it finds."""

from __future__ import annotations

import asyncio
import os
import shutil
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, NamedTuple

from holdfast.core.log.ids import SessionKey, new_session_id
from holdfast.core.owners import ANY_OWNER, NO_OWNER
from holdfast.errors import HoldfastError
from holdfast.stores.opening import open_store
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.command import ResultCommand, option, place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.ports import SessionStore
    from holdfast.surfaces.cli.app import App
    from holdfast.surfaces.formatting import Tone
    from holdfast.surfaces.serve_settings import TelegramTable

Outcome = Literal["ok", "note", "problem"]
_TONES: Final[dict[Outcome, Tone]] = {"ok": "good", "note": "dim", "problem": "bad"}
_FREE_BYTES_MIN: Final = 1024**3
"""Less room than this on the disk is worth a note."""
_EXTRAS: Final = {
    "cli": "prompt_toolkit",
    "tokens": "splintr",
    "anthropic": "anthropic",
    "openai": "openai",
    "gemini": "google.genai",
    "mcp": "mcp",
    "proxy": "httpx2",
    "serve": "uvicorn",
    "telegram": "httpx2",
    "postgres": "psycopg",
    "s3": "obstore",
    "vectors": "fastembed",
}
"""A module of each extra."""


class CheckResult(NamedTuple):
    """The result of one check."""

    check: str
    outcome: Outcome
    found: str
    next_step: str = ""


class DoctorCommand(ResultCommand, frozen=True, kw_only=True):
    """Checks the set-up."""

    example = """examples:
  holdfast doctor
  holdfast doctor --config holdfast.toml
  holdfast doctor proxy --upstream openai=http://127.0.0.1:8000/v1"""
    part: Annotated[Literal["proxy"] | None, place("also check the way through a proxy")] = None
    upstream: Annotated[tuple[str, ...], option("of the proxy", "NAME=URL")] = ()
    config: Annotated[str | None, option("also check the settings of `serve`", "FILE")] = None
    model: Annotated[str | None, option("the model to check (HOLDFAST_MODEL)", "NAME")] = None

    def run(self, app: App) -> list[CheckResult]:
        return [
            *_store(app),
            *_models(self.model or app.settings.model),
            *(_settings(self.config, app) if self.config else ()),
            *(_proxy(self.upstream, app) if self.part == "proxy" else ()),
            _extras(),
            *_integrations(),
        ]

    def plain(self, found: list[CheckResult]) -> Any:
        return {"findings": [finding._asdict() for finding in found]}

    def show(self, found: list[CheckResult], app: App) -> None:
        rows = (
            (check, Cell(outcome, _TONES[outcome]), text, step)
            for check, outcome, text, step in found
        )
        app.out.table(("Check", "Result", "Found", "Next step"), rows)

    def status(self, found: list[CheckResult]) -> int:
        return int(any(finding.outcome == "problem" for finding in found))


def _store(app: App) -> Iterator[CheckResult]:
    store = app.store
    place = store.describe()
    folder = store.local_folder
    if folder is not None and not os.path.lexists(folder):
        yield CheckResult("store", "ok", f"{place}: the first session makes it")
        yield _can_be_made(os.path.abspath(folder), app.settings.agent)
        return
    try:
        newest = store.sessions(limit=1, owner=ANY_OWNER)
        waiting = store.queues.counts("inbox", owner=ANY_OWNER)
    except HoldfastError as error:
        yield _problem("store", error)
        return
    yield CheckResult("store", "ok", f"{place}: {'has sessions' if newest else 'is empty'}")
    if store.caveat:
        yield CheckResult("store keeps", "note", store.caveat)
    yield _writable(store, app.settings.agent)
    stuck = waiting.get("failed", 0)
    if stuck:
        yield CheckResult(
            "inbox", "note", f"{stuck:,} failed messages", "look at /v1/inbox?state=failed"
        )
    if folder is not None and os.path.isdir(folder):
        linked = _count_links(folder)
        if linked:
            yield CheckResult(
                "hard links",
                "note",
                f"{linked:,} files have a second name, as `cp -al` makes it",
                "they are copied when they are written to; copy a backup before you open it",
            )
        free = shutil.disk_usage(folder).free
        if free < _FREE_BYTES_MIN:
            yield CheckResult("disk", "note", f"{free / 2**20:,.0f} MiB free", "make room")


def _count_links(folder: str) -> int:
    """Return how many files of a store have more than one name."""
    found = 0
    for above, _folders, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                found += os.lstat(os.path.join(above, name)).st_nlink > 1
    return found


def _can_be_made(folder: str, agent: str) -> CheckResult:
    """Make a store beside the place of the one to come, and remove it again."""
    above = Path()
    for part in Path(folder).parts[:-1]:
        if not os.path.isdir(above / part):
            break
        above /= part
    try:
        with TemporaryDirectory(dir=above) as trial, open_store(trial) as store:
            return _writable(store, agent)
    except OSError as error:
        found = f"cannot make a folder in {above}: {error.strerror}"
        return CheckResult("store takes writes", "problem", found, "choose another --root")


def _writable(store: SessionStore, agent: str) -> CheckResult:
    """Make a session, and erase it again."""
    key = SessionKey(agent, new_session_id(int.from_bytes(os.urandom(6), "big")))
    try:
        store.create(key)
        store.begin_erasure(key, owner=NO_OWNER)
        store.finish_erasure(key)
    except HoldfastError as error:
        return _problem("store takes writes", error)
    return CheckResult("store takes writes", "ok", "a session was made and erased")


def _models(name: str) -> Iterator[CheckResult]:
    from holdfast.providers.models import model

    try:
        found = model(name)
        ready = getattr(found, "ready", None)
        if ready is not None:
            ready()
    except HoldfastError as error:
        yield _problem(f"model {name}", error)
        return
    window = found.window
    known = f"a window of {window.tokens:,} tokens ({window.source}, {window.confidence})"
    is_guess = window.confidence not in ("known", "stated")
    step = "state it with `window`" if is_guess else ""
    yield CheckResult(f"model {name}", "note" if is_guess else "ok", known, step)


def _settings(path: str, app: App) -> Iterator[CheckResult]:
    try:
        from holdfast.engine.access_tokens import StoredTokens
        from holdfast.surfaces.gateway_agents import GatewayAgents
        from holdfast.surfaces.serve_settings import load_settings
    except ImportError as error:
        yield CheckResult(
            "settings",
            "problem",
            f"a package is not installed: {error.name or error}",
            "pip install 'holdfast[serve]'",
        )
        return
    try:
        settings = load_settings(path)
        stored = StoredTokens(app.store)
        settings.check(are_tokens_needed=stored.are_needed())
        GatewayAgents(app.store, settings.agents, model=app.settings.model)
    except HoldfastError as error:
        yield _problem("settings", error)
        return
    if settings.telegram is not None:
        yield from _bot(settings.telegram, app.settings.telegram_token)
    agents = ", ".join(sorted(settings.agents)) or "none named"
    number = len(settings.tokens) + len(stored.all())
    tokens = f"{number} tokens" if number else "no tokens"
    yield CheckResult("settings", "ok", f"agents: {agents}; {tokens}")
    if not settings.tokens and not stored.are_needed():
        yield CheckResult(
            "access",
            "note",
            "every caller on the loopback address is the operator",
            "on a shared machine, make tokens: `holdfast token new NAME`",
        )


def _proxy(upstreams: Sequence[str], app: App) -> Iterator[CheckResult]:
    """Start a proxy, and ask each upstream through it for its models. Any answer will do."""
    from holdfast.surfaces.cli.proxy import check_upstreams

    try:
        for name, status, said in check_upstreams(upstreams, app):
            is_reached = not said
            found = f"answers through the proxy with status {status}" if is_reached else said
            outcome: Outcome = "ok" if is_reached else "problem"
            yield CheckResult(f"upstream {name}", outcome, found)
    except HoldfastError as error:
        yield _problem("proxy", error)


def _bot(table: TelegramTable, token: str) -> Iterator[CheckResult]:
    """Ask Telegram for the bot; it may run meanwhile."""
    try:
        from holdfast.surfaces.telegram.api import BotApi
    except ImportError as error:
        found = f"a package is not installed: {error.name or error}"
        yield CheckResult("telegram", "problem", found, "pip install 'holdfast[telegram]'")
        return
    try:
        settings = table.settings(token)

        async def ask() -> str:
            async with BotApi(settings) as api:
                return (await api.me()).username

        yield CheckResult("telegram", "ok", f"the bot is @{asyncio.run(ask())}")
    except HoldfastError as error:
        yield _problem("telegram", error)
        return
    if not settings.allow:
        yield CheckResult(
            "telegram allow", "note", "the bot answers no one", "list ids in `allow`: it tells them"
        )


def _extras() -> CheckResult:
    present = [name for name, module in _EXTRAS.items() if _is_release_of(module)]
    missing = [name for name in _EXTRAS if name not in present]
    step = f"pip install 'holdfast[{missing[0]}]' and so on, as needed" if missing else ""
    text = f"installed: {', '.join(present) or 'none'}"
    return CheckResult(
        "extras", "ok", text + (f"; not: {', '.join(missing)}" * bool(missing)), step
    )


def _integrations() -> Iterator[CheckResult]:
    """Yield the frameworks that are installed here and have an adapter."""
    from holdfast.engine.adapters import integrations

    for found in integrations():
        if found.installed is None:
            continue
        text = f"{found.package} {found.installed}, tested with {found.range}"
        step = "" if found.is_tested else f"pip install '{found.package}=={found.newest}'"
        outcome: Outcome = "ok" if found.is_tested else "note"
        yield CheckResult(f"adapter {found.name}", outcome, text, step)


def _is_release_of(module: str) -> bool:
    package, _, rest = module.partition(".")
    if find_spec(package) is None:
        return False
    try:
        return not rest or find_spec(module) is not None
    except ImportError:
        return False


def _problem(check: str, error: HoldfastError) -> CheckResult:
    return CheckResult(check, "problem", str(error), error.hint or "")
