"""Lets the token of each request pay for what it causes, and warns of budgets in the answer."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from holdfast.engine.spending.meter import Paying, paying
from holdfast.errors import HoldfastError
from holdfast.surfaces.http.admission import client_in
from holdfast.surfaces.http.identity import LOCAL
from holdfast.surfaces.http.outgoing import answer_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from holdfast.surfaces.http.outgoing import OutgoingAnswer


class PayingClients:
    """Every request passes it, whichever door it is for."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        with let_pay(_token_name(scope), answer_in(scope)):
            await self._app(scope, receive, send)


@contextmanager
def let_pay(token: str, answer: OutgoingAnswer) -> Iterator[None]:
    """Let a token pay for what the block does; empty where there are none. The answer to its client
    names a budget that is near its limit."""

    def warn(message: Message) -> None:
        if who.near is not None:
            named = (b"x-holdfast-budget", who.near.header.encode())
            message["headers"] = [*message.get("headers", ()), named]

    answer.on_start(warn)
    with paying(Paying(token, is_waiting=True)) as who:
        yield


def _token_name(scope: Mapping[str, Any]) -> str:
    """The name of the token of a request; empty where it has none that is valid."""
    try:
        client = client_in(scope)
    except HoldfastError:  # raised again where the client is asked for
        return ""
    return client.name if client is not None and client is not LOCAL else ""
