"""A process that answers one message through the meter, and kills itself at a chosen step."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING, Any, Final

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant
from holdfast.core.owners import NamedOwner
from holdfast.core.spending.budgets import Budgets, SpendingLimits
from holdfast.engine.session.async_session import AsyncSession
from holdfast.engine.session.options import read_options
from holdfast.engine.spending.meter import CallMeter, Paying, Spender, meter_model, paying
from holdfast.providers.models import async_model
from holdfast.stores.opening import open_store

if TYPE_CHECKING:
    from holdfast.ports import SessionStore

STEPS: Final = ("held", "called", "settled", "logged", "")
"""The steps after which a life can end; the last is a life that ends well."""
BUDGETS: Final = Budgets(owners={"*": SpendingLimits(month_tokens=1_000_000_000)})


class Life:
    """One run of the process, which says on a line of its own what has happened."""

    def __init__(self, store: SessionStore, last: str) -> None:
        self.store = store
        self.last = last

    def pass_step(self, step: str, about: object = "") -> None:
        sys.stdout.write(f"{step} {about}\n")
        sys.stdout.flush()
        if step == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


class _Ledger:
    """The ledger of the store, watched."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._ledger = life.store.spending

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def hold(self, call: Any, judge: Any) -> None:
        self._ledger.hold(call, judge)
        self._ledger.hold(call, judge)  # as after a lost connection
        self._life.pass_step("held", call.bound.tokens)

    def settle(self, call: Any, taken: Any) -> Any:
        found = self._ledger.settle(call, taken)
        assert self._ledger.settle(call, taken) is None
        self._life.pass_step("settled", taken.tokens)
        return found


class _Model:
    """A model whose answers are watched."""

    def __init__(self, life: Life, model: Any) -> None:
        self._life = life
        self._model = model
        self.target, self.window = model.target, model.window

    async def send(self, request: Any, on_delta: Any = None) -> Any:
        reply = await self._model.send(request, on_delta)
        self._life.pass_step("called")
        return reply


async def live(life: Life, name: str, key: str, url: str) -> None:
    session_key = SessionKey("main", name)
    meter = CallMeter(_Ledger(life), BUDGETS)
    spender = Spender(NamedOwner("ann"), "main", str(session_key))
    model: Any = _Model(life, async_model(f"anthropic:claude-opus-4-8@{url}"))
    options = read_options({"checkpoints": "off", "notes": "off"})
    append: Any = life.store.append
    watched: Any = life.store

    def append_watched(key: Any, records: Any, **given: Any) -> Any:
        found = append(key, records, **given)
        if any(isinstance(record, Assistant) for record in records):
            life.pass_step("logged")
        return found

    watched.append = append_watched
    session = AsyncSession(life.store, session_key, meter_model(model, meter, spender), options)
    with paying(Paying("laptop")):
        await session.say(key, key=key)
    await session.close()


if __name__ == "__main__":
    address, name, key, url, last = sys.argv[1:]
    with open_store(address) as opened:
        asyncio.run(live(Life(opened, last), name, key, url))
