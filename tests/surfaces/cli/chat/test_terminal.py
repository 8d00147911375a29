"""`holdfast chat` at a terminal: a real pseudo-terminal, real keys, real signals."""

from __future__ import annotations

import re
import stat
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.surfaces.chats import Seat
from tests.surfaces.terminals import Terminal

from holdfast.core.failures.classify import Symptoms, classify
from holdfast.core.flow.events import (
    CallFailed,
    CompactionFinished,
    Pruned,
    SecretFound,
    TroubleNoticed,
)
from holdfast.core.log.records import Assistant, User, text_of
from holdfast.core.models.replies import Delta, Reply
from holdfast.core.owners import ANY_OWNER
from holdfast.core.turn.options import Limits
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.surfaces.answers import Cell, StyledTable, answer, line
from holdfast.surfaces.cli.chat import console as chat_console
from holdfast.surfaces.cli.chat.input import history_file, meter_words
from holdfast.surfaces.cli.chat.notices import notice
from holdfast.surfaces.cli.chat.view import Screen
from holdfast.surfaces.cli.terminal import Output
from holdfast.surfaces.slash_commands import complete
from holdfast.testing import Answer, Call, Loopback

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.records import Record

CHAT = (sys.executable, "-m", "holdfast", "chat")


def stored(folder: Path) -> list[Record]:
    with JsonlStore(str(folder / ".sessions")) as store:
        key = store.sessions(owner=ANY_OWNER)[0].key
        return [entry.record for entry in store.read_all(key)]


# A person at a terminal


@pytest.mark.files_only("another process opens the folder")
def test_a_first_visit(tmp_path: Path) -> None:
    """Banner, meter, an answer as it streams, a command, Ctrl-C with words, Ctrl-D."""
    (tmp_path / "a.txt").write_text("forty-two\n")
    with Terminal(folder=tmp_path) as terminal:
        banner = terminal.wait_for("You > ")
        assert "Created initial session: " in banner
        assert "read_file, list_directory, search_files, get_current_time" in banner
        assert "of 32,000" in terminal.wait_for("of 32,000", anew=False)
        terminal.send("read_file('a.txt')\r")
        shown = terminal.wait_for("forty-two")
        assert "[tool: read_file] a.txt → 10 chars" in shown
        assert "Assistant: " in shown
        terminal.wait_for("You > ")
        terminal.send("/context\r")
        assert "Messages: 4" in terminal.wait_for("free")
        terminal.wait_for("· initial")  # the meter of the next prompt
        terminal.send("never mind")
        terminal.wait_for("mind")
        terminal.send("\x03")  # takes the words away
        terminal.send("\x03")
        terminal.wait_for("(/quit or Ctrl-D leaves)")
        terminal.send("\x04")
        terminal.wait_for("Goodbye.")
        assert terminal.wait_for_end() == 0
    assert [one.content for one in stored(tmp_path) if isinstance(one, User)] == [
        "read_file('a.txt')"
    ]
    history = tmp_path / ".sessions" / "chat-history"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    assert "read_file('a.txt')" in history.read_text()
    with Terminal(folder=tmp_path) as terminal:
        assert "Resumed session: " in terminal.wait_for("You > ")
        assert "(4 messages)" in terminal.text


@pytest.mark.files_only("another process opens the folder")
def test_ctrl_c_stops_a_turn_and_leaves_a_sound_session(tmp_path: Path) -> None:
    """What was said so far is in the log, nothing hangs, and the next turn is answered."""
    slow = Answer("counting slowly " * 200, pause=0.05)
    with (
        Loopback([slow, "after all"]) as loopback,
        Terminal(
            *CHAT, "--model", f"openai-chat:gpt-4o@{loopback.openai_url}", folder=tmp_path
        ) as terminal,
    ):
        terminal.wait_for("You > ")
        terminal.send("count\r")
        terminal.wait_for("counting slowly")
        terminal.send("\x03")
        terminal.wait_for("[cancelled]")
        terminal.wait_for("You > ")
        terminal.send("go on\r")
        terminal.wait_for("after all")
        terminal.wait_for("You > ")
        terminal.send("/foo\r")
        terminal.wait_for("Unknown command: /foo")
        terminal.send("/quit\r")
        assert terminal.wait_for_end() == 0
        assert len(loopback.requests) == 2
        assert loopback.invalid == ()
        assert "/foo" not in str(loopback.requests)
    said_ = [text_of(one.content) for one in stored(tmp_path) if isinstance(one, User | Assistant)]
    assert said_[0] == "count"
    assert said_[1].startswith("counting slowly")
    assert len(said_[1]) < len(slow.text)
    assert said_[2:] == ["go on", "after all"]


