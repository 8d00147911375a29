"""Small programs that behave as Claude Code 2.1.197 and Codex 0.166.0 do, with shapes of ours."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

from holdfast.providers.command_line.model import CommandLineModel

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = r"""
import json, os, signal, sys, time

HOME = os.environ["FAKE_HOME"]
NAME = os.path.basename(sys.argv[0])
ARGS = sys.argv[1:]
PROMPT = sys.stdin.read()
MODE = open(os.path.join(HOME, "mode")).read() if os.path.exists(os.path.join(HOME, "mode")) else ""


def say(**event):
    print(json.dumps(event), flush=True)


def after(option):
    return ARGS[ARGS.index(option) + 1] if option in ARGS else ""


def path_of(session):
    return os.path.join(HOME, f"{NAME}-{session}")


def answer(session, keeps=True):
    with open(os.path.join(HOME, "calls"), "a") as file:
        file.write(json.dumps({"args": ARGS, "prompt": PROMPT, "session": session}) + "\n")
    old = json.load(open(path_of(session))) if os.path.exists(path_of(session)) else []
    if keeps:
        json.dump([*old, PROMPT], open(path_of(session), "w"))
    return f"answer {len(old) + 1} in {session[:4]}"


def is_full(session):
    # A window of so many characters, in a session that has worked before it says so.
    if not MODE.startswith("small"):
        return False
    old = json.load(open(path_of(session))) if os.path.exists(path_of(session)) else []
    with open(os.path.join(HOME, "tries"), "a") as file:
        file.write(f"{len(PROMPT)}\n")
    return len(PROMPT) + sum(map(len, old)) > int(MODE.split()[1])


def misbehave():
    if MODE == "garbage":
        print("Segmentation fault?\n{not json\n[1, 2]\n\udcff".encode(errors="surrogateescape"))
        sys.exit(0)
    if MODE == "silent":
        sys.exit(3)
    if MODE == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if MODE == "huge":
        print(json.dumps({"type": "result", "result": "x" * 100_000}))
        sys.exit(0)
    if MODE == "hang":
        import subprocess
        grandchild = subprocess.Popen(["sleep", "600"])
        with open(os.path.join(HOME, "pids.tmp"), "w") as file:
            file.write(f"{os.getpid()} {grandchild.pid}")
        os.rename(os.path.join(HOME, "pids.tmp"), os.path.join(HOME, "pids"))
        time.sleep(600)
    if MODE == "daemon":  # leaves something behind that holds its output open
        if os.fork() == 0:
            os.setsid()
            time.sleep(20)
            os._exit(0)


def claude():
    session = after("--resume") or after("--session-id") or "one-shot"
    if "--resume" in ARGS and not os.path.exists(path_of(session)):
        text = f"No conversation found with session ID: {session}"
        say(type="result", subtype="error_during_execution", is_error=True, session_id=session,
            errors=[text])
        print(text, file=sys.stderr)
        sys.exit(1)
    if "--session-id" in ARGS and os.path.exists(path_of(session)):
        print(f"Error: Session ID {session} is already in use.", file=sys.stderr)
        sys.exit(1)
    other = "0" * 8 if MODE == "other" and "--resume" in ARGS else session
    say(type="system", subtype="init", session_id=other, model="claude-test-1")
    if MODE == "other" and "--resume" in ARGS:
        time.sleep(600)
    misbehave()
    if MODE in ("error", "worked", "full") and (MODE != "full" or "--resume" in ARGS):
        if MODE == "worked":
            say(type="user", session_id=session, message={"role": "user", "content": []})
        text = "Prompt is too long" if MODE == "full" else "API Error: Repeated 529 Overloaded"
        say(type="result", subtype="success", is_error=True, session_id=session, result=text,
            api_error_status=529 if MODE != "full" else 400,
            terminal_reason="prompt_too_long" if MODE == "full" else "api_error")
        sys.exit(1)
    if is_full(session):
        say(type="user", session_id=session, message={"role": "user", "content": []})
        say(type="result", subtype="success", is_error=True, session_id=session,
            result="Error during compaction: Prompt is too long")
        sys.exit(1)
    text = answer(session, "--no-session-persistence" not in ARGS)
    if "--include-partial-messages" in ARGS:
        for piece in (text[:3], text[3:]):
            say(type="stream_event", session_id=session, parent_tool_use_id=None, event={
                "type": "content_block_delta", "delta": {"type": "text_delta", "text": piece}})
    say(type="assistant", session_id=session, parent_tool_use_id=None,
        message={"content": [{"type": "text", "text": text}]})
    say(type="result", subtype="success", is_error=False, session_id=session, result=text,
        stop_reason="end_turn", total_cost_usd=0.25, usage={"input_tokens": 900_000})


def codex():
    resumes = "resume" in ARGS
    session = after("resume") or "01a1e801-" + os.urandom(4).hex()
    if resumes and not os.path.exists(path_of(session)):
        if MODE != "other":
            print("Error: thread/resume: thread/resume failed: no rollout found for thread id "
                  f"{session} (code -32600)", file=sys.stderr)
            sys.exit(1)
        session = "01a1e801-" + os.urandom(4).hex()  # exit 0, and knows nothing
    if MODE == "other" and resumes:
        session = "01a1e801-" + os.urandom(4).hex()
    say(type="thread.started", thread_id=session)
    say(type="turn.started")
    if MODE == "other" and resumes:
        time.sleep(600)
    misbehave()
    if MODE in ("error", "worked", "full") and (MODE != "full" or resumes):
        if MODE == "worked":
            say(type="item.started", item={"type": "command_execution"})
        text = "Codex ran out of room in the model's context window." if MODE == "full" else (
            "Selected model is at capacity. Please try a different model.")
        say(type="error", message=text)
        say(type="turn.failed", error={"message": text})
        sys.exit(1)
    if is_full(session):
        say(type="item.started", item={"type": "command_execution"})
        say(type="turn.failed", error={"message": "Your input exceeds the context window."})
        sys.exit(1)
    if MODE == "retried":
        say(type="error", message="Reconnecting... 1/5")
    say(type="item.completed", item={"type": "agent_message", "text": answer(session)})
    say(type="turn.completed", usage={"input_tokens": 900_000, "cached_input_tokens": 0})


{"claude": claude, "codex": codex}[NAME]()
"""


class FakeAgent:
    """A program in a folder, the calls it got, and its session files."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.home = folder / "fake"
        self.home.mkdir()
        self.path = folder / name
        self.path.write_text(f"#!{sys.executable} -IS\n{PROGRAM}")
        self.path.chmod(0o755)

    def model(self, *options: str, **settings: Any) -> CommandLineModel:
        environment = {"FAKE_HOME": str(self.home), **settings.pop("environment", {})}
        return CommandLineModel([str(self.path), *options], environment=environment, **settings)

    def be(self, mode: str) -> None:
        (self.home / "mode").write_text(mode)

    def forget(self) -> None:
        """Delete its session files."""
        for file in self.home.glob(f"{self.name}-*"):
            file.unlink()

    @property
    def calls(self) -> list[dict[str, Any]]:
        file = self.home / "calls"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
