"""A server of the Bot API for each test."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.bot_api import BotApiServer

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def server() -> Iterator[BotApiServer]:
    with BotApiServer() as opened:
        yield opened
