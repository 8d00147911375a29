"""Tools that the proxy answers itself: what client and provider see, and what is logged.

The law: whatever rounds a reply takes, and wherever its bytes are split, the client gets one reply
that is valid in its dialect, says all that the model said, and calls no tool that it does not have;
and the provider gets every call with its result, now and in the next request.
"""

from __future__ import annotations

import asyncio
import json
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import httpx2
import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.engine.proxy.conversations import DIALECTS, MODELS, Client, path_for
from tests.support.runs import examples
from tests.surfaces.proxy.in_process import InProcessProxy, MemoryUpstream
from tests.surfaces.proxy.test_app_odd_shapes import ODD
from tests.surfaces.proxy.test_turns import OUTPUT, long_client

from holdfast.core.dialects.registry import target, validate_body
from holdfast.core.log.records import Assistant, CallFailure, Compaction, ToolResult
from holdfast.core.models.messages import Text, ToolAnswer, ToolCall
from holdfast.core.models.replies import Stop  # noqa: TC001  (a struct's field)
from holdfast.core.owners import ANY_OWNER
from holdfast.core.turn.replies import reply_of
from holdfast.core.window import Window
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.engine.proxy.own_tools import OWN_NAMES, ROUNDS_MAX, TOO_MANY
from holdfast.providers.replies import Accumulator, read_reply
from holdfast.stores import MemoryStore
from holdfast.surfaces.proxy.upstream import UpstreamReply
from holdfast.testing.loopback.anthropic_wire import AnthropicWire
from holdfast.testing.loopback.asking import Call
from holdfast.testing.loopback.chat_wire import ChatWire
from holdfast.testing.loopback.faults import Counts
from holdfast.testing.loopback.gemini_wire import GeminiWire
from holdfast.testing.loopback.reading import read_request
from holdfast.testing.loopback.responses_wire import ResponsesWire
from holdfast.testing.loopback.speaking import Spoken

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.replies import Reply
    from holdfast.testing.loopback.speaking import Wire

WINDOW = 12_000
STREAM_TYPE = (b"content-type", b"text/event-stream")
WIRES: dict[str, Any] = {
    "anthropic": AnthropicWire(),
    "openai-chat": ChatWire(""),
    "openai-responses": ResponsesWire(),
    "gemini": GeminiWire(),
}
SEARCH = Call(
    "sessions_history",
    {"sessionKey": "current", "query": "look", "includeTools": True, "limit": 1},
)
"""Its answer is small: what eight large ones fill is cut again, as any conversation is."""
UNKNOWN = Call("context", {"ref": "0123456789abcdef"})
WRONG = Call("context", {"lines": 7, "nothing": True})
MINE = Call("read", {"path": "x.txt"})


class Round(msgspec.Struct, frozen=True):
    """A reply of the provider's."""

    text: str = ""
    own: tuple[Call, ...] = ()
    mine: tuple[Call, ...] = ()
    is_own_first: bool = True
    thinking: str = ""
    stop: Stop | None = None

    @property
    def calls(self) -> tuple[Call, ...]:
        return (*self.own, *self.mine) if self.is_own_first else (*self.mine, *self.own)


class _Broken:
    """A body that the upstream does not end."""

    def __init__(self, packets: Sequence[bytes]) -> None:
        self._left = list(packets)

    async def next_piece(self) -> bytes | None:
        if not self._left:
            raise httpx2.ReadError("connection reset")
        return self._left.pop(0)

    async def close(self) -> None:
        self._left.clear()


class _Whole(_Broken):
    """A body that comes whole."""

    def __init__(self, data: bytes) -> None:
        super().__init__([data])

    async def next_piece(self) -> bytes | None:
        return self._left.pop(0) if self._left else None


