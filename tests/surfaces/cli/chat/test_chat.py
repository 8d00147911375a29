"""`holdfast chat` in a pipe and as JSON lines: real processes, real files, no prompt noise."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.processes import COMMAND_ENVIRONMENT
from tests.surfaces.chats import Seat

from holdfast.core.flow.events import TurnWaiting
from holdfast.core.log.records import Assistant, User
from holdfast.ports import ANY_HEAD
from holdfast.providers.offline.answers import ABOUT
from holdfast.surfaces.answers import answer
from holdfast.surfaces.cli.chat.input import join_lines
from holdfast.surfaces.cli.chat.loop import Chat, interruption
from holdfast.testing import calls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.surfaces.conftest import Cli

    from holdfast.core.log.records import Record
    from holdfast.errors import HoldfastError
    from holdfast.surfaces.answers import CommandAnswer


def records(cli: Cli, session: str = "") -> list[dict[str, Any]]:
    name = session or cli("sessions", "--json").json[0]["session"]
    return cli("log", name, "--json").lines


# In a pipe


def test_words_in_a_pipe_are_answered_plainly(tmp_path: Path) -> None:
    """`echo hi | holdfast chat`: the answer on stdout, nothing else, status 0."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "chat"],
        input=b"hi\n",
        cwd=tmp_path,
        capture_output=True,
        env={"PATH": os.defpath, **COMMAND_ENVIRONMENT},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.decode().startswith(ABOUT)
    assert b"\x1b" not in done.stdout + done.stderr
    assert b"You >" not in done.stdout + done.stderr
    assert done.stderr == b""


def test_first_session_is_called_initial_and_the_next_run_goes_on_with_it(cli: Cli) -> None:
    """No name, no choice: the newest is resumed."""
    cli("chat", stdin=b"the port is 8443\n")
    assert [one["label"] for one in cli("sessions", "--json").json] == ["initial"]
    done = cli("chat", stdin=b"what is the port?\n")
    assert "8443" in done.out
    assert len(cli("sessions", "--json").json) == 1


def test_new_session_and_a_session_by_name(cli: Cli) -> None:
    """`--new` takes the name as a label; without it, the name is looked up."""
    cli("chat", stdin=b"hi\n")
    cli("chat", "--new", "release notes", stdin=b"the version is 2.1\n")
    found = cli("chat", "release", stdin=b"/label\nwhat is the version?\n")
    assert "Label: release notes" in found.out
    assert "2.1" in found.out
    missing = cli("chat", "nothing-by-that-name", stdin=b"hi\n")
    assert missing.status == 2
    assert "no session `nothing-by-that-name`" in missing.err


def test_commands_in_a_pipe(cli: Cli) -> None:
    """They answer on stdout with two spaces in front, and `/quit` ends the run."""
    done = cli("chat", stdin=b"/new my-project\n/list\n/quit\nnever said\n")
    assert done.status == 0
    assert "  Created new session: " in done.out
    assert "(my-project)" in done.out
    assert "  Goodbye." in done.out
    assert "never said" not in str(records(cli))


def test_unknown_command_reaches_neither_log_nor_model(cli: Cli) -> None:
    """`/foo` is refused; the only thing in the log is the header."""
    done = cli("chat", stdin=b"/foo\n/Contxt\n")
    assert done.status == 0
    assert "Unknown command: /foo" in done.out
    assert "did you mean /context?" in done.out
    assert [one["type"] for one in records(cli)] == ["session"]


def test_two_slashes_are_said_as_one(cli: Cli) -> None:
    """A path can be talked about."""
    cli("chat", stdin=b"//etc/hosts is a file\n")
    assert [one["content"] for one in records(cli) if one["type"] == "user"] == [
        "/etc/hosts is a file"
    ]


def test_empty_lines_are_nothing_and_backslashes_join(cli: Cli) -> None:
    """What is stored is what was meant, whatever the bytes."""
    cli("chat", stdin=b"\n   \none\\\ntwo\r\n\xff\xfe words\n")
    said_ = [one["content"] for one in records(cli) if one["type"] == "user"]
    assert said_ == ["one\ntwo", "\ufffd\ufffd words"]


