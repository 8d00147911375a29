"""A session asks for the cache lifetime that its own pauses and its model's prices favour."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from holdfast import Session
from holdfast.models import target
from holdfast.stores.jsonl.store import JsonlStore
from holdfast.testing import ScriptedModel

if TYPE_CHECKING:
    from pathlib import Path

    from holdfast.core.log.records import Json

CLAUDE = target("anthropic", provider="anthropic", model="claude-opus-5-5")
SOL = target("openai-responses", provider="openai", model="gpt-6-sol")
OLD = target("openai-responses", provider="openai", model="gpt-5")
HOSTED = target("openai-chat:local", provider="localhost:8080", model="gpt-6-sol")


class Life:
    """A session with a clock of its own."""

    def __init__(self, root: Path, whom: Any, session: str = "s") -> None:
        self.now = 1_000_000.0
        self.model = ScriptedModel(otherwise="Yes.", target=whom, window=200_000)
        self._root, self._session = root, session

    def say(self, pause: float) -> Json:
        """Open the session, as a new process does, say something, and return the request."""
        self.now += pause
        with Session.open(
            self._session, store=JsonlStore(self._root, clock=lambda: self.now), model=self.model
        ) as session:
            session.say("Go on, please. " * 400)
        return self.model.requests[-1]


def lifetime(request: Json) -> str:
    """The lifetime that a request to Anthropic asks for; all of its marks have the same."""
    found = [
        block["cache_control"].get("ttl", "5m")
        for message in request["messages"]
        for block in message["content"]
        if "cache_control" in block
    ]
    assert len(set(found)) <= 1
    return found[0] if found else "none"


def test_the_lifetime_follows_the_pauses(tmp_path: Path) -> None:
    """Five minutes at first; an hour for a person who takes ten minutes, from the second time on,
    in whatever process."""
    life = Life(tmp_path, CLAUDE)
    first = [lifetime(life.say(30.0)) for _ in range(12)]
    assert set(first) == {"5m"}
    slow = [lifetime(life.say(600.0)) for _ in range(4)]
    assert slow[1:] == ["1h"] * 3
    quick = [lifetime(life.say(20.0)) for _ in range(40)]
    assert quick[0] == "1h", "one quick reply is no habit"
    assert sum(a != b for a, b in pairwise(quick)) <= 1


def test_the_caller_has_the_last_word(tmp_path: Path) -> None:
    hour = target("anthropic", provider="anthropic", model="claude-opus-5-5", cache="1h")
    none = target("anthropic", provider="anthropic", model="claude-opus-5-5", cache="none")
    assert {lifetime(Life(tmp_path, hour, "a").say(10.0)) for _ in range(3)} == {"1h"}
    assert lifetime(Life(tmp_path, none, "b").say(10.0)) == "none"


def test_openai_is_asked_for_what_its_model_has(tmp_path: Path) -> None:
    """Half an hour from GPT-5.6 on, a day before, never the twelve hours that no page names."""
    life = Life(tmp_path, SOL)
    requests = [life.say(pause) for pause in (10.0, 600.0, 2_000.0, 2_000.0)]
    assert requests[0]["prompt_cache_options"] == {"ttl": "30m"}
    assert {request["prompt_cache_options"].get("ttl") for request in requests} <= {"30m", None}
    assert all("prompt_cache_retention" not in request for request in requests)
    old = Life(tmp_path, OLD, "old").say(10.0)
    assert old["prompt_cache_retention"] == "24h"
    assert "prompt_cache_options" not in old


def test_the_key_is_the_session_s_and_goes_to_hosts_that_take_it(tmp_path: Path) -> None:
    life = Life(tmp_path, SOL, "private-name")
    keys = {life.say(10.0)["prompt_cache_key"] for _ in range(2)}
    assert len(keys) == 1
    other = Life(tmp_path, SOL, "other").say(10.0)["prompt_cache_key"]
    assert keys != {other}
    assert "private" not in keys.pop()
    hosted = Life(tmp_path, HOSTED, "hosted").say(10.0)
    assert not [name for name in hosted if name.startswith("prompt_cache")]
    assert "prompt_cache_key" not in Life(tmp_path, CLAUDE, "claude").say(10.0)
