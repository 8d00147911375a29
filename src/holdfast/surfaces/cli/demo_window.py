"""The second half of the demo: a session that outgrew its window, and what would be sent of it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.dialects import target
from holdfast.core.ids import SessionKey
from holdfast.core.records import Assistant, Record, ToolResult, User
from holdfast.core.window import Window
from holdfast.engine.policies import DoNothing, Holdfast, TrimTokens
from holdfast.engine.prepare import memory_for, prepare
from holdfast.engine.simulation import simulate
from holdfast.engine.transcripts import Transcript
from holdfast.surfaces.cli.inspect import kept_table
from holdfast.surfaces.cli.reports import kept_at
from holdfast.surfaces.cli.simulate import simulation_table

if TYPE_CHECKING:
    from holdfast.surfaces.cli.app import App

KEY: Final = SessionKey("main", "long")
_TURNS: Final = 60
_WINDOWS: Final = (16_000, 32_000, 200_000)
_TASKS: Final = ("fix the flaky test in", "add a docstring to", "rename the helper in", "profile")
_FILES: Final = tuple(
    f"src/{area}/{name}.py" for area in ("api", "core", "jobs") for name in "abcd"
)


def session(app: App) -> list[Record]:
    """Sixty turns of an agent that reads files and runs tests, one of them left unanswered."""
    app.store.create(KEY, label="A long day's work")
    app.store.append(KEY, _records(), expect=None)
    return [record for record in app.store.live(KEY).records if record.kind != "session"]


def tell(app: App) -> dict[str, Any]:
    """Show what would be sent at several windows, and what a day's work costs."""
    records = session(app)
    aim = target("anthropic", provider="anthropic", model="claude-sonnet-4-5")
    memory = memory_for(aim)
    kept = [kept_at(records, Window(window, "demo"), aim, memory=memory) for window in _WINDOWS]
    plan = prepare(records, Window(32_000, "demo"), aim, memory=memory).plan
    replayed = Transcript(records, memory.scale.counter)
    policies = (DoNothing(), TrimTokens(), Holdfast())
    runs = [simulate(replayed, one, window=32_000, static=4_000) for one in policies]
    if not app.out.is_json:
        app.out.line()
        app.out.line(f"A session of {len(records)} records has outgrown small windows. The request")
        app.out.line("that would be sent of it always fits, and the log keeps everything:")
        app.out.line()
        kept_table(app, kept)
        for repair in plan.repairs:
            app.out.line(f"Repaired on the way out: {repair.flaw} ({repair.detail})")
        app.out.line()
        app.out.line("The same day replayed at a window of 32,000, call by call, without a model:")
        app.out.line()
        simulation_table(app, runs)
    return {
        "kept": kept,
        "runs": [{"policy": run.policy, "cost": run.cost, "lost": run.facts_lost} for run in runs],
    }


def _records() -> list[Record]:
    dice = random.Random(4)  # noqa: S311 - the same session every time
    records: list[Record] = []
    now = 1_763_222_400.0
    for turn in range(_TURNS):
        file = dice.choice(_FILES)
        now += 900 if turn % 9 == 8 else 40
        records.append(User(content=f"Please {dice.choice(_TASKS)} {file}.", ts=now))
        for number, tool in enumerate(
            ("read_file", "run_tests", "edit_file")[: dice.randint(1, 3)]
        ):
            call_id = f"call_{turn}_{number}"
            call = {"type": "tool_use", "id": call_id, "name": tool, "input": {"path": file}}
            records.append(_reply([call], now := now + 6))
            if turn < _TURNS - 1 or number == 0:
                output = _output(dice, tool, file)
                records.append(ToolResult(tool_use_id=call_id, content=output, ts=(now := now + 4)))
        if turn < _TURNS - 1:
            records.append(_reply([{"type": "text", "text": f"{file} is done."}], now := now + 5))
    return [*records, User(content="We were interrupted. Where are we?", ts=now + 30)]


def _reply(content: list[dict[str, Any]], ts: float) -> Assistant:
    return Assistant(content=content, provider="anthropic", model="claude-sonnet-4-5", ts=ts)


def _output(dice: random.Random, tool: str, file: str) -> str:
    """What a tool prints: long for files, shorter for tests, a line for edits."""
    if tool == "edit_file":
        return f"{file}: {dice.randint(1, 9)} lines changed"
    if tool == "run_tests":
        lines = [f"tests/test_{n}.py::test_case_{dice.randint(1, 99)} PASSED" for n in range(30)]
        return "\n".join([*lines, f"FAILED {file}::test_{dice.randint(1, 9)} - AssertionError"])
    names = dice.choices(("load", "parse", "flush", "seal", "merge", "route"), k=90)
    return "\n".join(
        f"{n:4} def {name}_{n}(self, value_{n}): return self.{name}(value_{n}, {n * 37})"
        for n, name in enumerate(names, 1)
    )