class Provider(MemoryUpstream):
    """Answers with one round after the other, and judges each request."""

    def __init__(self, dialect: str, cuts: Sequence[int] = ()) -> None:
        super().__init__()
        self.dialect = dialect
        self.rounds: list[Round] = []
        self.cuts = cuts
        self.asked: list[Json] = []
        self.odd: list[bytes] = []
        """Events amid each stream that no provider sends, from the place `odd_place` on."""
        self.odd_place = 0
        self.breaks = (0, 0)
        """The number of a request whose stream breaks off, and the events before that."""
        self.refusal = (0, "")
        """The number of a request that is refused, and the words."""
        self._calls = 0

    async def answer(
        self, headers: Sequence[tuple[bytes, bytes]], body: bytes | AsyncIterator[bytes]
    ) -> UpstreamReply:
        assert isinstance(body, bytes)
        asked = json.loads(body)
        self.asked.append(asked)
        assert validate_body(asked, target(self.dialect, model=MODELS[self.dialect])) == []
        if self.refusal[0] == len(self.asked):
            about = {"type": "invalid_request_error", "message": self.refusal[1]}
            error = json.dumps({"type": "error", "error": about}).encode()
            return UpstreamReply(400, [(b"content-type", b"application/json")], _Whole(error))
        spoken = self._speak(self.rounds.pop(0), asked)
        wire: Wire = WIRES[self.dialect]
        if not self.is_streamed:
            self.content_type = "application/json"
            self.packets = [json.dumps(wire.reply(spoken)).encode()]
        else:
            self.content_type = "text/event-stream"
            events = [event.data for event in wire.events(spoken)]
            events[self.odd_place : self.odd_place] = self.odd
            if self.breaks[0] == len(self.asked):
                return UpstreamReply(200, [STREAM_TYPE], _Broken(events[: self.breaks[1]]))
            self.packets = split(b"".join(events), self.cuts)
        return await super().answer(headers, body)

    is_streamed = False

    def _speak(self, said: Round, asked: Json) -> Spoken:
        self._calls += 1
        calls = tuple(
            msgspec.structs.replace(call, id=f"call_r{self._calls}_{place}")
            for place, call in enumerate(said.calls)
        )
        return Spoken(
            id=f"id{self._calls}",
            model=MODELS[self.dialect],
            created=1_700_000_000 + self._calls,
            stop=said.stop or ("tools" if calls else "end"),
            thinking=said.thinking,
            text=said.text,
            calls=calls,
            counts=Counts(prompt=100, output=10),
            body=asked,
            thoughts=self._thoughts(said.thinking),
        )

    def _thoughts(self, text: str) -> tuple[Json, ...]:
        """The block or item that has a round's thinking, in the dialects that have one."""
        if not text:
            return ()
        if self.dialect == "anthropic":
            return ({"type": "thinking", "thinking": text, "signature": "c2lnbmVk"},)
        summary = [{"type": "summary_text", "text": text}]
        item = {"type": "reasoning", "id": f"rs_id{self._calls}", "summary": summary}
        return ({**item, "encrypted_content": f"gAAAAsealed{self._calls}"},)


def split(data: bytes, cuts: Sequence[int]) -> list[bytes]:
    places = sorted({cut % (len(data) + 1) for cut in cuts} - {0, len(data)})
    return [data[a:b] for a, b in zip([0, *places], [*places, len(data)], strict=True)]


def read_answer(data: bytes, dialect: str, *, is_streamed: bool) -> tuple[Reply, Json]:
    """A reply as a client reads it, and its body."""
    about = target(dialect, model=MODELS[dialect])
    if not is_streamed:
        return read_reply(data, about), json.loads(data)
    check_stream(data, dialect)
    reader = Accumulator(about)
    for line in data.split(b"\n"):
        if line.startswith(b"data: ") and line != b"data: [DONE]":
            reader.take(line[6:])
    reply = reader.finish()
    return reply, reply.raw


def check_stream(data: bytes, dialect: str) -> None:
    """The events stand in an order that the dialect allows."""
    lines = [line[6:] for line in data.split(b"\n") if line.startswith(b"data: ")]
    events = [json.loads(line) for line in lines if line != b"[DONE]"]
    names = [line[7:].decode() for line in data.split(b"\n") if line.startswith(b"event: ")]
    kinds = [event.get("type") for event in events]
    if dialect == "anthropic":
        assert names == kinds
        assert kinds[0] == "message_start"
        assert kinds[-2:] == ["message_delta", "message_stop"]
        assert kinds.count("message_start") == kinds.count("message_stop") == 1
        starts = [event["index"] for event in events if event["type"] == "content_block_start"]
        assert starts == list(range(len(starts)))
        opened = -1
        for event in events:
            if event["type"] == "content_block_start":
                opened = event["index"]
            elif event["type"].startswith("content_block_"):
                assert event["index"] == opened
    elif dialect == "openai-responses":
        assert names == kinds
        assert [event["sequence_number"] for event in events] == list(range(len(events)))
        assert kinds.count("response.created") == kinds.count("response.completed") == 1
        added = [e["output_index"] for e in events if e["type"] == "response.output_item.added"]
        assert added == list(range(len(added)))
        final = events[-1]["response"]
        assert final["id"] == events[0]["response"]["id"]
        done = [e["item"] for e in events if e["type"] == "response.output_item.done"]
        assert [item["id"] for item in final["output"]] == [item["id"] for item in done]
    elif dialect == "openai-chat":
        assert lines[-1] == b"[DONE]"
        assert len({(event["id"], event["created"]) for event in events}) == 1
        choices = [choice for event in events for choice in event["choices"]]
        assert sum("role" in choice["delta"] for choice in choices) == 1
        assert sum(choice["finish_reason"] is not None for choice in choices) == 1
    else:
        reasons = [event["candidates"][0].get("finishReason") for event in events]
        assert reasons[-1]
        assert not any(reasons[:-1])
        assert len({event["responseId"] for event in events}) == 1


