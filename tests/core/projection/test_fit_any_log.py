"""L13: whatever a log holds, a request can be built from it, and it keeps every other law.

Only what a caller controls can be too large: the system prompt, the tools and the reply. What they
leave is enough from 1,000 tokens on.
"""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.conversations import said
from tests.core.projection.test_project import appended, blocks_of, live_part, text_in
from tests.hostile_logs import ThirdsCounter, hostile_log
from tests.shared_data import DATA, need_data
from tests.support.runs import RUN, examples, sample

from holdfast import importers
from holdfast.core.dialects.registry import VARIANTS, render_body, target, validate_body
from holdfast.core.limits import MESSAGES_TOKENS_MIN
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Prune,
    Record,
    ToolResult,
    User,
    text_of,
    to_json,
)
from holdfast.core.models.messages import Tool
from holdfast.core.projection.policy import Policy
from holdfast.core.projection.project import Plan, project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.sizes import Scale
from holdfast.core.projection.view import ProjectionCache
from holdfast.core.text.cut import scrub
from holdfast.core.tokens.counting import Estimator, count_prompt, count_results
from holdfast.core.window import Window
from holdfast.errors import CannotFit, HoldfastError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from holdfast.core.models.dialects import Target

LOGS = {"quick": 40, "test": 100, "nightly": 20_000}[RUN]
BATCHES = 10
WINDOWS = (1_400, 2_000, 4_000, 8_000, 16_000, 32_000, 32_000, 200_000)
TARGETS = [
    target(name, variant, provider="anthropic", model="claude-x")
    for name, variants in VARIANTS.items()
    for variant in variants
]
MANY_TOOLS = [Tool(f"t{n}", "Does something. " * 40, {"type": "object"}) for n in range(40)]
FILES = sorted(path for path in DATA.glob("*/**/*") if path.is_file()) if DATA.is_dir() else []
FOLDERS = sorted({"/".join(path.relative_to(DATA).parts[:2]) for path in FILES})


def plan_for(
    records: Sequence[Record], window: int, aim: Target, *, counter: Any = None, **options: Any
) -> Plan:
    options.setdefault("floor", 0)
    cache = ProjectionCache(Scale(counter or ThirdsCounter()))
    return project(ProjectionRequest(records, Window(window), aim, **options), cache)


def check_laws(
    records: Sequence[Record], window: int, aim: Target, *, counter: Any = None, **options: Any
) -> Plan:
    """A request exists; it is within the window, valid, and the same when it is made again."""
    counter = counter or ThirdsCounter()
    plan = plan_for(records, window, aim, counter=counter, **options)
    tokens = plan.tokens
    counted = count_prompt(plan.prompt, counter) * tokens.factor
    results = count_results(plan.prompt.messages) * tokens.per_result
    assert counted + results <= tokens.total + 1
    assert tokens.total + plan.budget.output_reserve <= window
    assert validate_body(render_body(plan.prompt, aim), aim) == []
    check_newest(records, plan)
    log = appended(records, plan)
    is_cut = any(isinstance(record, Compaction) for record in plan.decisions)
    for again in (log, live_part(log)) if is_cut else (log,):
        same = plan_for(again, window, aim, counter=counter, **options)
        assert blocks_of(same) == blocks_of(plan)
        assert same.decisions == ()
    return plan


def check_newest(records: Sequence[Record], plan: Plan) -> None:
    """L2 and L5: the newest words are whole, or head and tail with the record that has them."""
    newest = newest_said(records)
    if newest is None:
        return
    words, sent = words_of(newest), text_in(plan)
    shortened = [line for line in plan.ledger if line.record == newest.id and line.back]
    if not shortened:
        assert words in sent
    elif plan.budget.tokens >= MESSAGES_TOKENS_MIN and len(words) > 400:
        assert newest.id in sent


