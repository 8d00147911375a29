"""Every prefix of the recorded sessions at a quarter of its size: valid, it fits, and the newest
message is whole. The ordinary run takes a sample by name; the nightly one takes all of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.engine.proxy.conversations import DIALECTS
from tests.engine.proxy.real_requests import (
    aim,
    items_of,
    newest_bytes,
    question_bytes,
    recorded_sessions,
    tokens_of,
)
from tests.support.cases import check_all

from holdfast.core.dialects.registry import validate_body
from holdfast.core.limits import WINDOW_FLOOR_TOKENS
from holdfast.core.window import Window
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.engine.proxy.request import ClientRequest
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.engine.proxy.real_requests import RecordedRequest

    from holdfast.core.log.records import Json

pytestmark = pytest.mark.files_only("it makes its own stores, and asks none for more than a log")
WINDOW_MIN = 4_000
"""Tokens: in a smaller window a single message is most of a conversation. Below the floor of a
session, the question and the newest step share what there is."""


def prefixes(share: float, dialects: int) -> Iterator[RecordedRequest]:
    """Requests in each dialect, or in one of them by turns."""
    turn = 0
    for session in recorded_sessions(share):
        for place in session.places(share):
            turn += 1
            for step in range(dialects):
                found = session.request(place, DIALECTS[(turn + step) % len(DIALECTS)])
                if found is not None and found.items:
                    yield found


def check(request: RecordedRequest, projected: list[str]) -> None:
    """Send a request through the proxy's fitting, at a quarter of its size."""
    dialect = request.dialect
    total = tokens_of(request.body, dialect)
    window = max(WINDOW_MIN, total // 4)
    if total <= window:
        return
    data = json.dumps(request.body).encode()
    begun = ProxyKeeper(MemoryStore(), window=Window(window)).begin(
        ClientRequest(dialect=dialect, upstream=dialect.partition("-")[0], headers={}, data=data)
    )
    newest = newest_bytes(request.items) // 2  # more tokens than it can have
    if begun.body == data:
        assert newest > window // 4, "it does not fit, and it passed"
        return
    projected.append(request.name)
    cut = json.loads(begun.body)
    assert validate_body(cut, aim(dialect)) == []
    assert tokens_of(cut, dialect) <= window
    assert _without_items(cut) == _without_items(request.body)
    beside = 0 if window >= WINDOW_FLOOR_TOKENS else question_bytes(request.items) // 3
    if newest + beside < window // 4:
        assert items_of(cut)[-1] == request.items[-1]
    assert begun.headers()["x-holdfast-action"] == "projected"


_LISTS = ("messages", "input", "contents")


def _without_items(body: Json) -> Json:
    return {name: value for name, value in body.items() if name not in _LISTS}


def test_every_prefix_at_a_quarter_of_its_size() -> None:
    projected: list[str] = []
    check_all(prefixes(0.02, 1), lambda request: check(request, projected), name=_name)
    assert len(projected) >= 5


@pytest.mark.nightly
@pytest.mark.timeout(4 * 3_600)
def test_every_prefix_in_every_dialect() -> None:
    projected: list[str] = []
    every = prefixes(1.0, len(DIALECTS))
    check_all(every, lambda request: check(request, projected), name=_name)
    print(f"{len(projected):,} requests were projected")
    assert len(projected) >= 1_000


def _name(request: RecordedRequest) -> str:
    return request.name
