"""What somebody who comes from the seed finds again; `docs/parity.md` is the table."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.surfaces.chats import Seat
from tests.surfaces.cli.chat.test_chat import talk

from holdfast.core.dialects.registry import render_body, validate_body
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, Compaction, ToolResult, User
from holdfast.core.turn.options import Limits
from holdfast.errors import ContextOverflow
from holdfast.ports import ANY_HEAD
from holdfast.providers.offline.measuring import PromptTooLong
from holdfast.testing import calls

if TYPE_CHECKING:
    from tests.surfaces.conftest import Cli

PAGE = Path(__file__).parents[2] / "docs" / "parity.md"
OLD = "0123456789ab"

# A turn with a text and two calls as the seed writes it: each call once in the message and once
# more as a record of its own, and no ids.
TURN: list[dict[str, Any]] = [
    {"type": "user", "content": "What is in a and b? 世界", "ts": 1772359200.5},
    {
        "type": "assistant",
        "content": [
            {"type": "text", "text": "I will look."},
            {"type": "tool_use", "id": "toolu_1", "name": "read_file", "input": {"file_path": "a"}},
            {"type": "tool_use", "id": "toolu_2", "name": "read_file", "input": {"file_path": "b"}},
        ],
        "ts": 1772359201.0,
    },
    {
        "type": "tool_use",
        "tool_use_id": "toolu_1",
        "name": "read_file",
        "input": {"file_path": "a"},
        "ts": 1772359202.0,
    },
    {"type": "tool_result", "tool_use_id": "toolu_1", "content": "A", "ts": 1772359202.0},
    {
        "type": "tool_use",
        "tool_use_id": "toolu_2",
        "name": "read_file",
        "input": {"file_path": "b"},
        "ts": 1772359203.0,
    },
    {"type": "tool_result", "tool_use_id": "toolu_2", "content": "B", "ts": 1772359203.0},
    {"type": "assistant", "content": [{"type": "text", "text": "A and B."}], "ts": 1772359204.0},
]


def old_file(path: Path, *records: dict[str, Any]) -> Path:
    """A log as the seed leaves it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(one, ensure_ascii=False) + "\n" for one in records or TURN)
    path.write_text("".join(lines), encoding="utf-8")
    return path


def in_place(root: Path, *records: dict[str, Any]) -> Path:
    """The same where the seed has it: its folders are ours."""
    return old_file(root / "agents" / "main" / "sessions" / f"{OLD}.jsonl", *records)


# P1


@pytest.mark.files_only("it looks at the files")
def test_p1_layout_and_the_facts_of_the_index(cli: Cli) -> None:
    """The same folders, ids of twelve hex digits, and label, times and count of every session."""
    cli("chat", "--new", "my-project", stdin=b"hello\n")
    (info,) = cli("sessions", "--json").json
    assert re.fullmatch("[0-9a-f]{12}", info["session"])
    assert cli.log_file(info["session"]).is_file()
    assert info["label"] == "my-project"
    assert info["messages"] == 2
    assert 0 < info["created"] <= info["last_active"]


def test_p1_lost_index_costs_nothing(cli: Cli) -> None:
    """It is only a cache: without it, the logs say the same."""
    cli("chat", "--new", "my-project", stdin=b"hello\n")
    before = cli("sessions", "--json").json
    for path in cli.root.glob("index*"):
        path.write_bytes(b'{"a": {')
    assert cli("sessions", "--json").json == before


# P2


@pytest.mark.files_only("it writes a log as a file")
def test_p2_log_of_the_seed_opens_where_it_is(tmp_path: Path) -> None:
    """No import, no change of a byte: it is resumed, and the next turn is appended to it."""
    path = in_place(tmp_path)
    before = path.read_bytes()
    seat = Seat(tmp_path)
    assert seat.id == OLD
    assert seat.say("thanks") == "fine"
    assert path.read_bytes().startswith(before)
    sent = seat.model.requests[0]["messages"]
    assert [one["role"] for one in sent] == ["user", "assistant", "user", "assistant", "user"]
    assert "世界" in str(sent[0])


# P3


def test_p3_import_has_each_call_once_with_its_result(cli: Cli, tmp_path: Path) -> None:
    """Doubles by id are dropped: one message with both calls, then both results."""
    path = old_file(tmp_path / "old" / f"{OLD}.jsonl")
    done = cli("import", str(path), "--json")
    assert done.status == 0, done.err
    name = cli("sessions", "--json").json[0]["session"]
    sent = cli("context", name, "--json").json["request"]["messages"]
    uses = [b["id"] for m in sent for b in m["content"] if b.get("type") == "tool_use"]
    answers = [b for m in sent for b in m["content"] if b.get("type") == "tool_result"]
    assert uses == ["toolu_1", "toolu_2"]
    assert [one["tool_use_id"] for one in answers] == uses
    assert [one["role"] for one in sent][:4] == ["user", "assistant", "user", "assistant"]


# P4


