"""The real agents against a provider on this machine, as far as they are installed.

`make clients` installs them (about 3 GB) and runs this; anywhere else these tests are skipped, and
the report says so. Seen in November 2026, with Claude Code 2.1.197, its Agent SDK 0.2.182
(Claude Code 2.1.325), Codex 0.166.0, pi 0.73.1, OpenClaw 2026.9.6, Gemini CLI 0.61.0,
Qwen Code 0.24.4, opencode 1.18.18 and aider 0.86.2:

- The Agent SDK calls hooks for `SessionStart` after a compaction, though its types do not list that
  event. `additionalContext` is in the next request, once, in a `<system-reminder>`; the messages
  that an application gets have nothing of it.
- The Agent SDK sends the `updatedToolOutput` of `PostToolUse` for shell commands and MCP tools as
  it is. That of `Read` gets new line numbers, so a preview would show wrong ones.
- The view of each imported transcript has the messages that the agent itself sends next.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.surfaces.http.real import ServeProcess

from holdfast import JsonlStore, Session, SessionKey
from holdfast.core.dialects.registry import target
from holdfast.core.log.records import Assistant, Compaction, ToolResult, User
from holdfast.core.owners import ANY_OWNER, row_text
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.core.window import Window
from holdfast.engine.outputs import Outputs
from holdfast.importers import read_transcript
from holdfast.importers.export import TranscriptAbout, export_transcript
from holdfast.integrations.claude_agent import EVENTS, CompactionHook, OutputHook, RecallHook
from holdfast.providers.command_line.model import CommandLineModel
from holdfast.testing import Loopback
from holdfast.testing.loopback import Answer, Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.testing.loopback import Asked

ROOT = Path(__file__).parents[2]
CLIENTS = f"{ROOT}/.clients/node_modules/.bin:{ROOT}/.venv-aider/bin:{Path(sys.executable).parent}"
MODEL = "claude-sonnet-4-5"
BOUND_MODEL = "claude-fable-5-2"
"""One that checks the prefix of its reasoning, for every account."""
BOUND_GPT = "gpt-6.2-sol"
"""One that drops its reasoning behind another prefix."""
WORDS = ("alpha", "beta", "gamma", "delta", "epsilon", "zeta")
SUMMARY = "the-gist"
_MARK = re.compile(rf"word-\w+|answer-\d+|{SUMMARY}")


def needs(client: str) -> str:
    """The path of an installed client; the test is skipped where there is none."""
    found = shutil.which(client, path=f"{CLIENTS}:{os.environ.get('PATH', '')}")
    if found is None:
        pytest.skip(f"`{client}` is not installed: `make clients` installs and tests it")
    return found


class Agent:
    """A brain that answers with marks, and the home of one client."""

    def __init__(self, home: Path, asks_for_summary: str) -> None:
        self.home = home
        (home / "work").mkdir()
        self._asks = asks_for_summary
        self._answers = 0

    def __call__(self, asked: Asked) -> Answer:
        if self._asks in f"{asked.system}\n{asked.text}":
            return Answer(f"<summary>{SUMMARY}</summary>", thinking="Hm.")
        self._answers += 1
        words = " ".join(f"w{number * 7919 % 10_007}" for number in range(700))
        return Answer(f"answer-{self._answers} {words}", thinking="Hm." if asked.thinks else "")

    def run(self, *command: str, **environment: str) -> str:
        known = {"PATH": f"{Path(command[0]).parent}:/usr/local/bin:/usr/bin:/bin", "TERM": "xterm"}
        done = subprocess.run(
            command,
            env={**known, "HOME": str(self.home), **environment},
            cwd=self.home / "work",
            input="",
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout[-2_000:]}\n{done.stderr[-2_000:]}"
        return done.stdout


def marks(value: Any) -> set[str]:
    """Every mark in the texts of a JSON-like value."""
    match value:
        case str():
            return set(_MARK.findall(value))
        case dict():
            return {mark for item in value.values() for mark in marks(item)}
        case list():
            return {mark for item in value for mark in marks(item)}
        case _:
            return set()


def view_of(transcript: Path, last: str) -> set[str]:
    """The marks in the next request, had Holdfast made it when the user said `last`."""
    (found,) = read_transcript(transcript.read_bytes(), transcript.name)
    users = [
        place
        for place, record in enumerate(found.records)
        if isinstance(record, User) and last in str(record.content)
    ]
    rest = found.records[users[-1] :]
    answered = next(at for at, record in enumerate(rest) if isinstance(record, Assistant))
    records = found.records[: users[-1] + answered]  # a compaction may come before the answer
    plan = project(ProjectionRequest(records, Window(1_000_000, "test"), target("anthropic")))
    return marks(msgspec.json.decode(msgspec.json.encode(plan.prompt.messages)))


def compare(loopback: Loopback, transcripts: Sequence[Path]) -> None:
    """The request of the last turn and our view of the transcript hold the same messages."""
    (transcript,) = transcripts
    last = f"word-{WORDS[-1]}"
    bodies: list[Json] = [request.body for request in loopback.requests]
    every = [
        marks(body.get("messages") or body.get("input") or body.get("contents")) for body in bodies
    ]
    sent = next(found for found in every if {last, SUMMARY} <= found)
    assert view_of(transcript, last) == sent


def test_claude_code_sends_what_the_view_of_its_transcript_has(tmp_path: Path) -> None:
    claude = needs("claude")
    agent = Agent(tmp_path, "provide your summary")
    with Loopback(agent, limit=1_000_000) as loopback:
        environment = {
            "ANTHROPIC_BASE_URL": loopback.url,
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        session = "11111111-2222-4333-8444-555555555555"
        for number, word in enumerate((*WORDS[:3], "/compact", WORDS[-1])):
            which = ("--resume" if number else "--session-id", session)
            said = word if word.startswith("/") else f"word-{word} please"
            agent.run(claude, "-p", said, *which, "--model", MODEL, **environment)
        compare(loopback, list(tmp_path.glob(".claude/projects/*/*.jsonl")))


def test_codex_sends_what_the_view_of_its_transcript_has(tmp_path: Path) -> None:
    codex = needs("codex")
    agent = Agent(tmp_path, "CONTEXT CHECKPOINT")
    (tmp_path / ".codex").mkdir()
    with Loopback(agent, limit=1_000_000) as loopback:
        provider = f'{{name="loop",base_url="{loopback.url}/v1",wire_api="responses",env_key="K"}}'
        options = ["--skip-git-repo-check", "--json", "-m", "gpt-5.5-codex"]
        options += ["-c", "model_provider=loop", "-c", f"model_providers.loop={provider}"]
        options += ["-c", "model_auto_compact_token_limit=12000"]
        started = agent.run(codex, "exec", *options, f"word-{WORDS[0]} please", K="test")
        thread = json.loads(started.splitlines()[0])["thread_id"]
        for word in WORDS[1:]:
            agent.run(codex, "exec", "resume", *options, thread, f"word-{word} please", K="test")
        compare(loopback, list(tmp_path.glob(".codex/sessions/*/*/*/*.jsonl")))


def test_pi_sends_what_the_view_of_its_transcript_has(tmp_path: Path) -> None:
    pi = needs("pi")
    agent = Agent(tmp_path, "<conversation>")
    place = tmp_path / ".pi" / "agent"
    place.mkdir(parents=True)
    settings = {"compaction": {"enabled": True, "reserveTokens": 20_000, "keepRecentTokens": 4_000}}
    (place / "settings.json").write_text(json.dumps(settings))
    with Loopback(agent, limit=1_000_000) as loopback:
        model = {"id": MODEL, "name": "m", "contextWindow": 30_000, "maxTokens": 16_000}
        stub = {"baseUrl": loopback.url, "api": "anthropic-messages", "apiKey": "test"}
        known = {"providers": {"stub": {**stub, "models": [{**model, "input": ["text"]}]}}}
        (place / "models.json").write_text(json.dumps(known))
        for number, word in enumerate(WORDS):
            go_on = ["-c"] if number else []
            options = ["--provider", "stub", "--model", MODEL, "--mode", "json", *go_on]
            agent.run(pi, *options, "-p", f"word-{word} please", PI_OFFLINE="1")
        compare(loopback, list(tmp_path.glob(".pi/agent/sessions/*/*.jsonl")))


def test_gemini_cli_sends_what_the_view_of_its_transcript_has(tmp_path: Path) -> None:
    gemini = needs("gemini")
    agent = Agent(tmp_path, "state_snapshot")
    (tmp_path / ".gemini").mkdir()
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "model": {"compressionThreshold": 0.002},
    }
    (tmp_path / ".gemini" / "settings.json").write_text(json.dumps(settings))
    with Loopback(agent, limit=3_000_000) as loopback:
        environment = {
            "GEMINI_API_KEY": "test",
            "GOOGLE_GEMINI_BASE_URL": loopback.url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }
        for number, word in enumerate((*WORDS[:2], WORDS[-1])):
            go_on = ["--resume", "latest"] if number else []
            options = ["-m", "gemini-2.5-pro", "--output-format", "json", *go_on]
            agent.run(gemini, *options, "-p", f"word-{word} please", **environment)
        files = tmp_path.glob(".gemini/tmp/*/chats/*.jsonl")  # each resume leaves a short one, too
        compare(loopback, [max(files, key=lambda file: file.stat().st_size)])


def test_qwen_code_sends_what_the_view_of_its_transcript_has(tmp_path: Path) -> None:
    """It asks for more after each turn (memories to keep); the turn's own request is compared."""
    qwen = needs("qwen")
    agent = Agent(tmp_path, "state_snapshot")
    (tmp_path / ".qwen").mkdir()
    settings = {"context": {"autoCompactThreshold": 0.05}}
    (tmp_path / ".qwen" / "settings.json").write_text(json.dumps(settings))
    with Loopback(agent, limit=1_000_000) as loopback:
        environment = {"OPENAI_API_KEY": "test", "OPENAI_MODEL": "m"}
        environment["OPENAI_BASE_URL"] = f"{loopback.url}/v1"
        for number, word in enumerate((*WORDS[:2], WORDS[-1])):
            options = ["--auth-type", "openai", "--output-format", "json", *["-c"][: bool(number)]]
            agent.run(qwen, *options, "-p", f"word-{word} please", **environment)
        compare(loopback, list(tmp_path.glob(".qwen/projects/*/chats/*.jsonl")))


