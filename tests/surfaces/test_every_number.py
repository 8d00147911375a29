"""Every number that bears the name of a fact is that fact, wherever a surface shows one.

Commands, routes, pages, slash commands and tools are found by introspection: one that is added is
read here, or has a reason why it shows no number of a session, or the test fails. What is compared
surface by surface is in `test_facts_agree`.
"""

from __future__ import annotations

import asyncio
import json
import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.support.answers import answer_of
from tests.support.cli import run_in_process
from tests.surfaces.http.servers import serving
from tests.surfaces.test_facts_agree import own_sessions, plain

from holdfast.core.history.access import OPERATOR
from holdfast.engine.operations.tools import TOOLS
from holdfast.engine.session.options import SessionOptions
from holdfast.engine.workspace.facts import read_facts
from holdfast.engine.workspace.request_preview import read_request, terms_of_session
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.providers.callables import from_callable
from holdfast.stores.opening import open_store
from holdfast.surfaces import slash_commands
from holdfast.surfaces.chat_context import ChatContext
from holdfast.surfaces.cli.help import COMMANDS
from holdfast.surfaces.http.server import HttpServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from holdfast.core.log.ids import SessionKey
    from holdfast.ports import SessionStore
    from holdfast.surfaces.http.route import Route

pytestmark = pytest.mark.files_only("the commands read a folder")

READ: Final[dict[str, list[list[str]]]] = {
    "sessions": [[]],
    "log": [["{session}"], ["{session}", "--branches"]],
    "history": [["{session}"]],
    "checkpoint": [["{session}"]],
    "reseed": [["{session}"]],
    "inspect": [["{session}"]],
    "context": [["{session}"], ["{session}", "--explain"]],
    "verify": [["{session}"]],
    "export": [["{session}"]],
    "show": [["{record}"]],
    "output": [["{result}", "-s", "{session}"]],
    "disk": [[]],
}
"""Commands that are read, and how."""
_CHANGES: Final = "changes a session"
_REPLAYS: Final = "numbers of a replay"
_RUNS: Final = "runs until it is stopped; its pages and answers are read as such"
PASSED_OVER: Final = {
    **dict.fromkeys(
        ("new", "label", "fork", "rm", "retention", "erase", "append", "rewind"), _CHANGES
    ),
    **dict.fromkeys(("import", "adopt", "copy"), _CHANGES),
    **dict.fromkeys(("simulate", "evaluate", "demo"), _REPLAYS),
    **dict.fromkeys(("serve", "proxy", "wrap", "mcp", "telegram", "chat"), _RUNS),
    **dict.fromkeys(
        ("audit", "memory", "models", "completion", "doctor", "classify", "timer", "token"),
        "of no session",
    ),
    "approvals": "of no session",
}
TOOLS_READ: Final[dict[str, dict[str, Any]]] = {
    "sessions_list": {},
    "sessions_history": {"sessionKey": "{session}"},
    "session_search": {"query": "question"},
    "context": {"action": "status", "sessionKey": "{session}"},
    "memory_search": {"query": "question", "scope": "all"},
    "memory_get": {"citation": "{key}#{record}"},
    "checkpoint_get": {"sessionKey": "{session}"},
    "approval_list": {"sessionKey": "{session}"},
    "timer_list": {"sessionKey": "{session}"},
}
SLASH_CHANGES: Final = {
    *("start", "new", "switch", "label", "mode", "reset", "model", "compact", "rewind", "undo"),
    *("checkpoint", "continue", "cancel", "quit", "remind", "reschedule", "unremind"),
}
OF_NO_SESSION: Final = {
    *("/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/trash", "/v1/inbox", "/v1/outbox"),
    *("/v1/timers", "/v1/approvals"),
    *("/v1/inbox/{message}", "/v1/events", "/v1/memory/search", "/v1/memory/passage", "/v1/notes"),
    *("/v1/notes/file", "/inbox", "/memory", "/health", "/health/verify", "/login"),
    *("/", "/savings", "/waiting", "/waiting/{key}", "/decide", "/timers", "/tokens", "/v1/tokens"),
    *("/static/console.css", "/static/console.js", "/static/htmx.min.js", "/static/icon.svg"),
}
LISTS: Final = {"/sessions", "/v1/sessions"}
"""Lists of all sessions, which `test_facts_agree` compares row by row."""
STREAMS: Final = {"/v1/sessions/{agent}/{session}/events"}

