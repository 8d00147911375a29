"""`holdfast telegram` as a process that a test starts, stops and kills."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tests.support.bot_api import TOKEN, BotApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def bot_process(root: Path, server: BotApiServer, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run the command; the process is killed when the block ends, as SIGKILL does."""
    command = [sys.executable, "-m", "holdfast", "telegram", "--root", str(root), "--json"]
    command += ["--allow", "99,98,97", "--api-base", server.url, "--model", "offline", *words]
    env = {**os.environ, "TELEGRAM_BOT_TOKEN": TOKEN}
    process = subprocess.Popen(
        command, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()
