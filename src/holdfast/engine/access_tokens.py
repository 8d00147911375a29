"""Access tokens: bearer tokens with an owner and a scope, in the settings or in the store.

A token of the store is a message of a queue that waits for as long as the token is valid, so every
process that shares the store knows of a change at once. Only hashes are kept.
"""

from __future__ import annotations

import hashlib
import secrets
import time
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.history.access import EVERY, Right
from holdfast.core.owners import ANY_OWNER, NO_OWNER
from holdfast.core.text.typed import convert_typed
from holdfast.errors import BadSetting, UsageError
from holdfast.ports import NewMessage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.ports import Clock, QueuedMessage, SideStores

QUEUE: Final = "tokens"
TOKENS_MAX: Final = 1_000
"""Tokens of one store."""
NAME_CHARS_MAX: Final = 100
_PREFIX: Final = "holdfast_"
_TOKEN_BYTES: Final = 32
"""Random bytes; no one guesses as many."""
_CLOSED: Final = "needed"
"""The lane of a message that stays: once a store had a token, its servers take no request without
one, also when the last token was revoked."""
_REVOKED: Final = "revoked"
_PAGE: Final = 500
"""Messages that are read at a time."""


class AccessToken(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A token as the settings and the store keep it: its hash, never the token."""

    name: str
    sha256: str
    owner: str = ""
    """The owner whose sessions it opens; `*` for every owner."""
    scope: Right = "read"
    expires: float | None = None
    """Seconds since 1970."""

    def __post_init__(self) -> None:
        if len(self.sha256) != 64 or set(self.sha256) - set("0123456789abcdef"):
            raise BadSetting(
                f"the token `{self.name}` has no SHA-256 hash",
                hint="make one with `holdfast token new NAME --for-settings`",
            )

    def is_valid(self, now: float) -> bool:
        """Return False for one that has expired."""
        return self.expires is None or now < self.expires


def new_token() -> tuple[str, str]:
    """Return a token and the hash to keep of it. The token can be shown once."""
    token = _PREFIX + secrets.token_urlsafe(_TOKEN_BYTES)
    return token, hash_token(token)


def hash_token(token: str) -> str:
    return hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()


class StoredTokens:
    """The tokens of a store."""

    def __init__(self, store: SideStores, *, clock: Clock = time.time) -> None:
        self._queues = store.queues
        self._clock = clock

    def add(self, token: AccessToken) -> None:
        """Keep a token. Raises `UsageError` where its name is taken."""
        _check_name(token.name)
        known = [each for each, _created in self.all()]
        if len(known) >= TOKENS_MAX:
            raise UsageError(
                f"there are {len(known):,} tokens already, and no room for another",
                hint="revoke those that no one uses",
            )
        taken = UsageError(
            f"there is a token `{token.name}` already",
            hint="revoke it, or give this one another name",
        )
        if token.name in {each.name for each in known}:
            raise taken
        closed = NewMessage(queue=QUEUE, lane=_CLOSED, key=_CLOSED, body={})
        self._queues.put(closed)
        stored = self._queues.put(
            NewMessage(
                queue=QUEUE,
                lane=token.sha256,
                key=token.sha256,
                body=msgspec.to_builtins(token),
                owner="" if token.owner == EVERY else token.owner,
            )
        )
        first = min(message.id for message in self._valid() if _read(message).name == token.name)
        if first != stored.id:  # another process was quicker
            self._queues.drop(stored.id, _REVOKED)
            raise taken

    def all(self) -> list[tuple[AccessToken, float]]:
        """Return all tokens, each with the time it was made, the newest first."""
        return [(_read(message), message.created) for message in self._valid()]

    def revoke(self, name: str) -> tuple[AccessToken, float]:
        """End a token, also one that has expired; returns it with the time it was made. Raises
        `UsageError`."""
        found = [message for message in self._valid() if _read(message).name == name]
        if not found:
            raise UsageError(
                f"there is no token `{name[:NAME_CHARS_MAX]}` in the store",
                hint="list the tokens; those of the settings are revoked there",
            )
        for message in found:
            self._queues.drop(message.id, _REVOKED)
        return _read(found[0]), found[0].created

    def find(self, sha256: str) -> AccessToken | None:
        """Return the token with this hash; None where it is not valid now."""
        found = self._queues.messages(
            QUEUE, owner=ANY_OWNER, lane=sha256, states=("waiting",), limit=1
        )
        token = _read(found[0]) if found and sha256 != _CLOSED else None
        return token if token is not None and token.is_valid(self._clock()) else None

    def are_needed(self) -> bool:
        """Return whether the store ever had a token."""
        return self._queues.find(QUEUE, NO_OWNER, _CLOSED) is not None

    def _valid(self) -> Iterator[QueuedMessage]:
        before: int | None = None
        while True:
            page = self._queues.messages(
                QUEUE, owner=ANY_OWNER, states=("waiting",), before=before, limit=_PAGE
            )
            yield from (message for message in page if message.lane != _CLOSED)
            if len(page) < _PAGE:
                return
            before = page[-1].id


def _read(message: QueuedMessage) -> AccessToken:
    return convert_typed(message.body, AccessToken)


def _check_name(name: str) -> None:
    if not name or not name.isprintable() or len(name) > NAME_CHARS_MAX or name != name.strip():
        raise UsageError(
            f"a token cannot be called {name[:NAME_CHARS_MAX]!r}",
            hint=f"use at most {NAME_CHARS_MAX} characters that can be printed",
        )
