"""The token by which a client asked for the work that runs now.

A model call is counted in the budget of the token that caused it, also where the call is made later
by another task: the message that waits in between carries the name of the token.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Final

from holdfast.core.queues import PAID_BY

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.log.records import Json
    from holdfast.core.spending.budgets import BudgetUse


class Paying:
    """The one who pays for what a task does."""

    def __init__(self, token: str, *, is_waiting: bool = False) -> None:
        self.token = token
        """The name of the token; empty for work that no client asked for."""
        self.is_waiting = is_waiting
        """True while a client waits for the answer: what cannot be paid is refused at once."""
        self.near: BudgetUse | None = None
        """The budget of this work that is nearest to its limit, where a warning is due."""

    def warn(self, use: BudgetUse) -> None:
        """Note a budget that is near its limit."""
        if self.near is None or use.share > self.near.share:
            self.near = use


_NOBODY: Final = Paying("")
_paying: Final[ContextVar[Paying]] = ContextVar("holdfast_paying", default=_NOBODY)


def who_pays() -> Paying:
    """Return who pays for what runs now."""
    return _paying.get()


@contextmanager
def paying(who: Paying) -> Iterator[Paying]:
    """Let somebody pay for what the block does, and for the tasks and threads that it starts."""
    token = _paying.set(who)
    try:
        yield who
    finally:
        _paying.reset(token)


def sign_body(body: Json) -> Json:
    """Return the body of a message that carries who pays for it."""
    token = who_pays().token
    return {**body, PAID_BY: token} if token else body


def payer_of(body: Json) -> Paying:
    """Return who pays for the work on a message."""
    return Paying(str(body.get(PAID_BY, "")))
