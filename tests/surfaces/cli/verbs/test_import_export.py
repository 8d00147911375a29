"""`import` and `export`, through `main`, on real files."""

from __future__ import annotations

import base64
import gzip
import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.importers.same_conversation import CONVERSATIONS
from tests.importers.samples import SAMPLES, document, jsonl
from tests.shared_data import need_data
from tests.stores.reads import bytes_read

from holdfast import Session
from holdfast.core.limits import BATCH_RECORDS_MAX
from holdfast.core.log.ids import SessionKey
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing import ScriptedModel, calls

if TYPE_CHECKING:
    from pathlib import Path

    from tests.surfaces.conftest import Cli

CHAT = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": "Hello."},
]


@pytest.fixture
def chat(tmp_path: Path) -> Path:
    path = tmp_path / "talk.json"
    path.write_bytes(document(CHAT))
    return path


def records(cli: Cli, session: str) -> list[Any]:
    return [one for one in cli("log", session, "--json").lines if one["type"] != "session"]


def test_import_makes_a_session_and_says_what_was_left_out(cli: Cli, chat: Path) -> None:
    """One JSON object a session: its id, how many records, what was not carried and why."""
    done = cli("import", str(chat), "--json")

    assert done.status == 0
    assert done.json == {
        "file": str(chat),
        "format": "openai-chat",
        "session": "talk",
        "records": 2,
        "skipped": [
            {"what": "system prompt", "why": "belongs to requests, not to the log", "count": 1}
        ],
        "exists": False,
        "added": 2,
        "notice": "",
    }
    assert [one["content"] for one in records(cli, "talk")] == ["Hi", "Hello."]
    assert records(cli, "talk")[0]["imported"]["format"] == "openai-chat"
    assert cli("verify", "talk").status == 0


def test_import_tells_a_person_in_a_table(cli: Cli, chat: Path) -> None:
    """Rows on stdout, the list of what was left out beside them."""
    done = cli("import", str(chat))

    assert done.out.split() == [
        *("SESSION", "FORMAT", "RECORDS", "SKIPPED", "FILE"),
        *("talk", "openai-chat", "2", "1", "talk.json"),
    ]
    assert "system prompt: belongs to requests" in done.err


def test_import_again_makes_nothing_twice(cli: Cli, chat: Path) -> None:
    """The same bytes are known again, even when the session has grown since."""
    cli("import", str(chat))
    cli("append", "talk", stdin=b'{"type":"user","content":"more"}')

    again = cli("import", str(chat), "--json")

    assert again.status == 0
    assert again.json["exists"] is True
    assert len(records(cli, "talk")) == 3


def test_import_refuses_an_id_that_is_taken_by_something_else(cli: Cli, chat: Path) -> None:
    """Nothing is appended to it, and the hint says what to do."""
    cli("new", "--id", "talk")

    refused = cli("import", str(chat))

    assert refused.status == 2
    assert "session `talk` already exists" in refused.err
    assert "--session" in refused.err
    assert "holdfast rm talk" in refused.err
    assert records(cli, "talk") == []
    assert cli("import", str(chat), "--session", "other", "--json").json["session"] == "other"
    assert cli("import", str(chat), "--session", "Talk").status == 2


@pytest.mark.files_only("it damages files")
def test_import_half_done_is_completed(cli: Cli, chat: Path) -> None:
    """A session that has only a part of the file's records gets the others, and none twice."""
    first = json.loads(cli("import", str(chat), "--json").out)
    assert first["records"] == 2
    log = cli.log_file("talk")
    header = log.read_bytes().splitlines(keepends=True)[0]
    origin = records(cli, "talk")[0]
    del origin["more"]
    log.write_bytes(header + json.dumps(origin).encode() + b"\n")

    done = cli("import", str(chat), "--json")

    assert (done.status, done.json["added"], done.json["exists"]) == (0, 1, False)
    assert [each["content"] for each in records(cli, "talk")] == ["Hi", "Hello."]


