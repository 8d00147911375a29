"""The numbers of a session agree with each other, wherever they are shown."""

from __future__ import annotations

import asyncio
import json
import random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.support.cli import run_in_process
from tests.support.runs import EXAMPLES, RUN

from holdfast.core.log.records import Assistant
from holdfast.core.models.replies import Reply
from holdfast.core.models.usage import read_usage
from holdfast.core.tokens.counting import Estimator
from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.session import Session
from holdfast.providers.offline.measuring import count_request
from holdfast.testing.scripted import ScriptedModel

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.records import Json, Record

TOLERANCE_SHARE = 0.1
TOLERANCE_TOKENS = 30
"""The context as it is shown may differ from the measured one by the larger of the two."""


def look(path: str, depth: int = 1, *, follow_links: bool = False) -> str:
    """Look at a folder and everything that is in it, as deep as is asked for.

    Args:
        path: The folder to look at, below the root of the project.
        depth: The number of levels to look at; one is the folder itself.
        follow_links: True to look behind links as well.
    """
    return f"{path} {depth} {follow_links}"


class CountingModel(ScriptedModel):
    """A model whose provider counts a share of what we count, and some tokens beside it."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__(otherwise=self._answer, window=100_000)
        self.share = chance.choice([0.05, 0.2, 0.5, 0.9, 1.0, 1.1])
        self.beside = chance.choice([0, 0, 20, 300])
        self.counts_tools = chance.random() < 0.5
        self.prompts: list[int] = []

    def _answer(self, request: Json) -> Reply:
        counted = request if self.counts_tools else {**request, "tools": []}
        prompt = max(1, int(self.share * count_request(counted, Estimator())) + self.beside)
        self.prompts.append(prompt)
        content = [{"type": "text", "text": "a short answer"}]
        return Reply(content=content, raw_usage={"input_tokens": prompt, "output_tokens": 4})


@pytest.mark.parametrize("seed", range(max(6, EXAMPLES[RUN] // 4)))
def test_context_calls_and_totals_agree(seed: int, tmp_path: Path) -> None:
    """The parts add up; `measured` means near the last call; totals are the sums of the calls."""
    chance = random.Random(seed)
    model = CountingModel(chance)
    options: dict[str, Any] = {"tools": [look] if chance.random() < 0.7 else []}
    options["system"] = "Be brief. " * chance.choice([0, 1, 40])
    with Session.open("s", model=model, store=str(tmp_path), **options) as session:
        for number in range(chance.randint(1, 4)):
            reply = session.say(f"question {number} " + "word " * chance.randint(0, 200))
            assert reply.usage is not None
            status, plan = session.status(), session.plan()
            tokens = plan.tokens
            assert tokens.total == tokens.messages + tokens.system + tokens.tools + tokens.hidden
            assert (status.tokens, status.messages_tokens) == (tokens.total, tokens.messages)
            assert status.prompt_tokens == sum(model.prompts)
            assert status.output_tokens == 4 * len(model.prompts)
            assert status.calls == len(model.prompts)
            if status.basis == "measured":
                # the reply is in the next request, and was not in the measured one
                answer = 12
                expected = reply.usage.prompt + answer
                room = max(TOLERANCE_TOKENS, TOLERANCE_SHARE * expected)
                assert abs(status.tokens - expected) <= room, (status.tokens, expected)


def test_every_display_says_the_same_numbers(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """`Session.status`, `holdfast context --json` and `holdfast inspect --json` agree."""
    root = str(tmp_path)
    with Session.open("s", model="offline", store=root) as session:
        for number in range(3):
            session.say(f"question {number} with some words")
        status = session.status()
        plan = session.plan()
    shown = run_in_process(["context", "s", "--root", root, "--model", "offline", "--json"], capfd)
    found = shown.json
    assert found["tokens"] == json.loads(msgspec.json.encode(plan.tokens))
    assert found["tokens"]["total"] == status.tokens
    inspected = run_in_process(["inspect", "s", "--root", root, "--json"], capfd).json
    assert inspected["spent"]["calls"] == status.calls
    assert inspected["spent"]["prompt"] == status.prompt_tokens


TEXT = "It rains."
BODIES: dict[str, Json] = {
    "anthropic:claude-sonnet-5-5": {
        "content": [{"type": "text", "text": TEXT}],
        "usage": {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 7},
    },
    "openai:gpt-5.5": {
        "output": [{"type": "message", "content": [{"type": "output_text", "text": TEXT}]}],
        "usage": {
            "input_tokens": 100,
            "input_tokens_details": {"cached_tokens": 90},
            "output_tokens": 7,
        },
    },
    "openai-chat:gpt-4.1": {
        "choices": [{"message": {"content": TEXT}}],
        "usage": {
            "prompt_tokens": 100,
            "prompt_tokens_details": {"cached_tokens": 90},
            "completion_tokens": 7,
        },
    },
    "gemini:gemini-2.5-pro": {
        "candidates": [{"content": {"parts": [{"text": TEXT}]}}],
        "usageMetadata": {
            "promptTokenCount": 100,
            "cachedContentTokenCount": 90,
            "candidatesTokenCount": 5,
            "thoughtsTokenCount": 2,
        },
    },
}
"""One call of 100 input tokens, 90 of them cached, and 7 of output, as each API reports it."""


def answers(way: str, model: str, root: str) -> tuple[Reply, list[Record]]:
    """Get one reply on one of the ways in, and the records of its session."""
    body = BODIES[model]

    async def awaited() -> tuple[Reply, list[Record]]:
        async with await AsyncSession.open("s", model=model, store=root) as session:
            await session.own_loop.add_user("And the weather?")
            if way == "await call":
                reply = await session.own_loop.call(lambda _request: body)
            else:
                await session.own_loop.prepare()
                reply = await session.own_loop.record(body)
            return reply, await session.messages()

    if way.startswith("await"):
        return asyncio.run(awaited())
    with Session.open("s", model=model, store=root) as session:
        session.own_loop.add_user("And the weather?")
        if way == "call":
            return session.own_loop.call(lambda _request: body), session.messages()
        session.own_loop.prepare()
        return session.own_loop.record(body), session.messages()


@pytest.mark.parametrize("model", BODIES)
@pytest.mark.parametrize("way", ["call", "record", "await call", "await record"])
def test_usage_is_the_same_for_every_provider_and_way(way: str, model: str, tmp_path: Path) -> None:
    """`usage` has one meaning, `raw_usage` the provider's words, which the record keeps."""
    reply, records = answers(way, model, str(tmp_path))
    (stored,) = (record for record in records if isinstance(record, Assistant))
    reported = next(value for name, value in BODIES[model].items() if name.startswith("usage"))

    assert reply.text == TEXT
    assert reply.usage is not None
    shown = (reply.usage.prompt, reply.usage.cached_read, reply.usage.output)
    assert shown == (100, 90, 7)
    assert reply.raw_usage == stored.usage == reported
    assert reply.usage == read_usage(stored.usage, stored.provider or "")


@pytest.mark.parametrize("way", ["call", "await call"])
def test_a_reply_of_a_model_of_ones_own_names_the_provider_that_was_called(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model that leaves `provider` empty gets the same usage as the record of its reply."""
    model = "anthropic:claude-sonnet-5-5"
    usage = {"input_tokens": 40, "output_tokens": 7}
    bare = Reply(content=[{"type": "text", "text": TEXT}], raw_usage=usage)
    monkeypatch.setitem(BODIES, model, bare)

    reply, records = answers(way, model, str(tmp_path))
    (stored,) = (record for record in records if isinstance(record, Assistant))

    assert reply.provider == stored.provider == "anthropic"
    assert reply.usage == read_usage(stored.usage, stored.provider or "")