def test_ctrl_c_while_tools_run(tmp_path: Path) -> None:
    """The calls that were made have results in the log, and the next turn is valid."""
    calling = Answer("", (Call("get_current_time"), Call("list_directory", {"directory": "."})))
    hanging = Answer("never heard", delay=60.0)
    with (
        Loopback([calling, hanging, "on we go"]) as loopback,
        Terminal(
            *CHAT, "--model", f"openai-chat:gpt-4o@{loopback.openai_url}", folder=tmp_path
        ) as terminal,
    ):
        terminal.wait_for("You > ")
        terminal.send("look around\r")
        terminal.wait_for("[tool: list_directory]")
        assert loopback.wait_for(2)
        terminal.wait_for("Ctrl-C stops it")  # the spinner, after a second of silence
        terminal.send("\x03")
        terminal.wait_for("[cancelled]")
        terminal.wait_for("You > ")
        terminal.send("and now?\r")
        terminal.wait_for("on we go")
        assert loopback.invalid == ()


def test_known_window_that_is_too_large_is_learned_and_the_turn_answered(tmp_path: Path) -> None:
    """The provider says how small it is; a notice says so, and the first turn gets its answer."""
    with (
        Loopback(["hello there"], limit=16_500) as loopback,
        Terminal(
            *CHAT, "--model", f"openai-chat:gpt-4o@{loopback.openai_url}", folder=tmp_path
        ) as terminal,
    ):
        terminal.wait_for("You > ")
        terminal.send("hi\r")
        assert "[guard]" in terminal.wait_for("hello there")
        terminal.wait_for("16,500 tokens (said by the provider)")  # believed once it was answered


@pytest.mark.files_only("another process opens the folder")
def test_plain_terminal_without_the_extra(tmp_path: Path) -> None:
    """Without `prompt_toolkit` there is still a prompt with a meter, and history."""
    program = (
        "import sys\n"
        "sys.modules['prompt_toolkit'] = None\n"
        "from holdfast.surfaces.cli import main\n"
        "sys.exit(main(['chat']))\n"
    )
    with Terminal(sys.executable, "-c", program, folder=tmp_path) as terminal:
        terminal.wait_for("[#---------] 2% You > ")
        terminal.send("one\\\r")
        terminal.wait_for("... ")
        terminal.send("two\r")
        terminal.wait_for("Assistant: ")
        terminal.wait_for("You > ")
        terminal.send("/he\t\r")
        terminal.wait_for("Commands:")
        terminal.send("/quit\r")
        assert terminal.wait_for_end() == 0
    assert [one.content for one in stored(tmp_path) if isinstance(one, User)] == ["one\ntwo"]
    assert "/help" in (tmp_path / ".sessions" / "chat-history").read_text()


def test_no_colours_where_none_are_wanted(tmp_path: Path) -> None:
    """`NO_COLOR`: not in the banner, the prompt, the reply or a command's answer."""
    with Terminal(folder=tmp_path, NO_COLOR="1") as terminal:
        terminal.wait_for("You > ")
        terminal.send("hello\r")
        terminal.wait_for("Assistant: ")
        terminal.wait_for("You > ")
        terminal.send("/context\r")
        terminal.wait_for("free")
        terminal.send("/quit\r")
        terminal.wait_for_end()
        assert not re.search(rb"\x1b\[[0-9;]*3[0-7]m|\x1b\[2m", terminal.raw)


def test_answers_can_go_to_a_file(tmp_path: Path) -> None:
    """`holdfast chat > file`: the prompt is for the person, the file gets what was answered."""
    program = (
        "import sys\n"
        "sys.stdout = open('answers.txt', 'w')\n"
        "from holdfast.surfaces.cli import main\n"
        "sys.exit(main(['chat']))\n"
    )
    with Terminal(sys.executable, "-c", program, folder=tmp_path) as terminal:
        terminal.wait_for("You > ")
        terminal.send("the port is 8443\r")
        terminal.wait_for("You > ")
        terminal.send("/quit\r")
        assert terminal.wait_for_end() == 0
    assert (tmp_path / "answers.txt").read_text() == (
        "Noted. It is in the log, and I can quote it.\n  Goodbye.\n"
    )


# Keys, without a process


