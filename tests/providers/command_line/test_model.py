"""An agent's command line as the model of a session, with programs that behave as the real ones."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.providers.command_line.agents import FakeAgent
from tests.support.cases import check_all

from holdfast import Assistant, AsyncSession, Session, SessionKey
from holdfast.core.flow.effects import Cancelled
from holdfast.core.history.backends import BACKEND, BackendIdentity
from holdfast.core.turn.options import Limits
from holdfast.errors import BadSetting, ContextOverflow, ModelError
from holdfast.providers.command_line import child
from holdfast.providers.models import async_model, model
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from holdfast.core.log.records import Json

NAMES = ("claude", "codex")


@pytest.fixture(params=NAMES)
def agent(request: pytest.FixtureRequest, tmp_path: Path) -> FakeAgent:
    return FakeAgent(tmp_path, request.param)


@pytest.fixture
def claude(tmp_path: Path) -> FakeAgent:
    return FakeAgent(tmp_path, "claude")


@pytest.fixture
def codex(tmp_path: Path) -> FakeAgent:
    return FakeAgent(tmp_path, "codex")


@pytest.fixture
def root(tmp_path: Path) -> str:
    return str(tmp_path / "root")


def talk(agent: FakeAgent, root: str, *said: str, name: str = "trip", **settings: Any) -> list[str]:
    """The answers to some messages, each in an object of its own, as after a restart."""
    answers = []
    options = {key: settings.pop(key) for key in ("system", "notes") if key in settings}
    for words in said:
        with Session.open(name, model=agent.model(**settings), store=root, **options) as session:
            answers.append(session.say(words).text)
    return answers


def states(root: str, name: str = "trip") -> list[Json]:
    with JsonlStore(root) as store:
        records = [entry.record for entry in store.read_all(SessionKey("main", name))]
    return [record.extra.get(BACKEND, {}) for record in records if isinstance(record, Assistant)]


def test_each_process_resumes_the_session_of_the_agent(agent: FakeAgent, root: str) -> None:
    """The agent gets the new message alone, and the log names the agent's session."""
    first, second = talk(agent, root, "Which train?", "And back?", system="Be brief.")
    assert first.startswith("answer 1")
    assert second == first.replace("1", "2", 1)
    prompts = [call["prompt"] for call in agent.calls]
    assert prompts[1] == "And back?"
    assert "Be brief." in prompts[0] or "Be brief." in agent.calls[0]["args"]
    begun, resumed = states(root)
    assert begun["session"] == resumed["session"] == agent.calls[0]["session"]
    assert begun["started"] == "it is the first reply"
    assert "started" not in resumed
    assert begun["usage"]["input_tokens"] == 900_000, "kept, and not taken for a request's size"


def test_a_session_that_the_agent_lost_is_told_to_a_new_one(agent: FakeAgent, root: str) -> None:
    talk(agent, root, f"Which train? My key is sk-ant-api03-{'a' * 90}, ok?")
    agent.forget()
    talk(agent, root, "And back?", "Thanks.")
    told = agent.calls[1]["prompt"]
    assert "User: Which train?" in told
    assert "Assistant: answer 1" in told
    assert "<next_user_message>\nAnd back?" in told
    assert "a" * 90 not in told, "secrets are masked on the way to another program"
    assert told.count("And back?") == 1
    assert agent.calls[2]["prompt"] == "Thanks."
    lost, after = states(root)[1:]
    assert lost["started"] == "it no longer knows its session"
    assert lost["session"] == after["session"] != states(root)[0]["session"]


def test_an_answer_in_another_session_is_not_taken(agent: FakeAgent, root: str) -> None:
    """Codex begins a new thread for an id that it cannot read, and exits with 0."""
    talk(agent, root, "Which train?")
    agent.be("other")
    talk(agent, root, "And back?")
    assert states(root)[-1]["started"] == "it answered in another session than its own"
    assert "User: Which train?" in agent.calls[-1]["prompt"]