def take_answer(client: Client, body: Json, said: str) -> None:
    """Take a reply into the client's conversation, answer its calls, and go on."""
    if client.dialect == "anthropic":
        if body["content"]:
            client.items.append({"role": "assistant", "content": body["content"]})
        calls = [block for block in body["content"] if block["type"] == "tool_use"]
        results: list[Json] = [
            {"type": "tool_result", "tool_use_id": call["id"], "content": "my result"}
            for call in calls
        ]
        client.items.append({"role": "user", "content": [*results, {"type": "text", "text": said}]})
        return
    if client.dialect == "openai-chat":
        message = body["choices"][0]["message"]
        if message.get("content") is not None or message.get("tool_calls"):
            client.items.append({"content": None, **message})
        client.items += [
            {"role": "tool", "tool_call_id": call["id"], "content": "my result"}
            for call in message.get("tool_calls", ())
        ]
    elif client.dialect == "gemini":
        content = body["candidates"][0]["content"]
        parts = [part for part in content["parts"] if part != {"text": ""}]
        if parts:
            client.items.append({"role": "model", "parts": parts})
        answers = [
            {
                "functionResponse": {
                    **{name: call[name] for name in ("id", "name") if name in call},
                    "response": {"output": "my result"},
                }
            }
            for call in (part.get("functionCall") for part in parts)
            if call
        ]
        if answers:
            client.items.append({"role": "user", "parts": answers})
    else:
        output = [item for item in body["output"] if item["type"] != "reasoning"]
        client.items += [{n: v for n, v in item.items() if n != "id"} for item in output]
        client.items += [
            {"type": "function_call_output", "call_id": item["call_id"], "output": "my result"}
            for item in output
            if item["type"] == "function_call"
        ]
    client.say(said)


def exchanges_in(body: Json, dialect: str) -> dict[str, str]:
    """The results of the calls of our tools in a request, by what was asked."""
    prompt = read_request(dialect, body, f"/{MODELS[dialect]}:generateContent").prompt
    blocks = [block for message in prompt.messages for block in message.blocks]
    calls = [block for block in blocks if isinstance(block, ToolCall) and block.name in OWN_NAMES]
    answers = {block.call_id: block for block in blocks if isinstance(block, ToolAnswer)}
    found = {}
    for call in calls:
        pieces = answers[call.id].content
        found[call.id] = "".join(piece.text for piece in pieces if isinstance(piece, Text))
    return found


def changes_for(dialect: str, *, is_streamed: bool) -> dict[str, Any]:
    """The fields that ask for a stream, with its usage."""
    if not is_streamed:
        return {}
    has_options = dialect == "openai-chat"
    return {"stream": True, **({"stream_options": {"include_usage": True}} if has_options else {})}


def run(dialect: str, rounds: Sequence[Round], cuts: Sequence[int], *, is_streamed: bool) -> None:
    """Send one request that is answered in rounds, and the one after it; check the law."""
    store = MemoryStore()
    keeper = ProxyKeeper(store, window=Window(WINDOW), has_tools=True)
    provider = Provider(dialect, cuts)
    provider.is_streamed = is_streamed
    client = long_client(dialect)
    changes = changes_for(dialect, is_streamed=is_streamed)
    path = path_for(dialect, is_streamed=is_streamed)

    async def converse() -> None:
        with pytest.MonkeyPatch.context() as patch:
            async with InProcessProxy(keeper, provider, patch) as proxy:
                provider.rounds = [*rounds, Round("never asked")]
                first = await proxy.post(path, client.request(**changes).data)
                used = len(provider.asked)
                check_answer(first.data, dialect, rounds[:used], is_streamed=is_streamed)
                assert first.headers["x-holdfast-tools"] == "context, sessions_history"
                _reply, body = read_answer(first.data, dialect, is_streamed=is_streamed)
                take_answer(client, body, "and now?")
                provider.rounds = [Round("the end")]
                second = await proxy.post(path, client.request(**changes).data)
                reply, _body = read_answer(second.data, dialect, is_streamed=is_streamed)
                assert reply.text == "the end"
                check_requests(provider, dialect, rounds[:used])

    asyncio.run(converse())
    (info,) = store.sessions(owner=ANY_OWNER)
    records = list(store.read(info.key))
    used = len(provider.asked) - 1
    own = [call for said in rounds[:used] for call in said.own]
    results = [record for record in records if isinstance(record, ToolResult) and record.name]
    assert [record.name for record in results if record.name in OWN_NAMES] == [
        call.name for call in own
    ]
    said = [record for record in records if isinstance(record, Assistant)][-used - 1 :]
    counts = [len(reply_of(record).calls) for record in said]
    assert counts == [*(len(one.calls) for one in rounds[:used]), 0]


