"""Whatever an upstream refuses of a client's request, alone and together (law L17)."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from hypothesis import given, note
from hypothesis import strategies as st
from tests.engine.proxy.conversations import DIALECTS, Client
from tests.engine.proxy.test_fitting import picture_for
from tests.prompts import png
from tests.support.runs import examples

from holdfast.core.window import Window
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Sequence

POISON: Final = "the-words-that-are-refused"
PICTURE: Final = png(37, 41)
KINDS: Final = ("picture", "words", "size", "policy")


def judge(kinds: Sequence[str], body: str) -> str:
    """The refusal of a request; empty where it is answered."""
    for kind in kinds:
        if kind == "picture" and PICTURE in body:
            return "Could not process image"
        if kind == "words" and POISON in body:
            return "No."
        if kind == "size" and len(body) > 60_000:
            return "prompt is too long: 30000 tokens > 20000 maximum"
        if kind == "policy" and POISON in body:
            return "Content Exists Risk"
    return ""


@examples(160)
@given(
    st.sampled_from(DIALECTS),
    st.lists(st.sampled_from(KINDS), min_size=1, max_size=3, unique=True),
    st.integers(1, 12),
)
def test_calls_are_bounded_and_the_next_message_goes_on(
    dialect: str, kinds: list[str], turns: int
) -> None:
    """No body twice, four calls at most. What the client has to see, it sees; where it then takes
    its message back, or the proxy leaves it out, the next one is answered."""
    note(f"{dialect} {kinds} {turns}")
    store, client = MemoryStore(), Client(dialect)
    keeper = ProxyKeeper(store, window=Window(64_000))
    bodies: list[bytes] = []

    def ask() -> bool:
        begun = keeper.begin(client.request())
        calls = 0
        while True:
            calls += 1
            assert calls <= 4
            assert begun.body not in bodies, "a body was sent twice"
            bodies.append(begun.body)
            why = judge(kinds, begun.body.decode())
            if not why:
                begun.open("application/json", "")
                begun.take(client.hear("Fine."))
                begun.finish()
                return True
            if not begun.refuse(400, {}, json.dumps({"error": {"message": why}}).encode()):
                return False

    for number in range(turns):
        client.say(f"Question {number} " + "word " * 1_500)
        assert ask()
    client.items.append(picture_for(dialect))
    client.say(f"And now {POISON}?" if {"words", "policy"} & set(kinds) else "And now?")
    is_words = "words" in kinds
    assert ask() is not (is_words or "policy" in kinds)
    if is_words and kinds.index("words") < (kinds.index("policy") if "policy" in kinds else 9):
        client.items = [item for item in client.items if POISON not in json.dumps(item)]
    client.say("And then?")
    assert ask()
    assert PICTURE not in bodies[-1].decode() or "picture" not in kinds
    assert b"And then?" in bodies[-1]
