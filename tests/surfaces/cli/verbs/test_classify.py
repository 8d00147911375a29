"""`classify`: errors in, names out, a line for each."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.core.failures.test_classify import catalogue

if TYPE_CHECKING:
    from tests.surfaces.conftest import Cli

KEYS = ["class", "action", "limit", "input", "output"]
OVERFLOW = {"status": 400, "message": "prompt is too long: 207791 tokens > 200000 maximum"}


def lines(*values: object) -> bytes:
    return b"".join(json.dumps(value).encode() + b"\n" for value in values)


def test_classify_answers_each_line(cli: Cli) -> None:
    """Exactly the documented keys, in order, whatever is missing."""
    rate = {"status": 429, "code": None, "type": "rate_limit_error", "message": None}
    done = cli("classify", stdin=lines(OVERFLOW, rate, {}, {"message": "x"}))
    assert done.status == 0
    assert [list(line) for line in done.lines] == [KEYS] * 4
    assert done.lines[0] == {
        "class": "context_overflow",
        "action": "shrink_input",
        "limit": 200_000,
        "input": 207_791,
        "output": None,
    }
    assert [line["class"] for line in done.lines[1:]] == ["rate_limit", "ambiguous", "ambiguous"]


def test_classify_goes_on_after_a_bad_line(cli: Cli) -> None:
    """A line that is no JSON object is named in its place; the others are answered; exit 1."""
    asked = b"{nope\n" + lines(OVERFLOW, [1], 5) + b"\n\xff\xfe\n" + lines(OVERFLOW)
    done = cli("classify", stdin=asked)
    assert done.status == 1
    assert [next(iter(line)) for line in done.lines] == [
        *("error", "class", "error", "error", "error", "class")
    ]
    assert done.lines[0]["error"]["line"] == 1
    assert "line 6" in done.lines[4]["error"]["message"]


def test_classify_takes_bodies_and_texts(cli: Cli) -> None:
    """Whole bodies, strings, odd types for a status or a code: the answer is the same."""
    text = OVERFLOW["message"]
    asked = (
        {"error": {"message": text, "code": "x"}},
        text,
        {"status": "400", "code": 400, "message": text},
        {"status": 400, "message": {"error": {"message": text}}},
        {"status": "Bad Request", "message": text},
        {"message": json.dumps({"error": {"message": text}})},
    )
    done = cli("classify", stdin=lines(*asked))
    assert done.status == 0
    assert {line["class"] for line in done.lines} == {"context_overflow"}
    assert {line["limit"] for line in done.lines} == {200_000}


def test_classify_says_why(cli: Cli) -> None:
    """`--why` adds the rule that decided."""
    answer = cli("classify", "--why", stdin=lines(OVERFLOW)).lines[0]
    assert answer["rule"] == "overflow"
    assert list(answer)[:5] == KEYS


def test_classify_leaves_no_folder_behind(cli: Cli) -> None:
    """It is a question, not a session."""
    cli("classify", stdin=lines(OVERFLOW))
    assert not cli.root.exists() or not any(cli.root.iterdir())


def test_classify_answers_as_it_goes() -> None:
    """A program that waits for each answer before it asks again is not left waiting."""
    command = [sys.executable, "-m", "holdfast", "classify"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        for _ in range(3):
            running.stdin.write(lines(OVERFLOW))
            running.stdin.flush()
            assert json.loads(running.stdout.readline())["class"] == "context_overflow"
        running.stdin.close()
        assert running.wait(timeout=60) == 0


def test_classify_the_catalogue(cli: Cli) -> None:
    """The command gives every real error the names of the catalogue."""
    entries = catalogue()
    asked = [
        {key: entry[key] for key in ("status", "code", "type", "message")} for entry in entries
    ]
    done = cli("classify", stdin=lines(*asked))
    assert done.status == 0
    got = [(line["class"], line["action"]) for line in done.lines]
    assert got == [(entry["class"], entry["action"]) for entry in entries]
