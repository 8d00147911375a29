"""Whatever a provider refuses, alone and together: the session goes on (law L17).

The provider refuses by a random predicate over the request: by a kind of media, by the number of
pictures, by words, by a field, by its size, and by two or three of them at once.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from tests.engine.proxy.conversations import wire_reply
from tests.engine.session.test_refused_content import (
    FIELDS,
    FINE,
    PICTURE,
    POISON,
    Conversation,
    Provider,
    Refusal,
    path_to,
    picture,
    text,
)
from tests.engine.session.test_refused_content import (
    _loop as _loop,  # the fixture, for this module too
)
from tests.support.runs import examples

from holdfast.core.dialects.registry import DIALECTS
from holdfast.core.log.records import Record, to_json
from holdfast.errors import ModelError
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Json

WAYS: Final = ("engine", "own loop", "prepared", "async")
KINDS: Final = ("picture", "every picture", "count", "words", "size", "field")
WORDINGS: Final = (
    (400, "Could not process image"),
    (400, "Request contains an invalid argument."),
    (400, "Der Mond steht falsch."),
    (422, ""),
)
CALLS_MAX: Final = 4
SIZE: Final = 60_000
"""Characters of a request without its pictures."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]{60,}={0,2}")


class Refusing(Provider):
    """Refuses what some of the kinds say; the first one that holds says why."""

    def __init__(self, dialect: str, kinds: Sequence[str], wording: tuple[int, str]) -> None:
        self.kinds = kinds
        self.wording = wording
        super().__init__(dialect, lambda body: False, {})

    def __call__(self, request: Json) -> Json:
        body = json.dumps(request, sort_keys=True)
        self.bodies.append(body)
        for kind in self.kinds:
            said = self._judge(kind, body, request)
            if said is not None:
                raise Refusal(*said)
        return wire_reply(self.dialect, "Fine.", "", "")

    def _judge(self, kind: str, body: str, request: Json) -> tuple[int, str] | None:
        field, words = FIELDS[self.dialect]
        pictures = body.count(FINE) + body.count(PICTURE)
        match kind:
            case "picture":
                return self.wording if PICTURE in body else None
            case "every picture":
                return self.wording if pictures else None
            case "count":
                return self.wording if pictures > 2 else None
            case "words":
                return self.wording if POISON in body else None
            case "size":
                is_over = len(_BASE64.sub("", body)) > SIZE
                return (400, "prompt is too long") if is_over else None
            case _:
                said = words.format(path_to(request, field, self.dialect))
                return (400, said) if f'"{field}"' in body else None


def check_epochs(talk: Conversation, before: list[str]) -> None:
    """The log only grew: nothing that was in it is another."""
    after = spelled(talk.records())
    assert after[: len(before)] == before


def spelled(records: list[Record]) -> list[str]:
    return [json.dumps(to_json(record)) for record in records]


@examples(240)
@given(
    st.sampled_from(list(DIALECTS)),
    st.sampled_from(WAYS),
    st.integers(0, 3),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True),
    st.sampled_from(WORDINGS),
)
def test_the_next_message_is_answered(
    dialect: str, way: str, turns: int, kinds: list[str], wording: tuple[int, str]
) -> None:
    """In bounded calls for each message, no body twice, and nothing in the log is changed."""
    note(f"{dialect} {way} {turns} {kinds} {wording}")
    provider = Refusing(dialect, (), wording)
    talk = Conversation(way, provider, MemoryStore())
    for number in range(turns):
        assert talk.say([text(f"Question {number}"), picture(FINE)]).text == "Fine."
    provider.kinds = kinds
    long = "word " * 14_000 if {"size", "field"} & set(kinds) else ""
    said: list[Any] = [text(f"It says {POISON}. {long}"), picture(PICTURE)]
    for content in (said, "And now?", "And then?"):
        logged, calls = spelled(talk.records()), len(provider.bodies)
        try:
            assert talk.say(content).text == "Fine."
        except ModelError:
            assert content is said, "a later message was not answered"
        assert len(provider.bodies) - calls <= CALLS_MAX
        check_epochs(talk, logged)
    assert len(set(provider.bodies)) == len(provider.bodies), "a body was sent twice"
    calls = len(provider.bodies)
    talk.close()
    talk.open()
    assert talk.say("In another process?").text == "Fine."
    assert len(provider.bodies) == calls + 1, "what was learned is in the log"
    talk.close()


@pytest.mark.parametrize("dialect", list(DIALECTS))
def test_the_provider_refuses_each_kind(dialect: str) -> None:
    """The predicate holds for what a session would send if it left nothing out."""
    for kind in KINDS:
        provider = Refusing(dialect, (kind,), (400, "No."))
        talk = Conversation("engine", provider, MemoryStore())
        long = "word " * 14_000 if kind == "size" else ""
        content = [text(f"It says {POISON}. {long}"), *[picture(PICTURE)] * 3]
        talk.say(content)
        assert len(provider.bodies) > 1, f"{kind} was not refused"
        talk.close()
