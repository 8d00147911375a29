"""Calls are counted exactly once, wherever the processes that make them are killed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.spending.lives import STEPS
from tests.support.runs import examples

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant
from holdfast.core.owners import NamedOwner
from holdfast.core.spending.budgets import SPANS, Account, Sums, period_at
from holdfast.stores.opening import open_store
from holdfast.testing import Answer, Loopback

pytestmark = pytest.mark.files_only("it starts processes of its own, over each store")
ROOT = Path(__file__).parents[3]


class Told(NamedTuple):
    """What the lives of one process said, added up."""

    held: int
    called: int
    tokens: int
    held_tokens: int


def run_lives(address: str, name: str, plan: list[str], url: str) -> Told:
    """Answer one message after the other; each life ends after the step that the plan names."""
    held = called = tokens = bound = 0
    for number, last in enumerate(plan):
        command = [sys.executable, "-m", "tests.engine.spending.lives"]
        given_ = [address, name, f"message {number}", url, last]
        environ = {**os.environ, "ANTHROPIC_API_KEY": "any", "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [*command, *given_], capture_output=True, text=True, env=environ, cwd=ROOT, check=False
        )
        assert (done.returncode == -9) == bool(last), done.stderr[-2_000:]
        steps = [line.split() for line in done.stdout.splitlines()]
        held += sum(step[0] == "held" for step in steps)
        called += sum(step[0] == "called" for step in steps)
        settled = [int(step[1]) for step in steps if step[0] == "settled"]
        tokens += sum(settled)
        if not settled:  # it was killed before: the most that the call can take stands
            bound += int(steps[-2][1] if steps[-1][0] == "called" else steps[-1][1])
    return Told(held, called, tokens, bound)


def check_lives(address: str, plans: list[list[str]]) -> None:
    """Run several processes at once, and compare the ledger with what they said, with the log and
    with the provider."""
    names = [f"s{number}" for number in range(len(plans))]
    with open_store(address) as store:
        for name in names:
            store.create(SessionKey("main", name), owner=NamedOwner("ann"))
    with Loopback(lambda _asked: Answer("An answer.")) as provider:
        with ThreadPoolExecutor(len(plans)) as threads:
            told = list(
                threads.map(
                    lambda pair: run_lives(address, pair[0], pair[1], provider.url),
                    zip(names, plans, strict=True),
                )
            )
        made = len(provider.requests)
    wanted = Sums(
        requests=sum(each.held for each in told),
        tokens=sum(each.tokens for each in told),
        nanodollars=0,
        held_tokens=sum(each.held_tokens for each in told),
    )
    assert made == sum(each.called for each in told)
    now = time.time()
    with open_store(address) as store:
        accounts = [
            Account(kind, name, period_at(span, now, "UTC"))  # type: ignore[arg-type]
            for kind, name in (("token", "laptop"), ("owner", "ann"), ("agent", "main"))
            for span in SPANS
        ]
        for sums in store.spending.sums(accounts).values():
            assert sums[:2] == wanted[:2]
            assert sums.held_tokens == wanted.held_tokens
        store.spending.expire(now + 10)
        for sums in store.spending.sums(accounts).values():
            assert sums.tokens == wanted.tokens + wanted.held_tokens
            assert (sums.held_tokens, sums.held_nanodollars) == (0, 0)
        replies = sum(
            isinstance(record, Assistant)
            for name in names
            for record in store.read(SessionKey("main", name))
        )
        assert replies <= made


PLANS = st.lists(st.sampled_from(STEPS), min_size=1, max_size=2)


@examples(12)
@given(PLANS, PLANS)
def test_calls_are_counted_once_on_a_folder(one: list[str], two: list[str]) -> None:
    """Two processes over one folder are killed between hold, call, settlement and log: requests,
    tokens and what is still held are those of the steps that were passed."""
    with tempfile.TemporaryDirectory() as folder:
        check_lives(folder, [one, two])


def test_every_step_of_a_call_is_tried(tmp_path: Path) -> None:
    """A life ends once after each step, and the next goes on."""
    check_lives(str(tmp_path / "root"), [[*STEPS]])


def test_calls_are_counted_once_on_postgres(empty_postgres_address: str) -> None:
    """The same for two processes over one database."""
    check_lives(empty_postgres_address, [["called", "held", ""], ["settled", "called", "logged"]])
