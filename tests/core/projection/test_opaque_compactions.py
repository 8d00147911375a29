"""A compaction that only its provider can read stands for the history before it: it always goes."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.core.dialects.prefix import SentRequest
from holdfast.core.dialects.registry import render_body, target, validate_body
from holdfast.core.log.records import Assistant, Json, Record, ToolResult, User
from holdfast.core.projection.project import Plan, project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.projection.units import is_opaque
from holdfast.core.window import Window
from holdfast.errors import CannotFit

RESPONSES = target("openai-responses", provider="openai", model="gpt-6.2-sol")
SENT = SentRequest("openai-responses").to_json()
WORDS = "the port of the server is checked before each release of the gateway "


def item(number: int, chars: int = 200) -> Json:
    secret = f"<{number}>".ljust(chars, "x")
    return {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": secret}


def log(
    turns: int, compacted: tuple[int, ...], *, chars: int = 200, words: int = 40
) -> list[Record]:
    """Turns with a call each; in some, the provider compacted the conversation before the call."""
    records: list[Record] = []
    about: Json = {"provider": "openai", "model": RESPONSES.model, "sent": SENT}
    for turn in range(turns):
        call = {"type": "tool_use", "id": f"c{turn}", "name": "read", "input": {"path": f"{turn}"}}
        made = [item(turn, chars)] if turn in compacted else []
        records += [
            User(content=f"Turn {turn}. {WORDS}"),
            Assistant(content=[*made, call], **about),
            ToolResult(content=WORDS * words, tool_use_id=f"c{turn}"),
            Assistant(content=f"Turn {turn} is done.", **about),
        ]
    records.append(User(content="And now?"))
    return [
        msgspec.structs.replace(record, id=f"r{place:05d}") for place, record in enumerate(records)
    ]


def plan_for(records: list[Record], window: int, **options: Any) -> Plan:
    return project(ProjectionRequest(records, Window(window, "t"), RESPONSES, floor=0, **options))


def sent(plan: Plan) -> list[Json]:
    body = render_body(plan.prompt, RESPONSES)
    assert validate_body(body, RESPONSES) == []
    found: list[Json] = body["input"]
    return found


def check(plan: Plan, newest: int, chars: int = 200) -> None:
    """The newest compaction is in the request as it came; where a cut moved it, the carry-over is
    behind it: its provider reads nothing that is before it."""
    items = sent(plan)
    at = max(place for place, one in enumerate(items) if one.get("type") == "compaction")
    assert items[at] == item(newest, chars)
    if any(map(is_opaque, plan.opening_units)):
        told = [place for place, one in enumerate(items) if "<conversation_so_far>" in str(one)]
        assert all(place > at for place in told)


@given(
    turns=st.integers(2, 24),
    places=st.sets(st.integers(0, 23), min_size=1, max_size=3),
    window=st.sampled_from((2_000, 4_000, 8_000, 16_000)),
    asked=st.booleans(),
)
@examples(80)
def test_no_cut_loses_the_newest_compaction(
    turns: int, places: set[int], window: int, asked: bool
) -> None:
    """In a first cut and in those after it, asked for or forced, it goes and comes first."""
    compacted = tuple(place % turns for place in places)
    records, newest = log(turns, compacted), max(compacted)
    for more in range(3):
        plan = plan_for(records, window, pressure="cut" if asked else "usual")
        check(plan, newest)
        again = plan_for([*records, *named(plan.decisions, more)], window, pressure="hold")
        assert sent(again) == sent(plan)
        records = [*records, *named(plan.decisions, more), *tail(more)]


def named(decisions: tuple[Record, ...], number: int) -> list[Record]:
    return [
        msgspec.structs.replace(made, id=f"d{number}-{place}")
        for place, made in enumerate(decisions)
    ]


def tail(number: int) -> list[Record]:
    about: Json = {"provider": "openai", "model": RESPONSES.model, "sent": SENT}
    return [
        Assistant(content=f"Said {number}. {WORDS * 20}", id=f"s{number}-0", **about),
        User(content=f"More {number}? {WORDS * 20}", id=f"s{number}-1"),
    ]


def test_a_cut_keeps_it_first_and_alone() -> None:
    """The call beside it is told in the carry-over behind it; an older one is in it, and goes."""
    plan = plan_for(log(30, (3, 9)), 8_000, pressure="cut")
    items = sent(plan)
    kinds = [one.get("type") for one in items]
    assert kinds.count("compaction") == 1
    at = kinds.index("compaction")
    assert items[at]["id"] == "cmp_9"
    assert "<conversation_so_far>" in str(items[at + 1])
    assert at == 1  # behind the note that a conversation begins with
    assert len(str(items[at])) < 400
    assert "function_call" not in kinds[: at + 2]


def test_where_it_does_not_fit_an_error_says_so() -> None:
    with pytest.raises(CannotFit, match="the provider's own compaction of"):
        plan_for(log(6, (2,), chars=60_000), 4_000)


def test_a_compaction_in_the_newest_step_is_never_shortened() -> None:
    """The step is too large for the window: its result gives way."""
    records = log(3, (2,), words=2_000)[:-2]
    check(plan_for(records, 4_000), 2)