def check_answer(data: bytes, dialect: str, used: Sequence[Round], *, is_streamed: bool) -> None:
    """The client sees one valid reply with all that was said, and its own calls alone."""
    assert all(name.encode() not in data for name in OWN_NAMES)
    reply, _body = read_answer(data, dialect, is_streamed=is_streamed)
    texts = [said.text for said in used if said.text]
    assert reply.text.replace("\n", "") == "".join(texts)
    assert [(call.name, call.arguments) for call in reply.calls] == [
        (call.name, call.arguments) for call in used[-1].mine
    ]
    assert reply.stop == ("tools" if used[-1].mine else "end")
    assert reply.usage is not None
    assert reply.usage.prompt == 100 * len(used)
    assert reply.usage.output == 10 * len(used)


def check_requests(provider: Provider, dialect: str, used: Sequence[Round]) -> None:
    """Each request has the calls and results of the rounds before it, and nothing else changed."""
    known: dict[str, str] = {}
    counts = [0]
    for said in used:
        counts.append(counts[-1] + len(said.own))
    for number, body in enumerate(provider.asked):
        found = exchanges_in(body, dialect)
        assert len(found) == counts[min(number, len(used))]
        assert {name: found.get(name) for name in known} == known
        known = found
    for earlier, later in pairwise(provider.asked):
        before, after = items_of(earlier), items_of(later)
        if after[:2] == before[:2]:  # else what was read made another cut
            assert after[: len(before) - 1] == before[:-1]
            assert goes_on_with(before[-1], after[len(before) - 1])


def goes_on_with(before: Json, after: Json) -> bool:
    """True for the same message, and for one to which the user's side has added: after a reply
    without a word, the next message joins the result before it."""
    name = "parts" if "parts" in before else "content"
    if before == after or not isinstance(before.get(name), list):
        return before == after
    return bool(after == {**before, name: before[name] + after[name][len(before[name]) :]})


def items_of(body: Json) -> list[Any]:
    found = body.get("messages", body.get("input", body.get("contents")))
    assert isinstance(found, list)
    return found


TEXTS = st.sampled_from(["", "One.", "Two words.", "Ein Wörtchen mit ü."])
OWN = st.lists(st.sampled_from([SEARCH, UNKNOWN, WRONG]), max_size=2).map(tuple)
ROUND = st.builds(
    Round,
    text=TEXTS,
    own=OWN,
    mine=st.lists(st.just(MINE), max_size=2).map(tuple),
    is_own_first=st.booleans(),
)
ALONE = Round("Let me look.", own=(SEARCH,))
BESIDE = Round("Both.", own=(UNKNOWN,), mine=(MINE,))
THOUGHT = Round(own=(UNKNOWN,), thinking="Hm.")
BESIDE_THOUGHT = Round("Both.", own=(UNKNOWN,), mine=(MINE,), thinking="Hm.")
BESIDE_BEFORE = Round("Both.", own=(SEARCH, WRONG), mine=(MINE, MINE), is_own_first=False)
END = Round("Done.")


def used_rounds(drawn: Sequence[Round]) -> list[Round]:
    """The rounds up to the first one that ends the reply."""
    found = []
    for said in drawn:
        found.append(said)
        if not said.own or said.mine:
            return found
    return [*found, END]


