"""What `inspect` found out about one conversation, for the terminal and for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.projection.ledger import totals
from holdfast.core.projection.project import project
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool
    from holdfast.core.models.window import Window
    from holdfast.core.projection.inspection import Inspection
    from holdfast.core.projection.view import Remembered


class Kept(msgspec.Struct, frozen=True):
    """What a projection at one window would keep."""

    window: int
    tokens: int
    budget: int
    actions: dict[str, dict[str, int]]
    refusal: str = ""


class Report(msgspec.Struct, frozen=True):
    """One conversation, looked at."""

    name: str
    source: str
    inspection: Inspection
    kept: list[Kept]


def kept_at(
    records: Sequence[Record],
    window: Window,
    aim: Target,
    *,
    system: str = "",
    tools: tuple[Tool, ...] = (),
    memory: Remembered,
) -> Kept:
    """What a projection at one window keeps."""
    try:
        plan = project(records, window, aim, system=system, tools=tools, memory=memory, floor=0)
    except CannotFit as error:
        return Kept(window.tokens, 0, 0, {}, str(error))
    actions = {
        action: {"records": count, "before": before, "after": after}
        for action, (count, before, after) in totals(plan.ledger).items()
        if action != "silent"
    }
    return Kept(window.tokens, plan.tokens.total, plan.budget.tokens, actions)