def test_the_agent_sdk_gives_the_checkpoint_to_the_model_alone(tmp_path: Path) -> None:
    """In the next request after the compaction, once, and in no message for the application."""
    if importlib.util.find_spec("claude_agent_sdk") is None:
        pytest.skip("claude-agent-sdk is not installed: `make clients` installs and tests it")
    sdk: Any = importlib.import_module("claude_agent_sdk")
    for events in (EVENTS, ("PreCompact", "UserPromptSubmit")):
        home = tmp_path / str(len(events))
        home.mkdir()
        agent = Agent(home, "provide your summary")
        with Loopback(agent, limit=1_000_000) as loopback:
            shown = asyncio.run(asyncio.wait_for(talk(sdk, home, loopback.url, events), 120))
            tags = [
                json.dumps(one.body).count("<prior_session_context>") for one in loopback.requests
            ]
        assert tags == [0, 0, 1, 1], "a turn, the summary, and two turns after it"
        assert "word-alpha please" in json.dumps(loopback.requests[-1].body)
        assert "prior_session_context" not in shown


async def talk(sdk: Any, home: Path, url: str, events: Sequence[str]) -> str:
    """Everything the SDK shows of two turns, with a compaction between them."""
    hook = CompactionHook(root=str(home / "root"))
    options = sdk.ClaudeAgentOptions(
        hooks={event: [sdk.HookMatcher(hooks=[hook])] for event in events},
        cwd=home / "work",
        model=MODEL,
        env={
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            "HOME": str(home),
        },
    )
    shown = []
    async with sdk.ClaudeSDKClient(options) as client:
        for said in ("word-alpha please", "/compact", "word-beta please", "word-gamma please"):
            await client.query(said)
            shown += [str(message) async for message in client.receive_response()]
    return "\n".join(shown)


