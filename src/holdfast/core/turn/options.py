"""The options of a session's run that a caller may choose, and their limits."""

from __future__ import annotations

from typing import Any, Final, Literal

import msgspec

from holdfast.core.flow.arguments import shorten
from holdfast.core.projection.policy import Policy, PolicyName, policy_of
from holdfast.errors import BadSetting

SummaryWriter = Literal["model", "extract"]
_WRITERS: Final = ("model", "extract")


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The bounds of a turn, its recovery and its summaries. The defaults fit most uses."""

    steps: int = 50
    """The most model calls of one turn."""
    output_tokens: int | None = None
    """The longest reply; None for a share of the window."""
    floor: int | None = None
    """The smallest window to accept; None for the model's own floor, or 16,000 tokens."""
    recovery_calls: int = 4
    """The most additional calls that one reply may take after refusals; three of them where more
    than the size was refused."""
    waits: int = 4
    """The most waits for a busy provider, for one reply."""
    wait_seconds: float = 60.0
    """The longest of these waits."""
    summary_calls: int = 3
    """The most model calls that one compaction may make."""
    summary_tokens: int = 6_000
    """The longest summary, where a quarter of the carry-over is not less."""
    summary_seconds: float = 120.0
    """The deadline of one summary call; after it, the summary is made without a model."""
    marks: tuple[float, ...] = ()
    """Shares of the room until the next cut, as `(0.5, 0.7, 0.85)`: the model gets a line when its
    context passes one, and after a cut. None: it is told nothing."""
    approvals: Any = ()
    """Rules that say which calls need whose approval: a TOML file, or its tables."""

    def __post_init__(self) -> None:
        marks: Any = self.marks
        are_shares = isinstance(marks, tuple | list) and all(
            isinstance(mark, float) and 0 < mark < 1 for mark in marks
        )
        if not are_shares:
            raise BadSetting(
                f"the limit `marks` cannot be {shorten(self.marks)}",
                hint="pass shares between 0 and 1, as `(0.5, 0.7, 0.85)`",
            )
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is None and name in _MAY_BE_NONE:
                continue
            kinds: Any = int | float if name.endswith("_seconds") else int
            wanted = "a number of seconds" if name.endswith("_seconds") else "a whole number"
            if not isinstance(value, kinds) or isinstance(value, bool):
                raise BadSetting(
                    f"the limit `{name}` cannot be {shorten(value)}", hint=f"pass {wanted}"
                )
            if not value >= least:  # also for a number that is none
                raise BadSetting(
                    f"the limit `{name}` cannot be {value}", hint=f"give at least {least}"
                )


_LEAST: Final = {
    "steps": 1,
    "output_tokens": 1,
    "floor": 0,
    "recovery_calls": 0,
    "waits": 0,
    "wait_seconds": 0,
    "summary_calls": 1,
    "summary_tokens": 1,
    "summary_seconds": 0,
}
_MAY_BE_NONE: Final = ("output_tokens", "floor")


class Summary(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The writer of the summaries of compactions."""

    writer: SummaryWriter = "model"
    """A model, in addition to the carry-over, or no model at all (`extract`)."""
    model: Any = None
    """Another model for summaries, by name or as an object; None for the session's own."""
    ahead: bool = False
    """Have the summary for the next cut written ahead, while the session waits for tools or the
    user. The model has to take two calls at once."""

    def __post_init__(self) -> None:
        check_word("summary", self.writer, _WRITERS)
        if not isinstance(self.ahead, bool):
            raise BadSetting(
                f"`ahead` of a `Summary` cannot be {shorten(self.ahead)}",
                hint="pass True or False",
            )


class RunOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of a run that a caller may choose."""

    system: str = ""
    """The system prompt. Keep it the same in every request, or the prompt cache is lost."""
    policy: Policy | PolicyName = Policy()
    """When to shorten old results and when to cut: thresholds, or a name (`thrifty`, `balanced`,
    `faithful`)."""
    summary: SummaryWriter | Summary = "model"
    """The writer of summaries: `model`, `extract`, or a `Summary` that says more, such as another
    model for them."""
    notes: Literal["model", "off"] = "off"
    """The writer of notes before a compaction: a model, or no one."""
    checkpoints: Literal["cuts", "turns", "off"] = "cuts"
    """When to store checkpoints: before each compaction, or also after each turn and on close."""
    limits: Limits = Limits()
    """The bounds of a turn, its recovery and its summaries, and the calls that need approval."""

    def __post_init__(self) -> None:
        policy_of(self.policy)  # raises where there is no such policy
        if not isinstance(self.summary, Summary):
            check_word("summary", self.summary, _WRITERS, ", or a `Summary(…)`")
        if not isinstance(self.limits, Limits):
            raise BadSetting(
                f"`limits` cannot be {shorten(self.limits)}", hint="pass `Limits(steps=…)`"
            )

    @property
    def summarising(self) -> Summary:
        """The choice of `summary`, spelled out."""
        given = self.summary
        return given if isinstance(given, Summary) else Summary(writer=given)


def check_word(name: str, value: object, words: tuple[str, ...], more: str = "") -> None:
    """Raise `BadSetting` where the value of an option is none of its words."""
    if value not in words:
        known = ", ".join(f'"{word}"' for word in words)
        raise BadSetting(f"`{name}` cannot be {shorten(value)}", hint=f"pass {known}{more}")