OTHER: Final = {
    ("status", "messages"): "messages in view",
    ("inspect", "records"): "records on the path, without the header",
    ("reseed", "messages"): "messages in its text",
}
"""Numbers that share a name with a fact, and are another one by their documentation."""

NOUNS: Final = ("turn", "call", "compaction", "prune", "trim")
OTHER_WORDS: Final = (
    r"about [\d,]+ more turns?",
    r"of them, [\d,]+ calls?",
    r"Shown: [\d,]+ calls",
    r"without [\d,]+ calls? of unknown price",
    r": [\d,]+ calls?, (?:\$|price)",
)
"""Phrases with a number and a noun that are about a part of them."""


def numbers_of(store: SessionStore, key: SessionKey) -> dict[str, float]:
    """Return every fact of a session, by the name that programs read, in one spelling."""
    facts = read_facts(store, key)
    plan = read_request(store, key, terms_of_session(store, key)).plan
    totals, spent, limits = facts.totals, facts.spent, plan.limits
    return {
        "turns": totals.turns,
        "calls": spent.calls,
        "tools": totals.tools,
        "compactions": totals.compactions,
        "prunes": totals.prunes,
        "records": facts.info.records,
        "messages": facts.info.messages,
        "prompttokens": spent.prompt,
        "outputtokens": spent.output,
        "unpriced": spent.gaps,
        "cost": spent.cost or 0.0,
        "messagestokens": plan.tokens_before,
        "compactat": limits.compact_at,
        "warnat": limits.warn_at,
        "spent.calls": spent.calls,
        "spent.unknown": spent.unknown,
        "spent.unpriced": spent.unpriced,
        "spent.prompt": spent.prompt,
        "spent.output": spent.output,
        "spent.cost": spent.cost or 0.0,
        "view.messages": plan.tokens_before,
        "view.compactat": limits.compact_at,
        "view.warnat": limits.warn_at,
        "tokens.total": plan.tokens.total,
        "budget.tokens": plan.budget.tokens,
        "budget": plan.budget.tokens,
        "window.tokens": plan.window.tokens,
    }


def named(value: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, float]]:
    """Yield the numbers of an object, and of objects right inside, by their names."""
    if isinstance(value, dict) and len(path) < 2:
        for name, each in value.items():
            yield from named(each, (*path, name))
    elif isinstance(value, int | float) and not isinstance(value, bool):
        yield ".".join(path).replace("_", "").lower(), value


def wrong_in_json(shown: Any, facts: dict[str, float], surface: str) -> list[str]:
    """Return what an answer for programs says otherwise."""
    return [
        f"{surface}: {name} is {value}, not {facts[name]}"
        for name, value in named(shown)
        if name in facts
        and (surface, name.partition(".")[0]) not in OTHER
        and value != pytest.approx(facts[name])
    ]


def wrong_in_text(text: str, facts: dict[str, float], surface: str) -> list[str]:
    """Return what a text for people says otherwise."""
    for words in OTHER_WORDS:
        text = re.sub(words, "", text)
    found = re.findall(rf"(?<![\w.,])(\d[\d,]*)\+? ({'|'.join(NOUNS)})s?\b", text)
    named_as = {"trim": "prunes"}
    return [
        f"{surface}: {number} {noun}, not {facts[named_as.get(noun, noun + 's')]}"
        for number, noun in found
        if int(number.replace(",", "")) != facts[named_as.get(noun, noun + "s")]
    ]


def filled(given: Any, values: dict[str, str]) -> Any:
    """Fill in the names of a session."""
    if isinstance(given, str):
        return re.sub(r"{(\w+)}", lambda found: values[found[1]], given)
    if isinstance(given, dict):
        return {name: filled(each, values) for name, each in given.items()}
    return [filled(each, values) for each in given]