@examples(120)
@given(
    st.sampled_from(DIALECTS),
    st.lists(ROUND, min_size=1, max_size=4).map(used_rounds),
    st.lists(st.integers(0, 20_000), max_size=12),
    st.booleans(),
)
@example("anthropic", [ALONE, END], list(range(0, 20_000, 37)), True)
@example("openai-chat", [ALONE, END], list(range(0, 20_000, 37)), True)
@example("openai-responses", [ALONE, END], list(range(0, 20_000, 37)), True)
@example("gemini", [ALONE, END], list(range(0, 20_000, 37)), True)
@example("openai-responses", [THOUGHT, THOUGHT, BESIDE_THOUGHT], [900, 1_500, 2_100], True)
@example("openai-responses", [THOUGHT, BESIDE_THOUGHT], [], False)
@example("anthropic", [ALONE, ALONE, BESIDE], [], False)
@example("openai-chat", [ALONE, ALONE, BESIDE], [], False)
@example("openai-responses", [ALONE, ALONE, BESIDE], [], False)
@example("gemini", [ALONE, ALONE, BESIDE], [], False)
@example("anthropic", [BESIDE_BEFORE], [400, 500, 600], True)
@example("openai-chat", [BESIDE_BEFORE], [400, 500, 600], True)
@example("openai-responses", [BESIDE_BEFORE], [400, 500, 600], True)
@example("gemini", [BESIDE_BEFORE], [400, 500, 600], True)
@example("anthropic", [Round(own=(UNKNOWN, SEARCH)), Round(own=(WRONG,)), END], [1_000], True)
@example("openai-chat", [Round(own=(UNKNOWN, SEARCH)), Round(own=(WRONG,)), END], [1_000], True)
@example("gemini", [Round(own=(UNKNOWN, SEARCH)), Round(own=(WRONG,)), END], [1_000], True)
@example("openai-chat", [Round()], [], True)
@example("openai-chat", [Round()], [], False)
def test_rounds_are_one_reply_for_the_client_and_whole_for_the_provider(
    dialect: str, rounds: list[Round], cuts: list[int], is_streamed: bool
) -> None:
    """The law of this file."""
    run(dialect, rounds, cuts, is_streamed=is_streamed)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_model_that_never_stops_reading_is_stopped(dialect: str, is_streamed: bool) -> None:
    """After eight rounds the reply ends, with a result that says so for the last call."""
    rounds = [Round(f"R{n}.", own=(UNKNOWN,)) for n in range(ROUNDS_MAX + 1)]
    run(dialect, rounds, [], is_streamed=is_streamed)


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_reply_that_loses_its_calls_can_be_sent_back(dialect: str, is_streamed: bool) -> None:
    """By a client that sends back what it got, as it is."""
    provider = Provider(dialect)
    provider.is_streamed = is_streamed
    provider.rounds = [Round(own=(UNKNOWN,)) for _round in range(ROUNDS_MAX + 1)]
    keeper = ProxyKeeper(MemoryStore(), window=Window(WINDOW), has_tools=True)
    client = long_client(dialect)
    answer = asyncio.run(ask(keeper, provider, client))
    reply, body = read_answer(answer.data, dialect, is_streamed=is_streamed)
    assert not reply.calls
    if dialect == "anthropic":
        client.items.append({"role": "assistant", "content": body["content"]})
    elif dialect == "openai-chat":
        client.items.append({"content": None, **body["choices"][0]["message"]})
    elif dialect == "gemini":
        client.items.append(body["candidates"][0]["content"])
    else:
        client.items += body["output"]
    client.say("and now?")
    sent = json.loads(client.request().data)
    assert validate_body(sent, target(dialect, model=MODELS[dialect])) == []
    provider.rounds = [Round("the end")]
    again = asyncio.run(ask(keeper, provider, client))
    assert read_answer(again.data, dialect, is_streamed=is_streamed)[0].text == "the end"


def proxy_parts(dialect: str, **options: Any) -> tuple[MemoryStore, ProxyKeeper, Provider]:
    store = MemoryStore()
    settings: dict[str, Any] = {"window": WINDOW, "has_tools": True, **options}
    return store, ProxyKeeper(store, **settings), Provider(dialect)


async def ask(keeper: ProxyKeeper, provider: Provider, client: Client, **options: Any) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        async with InProcessProxy(keeper, provider, patch) as proxy:
            changes = changes_for(client.dialect, is_streamed=provider.is_streamed)
            path = path_for(client.dialect, is_streamed=provider.is_streamed)
            return await proxy.post(path, client.request(**changes).data, **options)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_the_model_gets_what_was_cut(dialect: str) -> None:
    """A search finds a message that a summary stands for, and its id reads the whole output."""
    store, keeper, provider = proxy_parts(dialect)
    client = long_client(dialect)
    provider.rounds = [ALONE, END]
    asyncio.run(ask(keeper, provider, client))
    (info,) = store.sessions(owner=ANY_OWNER)
    oldest = next(record for record in store.read(info.key) if isinstance(record, ToolResult))
    assert oldest.id not in json.dumps(provider.asked[0])
    assert "was cut: the tool `context` has it" in json.dumps(provider.asked[0])
    (found,) = exchanges_in(provider.asked[1], dialect).values()
    assert "look" in found
    assert "chain" not in found
    take_answer(client, read_answer_of(provider, dialect), "more")
    reading = Call("context", {"ref": oldest.id, "offset": 5_000})
    provider.rounds = [Round(own=(reading,)), END]
    asyncio.run(ask(keeper, provider, client))
    (last,) = list(exchanges_in(provider.asked[-1], dialect).values())[-1:]
    assert OUTPUT[5_000:5_200] in last
    assert len(last) <= 1_000


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_reply_that_our_tool_answered_tells_what_it_was_made_from(dialect: str) -> None:
    """Its reasoning is valid behind the same cut, and has to come back with the results."""
    store, keeper, provider = proxy_parts(dialect)
    provider.rounds = [ALONE, END]
    asyncio.run(ask(keeper, provider, long_client(dialect)))
    (info,) = store.sessions(owner=ANY_OWNER)
    records = list(store.read(info.key))
    (cut,) = [record.id for record in records if isinstance(record, Compaction)]
    made = [record for record in records if isinstance(record, Assistant)][-2:]
    assert [record.sent and record.sent.get("epoch") for record in made] == [cut, cut]


