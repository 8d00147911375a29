"""The commands, through `main`, on real files."""

from __future__ import annotations

import argparse
import ast
import json
import os
import subprocess
import sys
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from tests.core.secrets.planted_secrets import TOKENS

from holdfast import SessionKey
from holdfast.core.owners import ANY_OWNER
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.surfaces.cli import main
from holdfast.surfaces.cli.help import COMMANDS, build_parser

if TYPE_CHECKING:
    from pathlib import Path

    from tests.surfaces.conftest import Cli

USER = b'{"type":"user","content":"hello"}\n'
ANSWER = b'{"type":"assistant","content":[{"type":"text","text":"hi there"}]}\n'


def ids(cli: Cli, session: str) -> list[str]:
    return [record["id"] for record in cli("log", session, "--json").lines]


def test_append_acknowledges_each_line_with_the_id_it_got(cli: Cli) -> None:
    """Every line of stdin gets one line `{"id": …}`, and the record is there under that id."""
    done = cli("append", "s", "--create", stdin=USER + b"\n" + ANSWER)

    assert done.status == 0
    assert [set(line) for line in done.lines] == [{"id"}, {"id"}]
    assert [line["id"] for line in done.lines] == ids(cli, "s")[1:]


def test_append_takes_a_last_line_without_a_newline(cli: Cli) -> None:
    """The end of stdin ends the last record."""
    assert len(cli("append", "s", "--create", stdin=USER.strip()).lines) == 1


def test_append_keeps_unknown_types_and_fields(cli: Cli) -> None:
    """What this version does not know is stored and shown as it came."""
    line = (
        b'{"type":"from-the-future","depth":[1,{"a":null}]}\n{"type":"user","content":"x","mood":3}'
    )

    cli("append", "s", "--create", stdin=line)
    _header, unknown, user = cli("log", "s", "--json").lines

    assert unknown["type"] == "from-the-future"
    assert unknown["depth"] == [1, {"a": None}]
    assert user["mood"] == 3


def test_append_warns_of_a_type_that_looks_like_a_typo(cli: Cli) -> None:
    """A near miss is stored, because it may be meant, and pointed out."""
    done = cli("append", "s", "--create", stdin=b'{"type":"asistant","content":"x"}')

    assert done.status == 0
    assert "did you mean `assistant`?" in done.err


def test_append_stores_what_comes_before_a_bad_line(cli: Cli) -> None:
    """A bad line ends the run with its number; the lines before it are acknowledged and there."""
    done = cli("append", "s", "--create", stdin=USER + ANSWER + b"nonsense\n" + USER)

    assert done.status == 2
    assert len(done.lines) == 2
    assert "line 3" in done.err
    assert len(ids(cli, "s")) == 3


def test_append_refuses_a_session_that_is_not_there(cli: Cli) -> None:
    """Without --create nothing is made, and the error names what is near."""
    cli("new", "--id", "notes")

    missing = cli("append", "nots", stdin=USER)

    assert missing.status == 2
    assert "did you mean `notes`?" in missing.err
    assert not cli.log_file("nots").exists()


def test_append_with_expect_refuses_another_head_and_names_its_writer(cli: Cli) -> None:
    """A stale writer is told who was faster, and nothing is written."""
    first = cli("append", "s", "--create", stdin=USER).lines[0]["id"]
    cli("append", "s", stdin=USER)

    stale = cli("append", "s", "--expect", first, stdin=ANSWER + USER)
    good = cli("append", "s", "--expect", ids(cli, "s")[-1], stdin=ANSWER + USER)

    assert stale.status == 1
    assert "pid" in stale.err
    assert good.status == 0
    assert len(good.lines) == 2
    assert len(ids(cli, "s")) == 5


