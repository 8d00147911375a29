"""Credentials that nobody registered, in a session: a warning, or a handle at rest."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.secrets.planted_secrets import TOKENS
from tests.engine.sessions import EITHER_KIND, KINDS, Bench, check_requests, texts

from holdfast.core.flow.events import SecretFound, ToolFinished
from holdfast.core.log.records import encode
from holdfast.core.models.replies import Reply
from holdfast.core.secrets.found import Secrets
from holdfast.errors import SecretLost
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing.scripted import ScriptedModel, calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.databases import Contents

KEY = TOKENS["GitHub"]
HANDLE = re.compile(r"<secret:found-[0-9a-f]{12}-\d+>")


pytestmark = EITHER_KIND


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


def everything(bench: Bench) -> str:
    return "".join(encode(record).decode() for record in bench.records())


WAYS_IN = {
    "say": lambda session: session.say(f"use {KEY}"),
    "add_user": lambda session: session.own_loop.add_user(f"use {KEY}"),
    "inject_context": lambda session: session.own_loop.inject_context(f"use {KEY}", source="test"),
    "add_result": lambda session: session.own_loop.add_result("c1", f"use {KEY}"),
    "record": lambda session: session.own_loop.record(
        Reply(content=[{"type": "text", "text": f"use {KEY}"}])
    ),
}


def open_with_call(bench: Bench, name: str, **options: Any) -> Any:
    """A session whose model waits for the result of the call `c1`."""
    session = bench.open(["ok"], name, **options)
    bench.do(session.own_loop.add_user("build it"))
    bench.do(session.own_loop.record(calls(("c1", "build", {}))))
    return session


@pytest.mark.parametrize("way", WAYS_IN)
def test_every_way_in_warns_or_stores_a_handle(bench: Bench, way: str) -> None:
    session = open_with_call(bench, "s")
    bench.do(WAYS_IN[way](session))
    (found,) = bench.of(SecretFound)
    assert (found.kind, found.is_stored) == ("ghp_", True)
    holder = next(record for record in bench.records() if record.id == found.record)
    assert holder.kind == found.type
    assert KEY in encode(holder).decode()
    assert KEY[4:] not in repr(found)
    other = open_with_call(bench, "t", secrets=Secrets({}, found="handle"))
    bench.do(WAYS_IN[way](other))
    assert [event.is_stored for event in bench.of(SecretFound)] == [True, False]
    written = "".join(encode(record).decode() for record in bench.records("t"))
    assert KEY not in written
    assert HANDLE.search(written)


def test_a_found_secret_is_a_handle_until_a_tool_needs_it(
    bench: Bench, tmp_path: Path, contents: Contents
) -> None:
    """The whole way: no file of the store and no request has the key, and the tool gets it."""
    bench.store = JsonlStore(str(tmp_path))
    ran: list[str] = []

    def run(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return f"GITHUB={KEY}\n" + "line\n" * 40_000 if command == "env" else f"ran {command}"

    def push(request: Any) -> Reply:
        return calls(("c2", "run", {"command": f"push {HANDLE.findall(texts(request))[-1]}"}))

    script: list[Any] = [calls(("c1", "run", {"command": "env"})), push, "done"]
    model = ScriptedModel(script, window=200_000)
    session = bench.open(model, tools=[run], secrets=Secrets({}, found="handle"))
    bench.say(session, f"push it; the key is {KEY}")
    assert ran == ["env", f"push {KEY}"]
    assert KEY not in json.dumps(model.requests)
    assert HANDLE.search(texts(model.requests[0]))
    kept = [data for _name, data in contents(tmp_path)]
    assert kept
    assert all(KEY.encode() not in data for data in kept)
    outputs = [ref.sha256 for record in bench.records() if (ref := _ref(record)) is not None]
    assert outputs
    assert all(KEY.encode() not in session.store.blobs.get(sha256) for sha256 in outputs)
    check_requests(model)


def _ref(record: Any) -> Any:
    return getattr(record, "output_ref", None)


def test_after_a_restart_a_handle_is_an_error_for_the_tool(bench: Bench) -> None:
    ran: list[str] = []

    def run(command: str) -> str:
        """Run a command."""
        ran.append(command)
        return "ran"

    first = bench.open(["ok"], secrets=Secrets({}, found="handle"))
    bench.say(first, f"the key is {KEY}")
    handle = HANDLE.search(everything(bench))
    assert handle is not None
    bench.do(first.close())
    script: list[Any] = [calls(("c1", "run", {"command": f"push {handle[0]}"})), "I need it again"]
    model = ScriptedModel(script, window=200_000)
    second = bench.open(model, tools=[run], secrets=Secrets({}, found="handle"))
    bench.say(second, "push it")
    assert ran == []
    (finished,) = bench.of(ToolFinished)
    assert finished.is_error
    assert f"no process has the value of `{handle[0]}`" in texts(model.requests[1])
    with pytest.raises(SecretLost):
        second.own_loop.resolve({"command": handle[0]}, "run")


def test_a_kind_is_reported_once_and_keep_reports_nothing(bench: Bench) -> None:
    session = bench.open(["ok", "ok"])
    bench.say(session, f"use {KEY}")
    bench.say(session, f"and {TOKENS['GitHub'][:-4]}ABCD, {TOKENS['npm']}")
    assert [event.kind for event in bench.of(SecretFound)] == ["ghp_", "npm_"]
    kept = bench.open(["ok"], "t", secrets=Secrets({}, found="keep"))
    bench.say(kept, f"use {KEY}")
    assert len(bench.of(SecretFound)) == 2


def test_a_registered_secret_is_not_reported(bench: Bench) -> None:
    session = bench.open(["ok"], secrets={"GITHUB": KEY})
    bench.say(session, f"use {KEY}")
    assert bench.of(SecretFound) == []
