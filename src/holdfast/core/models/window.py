"""The model's window, and the share of it that messages may take.

budget = ratio × (window − output reserve − static − dynamic reserve)

`static` is what every request repeats: the system prompt and the tools' schemas.
The dynamic reserve is for what the providers add and no estimate sees. It gives way where it would
leave less than the minimum for messages.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.limits import (
    MESSAGES_TOKENS_MIN,
    OUTPUT_RESERVE_TOKENS,
    WINDOW_FLOOR_TOKENS,
)
from holdfast.core.log.records import Assistant, Compaction, ModelChange, Prune
from holdfast.core.models.usage import read_usage
from holdfast.core.window import Window
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record

DYNAMIC_RESERVE_TOKENS: Final = 1_200
DYNAMIC_RESERVE_SHARE: Final = 0.08
RATIO_ESTIMATED: Final = 0.9
RATIO_ANCHORED: Final = 0.97
"""With exact counts, or sizes that start from what the provider measured."""
_RECORDED: Final = "as the session recorded it"
_CUT_FOR: Final = "for which the view was cut last"


def window_in(records: Sequence[Record], model: str) -> Window | None:
    """Return the window that a log has for a model; None where it has none, or it was forgotten.

    The newest `model` record of the model decides.
    """
    for record in reversed(records):
        if isinstance(record, ModelChange) and record.model == model:
            tokens = record.window or 0
            return Window(tokens, _RECORDED, "learned") if tokens > 0 else None
    return None


def largest_prompt(records: Sequence[Record], model: str) -> int:
    """Return the size of the largest request that a model answered; 0 where none was measured."""
    usages = (
        read_usage(record.usage, record.provider or "")
        for record in records
        if isinstance(record, Assistant) and record.model == model
    )
    return max((usage.prompt for usage in usages if usage is not None), default=0)


def turn_window(records: Sequence[Record], model: str, stated: Window, floor: int) -> Window:
    """Return the window that turns work in whose program states one: a smaller one that the log
    has for the model comes first, as long as nothing larger was answered."""
    recorded = window_in(records, model)
    least = max(floor, largest_prompt(records, model))
    if recorded is not None and least <= recorded.tokens < stated.tokens:
        return recorded
    return stated


def model_in(records: Sequence[Record]) -> tuple[str, str]:
    """Return the provider and model that answered last, or were chosen since."""
    for record in reversed(records):
        if isinstance(record, Assistant | ModelChange) and record.model and record.model[0] != "<":
            return record.provider or "", record.model
    return "", ""


def likely_window(records: Sequence[Record], model: str) -> Window | None:
    """Return the window that a session works in, and how its log tells; None where it does not.

    A window that a program states is in no record. The newest decision to shorten the view names
    the window it was made for; a larger request that was answered since shows that it was another.
    """
    if any(isinstance(record, ModelChange) and record.model == model for record in records):
        return window_in(records, model)
    largest = 0
    for record in reversed(records):
        match record:
            case Compaction() | Prune() if record.window:
                return (
                    Window(record.window, _CUT_FOR, "learned") if largest <= record.window else None
                )
            case ModelChange():
                return None
            case Assistant():
                usage = read_usage(record.usage, record.provider or "")
                largest = max(largest, usage.prompt if usage is not None else 0)
            case _:
                pass  # says nothing of a window
    return None


class Budget(msgspec.Struct, frozen=True):
    """The sums behind a budget, each part by name."""

    window: Window
    output_reserve: int
    system: int
    tools: int
    dynamic_reserve: int
    ratio: float
    hidden: int = 0
    """Tokens that the provider measured beyond our count; they are in every request."""
    at_most: int | None = None
    """A bound on the whole request where a larger one was refused."""

    @property
    def static(self) -> int:
        return self.system + self.tools + self.hidden

    @property
    def available(self) -> int:
        return self.window.tokens - self.output_reserve - self.static - self.dynamic_reserve

    @property
    def tokens(self) -> int:
        """Return the tokens that the messages of the log may take.

        No ratio makes it smaller than the minimum that the window itself leaves. A bound does: it
        is for one recovery, and the next request has to be smaller than the refused one.
        """
        left = self.window.tokens - self.output_reserve - self.static
        free = max(int(self.ratio * self.available), min(MESSAGES_TOKENS_MIN, left))
        if self.at_most is not None:
            free = min(free, self.at_most - self.static)
        return max(0, free)

    def parts(self) -> dict[str, int]:
        """Everything that takes room beside the messages, the largest first."""
        named = {
            "output_reserve": self.output_reserve,
            "system": self.system,
            "tools": self.tools,
            "hidden": self.hidden,
            "dynamic_reserve": self.dynamic_reserve,
        }
        return dict(sorted(named.items(), key=lambda item: -item[1]))

    @property
    def sums(self) -> str:
        """Return the parts as a sum, the largest first."""
        return " + ".join(f"{name} {tokens:,}" for name, tokens in self.parts().items() if tokens)

    def ways_out(self) -> str:
        """Return what a caller can do so that the minimum for messages is left.

        Only ways that are enough by themselves are named.
        """
        left = self.window.tokens - self.output_reserve - self.system - self.tools
        missing = MESSAGES_TOKENS_MIN - left
        ways = [
            way
            for tokens, way in (
                (self.system, f"shorten the system prompt by {missing:,} tokens"),
                (self.tools, f"pass fewer or shorter tools (by {missing:,} tokens)"),
                (
                    self.output_reserve - 1,
                    f"ask for a reply of at most {self.output_reserve - missing:,} tokens "
                    "(`output_tokens`)",
                ),
            )
            if tokens >= missing
        ]
        # The default reserve grows with the window, by a quarter of it.
        enough = self.window.tokens + -(-4 * missing // 3) + 1
        return ", or ".join((*ways, f"use a window of at least {enough:,} tokens"))


def check_floor(window: Window, floor: int) -> None:
    """Refuse a window that is too small to be meant."""
    if window.tokens < floor:
        raise CannotFit(
            f"a window of {window.tokens:,} tokens ({window.source}) is below the floor of "
            f"{floor:,}",
            parts={"window": window.tokens, "floor": floor},
            hint="use a model with a larger window, or lower `floor` if you mean it",
        )


def output_reserve(window: Window) -> int:
    """Return the default number of tokens kept free for the reply."""
    return min(OUTPUT_RESERVE_TOKENS, window.tokens // 4)


def budget_for(
    window: Window,
    *,
    system: int = 0,
    tools: int = 0,
    hidden: int = 0,
    output: int | None = None,
    is_anchored: bool = False,
    floor: int = WINDOW_FLOOR_TOKENS,
    at_most: int | None = None,
) -> Budget:
    """The budget of one request. Raises `CannotFit` where nothing is left for messages."""
    size = window.tokens
    reserve = output_reserve(window) if output is None else output
    spare = max(0, size - reserve - system - tools - MESSAGES_TOKENS_MIN)
    hidden = min(hidden, spare)
    dynamic = max(DYNAMIC_RESERVE_TOKENS, int(DYNAMIC_RESERVE_SHARE * size))
    budget = Budget(
        window=window,
        output_reserve=reserve,
        system=system,
        tools=tools,
        dynamic_reserve=min(dynamic, spare - hidden),
        ratio=RATIO_ANCHORED if is_anchored else RATIO_ESTIMATED,
        hidden=hidden,
        at_most=at_most,
    )
    check_floor(window, floor)
    if budget.tokens <= 0:
        raise CannotFit(
            f"nothing of the {size:,} token window ({window.source}) is left for messages: "
            f"{budget.sums}",
            parts={"window": size, "budget": 0, **budget.parts()},
            hint=budget.ways_out(),
        )
    return budget
