"""Every slash command: what it does, what it says, and what it leaves alone."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.approvals import paying
from tests.surfaces.chats import Seat

from holdfast.core.log.records import Checkpoint, Compaction, Flush, Label, Rewind, Undo, User
from holdfast.engine.safe_regex import matcher
from holdfast.engine.session.base import target_of
from holdfast.engine.timers import SessionTimers
from holdfast.errors import UsageError
from holdfast.ports import ANY_HEAD
from holdfast.surfaces.answers import StyledTable
from holdfast.surfaces.formatting import meter, tone_of
from holdfast.surfaces.slash_commands import (
    COMMANDS,
    as_message,
    commands_for,
    find,
    is_command,
)
from holdfast.surfaces.slash_commands.context import parts_of
from holdfast.testing import calls

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def seat(tmp_path: Path) -> Seat:
    return Seat(tmp_path)


# Which words are commands


@pytest.mark.parametrize("text", ["/help", "  /HELP me", "/", "/etc/passwd", "quit", "EXIT"])
def test_words_that_are_for_us(text: str) -> None:
    """A slash in front, or the seed's two words for leaving, in any case."""
    assert is_command(text)


@pytest.mark.parametrize("text", ["hello", "what is /etc?", "//etc/passwd", "quit smoking", ""])
def test_words_that_are_for_the_model(text: str) -> None:
    """A slash further on, two slashes, or a sentence that only begins with `quit`."""
    assert not is_command(text)


def test_two_slashes_say_one() -> None:
    """What begins with a slash can still be said."""
    assert as_message("//etc/hosts, what is it?") == "/etc/hosts, what is it?"
    assert as_message("hello") == "hello"


def test_command_word_is_found_in_any_case_and_by_its_other_names() -> None:
    """`/SeSSions` is `/list`."""
    assert find("/SeSSions") is find("list")
    assert find("/EXIT") is find("quit")
    assert find("/foo") is None