def test_append_atomic_stores_all_lines_or_none(cli: Cli) -> None:
    """With --atomic a bad last line keeps the good first ones out."""
    cli("new", "--id", "s")

    bad = cli("append", "s", "--atomic", stdin=USER + b"nonsense\n")
    good = cli("append", "s", "--atomic", stdin=USER + ANSWER)

    assert bad.status == 2
    assert len(good.lines) == 2
    assert len(ids(cli, "s")) == 3


def test_append_buffered_is_synced_at_the_end(cli: Cli) -> None:
    """A bulk load stores everything it acknowledges."""
    done = cli("append", "s", "--create", "--buffered", stdin=USER * 100)

    assert len(done.lines) == 100
    assert len(ids(cli, "s")) == 101


def test_append_takes_what_export_gives(cli: Cli) -> None:
    """A session can be copied through a pipe; its header is left out."""
    cli("append", "a", "--create", stdin=USER + ANSWER)
    exported = cli("export", "a").out.encode()

    done = cli("append", "b", "--create", stdin=exported)

    assert done.status == 0
    assert ids(cli, "b")[1:] == ids(cli, "a")[1:]


def test_a_session_that_was_rewound_to_its_beginning_is_appended_to_another(cli: Cli) -> None:
    """Its rewind names the header of the one it was exported from; here it names the own one."""
    cli("append", "a", "--create", stdin=b'{"type":"user","content":"hello"}\n')
    cli("rewind", "a", "--turns", "1")
    exported = cli("export", "a").out.encode()
    done = cli("append", "b", "--create", stdin=exported)
    assert done.status == 0, done.err
    assert [record["type"] for record in cli("log", "b", "--json").lines] == ["session", "rewind"]


def test_append_refuses_a_record_that_was_stored_already(cli: Cli) -> None:
    """A retry with the same id is told that it had succeeded."""
    line = b'{"type":"user","id":"m1","content":"x"}\n'
    cli("append", "s", "--create", stdin=line)

    again = cli("append", "s", stdin=line)

    assert again.status == 2
    assert "already" in again.err
    assert len(ids(cli, "s")) == 2


def test_errors_are_json_for_programs(cli: Cli) -> None:
    """With --json an error is an object with a stable type, a message and a hint."""
    error = cli("log", "nowhere", "--json").json["error"]

    assert error["type"] == "no-such-session"
    assert "nowhere" in error["message"]
    assert error["hint"]


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "a/b", "", "-x y", "ümlaut"])
def test_new_refuses_ids_outside_the_allow_list(cli: Cli, name: str) -> None:
    """No id can name a path outside the root; the error says what is allowed."""
    refused = cli("append", f"./{name}", "--create", stdin=USER)

    assert refused.status == 2
    assert not cli.root.exists() or not list(cli.root.rglob("*.jsonl"))


def test_sessions_lists_the_newest_first_with_small_facts(cli: Cli) -> None:
    """The listing has label, first words, counts and state; as a table and as JSON."""
    cli("new", "first", "--id", "one")
    cli("append", "two", "--create", "--label", "second one", stdin=USER + ANSWER)
    cli("append", "three", "--create", stdin=USER + ANSWER)

    listed = cli("sessions", "--json").json
    table = cli("sessions").out

    assert {info["session"]: info["label"] for info in listed} == {
        "one": "first",
        "two": "second one",
        "three": "",
    }
    two = next(info for info in listed if info["session"] == "two")
    assert (two["messages"], two["records"], two["title"], two["damaged"]) == (2, 3, "hello", 0)
    assert "second one" in table
    assert "first" in table
    assert "hello" in table
    assert len(cli("sessions", "--json", "-n", "1").json) == 1


def test_sessions_says_how_to_begin_where_there_are_none(cli: Cli) -> None:
    """An empty root is not an error."""
    nothing = cli("sessions")

    assert nothing.status == 0
    assert "holdfast new" in nothing.err
    assert cli("sessions", "--json").json == []


