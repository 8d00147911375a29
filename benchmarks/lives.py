"""Long lives: what the user asked for, forbade and stated, in the request many windows later.

    .venv/bin/python benchmarks/lives.py [--window N] [--lives N]

A life is made up from a seed: turns of a user with an agent whose tool results fill the context
window many times over. The user lays something down several times a window, in 72 wordings.
Every statement holds a name that occurs nowhere else, so it is in view where that name is. The
session is kept as `Session` keeps it (a store, read from its newest boundary on); no model is
called. The patterns were chosen with 48 of the wordings in view; 24 (`FRESH`) were written later.
"""

from __future__ import annotations

import argparse
import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast import OPERATOR, Assistant, History, SessionKey, ToolResult, User, Window
from holdfast.context import ProjectionRequest
from holdfast.core.projection.project import project
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.engine.simulation.transcripts import text_in
from holdfast.models import target
from holdfast.records import Compaction
from holdfast.stores import ANY_HEAD, MemoryStore
from holdfast.tokens import Estimator

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast import Record
    from holdfast.context import Plan

KEY = SessionKey("main", "life")
STATIC_TOKENS = 1_500
TARGET = target("anthropic", model="claude-sonnet-4-5")
WINDOW = 32_000
CHARS_PER_TOKEN = 3.6
"""Of the made-up text; only how long a life is depends on it."""
GIANT_CHARS = 400_000

SEEN = (
    "Never touch {0}.",
    "Always run {0} before you commit.",
    "Do not rename {0}, other teams import it.",
    "From now on, write {0} in lower case.",
    "The ticket is {0}.",
    "Our staging server is {0}.",
    "I want {0} to stay below 200 lines.",
    "We decided to keep {0} for the queue.",
    "Make sure {0} is never logged.",
    "Remember that {0} is owned by the payments team.",
    "The deadline for {0} is the 4th of May.",
    "Let's use {0} for the retries.",
    "Please avoid {0} in the tests.",
    "We prefer {0} over hand-written mocks.",
    "The customer is called {0}.",
    "{0} must not depend on the network.",
    "Keep {0} at three attempts.",
    "Leave {0} alone, it is generated.",
    "Use {0} for every new endpoint.",
    "Only {0} may write to that table.",
    "Stick to {0} for the formatting.",
    "No more than five calls to {0} per minute.",
    "You can't use {0} here, the licence forbids it.",
    "{0} has to work on Windows too.",
    "Under no circumstances delete {0}.",
    "Don't push to {0}.",
    "Whatever you do, keep {0} backwards compatible.",
    "Every migration needs an entry in {0}.",
    "The budget for {0} is 400 euros a month.",
    "I'd like {0} to be documented in German.",
    "{0} is off limits.",
    "Stay away from {0}.",
    "Please don't add dependencies to {0}.",
    "All dates go through {0}.",
    "We agreed on {0} for the cache.",
    "It is important that {0} stays idempotent.",
    "Nobody but Ines may approve {0}.",
    "Rename the flag to {0}.",
    "Add a dry run to {0}.",
    "Write the changelog into {0}.",
    "Our contact at the bank is {0}.",
    "Tests for {0} belong in the slow suite.",
    "Never mind the style of {0}, but keep its exit codes.",
    "The password policy is described in {0}.",
    "Put new settings into {0}.",
    "Ask me before you change {0}.",
    "Releases are cut from {0}.",
    "{0} runs on port 8443.",
)
FRESH = (
    "Our auditors read {0} every quarter.",
    "I promised the client that {0} will not move.",
    "Please check with Tom about {0} first.",
    "Hold off on {0} until June.",
    "We cannot afford another outage of {0}.",
    "{0} stays in Python.",
    "The new logo lives in {0}.",
    "Whoever merges also updates {0}.",
    "Treat {0} as read-only.",
    "I'm allergic to clever code in {0}.",
    "Documentation for {0} is due on Friday.",
    "If {0} fails, page me.",
    "{0} replaces the old importer.",
    "There is a freeze on {0}.",
    "Legal wants {0} encrypted.",
    "Skip {0} in the nightly run.",
    "Double-check the totals in {0}.",
    "Refrain from editing {0} by hand.",
    "Nothing in {0} may block the event loop.",
    "My preference is {0} over the other one.",
    "Bump {0} only with my approval.",
    "Let {0} be.",
    "The limit for {0} is 50 requests a second.",
    "We ship {0} on the first of each month.",
)
"""Written after the patterns, by the author of the patterns; no pattern was changed for them."""
TALK = (
    "Good, that looks right to me. ",
    "I had a look at the last run and most of it is fine. ",
    "The page loads faster than yesterday. ",
    "Thanks, that was quick. ",
    "I will be back after lunch. ",
    "Somebody on the team asked about this again. ",
    "Go through the output once more and tell me what you think of it. ",
    "It took a while this morning until I understood it. ",
)
ASKED = ("Go on with the next part.", "Look at the failing test.", "Please continue.")
PLACES = ("src", "lib", "app", "core", "web")
SOUNDS = ("ka", "lo", "mi", "ter", "vo", "san", "del", "ru", "pex", "nor", "bi", "qua")