def test_names_and_other_names_are_all_different() -> None:
    """No word means two commands."""
    names = [name for one in COMMANDS for name in (one.name, *one.aliases)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize(
    ("typed", "near"), [("/contxt", "/context"), ("/swich x", "/switch"), ("/stat", "/status")]
)
def test_unknown_command_names_the_nearest(seat: Seat, typed: str, near: str) -> None:
    """A typo is refused with what was probably meant."""
    answer = seat(typed)
    assert answer.is_refused
    assert f"did you mean {near}?" in answer.text


def test_unknown_command_is_neither_sent_nor_stored(seat: Seat) -> None:
    """`/foo` leaves no trace: not in the log, not at the model."""
    before = seat.records()
    answer = seat("/foo bar")
    assert answer.is_refused
    assert "Unknown command: /foo" in answer.text
    assert "nothing was sent" in answer.text
    assert seat.records() == before
    assert seat.model.requests == []


# Sessions


def test_new_makes_a_session_and_goes_there(seat: Seat) -> None:
    """With a label, the label is said."""
    first = seat.id
    answer = seat("/new my-project")
    assert seat.id != first
    assert answer.text == f"Created new session: {seat.id} (my-project)"
    assert seat.chat.session.messages() == []


def test_new_without_a_label(seat: Seat) -> None:
    """Only the id is said."""
    assert seat("/new").text == f"Created new session: {seat.id}"


def test_list_shows_the_newest_first_and_marks_the_current(seat: Seat) -> None:
    """One line each, as in the seed."""
    first = seat.id
    seat("/new other")
    seat.say("hello")
    lines = seat("/list").text.splitlines()
    assert lines[0] == "Sessions:"
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d"
    assert re.fullmatch(rf"  {seat.id} \(other\)  msgs=2  last={time} <-- current", lines[1])
    assert re.fullmatch(rf"  {first} \(initial\)  msgs=0  last={time}", lines[2])


def test_list_of_many_sessions_is_cut_and_says_so(seat: Seat) -> None:
    """Fifty lines, and how to see the rest."""
    for _ in range(55):
        seat.chat.start()
    assert len(seat("/list").text.splitlines()) == 52
    assert "… and more: /list all" in seat("/list").text
    assert len(seat("/list all").text.splitlines()) == 57


def test_switch_by_the_beginning_of_a_label(seat: Seat) -> None:
    """The seed's example: `/switch my-p`."""
    seat("/new my-project")
    wanted = seat.id
    seat.say("hello")
    seat("/new experiments")
    answer = seat("/switch my-p")
    assert answer.text == f"Switched to session: {wanted} (2 messages)"
    assert seat.id == wanted


def test_switch_by_the_beginning_of_an_id(seat: Seat) -> None:
    """As far as it is unique."""
    first = seat.id
    seat("/new")
    assert seat(f"/switch {first[:8]}").text.startswith(f"Switched to session: {first}")
    assert seat.id == first


def test_switch_to_nothing_and_to_several(seat: Seat) -> None:
    """Neither moves; the exact label beats a longer one."""
    seat("/new alpha-1")
    exact = seat.id
    seat("/new alpha-12")
    here = seat.id
    assert seat("/switch").text.startswith("Usage: /switch <session_id>")
    assert seat("/switch zzz").text.startswith("Session not found: zzz")
    several = seat("/switch alpha")
    assert several.is_refused
    assert several.text.startswith("Ambiguous prefix, matches: ")
    assert "(alpha-1)" in several.text
    assert "(alpha-12)" in several.text
    assert seat.id == here
    seat("/switch alpha-1")
    assert seat.id == exact


@pytest.mark.files_only("it damages files")
def test_switch_to_a_session_whose_log_is_gone(tmp_path: Path) -> None:
    """A clear error; the current session is the same, and the next turn lands in it."""
    seat = Seat(tmp_path)
    gone = seat.id
    seat("/new here")
    here = seat.id
    (tmp_path / "agents" / "main" / "sessions" / f"{gone}.jsonl").unlink()
    answer = seat(f"/switch {gone}")
    assert answer.is_refused
    assert gone in answer.text
    assert seat.id == here
    assert seat.say("still here") == "fine"
    assert [one.content for one in seat.records() if isinstance(one, User)] == ["still here"]


def test_switch_to_the_current_session(seat: Seat) -> None:
    """Nothing to do, and it says so."""
    assert seat("/switch initial").text == f"Already in session: {seat.id}"


def test_label_is_shown_and_changed(seat: Seat) -> None:
    """The new one is in the log and in the list."""
    assert seat("/label").text == "Label: initial"
    seat("/label  release   notes")
    assert any(isinstance(one, Label) and one.label == "release notes" for one in seat.records())
    assert "(release notes)" in seat("/list").text
    assert seat("/label " + "x" * 2_000).is_refused


def test_model_is_shown_and_changed(seat: Seat) -> None:
    """The session stays; what cannot be had changes nothing."""
    here = seat.id
    assert "Model: scripted-1 (scripted)" in seat("/model").text
    assert seat("/model nonsense").is_refused
    assert target_of(seat.chat.session).model == "scripted-1"
    assert "Model: offline" in seat("/model offline").text
    assert seat.id == here
    assert target_of(seat.chat.session).model == "offline"


def test_a_model_with_tools_of_its_own_gets_none_of_the_chat(tmp_path: Path) -> None:
    """Nor is one refused for them; the next model has them again, and each change is told."""

    def look(path: str) -> str:
        """Look at a file."""
        return path

    seat = Seat(tmp_path, tools=[look])
    seat.say("Hello.")
    assert "look" in str(seat.model.requests[-1]["tools"])
    had = [tool.name for tool in seat.chat.session.plan().prompt.tools]
    assert had == ["look", "context"]
    told = seat("/model cli:sh -c 'cat > /dev/null; echo The 9:12.'").text
    assert "Tools: none of this chat; sh runs its own" in told
    assert seat.say("Which train?") == "The 9:12."
    assert "Tools" not in seat("/model").text
    assert "Tools: look" in seat("/model offline").text
    assert [tool.name for tool in seat.chat.session.plan().prompt.tools] == had


# How full it is


def test_status_says_where_each_number_is_from(seat: Seat) -> None:
    """The window with its source; measured once something was measured."""
    assert "(estimated)" in seat("/status").text
    seat.say("hello")
    text = seat("/status").text
    assert f"Session     {seat.id} (initial), agent main" in text
    assert "Window      32,000 tokens (scripted), stated" in text
    assert "(measured)" in text
    assert "1 turn, 1 call, 0 tool results, 0 compactions, 0 trims" in text
    assert "more turns like these" in text
    assert re.search(r"Cache +0% of the input", text)
    assert "Cost        unknown: no list price" in text


def test_status_of_a_history_larger_than_the_window(seat: Seat) -> None:
    """What is in view is counted, as the warning counts it; the next turn cuts an imported log."""
    seat.fill(200)
    status = seat.chat.session.status()
    assert (status.messages, status.turns_left) == (400, 0)
    assert status.fill > 1
    assert f"the messages take {status.messages_tokens:,} tokens" in status.warnings[0]
    assert f"the view takes {status.messages_tokens:,} tokens" in seat("/context").text
    seat("/new")
    assert "400 messages" in seat("/switch initial").text


def test_status_of_a_small_window_warns(tmp_path: Path) -> None:
    """Below 32,000 tokens little history fits."""
    assert "is small" in Seat(tmp_path, window=20_000)("/status").text


def test_context_has_the_seeds_three_lines(seat: Seat) -> None:
    """Usage, a bar of thirty cells, and the number of messages; then the parts."""
    seat.fill(3)
    answer = seat("/context")
    first, second, third, *_ = answer.text.splitlines()
    status = seat.chat.session.status()
    assert first == f"Context usage: ~{status.tokens:,} / 32,000 tokens"
    assert re.fullmatch(rf"\[#+-+\] {100 * status.share:.1f}%", second)
    assert len(second.partition("]")[0]) == 31
    assert third == "Messages: 6"
    table = next(part for part in answer.parts if isinstance(part, StyledTable))
    names = [str(row[0]) for row in table.rows]
    assert names[:2] == ["your messages", "replies and calls"]
    assert names[-1] == "free"


def test_parts_of_the_context_are_the_window(seat: Seat) -> None:
    """Everything that is counted adds up to the window, so nothing is hidden."""
    seat.fill(5)
    seat.say("hello")
    parts = parts_of(seat.chat.session.plan())
    assert sum(tokens for _name, tokens, _tone in parts) == 32_000
    assert all(tokens > 0 for _name, tokens, _tone in parts)


def test_tools_and_system_prompt_are_parts_of_their_own(tmp_path: Path) -> None:
    """What every request repeats is shown apart."""

    def look(path: str) -> str:
        """Look at something."""
        return path

    seat = Seat(
        tmp_path, calls(("c1", "look", {"path": "a"})), system="Be brief. " * 50, tools=[look]
    )
    seat.say("look at it")
    names = [name for name, _tokens, _tone in parts_of(seat.chat.session.plan())]
    assert names[:2] == ["system prompt", "tools"]
    assert "tool results" in names


def test_context_list_is_the_ledger(seat: Seat) -> None:
    """Every message with what became of it."""
    seat.fill(3)
    answer = seat("/context list")
    table = next(part for part in answer.parts if isinstance(part, StyledTable))
    messages = [one.id for one in seat.records() if one.kind in ("user", "assistant")]
    assert [row[0] for row in table.rows][: len(messages)] == messages
    assert "kept" in answer.text


def test_long_ledger_is_cut_and_says_so(seat: Seat) -> None:
    """The newest forty; `all` shows the rest."""
    seat.fill(25, words="short ")
    assert "earlier records: /context list all" in seat("/context list").text
    assert len(seat("/context list all").text) > len(seat("/context list").text)
    assert seat("/context lst").is_refused


@given(st.floats(0, 3))
def test_meter_is_never_wider_and_never_looks_empty(share: float) -> None:
    """Thirty cells for every share; one is filled as soon as anything is there."""
    drawn = meter(share)
    assert len(drawn) == 32
    assert ("#" in drawn) == (share > 0)
    assert ("-" in drawn) == (share < 1)


def test_meter_changes_its_tone_at_the_seeds_thresholds() -> None:
    """Green, yellow from 50 %, red from 80 %."""
    assert [tone_of(share) for share in (0.49, 0.5, 0.79, 0.8)] == ["good", "warn", "warn", "bad"]


# Cutting and taking back


def test_compact_refuses_four_messages(seat: Seat) -> None:
    """In the seed's words, and without a call."""
    seat.fill(2)
    answer = seat("/compact")
    assert answer.is_refused
    assert answer.text == "Too few messages to compact (need > 4)."
    assert seat.model.requests == []


def test_compact_cuts_and_says_what_it_did(seat: Seat) -> None:
    """Messages and tokens before and after, how, and the way back."""
    seat.fill(12)
    answer = seat("/compact")
    assert not answer.is_refused
    first, second, third, fourth = answer.text.splitlines()
    after = seat.chat.session.status().messages
    assert re.fullmatch(r"\[compact\] \d+ messages -> summary \([\d,]+ chars\)", first)
    assert second == f"24 -> {after} messages"
    assert after < 24
    before_tokens, after_tokens = re.findall(r"[\d,]+", third)[:2]
    assert int(after_tokens.replace(",", "")) < int(before_tokens.replace(",", ""))
    assert "made by code" in third
    assert "/undo" in fourth
    assert any(isinstance(one, Compaction) for one in seat.records())


def test_compact_preview_changes_nothing(seat: Seat) -> None:
    """It shows the summary and leaves the log alone."""
    seat.fill(12)
    before = seat.records()
    answer = seat("/compact --preview the importer")
    assert answer.text.startswith("Preview: ")
    assert "nothing was changed" in answer.text
    assert len(answer.text.splitlines()) > 2
    assert seat.records() == before


def test_undo_takes_a_compaction_back(seat: Seat) -> None:
    """All messages are in view again."""
    seat.fill(12)
    seat("/compact")
    answer = seat("/undo")
    assert answer.text.startswith("Took back the compaction; 24 messages")
    assert any(isinstance(one, Undo) for one in seat.records())
    assert seat.chat.session.status().messages == 24


def test_rewind_by_turns_by_record_and_back(seat: Seat) -> None:
    """A number is turns, anything else a record; undo brings back what was left."""
    seat.fill(4)
    ids = [one.id for one in seat.records() if one.kind == "assistant"]
    assert seat("/rewind 2").text.startswith("Took back the last 2 turns; 4 messages")
    assert seat("/undo").text.startswith("Took back the rewind; 8 messages")
    assert seat(f"/rewind {ids[0]}").text.startswith(f"Rewound to record `{ids[0]}`; 2 messages")
    assert sum(isinstance(one, Rewind) for one in seat.records()) == 3
    assert seat("/rewind 99").is_refused
    assert seat("/rewind no-such-record").is_refused


def test_rewind_without_a_number_is_one_turn(seat: Seat) -> None:
    """The last thing that was said, and its answer."""
    seat.fill(2)
    assert seat("/rewind").text.startswith("Took back the last turn; 2 messages")


def test_undo_in_an_empty_session_says_so(seat: Seat) -> None:
    """Nothing there to take back."""
    assert seat("/undo").is_refused


def test_checkpoint_is_stored(seat: Seat) -> None:
    """The record it names is there."""
    seat.fill(2)
    answer = seat("/checkpoint")
    made = [one for one in seat.records() if isinstance(one, Checkpoint)]
    assert len(made) == 1
    assert made[0].id in answer.text


def test_reset_goes_to_a_fresh_session_that_knows(seat: Seat) -> None:
    """The old one is named and stays; the new one carries what it was about."""
    seat.fill(4)
    old = seat.id
    answer = seat("/reset fresh start")
    assert seat.id != old
    assert re.search(rf"Carried over from {old}: [\d,]+ characters", answer.text)
    assert f"/switch {old} goes back" in answer.text
    assert seat.chat.session.status().label == "fresh start"
    seat.say("where were we?")
    assert "importer" in str(seat.model.requests[-1])


def test_reset_of_an_empty_session_carries_nothing(seat: Seat) -> None:
    assert "nothing: the session was empty" in seat("/reset").text


# Looking back


def test_memory_finds_notes_of_all_sessions(seat: Seat) -> None:
    """Every word must be in the note, in any case; the session is named."""
    first = seat.id
    notes = Flush(notes=["Deploys go to Frankfurt", "The port is 8443"])
    seat.store.append(seat.chat.session.key, [notes], expect=ANY_HEAD)
    seat.chat.open(seat.chat.session.key)  # what a crash kept out of the files is put in
    seat("/new")
    assert "No notes about: paris" in seat("/memory paris").text
    assert seat("/memory").text.count(first) == 2
    found = seat("/memory FRANKFURT deploys").text
    assert "Deploys go to Frankfurt" in found
    assert "8443" not in found


def test_memory_without_notes(seat: Seat) -> None:
    """It says when there will be some."""
    assert "before a compaction" in seat("/memory").text


def test_history_previews_messages(tmp_path: Path) -> None:
    """Oldest first, each on one line, long ones cut, calls and results named."""

    def look(path: str) -> str:
        """Look at something."""
        return "line\n" * 500

    seat = Seat(tmp_path, calls(("c1", "look", {"path": "a"}), text="One moment."), tools=[look])
    assert "This session has no messages" in seat("/history").text
    seat.say("word " * 400)
    lines = seat("/history").text.splitlines()
    assert [line.split()[1] for line in lines] == ["you", "assistant", "result", "assistant"]
    assert "One moment. [tool: look]" in lines[1]
    assert all(len(line) < 260 for line in lines)
    assert "…" in lines[0]
    assert len(seat("/history 1").text.splitlines()) == 1
    assert seat("/history soon").is_refused
    assert seat("/history 0").is_refused


def test_previews_cannot_steer_a_terminal(tmp_path: Path) -> None:
    """Escapes in a message do not reach whoever looks at it."""
    seat = Seat(tmp_path, "\x1b[2Jgone\x07")
    seat.say("\x1b]0;title\x07hello")
    assert "\x1b" not in seat("/history").text
    assert "\x07" not in seat("/history").text


def test_continue_leaves_the_turn_to_the_surface(seat: Seat) -> None:
    """A command makes no calls of its own."""
    assert seat("/continue").then == "resume"
    assert seat.model.requests == []


def test_help_names_every_command(seat: Seat) -> None:
    """One line each; with a name, only that one."""
    text = seat("/help").text
    assert all(f"  {one.usage}" in text for one in commands_for("terminal", "operator"))
    assert all(one.help in text for one in commands_for("terminal", "operator"))
    assert seat("/help switch").text.startswith("/switch <id or label>")
    assert "did you mean /switch?" in seat("/help swich").text


@pytest.mark.parametrize("text", ["/quit", "/exit", "/QUIT now"])
def test_quit_says_goodbye(seat: Seat, text: str) -> None:
    """By either name."""
    answer = seat(text)
    assert answer.text == "Goodbye."
    assert answer.then == "quit"


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.name)
def test_no_command_raises_in_an_empty_session(seat: Seat, command: object) -> None:
    """Whatever is typed behind it, there is an answer."""
    name = getattr(command, "name", "")
    for argument in ("", "x", "-1", "0", "é\n\x00", "9" * 30):
        seat(f"/{name} {argument}")


