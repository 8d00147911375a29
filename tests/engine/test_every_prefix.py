"""The laws over every prefix of every real transcript, replayed as an agent would have run it.

Before each reply the log so far is projected, rendered and judged, and the decisions are appended.
The ordinary run takes a sample: a tenth of the files of each folder, a twelfth of the sessions in a
file, a fortieth of the prefixes of a session, and three of the 28 combinations of window and
dialect.
Names decide what is in it, and each prefix gets one of the combinations, in turn. The nightly run
takes every prefix with all combinations in turn, and then every prefix with each combination.
"""

from __future__ import annotations

from itertools import cycle
from typing import TYPE_CHECKING, cast

import msgspec
import pytest
from tests.shared_data import DATA, need_data
from tests.support.cases import check_all
from tests.support.runs import sample

from holdfast import importers
from holdfast.core.dialects.registry import DIALECTS, render_body, validate_body
from holdfast.core.log.records import Assistant, Compaction, Record, User, text_of
from holdfast.core.log.replay import user_text
from holdfast.core.models.dialects import Target
from holdfast.core.models.messages import INTERRUPTED, Text, ToolAnswer, ToolCall, text_of_blocks
from holdfast.core.projection.policy import PromptCache
from holdfast.core.projection.project import Plan, project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.text.cut import scrub
from holdfast.core.tokens.counting import count_prompt, count_results
from holdfast.core.tokens.images import image_rule
from holdfast.core.window import Window
from holdfast.errors import CannotFit, HoldfastError
from holdfast.providers.tokenizers import counter_for

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.models.messages import Block, Role

pytestmark = pytest.mark.files_only("it reads transcripts, and opens no store")

WINDOWS = (4_000, 8_000, 16_000, 32_000, 128_000, 200_000, 1_000_000)
COMBINATIONS = [(window, name) for window in WINDOWS for name in DIALECTS]
FILES = sorted(one for one in DATA.glob("*/**/*") if one.is_file()) if DATA.is_dir() else []
FOLDERS = sorted({"/".join(path.relative_to(DATA).parts[:2]) for path in FILES})
RECORDS_MAX = 1_500
"""Of one session; the longest chats repeat themselves."""


def new_scale() -> Scale:
    return Scale(counter_for("claude"), image_rule("claude"))


def sessions_in(path: Path) -> list[list[Record]]:
    try:
        found = importers.read_transcript(path.read_bytes(), path.name)
    except HoldfastError:
        return []  # a side file: annotations, state, a summary
    return [
        [
            msgspec.structs.replace(record, id=f"r{number:06d}")
            for number, record in enumerate(one.records[:RECORDS_MAX])
            # The source's own cuts are the source's; here the whole history is replayed.
            if not isinstance(record, Compaction)
        ]
        for one in found
    ]


