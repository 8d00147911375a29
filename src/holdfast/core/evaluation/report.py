"""The report of an evaluation: figures and losses, by session and added up."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.evaluation.losses import Loss  # noqa: TC001 - msgspec reads the types
from holdfast.core.evaluation.needs import NEED_KINDS, NeedKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_NAMED_MAX: Final = 12
"""Losses that a message lists: a test that fails has to be read."""


class Figures(msgspec.Struct, frozen=True):
    """The figures of one replay, or of several added up."""

    calls: int = 0
    """Number of calls to the model."""
    cost: float = 0.0
    """Of the input, in dollars."""
    tokens_sent: int = 0
    """Tokens of all requests."""
    tokens_read: int = 0
    """From the provider's cache."""
    cuts: int = 0
    """Number of compactions."""
    prunes: int = 0
    """Number of times that results were trimmed or cleared."""
    overflows: int = 0
    """Requests too large for the window, and refusals to send one."""
    invalid: int = 0
    """Requests that the provider would refuse for their shape."""

    @property
    def read_share(self) -> float:
        """Of all input tokens, those read from the cache."""
        return self.tokens_read / self.tokens_sent if self.tokens_sent else 0.0

    def __add__(self, other: Figures) -> Figures:
        names = self.__struct_fields__
        return Figures(*(getattr(self, name) + getattr(other, name) for name in names))


class SessionEvaluation(msgspec.Struct, frozen=True):
    """One session under a policy."""

    name: str
    """The name of the session."""
    fingerprint: str
    """Changes with the records: another conversation cannot be compared."""
    figures: Figures
    """Cost, cache reads and cuts of its replay."""
    needed: dict[NeedKind, int]
    """Number of different needs, by kind."""
    losses: tuple[Loss, ...]
    """Everything that replies needed and no longer had."""
    omitted: int = 0
    """Sentences that were not looked for, because there are too many."""
    address: str = ""
    """The name by which commands find the session."""
    title: str = ""
    """The first words a user said."""


class Evaluation(msgspec.Struct, frozen=True):
    """All sessions under a policy."""

    policy: str
    """The name of the policy."""
    window: int
    """The window, in tokens."""
    sessions: tuple[SessionEvaluation, ...]
    """The result of each session."""

    @property
    def losses(self) -> tuple[Loss, ...]:
        """Every loss of every session."""
        return tuple(loss for session in self.sessions for loss in session.losses)

    @property
    def figures(self) -> Figures:
        """The figures of all sessions added up."""
        return sum_figures(session.figures for session in self.sessions)

    @property
    def loss_counts(self) -> dict[NeedKind, int]:
        """Number of losses by kind."""
        return count_losses(self.losses)

    @property
    def need_counts(self) -> dict[NeedKind, int]:
        """Number of needs by kind."""
        sessions = self.sessions
        return {
            kind: sum(session.needed.get(kind, 0) for session in sessions) for kind in NEED_KINDS
        }

    def losses_of(self, *kinds: NeedKind) -> tuple[Loss, ...]:
        """The losses of some kinds."""
        return tuple(loss for loss in self.losses if loss.kind in kinds)

    def describe(self, losses: Sequence[Loss] | None = None) -> str:
        """The losses as text, for the message of a failed test."""
        shown = self.losses if losses is None else losses
        lines = [describe_loss(loss) for loss in shown[:_NAMED_MAX]]
        if len(shown) > len(lines):
            lines.append(f"… and {len(shown) - len(lines):,} more")
        return "\n".join(lines)


def sum_figures(figures: Iterable[Figures]) -> Figures:
    """Add figures up."""
    return sum(figures, Figures())


def count_losses(losses: Iterable[Loss]) -> dict[NeedKind, int]:
    """Count losses by kind."""
    counts: dict[NeedKind, int] = dict.fromkeys(NEED_KINDS, 0)
    for loss in losses:
        counts[loss.kind] += 1
    return counts


def describe_loss(loss: Loss) -> str:
    """One line: what was lost, when it was last seen, which cut took it, and who needed it."""
    source = f"{loss.seen.kind} {loss.seen.record}".strip() or "nowhere"
    return (
        f"{loss.kind} `{loss.text}`: last seen in {source}, taken by {describe_cut(loss)}, "
        f"needed by {loss.needed_by} (call {loss.needed_call:,})"
    )


def describe_cut(loss: Loss) -> str:
    """The cut that took something, in words."""
    made = loss.cut
    if not made.number:
        return "no cut: no request ever had it"
    record = f" {made.record}" if made.record else ""
    why = f" ({made.reason})" if made.reason else ""
    return f"cut {made.number:,}{record} before call {made.call:,}{why}"
