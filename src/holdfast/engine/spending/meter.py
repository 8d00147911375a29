"""The one point that every model call of a server passes: it is counted here, and held to budgets.

Sessions get models from `meter_model`, the proxy opens a `MeteredCall` before it sends a
request on, and a loop of a client's own has its call held when the request is prepared. Nothing
else of a server calls a model.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
import time
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import msgspec

from holdfast.core.dialects.registry import find_dialect
from holdfast.core.owners import owner_text
from holdfast.core.proxy.endpoints import ProxyProblem
from holdfast.core.queues import PAID_BY
from holdfast.core.spending.amounts import (
    Amount,
    amount_of,
    input_bound,
    largest_amount,
    usage_so_far,
    usages_of,
)
from holdfast.core.spending.budgets import (
    PAYER_KINDS,
    Budgets,
    Payer,
    accounts_at,
    admit,
    find_crossed,
    is_money_limited,
    uses_of,
)
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.engine.spending.counts import CallCounts, CallLabels
from holdfast.errors import BudgetSpent, HoldfastError, PriceUnknown
from holdfast.ports import HeldCall
from holdfast.providers.failures import name_failure
from holdfast.providers.known_models.lookup import price_of
from holdfast.providers.known_models.rows import output_limit
from holdfast.providers.replies import partial_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from holdfast.core.log.records import Json
    from holdfast.core.models.dialects import Target
    from holdfast.core.models.prices import Price
    from holdfast.core.models.replies import Delta, Reply
    from holdfast.core.models.usage import Usage
    from holdfast.core.owners import Owner
    from holdfast.core.spending.budgets import Account, BudgetUse, Sums
    from holdfast.core.window import Window
    from holdfast.ports import AsyncModel, Clock, OnDelta, SpendingLedger


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


T = TypeVar("T")
_OUTPUT_TOKENS: Final = 32_000
"""The longest reply of a model that nobody knows, where the request does not bound it."""
_OUTPUT_TOKENS_MAX: Final = 1_000_000_000
"""More than any provider writes: a client may ask for any number."""
_HELD_SECONDS: Final = 3_600.0
"""After which a call that was not settled counts at the most that it can take."""
_SETTLED_SECONDS: Final = 2 * 86_400.0
"""For which a settled call is known by its name."""
_KEEP_SECONDS: Final = 100 * 86_400.0
"""For which the sums of days and months are kept."""
_UNSENT: Final = frozenset(("config_error", "invalid_request", "auth", "quota_billing"))
"""Failures that no provider charges for, also where they have no status."""
_UNSETTLED_MAX: Final = 10_000
"""Calls that wait in memory for a store that does not answer."""
_log: Final = logging.getLogger(__name__)


class Spender(NamedTuple):
    """The session that a call is for."""

    owner: Owner
    agent: str
    session: str = ""
    """As `agent/id`."""


class BudgetNear(msgspec.Struct, frozen=True):
    """Four fifths of a budget are spent. It is told once for each day or month."""

    session: str
    """The session whose call took it there, `agent/id`."""
    payer: str
    """`token`, `owner` or `agent`."""
    name: str
    """Its name."""
    span: str
    """`day` or `month`."""
    unit: str
    """`dollars`, `tokens` or `requests`."""
    spent: float
    """The part that is spent."""
    limit: float
    """The limit."""
    resets: float
    """The moment at which it begins again, in seconds since 1970."""


def budget_headers(error: BudgetSpent) -> dict[str, str]:
    """Return the headers of a refusal: when to try again, and when the budget begins again."""
    headers = {
        "Retry-After": str(math.ceil(error.retry_seconds)),
        "x-holdfast-budget-reset": f"{error.resets:.0f}",
    }
    # The providers' own packages would send it again at once.
    return headers if error.is_held else {**headers, "x-should-retry": "false"}


class CallMeter:
    """Counts the calls of one server, and refuses those that a budget has no room for. Its methods
    block where there are budgets. Safe for threads."""

    def __init__(
        self,
        ledger: SpendingLedger,
        budgets: Budgets | None = None,
        *,
        price_for: Callable[[str, str, float], Price | None] = price_of,
        clock: Clock = time.time,
        steady: Clock = time.monotonic,
    ) -> None:
        """`steady` is a clock that nobody sets."""
        self.ledger = ledger
        self.budgets = budgets
        """None where nothing is limited; then nothing is stored either."""
        self.counts = CallCounts()
        """The calls of this process."""
        self.clock = clock
        self.on_near: Callable[[BudgetNear], None] = lambda _near: None
        """Called when four fifths of a budget are spent, in any thread."""
        self._price_for = price_for
        self._steady = steady
        self._ahead = clock() - steady()
        self._unsettled: list[tuple[MeteredCall, Amount]] = []
        self._lock = threading.Lock()

    def check(self, spender: Spender) -> None:
        """Raise `BudgetSpent` where a call would be refused until a budget begins again."""
        budgets, now = self.budgets, self.clock()
        if budgets is None:
            return
        accounts = accounts_at(_payers(spender), now, budgets.zone)
        sums = self.ledger.sums(accounts)
        self._note_near(budgets, sums, now)
        try:
            admit(budgets, sums, now)
        except BudgetSpent as error:
            self.counts.refuse("budget", spender.agent)
            if not error.is_held:
                raise

    def open(
        self, spender: Spender, target: Target, request: Json, *, name: str = "", copies: int = 1
    ) -> MeteredCall:
        """Hold a call before it is made. Raises `BudgetSpent` and `PriceUnknown`.

        Under the `name` of a call that is known, nothing more is held. `copies` are the replies
        that the request asks for."""
        labels = CallLabels(target.model, target.provider, spender.agent, owner_text(spender.owner))
        price = self._price_for(target.model, target.provider, 0.0)
        prompt = input_bound(request) if self.budgets is not None else 0
        asked = find_dialect(target.dialect.name).body.read_output_limit(request)
        output = (asked or output_limit(target.model) or _OUTPUT_TOKENS) * max(1, copies)
        output = min(max(0, output), _OUTPUT_TOKENS_MAX)
        call = MeteredCall(self, spender, labels, price, prompt, output)
        if self.budgets is not None:
            self._hold(call, self.budgets, name or secrets.token_hex(12))
        return call

    def _hold(self, call: MeteredCall, budgets: Budgets, name: str) -> None:
        now, payers = self.clock(), _payers(call.spender)
        if (
            call.price is None
            and budgets.unpriced == "refuse"
            and is_money_limited(budgets, payers)
            and not _is_here(call.labels.provider)
        ):
            self.counts.refuse("price", call.spender.agent)
            raise PriceUnknown(call.labels.model)
        held = HeldCall(
            name,
            accounts_at(payers, now, budgets.zone),
            largest_amount(call.prompt, call.output, call.price),
            now,
        )
        seen: dict[Account, Sums] = {}

        def judge(sums: dict[Account, Sums]) -> None:
            seen.clear()
            admit(budgets, sums, now)
            seen.update(sums)

        try:
            self.ledger.hold(held, judge)
        except BudgetSpent:
            self.counts.refuse("budget", call.spender.agent)
            raise
        call.held = held
        after = {
            account: sums._replace(requests=sums.requests + 1) for account, sums in seen.items()
        }
        self._note_near(budgets, after, now)
        self._tell(call, find_crossed(budgets, after, Amount(), 1, now))

    def settle(self, call: MeteredCall, taken: Amount) -> None:
        """Count what a call took, once. Never raises: what cannot be stored now is tried again."""
        held, budgets = call.held, self.budgets
        if held is None:
            return
        try:
            settled = self.ledger.settle(held, taken)
        except HoldfastError as error:
            _log.warning("a call is not settled yet: %s", error)
            with self._lock:
                if len(self._unsettled) < _UNSETTLED_MAX:
                    self._unsettled.append((call, taken))
            return
        if settled is not None and budgets is not None:
            now = self.clock()
            self._note_near(budgets, settled.sums, now)
            near = find_crossed(budgets, settled.sums, settled.added, settled.requests, now)
            self._tell(call, near)

    def charge(self, spender: Spender, target: Target, reply: Reply, name: str) -> None:
        """Settle a call that a client made itself, under the name that it was held by; it is
        counted whole where it was not held."""
        labels = CallLabels(target.model, target.provider, spender.agent, owner_text(spender.owner))
        price = self._price_for(target.model, target.provider, 0.0)
        call = MeteredCall(self, spender, labels, price, 0, 0)
        if self.budgets is not None:
            now = self.clock()
            accounts = accounts_at(_payers(spender), now, self.budgets.zone)
            call.held = HeldCall(name, accounts, Amount(), now)
        call.settle(reply)

    def tend(self, *, is_alone: bool = False) -> None:
        """Settle what could not be stored before, and what nobody will settle any more.

        A process that `is_alone` knows that the calls that are held were those of one before it."""
        with self._lock:
            waiting, self._unsettled = self._unsettled, []
        for call, taken in waiting:
            self.settle(call, taken)
        if self.budgets is None:
            return
        now = min(self.clock(), self._ahead + self._steady())  # a clock set forward ends no month
        self.ledger.expire(now if is_alone else now - _HELD_SECONDS)
        self.ledger.forget(now - _SETTLED_SECONDS, now - _KEEP_SECONDS)

    def uses(self) -> list[BudgetUse]:
        """Return every limit of today and this month that somebody spends of."""
        budgets, now = self.budgets, self.clock()
        if budgets is None:
            return []
        periods = {
            account.period for account in accounts_at([Payer("owner", "")], now, budgets.zone)
        }
        sums = self.ledger.accounts(sorted(periods))
        return sorted(uses_of(budgets, sums, now), key=lambda use: (-use.share, use.header))

    def _note_near(self, budgets: Budgets, sums: dict[Account, Sums], now: float) -> None:
        who = who_pays()
        if who.is_waiting:
            for use in uses_of(budgets, sums, now):
                if use.is_near:
                    who.warn(use)

    def _tell(self, call: MeteredCall, near: Sequence[BudgetUse]) -> None:
        for use in near:
            _log.warning("a budget is nearly spent: %s", use.sentence)
            self.on_near(
                BudgetNear(
                    call.spender.session,
                    use.payer,
                    use.name,
                    use.span,
                    use.unit,
                    use.spent,
                    use.limit,
                    use.resets,
                )
            )


def _payers(spender: Spender) -> list[Payer]:
    """Return those in whose budgets a call is counted: without a token, two."""
    names = {
        "token": who_pays().token,
        "owner": owner_text(spender.owner),
        "agent": spender.agent,
    }
    return [Payer(kind, names[kind]) for kind in PAYER_KINDS if kind != "token" or names[kind]]


def _is_here(provider: str) -> bool:
    """True for a model that runs in this process: it costs nothing."""
    return provider in ("offline", "local")


class MeteredCall:
    """One call of a model, from before it is sent until what it took is known. It ends once."""

    def __init__(
        self,
        meter: CallMeter,
        spender: Spender,
        labels: CallLabels,
        price: Price | None,
        prompt: int,
        output: int,
    ) -> None:
        self.spender = spender
        self.labels = labels
        self.price = price
        self.prompt, self.output = prompt, output
        """The most tokens that it can take."""
        self.held: HeldCall | None = None
        self._meter = meter
        self._began = time.monotonic()
        self._first: float | None = None
        self.is_ended = False
        """It was counted."""

    def note_first(self) -> None:
        """Note that a part of the reply is there."""
        if self._first is None:
            self._first = time.monotonic() - self._began

    def watch(self, on_delta: OnDelta | None) -> OnDelta | None:
        """Return a callback for the pieces of a reply that notes the first."""
        if on_delta is None:
            return None

        def noting(delta: Delta) -> None:
            self.note_first()
            on_delta(delta)

        return noting

    def settle(self, reply: Reply) -> None:
        """Count a whole reply by its usage. It blocks where there are budgets."""
        self._end("answered", usages_of(reply, self.prompt))

    def fail(self, error: BaseException) -> None:
        """Count a call that failed: nothing where it was refused, and else the most that it can
        have taken, because nobody says how much was written."""
        failure = name_failure(error)
        is_free = failure.status is not None or failure.kind in _UNSENT
        if is_free and partial_of(error) is None:
            self.refuse()
        else:
            self.break_off(partial_of(error))

    def refuse(self, state: str = "failed") -> None:
        """Count a call that its provider refused: a request, and no tokens."""
        self._end(state, [])

    def break_off(self, partial: Reply | None = None) -> None:
        """Count a call whose end nobody saw."""
        self._end("broken_off", [usage_so_far(partial, self.prompt, self.output)])

    def _end(self, state: str, usages: list[Usage]) -> None:
        if self.is_ended:
            return
        self.is_ended = True
        taken = amount_of(usages, self.price)
        seconds = time.monotonic() - self._began
        self._meter.counts.add(self.labels, state, usages, taken, seconds, self._first)
        self._meter.settle(self, taken)


def meter_model(model: AsyncModel, meter: CallMeter, spender: Spender) -> AsyncModel:
    """Return a model whose calls are counted for a session."""
    found: AsyncModel = _MeteredModel(model, meter, spender)
    return found


class _MeteredModel:
    """A model whose every call passes the meter."""

    def __init__(self, model: AsyncModel, meter: CallMeter, spender: Spender) -> None:
        self._model = model
        self._meter = meter
        self._spender = spender

    @property
    def target(self) -> Target:
        return self._model.target

    @property
    def window(self) -> Window:
        return self._model.window

    async def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        return await self.send_by(self._model, request, on_delta)

    def __getattr__(self, name: str) -> Any:
        """Return another part of the model; a call of a backend is counted, too."""
        found = getattr(self._model, name)
        if name != "begin":
            return found
        return lambda *given: _MeteredBackendCall(self, found(*given))

    async def send_by(self, model: Any, request: Json, on_delta: OnDelta | None) -> Reply:
        """Send a request by the model, or by a call of it."""
        meter = self._meter
        call = await _work(meter, meter.open, self._spender, self.target, request)
        try:
            reply: Reply = await model.send(request, call.watch(on_delta))
        except BaseException as error:
            await _work(meter, call.fail, error)
            raise
        await _work(meter, call.settle, reply)
        return reply


class _MeteredBackendCall:
    """A call of a backend that passes the meter."""

    def __init__(self, model: _MeteredModel, call: Any) -> None:
        self._model = model
        self._call = call

    async def send(self, request: Json, on_delta: OnDelta | None = None) -> Reply:
        return await self._model.send_by(self._call, request, on_delta)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._call, name)


async def _work(meter: CallMeter, work: Callable[..., T], *given: Any) -> T:
    """Do what blocks where there are budgets; it runs to its end, also in a cancelled task."""
    return work(*given) if meter.budgets is None else await run_in_thread(work, *given)


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
