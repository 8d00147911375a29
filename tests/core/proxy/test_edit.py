"""A client's messages with cuts: what is kept is the same object, what is shortened keeps its
place."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.engine.proxy.conversations import DIALECTS, Client

from holdfast.core.dialects.registry import find_dialect
from holdfast.core.models.messages import Text, ToolCall
from holdfast.core.owners import ANY_OWNER
from holdfast.core.projection.units import ContextUnit, MessagePart
from holdfast.core.proxy.edit import ConversationMap, edit_items
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.stores.in_memory import MemoryStore


def conversation(dialect: str) -> tuple[Client, ConversationMap, list[Any]]:
    """A conversation of one step, and the records that it is in the log."""
    client = Client(dialect)
    client.say("question")
    client.hear("look", "a.txt")
    client.answer("content")
    request = client.request()
    store = MemoryStore()
    ProxyKeeper(store).begin(request)
    path = [
        record
        for record in store.read(store.sessions(owner=ANY_OWNER)[0].key)
        if hasattr(record, "content")
    ]
    found = ConversationMap(
        request.items, request.atoms, request.chains, path, find_dialect(dialect)
    )
    return client, found, path


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_reply_that_is_shortened_keeps_its_calls(dialect: str) -> None:
    """In the Responses API a reply is several items; none of them is lost."""
    client, found, path = conversation(dialect)
    reply = path[1]
    blocks = (Text("lo"), ToolCall("call_1", "read", {"path": "[cut]"}))
    unit = ContextUnit((MessagePart(reply.id, "assistant", "assistant", blocks),))
    edited = json.dumps(edit_items(found, [unit], {}))
    assert "question" not in edited
    assert dialect == "gemini" or "call_1" in edited  # its calls have no ids here
    assert '"read"' in edited
    assert "[cut]" in edited
    assert "look" not in edited
    same = (Text("look"), ToolCall("call_1", "read", {"path": "a.txt"}))
    unit = ContextUnit((MessagePart(reply.id, "assistant", "assistant", same),))
    kept = edit_items(found, [unit], {reply.id: same})
    own = [id(item) for item in found.items]
    assert [id(item) in own for item in kept] == [True] * len(kept)
    assert kept[found.static :] == client.items[1:-1]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_everything_kept_is_the_same_list(dialect: str) -> None:
    _client, found, path = conversation(dialect)
    blocks = {record.id: (Text(record.id),) for record in path}
    units = [
        ContextUnit((MessagePart(record.id, "user", "user", blocks[record.id]),)) for record in path
    ]
    assert edit_items(found, units, blocks) == list(found.items)