@pytest.mark.parametrize("command", COMMANDS, ids=lambda one: one.name)
def test_choices_can_be_had(seat: Seat, command: object) -> None:
    """Completion asks for them at any time."""
    seat.fill(2)
    list(getattr(command, "choices")(seat.chat))  # noqa: B009


def test_choices_of_switch_and_rewind_work_as_typed(seat: Seat) -> None:
    """What completion offers is what the command takes."""
    seat.fill(2)
    seat("/new other")
    switch, rewind = find("switch"), find("rewind")
    assert switch is not None
    assert rewind is not None
    for choice in list(switch.choices(seat.chat)):
        assert not seat(f"/switch {choice.text}").is_refused
    seat("/switch initial")
    for choice in list(rewind.choices(seat.chat)):
        assert not seat(f"/rewind {choice.text}").is_refused


def test_commands_work_where_no_request_fits(tmp_path: Path) -> None:
    """Sizes are refused with the sums; everything else goes on."""
    seat = Seat(tmp_path, window=9_000)
    assert "below the floor" in seat("/status").text
    assert "below the floor" in seat("/context").text
    assert seat("/label").text == "Label: initial"
    seat("/new other")
    assert not seat("/switch initial").is_refused
    assert "(other)" in seat("/list").text


def test_output_reads_what_was_moved_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the ref that the notice names: the beginning, some lines, or what matches."""
    assert matcher.__kwdefaults__ is not None
    monkeypatch.setitem(matcher.__kwdefaults__, "seconds", 300.0)  # also on a busy machine

    def build() -> str:
        """Build."""
        return "".join(f"step {n}\n" for n in range(20_000)) + "the end \x1b[31m\n"

    seat = Seat(tmp_path, calls(("c1", "build", {})), tools=[build])
    seat.say("build it")
    (told,) = [one for one in seat.notices if one.startswith("[offload]")]
    ref = told.split("/output ")[1].split()[0]
    assert seat(f"/output {ref}").text.startswith("step 0\nstep 1\n")
    assert seat(f"/output {ref} 101:102").text.splitlines()[:2] == ["step 100", "step 101"]
    assert "step 19999" in seat(f"/output {ref} 9999$").text
    assert "\x1b" not in seat(f"/output {ref} -1:").text
    command = find("output")
    assert command is not None
    assert [one.text for one in command.choices(seat.chat)] == [ref]
    assert seat("/output").is_refused
    assert seat("/output ../../etc/passwd").is_refused
    assert seat(f"/output {ref} [").is_refused


def test_a_call_is_approved_with_other_arguments_and_always(tmp_path: Path) -> None:
    """Other arguments are JSON; what is none is answered with what the parameter means."""
    parked = calls(("c1", "pay", {"amount": 5}))
    seat = Seat(tmp_path, parked, tools=[paying()])
    seat.say("pay")
    (call,) = seat.chat.session.calls.waiting()
    for wrong in ("{", "[1]", "5"):
        with contextlib.suppress(UsageError):
            seat(f"/approve {call.key} {wrong}")
        assert seat.chat.session.calls.waiting(), wrong
    seat(f'/approve --always {call.key} {{"amount": 3}}')
    decided = seat.chat.session.calls.find(call.key)
    assert decided is not None
    assert decided.decision is not None
    assert (decided.decision.state, decided.decision.arguments) == ("approved", {"amount": 3})
    seat.chat.session.resume()
    assert "paid 3" in str(seat.model.requests[-1])


def test_a_timer_is_changed_in_the_chat_that_has_it(tmp_path: Path) -> None:
    """Another time, in as many words as it takes; not of another session."""
    seat = Seat(tmp_path)
    seat("/remind 30m look")
    (timer,) = SessionTimers(seat.chat.session).ahead()
    seat(f"/reschedule {timer.name} 2h")
    (changed,) = SessionTimers(seat.chat.session).ahead()
    assert changed.next.at - timer.next.at > 5_000
    assert changed.text == "look"
    seat("/new other")
    with contextlib.suppress(UsageError):
        seat(f"/reschedule {timer.name} 3h")
    assert SessionTimers(seat.chat.session).ahead() == []
