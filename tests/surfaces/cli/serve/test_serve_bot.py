"""`holdfast serve` with a table `telegram`: API, console and bot in one process on one store."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from tests.support.bot_api import TOKEN, BotApiServer, Fault
from tests.surfaces.http.real import ServeProcess

from holdfast.errors import HoldfastError
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.cli.serve.serve import build_server
from holdfast.surfaces.serve_settings import ServeSettings, TelegramTable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.files_only("a process of its own uses the folder")
SECRET = TOKEN.partition(":")[2]


def serve(root: Path, server: BotApiServer, folder: Path) -> ServeProcess:
    table = f'[telegram]\nallow = [99]\napi_base = "{server.url}"\n'
    environ = {"TELEGRAM_BOT_TOKEN": TOKEN, "HOLDFAST_MODEL": "offline"}
    return ServeProcess(str(root), table, folder, environ=environ)


def read(url: str) -> str:
    with urlopen(url, timeout=60) as response:
        text: str = response.read().decode()
    return text


def test_one_process_has_every_way_in(tmp_path: Path) -> None:
    """A chat is a session of the API and of the console. What is sent while the process is stopped
    or killed is answered once by the next one."""
    root = tmp_path / "root"
    with BotApiServer() as server:
        with serve(root, server, tmp_path) as process:
            server.say("my project is called Heron")
            server.wait_for_texts(1)
            assert "tg_99" in read(f"{process.url}/v1/sessions")
            assert "Heron" in read(f"{process.url}/s/main/tg_99")
            health = read(f"{process.url}/health")
            assert "@loopback_bot is listening" in health
            metrics = read(f"{process.url}/metrics")
            assert 'holdfast_service_up{service="telegram"} 1' in metrics
            assert process.stop() in (0, -15), process.log()
            shown = health + metrics + process.log()
        server.say("sent while nobody listens")
        with serve(root, server, tmp_path) as process:
            server.wait_for_texts(2)
            server.say("sent before a power cut")
            process.kill()
            shown += process.log()
        with serve(root, server, tmp_path) as process:
            server.wait_for(lambda: not server.updates)
            address = f"{process.url}/v1/sessions/main/tg_99/messages?limit=20"
            while len(messages := json.loads(read(address))["messages"]) < 6:
                time.sleep(0.05)  # an answer before the kill may come twice, so texts say nothing
            server.say("/status")
            server.wait_for(lambda: any("Window" in text for text in server.texts()))
            assert [message["role"] for message in messages] == ["user", "assistant"] * 3
            shown += process.log()
    assert SECRET not in shown
    assert "Traceback" not in shown


def test_a_bot_that_cannot_run_leaves_the_rest(tmp_path: Path) -> None:
    """A wrong token is said in the log and on the page of the inbox; the API answers."""
    with BotApiServer() as server:
        server.faults["getMe"] += [Fault(401, "Unauthorized")] * 9
        with serve(tmp_path / "root", server, tmp_path) as process:
            server.wait_for(lambda: "getMe" in server.calls)
            while "does not run" not in process.log():
                time.sleep(0.05)
            health = read(f"{process.url}/health")
            assert "the token is wrong" in health
            assert 'holdfast_service_up{service="telegram"} 0' in read(f"{process.url}/metrics")
            assert process.stop() in (0, -15), process.log()
            assert "the token is wrong" in process.log()
            assert SECRET not in health + process.log()


@pytest.mark.parametrize(
    ("table", "token", "said"),
    [
        (TelegramTable(), "", "TELEGRAM_BOT_TOKEN is not set"),
        (TelegramTable(), "nonsense", "malformed"),
        (TelegramTable(api_base="nowhere"), TOKEN, "api_base"),
        (TelegramTable(agent="../x"), TOKEN, "agent"),
    ],
)
def test_what_cannot_work_is_said_at_the_start(table: TelegramTable, token: str, said: str) -> None:
    with MemoryStore() as store, pytest.raises(HoldfastError, match=said):
        build_server(ServeSettings(telegram=table), store, "offline", telegram_token=token)