def newest_said(records: Sequence[Record]) -> User | None:
    """The newest words, unless a record from elsewhere decided on them."""
    prunes = [record for record in records if isinstance(record, Prune)]
    decided = {decision.record for prune in prunes for decision in prune.decisions}
    for record in reversed(records):
        if isinstance(record, Compaction):
            return None
        if isinstance(record, User) and record.content:
            is_own = isinstance(record.content, str) and not record.extra.get("meta")
            return record if is_own and record.id not in decided else None
    return None


def words_of(record: User) -> str:
    return scrub(text_of(record.content)).strip()


@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_log_is_unanswerable(batch: int) -> None:
    """Giant messages, calls, results, thinking and summaries; hundreds of calls and pictures."""
    for seed in range(batch, LOGS, BATCHES):
        check_seed(seed)


def check_seed(seed: int) -> None:
    rng = random.Random(seed)
    log, window, aim = hostile_log(rng), rng.choice(WINDOWS), rng.choice(TARGETS)
    try:
        check_laws(log, window, aim)
    except Exception as error:
        error.add_note(f"seed {seed}, {window:,} tokens, {aim.dialect.full_name}")
        raise


@pytest.mark.parametrize("seed", [910, 1_606, 1_909, 2_697, 3_724])
def test_a_cut_fits_when_what_was_learned_before_it_is_forgotten(seed: int) -> None:
    """The next projection learns sizes from what the cut kept alone, and weighs it heavier."""
    check_seed(seed)


@pytest.mark.parametrize("seed", [7_740, 14_445])
def test_signed_thinking_is_stored_as_it_is_or_not_at_all(seed: int) -> None:
    """A protected step is stored once more with a cut. Half a surrogate pair cannot be."""
    check_seed(seed)


@pytest.mark.parametrize("seed", [6_652, 6_675])
def test_pictures_beside_a_summary_count(seed: int) -> None:
    """A cut pins more of them than the provider takes, and nothing after it has one."""
    check_seed(seed)