def test_names_resolve_by_label_and_prefix_and_ambiguity_is_an_error(cli: Cli) -> None:
    """Ids, labels and unique prefixes of both name a session; an ambiguous one names them all."""
    cli("new", "alpha-1", "--id", "one")
    cli("new", "alpha-2", "--id", "two")
    cli("new", "alpha", "--id", "three")

    assert cli("label", "alpha-1", "--json").json["session"] == "one"
    assert cli("label", "tw", "--json").json["session"] == "two"
    assert cli("label", "alpha", "--json").json["session"] == "three"
    ambiguous = cli("label", "alph")
    assert ambiguous.status == 2
    assert all(name in ambiguous.err for name in ("alpha-1", "alpha-2", "one", "two"))


def test_new_prints_the_id_alone_on_stdout(cli: Cli) -> None:
    """A script can use what `new` prints."""
    made = cli("new", "label")

    assert cli("log", made.out.strip(), "--json").status == 0
    assert cli("new", "--json").json["agent"] == "main"
    assert cli("new", "--id", made.out.strip()).status == 2


def test_log_shows_the_path_the_newest_and_everything(cli: Cli) -> None:
    """`log` follows the head, `-n` and `--from` its end, `--all` hides nothing."""
    first, second = (
        line["id"] for line in cli("append", "s", "--create", stdin=USER + ANSWER).lines
    )
    cli("rewind", "s", first)
    third = cli("append", "s", stdin=USER).lines[0]["id"]

    everything = cli("log", "s", "--all", "--json").lines
    path = ids(cli, "s")

    assert second not in path
    assert path[-1] == third
    assert {line["id"]: line["standing"] for line in everything}[second] == "branch"
    assert [line["id"] for line in cli("log", "s", "-n", "1", "--json").lines] == [third]
    assert cli("log", "s", "--from", first, "--json").lines[0]["id"] == first
    assert cli("log", "s", "--branch", second, "--json").lines[-1]["id"] == second
    assert "[branch]" in cli("log", "s", "--all").out
    assert cli("log", "s", "--all", "-n", "1").status == 2


def test_rewind_beside_a_running_turn_names_its_holder(cli: Cli) -> None:
    """The turn has read what a rewind would take away; nothing is written."""
    cli("append", "s", "--create", stdin=USER + ANSWER)
    before = ids(cli, "s")
    with JsonlStore(cli.root) as store:
        store.leases.acquire(SessionKey("main", "s"), "pid 7 on web-1 (app), turn 1", 60)
        done = cli("rewind", "s", "--turns", "1")
    assert done.status == 1
    assert "session `main/s` has a running turn: pid 7 on web-1 (app), turn 1, since" in done.err
    assert ids(cli, "s") == before


def test_rewind_by_turns_goes_to_before_the_users_words(cli: Cli) -> None:
    """`--turns 1` undoes the last user message and what followed; the way back is told."""
    cli("append", "s", "--create", stdin=USER + ANSWER + USER + ANSWER)
    before = ids(cli, "s")

    done = cli("rewind", "s", "--turns", "1", "--json").json

    assert done["to"] == before[2]
    assert done["was"] == before[-1]
    assert ids(cli, "s")[:-1] == before[:3]
    cli("rewind", "s", done["was"])
    assert ids(cli, "s")[:-1] == before
    assert cli("rewind", "s", "--turns", "99").status == 2
    assert cli("rewind", "s").status == 2
    assert cli("rewind", "s", "zzz").status == 2


def test_log_lists_every_branch_with_the_last_words(cli: Cli) -> None:
    """Abandoned branches stay listed and are known by what was said last."""
    cli("append", "s", "--create", stdin=USER + b'{"type":"user","content":"the old way"}\n')
    cli("rewind", "s", "--turns", "1")
    cli("append", "s", stdin=b'{"type":"user","content":"the new way"}\n')

    branches = cli("log", "s", "--branches", "--json").json

    assert [(branch["title"], branch["current"]) for branch in branches] == [
        ("the old way", False),
        ("the new way", True),
    ]
    assert "the old way" in cli("log", "s", "--branches").out


