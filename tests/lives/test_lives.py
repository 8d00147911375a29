"""Append-only by law: over random lives, a provider that enforces its rules has nothing to say.

It refuses no call for its prefix, drops nothing but what a model or an account may not read, each
block of reasoning that was valid is sent, and between two epochs requests only grow.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from tests.lives.lives import (
    DIALECTS,
    SURFACES,
    Change,
    Fail,
    Inject,
    Life,
    Pause,
    Resume,
    Rewind,
    Say,
    Switch,
    lives,
)
from tests.lives.living import Living, live
from tests.lives.oracle import epoch_cause
from tests.lives.proxied import Proxied
from tests.support.runs import examples

from holdfast.core.log.records import Compaction, Unknown, User

if TYPE_CHECKING:
    from tests.lives.lives import Step, Surface

    from holdfast.core.log.records import Json

pytest.importorskip("anthropic")
pytest.importorskip("openai")
pytest.importorskip("google.genai")

FAILED = Fail("unauthorized")
"""A failure that no second call mends."""
HOLDS: frozenset[tuple[Surface, str]] = frozenset(
    (surface, dialect) for surface in SURFACES for dialect in DIALECTS
)
"""Where the law is kept: everywhere. `python -m tests.lives.survey` counts what a change breaks."""


@pytest.mark.parametrize(("surface", "dialect"), sorted(HOLDS))
def test_requests_only_grow_and_reasoning_goes_back(surface: Surface, dialect: str) -> None:
    """Turns, tools, cuts, rewinds, forks, restarts, other models, failures: no law is broken."""

    @examples(60)
    @given(life=lives(dialect))
    def check(life: Life) -> None:
        assert live(life, surface) == []

    check()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_meter_changes_no_prefix(dialect: str) -> None:
    """Lines about how full the context is, between turns and amid them, break no law."""

    @examples(20)
    @given(life=lives(dialect))
    def check(life: Life) -> None:
        assert Living(life, "engine", marks=(0.2, 0.5, 0.8)).run() == []

    check()


UNANSWERED: dict[str, tuple[Step, ...]] = {
    "other tools before any reply": (Change("tools"),),
    "another system prompt before any reply": (Change("system"),),
    "nothing changed before any reply": (),
}
LATER: dict[str, tuple[Step, ...]] = {
    "tools changed for the call that failed": (Change("tools"), FAILED, Say(5)),
    "tools changed again": (Change("tools"), FAILED, Say(5), Change("tools")),
    "context between": (Inject(10), FAILED, Say(5), Inject(10)),
}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_call_that_brought_no_reply_hides_no_change(dialect: str) -> None:
    """What is said after it is appended to its request, or a record says what was changed."""
    early = {name: (FAILED, Say(5), *steps) for name, steps in UNANSWERED.items()}
    later = {name: (Say(5), *steps) for name, steps in LATER.items()}
    for name, steps in (early | later).items():
        life = Life(dialect, 0, 200_000, False, True, (*steps, Say(5), Say(5, ((5,),))))
        assert live(life, "engine") == [], name


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_client_that_keeps_its_own_thinking_is_served_after_a_cut(dialect: str) -> None:
    """It sends everything back as it came, thinking from before the cut as well."""
    steps = tuple(Say(40, ((900,), (900,))) for _ in range(12))
    client = Proxied(Life(dialect, 0, 16_000, streams=False, thinking=True, steps=steps))
    assert client.run() == []
    asked = [one for one in client.provider.loopback.requests if not one.only_counts]
    assert client._epochs()
    assert {one.status for one in asked} == {200}


# The oracle itself


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_client_that_sends_everything_back_breaks_no_law(dialect: str) -> None:
    """Without a proxy, in a window without end: neither loopback nor oracle cries wolf."""

    @examples(60)
    @given(life=lives(dialect))
    def check(life: Life) -> None:
        assert Proxied(life, is_direct=True).run() == []

    check()


def _items(body: Json) -> list[Any]:
    found = body.get("messages") or body.get("input") or body.get("contents")
    assert isinstance(found, list)
    return found


def _first_words(body: Json, number: int) -> Json:
    """The first message has the time in it."""
    first = next(item for item in _items(body) if item.get("role") == "user")
    if "parts" in first:
        first["parts"][0]["text"] += f" ({number})"
    else:
        first["content"] += f" ({number})"
    return body


def _late_tool(body: Json, number: int) -> Json:
    """A tool is declared when it is first wanted."""
    if number >= 3:
        tool = dict(body["tools"][0])
        for field in ("function", "functionDeclarations"):
            if field in tool:
                inner = tool[field]
                one = inner[0] if isinstance(inner, list) else inner
                tool[field] = (
                    [{**one, "name": "late"}]
                    if isinstance(inner, list)
                    else {
                        **one,
                        "name": "late",
                    }
                )
        body["tools"] = [*body["tools"], {**tool, "name": "late"} if "name" in tool else tool]
    return body


def _no_reasoning(body: Json, _number: int) -> Json:
    """What the model thought is left out."""
    body["include"] = body.get("include", [])
    if "input" not in body:
        del body["include"]
    else:
        body["input"] = [
            {name: value for name, value in item.items() if name != "id"}
            for item in body["input"]
            if item.get("type") != "reasoning"
        ]
    for item in _items(body):
        item.pop("reasoning_content", None)
        if item.get("role") == "assistant" and isinstance(item.get("content"), list):
            item["content"] = [b for b in item["content"] if b.get("type") != "thinking"]
        for part in item.get("parts", ()):
            part.pop("thoughtSignature", None)
    return body


def _old_results_cleared(body: Json, _number: int) -> Json:
    """All results but the newest are shortened, and nobody is told."""
    results: list[tuple[Json, str]] = []
    for item in _items(body):
        if item.get("role") == "tool":
            results.append((item, "content"))
        if item.get("type") == "function_call_output":
            results.append((item, "output"))
        content = item.get("content")
        blocks = content if isinstance(content, list) else []
        results += [(one, "content") for one in blocks if one.get("type") == "tool_result"]
        answers = (part.get("functionResponse") for part in item.get("parts", ()))
        results += [(answer, "response") for answer in answers if answer]
    for holder, field in results[:-1]:
        holder[field] = {"output": "cleared"} if field == "response" else "cleared"
    return body


def _last_message_twice(body: Json, number: int) -> Json:
    """A reminder comes with each request, and is gone in the next one."""
    last = _items(body)[-1]
    if "parts" in last:
        last["parts"].append({"text": f"Remember: {number}."})
    elif isinstance(last.get("content"), list):
        last["content"].append({"type": "text", "text": f"Remember: {number}."})
    else:
        field = "output" if "output" in last else "content"
        last[field] += f" Remember: {number}."
    return body


SPOILS = [_first_words, _late_tool, _no_reasoning, _old_results_cleared, _last_message_twice]
LIFE = (
    Say(40, ((5, 5), (300,))),
    Pause(4_000),
    Resume(),
    Say(5, ((5,),)),
    Rewind(1),
    Say(40, ((5,), (5,))),
    Switch(0),
    Say(5),
)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("spoil", SPOILS, ids=lambda one: one.__name__)
def test_a_client_that_breaks_a_law_is_caught(dialect: str, spoil: Any) -> None:
    """Each way to spoil a request is seen in each dialect, and the same life is well without."""
    life = Life(dialect, 0, 200_000, streams=False, thinking=False, steps=LIFE)
    assert Proxied(life, is_direct=True).run() == []
    assert Proxied(life, is_direct=True, spoil=spoil).run() != []


def test_what_begins_an_epoch() -> None:
    """Cuts, prunes and epoch records of a later version do; messages do not."""
    assert epoch_cause(Compaction(id="a", summary="x")) == "cut"
    assert epoch_cause(Unknown(id="b", type="epoch", extra={"cause": "reset"})) == "reset"
    assert epoch_cause(User(id="c", content="Hi")) is None