def test_without_our_tool_a_cut_names_the_way_that_the_client_has() -> None:
    """Its machine runs commands; a tool that nobody declared is not named."""
    _store, keeper, provider = proxy_parts("anthropic", has_tools=False)
    provider.rounds = [END]
    asyncio.run(ask(keeper, provider, long_client("anthropic")))
    told = json.dumps(provider.asked[0])
    assert "was cut: `holdfast output ID`" in told
    assert "the tool `" not in told


def test_the_model_has_the_conversation_cut() -> None:
    """The next round is smaller, and the conversation stays cut."""
    store, keeper, provider = proxy_parts("anthropic")
    client = long_client("anthropic")
    provider.rounds = [Round(own=(Call("context", {"action": "compact"}),)), END]
    asyncio.run(ask(keeper, provider, client))
    (info,) = store.sessions(owner=ANY_OWNER)
    cuts = [record for record in store.read(info.key) if isinstance(record, Compaction)]
    assert len(cuts) == 2
    sizes = [len(json.dumps(asked["messages"][:-2])) for asked in provider.asked[:2]]
    assert sizes[1] < len(json.dumps(provider.asked[0]["messages"]))


def read_answer_of(provider: Provider, dialect: str) -> Json:
    """The reply that the client got, of which the provider's rounds are known."""
    body: Json = WIRES[dialect].reply(provider._speak(Round("Let me look.\n\nDone."), {}))
    if dialect == "anthropic":
        body["content"] = [{"type": "text", "text": text} for text in ("Let me look.", "Done.")]
    elif dialect == "openai-responses":
        (item,) = body["output"]
        body["output"] = [
            {**item, "content": [{"type": "output_text", "text": text}]}
            for text in ("Let me look.", "Done.")
        ]
    return body


@pytest.mark.parametrize("dialect", DIALECTS)
def test_without_a_cut_or_a_switch_nothing_is_added(dialect: str) -> None:
    """A request that fits goes out as it came; so does the tools field of one that is cut while
    the tools are off, of one without tools, and of one that has a tool of that name."""
    for options, client in (
        ({"window": 200_000}, long_client(dialect)),
        ({"has_tools": False}, long_client(dialect)),
    ):
        _store, keeper, provider = proxy_parts(dialect, **options)
        provider.rounds = [END]
        got = asyncio.run(ask(keeper, provider, client))
        request = client.request()
        assert provider.asked[0]["tools"] == json.loads(request.data)["tools"]
        assert "x-holdfast-tools" not in got.headers
    assert json.loads(long_client(dialect).request().data).keys() >= {"tools"}
    _store, keeper, provider = proxy_parts(dialect)
    client = long_client(dialect)
    client.has_tools = False
    provider.rounds = [END]
    asyncio.run(ask(keeper, provider, client))
    assert "tools" not in provider.asked[0]


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_cut_conversation_keeps_the_tools(dialect: str) -> None:
    """Every request after the first cut has the same tools, so that a cache knows its beginning."""
    _store, keeper, provider = proxy_parts(dialect)
    client = long_client(dialect)
    for number in range(3):
        provider.rounds = [END]
        got = asyncio.run(ask(keeper, provider, client))
        _reply, body = read_answer(got.data, dialect, is_streamed=False)
        take_answer(client, body, f"go on {number}")
    assert len({json.dumps(body["tools"]) for body in provider.asked}) == 1


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_cache_knows_the_beginning_of_every_request(dialect: str) -> None:
    """What one request has is the beginning of the next, in the rounds and after them."""
    _store, keeper, provider = proxy_parts(dialect)
    client = long_client(dialect)
    for number in range(2):
        provider.rounds = [Round("Hm.", own=(UNKNOWN,)), BESIDE]
        got = asyncio.run(ask(keeper, provider, client))
        _reply, body = read_answer(got.data, dialect, is_streamed=False)
        take_answer(client, body, f"go on {number}")
    provider.rounds = [END]
    asyncio.run(ask(keeper, provider, client))
    assert len(provider.asked) == 5
    for earlier, later in pairwise(provider.asked):
        assert items_of(later)[: len(items_of(earlier))] == items_of(earlier)
    assert len(exchanges_in(provider.asked[-1], dialect)) == 4


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("after", [1, 2, 4, 6])
def test_a_client_that_hangs_up_amid_the_rounds_can_ask_again(dialect: str, after: int) -> None:
    """What came is in the log with its cause, and the same request is answered whole."""
    store, keeper, provider = proxy_parts(dialect)
    provider.is_streamed = True
    provider.cuts = list(range(0, 20_000, 50))
    client = long_client(dialect)
    provider.rounds = [ALONE, Round("A longer text to hang up in. " * 4)]
    got = asyncio.run(ask(keeper, provider, client, hang_up_after=after))
    assert len(got.chunks) == after
    provider.rounds = [ALONE, END]
    whole = asyncio.run(ask(keeper, provider, client))
    check_answer(whole.data, dialect, [ALONE, END], is_streamed=True)
    (info,) = store.sessions(owner=ANY_OWNER)
    entries = [entry.record for entry in store.read_all(info.key)]
    causes = [record for record in entries if _cause_of(record)]
    assert len(causes) == 1
    assert "hung up" in _cause_of(causes[0])


