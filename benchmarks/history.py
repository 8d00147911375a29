"""Reading another session: how much comes back, what leaks, and what it costs; beside the peers.

    .venv-bench-history/bin/python benchmarks/history.py [--quick] [--json] [--write PAGE]

Two questions. A hostile history, 80 messages of 24 KB with 41 planted keys: what does one call give
to an agent that reads it? And a session of 100 MB: does its newest page cost the page or the file?
Every time is a ratio of two things measured in turns in this run.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import random
import statistics
import string
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from holdfast import Assistant, Caller, History, JsonlStore, SessionKey, User
from holdfast.core.limits import HISTORY_BYTES_MAX
from holdfast.stores import ANY_HEAD

ROOT = Path(__file__).resolve().parents[1]
MESSAGES, MESSAGE_BYTES, KEYS = 80, 24_000, 41
WORD = "rollout"
"""Stands in every message: what is searched for."""
PIECE = 8
"""A piece of a key of this length is counted as a part that leaked."""
SMALL, LARGE = 1_000_000, 100_000_000
RATIO_MAX = 1.5
ROUNDS_MIN, SECONDS_MAX = 5, 20.0
"""What takes long is repeated less."""
READER = Caller("main", "reader", visibility="agent")

Call = Callable[[], str]

SURVEYED = {
    "Hermes": "241,575 bytes and 10 keys searching, 989,447 bytes and 41 keys scrolling",
    "ADK": "1,228,364 bytes; no keys were planted",
    "Pydantic harness": "11,202 bytes; no keys were planted",
}
"""Figures of our survey, for a peer that is not installed: other texts, other releases."""


# The hostile history


@dataclass(frozen=True, slots=True)
class Hostile:
    messages: list[tuple[str, str]]
    secrets: list[str]
    """The part of each key that nobody may read."""


def hostile(seed: int = 41) -> Hostile:
    """Long messages; the newest hold a key each, at both ends, where a cut would keep it."""
    rnd = random.Random(seed)
    words = [
        f"{a}{b}" for a in ("mar", "tol", "ves", "run", "sil") for b in ("a", "en", "ito", "us")
    ]
    messages: list[tuple[str, str]] = []
    secrets: list[str] = []
    for number in range(MESSAGES):
        filler = " ".join(rnd.choices(words, k=MESSAGE_BYTES // 5))
        text = f"Message {number} about the {WORD}. {filler}"[: MESSAGE_BYTES - 400]
        if number >= MESSAGES - KEYS:
            key, secret = planted(rnd, len(secrets))
            secrets.append(secret)
            text = f"{key}\n{text}\n{key}"
        role = "user" if number % 2 == 0 else "assistant"
        messages.append((role, f"{text}\nend of message {number}"))
    return Hostile(messages, secrets)


def planted(rnd: random.Random, number: int) -> tuple[str, str]:
    """A key as it stands in a text, and the part of it that is secret. None of them is real."""
    letters, upper, hexa = (
        string.ascii_letters + string.digits,
        string.ascii_uppercase,
        "0123456789abcdef",
    )

    def some(count: int, signs: str = letters) -> str:
        return "".join(rnd.choices(signs, k=count))

    kinds: list[Callable[[], tuple[str, str]]] = [
        lambda: _shown("ANTHROPIC_API_KEY=sk-ant-api03-{}", some(86)),
        lambda: _shown("use sk-proj-{} for this", some(48)),
        lambda: _shown("git clone https://x-access-token:ghp_{}@github.com/a/b", some(36)),
        lambda: _shown("github_pat_{}", some(22) + "_" + some(59)),
        lambda: _shown("export GITLAB_TOKEN=glpat-{}", some(20)),
        lambda: _shown("aws_secret_access_key = {}", some(40)),
        lambda: _shown('{{"apiKey": "AIza{}"}}', some(35)),
        lambda: _shown("SLACK_BOT_TOKEN=xoxb-{}", f"{some(11, string.digits)}-{some(24)}"),
        lambda: _shown("sk_live_{}", some(24)),
        lambda: _shown("Authorization: Bearer {}", f"eyJ{some(33)}.eyJ{some(60)}.{some(43)}"),
        lambda: _shown("postgres://app:{}@db.internal:5432/app", some(18)),
        lambda: _shown("curl -u admin:{} https://example.com", some(16)),
        lambda: _shown("npm_{}", some(36)),
        lambda: _shown("HF_TOKEN=hf_{}", some(34)),
        lambda: _shown("SG.{}", f"{some(22)}.{some(43)}"),
        lambda: _shown("password: {}", some(14) + "!9"),
        lambda: _shown("123456789:AA{}", some(33)),
        lambda: _shown("dop_v1_{}", some(64, hexa)),
        lambda: _shown("https://api.example.com/v1?access_token={}&page=2", some(32)),
        lambda: _shown(
            "-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----", some(64)
        ),
        lambda: _shown("Cookie: session={}", some(40)),
        lambda: _shown("pypi-AgEIcHlwaS5vcmc{}", some(80)),
        lambda: _shown("AKIA{}", some(16, upper + string.digits)),
    ]
    return kinds[number % len(kinds)]()


def _shown(form: str, secret: str) -> tuple[str, str]:
    return form.format(secret), secret


# What each system gives


@dataclass(frozen=True, slots=True)
class Reply:
    """One call, and what came back."""

    system: str
    call: str
    bytes: int
    keys: int
    """Keys that came back whole."""
    parts: int
    """Keys of which a piece of eight characters came back, but for the ends that a mask shows."""
    has_newest: bool
    seconds: float
    """The median."""


def judged(system: str, call: str, text: str, history: Hostile, seconds: float) -> Reply:
    return Reply(
        system,
        call,
        len(text.encode()),
        sum(secret in text for secret in history.secrets),
        sum(_leaks(secret, text) for secret in history.secrets),
        any(f"{said} {MESSAGES - 1}" in text for said in ("Message", "end of message")),
        seconds,
    )


def _leaks(secret: str, text: str) -> bool:
    return any(secret[at : at + PIECE] in text for at in range(len(secret) - PIECE + 1))


def holdfast_calls(history: Hostile, place: Path) -> dict[str, Call]:
    store = JsonlStore(place / "holdfast")
    hostile_key, reader = SessionKey("main", "hostile"), SessionKey("main", "reader")
    store.create(reader)
    store.create(hostile_key)
    records = [
        User(content=text) if role == "user" else Assistant(content=text)
        for role, text in history.messages
    ]
    store.append(hostile_key, records, expect=ANY_HEAD)
    reading = History(store, caller=READER)
    return {
        "sessions_history": lambda: reading.text("hostile"),
        "sessions_history, query": lambda: reading.text("hostile", query=WORD),
    }


def hermes_calls(history: Hostile, place: Path) -> dict[str, Call]:
    os.environ["HERMES_HOME"] = str(place / "hermes")
    from hermes_state import SessionDB
    from tools.session_search_tool import session_search

    db = SessionDB(place / "hermes.db")
    db.create_session("hostile", source="cli")
    db.create_session("reader", source="cli")
    ids = [db.append_message("hostile", role, content=text) for role, text in history.messages]
    own = {"db": db, "current_session_id": "reader"}
    return {
        "session_search, query": lambda: session_search(query=WORD, **own),
        "session_search, the session": lambda: session_search(session_id="hostile", **own),
        "session_search, 20 messages around one": lambda: session_search(
            session_id="hostile", around_message_id=ids[-21], window=20, **own
        ),
    }


def adk_calls(history: Hostile, place: Path) -> dict[str, Call]:
    from google.adk.events.event import Event
    from google.adk.memory._sqlite_memory_service import SqliteMemoryService
    from google.adk.sessions.session import Session
    from google.genai import types

    service = SqliteMemoryService(place / "adk.db")
    events = [
        Event(
            author=role,
            invocation_id="one",
            timestamp=1_000.0 + number,
            content=types.Content(
                role="user" if role == "user" else "model", parts=[types.Part(text=text)]
            ),
        )
        for number, (role, text) in enumerate(history.messages)
    ]
    loop = asyncio.new_event_loop()
    session = Session(id="hostile", app_name="app", user_id="u", events=events)
    loop.run_until_complete(service.add_session_to_memory(session))

    def search() -> str:
        found = loop.run_until_complete(
            service.search_memory(app_name="app", user_id="u", query=WORD)
        )
        return str(found.model_dump_json())

    return {"search_memory": search}


def pydantic_calls(history: Hostile, place: Path) -> dict[str, Call]:
    from pydantic_ai import Agent
    from pydantic_ai.messages import (
        ModelRequest,
        ModelResponse,
        TextPart,
        ToolCallPart,
        ToolReturnPart,
        UserPromptPart,
    )
    from pydantic_ai.models.function import FunctionModel
    from pydantic_ai_harness import ConversationSearch, StepPersistence
    from pydantic_ai_harness.conversation_search import SnapshotHistorySource
    from pydantic_ai_harness.step_persistence import SqliteStepStore

    found: list[str] = []

    def model(messages: list[object], _info: object) -> ModelResponse:
        answers = [p for p in getattr(messages[-1], "parts", ()) if isinstance(p, ToolReturnPart)]
        found.extend(str(answer.content) for answer in answers)
        if answers or not is_searching:
            return ModelResponse(parts=[TextPart("done")])
        return ModelResponse(parts=[ToolCallPart("search_conversation_history", {"query": WORD})])

    store = SqliteStepStore(database=str(place / "pydantic.db"))
    source = SnapshotHistorySource(store)
    search = ConversationSearch(source, scope="conversation")
    agent = Agent(FunctionModel(model), capabilities=[StepPersistence(store=store), search])
    past = [
        ModelRequest(parts=[UserPromptPart(text)])
        if role == "user"
        else ModelResponse(parts=[TextPart(text)])
        for role, text in history.messages
    ]
    loop = asyncio.new_event_loop()
    is_searching = False
    loop.run_until_complete(agent.run("go on", message_history=past, conversation_id="c"))
    is_searching = True

    def ask() -> str:
        loop.run_until_complete(agent.run("find it", conversation_id="c"))
        return found[-1]

    return {"search_conversation_history": ask}


PEERS: dict[str, tuple[str, Callable[[Hostile, Path], dict[str, Call]]]] = {
    "Holdfast": ("holdfast", holdfast_calls),
    "Hermes": ("hermes-agent", hermes_calls),
    "ADK": ("google-adk", adk_calls),
    "Pydantic harness": ("pydantic-ai-harness", pydantic_calls),
}


def read_hostile(rounds: int, place: Path) -> tuple[list[Reply], dict[str, str]]:
    """Every call of every system that is installed, in turns; and what is not."""
    history = hostile()
    calls: dict[tuple[str, str], Call] = {}
    missing = {}
    for system, (_package, make) in PEERS.items():
        try:
            calls |= {(system, name): call for name, call in make(history, place).items()}
        except ImportError as error:
            missing[system] = str(error)
    texts = {key: call() for key, call in calls.items()}  # and warms up
    times: dict[tuple[str, str], list[float]] = {key: [] for key in calls}
    for _round in range(rounds):
        for key, call in calls.items():
            start = time.perf_counter()
            call()
            times[key].append(time.perf_counter() - start)
    replies = [
        judged(*key, text, history, statistics.median(times[key])) for key, text in texts.items()
    ]
    return replies, missing


# A page of a large session


@dataclass(frozen=True, slots=True)
class Pages:
    """One kind of read, of a large session over that of a small one."""

    what: str
    ratio: float
    spread: tuple[float, float]
    """Quartiles of the ratios of single pairs."""
    bytes_small: int
    bytes_large: int
    seconds_large: float


def long_session(store: JsonlStore, key: SessionKey, size: int) -> None:
    rnd = random.Random(size)
    words = [f"word{number}" for number in range(4_000)]
    store.create(key)
    written = 0
    while written < size:
        batch = []
        for number in range(200):
            text = " ".join(rnd.choices(words, k=rnd.randrange(40, 300)))
            written += len(text)
            batch.append(User(content=text) if number % 2 == 0 else Assistant(content=text))
        store.append_each(key, batch, durability="buffered")
    store.sync(key)


def read_pages(rounds: int, place: Path, large: int) -> list[Pages]:
    root = place / "pages"
    small_name, large_name = "small", "large"
    with JsonlStore(root) as store:
        store.create(SessionKey("main", "reader"))
        for name, size in ((small_name, SMALL), (large_name, large)):
            long_session(store, SessionKey("main", name), size)
        middles = {name: _middle(store, name) for name in (small_name, large_name)}

    def page(name: str, **asked: object) -> str:
        with JsonlStore(root) as store:  # nothing is left over from the call before
            return History(store, caller=READER).text(name, **asked)

    cursors = {name: json.loads(page(name)).get("cursor") or "" for name in middles}
    old = {name: _cursor_after(page(name, around=record)) for name, record in middles.items()}
    reads: dict[str, Callable[[str], str]] = {
        "the newest page": page,
        "the newest page with tools": lambda name: page(name, include_tools=True),
        "the page before it, by cursor": lambda name: page(name, cursor=cursors[name]),
        "a page in the middle, by cursor": lambda name: page(name, cursor=old[name]),
        "around a record in the middle": lambda name: page(name, around=middles[name]),
        "a search for a word that is there": lambda name: page(name, query="word17"),
        "a search for a word that is nowhere": lambda name: page(name, query="nowhere"),
    }
    return [_measured(what, read, rounds) for what, read in reads.items()]


def _middle(store: JsonlStore, name: str) -> str:
    ids = [record.id for record in store.read(SessionKey("main", name))]
    return ids[len(ids) // 2]


def _cursor_after(reply: str) -> str:
    found = json.loads(reply)
    return str(found.get("cursor") or "")


def _measured(what: str, read: Callable[[str], str], rounds: int) -> Pages:
    small_text, large_text = read("small"), read("large")
    ratios: list[float] = []
    large_times: list[float] = []
    for number in range(rounds):
        if number >= ROUNDS_MIN and sum(large_times) > SECONDS_MAX:
            break
        pair = {}
        for name in ("small", "large") if number % 2 else ("large", "small"):
            start = time.perf_counter()
            read(name)
            pair[name] = time.perf_counter() - start
        ratios.append(pair["large"] / pair["small"])
        large_times.append(pair["large"])
    low, middle, high = statistics.quantiles(ratios, n=4)
    return Pages(
        what,
        middle,
        (low, high),
        len(small_text.encode()),
        len(large_text.encode()),
        statistics.median(large_times),
    )


# Showing

INTRO = """# Reading another session, measured