def test_tools_work_in_the_folder_and_are_told_on_stderr(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply is on stdout, the trace beside it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_text("forty-two\n")
    done = cli("chat", stdin=b"read_file('a.txt')\n")
    assert "forty-two" in done.out
    assert "[tool: read_file] a.txt → 10 chars" in done.err
    assert "[tool" not in done.out


def test_without_tools_there_are_none(cli: Cli) -> None:
    """Nothing of the folder can be read."""
    assert "  tools  " in cli("chat", stdin=b"/context\n").out
    assert "  tools  " not in cli("chat", "--no-tools", stdin=b"/context\n").out


def test_a_model_with_tools_of_its_own_gets_none(cli: Cli) -> None:
    """It refuses requests that offer tools: the chat offers none and says so, unless asked to."""
    words = "sh works with tools of its own; this chat gives it none"
    model = ("--model", "cli:sh -c 'cat > /dev/null; echo The 9:12.'")
    for options, told in (((), 1), (("--allow-write",), 1), (("--no-tools",), 0)):
        done = cli("chat", *model, *options, stdin=b"Which train?\n")
        assert (done.status, done.out.strip()) == (0, "The 9:12."), (options, done.err)
        assert done.err.count(words) == told, options
    opened, *_ = cli("chat", *model, "--json", stdin=b"").lines
    assert opened["opened"]["tools"] == []


def test_system_prompt_is_sent(cli: Cli, tmp_path: Path) -> None:
    """From a text or a file; a file that is not there is a clear error."""
    plain = cli("chat", "--system", "Be brief. " * 100, stdin=b"/context\n").out
    assert "system prompt" in plain
    file = tmp_path / "system.txt"
    file.write_text("Be brief. " * 100)
    assert "system prompt" in cli("chat", "--system-file", str(file), stdin=b"/context\n").out
    missing = cli("chat", "--system-file", str(tmp_path / "no"), stdin=b"")
    assert missing.status == 2
    assert "cannot read `" in missing.err


def test_window_is_taken_as_stated(cli: Cli) -> None:
    """Every display has it with its source."""
    done = cli("chat", "--window", "20000", stdin=b"/status\n")
    assert "20,000 tokens (--window), stated" in done.out


def test_unknown_model_is_a_clear_error(cli: Cli) -> None:
    """With what exists."""
    done = cli("chat", "--model", "ofline", stdin=b"hi\n")
    assert done.status == 2
    assert "no model `ofline`" in done.err
    assert "offline" in done.err


def test_turn_that_does_not_fit_says_so_and_the_chat_goes_on(cli: Cli) -> None:
    """An error is told on stderr, the next line is taken, and the status says that one failed."""
    done = cli("chat", "--window", "9000", stdin=b"hi\n/label\n")
    assert "error: " in done.err
    assert "Label: initial" in done.out
    assert done.status == 1


# As JSON


def test_json_lines_have_everything(cli: Cli) -> None:
    """What was opened, deltas, events, the reply, answers and errors, one object a line."""
    done = cli("chat", "--json", stdin=b"hi\n/foo\n/quit\n")
    assert done.status == 0
    lines = done.lines
    assert [next(key for key in line if key != "ts") for line in lines[:1]] == ["opened"]
    assert lines[0]["opened"]["is_new"] is True
    events = [line["event"]["type"] for line in lines if "event" in line]
    assert events == ["turn-started", "call-started", "call-finished", "turn-finished"]
    reply = next(line["reply"] for line in lines if "reply" in line)
    heard = "".join(line["delta"]["text"] for line in lines if "delta" in line)
    assert reply["text"] == heard
    assert reply["record"] == records(cli)[-1]["id"]
    finished = next(line["event"] for line in lines if line.get("event", {}).get("usage"))
    assert reply["usage"] == finished["usage"]
    assert reply["raw_usage"] == records(cli)[-1]["usage"]
    answers = [line["answer"] for line in lines if "answer" in line]
    assert [one["is_refused"] for one in answers] == [True, False]


def test_json_errors_are_objects(cli: Cli) -> None:
    """A turn that fails is a line like the others."""
    done = cli("chat", "--json", "--window", "9000", stdin=b"hi\n")
    assert done.status == 1
    assert done.err == ""
    assert [line["error"]["type"] for line in done.lines if "error" in line] == ["cannot-fit"]


# The loop itself


class Typed:
    """Words that somebody types, one after the other; what is raised is raised."""

    is_live = True
    is_raw = False

    def __init__(self, *words: str | BaseException) -> None:
        self._words = iter(words)

    def read(self, _measure: object, /) -> str:
        word = next(self._words, EOFError())
        if isinstance(word, BaseException):
            raise word
        return word


class Listener:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Any]] = []

    def welcome(self, words: Any, _facts: Any, /) -> None: ...
    def begin(self, _model: str, /) -> None: ...
    def delta(self, delta: Any) -> None: ...
    def event(self, event: Any) -> None: ...
    def busy(self, text: str) -> None: ...
    def idle(self) -> None: ...

    def end(self, reply: Any) -> None:
        self.told.append(("reply", reply.text))

    def cancel(self, *, is_turn: bool) -> None:
        self.told.append(("cancelled", is_turn))

    def answer(self, answer: CommandAnswer) -> None:
        self.told.append(("answer", answer.text))

    def error(self, error: HoldfastError) -> None:
        self.told.append(("error", str(error)))

    def fault(self, error: Exception) -> None:
        self.told.append(("fault", str(error)))

    def note(self, text: str) -> None:
        self.told.append(("note", text.strip()))


def talk(seat: Seat, *words: str | BaseException) -> list[tuple[str, Any]]:
    listener = Listener()
    assert Chat(seat.chat, listener, Typed(*words)).run() == 0
    return listener.told


