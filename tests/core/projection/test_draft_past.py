"""The user's messages are in every later request, once, as long as they fit their share."""

from __future__ import annotations

import functools
import random
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.support.runs import RUN

from holdfast import SessionKey
from holdfast.core.log.records import Assistant, Compaction, Record, ToolResult, User
from holdfast.core.models.messages import Text, ToolAnswer, ToolCall
from holdfast.core.narrative.carryover import CarryOver, carry_digests
from holdfast.core.projection import draft as past
from holdfast.core.projection.draft import find_superseded
from holdfast.core.projection.policy import Policy, PromptCache
from holdfast.core.projection.project import Plan, project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.units import ContextUnit, MessagePart
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.window import Window
from holdfast.models import target
from holdfast.ports import ANY_HEAD
from holdfast.stores import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.narrative.digest import Digest

KEY: Final = SessionKey("main", "life")
TARGET: Final = target("anthropic", model="claude-sonnet-4-5")
LIVES: Final = {"quick": 1, "test": 2, "nightly": 60}[RUN]
WINDOWS: Final = (32_000, 64_000, 200_000)[: 3 if RUN == "nightly" else 1]
WORDINGS: Final = (
    "Never touch {0}.",
    "{0} hat Zeit bis Mai.",
    "请不要改动 {0}。",
    "Solo Inés aprueba {0}.",
    "{0} – нельзя.",
)
"""What a user lays down, in any language."""
TALK: Final = "That was quick, thanks. Have a look at the rest of it and go on from there. "


class Life:
    """A session without a model: records are appended, and each request's decisions kept."""

    def __init__(self, window: int, policy: Policy | None = None) -> None:
        self.window = window
        self.policy = policy or Policy()
        self.cuts = 0
        self._store = MemoryStore()
        self._store.create(KEY)
        self._cache = ProjectionCache()

    def add(self, *records: Record, idle: float = 1.0) -> str:
        """Append records; returns the text of the next request."""
        self._store.append(KEY, list(records), expect=ANY_HEAD)
        plan = self._plan(idle)
        text = read_plan(plan)
        if plan.decisions:
            self._check(plan)
            self.cuts += any(isinstance(record, Compaction) for record in plan.decisions)
            self._store.append(KEY, list(plan.decisions), expect=ANY_HEAD)
            assert read_plan(self._plan(1.0)) == text
        return text

    def _check(self, plan: Plan) -> None:
        """Every cut of ours says what it stands for: records of the log, up to one that is no
        older than where the cut before it ended."""
        path = [record.id for record in self._store.read(KEY)]
        cuts = [record for record in self._store.read(KEY) if isinstance(record, Compaction)]
        for made in plan.decisions:
            if isinstance(made, Compaction):
                assert made.covers is not None
                first, last = map(path.index, made.covers)
                ends = [path.index(cut.covers[1]) for cut in cuts if cut.covers]
                assert first <= last
                assert last >= max(ends, default=0)

    def _plan(self, idle: float) -> Plan:
        records = self._store.live(KEY, window=Window(self.window)).records
        return project(self._request(idle, records), self._cache)

    def _request(self, idle: float, records: Sequence[Record]) -> ProjectionRequest:
        cache = PromptCache(idle_seconds=idle)
        window = Window(self.window, "simulated")
        return ProjectionRequest(
            records, window, TARGET, policy=self.policy, prompt_cache=cache, floor=0
        )


def read_plan(plan: Plan) -> str:
    """Everything that a model reads."""
    texts: list[str] = []
    for message in plan.prompt.messages:
        for block in message.blocks:
            pieces = block.content if isinstance(block, ToolAnswer) else (block,)
            texts += [piece.text for piece in pieces if isinstance(piece, Text)]
    return " ".join("\n".join(texts).split())


def a_step(rng: random.Random, number: int) -> list[Record]:
    use = {"type": "tool_use", "id": f"c{number}", "name": "read", "input": {"path": "a/b.py"}}
    content = "\n".join(f"{line} {rng.random()}" for line in range(rng.randint(1, 250)))
    return [Assistant(content=[use]), ToolResult(tool_use_id=f"c{number}", content=content)]


