"""Budgets: the money, tokens and requests that model calls may take in a day and in a month.

A call is held before it is made, at the most that it can take, and settled after it at what it
took. It is let in while everything spent and held is below each limit, so that a budget is
overrun by one call at most.
"""

from __future__ import annotations

import math
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import msgspec

from holdfast.core.spending.amounts import NANODOLLARS, Amount
from holdfast.core.text.typed import convert_typed
from holdfast.core.timers import check_zone
from holdfast.errors import BadSetting, BudgetSpent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PayerKind = Literal["token", "owner", "agent"]
PAYER_KINDS: Final[tuple[PayerKind, ...]] = ("token", "owner", "agent")
Span = Literal["day", "month"]
SPANS: Final[tuple[Span, ...]] = ("day", "month")
Unit = Literal["dollars", "tokens", "requests"]
UNITS: Final[tuple[Unit, ...]] = ("dollars", "tokens", "requests")
EVERY_OTHER: Final = "*"
"""The name that stands for each payer that has no budget of its own."""
WARN_SHARE: Final = 0.8
"""The share of a limit from which a warning is given."""
_HELD_RETRY_SECONDS: Final = 5.0
"""To wait where only calls that still run stand in the way."""
_LIMIT_MAX: Final = 1_000_000_000_000
"""More than anybody pays."""


class SpendingLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The most that a payer may spend. What is left out is not limited."""

    day_dollars: float | None = None
    day_tokens: int | None = None
    day_requests: int | None = None
    month_dollars: float | None = None
    month_tokens: int | None = None
    month_requests: int | None = None

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            value = getattr(self, name)
            if value is not None and not 0 <= value <= _LIMIT_MAX:
                raise ValueError(f"`{name}` cannot be {value:g}: give 0 or more")

    def get(self, span: Span, unit: Unit) -> float | None:
        """Return a limit; None where there is none."""
        found: float | None = getattr(self, f"{span}_{unit}")
        return found


class Budgets(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The budgets of a server. The name `*` stands for each one that is not named, apart."""

    zone: str = "UTC"
    """The time zone by which days and months begin."""
    unpriced: Literal["refuse", "count"] = "refuse"
    """A call to a model without a known price, where money is limited: refuse it, or count its
    tokens and requests alone."""
    tokens: dict[str, SpendingLimits] = {}
    """By the name of the token that a client sends."""
    owners: dict[str, SpendingLimits] = {}
    """By the owner of the session."""
    agents: dict[str, SpendingLimits] = {}
    """By the agent of the session."""

    def limits(self, payer: Payer) -> SpendingLimits | None:
        """Return the limits of a payer; None where it has none."""
        table = {"token": self.tokens, "owner": self.owners, "agent": self.agents}[payer.kind]
        return table.get(payer.name, table.get(EVERY_OTHER))


_TABLES: Final = ("tokens", "owners", "agents")