def test_the_agent_sdk_sends_previews_and_recalled_notes(tmp_path: Path) -> None:
    """In the requests: a preview for a tool's large result, and a note that answers."""
    if importlib.util.find_spec("claude_agent_sdk") is None:
        pytest.skip("claude-agent-sdk is not installed: `make clients` installs and tests it")
    sdk: Any = importlib.import_module("claude_agent_sdk")
    work = tmp_path / "work"
    work.mkdir()
    (work / "log.txt").write_text("".join(f"{number} heron\n" for number in range(1_900)))
    calls = [
        Call("Bash", {"command": "cat log.txt"}),
        Call("Read", {"file_path": str(work / "log.txt")}),
        Call("mcp__logs__tail", {}),
    ]

    def brain(asked: Asked) -> Answer:
        done = sum(message.role == "assistant" for message in asked.messages)
        is_working = bool(asked.body.get("tools")) and done < len(calls)
        thinking = "Hm." if asked.thinks else ""
        if is_working:
            return Answer(calls=(calls[done],), thinking=thinking)
        return Answer("Done.", thinking=thinking)

    with JsonlStore(tmp_path / "root") as store:
        store.notes("main").append(["The heron database listens on port 6543."])
    with Loopback(brain, limit=1_000_000) as loopback:
        asyncio.run(asyncio.wait_for(use_tools(sdk, tmp_path, loopback.url), 120))
    results = {
        block["tool_use_id"]: json.dumps(block)
        for message in loopback.requests[-1].body["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block.get("type") == "tool_result"
    }
    sent = json.dumps(loopback.requests[-1].body)
    assert len(results) == len(calls)
    with JsonlStore(tmp_path / "root") as store:
        outputs = Outputs(store, store.blobs)
        (key,) = (info.key for info in store.sessions(owner=ANY_OWNER))
        shell, file, tail = results.values()
        for text in (shell, tail):
            (ref,) = set(re.findall(r"ref=.{0,2}([0-9a-f]{16})", text))
            assert len(text) < 4_000, text
            assert "1000 heron" not in text
            assert "1000 heron" in "".join(outputs.text(key, ref))
            assert f"holdfast output {ref}" in sent
    assert "1001\\t1000 heron" in file, "a file keeps its line numbers"
    assert sent.count("</recalled_memory>") == 1
    assert "port 6543" in sent


async def use_tools(sdk: Any, home: Path, url: str) -> None:
    """One turn with both hooks, and a tool of an MCP server in this process."""

    async def tail(_arguments: Any) -> dict[str, Any]:
        return {"content": [{"type": "text", "text": (home / "work" / "log.txt").read_text()}]}

    tool = sdk.tool("tail", "Shows the log.", {})(tail)
    root = str(home / "root")
    output_hook = OutputHook(root=root, limit=5_000)
    recall_hook = RecallHook(root=root)
    options = sdk.ClaudeAgentOptions(
        hooks={hook.event: [sdk.HookMatcher(hooks=[hook])] for hook in (output_hook, recall_hook)},
        mcp_servers={"logs": sdk.create_sdk_mcp_server("logs", tools=[tool])},
        allowed_tools=["Bash", "Read", "mcp__logs__tail"],
        cwd=home / "work",
        model=MODEL,
        env={**claude_settings(url), "ENABLE_TOOL_SEARCH": "false", "HOME": str(home)},
    )
    async with sdk.ClaudeSDKClient(options) as client:
        await client.query("Which port has the heron database?")
        async for _message in client.receive_response():
            pass
    output_hook.close()
    recall_hook.close()


class Backend:
    """A real agent as the model of a session, against a provider on this machine."""

    def __init__(self, home: Path, command: list[str], environment: dict[str, str]) -> None:
        known = {"PATH": f"{Path(command[0]).parent}:/usr/local/bin:/usr/bin:/bin", "TERM": "xterm"}
        self._home = home
        self.model = CommandLineModel(
            command,
            folder=str(home / "work"),
            environment={**known, "HOME": str(home), **environment},
            timeout=120,
        )

    def talk(self, said: Sequence[str]) -> list[str]:
        """Answers, each from a session that was opened for it."""
        answers = []
        for words in said:
            root = str(self._home / "root")
            with Session.open("trip", model=self.model, store=root) as session:
                answers.append(session.say(words).text)
        return answers

    @property
    def reasons(self) -> list[str | None]:
        with JsonlStore(self._home / "root") as store:
            records = [entry.record for entry in store.read_all(SessionKey("main", "trip"))]
        found = [rec.extra["backend"] for rec in records if isinstance(rec, Assistant)]
        return [state.get("started") for state in found]


def claude_settings(url: str) -> dict[str, str]:
    return {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": "sk-ant-test",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def codex_options(url: str, model: str = "gpt-5.5-codex") -> list[str]:
    provider = f'{{name="loop",base_url="{url}/v1",wire_api="responses",env_key="K"}}'
    options = ["-m", model, "-c", "model_provider=loop"]
    return [*options, "-c", f"model_providers.loop={provider}"]


@pytest.mark.parametrize("name", ["claude", "codex"])
def test_a_real_agent_as_a_model_goes_on_without_its_files(tmp_path: Path, name: str) -> None:
    """Its session files are deleted in the middle: the new session is told the conversation."""
    program = needs(name)
    agent = Agent(tmp_path, "no summary is asked for")
    (tmp_path / ".codex").mkdir()
    with Loopback(agent, limit=1_000_000) as loopback:
        options = ["--model", MODEL] if name == "claude" else codex_options(loopback.url)
        settings = {**claude_settings(loopback.url), "K": "test"}
        backend = Backend(tmp_path, [program, *options], settings)
        answers = backend.talk(["word-alpha please", "word-beta please"])
        for folder in (".claude", ".codex"):
            shutil.rmtree(tmp_path / folder, ignore_errors=True)
        (tmp_path / ".codex").mkdir()
        answers += backend.talk(["word-gamma please", "word-delta please"])
        sent = [marks(request.body) for request in loopback.requests]
    assert [re.findall(r"answer-\d+", text)[0] for text in answers] == [
        f"answer-{number}" for number in range(1, 5)
    ]
    unknown = "it no longer knows its session"
    assert backend.reasons == ["it is the first reply", None, unknown, None]
    told = {"word-alpha", "word-beta", "word-gamma", "answer-1", "answer-2"}
    assert sent[2] == told, "a new session, and everything that was said before"
    assert sent[3] == told | {"word-delta", "answer-3"}


TALK: list[Record] = [
    User(content="word-alpha please", id="r1", ts=1_770_000_000.0),
    Assistant(content="answer-1", model=MODEL, id="r2", ts=1_770_000_001.0),
    User(content="word-beta please", id="r3", ts=1_770_000_002.0),
    Assistant(content="answer-2", model=MODEL, id="r4", ts=1_770_000_003.0),
    Compaction(summary=SUMMARY, first_kept="r3", id="r5", ts=1_770_000_004.0),
    User(content="word-gamma please", id="r6", ts=1_770_000_005.0),
    Assistant(
        content=[{"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "ls"}}],
        model=MODEL,
        id="r7",
        ts=1_770_000_006.0,
    ),
    ToolResult(tool_use_id="toolu_1", content="word-delta", id="r8", ts=1_770_000_007.0),
    Assistant(content="answer-3", model=MODEL, id="r9", ts=1_770_000_008.0),
]


def write_export(home: Path, kind: str) -> str:
    """Write an exported session to where its hint says, and return the session's id."""
    about = TranscriptAbout("talk", str(home / "work"), created=1_770_000_000.0)
    made = export_transcript(TALK, kind, about)
    place = Path(made.hint.split("put it at ~/")[1].split(", and")[0])
    (home / place).parent.mkdir(parents=True, exist_ok=True)
    (home / place).write_bytes(msgspec.json.Encoder().encode_lines(made.lines))
    return made.session


def test_claude_code_resumes_an_exported_session(tmp_path: Path) -> None:
    claude = needs("claude")
    agent = Agent(tmp_path, "provide your summary")
    session = write_export(tmp_path, "claude-code")
    with Loopback(agent, limit=1_000_000) as loopback:
        environment = {
            "ANTHROPIC_BASE_URL": loopback.url,
            "ANTHROPIC_API_KEY": "sk-ant-test",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
        }
        said = ("-p", "word-zeta please", "--resume", session, "--model", MODEL)
        agent.run(claude, *said, **environment)
        sent = marks(loopback.requests[-1].body["messages"])
    assert {SUMMARY, "word-beta", "answer-2", "word-gamma", "word-delta", "answer-3"} <= sent
    assert not {"word-alpha", "answer-1"} & sent


def test_codex_resumes_an_exported_session(tmp_path: Path) -> None:
    codex = needs("codex")
    agent = Agent(tmp_path, "CONTEXT CHECKPOINT")
    session = write_export(tmp_path, "codex")
    with Loopback(agent, limit=1_000_000) as loopback:
        provider = f'{{name="loop",base_url="{loopback.url}/v1",wire_api="responses",env_key="K"}}'
        options = ["--skip-git-repo-check", "--json", "-m", "gpt-5.5-codex"]
        options += ["-c", "model_provider=loop", "-c", f"model_providers.loop={provider}"]
        done = agent.run(codex, "exec", "resume", *options, session, "word-zeta please", K="test")
        sent = marks(loopback.requests[-1].body["input"])
    assert json.loads(done.splitlines()[0])["thread_id"] == session
    assert {SUMMARY, "word-beta", "word-gamma", "word-delta", "answer-3", "word-zeta"} <= sent
    assert "answer-1" not in sent


def write_pi_models(home: Path, url: str) -> None:
    """Tell pi about a provider on this machine."""
    model = {"id": MODEL, "name": "m", "contextWindow": 200_000, "maxTokens": 16_000}
    stub = {"baseUrl": url, "api": "anthropic-messages", "apiKey": "test"}
    known = {"providers": {"stub": {**stub, "models": [{**model, "input": ["text"]}]}}}
    place = home / ".pi" / "agent"
    place.mkdir(parents=True, exist_ok=True)
    (place / "models.json").write_text(json.dumps(known))


def test_pi_resumes_an_exported_session(tmp_path: Path) -> None:
    pi = needs("pi")
    agent = Agent(tmp_path, "<conversation>")
    session = write_export(tmp_path, "pi")
    (transcript,) = tmp_path.glob(".pi/agent/sessions/*/*.jsonl")
    before = transcript.read_bytes()
    with Loopback(agent, limit=1_000_000) as loopback:
        write_pi_models(tmp_path, loopback.url)
        options = ["--provider", "stub", "--model", MODEL, "--mode", "json", "--session", session]
        agent.run(pi, *options, "-p", "word-zeta please", PI_OFFLINE="1")
        sent = marks(loopback.requests[-1].body["messages"])
    assert {SUMMARY, "word-beta", "answer-2", "word-gamma", "word-delta", "answer-3"} <= sent
    assert not {"word-alpha", "answer-1"} & sent
    after = transcript.read_bytes()
    assert after.startswith(before), "the file itself is gone on with"
    assert "word-zeta" in after.decode()[len(before.decode()) :]


def test_openclaw_resumes_an_exported_session(tmp_path: Path) -> None:
    """Its doctor moves the file into its database, and the next turn goes on from there."""
    openclaw = needs("openclaw")
    agent = Agent(tmp_path, "<conversation>")
    about = TranscriptAbout("talk", str(tmp_path / "work"), created=1_770_000_000.0)
    made = export_transcript(TALK, "openclaw", about)
    found = re.fullmatch(
        r"put it at ~/(\S+), with (\{.*\}) in sessions.json beside it, and run: openclaw (.*)",
        made.hint,
    )
    assert found is not None, made.hint
    place = tmp_path / found[1]
    place.parent.mkdir(parents=True)
    place.write_bytes(msgspec.json.Encoder().encode_lines(made.lines))
    (place.parent / "sessions.json").write_text(found[2])
    with Loopback(agent, limit=1_000_000) as loopback:
        model = {"id": MODEL, "name": "m", "contextWindow": 200_000, "maxTokens": 16_000}
        stub = {"baseUrl": loopback.url, "api": "anthropic-messages", "apiKey": "test"}
        gateway = {"mode": "local", "bind": "loopback", "auth": {"mode": "token", "token": "t"}}
        settings = {
            "models": {"providers": {"stub": {**stub, "models": [{**model, "input": ["text"]}]}}},
            "agents": {"defaults": {"model": {"primary": f"stub/{MODEL}"}}},
            "gateway": gateway,
        }
        (tmp_path / ".openclaw" / "openclaw.json").write_text(json.dumps(settings))
        agent.run(openclaw, *found[3].split(), "--non-interactive")
        said = ["--session-id", made.session, "--message", "word-zeta please", "--json"]
        agent.run(openclaw, "agent", "--local", *said)
        sent = [marks(request.body["messages"]) for request in loopback.requests]
    turn = next(found for found in sent if "word-zeta" in found)
    assert {SUMMARY, "word-beta", "answer-2", "word-gamma", "word-delta", "answer-3"} <= turn
    assert not {"word-alpha", "answer-1"} & turn


STEPS = 60
"""Tool calls of one turn through the proxy."""


SHELLS: dict[str, dict[str, Any]] = {
    "Bash": {"command": "", "description": "count"},
    "exec_command": {"cmd": ""},
    "run_shell_command": {"command": "", "description": "count", "is_background": False},
    "bash": {"command": "", "description": "count"},
    "exec": {"command": ""},
}
"""The shell of each agent, whose first argument is the command."""


class Worker:
    """A brain that makes an agent run a command 60 times, and answers then."""

    def __init__(self, steps: int = STEPS) -> None:
        self.answers = self.reads = 0
        self._steps = steps

    def __call__(self, asked: Asked) -> Answer:
        done = max(
            (int(step) for step in re.findall(r"step-(\d+)", str(asked.messages))), default=0
        )
        thinking = "Hm." if asked.thinks else ""
        names = {tool.name for tool in asked.tools}
        shell = next((name for name in SHELLS if name in names), "")
        if "word-alpha" in str(asked.messages) and done < self._steps and shell:
            command = f"yes step-{done + 1} | head -n 300"
            given = {**SHELLS[shell], next(iter(SHELLS[shell])): command}
            return Answer("", calls=(Call(shell, given),), thinking=thinking)
        if "sessions_history" in names and not self.reads:
            self.reads += 1
            asked_for = {"sessionKey": "current", "query": "step-1", "includeTools": True}
            return Answer("", calls=(Call("sessions_history", asked_for),), thinking=thinking)
        self.answers += 1
        return Answer(f"answer-{self.answers}", thinking=thinking)


GEMINI_WATCHER = "gemini-3-flash-preview"
"""The model that Gemini CLI asks whether it runs in circles."""


class ProxyProcess:
    """`holdfast proxy` as a process that can be killed."""

    def __init__(self, root: Path, upstream: str, *options: str) -> None:
        upstreams = [f"--upstream={name}={upstream}" for name in ("anthropic", "openai", "gemini")]
        command = [sys.executable, "-m", "holdfast", "proxy", "--port", "0", "--json"]
        self._process = subprocess.Popen(
            [*command, "--root", str(root), *upstreams, *options], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.url: str = json.loads(self._process.stdout.readline())["listening"]

    def kill(self) -> None:
        self._process.kill()
        self._process.communicate()


def gemini_settings(home: Path, url: str) -> dict[str, str]:
    """Tell Gemini CLI about a provider on this machine."""
    (home / ".gemini").mkdir(exist_ok=True)
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    trusted = {"GEMINI_CLI_TRUST_WORKSPACE": "true"}
    return {"GEMINI_API_KEY": "test", "GOOGLE_GEMINI_BASE_URL": url, **trusted}


def _is_user(record: Record) -> bool:
    return isinstance(record, User)


@pytest.mark.files_only("the proxy is another process")
@pytest.mark.parametrize(
    ("name", "limit"), [("codex", 40_000), ("claude", 60_000), ("gemini", 40_000)]
)
def test_a_real_agent_through_the_proxy(tmp_path: Path, name: str, limit: int) -> None:
    """60 tool calls, refusals for size, a kill of the proxy and a resume: all of it in one log.

    Once it is cut, the model reads a result of the first step by a tool of the proxy's, of which
    the agent sees nothing.

    The calls come in the first turn. Gemini CLI 0.61.0 sends every result twice after a resume, and
    is refused with a proxy or without, so its calls come last. It asks another model whether it
    runs in circles, which is logged apart, and refused for the signatures of the first.
    Claude Code and Codex ask models whose reasoning is bound to its prefix: none of it is refused
    or dropped, and most of it is read again.
    """
    program = needs(name)
    agent, worker, root = Agent(tmp_path, "-"), Worker(), tmp_path / "root"
    (tmp_path / ".codex").mkdir()
    session = "11111111-2222-4333-8444-555555555555"
    said = [f"word-{word} please" for word in WORDS[:3]]
    if name == "gemini":
        said.append(said.pop(0))
    with Loopback(worker, limit=limit) as loopback:
        for number, words in enumerate(said):
            proxy = ProxyProcess(root, loopback.url, "--own-tools")
            try:
                if name == "claude":
                    which = ("--resume" if number else "--session-id", session)
                    options = ["--model", BOUND_MODEL, "--allowedTools", "Bash", *which]
                    shown = agent.run(program, "-p", words, *options, **claude_settings(proxy.url))
                elif name == "gemini":
                    options = ["-m", "gemini-2.5-pro", "--output-format", "json", "--yolo"]
                    options += ["--resume", "latest"] if number else []
                    settings = gemini_settings(tmp_path, proxy.url)
                    shown = agent.run(program, *options, "-p", words, **settings)
                else:
                    options = ["--json", "--skip-git-repo-check"]
                    options += codex_options(proxy.url, BOUND_GPT)
                    options.append("--dangerously-bypass-approvals-and-sandbox")
                    resume = ["resume", session] if number else []
                    shown = agent.run(program, "exec", *options, *resume, words, K="test")
                    session = json.loads(shown.splitlines()[0])["thread_id"]
            finally:
                proxy.kill()
            assert f"answer-{number + 1}" in shown
            assert "sessions_history" not in shown
        statuses = [request.status for request in loopback.requests]
        reasoning = loopback.reasoning
    refused = {one.model for one in loopback.requests if one.reasoning.refused}
    assert refused <= ({GEMINI_WATCHER} if name == "gemini" else set())
    assert reasoning.dropped == {}
    assert name == "gemini" or reasoning.valid > STEPS / 2
    with JsonlStore(root) as store:
        logs = [
            [one.record for one in store.read_all(info.key)]
            for info in store.sessions(owner=ANY_OWNER)
        ]
    (records,) = [log for log in logs if said[0] in str([rec for rec in log if _is_user(rec)])]
    assert name == "gemini" or len(logs) == 1
    results = [rec for rec in records if isinstance(rec, ToolResult)]
    steps = {step for rec in results for step in re.findall(r"step-(\d+)", str(rec.content))}
    assert steps == {str(step) for step in range(1, STEPS + 1)}
    assert any(status >= 400 for status in statuses), "no request was too large"
    (read_transcript,) = [rec for rec in results if rec.name == "sessions_history"]
    assert "step-1" in str(read_transcript.content), "the model read what had been cut"
    users = "\n".join(str(rec.content) for rec in records if isinstance(rec, User))
    assert all(words in users for words in said)
    print(f"{name}: {len(statuses)} calls, {sum(s >= 400 for s in statuses)} refused")


def pi_command(home: Path, url: str, words: str, number: int) -> tuple[list[str], dict[str, str]]:
    write_pi_models(home, url)
    options = ["--provider", "stub", "--model", MODEL, "--mode", "json", *["-c"][: bool(number)]]
    return [*options, "-p", words], {"PI_OFFLINE": "1"}


def qwen_command(
    _home: Path, url: str, words: str, number: int
) -> tuple[list[str], dict[str, str]]:
    options = ["--auth-type", "openai", "--output-format", "json", "--yolo"]
    known = {"OPENAI_API_KEY": "test", "OPENAI_MODEL": "m", "OPENAI_BASE_URL": f"{url}/v1"}
    return [*options, *["-c"][: bool(number)], "-p", words], known


def opencode_command(
    home: Path, url: str, words: str, number: int
) -> tuple[list[str], dict[str, str]]:
    place = home / ".config" / "opencode"
    place.mkdir(parents=True, exist_ok=True)
    stub = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "test"},
        "models": {"m": {"name": "m"}},
    }
    settings = {"provider": {"stub": stub}, "permission": {"bash": "allow"}}
    (place / "opencode.json").write_text(json.dumps(settings))
    go_on = ["--continue"][: bool(number)]
    return ["run", "--format", "json", "--model", "stub/m", *go_on, words], {}


def aider_command(
    _home: Path, url: str, words: str, number: int
) -> tuple[list[str], dict[str, str]]:
    options = ["--model", "openai/m", "--yes-always", "--no-git", "--no-check-update"]
    options += ["--no-show-model-warnings", "--analytics-disable", "--map-tokens", "0"]
    options += ["--restore-chat-history"][: bool(number)]
    known = {"OPENAI_API_KEY": "test", "OPENAI_API_BASE": f"{url}/v1"}
    return [*options, "--message", words], known


def openclaw_command(
    home: Path, url: str, words: str, _number: int
) -> tuple[list[str], dict[str, str]]:
    (home / ".openclaw").mkdir(exist_ok=True)
    model = {"id": MODEL, "name": "m", "contextWindow": 200_000, "maxTokens": 16_000}
    stub = {"baseUrl": url, "api": "anthropic-messages", "apiKey": "test"}
    settings = {
        "models": {"providers": {"stub": {**stub, "models": [{**model, "input": ["text"]}]}}},
        "agents": {"defaults": {"model": {"primary": f"stub/{MODEL}"}}},
        "gateway": {"mode": "local", "bind": "loopback", "auth": {"mode": "token", "token": "t"}},
    }
    (home / ".openclaw" / "openclaw.json").write_text(json.dumps(settings))
    return ["agent", "--local", "--session-id", "s1", "--message", words, "--json"], {}


OTHERS = {
    "pi": pi_command,
    "qwen": qwen_command,
    "opencode": opencode_command,
    "aider": aider_command,
    "openclaw": openclaw_command,
}
FEW_STEPS = 3


@pytest.mark.files_only("the proxy is another process")
@pytest.mark.parametrize("name", OTHERS)
def test_another_agent_through_the_proxy(tmp_path: Path, name: str) -> None:
    """Two turns, the first with three tool calls, and a kill of the proxy between them: the calls,
    their results and what was said are in one log, in order. aider calls no tools."""
    program = needs(name)
    agent, worker, root = Agent(tmp_path, "-"), Worker(FEW_STEPS), tmp_path / "root"
    said = ["word-alpha please", "word-beta please"]
    with Loopback(worker, limit=1_000_000) as loopback:
        for number, words in enumerate(said):
            proxy = ProxyProcess(root, loopback.url)
            try:
                options, known = OTHERS[name](tmp_path, proxy.url, words, number)
                shown = agent.run(program, *options, **known)
            finally:
                proxy.kill()
            assert "answer-" in shown
        assert all(request.status == 200 for request in loopback.requests)
    with JsonlStore(root) as store:
        logs = [list(store.read(info.key)) for info in store.sessions(owner=ANY_OWNER)]
    # The others are side requests: a title, memories to keep.
    (records,) = [log for log in logs if said[1] in str([rec for rec in log if _is_user(rec)])]
    assert sum(any(isinstance(rec, ToolResult) for rec in log) for log in logs) <= 1
    users = "\n".join(str(rec.content) for rec in records if isinstance(rec, User))
    results = [rec for rec in records if isinstance(rec, ToolResult)]
    steps = [re.findall(r"step-(\d+)", str(rec.content))[:1] for rec in results]
    assert steps == ([] if name == "aider" else [["1"], ["2"], ["3"]])
    assert all(words in users for words in said)
    print(f"{name}: {len(loopback.requests)} calls, {len(logs)} sessions")


DOOR_TOKEN = "holdfast_0123456789abcdefghijklmnopqrstuvwxyz"
UPSTREAM_MODELS = {"claude": MODEL, "codex": "gpt-5.5-codex", "llm": "gpt-4o"}
DOOR = """
[agents.main]
model = "anthropic:claude-opus-4-8@{url}"
checkpoints = "off"
[upstreams.anthropic]
url = "{url}"
key = "UPSTREAM_KEY"
[upstreams.openai]
url = "{url}"
key = "UPSTREAM_KEY"
[[tokens]]
name = "laptop"
sha256 = "{digest}"
owner = "alice"
scope = "write"
"""


def _owners_and_replies(root: Path) -> list[tuple[str | None, int]]:
    """The owner of each session, and how many replies it has."""
    with JsonlStore(str(root)) as store:
        sessions = list(store.sessions(owner=ANY_OWNER))
        logs = [[one.record for one in store.read_all(info.key)] for info in sessions]
    counts = [sum(isinstance(record, Assistant) for record in records) for records in logs]
    return [(row_text(info.owner), count) for info, count in zip(sessions, counts, strict=True)]


@pytest.mark.files_only("the server is another process")
@pytest.mark.parametrize("name", ["claude", "codex", "llm"])
def test_a_real_client_at_one_door(tmp_path: Path, name: str) -> None:
    """Two turns through an upstream of `holdfast serve` with a token of ours alone, over a kill of
    the server: one session of the token's owner. `llm` talks to an agent, too; a coding agent,
    which brings its own tools, is told why that is refused."""
    program = needs(name)
    agent, root = Agent(tmp_path, "no summary is asked for"), tmp_path / "root"
    (tmp_path / ".codex").mkdir()
    with Loopback(agent, limit=1_000_000) as loopback:
        digest = hashlib.sha256(DOOR_TOKEN.encode()).hexdigest()
        settings = DOOR.format(url=loopback.url, digest=digest)
        environment = {"UPSTREAM_KEY": "upstream-key"}
        with ServeProcess(str(root), settings, tmp_path, environ=environment) as server:
            for number, word in enumerate(WORDS[:2]):
                said = f"word-{word} please"
                shown = run_at_door(
                    agent, program, name, server.url, UPSTREAM_MODELS[name], said, number
                )
                assert f"answer-{number + 1}" in shown
                if number == 0:
                    server.kill()
                    server.start()
            assert {request.status for request in loopback.requests} == {200}
            if name == "llm":
                for number, word in enumerate(WORDS[:2]):
                    shown = run_at_door(
                        agent, program, name, server.url, "holdfast/main", word, number
                    )
                    assert f"answer-{number + 3}" in shown
            else:
                with pytest.raises(AssertionError, match="an agent does not take the field"):
                    run_at_door(agent, program, name, server.url, "holdfast/main", "hello", 0)
    sessions = 2 if name == "llm" else 1
    assert _owners_and_replies(root) == [("alice", 2)] * sessions


def run_at_door(
    agent: Agent, program: str, name: str, url: str, model: str, said: str, number: int
) -> str:
    """Let a client say something, in a new conversation or in the one it had."""
    if name == "claude":
        session = "11111111-2222-4333-8444-555555555555"
        which = ("--resume" if number else "--session-id", session)
        if model == "holdfast/main":
            which = ("--session-id", session.replace("1", "2"))
        settings = {**claude_settings(url), "ANTHROPIC_API_KEY": DOOR_TOKEN}
        return agent.run(program, "-p", said, *which, "--model", model, **settings)
    if name == "codex":
        options = ["--json", "--skip-git-repo-check", *codex_options(url, model)]
        resume = ["resume", "--last"] if number else []
        return agent.run(program, "exec", *options, *resume, said, K=DOOR_TOKEN)
    known = f"- model_id: door\n  model_name: {model}\n  api_base: {url}/v1\n  api_key_name: door\n"
    (agent.home / "keys.json").write_text(json.dumps({"door": DOOR_TOKEN}))
    (agent.home / "extra-openai-models.yaml").write_text(known)
    options = ["-c"] if number else []
    return agent.run(program, "-m", "door", *options, said, LLM_USER_PATH=str(agent.home))