def typed(seat: Seat, root: Path, keys: str) -> str:
    """What `prompt_toolkit` makes of some keys."""
    from prompt_toolkit.input import create_pipe_input
    from prompt_toolkit.output import DummyOutput

    from holdfast.surfaces.cli.chat.input import PromptInput

    with create_pipe_input() as pipe:
        source = PromptInput(seat.chat, str(root), input=pipe, output=DummyOutput())
        pipe.send_text(keys)
        return source.read(seat.chat.session.status)


@pytest.mark.parametrize(
    ("keys", "text"),
    [
        ("hello\r", "hello"),
        ("one\x1b\rtwo\r", "one\ntwo"),  # Alt-Enter
        ("one\\\rtwo\r", "one\ntwo"),  # a backslash at the end of the line
        ("\x1b[200~def f():\n    pass\n\x1b[201~\r", "def f():\n    pass\n"),  # pasted
        ("gone\x03hello\r", "hello"),  # Ctrl-C takes the words away
    ],
)
def test_keys_make_a_message(tmp_path: Path, keys: str, text: str) -> None:
    """Enter sends; other ways make a new line; what is pasted is taken as it is."""
    assert typed(Seat(tmp_path), tmp_path, keys) == text


def test_ctrl_c_and_ctrl_d_on_an_empty_line(tmp_path: Path) -> None:
    """The one interrupts, the other ends."""
    seat = Seat(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        typed(seat, tmp_path, "\x03")
    with pytest.raises(EOFError):
        typed(seat, tmp_path, "\x04")


def test_history_is_brought_back_by_the_arrow(tmp_path: Path) -> None:
    """Across runs: it is in a file."""
    seat = Seat(tmp_path)
    typed(seat, tmp_path, "remember me\r")
    assert typed(seat, tmp_path, "\x1b[A\r") == "remember me"


def completions(seat: Seat, text: str) -> list[str]:
    return [choice.text for choice, _is_name in complete(text, seat.chat)]


def test_completion_of_commands_sessions_and_records(tmp_path: Path) -> None:
    """Names of commands, then what may stand behind them."""
    seat = Seat(tmp_path)
    seat.fill(1)
    first = seat.id
    seat("/new my-project")
    assert completions(seat, "/co") == ["context", "compact", "continue"]
    assert completions(seat, "/CO") == ["context", "compact", "continue"]
    assert "my-project" in completions(seat, "/switch m")
    assert first in completions(seat, "/switch ")
    assert completions(seat, "/context l") == ["list"]
    seat("/switch initial")
    ids = [one.id for one in seat.records() if one.kind in ("user", "assistant")]
    assert completions(seat, "/rewind ") == ids[::-1]
    assert completions(seat, "hello /co") == []
    assert completions(seat, "/nonsense x") == []


def test_meter_says_what_matters(tmp_path: Path) -> None:
    """Share, tokens, when the next compaction comes, the model and the session."""
    seat = Seat(tmp_path)
    seat.say("hello")
    words = meter_words(seat.chat.session.status())
    assert "of 32,000" in words
    assert "compaction in ~" in words
    assert words.endswith("scripted-1 · initial")


def test_history_file_is_private_and_no_link_is_followed(tmp_path: Path) -> None:
    """A link in its place is left alone, and the chat does without."""
    (tmp_path / "chat-history").write_text("older\n")
    (tmp_path / "chat-history").chmod(0o644)
    assert history_file(str(tmp_path)) == str(tmp_path / "chat-history")
    assert stat.S_IMODE((tmp_path / "chat-history").stat().st_mode) == 0o600
    other = tmp_path / "other"
    other.mkdir()
    (other / "chat-history").symlink_to(tmp_path / "victim")
    assert history_file(str(other)) == ""
    assert not (tmp_path / "victim").exists()


# What is shown


def test_reply_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """Escapes in what a model says are left out; tabs and lines stay."""
    screen = Screen(Output(is_json=False), is_live=False)
    screen.begin("a model")
    screen.delta(Delta("text", "a\x1b[2Jb\tc\r\x07\nd\x9b31m"))
    screen.end(None)
    assert capsys.readouterr().out == "a[2Jb\tc\nd31m\n"


def test_reply_that_was_not_streamed_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    """And one that was is not shown twice."""
    screen = Screen(Output(is_json=False), is_live=False)
    reply = Reply(content=[{"type": "text", "text": "whole"}])
    screen.begin("a model")
    screen.end(reply)
    screen.begin("a model")
    screen.delta(Delta("text", "whole"))
    screen.end(reply)
    assert capsys.readouterr().out == "whole\nwhole\n"


def test_thinking_is_not_part_of_an_answer_in_a_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    """Programs that read stdout get the answer alone."""
    screen = Screen(Output(is_json=False), is_live=False)
    screen.begin("a model")
    screen.delta(Delta("thinking", "hmm"))
    screen.delta(Delta("text", "yes"))
    screen.end(None)
    assert capsys.readouterr().out == "yes\n"


def test_answers_are_indented_and_aligned(capsys: pytest.CaptureFixture[str]) -> None:
    """Two spaces in front of everything, numbers to the right."""
    shown = answer(
        line("a ", Cell("b", "bad")), StyledTable(("Name", ">Size"), (("x", "1"), ("yy", "20")))
    )
    Screen(Output(is_json=False), is_live=False).answer(shown)
    assert capsys.readouterr().out == "  a b\n  NAME  SIZE\n  x        1\n  yy      20\n"
    assert shown.text == "a b\nNAME  SIZE\nx        1\nyy      20"


def shown(event: Any, attempt: int = 1) -> str:
    found = notice(event, attempt=attempt)
    return found.text.strip() if found is not None else ""


def test_notices_of_the_ladder_are_in_the_seeds_order_and_words() -> None:
    """Shrink, then shrink further, then the error alone."""
    overflow = classify(Symptoms(status=400, message="prompt is too long: 9 tokens > 5 maximum"))
    first = CallFailed("turn", overflow, "shrink", "from 9 to at most 4 tokens")
    assert shown(first).startswith("[guard] Context overflow, shortening the request")
    assert shown(first, attempt=2).startswith("[guard] Still overflowing, shortening the request")
    assert shown(CallFailed("turn", overflow, "give-up")) == ""
    failed = shown(CallFailed("summary", overflow, "give-up", "the part made by code is used"))
    assert failed.startswith("[compact] Summary failed (context overflow)")


class RateLimited(Exception):
    """As an SDK raises it."""

    status_code = 429


def test_waiting_is_told_with_its_seconds(tmp_path: Path) -> None:
    """The notice has them, and so has the event that the spinner counts down from."""
    seat = Seat(
        tmp_path, RateLimited("rate limit exceeded"), "at last", limits=Limits(wait_seconds=0.01)
    )
    heard: list[CallFailed] = []
    seat.chat.session.on(heard.append, CallFailed)
    assert seat.say("hello") == "at last"
    assert [(one.next, one.seconds) for one in heard] == [("wait", 0.01)]
    assert shown(heard[0]) == "[guard] Rate limit, waiting 0.01 s"


def test_notices_of_cuts_say_how_much_and_how_to_get_it_back() -> None:
    """Sizes before and after, and the command that takes it back."""
    pruned = Pruned("r", 2, 1, 9_000, 4_000, "full")
    assert shown(pruned) == "[trim] old tool results: 2 trimmed, 1 cleared; 9,000 -> 4,000 tokens"
    done = CompactionFinished("applied", "full", method="extract", tokens_before=9, tokens_after=4)
    assert "the window is filling up: 9 -> 4 tokens; summary made by code; /undo" in shown(done)
    assert shown(CompactionFinished("applied", "asked")) == ""
    assert shown(TroubleNoticed("cut-silently", "odd\x1b")) == "[guard] cut-silently: odd"


def test_a_credential_that_was_found_is_a_notice_with_the_way_out() -> None:
    stored = shown(SecretFound("r", "tool_result", "ghp_", is_stored=True))
    assert stored.startswith(
        "[secret] the result of a tool holds what looks like a credential (ghp_)"
    )
    assert all(way in stored for way in ("HOLDFAST_SECRETS", "--found-secrets", "holdfast erase"))
    assert "a handle is stored" in shown(SecretFound("r", "user", "ghp_", is_stored=False))


def test_spinner_shows_after_its_patience_and_leaves_no_trace(tmp_path: Path) -> None:
    """It draws over itself, erases its line, and its thread ends."""
    import io
    import threading

    drawn = threading.Event()

    class Stream(io.StringIO):
        def write(self, text: str) -> int:
            drawn.set()
            return super().write(text)

    stream = Stream()
    spinner = chat_console.Spinner(stream, patience_seconds=0.0)
    spinner.show("thinking", seconds=30)
    assert drawn.wait(30)
    spinner.hide()
    text = stream.getvalue()
    assert "thinking" in text
    assert "s left; Ctrl-C stops it" in text
    assert text.endswith(chat_console.ERASE_LINE)
