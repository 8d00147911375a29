"""A process that dies before or after any effect of a flow leaves a session that goes on.

The simulator counts the effects of a whole run, then kills a fresh run at each of them. After every
death the session is opened anew: nothing that was acknowledged is lost, a compaction has happened
or has not, no tool is run a second time, and the next turn is answered with a valid request.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.sessions import (
    boundaries,
    check_requests,
    is_notes_request,
    is_summary_request,
    path_of,
    said,
)
from tests.support.cases import check_all
from tests.support.runs import examples, sample

from holdfast.core.flow.effects import Append, CallModel, PutBlob, StartTools
from holdfast.core.log.records import Assistant, Checkpoint, Flush, ToolResult, User, tool_calls
from holdfast.core.log.refs import refs_of
from holdfast.core.models.messages import Text
from holdfast.core.models.replies import Reply
from holdfast.core.owners import ANY_OWNER
from holdfast.core.turn.options import Limits
from holdfast.core.turn.run import cut_in
from holdfast.core.window import Window
from holdfast.errors import HoldfastError
from holdfast.stores.in_memory import MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import ScriptedModel, calls
from holdfast.testing.simulator import Kill, Killed, SimulatedClock, SimulatedSession, Simulation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from holdfast.core.flow.effects import Effect
    from holdfast.core.log.records import Record

WINDOW = 8_000
SUMMARY = """### Goal
Keep the ledger of parcels in order, with the number of every parcel.
### Progress
Done: parcels were weighed and written down in ledger.txt. In progress: the next parcels.
### Open items
The last parcels have no address yet."""


class World(NamedTuple):
    """What survives a process: the store, and what its tools did to the outside."""

    store: Any
    done: list[str]
    clock: SimulatedClock


class Scenario(NamedTuple):
    """Something that a process does, and what the world is like before."""

    name: str
    prepare: Callable[[World], None]
    run: Callable[[SimulatedSession], Any]
    answers: Callable[[], list[Any]]
    options: dict[str, Any] = {}  # noqa: RUF012


def _nothing(world: World) -> None:
    """The session is new."""


def _model(answers: list[Any], world: World, limit: int | None = None) -> ScriptedModel:
    script = iter(answers)

    def speak(request: Any) -> Any:
        if is_summary_request(request):
            return SUMMARY
        if is_notes_request(request):
            return "- Parcels are weighed twice."
        answer = next(script, "there is nothing more to say")
        return answer(request) if callable(answer) else answer

    return ScriptedModel(otherwise=speak, window=WINDOW, limit=limit)


def _open(world: World, model: ScriptedModel, **options: Any) -> SimulatedSession:
    def weigh(parcel: str) -> str:
        """Weigh a parcel: the scales print a slip each time."""
        world.done.append(parcel)
        return f"{parcel} weighs 7 kg"

    def dump(parcel: str) -> str:
        """Everything that is known about a parcel."""
        world.done.append(parcel)
        return f"{parcel} was here. " * 900

    world.store.clock = world.clock
    return SimulatedSession.open(
        "s",
        model=model,
        store=world.store,
        tools=[weigh, dump],
        limits=Limits(floor=4_000),
        **options,
    )


def _two_rounds() -> list[Any]:
    return [
        calls(("c1", "weigh", {"parcel": "p1"}), ("c2", "weigh", {"parcel": "p2"})),
        calls(("c3", "weigh", {"parcel": "p3"}), text="one more"),
        "all three are weighed",
    ]


def _fill(world: World) -> None:
    """A session that is nearly full."""
    session = _open(world, _model([], world))
    for number in range(10):
        rule = "Remember: always weigh parcels twice. " if number == 2 else ""
        words = f"{rule}Parcel ZX-{number:04d} goes to shelf {number}. " * 20
        world.store.append(
            session.key,
            [
                User(content=words, ts=world.clock()),
                Assistant(content=f"Noted {number}. " * 40, ts=world.clock()),
            ],
            expect=None,
        )


def _interrupt(world: World) -> None:
    """A session whose last process died while two tools ran."""
    session = _open(world, _model([], world))
    blocks = calls(("old1", "weigh", {"parcel": "x1"}), ("old2", "weigh", {"parcel": "x2"})).content
    world.done.extend(["x1", "x2"])
    world.store.append(
        session.key, [User(content="weigh both"), Assistant(content=blocks)], expect=None
    )


def _overflowing(world: World) -> None:
    _fill(world)


SCENARIOS = [
    Scenario("a turn with tools", _nothing, lambda s: s.say("weigh them"), _two_rounds),
    Scenario(
        "a turn with a compaction",
        _fill,
        lambda s: s.say("and now? " + "remember the address of ZX-0003. " * 40),
        _two_rounds,
        {"summary": "model", "notes": "model"},
    ),
    Scenario(
        "a recovery",
        _overflowing,
        lambda s: s.say("what is on shelf 3?"),
        lambda: ["parcel ZX-0003"],
        {"limit": 3_000, "summary": "model"},
    ),
    Scenario(
        "a word after an interruption", _interrupt, lambda s: s.say("what now?"), lambda: ["well"]
    ),
    Scenario("resuming", _interrupt, lambda s: s.resume(), lambda: ["well"]),
    Scenario(
        "a compaction that was asked for",
        _fill,
        lambda s: s.compact("the shelves"),
        list,
        {"summary": "model", "notes": "model"},
    ),
    Scenario(
        "outputs that are moved out",
        _nothing,
        lambda s: s.say("what is known?"),
        lambda: [
            calls(("c1", "dump", {"parcel": "p1"}), ("c2", "dump", {"parcel": "p2"})),
            "a great deal",
        ],
    ),
]


def _world(kind: str, root: Path) -> World:
    store = MemoryStore() if kind == "memory" else JsonlStore(str(root))
    return World(store, [], SimulatedClock())


class Run(NamedTuple):
    simulation: Simulation
    model: ScriptedModel
    before: list[Record]
    result: Any


def _play(scenario: Scenario, world: World, kill: Kill | None, **how: Any) -> Run:
    """A process carries the scenario out, until it is killed or done."""
    scenario.prepare(world)
    options = dict(scenario.options)
    model = _model(scenario.answers(), world, options.pop("limit", None))
    session = _open(world, model, **options)
    before = path_of(world.store)
    simulation = session.simulate(Simulation(kill, sleep=world.clock.sleep, **how))
    result = None
    with contextlib.suppress(Killed, HoldfastError):
        result = scenario.run(session)
    return Run(simulation, model, before, result)


def _check(scenario: Scenario, world: World, run: Run, store: Any) -> None:
    """Whatever was left behind is sound, and the next turn is answered."""
    after = path_of(store)
    assert after[: len(run.before)] == run.before, "an append-only log was rewritten"
    _check_acknowledged(run, after)
    _check_order(after)
    _check_tools(world, after)
    for ref in (ref for one in after for ref in refs_of(one)):
        assert len(store.blobs.get(ref.sha256)) == ref.bytes, "a record names what is not there"

    again = World(store, world.done, world.clock)
    model = _model(["the session goes on"], again, scenario.options.get("limit"))
    options = {k: v for k, v in scenario.options.items() if k != "limit"}
    session = _open(again, model, **options)
    done = list(world.done)
    reply = session.say("still there?")
    assert reply.text == "the session goes on"
    assert world.done == done, "a tool was run again"
    check_requests(run.model)
    check_requests(model)
    final = path_of(store)
    assert said(final)[-2:] == [("user", "still there?"), ("assistant", "the session goes on")]
    turn = next(one for one in reversed(model.requests) if not is_summary_request(one))
    assert "still there?" in str(turn["messages"][-1])
    _check_every_call_answered(final)
    session.close()


def _check_acknowledged(run: Run, after: list[Record]) -> None:
    """What an append had given back is there."""
    ids = {record.id for record in after}
    effects = run.simulation.effects
    finished = (
        effects
        if run.simulation.kill is None or run.simulation.kill.when == "after"
        else effects[:-1]
    )
    appended = [one for effect in finished if isinstance(effect, Append) for one in effect.records]
    known = {one.id for one in run.before}
    # A checkpoint is stored by an effect of its own.
    new = [one for one in after if one.id not in known and not isinstance(one, Checkpoint)]
    assert len(new) >= len(appended), "something that was acknowledged is missing"
    wanted = [one.kind for one in appended]
    assert [one.kind for one in new[: len(wanted)]] == wanted
    assert len(ids) == len(after)


def _check_order(after: list[Record]) -> None:
    """Each result comes after its call, and no record of a batch is there without the others."""
    seen: set[str] = set()
    for record in after:
        if isinstance(record, Assistant):
            seen |= {block["id"] for block in tool_calls(record.content)}
        if isinstance(record, ToolResult):
            assert record.tool_use_id in seen
    assert after[-1].more in (None, 0)


def _check_tools(world: World, after: list[Record]) -> None:
    """A tool ran only if its call is in the log, and at most once."""
    assert len(world.done) == len(set(world.done))
    asked = {
        block["input"]["parcel"]
        for record in after
        if isinstance(record, Assistant)
        for block in tool_calls(record.content)
    }
    assert set(world.done) <= asked


def _check_every_call_answered(records: list[Record]) -> None:
    called = [
        block["id"]
        for record in records
        if isinstance(record, Assistant)
        for block in tool_calls(record.content)
    ]
    answered = [record.tool_use_id for record in records if isinstance(record, ToolResult)]
    assert sorted(called) == sorted(answered)


def _effects(scenario: Scenario, root: Path, **how: Any) -> list[Effect]:
    """All effects of the whole run, in order."""
    return _play(scenario, _world("memory", root), None, **how).simulation.effects


def _places(scenario: Scenario, effects: list[Effect]) -> list[int]:
    """Numbers of the effects to die at: in the ordinary run a twentieth, and each kind that lasts.

    The first and the last effect are always among them.
    """

    def kind(number: int) -> object:
        effect = effects[number - 1]
        if isinstance(effect, Append):
            return tuple(sorted({type(record).__name__ for record in effect.records}))
        return isinstance(effect, CallModel | PutBlob | StartTools) and type(effect)

    numbers = range(1, len(effects) + 1)
    chosen = sample(numbers, share=1 / 20, name=lambda one: f"{scenario.name} {one}", kind=kind)
    return sorted({1, *chosen, len(effects)})


@pytest.mark.parametrize(
    ("scenario", "is_eager"),
    [*((one, True) for one in SCENARIOS), (SCENARIOS[0], False)],
    ids=lambda one: one.name if isinstance(one, Scenario) else "eager" if one else "lazy",
)
def test_a_process_may_die_at_every_effect(
    scenario: Scenario, is_eager: bool, tmp_path: Path
) -> None:
    """Over the effects of the run, in memory; exhaustive in the nightly run."""
    effects = _effects(scenario, tmp_path, is_eager=is_eager)
    total = len(effects)
    assert total >= 5

    def check(kill: Kill) -> None:
        world = _world("memory", tmp_path)
        run = _play(scenario, world, kill, is_eager=is_eager)
        assert run.simulation.is_dead, "the run was shorter than the one before"
        _check(scenario, world, run, world.store)

    # After one effect is before the next: nothing happens between them.
    places = _places(scenario, effects)
    check_all([*(Kill(number, "before") for number in places), Kill(total, "after")], check)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.name)
def test_the_same_on_disk(scenario: Scenario, tmp_path: Path) -> None:
    """Every append is a place to die; the files are opened anew, as a new process would."""
    effects = _effects(scenario, tmp_path)
    appends = [n for n, one in enumerate(effects, 1) if isinstance(one, Append)]
    chosen = sample(appends, share=1 / 30, name=lambda one: f"{scenario.name} {one}")
    places = sorted({*chosen, len(effects)})

    def check(kill: Kill) -> None:
        root = tmp_path / f"{kill.effect}-{kill.when}"
        world = _world("disk", root)
        run = _play(scenario, world, kill)
        reopened = JsonlStore(str(root))
        _check(scenario, world, run, reopened)
        assert all(reopened.verify(one.key).is_sound for one in reopened.sessions(owner=ANY_OWNER))
        reopened.close()
        world.store.close()

    check_all([Kill(number, when) for number in places for when in ("before", "after")], check)


def test_the_scenarios_do_what_their_names_say(tmp_path: Path) -> None:
    """Or the laws above would be about nothing."""
    runs = {one.name: _play(one, _world("memory", tmp_path), None) for one in SCENARIOS}
    starts = [
        one for one in runs["a turn with tools"].simulation.effects if isinstance(one, StartTools)
    ]
    assert [len(one.calls) for one in starts] == [2, 1]
    full = runs["a turn with a compaction"].simulation.effects
    appended = [r for one in full if isinstance(one, Append) for r in one.records]
    made = boundaries(appended)
    assert made
    assert made[0].method == "model"
    assert any(isinstance(one, Flush) for one in appended)
    assert any(isinstance(one, CallModel) and one.purpose == "summary" for one in full)
    recovery = runs["a recovery"]
    assert recovery.model.refused
    assert recovery.result.text == "parcel ZX-0003"
    asked = runs["a compaction that was asked for"]
    assert asked.result.outcome == "applied"
    assert runs["resuming"].result.text == "well"
    moved = runs["outputs that are moved out"].simulation.effects
    assert sum(isinstance(one, PutBlob) for one in moved) == 2


@pytest.mark.parametrize("scenario", SCENARIOS[1:6:4], ids=lambda one: one.name)
def test_a_compaction_has_happened_or_has_not(scenario: Scenario, tmp_path: Path) -> None:
    """After any death the view is the one before the cut or the one after it, never a mix."""
    effects = _effects(scenario, tmp_path)
    views: set[bool] = set()
    for number in _places(scenario, effects):
        world = _world("memory", tmp_path)
        _play(scenario, world, Kill(number, "before"))
        after = path_of(world.store)
        made = boundaries(after)
        session = _open(world, _model([], world))
        live = world.store.live(session.key, window=Window(WINDOW))
        if made:
            assert live.boundary == made[-1]
            assert cut_in(session.plan()) is None, "the cut is made a second time"
            first = session.plan().prompt.messages[0].blocks[0]
            assert isinstance(first, Text)
            assert made[-1].summary[:100] in first.text
        else:
            assert live.boundary is None
            assert [one.id for one in live.records] == [one.id for one in after]
        views.add(bool(made))
    assert views == {True, False}


@st.composite
def scripts(draw: st.DrawFn) -> list[Any]:
    """What a model does in one turn: rounds of tools, alone or side by side, failures, an end."""
    answers: list[Any] = []
    number = 0
    for _ in range(draw(st.integers(0, 3))):
        if draw(st.booleans()):
            kind = draw(st.sampled_from(("busy", "overflow")))
            text = "429 rate limit exceeded" if kind == "busy" else "prompt is too long"
            answers.append(RuntimeError(text))
        wanted = []
        for _ in range(draw(st.integers(1, 3))):
            number += 1
            tool = draw(st.sampled_from(("weigh", "dump")))
            wanted.append((f"c{number}", tool, {"parcel": f"p{number}"}))
        answers.append(calls(*wanted))
    answers.append(draw(st.sampled_from(("done", Reply(content=[], stop="end"), ""))))
    return answers


@examples(25)
@given(
    script=scripts(),
    is_full=st.booleans(),
    seed=st.integers(0, 1_000),
    is_eager=st.booleans(),
    place=st.floats(0, 1),
    when=st.sampled_from(("before", "after")),
)
def test_any_script_may_die_anywhere(
    script: list[Any], is_full: bool, seed: int, is_eager: bool, place: float, when: Any
) -> None:
    """Random rounds, failures and orders, in a session that is new or nearly full."""
    scenario = Scenario(
        "random",
        _fill if is_full else _nothing,
        lambda session: session.say("weigh them"),
        lambda: list(script),
        {"summary": "model"},
    )

    def world() -> World:
        return World(MemoryStore(), [], SimulatedClock())

    whole = _play(scenario, world(), None, seed=seed, is_eager=is_eager)
    total = len(whole.simulation.effects)
    mine = world()
    run = _play(
        scenario, mine, Kill(1 + int(place * (total - 1)), when), seed=seed, is_eager=is_eager
    )
    assert run.simulation.is_dead
    _check(scenario, mine, run, mine.store)
