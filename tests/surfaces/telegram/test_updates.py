"""Every update is read as one thing to do, or as nothing; none is an error."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.runs import examples

from holdfast.errors import BadSetting
from holdfast.surfaces.telegram.settings import TelegramSettings, read_ids
from holdfast.surfaces.telegram.updates import BotIdentity, read_update, update_number

ME = BotIdentity(7, "Holdfast_Bot")
TOKEN = "7:abcdefgh-12345"
OPEN = TelegramSettings(token=TOKEN, allow=frozenset({99, -100}))


def update(text: str = "", *, user: int = 99, chat: int = 0, **fields: Any) -> dict[str, Any]:
    place = chat or user
    message: dict[str, Any] = {
        "message_id": 5,
        "date": 1_700_000_000,
        "chat": {"id": place, "type": "private" if place > 0 else "supergroup"},
        "from": fields.pop("sender", {"id": user, "is_bot": False, "first_name": "P"}),
        "text": text,
        **fields,
    }
    kind = "edited_message" if message.pop("edited", False) else "message"
    return {"update_id": 1, kind: message}


def press(data: str, user: int = 99, chat: int = 0, **fields: Any) -> dict[str, Any]:
    """A button of a message of the bot is pressed."""
    message = update("Commands", user=user, chat=chat, sender={"id": 7, "is_bot": True})["message"]
    person = {"id": user, "is_bot": fields.pop("is_bot", False)}
    query = {"id": "q", "from": person, "message": message, "data": data, **fields}
    return {"update_id": 1, "callback_query": query}


def kind_of(given: object, settings: TelegramSettings = OPEN) -> tuple[str, str]:
    found = read_update(given, ME, settings)
    return (found.kind, found.text) if found is not None else ("", "")


@pytest.mark.parametrize(
    ("given", "kind", "text"),
    [
        (update("hello"), "message", "hello"),
        (update("/status"), "command", "/status"),
        (update("/status@holdfast_bot"), "command", "/status"),
        (update("/Reset a\nb"), "command", "/Reset a\nb"),
        (update("/newsletter"), "command", "/newsletter"),
        (update("//etc/hosts"), "message", "/etc/hosts"),
        (update("exit"), "message", "exit"),
        (update("/status@other_bot", chat=-100), "", ""),
        (update("hello", chat=-100), "", ""),
        (update("@holdfast_bot hello", chat=-100), "message", "hello"),
        (update("hello @Holdfast_Bot", chat=-100), "message", "hello"),
        (update("me@holdfast_bot.com", chat=-100), "", ""),
        (update("yes", chat=-100, reply_to_message={"from": {"id": 7}}), "message", "yes"),
        (update("yes", chat=-100, reply_to_message={"from": {"id": 8}}), "", ""),
        (update("", photo=[{}], caption="look"), "message", "look"),
        (update("", new_chat_members=[{}]), "", ""),
        (update("hi", sender={"id": 5, "is_bot": True}), "", ""),
        (press("/status"), "command", "/status"),
        (press("/status", chat=-100), "command", "/status"),
        (press("/status", user=98), "", ""),
        (press("approve:" + "0a" * 16), "decision", "approve:" + "0a" * 16),
        (press("deny:" + "0a" * 16, user=98), "", ""),
        (press("approve:" + "0a" * 15), "", ""),
        (press("hello"), "", ""),
        (press(""), "", ""),
        (press("/status", message=None), "", ""),
        (press("/status", is_bot=True), "", ""),
        ({"update_id": 3, "poll": {}}, "", ""),
        ({"update_id": 3, "message": {"message_id": "x"}}, "", ""),
    ],
)
def test_an_update_asks_for_one_thing(given: Any, kind: str, text: str) -> None:
    assert kind_of(given) == (kind, text)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (update("", sticker={"file_id": "x"}), "a sticker has none"),
        (update("", photo=[{}]), "a photo has none"),
        (update("hello", edited=True), "Edits are not read"),
        (update("hello", user=98), "Your id is 98"),
    ],
)
def test_what_cannot_be_read_is_said(given: Any, words: str) -> None:
    kind, text = kind_of(given)
    assert kind == "notice"
    assert words in text


def test_an_empty_list_refuses_everyone() -> None:
    nobody = TelegramSettings(token=TOKEN)
    assert kind_of(update("hello"), nobody)[0] == "notice"
    assert kind_of(update("@holdfast_bot hello", chat=-100), nobody) == ("", "")


def test_a_group_on_the_list_lets_its_people_in() -> None:
    found = read_update(update("@holdfast_bot hi", user=5, chat=-100), ME, OPEN)
    assert found is not None
    assert (found.place.user, found.place.chat) == (5, -100)
    anonymous = {"id": 1_087_968_824, "is_bot": True}
    given = update("/status", chat=-100, sender=anonymous, sender_chat={"id": -100})
    found = read_update(given, ME, OPEN)
    assert found is not None
    assert found.place.user == -100


def test_topics_are_told_apart() -> None:
    given = update("hi", message_thread_id=4, is_topic_message=True)
    found = read_update(given, ME, OPEN)
    assert found is not None
    assert (found.place.topic, found.thread) == (4, 4)
    found = read_update(update("hi", message_thread_id=4), ME, OPEN)
    assert found is not None
    assert found.place.topic is None, "a thread of replies is no topic"


FIELDS = ("update_id", "message", "chat", "from", "text", "id", "type", "message_id", "caption")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=6)
    ),
    max_leaves=12,
)
BROKEN = ("message_id", "chat", "from", "text", "date", "sticker", "reply_to_message")


@examples(400)
@given(JSON, st.sampled_from(BROKEN))
def test_no_update_is_an_error(value: Any, field: str) -> None:
    read_update(value, ME, OPEN)
    update_number(value)
    broken = update("hello")
    broken["message"][field] = value
    read_update(broken, ME, OPEN)
    read_update({"update_id": 1, "message": value}, ME, OPEN)


def test_settings_are_checked_and_hide_the_token() -> None:
    assert read_ids("99, -100,") == {99, -100}
    assert read_ids("") == frozenset()
    assert "abcdefgh" not in repr(OPEN) + str(OPEN)
    assert OPEN.bot == 7
    for wrong in ({"token": "abc"}, {"api_base": "ftp://x"}, {"dm_scope": "all"}):
        with pytest.raises(BadSetting) as raised:
            TelegramSettings(**{"token": TOKEN, **wrong})  # type: ignore[arg-type]
        assert "abcdefgh" not in str(raised.value)
    with pytest.raises(BadSetting, match="ids"):
        read_ids("99,bob")


@given(
    st.frozensets(st.sampled_from([99, 98, -100, -200])),
    st.sampled_from([99, 98]),
    st.sampled_from([0, -100, -200]),
)
@examples(100)
def test_people_are_answered_in_private_and_everybody_in_listed_groups(
    allow: frozenset[int], user: int, chat: int
) -> None:
    """A person on the list who adds the bot to some group is not answered there, nor anybody."""
    settings = TelegramSettings(token=TOKEN, allow=allow)
    wanted = ("command", "/status") if (chat or user) in allow else ("", "")
    assert kind_of(update("/status", user=user, chat=chat), settings)[0] in (wanted[0], "notice")
    if chat:
        assert kind_of(update("/status", user=user, chat=chat), settings) == wanted
        edited = update("/status", user=user, chat=chat, edited=True)
        assert (kind_of(edited, settings) == ("", "")) == (chat not in allow)
    assert kind_of(press("/status", user=user, chat=chat), settings) == wanted
