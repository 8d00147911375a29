"""What a policy protects stays in the request as long as no cut is forced."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.conversations import said
from tests.core.projection.test_project import appended, blocks_of, live_part
from tests.support.runs import examples

from holdfast.core.dialects.registry import render_body, target, validate_body
from holdfast.core.log.records import Assistant, Compaction, InjectedContext, ToolResult, User
from holdfast.core.log.replay import META
from holdfast.core.models.messages import Text
from holdfast.core.projection.policy import Policy, PolicyName, PromptCache, policy_of
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.tokens.images import image_rule
from holdfast.core.window import Window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.projection.project import Plan

COLD = PromptCache(idle_seconds=9_999.0)
CUTS_COLD: dict[str, Any] = {"keep": 0.3, "cold_cut": 0.4, "quiet_steps": 99}
"""A policy that cuts at a cold moment, and prunes nothing before."""
CALL = {"type": "tool_use", "name": "run", "input": {"n": 1}}
FILLER = "It went as expected and nothing is left to do here. "


def step(number: int, tool: str, size: int, mark: str = "") -> list[Record]:
    call = {"type": "tool_use", "id": f"c{number}", "name": tool, "input": {"n": number}}
    content = f"{mark} {FILLER * size}"
    return [Assistant(content=[call]), ToolResult(tool_use_id=f"c{number}", content=content)]


def plan_of(records: Sequence[Record], window: int, **policy: Any) -> Plan:
    return project(
        ProjectionRequest(
            records,
            Window(window),
            target("anthropic"),
            policy=Policy(**policy),
            prompt_cache=COLD,
            floor=1_000,
        )
    )


def is_cut(plan: Plan) -> bool:
    return any(isinstance(made, Compaction) for made in plan.decisions)


@examples(30)
@given(
    sizes=st.lists(st.integers(40, 200), min_size=6, max_size=24),
    before=st.booleans(),
    denied=st.integers(0, 23),
    share=st.floats(0.45, 0.85),
)
def test_a_cold_cut_leaves_what_is_protected(
    sizes: list[int], before: bool, denied: int, share: float
) -> None:
    """Text before the first user message, results of denied tools, and the newest steps."""
    records: list[Record] = []
    marks = ["newest-0", "newest-1", "newest-2"]
    if before:
        records += step(99, "read_file", 20, "before-the-first")
        marks.append("before-the-first")
    records.append(User(content="Begin."))
    for number, size in enumerate(sizes):
        left = len(sizes) - number
        mark = f"newest-{3 - left}" if left <= 3 else ""
        tool = "keep_this" if number == denied else "look"
        records += step(number, tool, size, f"{mark} denied-tool" if tool == "keep_this" else mark)
    if denied < len(sizes):
        marks.append("denied-tool")
    records.append(User(content="And now?"))
    whole = plan_of(said(records), 10_000_000).tokens.messages
    window = max(16_000, int(whole / share / 0.6))
    plan = plan_of(said(records), window, deny=("keep_*",), **CUTS_COLD)
    if plan.tokens_before > Policy().compact * plan.budget.tokens:
        return  # a forced cut
    sent = repr(plan.prompt.messages)
    assert [mark for mark in marks if mark not in sent] == []


@pytest.mark.parametrize("tool", ["look", "keep_this"])
def test_a_cold_cut_is_made_up_to_what_is_protected(tool: str) -> None:
    """The case above does cut, and a denied result stops it."""
    records: list[Record] = [User(content="Begin.")]
    for number in range(20):
        records += step(number, tool if number == 10 else "look", 60)
        records.append(Assistant(content=FILLER * 60))
    records.append(User(content="And now?"))
    plan = plan_of(said(records), 80_000, deny=("keep_*",), **CUTS_COLD)
    assert is_cut(plan)
    assert len(plan.units_kept) < 30
    assert ("'c10'" in repr(plan.prompt.messages)) == (tool == "keep_this")


def test_a_forced_cut_says_that_it_took_what_is_protected() -> None:
    """Where nothing else fits, protected steps go, and the reason of the cut says so."""
    records: list[Record] = [User(content="Begin.")]
    for number in range(20):
        records += step(number, "keep_this", 80)
    plan = plan_of(said(records), 16_000, deny=("keep_*",))
    made = next(made for made in plan.decisions if isinstance(made, Compaction))
    assert "protected" in (made.reason or "")


WORDS = "Rename the parser, and leave lexer.py alone."


@examples(40)
@given(
    style=st.lists(st.sampled_from(("tool", "program", "two programs")), min_size=4, max_size=30),
    size=st.integers(1, 300),
    window=st.sampled_from((4_000, 8_000, 16_000)),
    cache=st.sampled_from((COLD, PromptCache())),
)
def test_text_of_programs_never_takes_the_place_of_the_users_words(
    style: list[str], size: int, window: int, cache: PromptCache
) -> None:
    """The user's words are a message of their own in every request of the turn, however many
    messages a program writes after them and however many cuts there are. The newest message of
    the program is there as well."""
    log = said([InjectedContext(text="From the day before.", source="a hook"), User(content=WORDS)])
    for number, kind in enumerate(style):
        newest = f"observation {number}: {FILLER * size}"
        by_program: list[Record] = [
            Assistant(content=f"Step {number}."),
            User(content=newest, extra={META: True}),
        ]
        made = step(number, "look", size) if kind == "tool" else by_program
        more = by_program[1:] if kind == "two programs" else []
        log = said_after(log, [*made, *more])
        plan = project(
            ProjectionRequest(
                log, Window(window), target("anthropic"), prompt_cache=cache, floor=1_000
            )
        )
        sent = [block for _role, block in blocks_of(plan)]
        assert Text(WORDS) in sent
        texts = [block.text for block in sent if isinstance(block, Text)]
        assert any("From the day before." in text for text in texts)
        assert kind == "tool" or any(text.startswith(f"observation {number}:") for text in texts)
        log = appended(log, plan)


@examples(40)
@given(
    pastes=st.lists(st.integers(1, 3_500), max_size=5),
    newest=st.integers(0, 3_500),
    result=st.integers(0, 3_500),
    window=st.sampled_from((8_000, 16_000, 32_000)),
    cache=st.sampled_from((COLD, PromptCache())),
)
def test_a_turn_that_is_too_large_leaves_the_words_before_it(
    pastes: list[int], newest: int, result: int, window: int, cache: PromptCache
) -> None:
    """However much is pasted into a later turn, and whatever a tool returns there, what the user
    laid down before it is in the request."""
    log = said([User(content=WORDS), Assistant(content="I will.")])
    log = said_after(
        log, [User(content=f"{number}. {FILLER * size}") for number, size in enumerate(pastes)]
    )
    log = said_after(
        log,
        [
            User(content=f"What now? {FILLER * newest}"),
            *(step(0, "look", result) if result else ()),
        ],
    )
    plan = project(
        ProjectionRequest(log, Window(window), target("anthropic"), prompt_cache=cache, floor=1_000)
    )
    texts = [block.text for _role, block in blocks_of(plan) if isinstance(block, Text)]
    assert any(text.startswith("What now?") for text in texts)
    assert any(WORDS in text for text in texts)


def said_after(log: Sequence[Record], records: Sequence[Record]) -> list[Record]:
    """The log with more records, whose ids go on."""
    new = [
        msgspec.structs.replace(record, id=f"r{len(log) + number:05d}", ts=1.7e9 + len(log))
        for number, record in enumerate(records)
    ]
    return [*log, *new]


WAYS = ("cold", "full", "asked", "forced")


@examples(60)
@given(
    way=st.sampled_from(WAYS),
    sizes=st.lists(st.integers(1, 160), min_size=8, max_size=24),
    before=st.integers(0, 3),
    denied=st.sets(st.integers(0, 23), max_size=5),
    reused=st.booleans(),
)
def test_every_cut_works_around_what_is_protected(
    way: str, sizes: list[int], before: int, denied: set[int], reused: bool
) -> None:
    """A protected step is in the request, whole, or the plan says that it had to go; it goes only
    where the protected steps alone fill the view. Decisions are seen again, also by a reader that
    starts at the cut."""
    records: list[Record] = []
    protected: list[str] = []
    for number in range(before):
        records += step(900 + number, "read_file", 12, f"<before-{number}>")
        protected.append(f"<before-{number}>")
    records.append(User(content="Begin."))
    for number, size in enumerate(sizes):
        mark = f"<step-{number}>"
        tool = "keep_this" if number in denied else "look"
        records += step(number % 5 if reused else number, tool, size, mark)
        if tool == "keep_this" or number >= len(sizes) - 3:
            protected.append(mark)
    records.append(User(content="And now?"))
    log = said(records)
    whole = plan_of(log, 10_000_000)
    share = {"cold": 0.7, "full": 0.95, "asked": 0.5, "forced": 2.0}[way]
    options: dict[str, Any] = {"deny": ("keep_*",), **CUTS_COLD}
    plan = plan_for_share(log, whole.tokens.messages, share, way, options)
    sent = repr(plan.prompt.messages)
    missing = [mark for mark in protected if mark not in sent]
    assert plan.protected_cut == len(missing)
    if missing:
        least = sum(
            tokens
            for unit, tokens in zip(whole.units, whole._draft.sizes, strict=True)
            if any(mark in repr(unit) for mark in protected)
        )
        policy = Policy(**options)
        assert least + policy.carry_cap(plan.budget.tokens) > 0.6 * plan.budget.tokens
    if is_cut(plan):
        made = next(made for made in plan.decisions if isinstance(made, Compaction))
        assert ("protected" in (made.reason or "")) == bool(missing)
    assert validate_body(render_body(plan.prompt, plan.target), plan.target) == []
    decided = appended(log, plan)
    for kept in (decided, live_part(decided) if is_cut(plan) else decided):
        again = plan_for_window(kept, plan.window.tokens, "full", options)
        assert blocks_of(again) == blocks_of(plan)
        assert again.decisions == ()


def plan_for_share(
    log: Sequence[Record], tokens: int, share: float, way: str, options: dict[str, Any]
) -> Plan:
    """The plan in a window of which the log fills this share."""
    window = 2_000
    while plan_for_window([], window, way, options).budget.tokens < tokens / share:
        window = int(window * 1.02) + 1
    return plan_for_window(log, window, way, options)


def plan_for_window(log: Sequence[Record], window: int, way: str, options: dict[str, Any]) -> Plan:
    return project(
        ProjectionRequest(
            log,
            Window(window),
            target("anthropic"),
            policy=Policy(**options),
            prompt_cache=COLD if way == "cold" else PromptCache(idle_seconds=1.0),
            pressure="cut" if way == "asked" else "usual",
            floor=1_000,
        )
    )


def test_protected_steps_outlive_many_cuts() -> None:
    """Each projection sees only what the cut before it left; the steps are taken up again."""
    options: dict[str, Any] = {"deny": ("keep_*",), "allow": ("nothing",)}
    log = said(
        [
            *step(900, "read_file", 12, "<before>"),
            User(content="Begin."),
            *step(901, "keep_this", 12, "<denied>"),
        ]
    )
    cuts = 0
    for number in range(60):
        log += [
            msgspec.structs.replace(record, id=f"n{number:03d}{place}")
            for place, record in enumerate(step(number % 7, "look", 40, f"<step-{number}>"))
        ]
        plan = plan_for_window(log, 16_000, "full", options)
        sent = repr(plan.prompt.messages)
        assert "<before>" in sent
        assert "<denied>" in sent
        assert f"<step-{number}>" in sent
        assert plan.protected_cut == 0
        assert validate_body(render_body(plan.prompt, plan.target), plan.target) == []
        log = appended(log, plan)
        if is_cut(plan):
            cuts += 1
            log = [
                msgspec.structs.replace(record, id=f"c{number:03d}")
                if isinstance(record, Compaction) and record.id.startswith("d")
                else record
                for record in live_part(log)
            ]
    assert cuts >= 3


def test_plan_without_a_cut_took_nothing_that_is_protected() -> None:
    """The count is of steps that are gone, and it is named as a reason only then."""
    records = said([User(content="go"), *step(0, "read", 1), *step(1, "read", 1)])
    plan = plan_of(records, 32_000)
    assert (plan.decisions, plan.protected_cut) == ((), 0)
    records = said([User(content="go"), *(r for n in range(20) for r in step(n, "read", 40))])
    cut = project(ProjectionRequest(records, Window(64_000), target("anthropic"), pressure="cut"))
    assert is_cut(cut)
    assert cut.protected_cut == 0
    assert "protected" not in " ".join(str(made) for made in cut.decisions)


@pytest.mark.parametrize("at_most", [60, 100, 200, 1_000])
@pytest.mark.parametrize("is_turn", [False, True], ids=["message", "turn"])
def test_bound_that_leaves_room_for_a_few_words_is_kept(at_most: int, is_turn: bool) -> None:
    """After a refusal the next request is smaller, however small that is: the newest message
    loses what does not fit, down to its first letters."""
    long = "漢字かな交じり文" * 400
    older: list[Record] = [User(content=long), User(content=long), *step(0, "read", 40)]
    records = said([*(older if is_turn else []), User(content=long)])
    request = ProjectionRequest(records, Window(32_000), target("anthropic"), at_most=at_most)
    plan = project(request)
    assert plan.tokens.total <= at_most
    assert plan.decisions
    texts = [block.text for _role, block in blocks_of(plan) if isinstance(block, Text)]
    assert texts
    assert all(texts)


@examples(60)
@given(
    window=st.integers(8_000, 40_000),
    asked=st.integers(1, 4_000),
    steps=st.integers(1, 6),
    calls=st.integers(1, 4),
    size=st.integers(0, 400),
    again=st.integers(0, 2_000),
)
def test_the_newest_step_is_always_seen(
    window: int, asked: int, steps: int, calls: int, size: int, again: int
) -> None:
    """Beside a message of any length: an agent that does not see what it did last does it again."""
    records: list[Record] = [User(content=f"FIRST {FILLER * asked}")]
    if again:
        records += [Assistant(content="Done."), User(content=f"AGAIN {FILLER * again}")]
    for number in range(steps):
        ids = [f"c{number}-{call}" for call in range(calls)]
        records.append(Assistant(content=[{**CALL, "id": each} for each in ids]))
        records += [
            ToolResult(tool_use_id=each, content=f"R{number} {FILLER * size}") for each in ids
        ]
    plan = plan_of(said(records), window)
    sent = str(plan.prompt.messages)
    assert sent.count(f"R{steps - 1} ") == calls
    assert ("AGAIN" if again else "FIRST") in sent
    assert plan.tokens.total <= plan.budget.tokens
    assert validate_body(render_body(plan.prompt, target("anthropic")), target("anthropic")) == []


JPEG = base64.b64encode(bytes((0xFF, 0xD8, 0xFF, 0xE0)) + bytes(range(1, 250)) * 36).decode()
"""A picture that does not tell its size, so that it counts as the largest there is."""


@examples(40)
@given(
    st.sampled_from(["anthropic", "openai-chat", "gemini"]),
    st.integers(1, 60),
    st.integers(100, 1_500),
    st.sampled_from(["block", "text"]),
)
def test_no_picture_takes_the_users_words_or_the_carry_over(
    dialect: str, pictures: int, words: int, way: str
) -> None:
    """Words that fit without the pictures are whole beside them, however many and large."""
    spoken = "alpha beta " * words
    source = {"type": "base64", "media_type": "image/jpeg", "data": JPEG}
    content: list[dict[str, Any]] = [{"type": "text", "text": spoken}]
    if way == "block":
        content += [{"type": "image", "source": source}] * pictures
    else:
        content[0]["text"] += f" data:image/jpeg;base64,{JPEG}" * pictures
    carry = Compaction(summary="the carry-over of before", covers=("a", "b"))
    model = {"anthropic": "claude-sonnet-4-5", "openai-chat": "gpt-5", "gemini": "gemini-2.5-pro"}
    aim = target(dialect, model=model[dialect])
    cache = ProjectionCache(Scale(None, image_rule(aim.model, dialect)))
    plan = project(
        ProjectionRequest(said([carry, User(content=content)]), Window(24_000), aim, floor=0), cache
    )
    sent = "".join(
        block.text
        for message in plan.prompt.messages
        for block in message.blocks
        if isinstance(block, Text)
    )
    assert sent.count("alpha beta") == words
    assert "the carry-over of before" in sent


@examples(40)
@given(
    small=st.lists(st.floats(0.005, 0.1), max_size=20),
    giant=st.none() | st.floats(0.9, 1.5),
    window=st.sampled_from((16_000, 32_000, 64_000)),
    name=st.sampled_from(("balanced", "faithful")),
)
@example(small=[], giant=0.9, window=32_000, name="balanced")
@example(small=[0.05] * 19, giant=None, window=32_000, name="balanced")
def test_a_cut_that_the_window_demands_leaves_half_of_the_budget_filled(
    small: list[float], giant: float | None, window: int, name: PolicyName
) -> None:
    """Also where a step of nearly all of it is followed by a short message: what is too large is
    kept shortened, and not left out beside an empty window."""
    budget = plan_for_window([], window, "full", {}).budget.tokens
    shares = small if giant is None else [*small, giant]
    records: list[Record] = [User(content="Begin.")]
    for number, share in enumerate(shares):
        records += step(number, "look", max(1, int(share * budget / 12)))
    records.append(User(content="And now?"))
    request = ProjectionRequest(
        said(records), Window(window), target("anthropic"), policy=policy_of(name), floor=1_000
    )
    plan = project(request)
    if is_cut(plan):
        assert plan.tokens.messages >= plan.budget.tokens / 2
        assert plan.tokens.messages <= policy_of(name).full_at(plan.budget.tokens)