def giant(chars: int = 200_000) -> str:
    return ("some words " * (chars // 11 + 1))[:chars]


def step(count: int, text: str = "ok") -> list[Record]:
    calls = [
        {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {"a": number}}
        for number in range(count)
    ]
    results = [ToolResult(tool_use_id=f"c{number}", content=text) for number in range(count)]
    return [Assistant(content=calls), *results]


PICTURE = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}
RELATIVES: dict[str, list[Record]] = {
    "a paste in two messages": [User(content=giant()), User(content="hi")],
    "a thousand messages in a row": [*[User(content="x")] * 1_000, User(content="hi")],
    "recalled memory": [User(content=giant(), extra={"injected": "memory"}), User(content="hi")],
    "a giant result": [User(content="hi"), *step(1, giant())],
    "hundreds of calls": [User(content="hi"), *step(400)],
    "more calls than messages allowed": [User(content="hi"), *step(2_100)],
    "giant arguments": [
        User(content="hi"),
        Assistant(
            content=[
                {"type": "tool_use", "id": "c", "name": "b", "input": {"n": list(range(6_000))}}
            ]
        ),
    ],
    "thinking": [
        User(content="hi"),
        Assistant(
            content=[{"type": "thinking", "thinking": giant(), "signature": "c2ln"}, *[]],
            provider="anthropic",
            model="claude-x",
        ),
    ],
    "pictures only": [User(content=[PICTURE] * 3_000)],
    "a giant summary": [Compaction(summary=giant()), User(content="hi")],
    "a giant carry": [Compaction(summary="so far", carry=giant()), User(content="hi")],
    "giant pinned messages": [
        Compaction(
            summary="so far",
            turn=[to_json(User(id=f"p{n}", content=giant(50_000))) for n in range(9)],
        )
    ],
    "nobody said anything": [Assistant(content=giant())],
    "a late result": [
        *step(1),
        User(content="next"),
        Assistant(content="answer"),
        *step(1)[:1],
        Assistant(content="and on"),
        ToolResult(tool_use_id="c0", content=giant()),
    ],
}


CASES = sample(
    ((name, dialect) for name in RELATIVES for dialect in VARIANTS),
    share=1 / len(VARIANTS),
    kind=lambda case: case[0],
)


@pytest.mark.parametrize(("name", "dialect"), CASES)
def test_every_relative_is_answerable(name: str, dialect: str) -> None:
    """In a tiny window and in a small one, for every dialect of the catalog."""
    for window in (2_000, 30_000):
        check_laws(
            said(RELATIVES[name]), window, target(dialect, provider="anthropic", model="claude-x")
        )


@pytest.mark.parametrize("window", [2_000, 30_000])
def test_older_giant_messages_are_shortened_and_say_where_they_are(window: int) -> None:
    """The newest is whole; of the others both ends stay, how much is missing, and the record."""
    log = said([User(content=f"FIRST {giant()} LAST"), User(content="hi"), User(content="there")])
    plan = plan_for(log, window, TARGETS[0], counter=Estimator())
    sent = text_in(plan)
    assert sent.endswith(" LAST\nhi\nthere")
    assert "FIRST some words" in sent
    assert re.search(r"\[… 1\d\d,\d\d\d of 200,011 characters left out; record r00000", sent)
    assert plan.tokens.messages > 0.7 * plan.budget.tokens


def test_a_shortened_message_stays_as_it_is_from_turn_to_turn() -> None:
    """Replies and further messages are added to the prefix; nothing flips back."""
    log: list[Record] = said([User(content=giant()), User(content="hi")])
    before: list[Any] = []
    for turn in range(6):
        plan = plan_for(log, 30_000, TARGETS[0], counter=Estimator())
        if turn:
            assert plan.decisions == ()
            assert blocks_of(plan)[: len(before)] == before
        before = blocks_of(plan)
        log = appended(log, plan)
        log += [
            Assistant(id=f"a{turn}", content=f"answer {turn}"),
            User(id=f"u{turn}", content=f"and {turn}?"),
        ]


@pytest.mark.parametrize("folder", FOLDERS or ["no transcripts"])
def test_no_transcript_is_unanswerable_however_large_its_messages(folder: str) -> None:
    """Every message of a real session, many times as long, at windows from small to common."""
    need_data()
    paths = [path for path in FILES if path.is_relative_to(DATA / folder)]
    chosen = sample(paths, share=0.02, name=lambda path: path.name)
    for number, path in enumerate(chosen):
        log = multiplied(path, times=25)
        window = (2_000, 8_000, 30_000)[number % 3]
        check_laws(log, window, TARGETS[number % len(TARGETS)])


def multiplied(path: Path, times: int) -> list[Record]:
    """The newest session in a file, with every text in it many times as long."""
    try:
        sessions = importers.read_transcript(path.read_bytes(), path.name)
    except HoldfastError:
        return []  # a side file: annotations, state, a summary
    records = sessions[-1].records[-40:] if sessions else []
    return said([longer(record, times) for record in records])


def longer(record: Record, times: int) -> Record:
    if isinstance(record, User | Assistant | ToolResult):
        return msgspec.structs.replace(record, content=repeated(record.content, times))
    return record


def repeated(value: Any, times: int) -> Any:
    match value:
        case str() if len(value) < 5_000:
            return value * times
        case list():
            return [repeated(item, times) for item in value]
        case dict() if "text" in value:
            return {**value, "text": repeated(value["text"], times)}
        case dict() if "input" in value:
            return {**value, "input": {"copies": [value["input"]] * times}}
        case _:
            return value


# What a caller controls may be too large; the refusal names ways out, and each works.


def refused(**options: Any) -> CannotFit:
    with pytest.raises(CannotFit) as caught:
        plan_for(RELATIVES["a paste in two messages"], aim=TARGETS[0], **options)
    return caught.value


def test_too_large_a_system_prompt_can_be_shortened_as_the_hint_says() -> None:
    error = refused(window=8_000, system="word " * 7_000)
    missing = number_in(r"shorten the system prompt by ([\d,]+) tokens", error.hint)
    shorter = "word " * (7_000 - missing)
    assert plan_for([User(content="hi")], 8_000, TARGETS[0], system=shorter)
    assert "output_tokens" not in str(error.hint)  # no reply is short enough to help


def test_too_many_tools_can_be_left_out_as_the_hint_says() -> None:
    tools = MANY_TOOLS
    error = refused(window=8_000, tools=tools)
    number_in(r"pass fewer or shorter tools \(by ([\d,]+) tokens\)", error.hint)
    assert plan_for([User(content="hi")], 8_000, TARGETS[0], tools=tools[:10])


def test_too_long_a_reply_can_be_shortened_as_the_hint_says() -> None:
    error = refused(window=20_000, output_tokens=20_000)
    most = number_in(r"a reply of at most ([\d,]+) tokens", error.hint)
    check_laws(said(RELATIVES["a giant result"]), 20_000, TARGETS[0], output_tokens=most)


@pytest.mark.parametrize(
    "options", [{"system": "word " * 9_000}, {"tools": MANY_TOOLS}, {"output_tokens": 9_000}]
)
def test_a_window_of_the_size_in_the_hint_is_enough(options: dict[str, Any]) -> None:
    error = refused(window=4_000, **options)
    enough = number_in(r"a window of at least ([\d,]+) tokens", error.hint)
    check_laws(said(RELATIVES["a paste in two messages"]), enough, TARGETS[0], **options)


def number_in(pattern: str, text: str | None) -> int:
    assert text is not None
    found = re.search(pattern, text)
    assert found, text
    return int(found[1].replace(",", ""))


def test_a_view_that_is_nearly_full_says_so() -> None:
    """From the policy's own limit on, and not below."""
    full = plan_for(said(RELATIVES["a giant result"]), 64_000, TARGETS[0])
    assert [text for text in full.warnings if f"{full.limits.compact_at:,}" in text]
    short = plan_for(said([User(content="hi")]), 64_000, TARGETS[0])
    assert short.warnings == ()


@examples(60)
@given(st.lists(st.integers(100, 2_000), min_size=45, max_size=60), st.floats(0.5, 0.95))
def test_a_warning_comes_a_turn_before_the_cut(sizes: list[int], compact: float) -> None:
    """Whatever the policy's threshold: as long as no turn is larger than all in view before it."""
    policy = Policy(compact=compact, keep=0.4)
    turns: list[Record] = []
    largest, was_warned = 0, True
    for size in sizes:
        turns += [User(content="word " * size), Assistant(content="noted")]
        plan = plan_for(said(turns), 7_000, TARGETS[0], policy=policy)
        if any(isinstance(decision, Compaction) for decision in plan.decisions):
            assert was_warned or size > largest
            return
        largest, said_at = max(size, largest), f"{plan.limits.compact_at:,}"
        was_warned = any(said_at in warning for warning in plan.warnings)
    raise AssertionError("the turns must fill the view")


@example([4_000, *[150] * 30])  # the largest turn goes
@examples(60)
@given(st.lists(st.integers(10, 4_000), min_size=1, max_size=30))
def test_the_limits_are_of_the_view_as_it_is(sizes: list[int]) -> None:
    """Whatever is decided for the next request: the status of a session, which decides nothing,
    names the same sizes, and warns of the same."""
    turns: list[Record] = []
    for size in sizes:
        turns += [User(content="word " * size), Assistant(content="noted")]
    held = plan_for(said(turns), 30_000, TARGETS[0], pressure="hold")
    due = plan_for(said(turns), 30_000, TARGETS[0])
    assert (due.limits, due.warnings) == (held.limits, held.warnings)
