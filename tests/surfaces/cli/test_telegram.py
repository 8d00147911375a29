"""`holdfast telegram` as a process: started, stopped, and refused plainly."""

from __future__ import annotations

import json
import signal
from typing import TYPE_CHECKING

import pytest
from tests.support.bot_api import TOKEN, BotApiServer, Fault
from tests.surfaces.cli.bot_processes import bot_process

if TYPE_CHECKING:
    from pathlib import Path

    from tests.surfaces.conftest import Cli

pytestmark = pytest.mark.files_only("a process of its own uses the folder")


def test_it_runs_until_it_is_stopped(tmp_path: Path) -> None:
    """It says when it is ready, answers, and ends well; what it stored is there the next time."""
    with BotApiServer() as server:
        with bot_process(tmp_path, server) as process:
            assert process.stdout is not None
            ready = json.loads(process.stdout.readline())
            assert ready == {"listening": "@loopback_bot", "allow": [97, 98, 99]}
            server.say("my project is called Heron")
            assert server.wait_for_texts(1)
            server.say("/status")
            assert "tg_99" in server.wait_for_texts(2)[1]
            process.send_signal(signal.SIGTERM)
            _out, errors = process.communicate(timeout=60)
            assert (process.returncode, errors) == (0, "")
        with bot_process(tmp_path, server) as process:
            server.say("/start")
            assert "2 messages" in server.wait_for_texts(3)[2]


def test_a_wrong_token_ends_it(tmp_path: Path) -> None:
    with BotApiServer() as server:
        server.faults["getMe"] += [Fault(401, "Unauthorized")]
        with bot_process(tmp_path, server) as process:
            out, errors = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "401 Unauthorized" in out + errors
    assert "the token is wrong" in out + errors
    assert TOKEN.partition(":")[2] not in out + errors


@pytest.mark.parametrize(
    ("words", "token", "said"),
    [
        ((), "", "TELEGRAM_BOT_TOKEN"),
        ((), "nonsense", "@BotFather"),
        (("--allow", "bob"), TOKEN, "numbers separated by commas"),
        (("--owner", "alice"), TOKEN, "telegram:ID"),
        (("--api-base", "nowhere"), TOKEN, "https://api.telegram.org"),
        (("--model", "nothing"), TOKEN, "no model"),
    ],
)
def test_what_cannot_work_is_said(
    cli: Cli,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    token: str,
    said: str,
) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", token)
    result = cli("telegram", *words)
    shown = f"{result.out}{result.err}"
    assert result.status != 0
    assert said in shown
    assert TOKEN.partition(":")[2] not in shown