def test_import_takes_folders_packed_files_and_stdin(cli: Cli, tmp_path: Path) -> None:
    """In a folder, what is no transcript is left alone and counted."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number, kind in enumerate(("claude-code", "pi", "aider")):
        name, data = SAMPLES[kind]
        (folder / f"{number}{name}.gz").write_bytes(gzip.compress(data))
    (folder / "notes.txt").write_text("nothing to see")

    done = cli("import", str(folder))
    from_stdin = cli("import", "-", "--json", stdin=document(CHAT))

    assert done.status == 0
    assert done.out.count("\n") == 4
    assert "1 other files are not transcripts" in done.err
    assert from_stdin.json["session"] == "stdin"
    assert len(cli("sessions", "--json").json) == 4


def test_import_goes_on_after_a_file_that_fails(cli: Cli, chat: Path, tmp_path: Path) -> None:
    """Each failure is told with its file; the others are there, and the status says so."""
    bad = tmp_path / "bad.json"
    bad.write_text('{"some": "object"}')

    done = cli("import", str(bad), str(tmp_path / "gone.json"), str(chat), "--json")

    assert done.status == 1
    first, second, third = done.lines
    assert first["file"] == str(bad)
    assert "the fields `some`" in first["error"]["message"]
    assert "cannot read" in second["error"]["message"]
    assert third["session"] == "talk"


def test_import_of_what_is_no_transcript_says_what_was_found(cli: Cli, tmp_path: Path) -> None:
    """And which formats are known."""
    path = tmp_path / "package.json"
    path.write_text('{"name": "x", "version": "1"}')

    refused = cli("import", str(path))

    assert refused.status == 2
    assert "a JSON object with the fields `name`, `version`" in refused.err
    assert "claude-code" in refused.err
    assert cli("import", str(tmp_path / "package.json"), "--format", "word").status == 2
    assert cli("sessions", "--json").json == []


def test_import_of_many_sessions_in_one_file_numbers_them(cli: Cli, tmp_path: Path) -> None:
    """The first has the name that was asked for; one name for several files is refused."""
    path = tmp_path / "tune.jsonl"
    path.write_bytes(jsonl({"messages": CHAT}, {"messages": CHAT}))

    named = cli("import", str(path), "--session", "one", "--json")

    assert [one["session"] for one in named.lines] == ["one", "one-2"]
    assert cli("import", str(path), str(path), "--session", "one").status == 2
    assert [one["session"] for one in cli("import", str(path), "--json").lines] == [
        "tune",
        "tune-2",
    ]


def test_import_without_messages_makes_no_session(cli: Cli, tmp_path: Path) -> None:
    """A transcript in which nobody said anything is told, not stored."""
    path = tmp_path / "empty.jsonl"
    path.write_bytes(SAMPLES["codex"][1].splitlines(keepends=True)[0])

    done = cli("import", str(path), "--json")

    assert (done.status, done.json["session"], done.json["records"]) == (0, None, 0)
    assert cli("sessions", "--json").json == []


def test_import_of_more_records_than_one_append_takes(cli: Cli, tmp_path: Path) -> None:
    """Long transcripts come in many appends, in order and whole; finding the head reads the last
    of them and not the log."""
    count = BATCH_RECORDS_MAX + 5
    path = tmp_path / "long.jsonl"
    path.write_bytes(jsonl(*({"role": "user", "content": str(n)} for n in range(count))))

    done = cli("import", str(path), "--json")

    assert done.json["records"] == count
    assert cli("log", "long", "-n", "1", "--json").lines[0]["content"] == str(count - 1)
    with JsonlStore(cli.root) as store, bytes_read() as read:
        assert store.head(SessionKey("main", "long"))
    assert read.total < 200_000
    assert cli("import", str(path), "--json").json["exists"] is True


@pytest.mark.parametrize("dialect", ["anthropic", "openai-chat"])
def test_export_as_a_message_list_imports_as_the_same_conversation(
    cli: Cli, tmp_path: Path, dialect: str
) -> None:
    """Out and in again, through files, the records are the same."""
    path = tmp_path / "talk.json"
    path.write_bytes(CONVERSATIONS["pi"][1])
    cli("import", str(path), "--session", "one")
    out = tmp_path / "list.json"

    exported = cli("export", "one", "--format", dialect, "-o", str(out), "--json")
    cli("import", str(out), "--session", "two", "--format", dialect)

    assert exported.json["skipped"] == []
    assert [message["role"] for message in json.loads(out.read_text())][:2] == [
        "user",
        "assistant",
    ]

    def plain(session: str) -> list[Any]:
        kept = ("type", "tool_use_id", "name", "content")
        found = [{name: one.get(name) for name in kept} for one in records(cli, session)]
        for one in found:
            if isinstance(one["content"], str):
                one["content"] = [{"type": "text", "text": one["content"]}]
        return found

    assert plain("one") == plain("two")


def test_export_as_a_message_list_says_what_it_left_out(cli: Cli) -> None:
    """A label is no message; stdout holds the list alone."""
    cli("append", "s", "--create", stdin=b'{"type":"user","content":"Hi"}')
    cli("label", "s", "Greeting")

    done = cli("export", "s", "--format", "anthropic")

    assert done.json == [{"role": "user", "content": "Hi"}]
    assert "1 × label record: no message" in done.err


def test_export_to_a_format_that_is_none_is_refused(cli: Cli) -> None:
    """With the ones that there are."""
    cli("new", "--id", "s")

    refused = cli("export", "s", "--format", "word")

    assert refused.status == 2
    assert "anthropic, openai-chat" in refused.err


def test_import_of_a_real_folder_is_sound(cli: Cli) -> None:
    """A folder of real sessions: each log verifies, and a second import adds nothing."""
    folder = need_data() / "agents" / "claude-code" / "spotter"

    first = cli("import", str(folder), "--json")
    again = cli("import", str(folder), "--json")

    assert first.status == again.status == 0
    assert len(first.lines) == 6
    assert all(one["exists"] for one in again.lines)
    assert cli("verify").status == 0


def test_export_as_a_message_list_has_what_was_moved_out(cli: Cli, tmp_path: Path) -> None:
    """Other tools have no blobs of ours: they get texts and pictures whole."""
    picture = base64.b64encode(bytes(range(256)) * 100).decode()
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png"}}
    image["source"] = {**image["source"], "data": picture}  # type: ignore[dict-item]
    model = ScriptedModel([calls(("c1", "look", {})), "done"], window=200_000)

    def look() -> list[Any]:
        """Look."""
        return [{"type": "text", "text": "far " * 40_000}, image]

    with Session.open("s", model=model, tools=[look], store=str(cli.root)) as session:
        session.say("go")

    text = cli("export", "s", "--format", "anthropic").out

    assert len(cli("export", "s").out) < 20_000
    assert "far " * 40_000 in text
    assert picture in text
    assert "output_ref" not in text
