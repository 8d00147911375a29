"""The sessions of a Telegram bot: which one a message belongs to, and to whom that belongs."""

from __future__ import annotations

from typing import Literal

import msgspec

from holdfast.core.owners import NO_OWNER, NamedOwner, Owner

DmScope = Literal["main", "per-peer", "per-channel-peer", "per-account-channel-peer"]
"""The sessions of private chats. `main`: all share one. `per-peer`: one for each person, shared
with other channels that count people alike. `per-channel-peer`: one for each person on Telegram.
`per-account-channel-peer`: one for each person and bot. In groups, each sender has a session."""


class ChatPlace(msgspec.Struct, frozen=True):
    """The place where a message was sent: all that sessions are told apart by."""

    bot: int
    chat: int
    user: int
    """The sender. For one who writes as a group or channel, the id of that."""
    topic: int | None = None
    is_private: bool = True


def session_name(place: ChatPlace, scope: DmScope) -> str:
    """Return the name of the session; two places have one name only where the scope says so."""
    topic = f"_topic{place.topic}" if place.topic is not None else ""
    account = f"tg_bot{place.bot}" if scope == "per-account-channel-peer" else "tg"
    if not place.is_private:
        return f"{account}_chat{place.chat}_{place.user}{topic}"
    if scope == "main":
        return f"main{topic}"
    if scope == "per-peer":
        return f"direct_{place.user}{topic}"
    return f"{account}_{place.user}{topic}"


def session_owner(place: ChatPlace, scope: DmScope) -> Owner:
    """Return the owner of the session. The one that all share belongs to the one who runs the
    bot."""
    if scope == "main" and place.is_private:
        return NO_OWNER
    return owner_of_user(place)


def owner_of_user(place: ChatPlace) -> NamedOwner:
    """Return the person who writes, as an owner."""
    return NamedOwner(f"telegram:{place.user}")