def test_show_finds_a_record_in_any_session_by_a_beginning_of_its_id(cli: Cli) -> None:
    """One record in full; the same id in a fork is the same record."""
    record_id = cli("append", "s", "--create", stdin=USER).lines[0]["id"]
    cli("append", "other", "--create", stdin=ANSWER)
    cli("fork", "s", "--id", "copy")

    shown = cli("show", record_id[:-1], "--json").json

    assert shown["record"]["content"] == "hello"
    assert json.loads(cli("show", record_id, "-s", "s").out)["id"] == record_id
    assert cli("show", "nothing").status == 2


def test_label_names_sessions_and_records(cli: Cli) -> None:
    """Labels can be set, shown and taken away; a record's label is a bookmark."""
    record_id = cli("append", "s", "--create", stdin=USER).lines[0]["id"]
    cli("label", "s", "my   session")
    cli("label", "s", "here", "--record", record_id)

    assert cli("label", "my session", "--json").json == {
        "session": "s",
        "label": "my session",
        "records": {record_id: "here"},
    }
    cli("label", "s", "")
    assert cli("label", "s").out.splitlines() == ["", f"{record_id}  here"]
    assert cli("label", "s", "x" * 201).status == 2


def test_fork_copies_the_path_and_names_its_parent(cli: Cli) -> None:
    """The fork has the records up to the given one; the parent is byte for byte as it was."""
    first, _second = (
        line["id"] for line in cli("append", "s", "--create", stdin=USER + ANSWER).lines
    )
    before = cli.log("s")

    made = cli("fork", "s", "--at", first, "--id", "copy", "--json").json

    assert made["head"] == first
    header, *records = cli("log", "copy", "--json").lines
    assert (header["parent_session"], header["parent_record"]) == ("main/s", first)
    assert [record["id"] for record in records] == [first]
    assert cli.log("s") == before


@pytest.mark.files_only("it damages files")
def test_verify_reports_damage_with_offsets_and_fails(cli: Cli) -> None:
    """A damaged log gives exit status 1 and a list of places; nothing is changed."""
    cli("append", "s", "--create", stdin=USER)
    assert cli("verify").status == 0
    path = cli.log_file("s")
    sound = path.read_bytes()
    path.write_bytes(sound + b"\0\0\0\n" + USER + b'{"type":"user"')

    report = cli("verify", "s", "--json")

    assert report.status == 1
    assert [(one["kind"], one["offset"]) for one in report.json[0]["findings"]] == [
        ("nul", len(sound)),
        ("torn", len(sound) + 4 + len(USER)),
    ]
    assert "nul" in cli("verify", "s").out
    assert path.read_bytes() == sound + b"\0\0\0\n" + USER + b'{"type":"user"'


@pytest.mark.files_only("it damages files")
def test_repair_writes_a_sound_copy_and_keeps_the_bad_bytes(cli: Cli) -> None:
    """The mended copy verifies, the original is untouched, what was left out is in a file."""
    cli("append", "s", "--create", stdin=USER + ANSWER)
    path = cli.log_file("s")
    damaged = path.read_bytes().replace(b'"type":"user"', b'"type":\xff"user"') + b"{torn"
    path.write_bytes(damaged)

    done = cli("verify", "s", "--repair", "--json")
    mended = done.json[0]["repaired"]
    assert done.status == 0

    assert mended["session"] == "s-repaired"
    assert mended["records"] == 1
    assert path.read_bytes() == damaged
    assert cli("verify", "s-repaired").status == 0
    with open(mended["quarantine"], "rb") as quarantine:
        kept = quarantine.read()
    assert b"{torn" in kept
    assert b'"type":\xff"user"' in kept
    assert "repaired" not in cli("verify", "s-repaired", "--repair", "--json").json[0]
    assert "s-repaired-2" in cli("verify", "--repair").out


