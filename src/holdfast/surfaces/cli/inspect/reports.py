"""The report of `inspect` on one conversation, for the terminal and for the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.projection.ledger import totals
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.errors import CannotFit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool
    from holdfast.core.models.window import Window
    from holdfast.core.projection.inspection import Inspection
    from holdfast.core.projection.view import ProjectionCache


class WindowFit(msgspec.Struct, frozen=True):
    """The projection of a conversation to one window."""

    window: int
    tokens: int
    budget: int
    actions: dict[str, dict[str, int]]
    refusal: str = ""


class InspectReport(msgspec.Struct, frozen=True):
    """The report on one conversation."""

    name: str
    source: str
    inspection: Inspection
    kept: list[WindowFit]


def fit_window(
    records: Sequence[Record],
    window: Window,
    aim: Target,
    *,
    system: str = "",
    tools: tuple[Tool, ...] = (),
    cache: ProjectionCache,
) -> WindowFit:
    """Project a conversation to one window."""
    try:
        request = ProjectionRequest(records, window, aim, system=system, tools=tools, floor=0)
        plan = project(request, cache)
    except CannotFit as error:
        return WindowFit(window.tokens, 0, 0, {}, str(error))
    actions = {
        action: {"records": count, "before": before, "after": after}
        for action, (count, before, after) in totals(plan.ledger).items()
        if action != "silent"
    }
    return WindowFit(window.tokens, plan.tokens.total, plan.budget.tokens, actions)
