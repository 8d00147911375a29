"""The calls of one request that is passed on: each is counted, and held to budgets."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.proxy.endpoints import ProxyProblem
from holdfast.engine.spending.meter import budget_headers
from holdfast.errors import BudgetSpent, PriceUnknown

if TYPE_CHECKING:
    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.replies import Reply
    from holdfast.engine.spending.meter import CallMeter, MeteredCall, Spender

_WHOLE: Final = ("end", "tools", "length", "window", "refusal")
"""Ends of a reply after which nothing more is written. One that goes on in the background, or was
cut, may take more than what came."""


class PassedCalls:
    """The call that is under way; one after the other. Without a meter, nothing is counted."""

    def __init__(self, meter: CallMeter | None, spender: Spender) -> None:
        self._meter = meter
        self._spender = spender
        self._call: MeteredCall | None = None

    @property
    def is_counted(self) -> bool:
        """Calls are counted."""
        return self._meter is not None

    @property
    def is_budgeted(self) -> bool:
        """Calls are held to budgets, which are stored."""
        return self._meter is not None and self._meter.budgets is not None

    @property
    def is_open(self) -> bool:
        """A call is under way that is not counted yet."""
        return self._call is not None and not self._call.is_ended

    def hold(self, target: Target, body: Json, session: str) -> None:
        """Hold a call that is about to be made. Raises `ProxyProblem` where a budget is spent."""
        meter = self._meter
        assert meter is not None, "nothing is counted"
        spender = self._spender._replace(session=session)
        try:
            self._call = meter.open(spender, target, body, copies=_count_copies(body))
        except (BudgetSpent, PriceUnknown) as error:
            raise budget_problem(error) from error

    def note_first(self) -> None:
        """Note that a part of the reply is there."""
        if self._call is not None:
            self._call.note_first()

    def refuse(self) -> None:
        """Count a call that the upstream refused."""
        if self._call is not None:
            self._call.refuse()

    def settle(self, found: tuple[Reply, bool] | None) -> None:
        """Count the reply that was read, as far as it came, once; True for one that is whole."""
        call = self._call
        if call is None:
            return
        if found is None:
            call.break_off()
        elif found[1] and found[0].stop in _WHOLE:
            call.settle(found[0])
        else:
            call.break_off(found[0])


def _count_copies(body: Json) -> int:
    """The number of replies that a request asks for."""
    inner = body.get("generationConfig")
    counts = (body.get("n"), inner.get("candidateCount") if isinstance(inner, dict) else None)
    return max((n for n in counts if type(n) is int), default=1)


def budget_problem(error: BudgetSpent | PriceUnknown) -> ProxyProblem:
    """A call that a budget has no room for, as a client is told."""
    if isinstance(error, PriceUnknown):
        return ProxyProblem(422, str(error), error.hint or "", code=error.code)
    headers = budget_headers(error)
    return ProxyProblem(429, str(error), error.hint or "", code=error.code, headers=headers)
