"""Updates as Telegram sends them, and what is to be done about each. Nothing is done here."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.text.typed import convert_typed
from holdfast.surfaces.slash_commands import as_message, is_command, is_goodbye
from holdfast.surfaces.telegram.replies import is_decision
from holdfast.surfaces.telegram.settings import ChatPlace

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.surfaces.telegram.settings import TelegramSettings

ALLOWED_UPDATES: Final = ("message", "edited_message", "callback_query")
"""The kinds of updates that a bot asks for."""
_UNREAD: Final = (
    *("photo", "sticker", "voice", "video", "animation", "audio", "document", "video_note"),
    *("location", "contact", "poll", "dice", "venue", "story", "game", "paid_media"),
)
"""Parts of a message that are not read, by the name of their field."""
_ANONYMOUS: Final = 1_087_968_824
"""The id of @GroupAnonymousBot, in whose name administrators write to their group."""
_COMMAND: Final = lazy_pattern(r"(?P<word>/\w+)(?:@(?P<bot>\w+))?(?P<rest>\s.*)?", re.DOTALL)

UpdateKind = Literal["message", "command", "notice", "decision"]


class BotIdentity(msgspec.Struct, frozen=True):
    """The bot, as Telegram knows it."""

    id: int
    username: str = ""


class IncomingUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """An update that is to be dealt with."""

    update: int
    kind: UpdateKind
    text: str
    """The words for the model, the command, those of the notice, or the data of the button."""
    place: ChatPlace
    thread: int | None = None
    """The topic that the answer is sent to."""
    message: int = 0
    date: int = 0
    notice: str = ""
    """The kind of a notice. A chat gets one of a kind a minute; that to strangers, one a day."""
    unread: str = ""
    """The part of a message that is not read, such as `photo`."""
    press: str = ""
    """The id of the press of a button, which Telegram wants to have acknowledged."""


class _Person(msgspec.Struct):
    id: int
    is_bot: bool = False


class _Chat(msgspec.Struct):
    id: int
    type: str = "private"


class _Replied(msgspec.Struct):
    from_: _Person | None = msgspec.field(name="from", default=None)


class _Message(msgspec.Struct):
    message_id: int
    chat: _Chat
    date: int = 0
    from_: _Person | None = msgspec.field(name="from", default=None)
    sender_chat: _Chat | None = None
    text: str = ""
    caption: str = ""
    message_thread_id: int | None = None
    is_topic_message: bool = False
    reply_to_message: _Replied | None = None


class _Press(msgspec.Struct):
    id: str
    from_: _Person = msgspec.field(name="from")
    message: _Message | None = None
    data: str = ""


class _Update(msgspec.Struct):
    update_id: int
    callback_query: _Press | None = None
    message: _Message | None = None
    edited_message: _Message | None = None


def update_number(update: object) -> int | None:
    """Return the id of an update, whatever else it has."""
    number = update.get("update_id") if isinstance(update, dict) else None
    return number if isinstance(number, int) and not isinstance(number, bool) else None


def read_update(
    update: object, bot: BotIdentity, settings: TelegramSettings
) -> IncomingUpdate | None:
    """Return what an update asks for; None where it is nothing for this bot."""
    try:
        read = convert_typed(update, _Update)
    except msgspec.ValidationError:
        return None  # a kind of update that Telegram has added
    if read.callback_query is not None:
        return _read_press(read.update_id, read.callback_query, bot, settings)
    message = read.message or read.edited_message
    place = _place_of(message, bot) if message is not None else None
    if message is None or place is None:
        return None
    raw: Json = update.get("message") or {} if isinstance(update, dict) else {}
    words, is_addressed = _words_of(message, bot, place)
    unread = next((name for name in _UNREAD if raw.get(name)), "")

    def incoming(kind: UpdateKind, text: str, **more: Any) -> IncomingUpdate:
        return IncomingUpdate(
            update=read.update_id,
            kind=kind,
            text=text,
            place=place,
            thread=message.message_thread_id if message.is_topic_message else None,
            message=message.message_id,
            date=message.date,
            **more,
        )

    if not settings.answers(place):
        return incoming("notice", _stranger(place), notice="stranger") if place.is_private else None
    if not is_addressed:
        return None
    if read.message is None:
        return incoming("notice", _EDITED, notice="edited")
    if not words.strip():
        return incoming("notice", _unreadable(unread), notice="unread") if unread else None
    if is_command(words) and not is_goodbye(words):
        return incoming("command", words)
    return incoming("message", as_message(words), unread=unread)


def _read_press(
    number: int, press: _Press, bot: BotIdentity, settings: TelegramSettings
) -> IncomingUpdate | None:
    """Return the command of a button, which anyone who presses it runs in their own session, or the
    decision about a call."""
    message = press.message
    decides = is_decision(press.data)
    if message is None or press.from_.is_bot or not (decides or is_command(press.data)):
        return None
    is_private = message.chat.type == "private"
    topic = message.message_thread_id if message.is_topic_message else None
    place = ChatPlace(bot.id, message.chat.id, press.from_.id, topic, is_private)
    if not settings.answers(place):
        return None
    return IncomingUpdate(
        update=number,
        kind="decision" if decides else "command",
        text=press.data,
        place=place,
        thread=topic,
        message=message.message_id,
        date=message.date,
        press=press.id,
    )


def _place_of(message: _Message, bot: BotIdentity) -> ChatPlace | None:
    sender = message.sender_chat or message.from_
    person = message.from_
    if sender is None or message.chat.type == "channel":
        return None
    if person is not None and person.is_bot and person.id != _ANONYMOUS:
        return None  # two bots would answer each other without end
    topic = message.message_thread_id if message.is_topic_message else None
    return ChatPlace(bot.id, message.chat.id, sender.id, topic, message.chat.type == "private")


def _words_of(message: _Message, bot: BotIdentity, place: ChatPlace) -> tuple[str, bool]:
    """Return the words without the bot's name, and whether they are meant for it.

    In a group those are its commands, mentions of its name, and replies to it.
    """
    text = (message.text or message.caption).strip()
    command = _COMMAND.fullmatch(text)
    if command is not None:
        name, rest = command["bot"], (command["rest"] or "").strip()
        if name and name.casefold() != bot.username.casefold():
            return "", False
        return f"{command['word']} {rest}".strip(), True
    if place.is_private:
        return text, True
    replied = message.reply_to_message
    is_reply = replied is not None and replied.from_ is not None and replied.from_.id == bot.id
    mention = rf"(?<![\w@])@{re.escape(bot.username)}\b[,:]? ?"
    unnamed, count = re.subn(mention, "", text, flags=re.IGNORECASE) if bot.username else (text, 0)
    return unnamed.strip(), is_reply or count > 0


def _stranger(place: ChatPlace) -> str:
    return (
        f"This bot answers only people on its list, and you are not on it. Your id is {place.user}."
    )


def _unreadable(name: str) -> str:
    return f"Only text is read here, and a {name.replace('_', ' ')} has none. Nothing was sent."


_EDITED: Final = "Edits are not read: send the message again as a new one."
