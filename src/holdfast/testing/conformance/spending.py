"""A store counts each call of a model once, in every account of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.owners import NamedOwner
from holdfast.core.spending.amounts import Amount
from holdfast.core.spending.budgets import PAYER_KINDS, Account, Sums
from holdfast.errors import BudgetSpent
from holdfast.ports import HeldCall, Settlement
from holdfast.testing.conformance.samples import raises

if TYPE_CHECKING:
    from holdfast.ports import SessionStore

_DAY = Account("owner", "ann \u2603", "2026-11-19")
_MONTH = Account("owner", "ann \u2603", "2026-11")
_AGENT = Account("agent", "main", "2026-11")
_NAMES = ("ann", "", "an", "anna")
_NOW = 1_795_000_000.0
"""In November 2026."""


def _call(name: str, at: float = _NOW, tokens: int = 100) -> HeldCall:
    return HeldCall(name, (_AGENT, _MONTH, _DAY), Amount(tokens, 10 * tokens), at)


def _admit(_sums: dict[Account, Sums]) -> None:
    """Let every call in."""


def _refuse(_sums: dict[Account, Sums]) -> None:
    raise BudgetSpent("all of it", _NOW, 1.0)


def a_call_is_held_and_then_settled(store: SessionStore) -> None:
    """A call is held at the most that it can take; a settlement puts what it took in the place
    of that, in every account."""
    ledger = store.spending
    seen: list[dict[Account, Sums]] = []
    ledger.hold(_call("a"), seen.append)
    assert seen[-1] == dict.fromkeys((_AGENT, _MONTH, _DAY), Sums())
    held = Sums(1, 0, 0, 100, 1_000)
    assert ledger.sums([_DAY, _MONTH]) == {_DAY: held, _MONTH: held}
    ledger.hold(_call("b", tokens=1), seen.append)
    assert seen[-1][_AGENT] == held
    settled = ledger.settle(_call("a"), Amount(7, 70))
    assert settled == Settlement(
        Amount(7, 70), 0, dict.fromkeys((_AGENT, _MONTH, _DAY), Sums(2, 7, 70, 1, 10))
    )
    assert store.spending.sums([_AGENT]) == {_AGENT: Sums(2, 7, 70, 1, 10)}


def steps_that_are_repeated_count_once(store: SessionStore) -> None:
    """The same call is held and settled once, whatever is asked again, and in whichever order."""
    ledger = store.spending
    for _again in range(2):
        ledger.hold(_call("a"), _admit)
    ledger.hold(_call("a"), _refuse)  # it is known: nobody judges it again
    assert ledger.settle(_call("a"), Amount(7, 70)) is not None
    assert ledger.settle(_call("a"), Amount(9, 90)) is None
    ledger.hold(_call("a"), _admit)
    assert ledger.sums([_DAY]) == {_DAY: Sums(1, 7, 70)}


def a_refused_call_changes_nothing(store: SessionStore) -> None:
    """Nothing is held where the judge raises, and the name is free."""
    ledger = store.spending
    with raises(BudgetSpent):
        ledger.hold(_call("a"), _refuse)
    assert ledger.sums([_DAY]) == {_DAY: Sums()}
    ledger.hold(_call("a"), _admit)
    assert ledger.sums([_DAY])[_DAY].requests == 1


def a_call_that_was_never_held_is_counted_whole(store: SessionStore) -> None:
    """A settlement without a hold counts the request too, once."""
    ledger = store.spending
    settled = ledger.settle(_call("a"), Amount(7, 70))
    assert settled is not None
    assert settled.requests == 1
    assert ledger.settle(_call("a"), Amount(7, 70)) is None
    assert ledger.sums([_AGENT]) == {_AGENT: Sums(1, 7, 70)}


def a_call_of_a_dead_process_counts_at_its_most(store: SessionStore) -> None:
    """An expired call is spent at the most that it can take; a later settlement corrects that."""
    ledger = store.spending
    ledger.hold(_call("old", _NOW - 10), _admit)
    ledger.hold(_call("new"), _admit)
    assert ledger.expire(_NOW) == 1
    assert ledger.expire(_NOW) == 0
    assert ledger.sums([_DAY]) == {_DAY: Sums(2, 100, 1_000, 100, 1_000)}
    ledger.settle(_call("old"), Amount(7, 70))
    ledger.settle(_call("new"), Amount(1, 10))
    assert ledger.sums([_DAY]) == {_DAY: Sums(2, 8, 80)}


def accounts_are_listed_by_their_period(store: SessionStore) -> None:
    """The accounts of the periods that are asked for come with their sums, the busiest first."""
    ledger = store.spending
    ledger.settle(_call("a"), Amount(7, 70))
    other = Account("token", "t", "2026-11")
    for name in ("b", "c"):
        ledger.settle(HeldCall(name, (other,), Amount(), _NOW), Amount(1, 1))
    assert list(ledger.accounts(["2026-11"]).items()) == [
        (other, Sums(2, 2, 2)),
        (_AGENT, Sums(1, 7, 70)),
        (_MONTH, Sums(1, 7, 70)),
    ]
    assert [*ledger.accounts(["2026-11", "2026-11-19"], limit=1)] == [other]
    assert ledger.accounts(["2025-01"]) == {}


def what_is_long_over_is_forgotten(store: SessionStore) -> None:
    """Old months go, and calls that were settled; a call that is held is never forgotten."""
    ledger = store.spending
    old = HeldCall("old", (Account("agent", "main", "2026-01"),), Amount(5, 5), _NOW - 100)
    ledger.settle(old, Amount(1, 1))
    ledger.hold(_call("held", _NOW - 100), _admit)
    ledger.forget(_NOW - 50, _NOW)
    assert ledger.accounts(["2026-01"]) == {}
    assert ledger.settle(old, Amount(1, 1)) is not None  # nobody knows it any more
    ledger.settle(_call("held"), Amount(7, 70))
    assert ledger.sums([_DAY]) == {_DAY: Sums(1, 7, 70)}


def the_sums_of_an_erased_owner_are_gone(store: SessionStore) -> None:
    """Erasing an owner leaves no account of it, also where a call is held; other accounts stay."""
    ledger = store.spending
    ledger.hold(_call("a"), _admit)
    ledger.erase(NamedOwner("ann \u2603"))
    assert ledger.sums([_DAY, _AGENT]) == {_DAY: Sums(), _AGENT: Sums(1, 0, 0, 100, 1_000)}
    ledger.settle(_call("a"), Amount(7, 70))
    assert ledger.sums([_DAY, _AGENT]) == {_DAY: Sums(), _AGENT: Sums(1, 7, 70)}


def an_owner_of_any_name_is_erased(store: SessionStore) -> None:
    """Also one whose name no file or database can hold as it is."""
    ledger = store.spending
    for number, name in enumerate(("a\ud800", "b\x00", "c%_")):
        account = Account("owner", name, "2026-11")
        call = HeldCall(f"call-{number}", (account,), Amount(9, 90), _NOW)
        ledger.hold(call, _admit)
        assert ledger.sums([account])[account].requests == 1
        ledger.erase(NamedOwner(name))
        ledger.settle(call, Amount(7, 70))
        assert ledger.sums([account]) == {account: Sums()}


def the_sums_of_other_owners_stay(store: SessionStore) -> None:
    """Erasing an owner leaves those whose names are nearly the same, the sums of nobody, and what
    bears the name but is no owner, also in a call that all of them share."""
    ledger = store.spending
    gone = Account("owner", "ann", "2026-11")
    every = [Account(kind, name, "2026-11") for kind in PAYER_KINDS for name in _NAMES]
    other = tuple(account for account in every if account != gone)
    for name in ("settled", "held"):
        ledger.hold(HeldCall(name, (gone, *other), Amount(9, 90), _NOW), _admit)
    ledger.settle(HeldCall("settled", (gone, *other), Amount(9, 90), _NOW), Amount(7, 70))
    ledger.erase(NamedOwner("ann"))
    kept = dict.fromkeys(other, Sums(2, 7, 70, 9, 90))
    assert ledger.sums([gone, *other]) == {gone: Sums(), **kept}
    ledger.settle(HeldCall("held", (gone, *other), Amount(9, 90), _NOW), Amount(1, 10))
    kept = dict.fromkeys(other, Sums(2, 8, 80))
    assert ledger.sums([gone, *other]) == {gone: Sums(), **kept}