def test_a_full_session_is_left_for_a_new_one(codex: FakeAgent, root: str) -> None:
    """A thread of Codex that is over its window fails at every resume."""
    talk(codex, root, "Which train?")
    codex.be("full")
    talk(codex, root, "And back?")
    assert states(root)[-1]["started"] == "its context window is full"
    assert "User: Which train?" in codex.calls[-1]["prompt"]


@pytest.mark.parametrize("limit", [100_000, 30_000])
def test_a_giant_message_does_not_end_the_conversation(
    agent: FakeAgent, root: str, limit: int
) -> None:
    """A window that is full amid work is a full window: a new session with a smaller prompt
    follows, the limit is learned, and the next messages are answered at their first try."""
    talk(agent, root, "Which train?")
    agent.be(f"small {limit}")
    tries = agent.home / "tries"
    with Session.open("trip", model=agent.model(), store=root) as session:
        assert session.say("x" * 400_000).text
        sizes = [int(line) for line in tries.read_text().splitlines()]
        assert len(sizes) <= 1 + 4
        assert sizes[1:] == sorted(sizes[1:], reverse=True)
        assert sizes[-1] <= limit
        tries.write_text("")
        for text in ("And back?", "y" * 400_000, "Thanks."):
            assert session.say(text).text
        later = [int(line) for line in tries.read_text().splitlines()]
        assert max(later) <= limit
        assert len(later) <= 3 * 2, "a full session is left once for each message"


def test_a_window_without_room_is_an_overflow(agent: FakeAgent, root: str) -> None:
    """Where nothing fits, it is one clear error after a bounded number of sessions."""
    agent.be("small 1")
    with (
        Session.open("trip", model=agent.model(), store=root) as session,
        pytest.raises(ContextOverflow),
    ):
        session.say("hello")


def test_another_identity_begins_another_session(tmp_path: Path) -> None:
    """Every part of an identity, found by introspection, and each with its reason in the log."""
    (tmp_path / "other").mkdir()
    agent, codex = FakeAgent(tmp_path, "claude"), FakeAgent(tmp_path / "other", "codex")
    root, options = str(tmp_path / "root"), ("--model", "opus")
    changes: dict[str, tuple[Any, str]] = {
        "": (agent.model(), "Be brief."),
        "account": (agent.model(account="ann"), "Be brief."),
        "model": (agent.model(*options, account="ann"), "Be brief."),
        "system": (agent.model(*options, account="ann"), "Be long."),
        "folder": (agent.model(*options, account="ann", folder=str(tmp_path)), "Be long."),
        "command": (codex.model(), "Be long."),
    }
    assert changes.keys() - {""} == set(BackendIdentity.__struct_fields__)
    reasons = {}
    for part, (backend, system) in changes.items():
        with Session.open("trip", model=backend, store=root, system=system) as session:
            session.say(f"One {part}.")
        reasons[part] = states(root)[-1]["started"]
    told = [call["prompt"] for call in (*agent.calls, *codex.calls)]
    assert all("User: One ." in text for text in told[1:])
    assert len({state["session"] for state in states(root)}) == len(changes)
    assert reasons.pop("") == "it is the first reply"
    assert reasons == {
        "account": "the account changed",
        "model": "the model changed",
        "system": "the system prompt changed",
        "folder": "the working folder changed",
        "command": "another command answered before",
    }


def test_accounts_are_told_apart_without_a_key_in_the_log(tmp_path: Path, root: str) -> None:
    """By a key in the environment, and by the login that the agent's settings name."""
    agent = FakeAgent(tmp_path, "claude")
    keys = [{"HOME": str(tmp_path), "ANTHROPIC_API_KEY": f"sk-{name}"} for name in ("ann", "bob")]
    for environment in (*keys, keys[1]):
        talk(agent, root, "Hello.", environment=environment)
    (tmp_path / ".claude.json").write_text('{"oauthAccount": {"accountUuid": "u-1"}}')
    talk(agent, root, "Hello.", environment=keys[1])
    found = states(root)
    reasons = [state.get("started") for state in found]
    changed = "the account changed"
    assert reasons == ["it is the first reply", changed, None, changed]
    assert "sk-" not in str(found)


