"""`output`, through `main`: the text and nothing else on stdout, facts and the way on beside it."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import OutputRef, ToolResult, User
from holdfast.core.owners import ANY_OWNER
from holdfast.ports import ANY_HEAD
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.surfaces.conftest import Cli

TEXT = "".join(f"{number:04} something happened\n" for number in range(1, 2_001))
SECRET = "correct-horse-battery-staple"


def offload(cli: Cli, data: bytes, *, session: str = "work", kind: str = "log") -> str:
    """Keep a payload and name it in a session of its own or of that name; returns the ref."""
    key = SessionKey("main", session)
    with JsonlStore(cli.root) as store:
        sha256 = store.blobs.put(data)
        if not any(info.key == key for info in store.sessions(owner=ANY_OWNER)):
            store.create(key)
        ref = OutputRef(sha256=sha256, bytes=len(data), kind=kind)
        store.append(key, [ToolResult(tool_use_id="t", output_ref=ref)], expect=ANY_HEAD)
    return sha256[:16]


def test_output_prints_the_text_and_nothing_else(cli: Cli) -> None:
    """What comes first, on stdout; which part it is and the next command, on stderr."""
    ref = offload(cli, TEXT.encode())
    done = cli("output", ref)
    assert done.status == 0
    assert done.out == TEXT[:20_000]
    assert f"log, ref {ref}" in done.err
    assert "of 48,000 characters, 2,000 lines" in done.err
    assert f"next: holdfast output {ref} --session work --offset 20000" in done.err
    assert cli("output", ref, "--session", "work", "--offset", "20000").out == TEXT[20_000:40_000]


def test_output_takes_lines_and_patterns(cli: Cli) -> None:
    """`--lines` as they stand; `--grep` with numbers and two lines around each."""
    ref = offload(cli, TEXT.encode())
    assert (
        cli("output", ref, "--lines", "7:8").out
        == TEXT.splitlines(True)[6] + (TEXT.splitlines(True)[7])
    )
    assert cli("output", ref, "--lines=-1:").out == "2000 something happened\n"
    found = cli("output", ref, "--grep", "^0500", "--max-chars", "256")
    assert found.out.splitlines()[2] == "500:0500 something happened"
    assert "1 match" in found.err
    many = cli("output", ref, "--grep", "^0[5]0", "--max-chars", "256")
    assert "--lines 5" in many.err
    assert "--grep '^0[5]0' --max-chars 256" in many.err


def test_output_is_an_excerpt_in_json(cli: Cli) -> None:
    """The whole of what is known of the part; nothing beside it."""
    ref = offload(cli, TEXT.encode())
    done = cli("output", ref, "--lines", "2:3", "--json")
    assert done.json["text"] == "0002 something happened\n0003 something happened\n"
    assert done.json["firstLine"] == 2
    assert done.json["totalLines"] == 2_000
    assert done.err == ""


def test_output_looks_through_all_sessions(cli: Cli) -> None:
    """A ref is enough; the id of a record is, too; a fork's copy is the same output."""
    ref = offload(cli, b"in another session\n", session="other")
    offload(cli, b"here\n")
    assert cli("output", ref).out == "in another session\n"
    assert cli("output", ref[:12]).out == "in another session\n"
    assert cli("fork", "other").status == 0
    assert cli("output", ref[:12]).out == "in another session\n"
    with JsonlStore(cli.root) as store:
        said = store.append(
            SessionKey("main", "work"), [User(content="only said")], expect=ANY_HEAD
        )
    assert cli("output", said.head).out == "only said"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("0" * 16,), "in any session"),
        (("0" * 16, "--session", "work"), "in session `work`"),
        (("{ref}", "--session", "nowhere"), "no session `nowhere`"),
        (("{ref}", "--lines", "x"), "not a range of lines"),
        (("{ref}", "--lines", "1:2", "--offset", "3"), "give offset or lines"),
        (("{ref}", "--grep", "("), "not a regular expression"),
        (("{ref}", "--max-chars", "10"), "256"),
        (("{ref}", "-o", "x", "--lines", "1:2"), "cannot be combined with a part"),
    ],
)
def test_output_refuses_what_cannot_be_meant(cli: Cli, args: tuple[str, ...], said: str) -> None:
    """Status 2, a reason and a hint; nothing on stdout."""
    ref = offload(cli, TEXT.encode())
    done = cli("output", *(arg.replace("{ref}", ref) for arg in args))
    assert done.status == 2
    assert done.out == ""
    assert said in done.err
    assert "hint:" in done.err


def test_output_masks_secrets_unless_told_otherwise(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered values are masked on the screen and in files; `--raw` is the owner's own copy."""
    monkeypatch.setenv("HOLDFAST_SECRETS", "THE_PASSWORD")
    monkeypatch.setenv("THE_PASSWORD", SECRET)
    ref = offload(cli, f"before\npassword: {SECRET}\nafter\n".encode())
    assert SECRET not in cli("output", ref).out
    assert cli("output", ref, "--lines", "3").out == "after\n"
    assert "no line matches" in cli("output", ref, "--grep", SECRET).err
    assert SECRET in cli("output", ref, "--raw").out
    for more, is_there in (((), False), (("--raw",), True)):
        file = tmp_path / f"copy{len(more)}"
        done = cli("output", ref, "-o", str(file), *more, "--json")
        assert done.json["is_masked"] is not is_there
        assert (SECRET in file.read_text()) is is_there


def test_output_writes_all_of_it_to_a_new_file(cli: Cli, tmp_path: Path) -> None:
    """Text and binary, for its owner only; an existing file is not touched."""
    picture = b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9_000
    for data, kind in ((TEXT.encode(), "log"), (picture, "image/png")):
        ref = offload(cli, data, kind=kind)
        file = tmp_path / kind.replace("/", ".")
        done = cli("output", ref, "-o", str(file))
        assert (done.status, done.out) == (0, "")
        assert file.read_bytes() == data
        assert os.stat(file).st_mode & 0o777 == 0o600
        again = cli("output", ref, "-o", str(file))
        assert again.status == 2
        assert "new file name" in again.err
    shown = cli("output", ref)
    assert shown.out == ""
    assert "image/png" in shown.err
    assert "not text" in shown.err


def test_output_on_a_terminal_has_line_numbers_and_cannot_steer_it(
    cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Control characters in an output are shown, not obeyed."""
    ref = offload(cli, b"plain\n\x1b[2Jred\x07\ttab\n")
    monkeypatch.setattr(type(sys.stdout), "isatty", lambda _stream: True)
    done = cli("output", ref, "--lines", "1:2")
    assert done.out == "     1  plain\n     2  \ufffd[2Jred\ufffd\ttab\n"
    assert cli("output", ref).out == "plain\n\ufffd[2Jred\ufffd\ttab\n"