def _cause_of(record: Record) -> str:
    if isinstance(record, CallFailure):
        return record.cause
    return str(record.extra.get("cause", ""))


def test_an_own_call_that_broke_off_is_left_out() -> None:
    """A reply that ends for its length amid a call of ours ends so for the client, and the next
    request has no half a call."""
    store, keeper, provider = proxy_parts("anthropic")
    client = long_client("anthropic")
    provider.rounds = [ALONE, Round("Cut.", own=(UNKNOWN,), stop="length")]
    got = asyncio.run(ask(keeper, provider, client))
    reply, body = read_answer(got.data, "anthropic", is_streamed=False)
    assert (reply.text, reply.stop, reply.calls) == ("Let me look.\nCut.", "length", ())
    take_answer(client, body, "go on")
    provider.rounds = [END]
    asyncio.run(ask(keeper, provider, client))
    assert len(exchanges_in(provider.asked[-1], "anthropic")) == 1
    assert "Cut." in json.dumps(provider.asked[-1])
    assert len(store.sessions(owner=ANY_OWNER)) == 1


def test_the_tools_reach_no_other_session() -> None:
    """Whatever a model names, it reads the conversation that it is in."""
    store, keeper, provider = proxy_parts("anthropic")
    secret = long_client("anthropic")
    secret.say("the word is xyzzy-plugh")
    provider.rounds = [END]
    asyncio.run(ask(keeper, provider, secret))
    (other,) = store.sessions(owner=ANY_OWNER)
    foreign = next(record for record in store.read(other.key) if isinstance(record, ToolResult))
    client = long_client("anthropic")
    calls = (
        Call("sessions_history", {"sessionKey": str(other.key), "query": "xyzzy"}),
        Call("sessions_history", {"sessionKey": "current", "query": "xyzzy"}),
        Call("context", {"ref": foreign.id}),
    )
    provider.rounds = [Round("", own=calls), END]
    asyncio.run(ask(keeper, provider, client))
    answers = list(exchanges_in(provider.asked[-1], "anthropic").values())
    assert len(answers) == 3
    assert not any("plugh" in answer or OUTPUT[:100] in answer for answer in answers)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_first_request_has_no_tools_of_ours(dialect: str) -> None:
    """A client that sent no reply yet may go on by an id, and never send its history again."""
    _store, keeper, provider = proxy_parts(dialect)
    client = Client(dialect)
    client.say("word " * 20_000)
    client.say("What was the first word?")
    provider.rounds = [END]
    got = asyncio.run(ask(keeper, provider, client))
    assert got.headers["x-holdfast-action"] == "projected"
    assert "x-holdfast-tools" not in got.headers


@pytest.mark.parametrize("is_streamed", [False, True])
def test_reasoning_that_led_to_our_call_is_not_the_clients(is_streamed: bool) -> None:
    """A client that has reasoning without what followed it could not send it back; the provider
    gets both back."""
    _store, keeper, provider = proxy_parts("openai-responses")
    provider.is_streamed = is_streamed
    client = long_client("openai-responses")
    client.extra = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}
    said = Round("Done.", thinking="Hm again.")
    provider.rounds = [THOUGHT, said]
    got = asyncio.run(ask(keeper, provider, client))
    _reply, body = read_answer(got.data, "openai-responses", is_streamed=is_streamed)
    assert [item["type"] for item in body["output"]] == ["reasoning", "message"]
    kinds = [item.get("type") for item in items_of(provider.asked[1])]
    assert kinds[-3:] == ["reasoning", "function_call", "function_call_output"]


