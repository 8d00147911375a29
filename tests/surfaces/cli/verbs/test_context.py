"""`context` and `inspect`: what would be sent, and where the tokens are."""

from __future__ import annotations

import gzip
import json
import os
import re
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from tests.surfaces.conftest import Cli

DIALECTS = ("anthropic", "openai-chat", "openai-responses", "gemini")


def lines(*records: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def conversation(turns: int = 3, chars: int = 400) -> bytes:
    records: list[dict[str, Any]] = []
    for number in range(turns):
        call = {"type": "tool_use", "id": f"c{number}", "name": "bash", "input": {"path": "a.py"}}
        records += [
            {"type": "user", "content": f"question {number}"},
            {"type": "assistant", "content": [call], "model": "claude-sonnet-4-5"},
            {"type": "tool_result", "tool_use_id": f"c{number}", "content": "out " * (chars // 4)},
            {"type": "assistant", "content": f"answer {number}", "model": "claude-sonnet-4-5"},
        ]
    records.append({"type": "user", "content": "and what now?"})
    return lines(*records)


@pytest.fixture
def session(cli: Cli) -> str:
    assert cli("append", "demo", "--create", stdin=conversation()).status == 0
    return "demo"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_context_prints_the_request_and_how_it_came_about(
    cli: Cli, session: str, dialect: str
) -> None:
    """The reply has the documented keys, and the request says the newest words."""
    done = cli("context", session, "--window", "64000", "--dialect", dialect, "--json")
    assert done.status == 0
    reply = done.json
    assert {"request", "tokens", "budget", "window", "ledger", "repairs"} <= reply.keys()
    assert "and what now?" in json.dumps(reply["request"])
    assert reply["window"] == {"tokens": 64_000, "source": "--window", "confidence": "stated"}
    assert 0 < reply["tokens"]["messages"] <= reply["budget"]["tokens"]
    assert [line["kind"] for line in reply["ledger"]][:2] == ["user", "assistant"]
    assert reply["repairs"] == []


@pytest.mark.parametrize("window", [9_000, 90_000])
def test_context_is_for_the_window_that_the_session_recorded(
    cli: Cli, session: str, window: int
) -> None:
    """Also below the floor, which is for windows that a person states."""
    learned = {"type": "model", "model": "claude-sonnet-4-5", "window": window}
    assert cli("append", session, stdin=lines(learned)).status == 0
    reply = cli("context", session, "--json").json
    assert reply["window"]["tokens"] == reply["budget"]["window"] == window
    assert reply["window"]["confidence"] == "learned"
    assert cli("context", session, "--window", "64000", "--json").json["window"]["tokens"] == 64_000
    forgotten = {"type": "model", "model": "claude-sonnet-4-5"}
    assert cli("append", session, stdin=lines(forgotten)).status == 0
    assert cli("context", session, "--json").json["window"]["confidence"] != "learned"


def test_context_changes_nothing(cli: Cli, session: str) -> None:
    """It shows decisions; an agent records them."""
    before = cli.log(session)
    assert cli("append", "long", "--create", stdin=conversation(40, 1_200)).status == 0
    log = cli.log("long")
    done = cli("context", "long", "--window", "16000", "--dialect", "anthropic", "--json")
    assert done.json["decisions"]
    assert cli.log("long") == log
    assert cli.log(session) == before


def test_context_that_cannot_fit_has_its_own_status_and_the_sums(
    cli: Cli, session: str, tmp_path: Path
) -> None:
    """Exit status 3, with every part by name."""
    system = tmp_path / "system.txt"
    system.write_text("word " * 30_000)
    done = cli("context", session, "--window", "16384", "--system", str(system), "--json")
    assert done.status == 3
    error = done.json["error"]
    assert error["type"] == "cannot-fit"
    assert error["parts"]["system"] > 16_384
    assert "system" in error["message"]


def test_context_refuses_small_windows_until_the_floor_is_lowered(cli: Cli, session: str) -> None:
    refused = cli("context", session, "--window", "8000")
    assert refused.status == 3
    assert "below the floor of 16,000" in refused.err
    assert cli("context", session, "--window", "8000", "--floor", "4000").status == 0


def test_context_counts_system_and_tools_from_files(cli: Cli, session: str, tmp_path: Path) -> None:
    """Tools in the shape of any provider."""
    (tmp_path / "system.txt").write_text("You are terse.")
    shapes: list[list[dict[str, Any]]] = [
        [{"name": "bash", "description": "Runs.", "input_schema": {"type": "object"}}],
        [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}],
        [{"functionDeclarations": [{"name": "bash", "parameters": {"type": "object"}}]}],
    ]
    for number, shape in enumerate(shapes):
        tools = tmp_path / f"tools{number}.json"
        tools.write_text(json.dumps(shape))
        done = cli(
            *("context", session, "--window", "64000", "--json"),
            *("--system", str(tmp_path / "system.txt"), "--tools", str(tools)),
        )
        assert done.json["tokens"]["system"] > 0
        assert done.json["tokens"]["tools"] > 0
        assert done.json["request"]["tools"][0]["name"] == "bash"
        assert "You are terse." in json.dumps(done.json["request"]["system"])


@pytest.mark.parametrize(
    ("content", "said"), [("{", "is not JSON"), ("[]", "names no tool"), (None, "cannot read")]
)
def test_context_says_what_is_wrong_with_a_tools_file(
    cli: Cli, session: str, tmp_path: Path, content: str | None, said: str
) -> None:
    tools = tmp_path / "tools.json"
    if content is not None:
        tools.write_text(content)
    done = cli("context", session, "--tools", str(tools))
    assert done.status == 2
    assert said in done.err


def test_context_explains_every_record_for_people(cli: Cli, session: str) -> None:
    done = cli("context", session, "--window", "64000", "--explain")
    assert done.status == 0
    assert "reserved for the reply" in done.out
    assert "tool_result bash" in done.out
    assert "kept" in done.out


def test_an_explanation_counts_records_before_an_earlier_cut(cli: Cli) -> None:
    """In one line for each run, so that all tokens of the session are accounted for; the request
    is the same as without an explanation."""
    cli("new", "--id", "cut")
    turns = [
        record
        for number in range(24)
        for record in (
            {"type": "user", "content": f"question {number} " + "about the release " * 40},
            {"type": "assistant", "content": f"answer {number} " + "it goes out on Tuesday " * 40},
        )
    ]
    lines = "".join(json.dumps(turn) + "\n" for turn in turns)
    ids = [
        json.loads(line)["id"]
        for line in cli("append", "cut", stdin=lines.encode()).out.splitlines()
    ]
    cut = {"type": "compaction", "summary": "Releases.", "first_kept": ids[36]}
    cli("append", "cut", stdin=json.dumps(cut).encode() + b"\n")
    whole = cli("inspect", "cut", "--json").json["tokens"]
    done = cli("context", "cut", "--window", "64000", "--explain")
    assert done.status == 0, done.err
    assert re.search(r"^\S+ … \S+ +36 records +summarised +[\d,]+ ", done.out, re.MULTILINE)
    told = re.findall(r"records? (summarised|kept): ([\d,]+)", done.err)
    counted = sum(int(tokens.replace(",", "")) for _, tokens in told)
    assert 0.9 * whole <= counted <= 1.1 * whole
    plain = cli("context", "cut", "--window", "64000")
    assert done.out.rpartition("#  ROLE")[2] == plain.out.rpartition("#  ROLE")[2]


def test_context_with_a_prompt_is_about_the_next_call(cli: Cli, session: str) -> None:
    done = cli("context", session, "--prompt", "One more thing.", "--json")
    last = done.json["request"]["messages"][-1]
    assert "One more thing." in json.dumps(last)


def test_context_names_the_nearest_dialect(cli: Cli, session: str) -> None:
    done = cli("context", session, "--dialect", "openai-chats")
    assert done.status == 2
    assert "did you mean `openai-chat`?" in done.err


def test_context_repairs_and_says_so(cli: Cli) -> None:
    """An unanswered call and an orphan result."""
    records = lines(
        {"type": "user", "content": "hi"},
        {
            "type": "assistant",
            "content": [{"type": "tool_use", "id": "a", "name": "x", "input": {}}],
        },
        {"type": "tool_result", "tool_use_id": "zzz", "content": "orphan"},
        {"type": "user", "content": "still there?"},
    )
    cli("append", "torn", "--create", stdin=records)
    done = cli("context", "torn", "--window", "64000", "--json")
    assert {one["flaw"] for one in done.json["repairs"]} == {"interrupted-call", "orphan-result"}
    assert "Interrupted" in json.dumps(done.json["request"])


def test_context_takes_a_file_and_one_of_several_conversations(cli: Cli, tmp_path: Path) -> None:
    """A gzip'd message list; and a file that holds two."""
    messages = [{"role": "user", "content": "from a file"}]
    path = tmp_path / "one.json.gz"
    path.write_bytes(gzip.compress(json.dumps(messages).encode()))
    done = cli("context", str(path), "--window", "64000", "--json")
    assert done.status == 0
    assert "from a file" in json.dumps(done.json["request"])


def test_inspect_says_where_the_tokens_are(cli: Cli, session: str) -> None:
    done = cli("inspect", session, "--json")
    assert done.status == 0
    found = done.json
    kinds = {group["name"]: group["tokens"] for group in found["kinds"]}
    assert kinds["tool results"] > kinds["user"] > 0
    assert sum(kinds.values()) == found["tokens"]
    assert found["tools"][0]["name"] == "bash"
    assert found["tools"][0]["count"] == 3
    assert found["files"][0]["name"] == "a.py"
    assert found["doubles"][0]["copies"] == 3
    assert found["turns"] == 4
    assert found["kept"][0]["window"] == 16_000


def test_inspect_draws_for_people_and_writes_a_page(cli: Cli, session: str, tmp_path: Path) -> None:
    """Bars in the terminal, and a page that is whole and needs nothing from elsewhere."""
    page = tmp_path / "page.html"
    done = cli("inspect", session, "--window", "32000", "--html", str(page))
    assert done.status == 0
    assert "█" in done.out
    text = page.read_text("utf-8")
    assert text.startswith("<!doctype html>")
    assert "<svg" in text
    assert not re.search(r"(src|href)=|<script|@import|url\(", text)


def test_inspect_escapes_what_a_transcript_says(cli: Cli, tmp_path: Path) -> None:
    """A tool that is named like markup stays a name."""
    call = {"type": "tool_use", "id": "c", "name": "<script>alert(1)</script>", "input": {}}
    records = lines(
        {"type": "user", "content": "<img onerror=x>"},
        {"type": "assistant", "content": [call]},
        {"type": "tool_result", "tool_use_id": "c", "content": "<b>bold</b>"},
    )
    cli("append", "hostile", "--create", stdin=records)
    page = tmp_path / "page.html"
    assert cli("inspect", "hostile", "--html", str(page)).status == 0
    text = page.read_text("utf-8")
    assert "<script>alert" not in text
    assert "<img onerror" not in text


def test_inspect_of_an_empty_session_is_not_an_error(cli: Cli) -> None:
    cli("new", "--id", "empty")
    done = cli("inspect", "empty", "--json")
    assert done.status == 0
    assert done.json["tokens"] == 0


def test_inspect_reports_usage_and_cost(cli: Cli) -> None:
    usage = {"input_tokens": 10, "cache_read_input_tokens": 900, "cache_creation_input_tokens": 90,
             "output_tokens": 50}  # fmt: skip
    records = lines(
        {"type": "user", "content": "hi"},
        {"type": "assistant", "content": "yo", "model": "claude-sonnet-4-5", "usage": usage,
         "provider": "anthropic"},
    )  # fmt: skip
    cli("append", "paid", "--create", stdin=records)
    spent = cli("inspect", "paid", "--json").json["spent"]
    assert spent["prompt"] == 1_000
    assert spent["cached_read"] == 900
    # 10 plain at 3, 900 read at 0.3, 90 written at 3.75, 50 out at 15 dollars a million
    assert spent["cost"] == pytest.approx((30 + 270 + 337.5 + 750) / 1e6)


def test_inspect_takes_a_folder_of_transcripts(cli: Cli, tmp_path: Path) -> None:
    """A line for each, what they come to together, and a word about the other files."""
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(7):
        messages = [{"role": "user", "content": f"question {number} " * (number + 1)}]
        (folder / f"chat{number}.json").write_text(json.dumps(messages))
    (folder / "notes.txt").write_text("not a transcript")
    done = cli("inspect", str(folder))
    assert done.status == 0
    assert "7 conversations" in done.out
    assert "chat6" in done.out
    assert "1 other file in" in done.err
    assert len(cli("inspect", str(folder), "--json").json) == 7


def test_inspect_of_a_folder_without_transcripts_says_so(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("not a transcript")
    done = cli("inspect", str(tmp_path))
    assert done.status == 2
    assert "no transcript among 1 file in" in done.err


def test_inspect_of_an_empty_folder_says_so(cli: Cli, tmp_path: Path) -> None:
    done = cli("inspect", str(tmp_path))
    assert done.status == 2
    assert "has no files" in done.err


@pytest.mark.parametrize(
    ("wanted", "status", "said"),
    [
        ("alpha-123456789", 0, "alpha-123456789"),
        ("alp", 0, "alpha-123456789"),
        ("alpha-1234…", 0, "alpha-123456789"),
        ("beta", 0, "beta"),
        ("b", 2, "ambiguous"),
        ("nope", 2, "it has `alpha-123456789`, `beta-2`, `beta`"),
    ],
)
def test_a_conversation_of_a_folder_is_found_by_the_start_of_its_name(
    wanted: str, status: int, said: str, cli: Cli, tmp_path: Path
) -> None:
    """As a table shows it: cut, with a mark. The exact name wins, and an unknown one is told what
    there is in that folder, not in the store."""
    for name in ("alpha-123456789", "beta", "beta-2"):
        messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
        (tmp_path / f"{name}.json").write_text(json.dumps(messages))
    done = cli("inspect", f"{tmp_path}#{wanted}")
    assert done.status == status
    assert said in done.out + done.err
    assert "holdfast sessions" not in done.err


def test_a_folder_is_read_around_what_may_not_be_read(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One closed file or folder does not hide the others, and is told of."""
    (tmp_path / "closed").mkdir()
    messages = [{"role": "user", "content": "hello"}, {"role": "assistant", "content": "hi"}]
    for name in ("open.json", "secret.json"):
        (tmp_path / name).write_text(json.dumps(messages))
    may_read = os.access
    monkeypatch.setattr(  # who runs the tests may be root, who may read everything
        os,
        "access",
        lambda path, mode: (
            may_read(path, mode) and not str(path).endswith(("closed", "secret.json"))
        ),
    )
    done = cli("inspect", str(tmp_path))
    assert done.status == 0
    assert "open" in done.out
    assert "2 of its files or folders may not be read" in done.err


def test_inspect_of_nothing_known_says_what_was_looked_for(cli: Cli) -> None:
    done = cli("inspect", "nowhere")
    assert done.status == 2
    assert "no session `nowhere`" in done.err
    assert "no file with that name" in done.err


def test_simulate_compares_policies_side_by_side(cli: Cli) -> None:
    """At a small window doing nothing overflows; Holdfast does not, and breaks no rule."""
    assert cli("append", "long", "--create", stdin=conversation(40, 1_200)).status == 0
    done = cli("simulate", "long", "--window", "16000", "--static", "1000", "--json")
    assert done.status == 0
    runs = {run["policy"]: run for run in done.json["runs"]}
    assert len(runs) == 6
    assert runs["do nothing"]["overflows"] > 0
    assert runs["holdfast"]["overflows"] == 0
    assert runs["holdfast"]["invalid"] == 0
    assert runs["holdfast"]["cost"] < runs["do nothing"]["cost"]
    assert 0 < runs["holdfast"]["cache_read_share"] < 1
    assert {run["requests"] for run in runs.values()} == {80}


def test_simulate_draws_a_table_for_people(cli: Cli, session: str) -> None:
    done = cli("simulate", session, "--policy", "nothing, trim", "--policy", "holdfast")
    assert done.status == 0
    assert "do nothing" in done.out
    assert "█" in done.out
    assert "facts lost" in done.err


@pytest.mark.parametrize("price", ["3,15", "a,b,c,d", "0,1,1,1"])
def test_simulate_refuses_prices_that_are_none(cli: Cli, session: str, price: str) -> None:
    assert cli("simulate", session, "--price", price).status == 2


def test_simulate_names_the_policies_it_knows(cli: Cli, session: str) -> None:
    done = cli("simulate", session, "--policy", "magic")
    assert done.status == 2
    assert "known policies: nothing, last, trim, clear, compact, holdfast" in done.err


def test_context_is_the_same_whenever_it_is_asked(cli: Cli) -> None:
    """A cold cache is the moment to cut, and whoever asks says whether it is cold."""
    assert cli("append", "long", "--create", stdin=conversation(40, 1_200)).status == 0
    args = ("context", "long", "--window", "60000", "--json")
    warm, again, cold = cli(*args), cli(*args), cli(*args, "--idle", "9999")
    assert warm.out == again.out
    assert cold.json["tokens"]["total"] < warm.json["tokens"]["total"]


def test_simulate_of_nothing_says_so(cli: Cli) -> None:
    cli("new", "--id", "empty")
    done = cli("simulate", "empty")
    assert done.status == 2
    assert "nothing to replay" in done.err