@pytest.mark.parametrize("seed", range(LIVES))
def test_short_messages_are_in_every_later_request_once(seed: int) -> None:
    """Random lives: long and short messages, pasted ones, long turns, cold and warm caches."""
    rng = random.Random(seed)
    life = Life(rng.choice((24_000, 32_000, 64_000)))
    laid_down: list[str] = []
    for number in range(35):
        if len(laid_down) < 22:
            laid_down.append(rng.choice(WORDINGS).format(f"heron_{number}.py"))
            life.add(User(content=laid_down[-1]), Assistant(content="Noted."))
        words = [TALK] * rng.choice((1, 5, 40))
        if rng.random() < 0.05:
            words.append("".join(f"{line} went by\n" for line in range(rng.choice((900, 9_000)))))
        shown = life.add(User(content="".join(words)))
        for step in range(rng.choice((0, 1, 2, 12))):
            idle = rng.choice((1.0, 1.0, 1.0, 1_000.0))
            shown = life.add(*a_step(rng, number * 100 + step), idle=idle)
            counts = {rule: shown.count(rule) for rule in laid_down}
            assert set(counts.values()) == {1}, {r: n for r, n in counts.items() if n != 1}
        life.add(Assistant(content="Done with that."))
    assert life.cuts > 2


class HeldLife(Life):
    """A session that was held since it began: all of its records are at hand."""

    def _plan(self, idle: float) -> Plan:
        fresh = super()._plan(idle)
        held = project(self._request(idle, tuple(self._store.read(KEY))), self._all_at_hand)
        assert read_plan(held) == read_plan(fresh)
        return held

    @functools.cached_property
    def _all_at_hand(self) -> ProjectionCache:
        return ProjectionCache()