def read_budgets(given: object, source: str) -> Budgets | None:
    """Read the table `budgets` of a file. Raises `BadSetting` with the file, the key and the
    reason; then nothing of it holds."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise _wrong(source, "budgets", "it is not a table")
    for table in _TABLES:
        named = given.get(table, {})
        if not isinstance(named, dict):
            raise _wrong(source, f"budgets.{table}", "it is not a table of names")
        for name, limits in named.items():
            _read(limits, SpendingLimits, source, f"budgets.{table}.{name}")
    found: Budgets = _read(given, Budgets, source, "budgets")
    try:
        check_zone(found.zone)
    except BadSetting as error:
        raise BadSetting(f"{source}: budgets.zone: {error}", hint=error.hint) from error
    return found


def _read(given: object, kind: type, source: str, place: str) -> Any:
    try:
        return convert_typed(given, kind)
    except msgspec.ValidationError as error:
        raise _wrong(source, place, str(error)) from error


def _wrong(source: str, place: str, reason: str) -> BadSetting:
    keys = ", ".join(f"{span}_{unit}" for span in SPANS for unit in UNITS)
    return BadSetting(
        f"{source}: {place}: {reason}",
        hint=f"a budget has {keys}; nothing was started or changed",
    )


class Payer(NamedTuple):
    """The one whose budget a call is counted in."""

    kind: PayerKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} `{self.name}`" if self.name else f"calls without {_article(self.kind)}"


def _article(kind: PayerKind) -> str:
    return f"an {kind}" if kind[0] in "ao" else f"a {kind}"


class Account(NamedTuple):
    """The sums of one payer in one day or month."""

    kind: PayerKind
    name: str
    period: str
    """As `2026-11-19` or `2026-11`, by the zone of the budgets."""

    @property
    def payer(self) -> Payer:
        return Payer(self.kind, self.name)

    @property
    def span(self) -> Span:
        return span_of(self.period)


class Sums(NamedTuple):
    """The sums of an account."""

    requests: int = 0
    tokens: int = 0
    nanodollars: int = 0
    """Of the calls that are settled."""
    held_tokens: int = 0
    held_nanodollars: int = 0
    """Of calls that run: the most that they can take."""

    def count_spent(self, unit: Unit) -> float:
        """Return what is settled. Requests are counted as they are sent."""
        return self._of(unit, self.tokens, self.nanodollars)

    def count_promised(self, unit: Unit) -> float:
        """Return what is settled, and the most that running calls can take."""
        tokens, money = self.tokens + self.held_tokens, self.nanodollars + self.held_nanodollars
        return self._of(unit, tokens, money)

    def _of(self, unit: Unit, tokens: int, nanodollars: int) -> float:
        match unit:
            case "dollars":
                return nanodollars / NANODOLLARS
            case "tokens":
                return tokens
            case "requests":
                return self.requests


def span_of(period: str) -> Span:
    """Return whether a period is a day or a month."""
    return "day" if period.count("-") == 2 else "month"


def period_at(span: Span, now: float, zone: str) -> str:
    """Return the day or the month of a moment."""
    local = datetime.fromtimestamp(now, check_zone(zone))
    return local.strftime("%Y-%m-%d" if span == "day" else "%Y-%m")


def end_of(span: Span, now: float, zone: str) -> float:
    """Return the moment at which the day or the month of another moment ends."""
    where = check_zone(zone)
    local = datetime.fromtimestamp(now, where)
    if span == "day":
        following = local.date() + timedelta(days=1)
    else:
        following = (local.date().replace(day=1) + timedelta(days=32)).replace(day=1)
    return datetime(following.year, following.month, following.day, tzinfo=where).timestamp()


def accounts_at(payers: Iterable[Payer], now: float, zone: str) -> tuple[Account, ...]:
    """Return the accounts of payers at a moment, in the order in which they are locked."""
    periods = [period_at(span, now, zone) for span in SPANS]
    return tuple(sorted(Account(*payer, period) for payer in payers for period in periods))


class BudgetUse(msgspec.Struct, frozen=True):
    """One limit of a payer, and what it took of it."""

    payer: PayerKind
    """`token`, `owner` or `agent`."""
    name: str
    """Its name."""
    span: Span
    """`day` or `month`."""
    unit: Unit
    """`dollars`, `tokens` or `requests`."""
    limit: float
    """The limit."""
    spent: float
    """The part that calls which ended took."""
    held: float
    """The most that running calls can take beside that."""
    resets: float
    """The moment at which it begins again, in seconds since 1970."""

    @property
    def share(self) -> float:
        """The share of the limit that is spent."""
        return self.spent / self.limit if self.limit else 1.0

    @property
    def is_spent(self) -> bool:
        """True where no further call is let in."""
        return self.spent + self.held >= self.limit

    @property
    def is_near(self) -> bool:
        """True where a warning is due."""
        return self.share >= WARN_SHARE

    @property
    def sentence(self) -> str:
        """The part that is spent, in words."""
        whose = Payer(self.payer, self.name)
        return f"{_number(self.spent, self.unit)} of {_number(self.limit, self.unit)} per \
{self.span} of {whose}"

    @property
    def header(self) -> str:
        """The same for a header, in ASCII."""
        name = self.name.encode("ascii", "backslashreplace").decode()
        share = math.floor(self.share * 100)
        return f"{self.payer}={name}; {self.span}; {self.unit}; {share}%; resets={self.resets:.0f}"


def _number(value: float, unit: Unit) -> str:
    return f"${value:,.4f}".rstrip("0").rstrip(".") if unit == "dollars" else f"{value:,.0f} {unit}"


def uses_of(budgets: Budgets, sums: Mapping[Account, Sums], now: float) -> Iterator[BudgetUse]:
    """Yield every limit that holds for some accounts at a moment."""
    for account, found in sums.items():
        limits = budgets.limits(account.payer)
        for unit in UNITS if limits is not None else ():
            limit = limits.get(account.span, unit) if limits is not None else None
            if limit is not None:
                spent = found.count_spent(unit)
                yield BudgetUse(
                    account.kind,
                    account.name,
                    account.span,
                    unit,
                    float(limit),
                    float(spent),
                    float(found.count_promised(unit) - spent),
                    end_of(account.span, now, budgets.zone),
                )


def admit(budgets: Budgets, sums: Mapping[Account, Sums], now: float) -> None:
    """Raise `BudgetSpent` where a limit leaves no room for another call."""
    full = [use for use in uses_of(budgets, sums, now) if use.is_spent]
    if not full:
        return
    over = [use for use in full if use.spent >= use.limit]
    use = max(over or full, key=lambda each: each.resets)
    if over:
        raise BudgetSpent(use.sentence, use.resets, max(1.0, use.resets - now), is_held=False)
    raise BudgetSpent(use.sentence, use.resets, _HELD_RETRY_SECONDS, is_held=True)


def find_crossed(
    budgets: Budgets, sums: Mapping[Account, Sums], added: Amount, requests: int, now: float
) -> list[BudgetUse]:
    """Return the limits of which this addition, already in the sums, took the warned share."""
    before = {
        account: found._replace(
            requests=found.requests - requests,
            tokens=found.tokens - added.tokens,
            nanodollars=found.nanodollars - added.nanodollars,
        )
        for account, found in sums.items()
    }
    known = zip(uses_of(budgets, before, now), uses_of(budgets, sums, now), strict=True)
    return [after for old, after in known if after.is_near and not old.is_near]


def is_money_limited(budgets: Budgets, payers: Iterable[Payer]) -> bool:
    """True where a payer has a limit in dollars."""
    found = (budgets.limits(payer) for payer in payers)
    return any(
        limits.get(span, "dollars") is not None
        for limits in found
        if limits is not None
        for span in SPANS
    )