def test_every_surface_is_read_or_has_a_reason() -> None:
    """A new command, route, slash command or tool has to be added here."""
    known = {*COMMANDS}
    assert set(READ) | set(PASSED_OVER) == known
    assert not set(READ) & set(PASSED_OVER)
    assert set(TOOLS_READ) == {name for name, tool in TOOLS.items() if tool.is_reading}
    assert {command.name for command in slash_commands.COMMANDS} > SLASH_CHANGES


def test_every_number_with_the_name_of_a_fact_is_that_fact(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over all commands, routes, pages, slash commands and tools that read."""
    root, wrong = tmp_path / "store", []
    with open_store(str(root)) as store:
        for key in own_sessions(store):
            facts, values = numbers_of(store, key), names_of(store, key)
            for surface, text in printed(root, values, capfd):
                wrong += wrong_in(text, facts, surface)
            for surface, text in typed(store, key):
                wrong += wrong_in_text(text, facts, surface)
            workspace = CallerWorkspace(store, OPERATOR)
            for name, given in TOOLS_READ.items():
                answer = json.dumps(answer_of(TOOLS[name].call, workspace, filled(given, values)))
                wrong += wrong_in(answer, facts, "status" if name == "context" else name)
            served = asyncio.run(answered(store, values, monkeypatch))
            assert len(served) > 20
            for surface, text in served:
                wrong += wrong_in(text, facts, surface)
    assert sorted(set(wrong)) == []


def wrong_in(text: str, facts: dict[str, float], surface: str) -> list[str]:
    """Return what an answer says otherwise, for programs or for people."""
    with suppress(ValueError):
        return wrong_in_json(json.loads(text), facts, surface)
    return wrong_in_text(text, facts, surface)


def names_of(store: SessionStore, key: SessionKey) -> dict[str, str]:
    records = list(store.read(key))
    result = next(rec.id for rec in records if rec.kind == "tool_result")
    names = {"agent": key.agent, "session": key.session, "key": str(key)}
    return {**names, "record": records[-1].id, "result": result, "ref": result}


def printed(root: Path, values: dict[str, str], capfd: Any) -> Iterator[tuple[str, str]]:
    """Yield what each command prints, for people and for programs."""
    for name, ways in READ.items():
        for way in ways:
            for more in ([], ["--json"]):
                argv = [name, *filled(way, values), *more, "--root", str(root)]
                done = run_in_process(argv, capfd)
                assert done.status == 0, (argv, done.err)
                yield name, done.out if more else done.out + done.err


def typed(store: SessionStore, key: SessionKey) -> Iterator[tuple[str, str]]:
    """Yield the answer to each slash command that changes nothing."""
    plan = read_request(store, key, terms_of_session(store, key)).plan
    model = from_callable(lambda _request: None, plan.target, plan.window)
    chat = ChatContext(store, key.agent, model, SessionOptions(), audience="operator")
    with chat.open(key):
        for command in slash_commands.COMMANDS:
            if command.name not in SLASH_CHANGES:
                yield f"/{command.name}", slash_commands.run_command(f"/{command.name}", chat).text


async def answered(
    store: SessionStore, values: dict[str, str], patch: pytest.MonkeyPatch
) -> list[tuple[str, str]]:
    """Return the answer of each address of a session. Every address is one, or is listed."""
    routes: list[Route] = []
    add = HttpServer.app

    def app(server: HttpServer) -> Any:
        routes.extend(server._routes)
        return add(server)

    patch.setattr(HttpServer, "app", app)
    found: list[tuple[str, str]] = []
    async with serving(store) as client:
        read = {route.path for route in routes if route.method == "GET"}
        of_session = {path for path in read if "{session}" in path}
        assert read - of_session == OF_NO_SESSION | LISTS
        for path in sorted(of_session - STREAMS):
            got = await client.get(filled(path, values))
            assert got.status_code == 200, (path, got.text[:300])
            name = path.rpartition("/")[2]
            found.append(
                (name, plain(got.text) if "html" in got.headers["content-type"] else got.text)
            )
    patch.undo()
    return found