def test_whatever_a_turn_raises_the_loop_goes_on(tmp_path: Path) -> None:
    """An error of the provider, a bug, and Ctrl-C; then a turn that is answered."""
    seat = Seat(tmp_path, ValueError("odd"), KeyboardInterrupt(), "well")
    told = talk(seat, "one", "two", "three")
    assert [kind for kind, _ in told] == ["error", "cancelled", "reply", "note"]
    assert "odd" in told[0][1]
    assert told[1] == ("cancelled", True)
    assert told[2] == ("reply", "well")
    assert told[3] == ("note", "Goodbye.")


def test_bug_in_a_command_does_not_end_the_chat(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even what nobody foresaw is told, and the next words are taken."""
    seat = Seat(tmp_path)

    def broken(*_asked: Any) -> Iterator[None]:
        raise RuntimeError("a fault of ours")

    monkeypatch.setattr(seat.chat, "infos", broken)
    told = talk(seat, "/list", "hello")
    assert told[:2] == [("fault", "a fault of ours"), ("reply", "fine")]


def test_command_can_be_called_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a command works ends the command."""
    seat = Seat(tmp_path)

    def long_work(*_asked: Any) -> Iterator[None]:
        raise KeyboardInterrupt

    monkeypatch.setattr(seat.chat, "infos", long_work)
    assert talk(seat, "/list", "hello")[:2] == [("cancelled", False), ("reply", "fine")]


def test_ctrl_c_at_the_prompt_hints_and_stays(tmp_path: Path) -> None:
    """Only Ctrl-D or `/quit` leaves."""
    told = talk(Seat(tmp_path), KeyboardInterrupt(), KeyboardInterrupt(), "hello", EOFError())
    assert [kind for kind, _ in told] == ["note", "note", "reply", "note"]
    assert "/quit" in told[0][1]


def test_failed_turn_is_continued(tmp_path: Path) -> None:
    """What was said is in the log; `/continue` answers it without saying it again."""
    seat = Seat(tmp_path, ValueError("odd"), "answered")
    told = talk(seat, "a question", "/continue", "/continue")
    assert told[1] == ("reply", "answered")
    assert told[2][1].startswith("Nothing to continue")
    assert [one.content for one in seat.records() if isinstance(one, User)] == ["a question"]


def test_interrupted_call_is_announced_continued_and_not_run_again(tmp_path: Path) -> None:
    """A crash while a tool ran: the model is told, the tool is left alone."""
    runs = []

    def deploy(where: str) -> str:
        """Deploy."""
        runs.append(where)
        return "done"

    seat = Seat(tmp_path, "I see it was interrupted.", tools=[deploy])
    crashed: list[Record] = [
        User(content="deploy it"),
        Assistant(content=calls(("c1", "deploy", {"where": "prod"})).content),
    ]
    seat.store.append(seat.chat.session.key, crashed, expect=ANY_HEAD)
    text = answer(*interruption(seat.chat)).text
    assert "interrupted while deploy ran" in text
    assert "/continue" in text
    told = talk(seat, "/continue")
    assert told[0] == ("reply", "I see it was interrupted.")
    assert runs == []
    assert interruption(seat.chat) == []


@pytest.mark.parametrize("word", ["quit", "EXIT", "/quit"])
def test_words_for_leaving(tmp_path: Path, word: str) -> None:
    """Each ends the loop at once and is not said to the model."""
    seat = Seat(tmp_path)
    assert talk(seat, word, "more") == [("answer", "Goodbye.")]
    assert seat.model.requests == []


def test_lines_are_joined_by_backslashes() -> None:
    """Two backslashes are one that was meant."""
    assert join_lines(iter(["a\\", "b", "c"])) == "a\nb"
    assert join_lines(iter(["path\\\\", "b"])) == "path\\\\"
    assert join_lines(iter(["a", "b\\", "c"]), is_whole=True) == "a\nb\nc"
    with pytest.raises(EOFError):
        join_lines(iter([]))


def test_start_loads_nothing_heavy() -> None:
    """The parts that only a terminal or a provider needs are imported when they are needed."""
    program = (
        "import sys, holdfast.surfaces.cli.chat.chat, holdfast.surfaces.cli.chat.loop, "
        "holdfast.surfaces.cli.chat.input, holdfast.surfaces.cli.chat.view, "
        "holdfast.surfaces.chat_context, holdfast.surfaces.cli.chat.tools\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"import json\n{program}"], capture_output=True, text=True
    )
    loaded = set(json.loads(done.stdout))
    heavy = ("prompt_toolkit", "rich", "anthropic", "openai", "httpx", "pydantic", "xllamacpp")
    assert loaded.isdisjoint(heavy)


# Beside another turn


def test_a_chat_says_whom_it_waits_for(tmp_path: Path) -> None:
    """The notice names the process and the time; then the turn goes on."""
    seat = Seat(tmp_path, "hello")
    session = seat.chat.session
    token = seat.store.leases.acquire(session.key, "pid 7 on web-1 (app), turn 1", 60)
    assert "is running: pid 7 on web-1" in answer(*interruption(seat.chat)).text
    session.on(lambda _event: seat.store.leases.release(session.key, token), TurnWaiting)
    assert seat.say("hi") == "hello"
    (waiting,) = seat.notices
    assert "another turn of this session is running: pid 7 on web-1 (app), turn 1, since" in waiting
