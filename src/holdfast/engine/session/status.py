"""The status of a session: its fill level and its cost, as one value for every display."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.window import Window  # noqa: TC001 - the schema of an answer needs it

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.models.totals import SessionTotals, Spent
    from holdfast.core.projection.project import Plan
    from holdfast.core.projection.units import ContextUnit


class Status(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The status of a session at one moment."""

    session: str
    """The id of the session."""
    agent: str
    """The agent that it belongs to."""
    label: str
    """Its name for people."""
    model: str
    """The model in use."""
    window: Window
    """The model's context window."""
    tokens: int
    """The size of the view as it is now, system prompt and tools included: of the next request,
    where no compaction is due."""
    basis: str
    """`measured`, `exact` or `estimated`."""
    budget: int
    """The room for messages."""
    messages_tokens: int
    """Of it: the messages."""
    compact_at: int
    """The size of the messages at which the next compaction comes."""
    warn_at: int
    """The size of the messages from which on `warnings` says that it is near."""
    fill: float
    """The share of the way to the next compaction that is used up."""
    share: float
    """The share of the window that the next request takes."""
    messages: int
    """Messages in view."""
    turns: int
    """Turns so far."""
    calls: int
    """Model calls so far, those for summaries and notes included."""
    tools: int
    """Tool calls so far."""
    compactions: int
    """Compactions so far."""
    prunes: int
    """Prunes so far."""
    prompt_tokens: int
    """Input of all calls."""
    output_tokens: int
    """Output of all calls."""
    cache_share: float | None
    """Of all input, the share that was read from the cache; None if unknown."""
    cost: float
    """Of all calls, in dollars, by list price."""
    unpriced: int
    """Calls of unknown cost."""
    turns_left: int | None
    """Turns of the average size in view until the next compaction."""
    head: str
    """The newest record."""
    mode: str = "continue"
    """The continuation after a reply: `continue` in the same log, or `fresh`."""
    warnings: tuple[str, ...] = ()
    """Troubles that a person should know of."""


def status_of(
    plan: Plan,
    totals: SessionTotals,
    spent: Spent,
    *,
    session: str,
    agent: str,
    label: str,
    head: str,
    mode: str,
) -> Status:
    """Build the status from the next request, the totals so far and what they cost."""
    limits = plan.limits
    tokens = plan.tokens.total - plan.tokens.messages + plan.tokens_before
    return Status(
        session=session,
        agent=agent,
        label=label,
        model=plan.target.model,
        window=plan.window,
        tokens=tokens,
        basis=plan.tokens.basis,
        budget=plan.budget.tokens,
        messages_tokens=plan.tokens_before,
        compact_at=limits.compact_at,
        warn_at=limits.warn_at,
        fill=plan.tokens_before / limits.compact_at if limits.compact_at else 1.0,
        share=tokens / plan.window.tokens,
        messages=sum(len(unit.parts) for unit in plan.units),
        turns=totals.turns,
        calls=spent.calls,
        tools=totals.tools,
        compactions=totals.compactions,
        prunes=totals.prunes,
        prompt_tokens=spent.prompt,
        output_tokens=spent.output,
        cache_share=spent.cache_share,
        cost=spent.cost or 0.0,
        unpriced=spent.gaps,
        turns_left=_turns_left(plan.units, plan.tokens_before, limits.compact_at),
        head=head,
        mode=mode,
        warnings=plan.warnings,
    )


def describe_status(status: Status) -> list[str]:
    """The status of a session as lines for its model."""
    return [
        f"{status.tokens:,} of {status.window.tokens:,} tokens are in use ({status.basis}); the "
        f"messages take {status.messages_tokens:,} and are compacted at {status.compact_at:,}.",
        f"{status.turns:,} turns, {status.messages:,} messages in view, "
        f"{status.compactions:,} compactions.",
        *status.warnings,
    ]


def _turns_left(units: Sequence[ContextUnit], tokens: int, compact_at: int) -> int | None:
    turns = sum(unit.is_user for unit in units)
    if not turns or not tokens:
        return None
    return max(0, int((compact_at - tokens) / (tokens / turns)))