class Replay:
    """One session at one window, for one dialect, as an agent would have run it."""

    def __init__(self, window: int, dialect: str, scale: Scale) -> None:
        self.window = Window(window)
        self.target = Target(DIALECTS[dialect])
        self.cache = ProjectionCache(scale)
        self.log: list[Record] = []
        self.sent: list[tuple[Role, Block]] = []
        self.newest = ""
        self.is_asked = False

    def add(self, record: Record) -> None:
        self.log.append(record)
        if isinstance(record, Assistant):
            self.is_asked = False
        elif isinstance(record, User) and text_of(record.content).strip():
            # Beside the user's own words, the text of a program is not the question of a turn.
            is_own = bool(user_text(record))
            if is_own or not self.is_asked:
                self.newest = scrub(text_of(record.content))
            self.is_asked |= is_own

    def check(self, *, idle: float) -> None:
        """Project the log as it stands; all laws hold."""
        plan, refusal = self.tried(idle)
        if refusal is not None:
            assert refusal.parts["newest_turn"] > refusal.parts["budget"]
            return
        self.is_bounded(plan)
        self.has_newest(plan)
        assert validate_body(render_body(plan.prompt, self.target), self.target) == []
        self.is_sticky(plan)

    def tried(self, idle: float) -> tuple[Plan, CannotFit | None]:
        try:
            return self.project(idle), None
        except CannotFit as error:
            return cast("Plan", None), error

    def project(self, idle: float) -> Plan:
        request = ProjectionRequest(
            self.log,
            self.window,
            self.target,
            floor=0,
            prompt_cache=PromptCache(idle_seconds=idle),
        )
        return project(request, self.cache)

    def is_bounded(self, plan: Plan) -> None:
        scale, tokens = self.cache.scale, plan.tokens
        counted = count_prompt(plan.prompt, scale.counter, scale.images)
        results = count_results(plan.prompt.messages)
        assert tokens.factor * counted + tokens.per_result * results <= tokens.total * 1.0001 + 1
        assert tokens.total + plan.budget.output_reserve <= self.window.tokens

    def has_newest(self, plan: Plan) -> None:
        texts = "\n".join(text_of_blocks(message.blocks) for message in plan.prompt.messages)
        if self.newest and self.newest not in texts:
            # Too long to be shown alone: both ends are.
            assert self.cache.scale.counter.count(self.newest) > plan.budget.tokens / 4
            assert "has all of it" in texts

    def is_sticky(self, plan: Plan) -> None:
        sent = [(one.role, block) for one in plan.prompt.messages for block in one.blocks]
        if sent and sent[-1][1] == Text("[Continue.]"):
            sent.pop()
        if not plan.decisions:
            self.is_prefix(sent)
        self.log += [
            msgspec.structs.replace(record, id=f"d{len(self.log) + number:06d}")
            for number, record in enumerate(plan.decisions)
        ]
        self.sent = sent

    def is_prefix(self, sent: list[tuple[Role, Block]]) -> None:
        """What was sent is the beginning of what is sent, up to a call that was still open."""
        for (_, before), (_, now) in zip(self.sent, sent, strict=False):
            if before != now:
                assert isinstance(before, ToolAnswer)
                assert before.content == (Text(INTERRUPTED),)
                return
        assert len(sent) >= len(self.sent)


@pytest.mark.sampled(1 / 2, "folder")
@pytest.mark.parametrize("folder", FOLDERS or [None])
def test_every_prefix_of_a_transcript(folder: str | None) -> None:
    """Each prefix with one combination of window and dialect, all of them in turn."""
    need_data()
    assert folder is not None
    files = [path for path in FILES if path.is_relative_to(DATA / folder)]
    check_all(sample(files, share=1 / 10, name=name_of, kind=lambda path: path.parent), check_file)


def name_of(path: Path) -> str:
    return str(path.relative_to(DATA))


def check_file(path: Path) -> None:
    sessions = [(f"{name_of(path)} {n}", records) for n, records in enumerate(sessions_in(path))]
    for name, records in sample(sessions, share=1 / 12, name=lambda session: session[0]):
        check_prefixes(name, records)


def check_prefixes(session: str, records: list[Record]) -> None:
    scale = new_scale()
    combinations = sample(COMBINATIONS, share=1 / 10, name=lambda pair: f"{session} {pair}")
    replays = [Replay(window, dialect, scale) for window, dialect in combinations]
    numbers = range(len(records))
    checked = set(sample(numbers, share=1 / 40, name=lambda number: f"{session} {number}"))
    turns = cycle(replays)
    for number, record in enumerate(records):
        for replay in replays:
            replay.add(record)
        if number in checked:
            next(turns).check(idle=10_000.0 if number % 5 == 0 else 1.0)
    next(turns).check(idle=1.0)


@pytest.mark.nightly
@pytest.mark.parametrize("path", FILES or [None], ids=lambda one: one.name if one else "no-data")
@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_every_prefix_with_every_window_and_dialect(path: Path | None, dialect: str) -> None:
    """Each prefix with all of them."""
    need_data()
    assert path is not None
    for records in sessions_in(path):
        scale = new_scale()
        for window in WINDOWS:
            replay = Replay(window, dialect, scale)
            for record in records:
                is_call = isinstance(record, Assistant)
                replay.add(record)
                replay.check(idle=10_000.0 if is_call and len(replay.log) % 7 == 0 else 1.0)


def test_transcripts_hold_tool_calls() -> None:
    """The transcripts are what they are taken for."""
    folder = need_data() / "agents" / "claude-code" / "entire"
    records = [one for path in sorted(folder.iterdir())[:3] for one in sessions_in(path)[0]]
    replay = Replay(200_000, "anthropic", new_scale())
    for record in records:
        replay.add(record)
    blocks = [block for one in replay.project(1.0).prompt.messages for block in one.blocks]
    assert any(isinstance(block, ToolCall) for block in blocks)
