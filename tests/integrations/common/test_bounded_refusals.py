"""What a provider refuses through an adapter is left out of the conversation's later requests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st
from tests.prompts import pdf, png
from tests.support.runs import examples

from holdfast.core.dialects.registry import DIALECTS, target
from holdfast.core.log.records import Assistant, User, encode
from holdfast.core.models.messages import Image, Other, Text
from holdfast.integrations.common.bounded import (
    Attempts,
    BoundedMessages,
    ListBounds,
    NextRequest,
    Refusals,
    name_records,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.integrations.common.bounded import BoundedView

PICTURE, FINE = png(37, 41), png(9, 9)
WORDS = "the-words-that-are-refused"


class Refused(Exception):
    status_code = 400


def spell(view: BoundedView) -> str:
    """What is sent of a view."""
    said: list[Any] = []
    for unit in (*view.opening, *view.plan.units_sent):
        for part in unit.parts:
            for block in part.blocks:
                if isinstance(block, Text):
                    said.append(block.text)
                elif isinstance(block, Image):
                    said.append(block.data)
                elif isinstance(block, Other):
                    said.append(block.raw)
    return json.dumps(said)


class Framework(BoundedMessages):
    """A loop that keeps all its messages and sends what an adapter lets through."""

    def __init__(self, dialect: str, refuses: Callable[[str], str]) -> None:
        self.dialect = dialect  # type: ignore[misc]
        super().__init__("m", window=100_000)
        self.refuses = refuses
        self.messages: list[Record] = []
        self.sent: list[str] = []

    def say(self, content: Any) -> bool:
        """Return whether a message was answered; the framework keeps it all the same."""
        self.messages.append(User(content=content))
        attempts = Attempts(self, self.fit)
        request: list[str] | None = attempts.fit()
        calls = 0
        while request is not None:
            self.sent += request
            calls += 1
            assert calls <= 4
            assert self.sent.count(self.sent[-1]) == 1, "a request was sent twice"
            words = self.refuses(self.sent[-1])
            if not words:
                self.messages.append(Assistant(content="Fine."))
                return True
            request = attempts.after(Refused(words))
        return False

    def fit(self, at_most: int | None) -> list[str]:
        spelled = [encode(record).decode() for record in self.messages]
        return [spell(self.view_of(self.messages, spelled, {"at_most": at_most}))]


def named(records: Sequence[Record]) -> list[Record]:
    return name_records(records, [encode(record).decode() for record in records])


def picture(data: str) -> Json:
    source = {"type": "base64", "media_type": "image/png", "data": data}
    return {"type": "image", "source": source}


def document(data: str) -> Json:
    source = {"type": "base64", "media_type": "application/pdf", "data": data}
    return {"type": "document", "source": source}


@examples(60)
@given(st.sampled_from(list(DIALECTS)), st.integers(0, 2), st.booleans(), st.booleans())
def test_a_conversation_goes_on(dialect: str, turns: int, is_picture: bool, is_words: bool) -> None:
    """A picture, words or both are refused; the message is answered, and so is each later one at
    once. Media that were accepted before stay."""
    marks = [mark for mark, on in ((PICTURE, is_picture), (WORDS, is_words)) if on]
    talk = Framework(dialect, lambda sent: "No." if any(mark in sent for mark in marks) else "")
    for number in range(turns):
        assert talk.say([{"type": "text", "text": f"Question {number}"}, picture(FINE)])
    said = [{"type": "text", "text": f"It says {WORDS}."}, picture(PICTURE)]
    assert talk.say(said)
    before = len(talk.sent)
    for number in range(3):
        assert talk.say(f"And now {number}?")
    assert len(talk.sent) == before + 3
    assert all(f"And now {number}?" in talk.sent[-1] for number in range(3))
    assert not any(mark in sent for mark in marks for sent in talk.sent[before:])
    if turns and marks:
        assert FINE in talk.sent[-1]


def test_a_policy_refusal_is_raised_once_and_not_sent_again() -> None:
    words = "Output blocked by content filtering policy"
    talk = Framework("anthropic", lambda sent: words if WORDS in sent else "")
    assert talk.say("A question")
    before = len(talk.sent)
    assert not talk.say(f"It says {WORDS}.")
    assert len(talk.sent) == before + 1
    assert talk.say("And now?")
    assert len(talk.sent) == before + 2
    assert "A question" in talk.sent[-1]
    assert "under its policy" in talk.sent[-1]


def test_where_nothing_helps_everything_comes_back() -> None:
    talk = Framework("anthropic", lambda sent: "No.")
    said = [{"type": "text", "text": f"It says {WORDS}."}, picture(PICTURE), document(pdf(2))]
    assert not talk.say(said)
    talk.refuses = lambda sent: ""
    assert talk.say("And now?")
    assert PICTURE in talk.sent[-1]
    assert WORDS in talk.sent[-1]


def test_a_body_that_is_too_large_loses_its_media_first() -> None:
    class TooLarge(Refused):
        status_code = 413

    bounds = ListBounds(target("anthropic"), window=100_000)
    records = named([User(content=[{"type": "text", "text": "Look"}, picture(PICTURE)])])
    view = bounds.fit(records)
    error = TooLarge("Request exceeds the maximum size")
    assert Refusals(bounds).answer(error, view.plan) == NextRequest()
    assert PICTURE not in spell(bounds.fit(records))
    assert "Look" in spell(bounds.fit(records))


def test_a_request_that_would_be_the_same_is_not_sent_again() -> None:
    framework = Framework("openai-chat", lambda _request: "")
    framework.messages = [User(content="Hello.")]

    def fit(at_most: int | None) -> list[str]:
        framework.fit(at_most)
        return ["the same"]

    attempts = Attempts(framework, fit)
    assert attempts.fit() == ["the same"]
    assert attempts.after(Refused("prompt is too long: 210000 tokens > 200000 maximum")) is None