@pytest.mark.files_only("it looks at the files")
def test_export_is_the_log_byte_for_byte(cli: Cli, tmp_path: Path) -> None:
    """An export is a copy; an existing file is never overwritten."""
    cli("append", "s", "--create", stdin=USER + ANSWER)
    target = tmp_path / "out.jsonl"

    done = cli("export", "s", "-o", str(target), "--json").json

    assert target.read_bytes() == cli.log_file("s").read_bytes()
    assert done["bytes"] == target.stat().st_size
    assert cli("export", "s", "-o", str(target)).status == 2
    assert [line["type"] for line in cli("export", "s", "--path").lines] == [
        "session",
        "user",
        "assistant",
    ]


def test_rm_moves_to_a_trash_that_can_be_restored_and_emptied(cli: Cli) -> None:
    """A removed session is gone from the listing, can come back, and is deleted on demand."""
    cli("append", "s", "--create", stdin=USER)
    before = cli.log("s")

    assert cli("rm", "s").status == 0
    assert cli("log", "s").status == 2
    assert [one["session"] for one in cli("rm", "--list", "--json").json] == ["s"]
    assert cli("rm", "--restore", "s").status == 0
    assert cli.log("s") == before
    cli("rm", "s")
    assert cli("rm", "--empty", "--older-than", "1", "--json").json == []
    assert [one["session"] for one in cli("rm", "--empty", "--json").json] == ["s"]
    assert cli("rm", "--list", "--json").json == []
    assert cli("rm").status == 2
    assert cli("rm", "--restore", "s").status == 2


def test_disk_deletes_only_what_no_log_mentions(cli: Cli) -> None:
    """A blob named in a log, even a removed session's, stays; the others go after their grace."""
    with JsonlStore(cli.root) as store:
        payloads = (b"named", b"trashed", b"orphan")
        named, trashed, orphan = (store.blobs.put(data) for data in payloads)
    for session, sha256 in (("s", named), ("t", trashed)):
        ref = {"sha256": sha256, "bytes": 5}
        line = {"type": "tool_result", "tool_use_id": "c", "output_ref": ref}
        cli("append", session, "--create", stdin=json.dumps(line).encode())
    cli("rm", "t")

    assert "deleted" not in cli("disk", "--json").json
    assert cli("disk", "--clean", "--json").json["deleted"]["outputs"] == []
    cleaned = cli("disk", "--clean", "--grace", "0", "--json").json
    assert (cleaned["deleted"]["outputs"], cleaned["outputs"]["count"]) == ([orphan], 2)
    with JsonlStore(cli.root) as store:
        assert store.blobs.get(named) == b"named"
        assert store.blobs.get(trashed) == b"trashed"


def test_unknown_commands_are_refused_with_the_nearest(cli: Cli) -> None:
    """A typo gets a suggestion and status 2."""
    refused = cli("sesions")

    assert refused.status == 2
    assert "did you mean `sessions`?" in refused.err


def test_common_options_may_stand_before_or_after_the_command(cli: Cli, tmp_path: Path) -> None:
    """`holdfast --root R --json sessions` and `holdfast sessions --root R --json` are the same."""
    cli("new", "--id", "s")
    before = cli("--json", "sessions")
    after = cli("sessions", "--json")

    assert before.json == after.json
    assert [info["session"] for info in before.json] == ["s"]
    assert main(["--root", str(tmp_path / "other"), "new", "--id", "t"]) == 0
    other = JsonlStore(tmp_path / "other")
    assert [info.key.session for info in other.sessions(owner=ANY_OWNER)] == ["t"]
    other.close()