def test_a_cut_costs_what_is_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tenth reads no more records than the second, and makes the text that a session opened
    anew would: the carry-over before it stands for what is older."""
    read: list[int] = []

    def count(digests: Sequence[Digest], **given: Any) -> CarryOver:
        read.append(len(digests))
        return carry_digests(digests, **given)

    monkeypatch.setattr(past, "carry_digests", count)
    rng = random.Random(7)
    life = HeldLife(24_000)
    most: list[int] = []
    for number in range(400):
        read.clear()
        life.add(User(content=f"{TALK * 3}Go on with part {number}."))
        life.add(*a_step(rng, number), Assistant(content=f"Part {number} is done. {TALK * 3}"))
        most += [max(read)] if read else []
        if life.cuts >= 10:
            break
    assert life.cuts >= 10
    assert max(most[1:]) <= 1.2 * most[0], most


def test_messages_without_room_are_counted_and_can_be_found() -> None:
    """The request says that there are more, and how to get them."""
    rng = random.Random(1)
    life = Life(24_000, Policy(compact=0.6, keep=0.3))
    for number in range(200):
        life.add(User(content=f"{TALK * 8}Never touch heron_{number}.py."))
        shown = life.add(*a_step(rng, number), Assistant(content="Done."))
    assert life.cuts > 2
    assert "others not told: search this session's history for them)" in shown
    assert "heron_0.py." in shown
    assert "heron_199.py." in shown


@pytest.mark.parametrize("window", WINDOWS)
def test_giant_message_pushes_no_other_message_out(window: int) -> None:
    """Messages before it, its beginning and its end are in every request, while it is the newest
    message, and later."""
    half = "".join(f"line {number} went by.\n" for number in range(400_000 // 40))
    giant = f"Always keep egret_flag on.\n{half}{half}\nAnd mind the gannet_flag."
    wanted = ["Always keep egret_flag on.", "And mind the gannet_flag.", "Never touch heron.py."]
    life = Life(window)
    life.add(User(content="Never touch heron.py."), Assistant(content="Fine."))
    rng = random.Random(2)
    texts = [life.add(User(content=giant)), life.add(*a_step(rng, 1))]
    texts.append(life.add(Assistant(content="Read."), User(content="And now?")))
    texts += [life.add(*a_step(rng, number)) for number in range(2, 8)]
    for text in texts:
        assert {rule: text.count(rule) for rule in wanted} == dict.fromkeys(wanted, 1)


def test_message_of_the_turn_is_not_quoted_beside_itself() -> None:
    """A cut inside a long turn leaves the question in view; the carry-over need not repeat it. Once
    the turn is over, the carry-over has it."""
    rng = random.Random(3)
    life = Life(32_000, Policy(allow=("nothing",)))  # so that it is cut, and not pruned
    question = "Fix the login of the shop, and say what was wrong with it."
    shown = life.add(User(content=question))
    for number in range(60):
        shown = life.add(*a_step(rng, number))
        assert shown.count(question) == 1
    assert life.cuts > 1
    life.add(Assistant(content="Fixed."))
    for number in range(60, 80):
        shown = life.add(User(content=f"Next, part {number}."), *a_step(rng, number))
        life.add(Assistant(content="Done."))
        assert shown.count(question) == 1


def step_of(number: int, *calls: tuple[str, dict[str, str]], failed: bool = False) -> ContextUnit:
    """A reply with its calls, and a result for each."""
    made = tuple(
        ToolCall(f"c{number}-{place}", name, arguments)
        for place, (name, arguments) in enumerate(calls)
    )
    parts = [MessagePart(f"a{number}", "assistant", "assistant", made)]
    for call in made:
        answer = ToolAnswer(call.id, (Text("something"),), name=call.name)
        parts.append(MessagePart(f"r{call.id}", "tool_result", "user", (answer,), is_failed=failed))
    return ContextUnit(tuple(parts))


READ: Final = ("read_file", {"path": "src/a.py"})
OTHER: Final = ("read_file", {"path": "src/b.py"})
EDIT: Final = ("edit_file", {"path": "src/a.py", "new_string": "x = 1"})
TEST: Final = ("bash", {"command": "pytest tests/test_a.py -q"})
AGAIN: Final = ("bash", {"command": "cd work && pytest tests/test_a.py -x"})


@pytest.mark.parametrize(
    ("steps", "again", "outdated"),
    [
        ([[READ], [OTHER], [READ]], {0}, set()),
        ([[READ], [EDIT]], set(), {0}),
        ([[EDIT], [READ]], set(), set()),
        ([[READ, OTHER], [EDIT]], set(), set()),
        ([[READ, OTHER], [OTHER], [READ]], {0}, set()),
        ([[EDIT], [EDIT]], {0}, set()),
        ([[TEST], [AGAIN]], set(), set()),
        ([[TEST], [TEST]], {0}, set()),
        ([[]], set(), set()),
    ],
)
def test_a_later_step_supersedes_what_it_shows_again_or_changes(
    steps: list[list[tuple[str, dict[str, str]]]], again: set[int], outdated: set[int]
) -> None:
    """All calls of a step must have been made again, or all its files changed since."""
    units = [step_of(number, *calls) for number, calls in enumerate(steps)]
    assert find_superseded(units, 0) == (again, outdated)
    assert find_superseded(units, len(units)) == (set(), set())


def test_a_newer_run_refutes_one_that_failed() -> None:
    """With other options, and whatever came of it; not where the newer one is another command."""
    failed = step_of(0, TEST, failed=True)
    assert find_superseded([failed, step_of(1, AGAIN)], 0).again == {0}
    assert find_superseded([failed, step_of(1, READ)], 0).again == set()
    both = step_of(0, TEST, READ, failed=True)
    assert find_superseded([both, step_of(1, AGAIN)], 0).again == set()


@pytest.mark.parametrize("steps_between", [2, 9])
def test_a_changed_file_is_shortened_when_it_was_not_used_for_long(steps_between: int) -> None:
    """The edit says little about the rest of the file, and an agent edits what it has just read."""
    records: list[Record] = [User(content="Go.", id="u", ts=1.0)]
    # The path of the second is in no result, so that nothing else is superseded or used.
    calls = [READ, EDIT, *(("look", {"at": f"thing {n}"}) for n in range(steps_between))]
    for number, (name, arguments) in enumerate(calls):
        call = {"type": "tool_use", "id": f"c{number}", "name": name, "input": arguments}
        records.append(Assistant(content=[call], id=f"a{number}", ts=2.0))
        text = "word " * (4_000 if number == 0 else 10)
        records.append(ToolResult(content=text, tool_use_id=f"c{number}", id=f"r{number}", ts=3.0))
    request = ProjectionRequest(
        [*records, User(content="And now?", id="last", ts=4.0)],
        Window(32_000, "asked"),
        TARGET,
        prompt_cache=PromptCache(idle_seconds=301.0),
        policy=Policy(cold_prune=0.05),
        floor=0,
    )
    plan = project(request, ProjectionCache())
    assert bool(plan.decisions) == (steps_between > Policy().quiet_steps)