@dataclass(frozen=True, slots=True)
class Statement:
    """Something that the user laid down, and the name in it."""

    text: str
    name: str
    is_seen: bool


def make_life(
    windows: float, window: int, seed: int, *, giant: bool = False
) -> Iterator[tuple[list[Record], list[Statement]]]:
    """Turns until their text fills so many windows; with `giant`, one huge message ends it."""
    rng = random.Random(seed)
    total, turn, number = 0.0, 0, 0
    while total < windows * window:
        turn += 1
        said: list[Statement] = []
        if rng.random() < 0.45 or turn == 1:
            number += 1
            said.append(_statement(rng, number))
        talk = [rng.choice(TALK) for _ in range(rng.choice((0, 1, 3, 8, 40)))]
        words = [*talk, *(f"{one.text} " for one in said)]
        rng.shuffle(words)
        records: list[Record] = [User(content="".join((*words, rng.choice(ASKED))))]
        for step in range(rng.randint(1, 3)):
            call = f"t{turn}s{step}"
            path = f"{rng.choice(PLACES)}/{_word(rng)}.py"
            use = {"type": "tool_use", "id": call, "name": "read_file", "input": {"path": path}}
            records.append(Assistant(content=[{"type": "text", "text": f"I read {path}."}, use]))
            records.append(ToolResult(tool_use_id=call, content=_output(rng)))
        records.append(Assistant(content="Done with this part; the next one is open."))
        total += sum(len(str(getattr(one, "content", ""))) for one in records) / CHARS_PER_TOKEN
        yield records, said
    if giant:
        yield _giant_turn(rng, number)