def test_help_names_every_command() -> None:
    """The module can be run; each command has help of its own."""
    listing = subprocess.run(
        [sys.executable, "-m", "holdfast", "help", "--all"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout

    assert all(f" {name} " in listing for name in COMMANDS)


def test_a_closed_pipe_is_not_a_traceback(tmp_path: Path) -> None:
    """`holdfast log | head` ends quietly."""
    root = str(tmp_path)
    append = [sys.executable, "-m", "holdfast", "append", "s", "--create", "--root", root]
    subprocess.run(append, input=USER * 5_000, check=True, stdout=subprocess.DEVNULL)

    command = f"{sys.executable} -m holdfast log s --root {root} | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, check=True)

    assert done.stderr == ""
    assert "session" in done.stdout


def test_tables_are_drawn_with_rich_on_a_terminal(tmp_path: Path) -> None:
    """On a terminal the listing has rules and colours, in a pipe it has neither."""
    root = str(tmp_path)
    subprocess.run(
        [sys.executable, "-m", "holdfast", "new", "a label", "--root", root],
        check=True,
        capture_output=True,
    )
    listing = f"{sys.executable} -m holdfast sessions --root {root}"
    on_terminal = subprocess.run(
        ["script", "-qec", listing, "/dev/null"],
        capture_output=True,
        text=True,
        check=True,
        env={"TERM": "xterm-256color", "COLUMNS": "120", "PATH": "/usr/bin:/bin"},
    )
    in_pipe = subprocess.run(listing, shell=True, capture_output=True, text=True, check=True)

    assert "\x1b[" in on_terminal.stdout
    assert "─" in on_terminal.stdout
    assert "\x1b[" not in in_pipe.stdout
    assert "a label" in in_pipe.stdout


def test_table_of_commands_names_every_command() -> None:
    """Each module of the table defines exactly the commands that the table gives it."""
    for module in {entry.module for entry in COMMANDS.values()}:
        named = {name for name, entry in COMMANDS.items() if entry.module == module}
        defined = {
            name.removesuffix("Command").lower()
            for name, kind in vars(import_module(module)).items()
            if name.endswith("Command") and kind.__module__ == module
        }
        assert defined == named, module


def test_help_and_a_command_import_no_other_command() -> None:
    """`--help` imports no module of the table, and a command only its own."""
    listing = "import sys; from holdfast.surfaces.cli import help, main\n"
    names = "{entry.module for entry in help.COMMANDS.values()} - {help.__name__}"
    show = f"print([name for name in ({names}) if name in sys.modules], file=sys.stderr)"
    for arguments, expected in (
        (["--help"], []),
        (["verify", "--help"], ["holdfast.surfaces.cli.verbs.maintenance"]),
    ):
        code = f"{listing}try:\n    main({arguments})\nexcept SystemExit:\n    {show}"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        assert ast.literal_eval(done.stderr) == expected


EVERY_COMMAND = sorted(COMMANDS)


def _parser_of(command: str) -> argparse.ArgumentParser:
    parser = build_parser(command).command
    assert parser is not None
    return parser


def _wrong_usages(command: str) -> list[list[str]]:
    """Arguments that a command must refuse: unknown, missing, of a wrong type, or too many."""
    actions = _parser_of(command)._actions
    found = [["--no-such-option"]]
    if not any(action.nargs == argparse.REMAINDER for action in actions):
        found.append(["x"] * 40)  # the words after another program's name are all that program's
    for action in actions:
        if action.option_strings and action.type is not None:
            found.append([action.option_strings[-1], "no number"])
        if action.option_strings and action.nargs is None:
            found.append([action.option_strings[-1]])
        if action.option_strings and action.choices:
            found.append([action.option_strings[-1], "no such choice"])
        if not action.option_strings and action.nargs is None and action.required:
            found.append([])
    return found


@pytest.mark.parametrize("command", EVERY_COMMAND)
def test_every_wrong_usage_is_an_error_object(cli: Cli, command: str) -> None:
    """With `--json`, stdout has one object with the error, and the status is 2."""
    for wrong in _wrong_usages(command):
        for arguments in ([command, *wrong, "--json"], ["--json", command, *wrong]):
            done = cli(*arguments)
            if wrong == ["x"] * 40 and done.status == 1:
                continue  # a command that takes any number of files
            assert done.status == 2, (arguments, done)
            assert set(done.json["error"]) >= {"type", "message", "hint"}, arguments
            assert done.json["error"]["hint"], arguments


@pytest.mark.parametrize(
    "arguments", [["no-such-command"], ["sesions"], ["--no-such-option"], ["--root"]]
)
def test_wrong_usage_without_a_command_is_an_error_object(cli: Cli, arguments: list[str]) -> None:
    done = cli("--json", *arguments)
    assert (done.status, set(done.json)) == (2, {"error"})


def test_a_mistake_of_ours_is_an_error_object_too(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs get an object for every failure; the traceback goes to stderr."""

    def fail(*_args: object, **_more: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("holdfast.surfaces.cli.app.App.sessions", fail)
    with pytest.raises(RuntimeError, match="broken"):
        cli("sessions", "--json")
    monkeypatch.setattr("holdfast.surfaces.cli.app.App.sessions", _refuse)
    done = cli("sessions", "--json")
    assert done.status == 1
    assert [line["error"]["type"] for line in done.lines] == ["holdfast-error", "store-error"]


def _refuse(*_args: object, **_more: object) -> None:
    raise PermissionError(13, "Permission denied", "/folder")


@pytest.mark.files_only("it damages files")
def test_verify_takes_a_sealed_end_for_no_damage(cli: Cli) -> None:
    """An append that never completed is reported once, and the exit status is 0."""
    cli("append", "s", "--create", stdin=USER)
    log = cli.root / "agents/main/sessions/s.jsonl"
    log.write_bytes(log.read_bytes() + b'{"type":"user","content":"half')
    cli("append", "s", stdin=ANSWER)

    done = cli("verify", "s", "--json")

    assert done.status == 0
    assert [finding["kind"] for finding in done.json[0]["findings"]] == ["torn"]
    assert done.json[0]["sound"] is True


@pytest.mark.files_only("it damages files")
def test_verify_goes_on_after_a_session_that_cannot_be_read(cli: Cli) -> None:
    """The odd one is reported with its error, the others are verified, the exit status is 1."""
    for name in ("a", "b"):
        cli("append", name, "--create", stdin=USER)
    log = cli.root / "agents/main/sessions/a.jsonl"
    os.link(log, cli.root / "second-name")
    log.chmod(0o660)  # others can change it

    done = cli("verify", "--json")

    assert done.status == 1
    assert {report["session"]: report["sound"] for report in done.json} == {"a": False, "b": True}
    assert [report["error"]["type"] for report in done.json if "error" in report] == [
        "path-rejected"
    ]


def test_append_warns_once_of_each_kind_of_credential(cli: Cli) -> None:
    """The value is stored as it is, and no part of it is repeated; a bulk load is not looked at."""
    lines = b"".join(
        json.dumps({"type": "user", "content": f"use {TOKENS[kind]}"}).encode() + b"\n"
        for kind in ("GitHub", "GitHub", "npm")
    )
    done = cli("append", "s", "--create", stdin=lines)
    assert (done.status, len(done.lines)) == (0, 3)
    assert done.err.count("looks like a credential (ghp_)") == 1
    assert done.err.count("looks like a credential (npm_)") == 1
    assert not any(TOKENS[kind][4:] in done.err for kind in ("GitHub", "npm"))
    assert cli("append", "t", "--create", "--buffered", stdin=lines).err == ""


@pytest.mark.parametrize("odd", ["", "\udcff", "é\udcff/x", "-", "\u202e", "x" * 5_000])
def test_any_argument_gets_an_answer(cli: Cli, odd: str) -> None:
    """Of any command: an empty one, bytes that are no text, one that is far too long."""
    for name in EVERY_COMMAND:
        if name in ("serve", "proxy", "mcp", "telegram", "chat", "wrap", "demo", "completion"):
            continue  # they run until they are stopped, or start a program
        for given in ([odd], [odd, odd]):
            done = cli(name, *given)
            assert done.status in (0, 1, 2), (name, done.err)
            assert "internal error" not in done.err, (name, done.err)
