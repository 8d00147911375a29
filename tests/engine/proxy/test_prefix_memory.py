"""A request that goes on from one before reads as if it were read whole."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.engine.proxy.conversations import DIALECTS, Client
from tests.support.runs import examples

from holdfast.engine.proxy import request_body
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.engine.proxy.new_records import new_records
from holdfast.engine.proxy.prefix_memory import PrefixMemory
from holdfast.stores.in_memory import MemoryStore

if TYPE_CHECKING:
    from holdfast.engine.proxy.request import ClientRequest

pytestmark = pytest.mark.files_only("it makes its own stores, and asks none for more than a log")

MOVES = ("step", "parallel", "say", "edit the first", "edit the last", "drop the last", "system")


def move(client: Client, what: str, number: int) -> None:
    match what:
        case "step":
            client.hear(f"look {number}", f"{number}.txt")
            client.answer(f"content {number}")
        case "parallel":
            for place in range(6):
                client.hear("", f"{number}.{place}.txt")
            client.answer("all")
        case "say":
            client.hear(f"done {number}")
            client.say(f"more {number}")
        case "edit the first" if client.items:
            client.items[0] = {**client.items[0], "edited": number}
        case "edit the last" if client.items:
            client.items[-1] = {**client.items[-1], "edited": number}
        case "drop the last" if len(client.items) > 1:
            client.items.pop()
        case "system":
            client.system += f" And {number}."


def facts(request: ClientRequest) -> dict[str, Any]:
    """Everything that the proxy reads of a request."""
    known = [0, len(request.atoms) // 2, max(0, len(request.atoms) - 2)]
    return {
        "atoms": request.atoms,
        "chains": request.chains,
        "opening": request.opening,
        "terms": request.terms,
        "client": request.client,
        "system": request.system,
        "tools": request.tools,
        "model": request.model,
        "output": request.output_tokens,
        "count": request.item_count,
        "items": request.items,
        "last": request.items_from(request.item_count - 1),
        "records": [new_records(request, place) for place in known if place < len(request.atoms)],
    }


@given(
    st.sampled_from(DIALECTS),
    st.lists(st.sampled_from(MOVES), max_size=25),
    st.sampled_from([None, 1]),
)
@examples(150)
@example("gemini", ["step"] * 12 + ["parallel", "say"], None)
@example("openai-chat", ["parallel"] * 4 + ["edit the first", "step"], None)
@example("openai-responses", ["step"] * 20 + ["drop the last", "system", "step"], 1)
@example("anthropic", ["step"] * 20 + ["edit the last", "step", "edit the first"], None)
def test_a_known_beginning_changes_nothing(
    dialect: str, moves: list[str], indent: int | None
) -> None:
    memory = PrefixMemory(bytes_min=0)
    client = Client(dialect)
    client.say("question")
    for number, what in enumerate(moves):
        move(client, what, number)
        made = client.request()
        data = json.dumps(json.loads(made.data), indent=indent).encode()
        whole = msgspec.structs.replace(made, data=data)
        attached = memory.attach(msgspec.structs.replace(whole))
        assert facts(attached) == facts(whole)
        memory.remember(attached)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_only_what_is_new_is_parsed(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The law that keeps a history of megabytes fast: no call parses what one before has read."""
    parsed: list[int] = []
    decode = request_body._decode

    def note(data: bytes) -> Any:
        parsed.append(len(data))
        return decode(data)

    monkeypatch.setattr(request_body, "_decode", note)
    keeper = ProxyKeeper(MemoryStore(), mode="observe")
    client = Client(dialect)
    client.say("question")
    for number in range(60):
        client.hear(f"look {number}", f"{number}.txt")
        client.answer(f"{number} line of output " * 1_000)
        begun = keeper.begin(client.request())
        begun.open("application/json", "")
        begun.take(Client(dialect).hear("", f"{number + 1}.txt"))
        begun.finish()
    size = len(client.request().data)
    assert size > 1_000_000
    assert max(parsed[-20:]) < size / 2
    assert sum(parsed[-20:]) < 10 * size


def test_memory_is_bounded() -> None:
    memory = PrefixMemory(bytes_max=100_000, bytes_min=1_000)
    for number in range(50):
        client = Client("anthropic")
        client.say(f"question {number}")
        for step in range(10):
            client.hear(f"{number} look {step}", "a.txt")
            client.answer("content " * 100)
        memory.remember(memory.attach(client.request()))
        assert sum(len(kept.data) for kept in memory._kept.values()) == memory._size <= 100_000
    assert len(memory._kept) > 5
