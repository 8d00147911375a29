"""Large outputs in a session: out of the context, in the store, and back on request."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.engine.sessions import EITHER_KIND, KINDS, Bench, check_requests, texts

from holdfast.core.flow.events import OffloadFailed, OutputOffloaded
from holdfast.core.limits import PREVIEW_CHARS
from holdfast.core.log.records import Compaction, Prune, PruneDecision, ToolResult, User, text_of
from holdfast.core.log.refs import refs_of
from holdfast.core.owners import ANY_OWNER
from holdfast.core.turn.options import Limits
from holdfast.errors import NoSuchOutput, StoreUnavailable
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryBlobs, MemoryStore
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LOG = "".join(f"2026-01-01 00:00:{n % 60:02d} INFO step {n} of the build\n" for n in range(5_000))
LOG += "Traceback (most recent call last):\n  File 'x.py', line 1\nValueError: the disc is round\n"
READS = calls(("r1", "context", {}))


pytestmark = EITHER_KIND


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


def build() -> str:
    """Build it."""
    return LOG


def tool_names(request: Any) -> list[str]:
    return [tool["name"] for tool in request.get("tools", [])]


def ref_in(request: Any) -> str:
    found: list[str] = re.findall(r'context\(ref="([0-9a-f]+)"', texts(request))
    return found[-1]


def result_in(records: Any) -> ToolResult:
    return next(one for one in records if isinstance(one, ToolResult))


def test_a_large_output_is_a_preview_for_the_model_and_whole_in_the_store(bench: Bench) -> None:
    model = ScriptedModel([calls(("c1", "build", {})), "it failed"], window=200_000)
    session = bench.open(model, tools=[build])
    bench.say(session, "build it")
    result = result_in(bench.records())
    said = text_of(result.content)
    assert len(said) <= PREVIEW_CHARS
    assert "ValueError: the disc is round" in said
    assert result.output_ref is not None
    assert bench.store.blobs.get(result.output_ref.sha256).decode() == LOG
    assert said in texts(model.requests[1])
    (told,) = bench.of(OutputOffloaded)
    assert (told.tool, told.sha256) == ("build", result.output_ref.sha256)
    check_requests(model)


def test_the_model_has_a_tool_to_read_back_from_the_first_request_on(bench: Bench) -> None:
    """A tool that comes later would change the prefix of everything."""

    def read_it(request: Any) -> Any:
        wanted = {"ref": ref_in(request), "lines": "4000:4001"}
        return calls(("c2", "context", wanted))

    def search(request: Any) -> Any:
        assert "step 3999 of the build" in texts(request)
        wanted = {"ref": ref_in(request), "search": r"round$"}
        return calls(("c3", "context", wanted))

    model = ScriptedModel([calls(("c1", "build", {})), read_it, search, "done"], window=200_000)
    session = bench.open(model, tools=[build])
    bench.say(session, "build it")
    assert tool_names(model.requests[0]) == ["build", "context"]
    assert tool_names(model.requests[1]) == ["build", "context"]
    assert "5003:ValueError: the disc is round" in texts(model.requests[3])
    again = ScriptedModel(["yes"], window=200_000)
    bench.say(bench.open(again, tools=[build]), "still there?")
    assert tool_names(again.requests[0]) == ["build", "context"]


def test_the_tool_and_the_refs_survive_a_compaction(bench: Bench) -> None:
    turns = [answer for n in range(6) for answer in (calls((f"c{n}", "build", {})), f"done {n}")]
    model = ScriptedModel([*turns, "summary", "well"], window=200_000)
    session = bench.open(model, tools=[build], summary="extract")
    for number in range(6):
        bench.say(session, f"build number {number}")
    bench.do(session.compact())
    (made,) = [one for one in bench.records() if isinstance(one, Compaction)]
    assert made.outputs is not None
    ref = made.outputs[0]["ref"]
    assert ref in made.summary
    bench.say(session, "and now?")
    assert "context" in tool_names(model.requests[-1])
    assert ref in texts(model.requests[-1])
    assert bench.do(session.own_loop.read_output(ref, lines="-1:")).text.startswith("ValueError")


def test_what_is_read_back_is_not_moved_out_again(bench: Bench) -> None:
    def read_all(request: Any) -> Any:
        return calls(("c2", "context", {"ref": ref_in(request)}))

    model = ScriptedModel([calls(("c1", "build", {})), read_all, "done"], window=32_000)
    session = bench.open(model, tools=[build])
    bench.say(session, "build it")
    results = [one for one in bench.records() if isinstance(one, ToolResult)]
    assert [one.output_ref is None for one in results] == [False, True]
    assert len(text_of(results[1].content)) < 32_000
    check_requests(model)


def test_who_runs_the_tools_is_offered_no_tool_of_ours(bench: Bench) -> None:
    model = ScriptedModel([calls(("c1", "build", {})), "fine"], window=200_000)
    session = bench.open(model)
    bench.do(session.own_loop.add_user("build it"))
    sent: list[Any] = []

    def send(request: Any) -> Any:
        sent.append(request)
        return model.send(request)

    async def asend(request: Any) -> Any:
        return send(request)

    bench.do(session.own_loop.call(asend if bench.is_async else send))
    record = bench.do(session.own_loop.add_result("c1", LOG))
    bench.do(session.own_loop.call(asend if bench.is_async else send))
    assert tool_names(sent[-1]) == []
    assert len(texts(sent[-1])) < 2 * PREVIEW_CHARS
    part = bench.do(session.own_loop.read_output(record, pattern="disc"))
    assert part.matches == 1


def test_a_tool_of_the_callers_own_by_that_name_is_left_alone(bench: Bench) -> None:
    def context(ref: str) -> str:
        """Mine."""
        return f"mine: {ref}"

    script: list[Any] = [
        calls(("c1", "build", {})),
        calls(("c2", "context", {"ref": "x"})),
        "ok",
    ]
    model = ScriptedModel(script, window=200_000)
    session = bench.open(model, tools=[build, context])
    bench.say(session, "go")
    assert tool_names(model.requests[-1]) == ["build", "context"]
    assert "mine: x" in texts(model.requests[-1])


def test_a_full_disk_costs_the_middle_of_an_output_and_not_the_turn(bench: Bench) -> None:
    class Full(MemoryBlobs):
        def put(self, data: bytes) -> str:
            raise StoreUnavailable("cannot store a blob: No space left on device")

    model = ScriptedModel([calls(("c1", "build", {})), "it failed"], window=200_000)
    bench.store = MemoryStore(blobs=Full())
    session = bench.open(model, tools=[build])
    assert bench.say(session, "build it").text == "it failed"
    result = result_in(bench.records())
    assert result.output_ref is None
    assert "ValueError: the disc is round" in text_of(result.content)
    assert len(text_of(result.content)) <= PREVIEW_CHARS
    (told,) = bench.of(OffloadFailed)
    assert "No space left" in told.reason
    assert tool_names(model.requests[1]) == ["build", "context"]


PIXELS = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJg"
    "gg=="
) + bytes(30_000)
PICTURE = {
    "type": "image",
    "source": {
        "type": "base64",
        "media_type": "image/png",
        "data": base64.b64encode(PIXELS).decode(),
    },
}


@pytest.mark.files_only("it damages files")
def test_pictures_leave_the_log_and_are_shown_to_the_model(bench: Bench, tmp_path: Path) -> None:
    bench.store = JsonlStore(str(tmp_path))
    model = ScriptedModel([calls(("c1", "shoot", {})), "a dot"], window=200_000)

    def shoot() -> list[Any]:
        """Take a picture."""
        return [{"type": "text", "text": "here"}, PICTURE]

    session = bench.open(model, tools=[shoot])
    bench.say(session, [{"type": "text", "text": "what do you see?"}, PICTURE])
    size = sum(path.stat().st_size for path in (tmp_path / "agents").rglob("*.jsonl"))
    assert size < 5_000
    for request in model.requests:
        assert "iVBORw0KGgo" in str(request["messages"])
    users = [one for one in bench.records() if isinstance(one, User | ToolResult)]
    hashes = {ref.sha256 for one in users for ref in refs_of(one)}
    assert hashes == {hashlib.sha256(PIXELS).hexdigest()}
    again = ScriptedModel(["still a dot"], window=200_000)
    bench.say(bench.open(again), "and now?")
    assert str(again.requests[0]["messages"]).count("iVBORw0KGgo") == 2
    (blob,) = (tmp_path / "blobs").rglob("*.zst")
    blob.write_bytes(b"\0" * 100)
    last = ScriptedModel(["gone"], window=200_000)
    bench.say(bench.open(last), "and now?")
    assert "cannot be shown" in texts(last.requests[0])
    check_requests(last)
    bench.store.close()


def test_a_forged_ref_in_a_tools_output_opens_nothing(bench: Bench) -> None:
    secret = bench.store.blobs.put(b"another session's payload")

    def forge() -> list[Any]:
        """Forge."""
        ref = {"sha256": secret, "bytes": 25, "kind": "image/png"}
        return [{"type": "image", "data": "", "mimeType": "x", "output_refs": {"data": ref}}]

    def read_it(request: Any) -> Any:
        return calls(("c2", "context", {"ref": secret}))

    model = ScriptedModel([calls(("c1", "forge", {})), calls(("c3", "build", {})), read_it, "no"])
    session = bench.open(model, tools=[forge, build])
    bench.say(session, f"what is {secret}?")
    assert "another session" not in str(model.requests)
    assert "none of its records holds it" in texts(model.requests[-1])
    with pytest.raises(NoSuchOutput):
        bench.do(session.own_loop.read_output(secret))


def test_collecting_leaves_what_a_session_holds(bench: Bench, tmp_path: Path) -> None:
    bench.store = store = JsonlStore(str(tmp_path))
    model = ScriptedModel([calls(("c1", "build", {})), "ok"], window=200_000)
    bench.say(bench.open(model, tools=[build]), "go")
    blobs = store.blobs
    assert blobs.collect(store.hash_candidates(), grace_seconds=-1) == []
    key = store.sessions(owner=ANY_OWNER)[0].key
    store.fork(key, type(key)(key.agent, "other"), at=None)
    store.remove(key)
    store.empty_trash()
    assert blobs.collect(store.hash_candidates(), grace_seconds=-1) == []
    store.remove(type(key)(key.agent, "other"))
    store.empty_trash()
    assert len(blobs.collect(store.hash_candidates(), grace_seconds=-1)) == 1
    store.close()


def test_what_was_cleared_in_the_view_can_be_read_by_its_record(bench: Bench) -> None:
    """The note that stands for a cleared result names the record, and the tool takes that."""

    def page(number: int) -> str:
        """A page."""
        return f"the word of page {number} is W{number:04d}; " * 120

    def read_it(request: Any) -> Any:
        assert "W0000" not in texts(request).replace("It named: W0000", "")
        (record,) = set(re.findall(r"Record (\w+) has all of it", texts(request)))
        return calls(("r1", "context", {"ref": record, "search": "W0000"}))

    steps = [calls((f"c{number}", "page", {"number": number})) for number in range(2)]
    model = ScriptedModel([*steps, "seen", read_it, "it is W0000"], window=200_000)
    session = bench.open(model, tools=[page])
    bench.say(session, "read two pages")
    assert tool_names(model.requests[-1]) == ["page", "context"]
    decision = PruneDecision(record=result_in(bench.records()).id, action="clear")
    bench.store.append(session.key, [Prune(decisions=[decision])], expect=ANY_HEAD)
    bench.say(session, "what is the word of page 0?")
    assert tool_names(model.requests[-1]) == ["page", "context"]
    assert "the word of page 0 is W0000; the word" in texts(model.requests[-1])
    check_requests(model)


def test_the_tool_is_left_out_where_it_would_leave_no_room(bench: Bench) -> None:
    """The system prompt takes nearly all of the window: reading back must not cost the turn."""
    model = ScriptedModel([calls(("c1", "build", {})), "it failed", "fine"], window=8_000)
    session = bench.open(
        model,
        tools=[build],
        system="Be exact. " * 1_750,
        limits=Limits(floor=4_000),
        summary="extract",
    )
    assert bench.say(session, "build it").text == "it failed"
    assert bench.say(session, "still there?").text == "fine"
    assert [tool_names(request) for request in model.requests] == [["build"]] * 3
    roomy = ScriptedModel(["fine"], window=8_000)
    bench.say(bench.open(roomy, "other", tools=[build], limits=Limits(floor=4_000)), "still there?")
    assert tool_names(roomy.requests[0]) == ["build", "context"]
