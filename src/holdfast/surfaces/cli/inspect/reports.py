"""The report of `inspect` on one conversation, for the terminal and for the page."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.owners import NO_OWNER, Owner
from holdfast.core.projection.ledger import totals
from holdfast.core.projection.project import project
from holdfast.core.projection.request import ProjectionRequest
from holdfast.errors import CannotFit
from holdfast.surfaces.answers import Cell, Row, StyledTable
from holdfast.surfaces.formatting import bar

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.inspection.habits import Habit
    from holdfast.core.inspection.inspect import Group, InspectedItem, Inspection
    from holdfast.core.log.records import Record
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.messages import Tool
    from holdfast.core.projection.view import ProjectionCache
    from holdfast.core.window import Window
    from holdfast.engine.simulation.savings import Saving


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
    address: str = ""
    """The name by which other commands find it."""
    folder: str = ""
    """The agent's working directory, where the source tells it."""
    label: str = ""
    agent: str = ""
    """The agent that had it; of a transcript, the tool."""
    owner: Owner = NO_OWNER
    saving: Saving | None = None
    """The comparison with Holdfast, where it was replayed."""

    @property
    def project(self) -> str:
        """Return the last part of the working directory; of a work tree, which tools keep in a
        hidden folder of the repository, with the repository before it."""
        *above, name = PurePosixPath(self.folder.replace("\\", "/")).parts or ("",)
        hidden = next((at for at, part in enumerate(above) if part[:1] == "."), 0)
        return f"{above[hidden - 1]}/{name}" if hidden else name

    @property
    def title(self) -> str:
        """Return the title, or else the first words of the user that are no command or tag."""
        said = (turn.says for turn in self.inspection.by_turn if turn.says)
        words = [text for text in said if not text.startswith("<")]
        spoken = (text for text in words if not text.startswith("/"))
        return self.label or next(spoken, words[0] if words else "")

    @property
    def command(self) -> str:
        """Return the command that prints the biggest record in full."""
        where = f" --session '{self.address}'" if self.source != "session" else ""
        return f"holdfast show {self.inspection.biggest[0].record}{where}"

    @property
    def waste(self) -> Habit | None:
        """Return the most expensive thing that could be spared."""
        return next((each for each in self.inspection.habits if each.kind != "head"), None)


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


def fits_table(fits: Iterable[WindowFit]) -> StyledTable:
    """Return what Holdfast would send in each window."""
    kinds = ("kept", "trimmed", "cleared", "summarised")
    rows: list[Row] = []
    for fit in fits:
        window = f"{fit.window:,}"
        if fit.refusal:
            rows.append((window, Cell("refused", "bad"), fit.refusal, *[""] * len(kinds)))
            continue
        counts = (fit.actions.get(kind, {}).get("records", 0) for kind in kinds)
        share = share_cell(fit.tokens / fit.window, 16)
        rows.append((window, f"{fit.tokens:,}", share, *(f"{n:,}" if n else "" for n in counts)))
    heads = (">window", ">would send", "", *(f">{kind}" for kind in kinds))
    return StyledTable(heads, tuple(rows))


def top_tables(looked: Inspection, top: int) -> list[tuple[str, StyledTable]]:
    """Return what takes the most tokens: tools, files, records and turns."""
    turns = sorted(looked.by_turn, key=lambda item: -item.tokens)[:top]
    return [
        ("Tools", groups_table("tool", "results", looked.tools[:top], looked.tokens)),
        ("Files", groups_table("file", "times", looked.files[:top], looked.tokens)),
        ("Biggest records", items_table("biggest records", looked.biggest)),
        ("Biggest turns", items_table("biggest turns", turns)),
    ]


def doubles_table(looked: Inspection, top: int) -> StyledTable:
    """Return results that a tool gave more than once."""
    return StyledTable(
        ("same result again", ">copies", ">wasted tokens", "says"),
        tuple(
            (copy.name or "?", str(copy.copies), f"{copy.tokens:,}", Cell(copy.says, "dim"))
            for copy in looked.doubles[:top]
        ),
    )


BAR_CHARS: Final = 32
"""A bar leaves room for the figures in a terminal of 80 columns."""


def share_cell(share: float, chars: int = BAR_CHARS) -> Cell:
    """Return a bar for a share of a whole."""
    return Cell(bar(share, chars), "name")


def bars(groups: Iterable[Group], total: int) -> list[tuple[Cell | str, ...]]:
    """Return the rows of groups with their share of a total."""
    shares = [(group, group.tokens / total if total else 0.0) for group in groups if group.tokens]
    return [
        (group.name, f"{group.tokens:,}", f"{share:.1%}" if total else "", share_cell(share))
        for group, share in shares
    ]


def groups_table(noun: str, times: str, groups: Sequence[Group], total: int) -> StyledTable:
    """Return a table of tools or files, each with its share of all tokens."""
    return StyledTable(
        (noun, f">{times}", ">tokens", ">largest", ">errors", ""),
        tuple(
            (
                *(each.name, f"{each.count:,}", f"{each.tokens:,}", f"{each.largest:,}"),
                *(f"{each.errors or ''}", share_cell(each.tokens / max(total, 1))),
            )
            for each in groups
        ),
    )


def items_table(title: str, items: Iterable[InspectedItem]) -> StyledTable:
    """Return a table of records or turns."""
    return StyledTable(
        (title, "what", ">tokens", "says"),
        tuple(
            (
                *(item.record, f"{item.kind} {item.name}".strip(), f"{item.tokens:,}"),
                Cell(item.says, "dim"),
            )
            for item in items
        ),
    )