def _giant_turn(rng: random.Random, number: int) -> tuple[list[Record], list[Statement]]:
    """One message of 400,000 characters with an instruction in its middle."""
    inside = _statement(rng, number + 1)
    half = "".join(f"{_word(rng)} {_word(rng)} went by at {n}.\n" for n in range(GIANT_CHARS // 60))
    text = f"{half[: GIANT_CHARS // 2]}\n{inside.text}\n{half[: GIANT_CHARS // 2]}"
    return [User(content=text), Assistant(content="I have read it.")], [inside]


def _statement(rng: random.Random, number: int) -> Statement:
    is_seen = rng.random() < 0.5
    wording = rng.choice(SEEN if is_seen else FRESH)
    name = f"{_word(rng)}_{_word(rng)}_{number}"
    text = wording.format(name)
    return Statement(text[0].upper() + text[1:] if text[0] != name[0] else text, name, is_seen)


def _word(rng: random.Random) -> str:
    return "".join(rng.choice(SOUNDS) for _ in range(rng.randint(2, 3)))


def _output(rng: random.Random) -> str:
    words = [f"{_word(rng)}_{_word(rng)}" for _ in range(20)]
    lines = rng.randint(40, 300)
    return "\n".join(
        f"{n:4d}  {words[n % 20]}({words[n * 7 % 20]}, {n % 13})" for n in range(lines)
    )


@dataclass(slots=True)
class View:
    """What is in view at the end of a life."""

    statements: list[Statement]
    in_view: set[str]
    twice: int
    cuts: int
    reached: int
    """Of those that are not in view: how many one search of the session finds."""
    says_so: bool
    opening_tokens: int
    budget: int

    def count(self, is_seen: bool | None = None) -> tuple[int, int]:
        wanted = [one for one in self.statements if is_seen is None or one.is_seen == is_seen]
        return sum(one.name in self.in_view for one in wanted), len(wanted)


def live(turns: Iterator[tuple[list[Record], list[Statement]]], window: int) -> View:
    """Run a life as a session does, and look at the request at its end."""
    store = MemoryStore()
    store.create(KEY)
    cache = ProjectionCache(Scale(Estimator()))
    said: list[Statement] = []
    cuts = 0
    for records, statements in turns:
        said += statements
        for place, record in enumerate(records):
            store.append(KEY, [record], expect=ANY_HEAD)
            if isinstance(record, Assistant) and place < len(records) - 1:
                continue  # its result is next
            plan = _plan(store, window, cache)
            if plan.decisions:
                cuts += any(isinstance(one, Compaction) for one in plan.decisions)
                store.append(KEY, list(plan.decisions), expect=ANY_HEAD)
    store.append(KEY, [User(content="What is next?")], expect=ANY_HEAD)
    plan = _plan(store, window, cache)
    text = "\n".join(text_in(block) for one in plan.prompt.messages for block in one.blocks)
    in_view = {one.name for one in said if one.name in text}
    missing = [one for one in said if one.name not in in_view]
    history = History(store, caller=OPERATOR)
    reached = sum(one.text in history.text(str(KEY), query=one.text) for one in missing)
    twice = sum(text.count(one.text) > 1 for one in said)
    opening = sum(
        cache.scale.counter.count(text_in(block))
        for unit in plan.opening_units
        for part in unit.parts
        for block in part.blocks
    )
    says_so = "not listed" in text
    return View(said, in_view, twice, cuts, reached, says_so, opening, plan.budget.tokens)


def _plan(store: MemoryStore, window: int, cache: ProjectionCache) -> Plan:
    request = ProjectionRequest(
        store.live(KEY, window=Window(window)).records,
        Window(window, "simulated"),
        TARGET,
        system="word " * STATIC_TOKENS,
        floor=0,
    )
    return project(request, cache)


def rows(window: int, lives: int, cases: Sequence[tuple[str, float, bool]]) -> list[str]:
    """A line of a table for each kind of life."""
    lines = []
    for title, windows, giant in cases:
        views = [
            live(make_life(windows, window, seed, giant=giant), window) for seed in range(lives)
        ]
        whole = _sum(view.count() for view in views)
        seen, counted = _sum(v.count(True) for v in views), _sum(v.count(False) for v in views)
        missing = whole[1] - whole[0]
        lines.append(
            f"| {title} | {sum(view.cuts for view in views):,} | {_share(whole)} | {_share(seen)} "
            f"| {_share(counted)} | {sum(view.twice for view in views)} "
            f"| {sum(view.reached for view in views):,} of {missing:,} "
            f"| {sum(view.opening_tokens / view.budget for view in views) / len(views):.1%} |"
        )
    return lines


def _sum(counts: Iterator[tuple[int, int]]) -> tuple[int, int]:
    pairs = list(counts)
    return sum(one for one, _ in pairs), sum(all_ for _, all_ in pairs)


def _share(count: tuple[int, int]) -> str:
    return f"{count[0]:,} of {count[1]:,}"


CASES = (
    ("14 windows", 14, False),
    ("100 windows", 100, False),
    ("half a window, then one message of 400,000 characters", 0.5, True),
    ("14 windows, then one message of 400,000 characters", 14, True),
)
HEAD = (
    "| life | cuts | in view | wordings chosen on | fresh wordings | twice | one search away "
    "| opening, of the budget |\n|---|---:|---:|---:|---:|---:|---:|---:|"
)


ABOUT = """## Long lives

Made-up lives at a window of {window:,} tokens (`python benchmarks/lives.py`): turns of a user with an agent whose tool results fill the window 14 and 100 times, run as a session runs them, without a model. In a little under half of the turns the user asks for something, forbids it or states a fact. A statement is in view where the name in it, which occurs nowhere else, is in the request. "One search away": of those that are not, one search of the session for the sentence shows it.

**Read this first.** The forms that find such sentences were changed with all 72 wordings in view, so neither column says much about yours. The 24 fresh ones had been written after the patterns that the forms replaced. The lives are of one seed, and no life of a person.

Before (commit b8825ef), by words instead of forms, the same lives had 45 of 60, 71 of 376, 2 of 3 and 45 of 61 statements in view, and of the fresh wordings 17 of 31, 13 of 188, 1 of 1 and 17 of 31. Before the list had a share of the budget of its own (commit 13e964a), it was 27 of 60, 41 of 376, 2 of 3 and 27 of 61.
After 100 windows most statements are not in view: together they take about five times `Policy.instructions_share` of so small a window; the list says how many are missing. Of the wordings that the older patterns knew, 39 are in view where it was 58, because the others are in view in their place.

"""  # noqa: E501


def section(window: int = WINDOW, lives: int = 1) -> str:
    """The part of the page on fidelity that is about long lives."""
    return "\n".join((ABOUT.format(window=window) + HEAD, *rows(window, lives, CASES))) + "\n"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--window", type=int, default=WINDOW)
    options.add_argument("--lives", type=int, default=1)
    options.add_argument("--cases", type=int, default=len(CASES))
    given = options.parse_args()
    sys.stdout.write(HEAD + "\n")
    for case in CASES[: given.cases] if given.cases > 0 else CASES[given.cases :]:
        sys.stdout.write("\n".join(rows(given.window, given.lives, [case])) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
