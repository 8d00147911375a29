"""Whatever is done to a session, in whatever order: nothing is lost, and the next turn works."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.sessions import KINDS, Bench, check_requests, is_summary_request, texts
from tests.support.runs import examples

from holdfast.core.log.records import User, text_of
from holdfast.core.models.replies import Reply
from holdfast.core.tokens.counting import Estimator
from holdfast.core.turn.options import Limits
from holdfast.errors import ModelError, ToolLoop, UsageError
from holdfast.providers.offline.measuring import count_request
from holdfast.testing.scripted import ScriptedModel, calls

WINDOW = 8_000
SUMMARY = "### Goal\nCount the words and the numbers of the parcels.\n### Progress\nDone: most."
ANSWERS = ("short", "long", "empty", "tool", "tools", "overflow", "busy", "auth", "unknown", "huge")
ACTIONS = (
    *("say", "say long", "say", "add", "resume", "compact", "undo", "rewind", "rewind all"),
    *("reopen", "checkpoint", "rename", "prepare", "record", "status", "other speaks"),
)


class Model(ScriptedModel):
    """Answers as it is told, one after the other, and then plainly."""

    def __init__(self, answers: list[str], summary: str) -> None:
        self._numbers = itertools.count()
        self._told = iter(answers)
        self._summary = summary
        super().__init__(otherwise=self._speak, window=WINDOW)

    def _speak(self, request: Any) -> Any:
        if is_summary_request(request) or not request.get("tools"):
            return self._summary
        number = next(self._numbers)
        match next(self._told, "short"):
            case "long":
                return f"answer {number} " * 300
            case "empty":
                return Reply(content=[])
            case "tool":
                return calls((f"c{number}", "look", {"size": 10}))
            case "tools":
                return calls(*((f"c{number}-{n}", "look", {"size": 800}) for n in range(3)))
            case "huge":
                return calls((f"c{number}", "look", {"size": 60_000}), ("c", "nothing", {}))
            case "overflow":
                return RuntimeError("prompt is too long for the context window")
            case "busy":
                return RuntimeError("429 rate limit exceeded")
            case "auth":
                return RuntimeError("401 invalid x-api-key")
            case "unknown":
                return RuntimeError("who knows")
        return f"answer {number}"


def look(size: int) -> str:
    """Look at something of a size."""
    return "seen " * size


class Life:
    """A session and everything that is done to it."""

    def __init__(self, bench: Bench, model: Model) -> None:
        self.bench = bench
        self.model = model
        self.session = self._open()
        self.words: list[str] = []
        self._written: list[str] = []

    def _open(self) -> Any:
        return self.bench.open(
            self.model,
            tools=[look],
            limits=Limits(floor=1_000, steps=4, waits=1, wait_seconds=0.001),
        )

    def do(self, action: str) -> None:
        bench, session = self.bench, self.session
        word = f"word-{len(self.words):03d}"
        try:
            match action:
                case "say":
                    self.words.append(word)
                    bench.say(session, word)
                case "say long":
                    self.words.append(word)
                    bench.say(session, word + " and more of it" * 400)
                case "add":
                    self.words.append(word)
                    bench.do(session.own_loop.add_user(word))
                case "other speaks":
                    self.words.append(word)
                    bench.store.append(session.key, [User(content=word)], expect=None)
                case "resume":
                    bench.do(session.resume())
                case "compact":
                    bench.do(session.compact("numbers"))
                case "undo":
                    bench.do(session.undo())
                case "rewind":
                    bench.do(session.rewind())
                case "rewind all":
                    bench.do(session.rewind(turns=3))
                case "reopen":
                    self.session = self._open()
                case "checkpoint":
                    bench.do(session.checkpoint())
                case "rename":
                    bench.do(session.rename(word))
                case "prepare":
                    bench.do(session.own_loop.prepare())
                case "record":
                    bench.do(
                        session.own_loop.record(Reply(content=[{"type": "text", "text": "own"}]))
                    )
                case "status":
                    assert bench.do(session.status()).tokens <= WINDOW
        except (ModelError, ToolLoop, UsageError):
            pass  # said plainly, and the session is intact: that is checked below
        self.check()

    def check(self) -> None:
        """The log only grows, and everything that was said is in it."""
        written = [entry.record for entry in self.bench.store.read_all(self.session.key)]
        ids = [record.id for record in written]
        assert ids[: len(self._written)] == self._written
        self._written = ids
        heard = "\n".join(text_of(one.content) for one in written if isinstance(one, User))
        assert all(word in heard for word in self.words)
        plan = self.bench.do(self.session.plan())
        assert plan.tokens.total <= WINDOW

    def end(self) -> None:
        """The provider is well again: the next turn is answered, and what was sent was sound."""
        self.model._told = iter(())
        assert self.bench.say(self.session, "the last words").text.startswith("answer")
        turn = [one for one in self.model.requests if not is_summary_request(one)][-1]
        assert "the last words" in texts(turn)
        check_requests(self.model)
        for request in self.model.requests:
            assert count_request(request, Estimator()) + request["max_tokens"] <= 1.02 * WINDOW
        key = self.session.key
        assert self.bench.store.verify(key).is_sound


@pytest.mark.parametrize("kind", KINDS)
@examples(20)
@given(
    actions=st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=14),
    answers=st.lists(st.sampled_from(ANSWERS), max_size=14),
    summary=st.sampled_from((SUMMARY, "", "I cannot help with that.")),
)
def test_a_session_survives_anything_in_any_order(
    kind: Any, actions: list[str], answers: list[str], summary: str
) -> None:
    """Turns, failures, cuts, steps back and other writers, drawn at random."""
    bench = Bench(kind)
    try:
        life = Life(bench, Model(answers, summary))
        for action in actions:
            life.do(action)
        life.end()
    finally:
        bench.close()
