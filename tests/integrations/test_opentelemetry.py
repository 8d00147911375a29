"""Spans of a session, read back from the real SDK."""

from __future__ import annotations

import json
import re
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from holdfast import Session
from holdfast.errors import ModelError
from holdfast.integrations.opentelemetry import trace
from holdfast.testing import Answer, Loopback, ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytest.importorskip("opentelemetry.sdk")


@pytest.fixture
def spans() -> tuple[Any, Callable[[], list[Any]]]:
    """A tracer, and what it has finished so far."""
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor
    from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    return provider.get_tracer("test"), lambda: list(exporter.get_finished_spans())


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_a_turn_has_spans_for_its_calls_and_tools(tmp_path: Path, spans: Any) -> None:
    """One `invoke_agent` span with two `chat` spans and an `execute_tool` span under it."""
    tracer, finished = spans
    script = ScriptedModel([calls(("c1", "add", {"a": 1, "b": 2})), "three"])
    with Session.open("s", model=script, store=str(tmp_path), tools=[add]) as session:
        trace(session, tracer)
        session.say("what is 1 + 2?")
    found = finished()
    assert [one.name for one in found] == [
        "chat scripted-1",
        "execute_tool add",
        "chat scripted-1",
        "invoke_agent main",
    ]
    turn = found[-1]
    assert {one.parent.span_id for one in found[:-1]} == {turn.context.span_id}
    assert turn.attributes["gen_ai.conversation.id"] == "main/s"
    assert found[0].attributes["gen_ai.usage.input_tokens"] > 0
    assert found[1].attributes["gen_ai.tool.call.id"] == "c1"
    assert not any("1 + 2" in str(one.attributes) for one in found)


def test_a_failed_turn_ends_its_spans_as_errors(tmp_path: Path, spans: Any) -> None:
    """The class of the failure is on the call, and nothing stays open."""
    tracer, finished = spans

    class Refused(Exception):
        status_code = 401
        body: ClassVar = {"error": {"type": "authentication_error", "message": "invalid x-api-key"}}

    script = ScriptedModel([Refused("Error code: 401")])
    with Session.open("s", model=script, store=str(tmp_path)) as session:
        trace(session, tracer)
        with pytest.raises(ModelError):
            session.say("hello")
    found = finished()
    assert [one.status.is_ok for one in found] == [False, False]
    assert found[0].attributes["error.type"] == "auth"


def test_the_returned_function_ends_it(tmp_path: Path, spans: Any) -> None:
    """Afterwards nothing more is traced."""
    tracer, finished = spans
    script = ScriptedModel(["one", "two"])
    with Session.open("s", model=script, store=str(tmp_path)) as session:
        stop = trace(session, tracer)
        session.say("hello")
        before = len(finished())
        stop()
        session.say("again")
    assert len(finished()) == before


def test_a_call_says_whether_it_keeps_the_prefix_of_the_last(tmp_path: Path, spans: Any) -> None:
    """The attribute is true exactly where the request, as the provider got it, begins with the one
    before it; a compaction, another system prompt and what follows are all tried."""
    tracer, finished = spans
    with Loopback(lambda asked: Answer(f"Answer {asked.number}. " + "word " * 2_000)) as provider:
        name = f"anthropic:claude-opus-4-8@{provider.url}"

        def talk(turns: int, system: str) -> None:
            with Session.open(
                "s",
                model=name,
                store=str(tmp_path),
                system=system,
                window=20_000,
                summary="extract",
            ) as session:
                trace(session, tracer)
                for number in range(turns):
                    session.say(f"{system} {number}")

        talk(9, "Be brief.")
        talk(2, "Be long.")
        sent = [request.body for request in provider.requests]
    chats = [span for span in finished() if span.attributes["gen_ai.operation.name"] == "chat"]
    turns = [span for span in chats if span.attributes["holdfast.purpose"] == "turn"]
    assert {span.attributes["gen_ai.conversation.id"] for span in chats} == {"main/s"}
    kept = [span.attributes.get("holdfast.prefix.kept") for span in turns]
    begins = [_begins_with(after, before) for before, after in pairwise(sent)]
    assert kept == [None, *begins]
    assert kept[-2] is False  # another system prompt
    assert {True, False} <= set(kept[1:9])  # the window was full in between


def _begins_with(after: Any, before: Any) -> bool:
    """True where a request is the one before it and more; marks of the cache may move."""
    one, other = (_plain(body) for body in (before, after))
    same = [one[name] == other[name] for name in ("system", "tools")]
    return all(same) and other["messages"][: len(one["messages"])] == one["messages"]


def _plain(body: Any) -> Any:
    text = re.sub(r',?"cache_control":\{[^}]*\},?', "", json.dumps(body, separators=(",", ":")))
    found = json.loads(text.replace("}{", "},{"))
    return {"system": found.get("system"), "tools": found.get("tools"), **found}