def test_a_refusal_for_size_amid_the_rounds_is_answered() -> None:
    """The client's stream has begun, and goes on with the reply to a smaller request; a refusal
    for another reason ends it with an error."""
    for said, is_answered in (
        ("prompt is too long: 9000 tokens > 5000 maximum", True),
        ("messages: at least one message is required", False),
    ):
        _store, keeper, provider = proxy_parts("anthropic")
        provider.is_streamed = True
        provider.refusal = (2, said)
        provider.rounds = [ALONE, END]
        got = asyncio.run(ask(keeper, provider, long_client("anthropic")))
        assert (b"message_stop" in got.data) == is_answered
        assert (b"event: error" in got.data) != is_answered
        if is_answered:
            check_answer(got.data, "anthropic", [ALONE, END], is_streamed=True)
            sizes = [len(json.dumps(body)) for body in provider.asked]
            assert sizes[2] < sizes[1]


def test_the_clients_cache_mark_stays_at_its_reply() -> None:
    """A mark that the client set in a reply of several rounds stands at its end, once."""
    _store, keeper, provider = proxy_parts("anthropic")
    client = long_client("anthropic")
    provider.rounds = [ALONE, END]
    got = asyncio.run(ask(keeper, provider, client))
    _reply, body = read_answer(got.data, "anthropic", is_streamed=False)
    mark = {"type": "ephemeral", "ttl": "1h"}
    body["content"][-1]["cache_control"] = mark
    take_answer(client, body, "go on")
    provider.rounds = [END]
    asyncio.run(ask(keeper, provider, client))
    blocks = [
        block
        for item in items_of(provider.asked[-1])
        for block in (item["content"] if isinstance(item["content"], list) else ())
    ]
    marked = [block for block in blocks if "cache_control" in block]
    assert marked == [{"type": "text", "text": "Done.", "cache_control": mark}]


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("place", [1, 3, 5])
def test_an_upstream_that_breaks_off_amid_the_rounds_is_told(dialect: str, place: int) -> None:
    """The client's stream does not end as if it were whole; the same request is answered then."""
    store, keeper, provider = proxy_parts(dialect)
    provider.is_streamed = True
    client = long_client(dialect)
    provider.rounds = [ALONE, Round("A longer text to break off in. " * 4)]
    provider.breaks = (2, place)
    got = asyncio.run(ask(keeper, provider, client))
    assert b"error" in got.data
    provider.breaks = (0, 0)
    provider.rounds = [ALONE, END]
    whole = asyncio.run(ask(keeper, provider, client))
    check_answer(whole.data, dialect, [ALONE, END], is_streamed=True)
    assert len(store.sessions(owner=ANY_OWNER)) == 1


def test_the_last_result_says_why() -> None:
    """The result of the call that is not answered any more says so to the model."""
    store, keeper, provider = proxy_parts("anthropic")
    provider.rounds = [Round(own=(UNKNOWN,)) for _ in range(ROUNDS_MAX + 1)]
    asyncio.run(ask(keeper, provider, long_client("anthropic")))
    (info,) = store.sessions(owner=ANY_OWNER)
    results = [r for r in store.read(info.key) if isinstance(r, ToolResult) and r.name in OWN_NAMES]
    assert results[-1].content == TOO_MANY
    assert len(results) == ROUNDS_MAX + 1


@examples(60)
@given(st.sampled_from(DIALECTS), st.sampled_from(ODD), st.sampled_from(ODD), st.integers(0, 6))
@example("openai-chat", {"x": 1}, [1, "a", {}], 1)
@example("gemini", {"x": 1}, [None], 1)
@example("anthropic", [], {"type": "tool_use"}, 2)
@example("openai-responses", [], {"": ""}, 2)
def test_an_odd_event_does_not_end_the_stream(
    dialect: str, one: Any, other: Any, place: int
) -> None:
    """A host that deviates amid a stream is passed on; what follows still reaches the client."""
    odd: list[Json] = [
        {"choices": one},
        {"choices": [{"delta": one, "finish_reason": None, "index": other}]},
        {"choices": [{"delta": {"tool_calls": [one], "content": other}}]},
        {"candidates": one},
        {"candidates": [{"content": {"parts": one}}], "usageMetadata": other},
        {"type": "content_block_start", "index": one, "content_block": other},
        {"type": "message_delta", "delta": one, "usage": other},
        {"type": "response.output_item.added", "output_index": one, "item": other},
        {"type": "response.output_text.delta", "output_index": one, "delta": other},
    ]
    store, keeper, provider = proxy_parts(dialect)
    provider.is_streamed = True
    provider.odd = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in odd]
    provider.odd_place = place
    provider.rounds = [Round("The words that matter.")]
    got = asyncio.run(ask(keeper, provider, long_client(dialect)))
    assert got.status == 200
    assert b"matter." in got.data
    assert store.sessions(owner=ANY_OWNER)
