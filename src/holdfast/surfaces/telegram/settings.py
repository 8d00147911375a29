"""The settings of a Telegram bot, and the sessions that its messages belong to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, get_args

import msgspec

from holdfast.core.owners import NO_OWNER, NamedOwner, Owner
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.errors import BadSetting

if TYPE_CHECKING:
    from collections.abc import Mapping

API_BASE: Final = "https://api.telegram.org"
TOKEN_VARIABLE: Final = "TELEGRAM_BOT_TOKEN"  # noqa: S105 - the name of a variable
_TOKEN: Final = lazy_pattern(r"[0-9]{1,20}:[A-Za-z0-9_-]{8,200}")
_BASE: Final = lazy_pattern(r"https?://[^\s/?#]+(?:/[^\s?#]*)?")


class TelegramSettings(msgspec.Struct, frozen=True, kw_only=True):
    """Who may use a bot, and how it reaches Telegram. Times are in seconds."""

    token: str
    """From @BotFather. It is never shown, logged or stored."""
    allow: frozenset[int] = frozenset()
    """Ids of people, who are answered in private, and of groups, in which everybody is answered.
    No one, where it is empty."""
    approvers: dict[int, str] = {}
    """Names of the people who may decide about calls that wait in the chats of the bot, by id."""
    dm_scope: DmScope = "per-channel-peer"
    api_base: str = API_BASE
    """Another server of the Bot API, such as a local one."""
    poll_seconds: int = 50
    """The longest wait of a request for updates."""
    conflict_seconds: float = 90.0
    """After which a bot gives up that another program polls, too; a predecessor that was killed
    can be heard of for the length of its last poll."""

    def __post_init__(self) -> None:
        if not _TOKEN.fullmatch(self.token):
            raise BadSetting(
                "the token of the bot is missing or malformed",
                hint="@BotFather gives one such as `123456:ABC…`; set TELEGRAM_BOT_TOKEN to it",
            )
        if not _BASE.fullmatch(self.api_base):
            raise BadSetting(
                f"`api_base` cannot be `{self.api_base}`",
                hint=f"give an address such as {API_BASE}",
            )
        if nameless := [number for number, name in self.approvers.items() if not name.strip()]:
            raise BadSetting(
                f"the approver {nameless[0]} has no name",
                hint="give the name that the log has, and a tool's `approvers`, as in `99=ann`",
            )
        if self.dm_scope not in get_args(DmScope):
            known = ", ".join(get_args(DmScope))
            raise BadSetting(f"`dm_scope` cannot be `{self.dm_scope}`", hint=f"give one of {known}")

    def __repr__(self) -> str:
        return f"TelegramSettings(bot={self.bot}, allow={sorted(self.allow)})"

    def answers(self, place: ChatPlace) -> bool:
        """Return whether messages from there are answered. In a group that is not listed, a person
        on the list is not: everybody there could read what the agent knows of them."""
        return (place.user if place.is_private else place.chat) in self.allow

    @property
    def bot(self) -> int:
        """The id of the bot, which is the public part of its token."""
        return int(self.token.partition(":")[0])


def read_approvers(text: str) -> dict[int, str]:
    """Read people with their names, as in `--approvers 99=ann,98=bob`."""
    pairs = [word.partition("=") for word in text.split(",") if word.strip()]
    return name_approvers({number: name for number, _, name in pairs})


def name_approvers(names: Mapping[str, str]) -> dict[int, str]:
    """Read the names of people by their ids, which are texts in a file of settings."""
    try:
        return {int(number): name.strip() for number, name in names.items()}
    except ValueError:
        given = ", ".join(names)
        raise BadSetting(
            f"the approvers `{given}` are not all people by their ids",
            hint="give the id and the name of each, separated by commas, as in `99=ann,98=bob`",
        ) from None


def read_ids(text: str) -> frozenset[int]:
    """Read a list of ids, as in `--allow 99,-100123`."""
    words = [word.strip() for word in text.split(",")]
    try:
        return frozenset(int(word) for word in words if word)
    except ValueError:
        raise BadSetting(
            f"the allow-list `{text}` has something other than ids",
            hint="give numbers separated by commas: the bot tells people theirs; a group has a "
            "negative one",
        ) from None


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
