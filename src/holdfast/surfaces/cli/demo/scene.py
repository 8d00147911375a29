"""The state of the demo: what the agent did, and the figures that the demo shows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import msgspec

from holdfast.core.log.listing import title_of

if TYPE_CHECKING:
    from holdfast.core.models.prices import Price

Mood = Literal["good", "bad", "cut", "note", "plain"]


class ToolLine(msgspec.Struct):
    """A tool call and its result."""

    call: str
    tool: str
    what: str
    chars: int | None = None
    """None while its call is in the log and its result is not."""
    is_error: bool = False
    is_killed: bool = False


class Happening(msgspec.Struct, frozen=True):
    """A line about something the engine did."""

    call: int
    mood: Mood
    head: str
    text: str


class DemoRequest(msgspec.Struct, frozen=True):
    """A request as it is about to be sent."""

    call: int
    """The number of the recorded reply that it asks for, from 1."""
    tokens: int
    limit: int
    parts: dict[str, int]
    """Tokens by part: fixed (system prompt and tools), summary, user, agent, results."""
    whole: int
    """Tokens of the request if it contained the whole history."""


class SceneCut(msgspec.Struct, frozen=True):
    """A compaction."""

    record: str
    method: str
    messages: int


class Scene(msgspec.Struct, kw_only=True):
    """The demo so far; the killed process sends the whole of it after each step."""

    title: str
    stated: int
    real: int
    turn: int = 0
    turns: int = 0
    words: str = ""
    said: str = ""
    tools: list[ToolLine] = []
    happenings: list[Happening] = []
    calling: DemoRequest | None = None
    calls: int = 0
    """Requests that the agent answered."""
    helper_calls: int = 0
    """Requests for summaries and notes."""
    sent: int = 0
    helper_sent: int = 0
    cached: int = 0
    output: int = 0
    cost: float = 0.0
    largest: int = 0
    sizes: list[int] = []
    """Tokens of each answered request."""
    over_window: int = 0
    """Answered requests that were larger than the provider's window."""
    whole_sent: int = 0
    whole_largest: int = 0
    whole_cached: int = 0
    whole_cost: float = 0.0
    overflow_call: int | None = None
    """The first call at which the whole history no longer fits the provider's window."""
    refused: int = 0
    trimmed: int = 0
    cleared: int = 0
    compactions: list[SceneCut] = []
    notes: list[str] = []
    told: list[str] = []
    acknowledged: list[str] = []
    last_request: list[str] = []
    is_cold: bool = False

    @property
    def cache_share(self) -> float:
        """The share of the input that came from the provider's cache."""
        return self.cached / self.sent if self.sent else 0.0

    def add(self, mood: Mood, head: str, text: str) -> None:
        call = self.calling.call if self.calling else 0
        self.happenings.append(Happening(call, mood, head, text))

    def ask(self, turn: int, turns: int, words: str, away_seconds: float) -> None:
        """Let the user say something, after a pause."""
        self.turn, self.turns, self.words = turn, turns, words
        if away_seconds:
            self.is_cold = True
            minutes = f"{away_seconds / 60:.0f} minutes"
            self.add("plain", "away", f"the user was away for {minutes}: the cache is cold")

    def add_reply(self, prompt: int, cached: int, output: int, text: str, price: Price) -> None:
        """Count a reply, and what a client without compaction would have paid for it."""
        assert self.calling is not None
        self.calls += 1
        self.sent += prompt
        self.cached += cached
        self.output += output
        self.said = title_of(text) or self.said
        self.largest = max(self.largest, prompt)
        self.sizes.append(prompt)
        self.over_window += prompt > self.real
        whole = self.calling.whole
        # Such a client reads its last request from the cache and adds to it.
        before = 0 if self.is_cold else self.whole_largest
        self.is_cold = False
        paid = before * price.cache_read + (whole - before) * price.cache_write
        self.whole_cost += (paid + output * price.output) / 1_000_000
        self.whole_sent += whole
        self.whole_cached += before
        self.whole_largest = whole
        if self.overflow_call is None and whole > self.real:
            self.overflow_call = self.calling.call

    def end_tool(self, call: str, chars: int, *, is_error: bool) -> None:
        line = next((each for each in reversed(self.tools) if each.call == call), None)
        if line is not None:
            line.chars, line.is_error = chars, is_error
