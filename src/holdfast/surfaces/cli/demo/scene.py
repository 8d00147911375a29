"""What the demo knows of its session so far: every figure it shows is summed up here."""

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
    """A tool that ran, or runs."""

    call: str
    tool: str
    what: str
    chars: int | None = None
    is_error: bool = False
    is_killed: bool = False


@dataclass(frozen=True, slots=True)
class Happening:
    """Something worth a line."""

    call: int
    mood: Mood
    head: str
    text: str


@dataclass(slots=True)
class Scene:
    """Takes frames and adds them up."""

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
    calling: frames.Calling | None = None
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
    refused: list[frames.Refused] = field(default_factory=list)
    learned: list[int] = field(default_factory=list)
    pruned: list[frames.Pruned] = field(default_factory=list)
    compactions: list[frames.Compacted] = field(default_factory=list)
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
        """How much of what the agent was sent came from the provider's cache."""
        return self.cached / self.sent if self.sent else 0.0

    @property
    def trimmed(self) -> int:
        return sum(one.trimmed for one in self.pruned)

    @property
    def cleared(self) -> int:
        return sum(one.cleared for one in self.pruned)

    def add(self, mood: Mood, head: str, text: str) -> None:
        self.happenings.append(Happening(self.call, mood, head, text))

    def take(self, frame: frames.Frame) -> None:
        """Add one frame."""
        match frame:
            case frames.Asked():
                self.turn, self.turns, self.words = frame.turn, frame.turns, frame.text
                if frame.away_seconds:
                    self._is_cold = True
                    minutes = f"{frame.away_seconds / 60:.0f} minutes"
                    self.add("plain", "away", f"the user was away for {minutes}: the cache is cold")
            case frames.Calling():
                self.calling = frame
            case frames.Answered(purpose="turn"):
                self._answered(frame)
            case frames.Answered():
                self.helper_calls += 1
                self.helper_sent += frame.prompt
                self.cost += frame.cost
            case frames.ToolBegan():
                self.tools.append(ToolLine(frame.call, frame.tool, frame.what))
            case frames.ToolEnded():
                self._ended(frame)
            case frames.Stored():
                self.acknowledged += frame.ids
            case frames.Finished():
                self.last_request = frame.request
            case _:
                self._happened(frame)

    def _answered(self, frame: frames.Answered) -> None:
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
        # A client that keeps everything reads what it sent before from the cache and adds to it.
        before = 0 if self._is_cold else self.whole_largest
        self._is_cold = False
        paid = before * price.cache_read + (whole - before) * price.cache_write
        self.whole_cost += (paid + frame.output * price.output) / 1_000_000
        self.whole_sent += whole
        self.whole_cached += before
        self.whole_largest = whole
        if self.overflow_call is None and whole > self.real:
            self.overflow_call = self.calling.call

    def _ended(self, frame: frames.ToolEnded) -> None:
        for line in reversed(self.tools):
            if line.call == frame.call:
                line.chars, line.is_error = frame.chars, frame.is_error
                return

    def _happened(self, frame: frames.Frame) -> None:
        match frame:
            case frames.Refused():
                self.refused.append(frame)
                self.add("bad", "refused", f"“{title_of(frame.said)}”")
                self.add("note", "guard", f"made smaller and sent again: {frame.remedy}")
            case frames.Learned():
                self.learned.append(frame.tokens)
                known = f"{frame.tokens:,} tokens, not {frame.before:,}"
                self.add("note", "window", f"learned from the refusal: {known}")
            case frames.MovedOut():
                what = f"{frame.bytes:,} bytes of {frame.kind}: a preview stays, ref {frame.ref}"
                self.add("cut", "offload", what)
            case frames.Pruned():
                self.pruned.append(frame)
                size = f"{frame.before:,} → {frame.after:,} tokens"
                counts = {"trimmed": frame.trimmed, "cleared": frame.cleared}
                what = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
                self.add("cut", "prune", f"old results {what}: {size}")
            case frames.Compacted():
                self.compactions.append(frame)
                size = f"{frame.before:,} → {frame.after:,} tokens"
                left = f"{frame.messages} messages give way to {frame.summary:,}"
                self.add("cut", "compaction", f"{size}: {left} ({_REASONS[frame.reason]})")
            case frames.Noted():
                self.notes += frame.notes
                for note in frame.notes:
                    self.add("note", "noted", title_of(note))
            case frames.Told():
                self.told += frame.calls
                calls = ", ".join(frame.calls)
                self.add("good", "told", f"the model knows that {calls} was interrupted; not rerun")
            case frames.Noticed():
                self.add("bad", "noticed", f"{frame.kind}: {frame.detail}")
            case _:
                pass
