"""Who is let in: finds the client of each request by its token, and ends what a token began when it
is not valid any more."""

from __future__ import annotations

import asyncio
import hmac
import logging
import time
from typing import TYPE_CHECKING, Any, Final

from holdfast.engine.access_tokens import StoredTokens, hash_token
from holdfast.engine.gateway.open_sessions import TOKENS
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.errors import HoldfastError
from holdfast.surfaces.http.guard import read_headers
from holdfast.surfaces.http.identity import LOCAL, client_of, read_token
from holdfast.surfaces.http.outgoing import answer_in
from holdfast.surfaces.http.problems import no_token, send_problem

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from holdfast.engine.access_tokens import AccessToken
    from holdfast.engine.gateway.open_sessions import LiveFeed
    from holdfast.ports import Clock, SideStores
    from holdfast.surfaces.http.guard import App, Receive, Scope, Send
    from holdfast.surfaces.http.identity import Client
    from holdfast.surfaces.http.outgoing import OutgoingAnswer

LOOK_SECONDS: Final = 1.0
"""Between two looks at the tokens of open streams, and whether a store without tokens has one."""
_CLIENT: Final = "holdfast.client"
"""The client of a request in its scope, or the error that kept it from being found."""
_log: Final = logging.getLogger(__name__)


class ResponseEnded(Exception):
    """An answer ended in the middle: the connection has to be closed, so that no client takes what
    it has for the whole."""


def client_in(scope: Mapping[str, Any]) -> Client | None:
    """Return the sender of a request; None where its token is not valid. Raises `StoreError`."""
    found: Client | HoldfastError | None = scope[_CLIENT]
    if isinstance(found, HoldfastError):
        raise found
    return found


class TokenRegister:
    """Every token that is valid now: those of the settings, and those of the store.

    A token of the store is looked up for each request: what is revoked is refused at once, by every
    process that shares the store.
    """

    def __init__(
        self, store: SideStores, settings: Sequence[AccessToken], *, clock: Clock = time.time
    ) -> None:
        self._stored = StoredTokens(store, clock=clock)
        self._clock = clock
        self.settings = tuple(settings)
        """The tokens of the settings."""
        self.is_closed = bool(settings)
        """A request takes a token; once true, it stays so in this process."""
        self._looked = float("-inf")

    def use(self, settings: Sequence[AccessToken]) -> None:
        """Know these tokens of the settings instead."""
        self.settings = tuple(settings)
        self.is_closed = self.is_closed or bool(settings)

    def look_again(self) -> None:
        """The store may have its first token."""
        self._looked = float("-inf")

    async def are_needed(self) -> bool:
        """Return whether a request takes a token."""
        if not self.is_closed and time.monotonic() - self._looked >= LOOK_SECONDS:
            if await run_in_thread(self._stored.are_needed):
                self.is_closed = True
            self._looked = time.monotonic()
        return self.is_closed

    async def find(self, token: str) -> AccessToken | None:
        """Return what is known of a token; None where it is not valid now."""
        return await self.look_up(hash_token(token)) if token else None

    async def look_up(self, sha256: str) -> AccessToken | None:
        """Return the token with a hash; None where it is not valid now."""
        found = None
        for known in self.settings:  # all of them, so that the time tells nothing
            if hmac.compare_digest(known.sha256, sha256):
                found = known
        if found is not None:
            return found if found.is_valid(self._clock()) else None
        return await run_in_thread(self._stored.find, sha256)

    async def find_client(self, headers: Mapping[str, str]) -> tuple[Client | None, str]:
        """Return the sender of a request and the hash of its token. Raises `StoreError`."""
        token = read_token(headers)
        known = await self.find(token)
        if known is not None:
            return client_of(known), known.sha256
        return (None if await self.are_needed() else LOCAL), ""


class _Held:
    """A request that goes on for as long as its token is valid."""

    def __init__(self, task: asyncio.Task[Any], sha256: str, answer: OutgoingAnswer) -> None:
        self.task, self.sha256, self.answer = task, sha256, answer
        self.looks = 0
        """The looks that found its token valid."""
        self.is_ended = False

    def end(self) -> None:
        self.is_ended = True
        self.task.cancel()


class Admission:
    """Puts the client of each request into its scope, and ends requests whose token ends."""

    def __init__(self, app: App, register: TokenRegister) -> None:
        self.router: Any = None
        """The routes, whose lifespan is that of the server."""
        self._app = app
        self._register = register
        self._held: set[_Held] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        sha256 = ""
        try:
            scope[_CLIENT], sha256 = await self._register.find_client(read_headers(scope))
        except HoldfastError as error:  # raised again where the client is asked for
            scope[_CLIENT] = error
        if sha256:
            await self._run_while_valid(sha256, scope, receive, send)
        else:
            await self._app(scope, receive, send)

    async def _run_while_valid(
        self, sha256: str, scope: Scope, receive: Receive, send: Send
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        held = _Held(task, sha256, answer_in(scope))

        self._held.add(held)
        try:
            await self._app(scope, receive, send)
        except asyncio.CancelledError:
            if not held.is_ended:
                raise
            task.uncancel()
            if held.answer.has_begun:
                raise ResponseEnded from None
            await send_problem(no_token(), send)
        finally:
            self._held.discard(held)

    async def watch(self, live: LiveFeed) -> None:
        """End the requests whose token is not valid any more, until this is cancelled."""
        with live.watch(TOKENS) as watcher:
            while True:
                if await watcher.pieces(LOOK_SECONDS):
                    self._register.look_again()
                await self._look()

    async def _look(self) -> None:
        for sha256 in {held.sha256 for held in self._held}:
            try:
                known = await self._register.look_up(sha256)
            except HoldfastError as error:  # the next look may work
                _log.warning("cannot look at the tokens of open streams: %s", error)
                return
            for held in [each for each in self._held if each.sha256 == sha256]:
                if known is None and (held.answer.has_begun or held.looks):
                    held.end()
                held.looks += 1  # what has just begun may be the revocation itself