def test_p4_newest_session_is_resumed(tmp_path: Path) -> None:
    """The one that was last active; in an empty folder, a first one called `initial`."""
    first = Seat(tmp_path)
    assert first.chat.info().label == "initial"
    old = first.id
    first("/new other")
    first("/switch initial")
    first.say("the last word")
    assert Seat(tmp_path).id == old


# P5


def test_p5_commands_say_what_they_said(tmp_path: Path) -> None:
    """The seed's lines, in the seed's words, from `/new` to `/help`."""
    seat = Seat(tmp_path)
    assert re.fullmatch(
        r"Created new session: [0-9a-f]{12} \(my-project\)", seat("/new my-project").text
    )
    project = seat.id
    seat.say("Tell me about Python generators")
    seat("/new experiments")
    seat.say("What is 2+2?")
    listed = seat("/list").text.splitlines()
    assert listed[0] == "Sessions:"
    assert listed[1].startswith(f"  {seat.id} (experiments)  msgs=2  last=")
    assert listed[1].endswith(" <-- current")
    assert seat("/switch my-p").text == f"Switched to session: {project} (2 messages)"
    usage, drawn, messages, *_ = seat("/context").text.splitlines()
    assert re.fullmatch(r"Context usage: ~[\d,]+ / [\d,]+ tokens", usage)
    assert re.fullmatch(r"\[[#-]{30}\] \d+\.\d%", drawn)
    assert messages == "Messages: 2"
    seat.fill(12)
    compacted = seat("/compact").text
    assert re.search(r"^\[compact\] \d+ messages -> summary \([\d,]+ chars\)$", compacted, re.M)
    assert re.search(r"^\d+ -> \d+ messages$", compacted, re.M)
    names = ("/new", "/list", "/switch", "/context", "/compact", "/help", "/quit")
    assert all(name in seat("/help").text for name in names)


def test_p5_compaction_outlives_the_process(tmp_path: Path) -> None:
    """Unlike the seed's, which was in memory only: the next run sees the same summary."""
    seat = Seat(tmp_path)
    seat.fill(12)
    seat("/compact")
    before = seat.chat.session.plan().prompt
    assert Seat(tmp_path).chat.session.plan().prompt == before
    assert sum(isinstance(one, User) for one in seat.records()) == 12


# P6


def test_p6_ids_and_labels_by_their_beginning(tmp_path: Path) -> None:
    """One fits: go there. None or several: say so, and stay."""
    seat = Seat(tmp_path)
    for session in ("aaa111", "aaa222"):
        seat.store.create(SessionKey("main", session), label=f"label-{session}")
    here = seat.id
    assert seat("/switch aaa").text.splitlines()[0].startswith("Ambiguous prefix, matches: ")
    assert seat("/switch label-").is_refused
    assert seat("/switch zzz").text.startswith("Session not found: zzz")
    assert seat("/switch").text.startswith("Usage: /switch <session_id>")
    assert seat.id == here
    seat("/switch aaa1")
    assert seat.id == "aaa111"
    seat("/switch LABEL-aaa2")
    assert seat.id == "aaa222"


@pytest.mark.files_only("it writes a log as a file")
def test_p6_labels_of_the_seed_where_they_lie(cli: Cli) -> None:
    """Of a folder that is opened in place, until `/label` says another; the file stays as it is."""
    sessions = {OLD: "my-project", "ffff89abcdef": "experiments"}
    for session in sessions:
        old_file(cli.log_file(session))
    index = cli.root / "agents" / "main" / "sessions.json"
    rows = {session: {"label": label, "message_count": 7} for session, label in sessions.items()}
    index.write_text(json.dumps(rows), "utf-8")
    before = index.read_bytes()
    assert {one["session"]: one["label"] for one in cli("sessions", "--json").json} == sessions
    shown = cli("sessions").out
    assert all(label in shown for label in sessions.values())
    assert cli("inspect", "exper", "--json").json["name"] == "main/ffff89abcdef"

    seat = Seat(cli.root)
    assert f"{OLD} (my-project)" in seat("/list").text
    for name, found in (("exper", "ffff89abcdef"), ("my-p", OLD)):
        assert not seat(f"/switch {name}").is_refused
        assert seat.id == found
    assert "(my-project)" in seat("/status").text
    said = cli("chat", "experiments", "--model", "offline", stdin=b"hello\n")
    assert said.status == 0, said.err
    assert b"hello" in cli.log("ffff89abcdef")

    seat("/label ours")
    assert f"{OLD} (ours)" in seat("/list").text
    assert seat("/switch my-project").is_refused
    assert index.read_bytes() == before


# P7


def test_p7_overflow_is_answered_by_less_and_told(tmp_path: Path) -> None:
    """A refusal shortens what is sent, says so, and the turn is answered; the log keeps all."""

    def look(path: str) -> str:
        """Look at something."""
        return f"{path}: " + "words of a long result; " * 1_200

    steps = [calls((f"c{number}", "look", {"path": f"file {number}"})) for number in range(4)]
    seat = Seat(tmp_path, *steps, "seen it all", tools=[look], window=200_000, limit=20_000)
    assert seat.say("look at four files") == "seen it all"
    assert seat.model.refused
    assert any(one.startswith("[guard] Context overflow") for one in seat.notices)
    kept = [one for one in seat.records() if isinstance(one, ToolResult)]
    session = seat.chat.session
    sizes = [session.own_loop.read_output(one.id).total_chars for one in kept]
    assert [size > 25_000 for size in sizes] == [True] * 4


