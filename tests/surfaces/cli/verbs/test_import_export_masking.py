"""`export` masks secrets by default, says how many, and leaves every other byte alone."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.secrets.planted_secrets import PRIVATE_KEY, TOKENS

from holdfast.surfaces.cli.verbs.import_export import Masking

if TYPE_CHECKING:
    from pathlib import Path

    from tests.surfaces.conftest import Cli

TOKEN = TOKENS["GitHub"]
RECORDS: list[dict[str, Any]] = [
    {"type": "user", "content": "hello"},
    {"type": "user", "content": f"the key is {TOKEN}"},
    {
        "type": "assistant",
        "content": [
            {"type": "text", "text": f"so it is {TOKEN[:9]}"},
            {"type": "text", "text": TOKEN[9:]},
            {"type": "tool_use", "id": "c1", "name": "x", "input": {"password": "hunter2"}},
        ],
    },
    {"type": "tool_result", "tool_use_id": "c1", "content": PRIVATE_KEY},
]


@pytest.fixture
def session(cli: Cli) -> str:
    lines = "\n".join(json.dumps(record) for record in RECORDS)
    cli("append", "s", "--create", stdin=lines.encode())
    return "s"


def test_export_masks_secrets_and_counts_them(cli: Cli, session: str) -> None:
    """The note goes to stderr; what comes out is a log that can be read."""
    done = cli("export", session)
    assert done.status == 0
    assert TOKEN not in done.out
    assert TOKEN[9:] not in done.out
    assert "hunter2" not in done.out
    assert "masked 4 secrets" in done.err
    assert [line["type"] for line in done.lines[1:]] == [record["type"] for record in RECORDS]
    assert cli("append", "copy", "--create", stdin=done.out.encode()).status == 0


@pytest.mark.files_only("it writes a log as a file")
def test_export_leaves_lines_without_secrets_to_the_byte(cli: Cli, session: str) -> None:
    """Whatever their spacing; raw, all of them are as they are in the log."""
    log = cli.log_file(session)
    with log.open("ab") as target:
        target.write(b'{ "type":"user",  "id": "odd", "content":"x" }\n')
    kept = log.read_bytes().splitlines(keepends=True)
    shown = cli("export", session).out.encode().splitlines(keepends=True)
    assert [shown[0], shown[1], shown[5]] == [kept[0], kept[1], kept[5]]
    raw = cli("export", session, "--raw")
    assert raw.out.encode() == log.read_bytes()
    assert "masked" not in raw.err


@pytest.mark.parametrize(
    "options", [["--path"], ["--format", "anthropic"], ["--format=openai-chat"]]
)
def test_export_masks_in_every_format(cli: Cli, session: str, options: list[str]) -> None:
    """And not where it is told not to."""
    done = cli("export", session, *options)
    assert TOKEN not in done.out
    assert "hunter2" not in done.out
    assert "[masked: private key]" in done.out
    assert "masked 4 secrets" in done.err
    assert TOKEN in cli("export", session, *options, "--raw").out


def test_export_says_in_json_how_much_was_masked(
    cli: Cli, session: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered variables among it."""
    monkeypatch.setenv("HOLDFAST_SECRETS", "GREETING")
    monkeypatch.setenv("GREETING", "hello")
    target = tmp_path / "out.jsonl"
    done = cli("export", session, "-o", str(target), "--json").json
    assert done["masked"] == 5
    assert "[masked: GREETING]" in target.read_text()
    assert "hello" not in target.read_text()


def test_short_secret_does_not_tear_the_log_apart(
    cli: Cli, session: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Four digits are in many an id; the ids stay, the content does not."""
    first = cli("log", session, "--all", "--json").lines[1]
    digits = first["id"][4:8]
    cli("append", session, stdin=json.dumps({"type": "user", "content": digits}).encode())
    monkeypatch.setenv("HOLDFAST_SECRETS", "PIN")
    monkeypatch.setenv("PIN", digits)
    lines = cli("export", session).lines
    assert lines[1]["id"] == first["id"]
    assert lines[-1]["content"] == "[masked: PIN]"


def test_damaged_lines_are_masked_as_text() -> None:
    """Bytes that are no text stay; a field that stands there twice hides nothing."""
    masking = Masking({})
    shown = b"".join(
        masking.log(
            [
                b'{"torn": "' + TOKEN[:12].encode(),
                TOKEN[12:].encode() + b"\xff\xfe\n",
                b'{"type": "user", "content": "' + TOKEN.encode() + b'", "content": "x"}\n',
                b'{"type": "user"}',
            ]
        )
    )
    torn, twice, last = shown.split(b"\n")
    assert torn.startswith(b'{"torn": "[masked: ')
    assert torn.endswith(b"\xff\xfe")
    assert json.loads(twice) == {"type": "user", "content": "x"}
    assert TOKEN.encode() not in shown
    assert last == b'{"type": "user"}'
    assert masking.count == 1


def test_line_that_is_too_long_for_a_record_is_masked_in_pieces(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing piles up in memory."""
    monkeypatch.setattr("holdfast.surfaces.cli.verbs.import_export.LINE_BYTES_MAX", 1_000)
    pieces = [b"x" * 600, b" " + TOKEN.encode() + b" " + b"y" * 600, b"z" * 10]
    shown = list(Masking({}).log(pieces))
    assert len(shown) == 2
    assert TOKEN.encode() not in b"".join(shown)
    assert b"".join(shown).endswith(b"yzzzzzzzzzz")