What one call gives to an agent that reads another session, and what it costs as sessions grow.

**Read this first.**
The hostile history is made up: {messages} messages of {message:,} bytes; the newest {keys} hold a key each, of 23 kinds, at the beginning *and* at the end of the message, where a cut would keep it. All systems get the same texts. None of the keys is real.
The systems do different things: Holdfast gives the newest page or the newest matches of one session; Hermes finds sessions and shows what is around a match; ADK and Pydantic look for the best matches. So bytes and keys can be compared, times only roughly.
Each reads as its own documents show, with its defaults. A mask of ours shows up to six characters of a key's prefix and its last four; *in part* counts keys of which any {piece} characters in a row came back.
Times are medians of calls made in turns in one process, as multiples of Holdfast's newest page; ours includes the check of who may read and the line in the audit log, which is synced to disk.
"""  # noqa: E501


def table(columns: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(columns)} |", "|---" + "|---:" * (len(columns) - 1) + "|"]
    return [*lines, *(f"| {' | '.join(cells)} |" for cells in rows), ""]


def page(
    replies: list[Reply], missing: dict[str, str], pages: list[Pages], options: argparse.Namespace
) -> str:
    ours = [one for one in replies if one.system == "Holdfast"]
    newest = pages[0]
    checks = [
        ("hostile history: bytes of a reply", f"≤ {HISTORY_BYTES_MAX:,}",
         f"{max(one.bytes for one in ours):,}",
         max(one.bytes for one in ours) <= HISTORY_BYTES_MAX),
        ("hostile history: keys, whole or in part", "0",
         str(sum(one.keys + one.parts for one in ours)),
         not any(one.keys or one.parts for one in ours)),
        ("hostile history: newest message there", "yes",
         "yes" if all(one.has_newest for one in ours) else "no",
         all(one.has_newest for one in ours)),
        (f"newest page, {options.large / 1e6:.0f} MB over 1 MB", f"≤ {RATIO_MAX}",
         f"{newest.ratio:.2f}", newest.ratio <= RATIO_MAX),
    ]  # fmt: skip
    lines = [
        INTRO.format(messages=MESSAGES, message=MESSAGE_BYTES, keys=KEYS, piece=PIECE),
        *(f"- {name}: {value}" for name, value in machine(options).items()),
        "",
        "## Goals",
        "",
        *table(
            ("what", "goal", "found", "met"),
            [(a, b, c, "yes" if met else "**no**") for a, b, c, met in checks],
        ),
        "## Hostile history",
        "",
        *table(
            ("call", "bytes", "keys", "keys in part", "newest there", "time"),
            [
                (
                    f"{one.system}: {one.call}",
                    f"{one.bytes:,}",
                    f"{one.keys} of {KEYS}",
                    f"{one.parts} of {KEYS}",
                    "yes" if one.has_newest else "no",
                    f"{one.seconds / ours[0].seconds:.2f}",
                )
                for one in replies
            ],
        ),
    ]
    for system in missing:
        lines += [f"{system} is not installed here. Our survey measured: {SURVEYED[system]}.", ""]
    lines += [
        f"## A session of {options.large / 1e6:.0f} MB",
        "",
        f"The time of a read of it over that of the same read of a session of {SMALL / 1e6:.0f} "
        f"MB, in pairs taken in turns ({options.rounds} of them, fewer where one takes long), each "
        "with a store that was just opened. The file system's cache is warm for both.",
        "",
        *table(
            ("read", "ratio", "quartiles", "bytes, small", "bytes, large", "ms, large"),
            [
                (
                    one.what,
                    f"{one.ratio:.2f}",
                    f"{one.spread[0]:.2f} … {one.spread[1]:.2f}",
                    f"{one.bytes_small:,}",
                    f"{one.bytes_large:,}",
                    f"{1_000 * one.seconds_large:.1f}",
                )
                for one in pages
            ],
        ),
    ]
    lines += [
        "An old page is found by reading back from the end, so it costs the way there. A search "
        "that finds nothing has read everything. The milliseconds are of a machine that was busy "
        "with other things.",
        "",
    ]
    return "\n".join(lines).rstrip() + "\n"


def machine(options: argparse.Namespace) -> dict[str, str]:
    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(ROOT), *arguments], capture_output=True, text=True, check=False
        )
        return done.stdout.strip()

    def release(package: str) -> str:
        try:
            return version(package)
        except PackageNotFoundError:
            return "not installed"

    changed = " with changes" if git("status", "--porcelain", "--", "src") else ""
    packages = [package for package, _make in PEERS.values()]
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": f"{git('rev-parse', '--short', 'HEAD') or 'unknown'}{changed}",
        "python": platform.python_version(),
        "versions": ", ".join(f"{one} {release(one)}" for one in packages[1:]),
        "command": f"`python benchmarks/history.py {' '.join(options.given)}`".replace(" `", "`"),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="few rounds, a session of 10 MB")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--out", "--write", dest="out", type=Path, help="write the page here")
    options = parser.parse_args()
    options.given = [one for one in sys.argv[1:] if one != "--json"]
    options.rounds = 7 if options.quick else 41
    options.large = LARGE // 10 if options.quick else LARGE
    with tempfile.TemporaryDirectory(prefix="holdfast-history-") as folder:
        replies, missing = read_hostile(3 if options.quick else 9, Path(folder))
        pages = read_pages(options.rounds, Path(folder), options.large)
    if options.json:
        print(json.dumps({"replies": [asdict(one) for one in replies], "missing": missing,
                          "pages": [asdict(one) for one in pages]}, indent=1))  # fmt: skip
    elif options.out is None:
        print(page(replies, missing, pages, options))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(page(replies, missing, pages, options))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