def test_p7_overflow_that_never_ends_is_one_clear_error(tmp_path: Path) -> None:
    """Each attempt is another request, there are few of them, and nothing is lost."""
    seat = Seat(tmp_path, window=100_000)
    seat.fill(40)

    def full(_request: Any) -> PromptTooLong:
        return PromptTooLong(60_000, 50_000)

    seat.model._otherwise = full
    with pytest.raises(ContextOverflow) as caught:
        seat.say("hello")
    sent = [json.dumps(one, sort_keys=True) for one in seat.model.requests]
    assert len(sent) == len(set(sent)) <= 5
    assert caught.value.hint
    assert seat.records()[-1].kind != "assistant"
    assert any(isinstance(one, User) and one.content == "hello" for one in seat.records())


# P8


@pytest.mark.files_only("it writes a log as a file")
def test_p8_summary_pair_is_taken_as_what_was_said(tmp_path: Path) -> None:
    """A log that begins with the seed's summary and its acknowledgement is valid as it is."""
    pair = [
        {
            "type": "user",
            "content": "[Previous conversation summary]\nThe port is 8443.",
            "ts": 1.0,
        },
        {
            "type": "assistant",
            "content": [{"type": "text", "text": "Understood, I have the context."}],
            "ts": 2.0,
        },
    ]
    in_place(tmp_path, *pair, *TURN)
    seat = Seat(tmp_path)
    plan = seat.chat.session.plan()
    validate_body(render_body(plan.prompt, plan.target), plan.target)
    seat.say("which port?")
    assert "The port is 8443." in str(seat.model.requests[0]["messages"][0])


# P9


@pytest.mark.parametrize("messages", range(5))
def test_p9_too_few_messages_are_not_compacted(tmp_path: Path, messages: int) -> None:
    """Up to four: the seed's words, no call, no record."""
    seat = Seat(tmp_path)
    said: list[Any] = [
        User(content="hello") if number % 2 == 0 else Assistant(content="hi")
        for number in range(messages)
    ]
    if said:
        seat.store.append(seat.chat.session.key, said, expect=ANY_HEAD)
    before = seat.records()
    answer = seat("/compact")
    assert answer.is_refused
    assert answer.text == "Too few messages to compact (need > 4)."
    assert seat.model.requests == []
    assert seat.records() == before


def test_p9_five_messages_are_reduced_or_left_alone(tmp_path: Path) -> None:
    """Never a rewrite of the same size."""
    seat = Seat(tmp_path)
    seat.fill(2)
    seat.store.append(seat.chat.session.key, [User(content="and now?")], expect=ANY_HEAD)
    before = seat.chat.session.status().messages_tokens
    answer = seat("/compact")
    made = [one for one in seat.records() if isinstance(one, Compaction)]
    assert answer.is_refused or seat.chat.session.status().messages_tokens < before
    assert len(made) == (0 if answer.is_refused else 1)


# P10


def test_p10_no_error_ends_the_chat(tmp_path: Path) -> None:
    """Failures of the model, of a tool, of a command and of the log; then an answer."""

    def explode() -> str:
        """Explode."""
        raise RuntimeError("boom")

    seat = Seat(
        tmp_path,
        ConnectionError("no route"),
        calls(("c1", "explode", {})),
        "it did explode",
        tools=[explode],
        limits=Limits(waits=0),
    )
    told = talk(seat, "one", "/rewind 99", "/foo", "/switch zzz", "two", "three")
    assert [kind for kind, _ in told] == [
        *("error", "answer", "answer", "answer", "reply", "reply", "note")
    ]
    assert told[4] == ("reply", "it did explode")


def test_p10_error_in_the_second_round_leaves_both_sides_sound(tmp_path: Path) -> None:
    """The result is in the log, and the next words are answered with it in view."""

    def look(path: str) -> str:
        """Look at something."""
        return f"content of {path}"

    seat = Seat(
        tmp_path, calls(("c1", "look", {"path": "a"})), ValueError("odd"), "well", tools=[look]
    )
    told = talk(seat, "look at a", "and?")
    assert [kind for kind, _ in told] == ["error", "reply", "note"]
    assert "content of a" in str(seat.model.requests[-1])


# The page


def test_page_names_a_test_for_every_behaviour() -> None:
    """P1 to P10 are in the table, and each test that is named is here."""
    page = PAGE.read_text("utf-8")
    assert re.findall(r"^\| (P\d+) \|", page, re.M) == [f"P{number}" for number in range(1, 11)]
    own = Path(__file__).read_text("utf-8")
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", page)
    assert len(named) >= 10
    for path, test in named:
        source = own if path.endswith("test_parity.py") else (PAGE.parents[1] / path).read_text()
        assert f"def {test}(" in source, f"{path}::{test}"
