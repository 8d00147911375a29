"""The state of the demo: adds up frames into the figures that it shows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal

from holdfast.core.log.listing import title_of
from holdfast.surfaces.cli.demo import frames

if TYPE_CHECKING:
    from holdfast.core.models.prices import Price

Mood = Literal["good", "bad", "cut", "note", "plain"]
_REASONS: Final = {
    "full": "full",
    "cold": "cold",
    "overflow": "refused",
    "asked": "asked for",
}


@dataclass(slots=True)
class ToolLine:
    """A tool call and its result."""

    call: str
    tool: str
    what: str
    chars: int | None = None
    is_error: bool = False
    is_killed: bool = False


@dataclass(frozen=True, slots=True)
class Happening:
    """A line about something the engine did."""

    call: int
    mood: Mood
    head: str
    text: str


@dataclass(slots=True)
class Scene:
    """Adds up frames."""

    title: str
    price: Price
    stated: int
    real: int
    turn: int = 0
    turns: int = 0
    words: str = ""
    said: str = ""
    tools: list[ToolLine] = field(default_factory=list)
    happenings: list[Happening] = field(default_factory=list)
    calling: frames.RequestFrame | None = None
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
    over_window: int = 0
    """Answered requests that were larger than the provider's window."""
    whole_sent: int = 0
    whole_largest: int = 0
    whole_cached: int = 0
    whole_cost: float = 0.0
    overflow_call: int | None = None
    """The first call at which the whole history no longer fits the provider's window."""
    refused: list[frames.RefusalFrame] = field(default_factory=list)
    learned: list[int] = field(default_factory=list)
    pruned: list[frames.PruneFrame] = field(default_factory=list)
    compactions: list[frames.CompactionFrame] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    acknowledged: list[str] = field(default_factory=list)
    last_request: list[str] = field(default_factory=list)
    _is_cold: bool = False

    @property
    def call(self) -> int:
        return self.calling.call if self.calling else 0

    @property
    def cache_share(self) -> float:
        """The share of the input that came from the provider's cache."""
        return self.cached / self.sent if self.sent else 0.0

    @property
    def trim_count(self) -> int:
        return sum(frame.trimmed for frame in self.pruned)

    @property
    def clear_count(self) -> int:
        return sum(frame.cleared for frame in self.pruned)

    def add(self, mood: Mood, head: str, text: str) -> None:
        self.happenings.append(Happening(self.call, mood, head, text))

    def take(self, frame: frames.Frame) -> None:
        """Add a frame."""
        match frame:
            case frames.TurnFrame():
                self.turn, self.turns, self.words = frame.turn, frame.turns, frame.text
                if frame.away_seconds:
                    self._is_cold = True
                    minutes = f"{frame.away_seconds / 60:.0f} minutes"
                    self.add("plain", "away", f"the user was away for {minutes}: the cache is cold")
            case frames.RequestFrame():
                self.calling = frame
            case frames.ReplyFrame(purpose="turn"):
                self._add_reply(frame)
            case frames.ReplyFrame():
                self.helper_calls += 1
                self.helper_sent += frame.prompt
                self.cost += frame.cost
            case frames.ToolStartFrame():
                self.tools.append(ToolLine(frame.call, frame.tool, frame.what))
            case frames.ToolEndFrame():
                self._end_tool(frame)
            case frames.StoredFrame():
                self.acknowledged += frame.ids
            case frames.EndFrame():
                self.last_request = frame.request
            case _:  # every other frame is worth a line
                self._add_happening(frame)

    def _add_reply(self, frame: frames.ReplyFrame) -> None:
        assert self.calling is not None
        self.calls += 1
        self.sent += frame.prompt
        self.cached += frame.cached
        self.output += frame.output
        self.cost += frame.cost
        self.said = title_of(frame.text) or self.said
        self.largest = max(self.largest, frame.prompt)
        self.over_window += frame.prompt > self.real
        whole, price = self.calling.whole, self.price
        # A client without compaction reads its last request from the cache and adds to it.
        before = 0 if self._is_cold else self.whole_largest
        self._is_cold = False
        paid = before * price.cache_read + (whole - before) * price.cache_write
        self.whole_cost += (paid + frame.output * price.output) / 1_000_000
        self.whole_sent += whole
        self.whole_cached += before
        self.whole_largest = whole
        if self.overflow_call is None and whole > self.real:
            self.overflow_call = self.calling.call

    def _end_tool(self, frame: frames.ToolEndFrame) -> None:
        for line in reversed(self.tools):
            if line.call == frame.call:
                line.chars, line.is_error = frame.chars, frame.is_error
                return

    def _add_happening(self, frame: frames.Frame) -> None:
        match frame:
            case frames.RefusalFrame():
                self.refused.append(frame)
                self.add("bad", "refused", f"“{title_of(frame.said)}”")
                self.add("note", "guard", f"made smaller and sent again: {frame.remedy}")
            case frames.WindowFrame():
                self.learned.append(frame.tokens)
                known = f"{frame.tokens:,} tokens, not {frame.before:,}"
                self.add("note", "window", f"learned from the refusal: {known}")
            case frames.OffloadFrame():
                what = f"{frame.bytes:,} bytes of {frame.kind}: a preview stays, ref {frame.ref}"
                self.add("cut", "offload", what)
            case frames.PruneFrame():
                self.pruned.append(frame)
                size = f"{frame.before:,} → {frame.after:,} tokens"
                counts = {"trimmed": frame.trimmed, "cleared": frame.cleared}
                what = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
                self.add("cut", "prune", f"old results {what}: {size}")
            case frames.CompactionFrame():
                self.compactions.append(frame)
                size = f"{frame.before:,} → {frame.after:,} tokens"
                left = f"{frame.messages} messages give way to {frame.summary:,}"
                self.add("cut", "compaction", f"{size}: {left} ({_REASONS[frame.reason]})")
            case frames.NotesFrame():
                self.notes += frame.notes
                for note in frame.notes:
                    self.add("note", "noted", title_of(note))
            case frames.InterruptFrame():
                self.told += frame.calls
                calls = ", ".join(frame.calls)
                self.add("good", "told", f"the model knows that {calls} was interrupted; not rerun")
            case frames.TroubleFrame():
                self.add("bad", "noticed", f"{frame.kind}: {frame.detail}")
            case _:  # `take` has handled the other frames
                pass
