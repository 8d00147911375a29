"""No history makes a session unanswerable: every operation works, whatever the log holds."""

from __future__ import annotations

import random
import re
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from tests.engine.sessions import EITHER_KIND, KINDS, Bench
from tests.hostile_logs import hostile_log
from tests.support.runs import sample

from holdfast.core.turn.options import Limits
from holdfast.engine.session.session import Session
from holdfast.ports import ANY_HEAD
from holdfast.testing.scripted import ScriptedModel

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


pytestmark = EITHER_KIND


@pytest.fixture(params=KINDS)
def bench(request: Any) -> Iterator[Bench]:
    made = Bench(request.param)
    yield made
    made.close()


def fill(bench: Bench, session: Any, seed: int) -> None:
    """Append a hostile log, as any other writer could."""
    records = [
        msgspec.structs.replace(record, id="") for record in hostile_log(random.Random(seed))
    ]
    bench.store.append(session.key, records, expect=ANY_HEAD)


CASES = [(seed, window) for seed in range(6) for window in (4_000, 30_000)]


@pytest.mark.parametrize(("seed", "window"), sample(CASES, share=0.3))
def test_every_operation_works_on_any_log(bench: Bench, seed: int, window: int) -> None:
    model = ScriptedModel([], otherwise="fine", window=window)
    session = bench.open(model, limits=Limits(floor=0))
    for round_ in range(2):
        fill(bench, session, 2 * seed + round_)
        status = bench.do(session.status())
        assert status.tokens <= window or status.messages_tokens > status.compact_at
        assert bench.do(session.plan()).tokens.total <= window
        bench.do(session.checkpoint())
        bench.do(session.compact())
        bench.do(session.resume())
        assert bench.say(session, "hi").text == "fine"


def test_a_paste_in_two_messages_is_answered_and_can_be_read_back(tmp_path: Path) -> None:
    """The request names the record of the long message, and that record can be read."""
    words = "some words " * 9_000
    with Session.open("a", model="offline", window=30_000, store=str(tmp_path)) as session:
        record = session.own_loop.add_user(words)
        assert session.status().messages_tokens > 0
        assert session.say("hi").text
        sent = str(session.plan().prompt.messages)
        assert re.search(rf"of 99,000 characters left out; record {record} has all of it", sent)
        assert (
            session.own_loop.read_output(record, max_chars=100_000).text.count("some words") > 7_000
        )
        assert session.compact().outcome in ("applied", "skipped")
        assert session.checkpoint()
    with Session.open("a", model="offline", window=30_000, store=str(tmp_path)) as again:
        again.own_loop.add_user("one more")
        assert again.resume() is not None