def test_a_rewind_and_a_copy_begin_another_session(claude: FakeAgent, root: str) -> None:
    """The agent's session knows what was taken back, and a copy must not go on in it."""
    talk(claude, root, "One.", "Two.")
    with Session.open("trip", model=claude.model(), store=root) as session:
        session.undo()
        session.say("Three.")
        copy = SessionKey("main", "copy")
        session.store.fork(session.key, copy, at=None)
    assert states(root)[-1]["started"] == "the conversation was rewound"
    assert "Two." not in claude.calls[-1]["prompt"]
    talk(claude, root, "Four.", name=copy.session)
    last = states(root, copy.session)[-1]
    assert last["started"] == "the session is a copy of another one"
    with Session.open("trip", model="offline", store=root) as session:
        session.say("Five.")
    talk(claude, root, "Six.")
    assert states(root)[-1]["started"] == "another model answered before"


def failures() -> Iterator[tuple[str, str, str]]:
    """Modes of the programs, and how each failure is named."""
    yield "garbage", "transport", "do_not_retry"
    yield "silent", "transport", "do_not_retry"
    yield "killed", "transport", "do_not_retry"
    yield "huge", "transport", "do_not_retry"
    yield "hang", "timeout", "do_not_retry"
    yield "worked", "transport", "do_not_retry"
    yield "error", "rate_limit", "wait_and_retry"


