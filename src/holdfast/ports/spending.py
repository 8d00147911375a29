"""The port of the sums that calls of models took of budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import msgspec

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from holdfast.core.owners import NamedOwner
    from holdfast.core.spending.amounts import Amount
    from holdfast.core.spending.budgets import Account, Sums


class HeldCall(msgspec.Struct, frozen=True):
    """A call of a model that is counted in some accounts."""

    name: str
    """The name of the call: it is counted once under it."""
    accounts: tuple[Account, ...]
    """The accounts, in the order in which they are locked."""
    bound: Amount
    """The most that it can take."""
    at: float
    """The time, in seconds since 1970."""


class Settlement(NamedTuple):
    """The result of a settlement."""

    added: Amount
    """The part that is now spent and was not before."""
    requests: int
    """1 where the call was not counted before it was settled."""
    sums: dict[Account, Sums]
    """The accounts of the call, with it."""


class SpendingLedger(Protocol):
    """The sums that calls of models took of budgets. Each call is counted once, however often its
    steps are repeated, and whenever a process ends: durable when a method returns. After a power
    cut, a call whose settlement was lost is still held, and so counts at the most it can take."""

    def hold(self, call: HeldCall, judge: Callable[[dict[Account, Sums]], None]) -> None:
        """Hold the most that a call can take in all of its accounts.

        `judge` gets the sums before it and raises where it is refused; then nothing changes. It may
        be called more than once. A name that is known changes nothing, and is not judged.
        """

    def settle(self, call: HeldCall, taken: Amount) -> Settlement | None:
        """Count what a call took, in place of what was held for it; None where it was settled
        before. A call that was never held is counted whole."""

    def sums(self, accounts: Collection[Account]) -> dict[Account, Sums]:
        """Return the sums of these accounts, zero for those without a call."""

    def accounts(self, periods: Collection[str], *, limit: int = 1_000) -> dict[Account, Sums]:
        """Return the accounts of some days and months, those with the most requests first."""

    def expire(self, before: float) -> int:
        """Count calls that were held before a time, and not settled, at the most that they can
        take: their processes are gone. A settlement that comes later still counts. Returns their
        number."""

    def forget(self, settled: float, before: float) -> None:
        """Delete the calls that were settled, of those before a time; and everything, of days and
        months that ended before another."""

    def erase(self, owner: NamedOwner) -> None:
        """Delete the accounts of an owner for good."""