def test_failures_have_names_and_leave_the_session_sound(
    agent: FakeAgent, root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next turn goes on in the same session of the agent, with all that was not answered."""
    monkeypatch.setattr(child, "LINE_BYTES_MAX", 50_000)
    talk(agent, root, "One.")

    def check(mode: str, kind: str, action: str) -> None:
        agent.be(mode)
        short = agent.model(timeout=1.0 if mode == "hang" else None)
        with (
            Session.open("trip", model=short, store=root, limits=Limits(waits=0)) as session,
            pytest.raises(ModelError) as caught,
        ):
            session.say(f"Fail by {mode}.")
        failure = caught.value.failure
        assert failure is not None
        assert (failure.kind, failure.action) == (kind, action), str(caught.value)

    check_all(list(failures()), lambda case: check(*case))
    agent.be("")
    talk(agent, root, "Go on.")
    assert all(f"Fail by {mode}." in agent.calls[-1]["prompt"] for mode, *_ in failures())
    assert "started" not in states(root)[-1]


def test_what_a_call_leaves_behind_does_not_hold_it_up(claude: FakeAgent, root: str) -> None:
    """A process that outlives the agent keeps its output open."""
    claude.be("daemon")
    assert talk(claude, root, "One.")[0].startswith("answer 1")


def test_an_error_line_of_a_retry_is_no_failure(tmp_path: Path, root: str) -> None:
    agent = FakeAgent(tmp_path, "codex")
    agent.be("retried")
    assert talk(agent, root, "One.")[0].startswith("answer 1")


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until, "it never happened"
        time.sleep(0.01)


def is_gone(pid: int) -> bool:
    """True if no such process runs; one that init has not reaped yet does not."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_cancelled_call_ends_the_agent_and_what_it_started(claude: FakeAgent, root: str) -> None:
    claude.be("hang")
    pids = claude.home / "pids"
    ended: list[BaseException] = []
    with Session.open("trip", model=claude.model(), store=root) as session:

        def say() -> None:
            try:
                session.say("One.")
            except BaseException as error:
                ended.append(error)

        thread = threading.Thread(target=say)
        thread.start()
        wait_for(pids.exists)
        session.cancel()
        thread.join(60)
    assert [type(error) for error in ended] == [Cancelled]
    for pid in map(int, pids.read_text().split()):
        wait_for(lambda pid=pid: is_gone(pid))  # type: ignore[misc]


def test_a_cancelled_task_ends_the_agent_and_what_it_started(codex: FakeAgent, root: str) -> None:
    codex.be("hang")
    pids = codex.home / "pids"

    async def run() -> None:
        backend = codex.model().as_async()
        async with await AsyncSession.open("trip", model=backend, store=root) as session:
            task = asyncio.ensure_future(session.say("One."))
            await asyncio.to_thread(wait_for, pids.exists)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            codex.be("")
            pieces: list[str] = []
            reply = await session.say("Two.", on_delta=lambda delta: pieces.append(delta.text))
            assert "".join(pieces) == reply.text

    asyncio.run(run())
    for pid in map(int, pids.read_text().split()):
        wait_for(lambda pid=pid: is_gone(pid))  # type: ignore[misc]
    assert "One." in codex.calls[-1]["prompt"]


def test_a_call_without_a_session_keeps_nothing(agent: FakeAgent) -> None:
    """A request for a summary, or of a program of its own, is one conversation."""
    messages = [
        {"role": "user", "content": "Which train?"},
        {"role": "assistant", "content": [{"type": "text", "text": "The 9:12."}]},
        {"role": "user", "content": [{"type": "text", "text": "And back?"}]},
    ]
    reply = agent.model().send({"messages": messages, "system": "Be brief."})
    assert reply.text.startswith("answer 1")
    assert reply.extra == {}
    assert {"--no-session-persistence", "--ephemeral"} & set(agent.calls[0]["args"])
    assert "Assistant: The 9:12." in agent.calls[0]["prompt"]


def test_tools_of_the_session_are_refused(claude: FakeAgent, root: str) -> None:
    def look(path: str) -> str:
        """Look at a file."""
        return path

    with (
        Session.open("trip", model=claude.model(), store=root, tools=[look]) as session,
        pytest.raises(BadSetting, match="runs tools of its own"),
    ):
        session.say("One.")
    assert claude.calls == []


def test_any_command_can_answer(tmp_path: Path, root: str) -> None:
    """With plain text it is told everything each time; one that names a session is not."""
    plain = tmp_path / "plain"
    plain.write_text('#!/bin/sh\necho "Heard:"; cat\n')
    spoken = tmp_path / "spoken"
    spoken.write_text(
        '#!/bin/sh\necho "{\\"type\\": \\"session\\", \\"id\\": \\"s1\\"}"\n'
        'if [ "$HOLDFAST_BACKEND_SESSION" = s1 ] && [ -e gone ]; then '
        'echo "{\\"type\\": \\"error\\", \\"code\\": \\"unknown_session\\"}"; exit; fi\n'
        "said=$(cat | wc -c)\n"
        'echo "{\\"type\\": \\"text\\", \\"text\\": \\"$HOLDFAST_BACKEND_SESSION/$said\\"}"\n'
    )
    for file in (plain, spoken):
        file.chmod(0o755)
    with Session.open("a", model=f"cli:{plain}", store=root) as session:
        assert session.say("One.").text == "Heard:\nOne."
        assert "User: One." in session.say("Two.").text
    from holdfast.providers.command_line.model import CommandLineModel

    own = CommandLineModel([str(spoken)], folder=str(tmp_path))
    with Session.open("b", model=own, store=root) as session:
        assert session.say("One.").text == "/4"
        assert session.say("Two!!").text == "s1/5"
        (tmp_path / "gone").touch()
        os.environ.pop("HOLDFAST_BACKEND_SESSION", None)
        assert int(session.say("Three").text[1:]) > 100
    reasons = [state.get("started") for state in states(root, "b")]
    assert reasons == ["it is the first reply", None, "it no longer knows its session"]


def test_commands_that_cannot_be_started_are_refused() -> None:
    for name in ("cli:", "cli: ", 'cli:"claude'):
        with pytest.raises(BadSetting):
            model(name)
    missing = model("cli:/nowhere/claude")
    with pytest.raises(BadSetting, match="no program"):
        missing.ready()  # type: ignore[attr-defined]
    with pytest.raises(BadSetting, match="cannot be started"):
        missing.send({"messages": [{"role": "user", "content": "One."}]})
    assert async_model("cli:codex").target.model == "codex"
