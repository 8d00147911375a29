"""Requests that are made to fit: what stays is the client's own, and the result is valid."""

from __future__ import annotations

import json
from itertools import count
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.engine.proxy.conversations import DIALECTS, Client, exchange
from tests.engine.proxy.real_requests import items_of, tokens_of
from tests.engine.session.test_refused_content import refusal_body
from tests.prompts import png
from tests.support.runs import examples

from holdfast.core.window import Window
from holdfast.engine.proxy.exchange import ProxyKeeper
from holdfast.engine.proxy.request import ClientRequest
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing import Answer, Loopback

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.core.log.records import Json

pytestmark = pytest.mark.files_only("it makes its own stores, and asks none for more than a log")
_numbers = count(1)


def begin(body: Json, dialect: str, window: int, **options: Any) -> tuple[bytes, bytes, Any]:
    """The body that a client sent, the one that goes upstream, and the exchange."""
    data = json.dumps(body).encode()
    keeper = ProxyKeeper(MemoryStore(), window=Window(window), **options)
    request = ClientRequest(
        dialect=dialect, upstream=dialect.partition("-")[0], headers={}, data=data
    )
    begun = keeper.begin(request)
    return data, begun.body, begun


def long(dialect: str, steps: int = 30) -> Client:
    client = Client(dialect)
    client.say(f"Fix project {next(_numbers)}.")
    for step in range(steps):
        client.hear(f"look {step}", f"{step}.txt")
        client.answer(f"{step} line of output " * 250)
    return client


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_stays_is_the_clients_own(dialect: str) -> None:
    """Unknown fields, unknown blocks and cache marks of messages that stay are not touched."""
    client = long(dialect)
    for item in client.items:
        item["unknown_field"] = {"a": [1.5, None]}
    mark = {"type": "ephemeral", "ttl": "1h"}
    last: Json = {"role": "user", "content": [{"type": "text", "text": "And now?"}]}
    last["content"].insert(0, {"type": "novel_block", "payload": {"x": 1}, "cache_control": mark})
    if dialect == "openai-responses":
        last |= {"type": "message"}
        last["content"][1]["type"] = "input_text"
    client.items.append(last)
    body = json.loads(client.request(context_management={"edits": []}, metadata={"k": "v"}).data)
    data, sent, _ = begin(body, dialect, 16_000)
    assert sent != data
    cut = json.loads(sent)
    assert items_of(cut)[-1] == last
    assert (cut["context_management"], cut["metadata"]) == ({"edits": []}, {"k": "v"})
    kept = [item for item in items_of(cut) if "unknown_field" in item]
    assert kept
    own = [msgspec.json.encode(item) for item in client.items]
    assert all(msgspec.json.encode(item) in own for item in kept[1:])


def test_a_cut_tells_thoughts_refusals_and_the_summary_that_the_client_goes_on_from() -> None:
    """All that a narrative is made of arrives in a client's messages, and nothing of it is lost on
    the way into the log."""
    client = long("anthropic")
    summary = "1. Primary Request:\n- Move the port to 8443\n\n2. Pending Tasks:\n- the proxy"
    preamble = "This session is being continued from a previous conversation. Summary:"
    client.items[0]["content"] = f"{preamble}\nSummary:\n{summary}"
    thinking = {"type": "thinking", "thinking": "The socket is bound twice.", "signature": "s"}
    client.items[9]["content"].insert(0, thinking)
    refused = "The user doesn't want to proceed with this tool use. the user said:\nnever that way"
    client.items[10]["content"][0] |= {"content": refused, "is_error": True}
    client.say("And now?")
    _data, sent, _ = begin(json.loads(client.request().data), "anthropic", 16_000)
    text = items_of(json.loads(sent))[0]["content"]
    text = text if isinstance(text, str) else "\n".join(block["text"] for block in text)
    assert summary in text
    assert preamble not in text
    assert "Thought: The socket is bound twice." in text
    assert "User, refusing the call: never that way" in text


_COMPACTED: dict[str, Callable[[int], Any]] = {
    "anthropic": lambda limit: {
        "edits": [
            {"type": "clear_tool_uses_20250919"},
            {"type": "compact_20260112", "trigger": {"type": "input_tokens", "value": limit}},
        ]
    },
    "openai-responses": lambda limit: [{"type": "compaction", "compact_threshold": limit}],
}


@pytest.mark.parametrize("dialect", sorted(_COMPACTED))
@pytest.mark.parametrize(("limit", "is_ours"), [(16_000, False), (16_001, True)])
def test_a_conversation_that_the_provider_compacts_is_left_to_it(
    dialect: str, limit: int, *, is_ours: bool
) -> None:
    """Where it does so before the window is full; else it is cut as any other. A refusal of the
    size is answered all the same."""
    client = long(dialect)
    client.say("And now?")
    settings = _COMPACTED[dialect](limit)
    body = json.loads(client.request(context_management=settings).data)
    data, sent, begun = begin(body, dialect, 16_000)
    assert (sent != data) is is_ours
    assert json.loads(sent)["context_management"] == settings
    if not is_ours:
        said = "prompt is too long: 40000 tokens > 16000 maximum"
        error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
        assert begun.refuse(400, {}, json.dumps(error).encode())
        assert len(begun.body) < len(data)


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("settings", [{}, [], None, "x", {"edits": [{"type": "clear_thinking_1"}]}])
def test_other_management_of_the_context_bounds_nothing(dialect: str, settings: Any) -> None:
    client = long(dialect)
    client.say("And now?")
    body = json.loads(client.request(context_management=settings).data)
    data, sent, _ = begin(body, dialect, 16_000)
    assert sent != data
    assert json.loads(sent)["context_management"] == settings


def test_a_compaction_that_only_its_provider_can_read_is_never_cut_away() -> None:
    """The provider can still tell what it compacted, however often the proxy cuts behind it. What
    was beside it in its reply is told in the carry-over."""
    seen: list[str] = []

    def answer(asked: Any) -> Answer:
        seen.append(str(asked.messages))
        return Answer("The secret port is 8443.")

    loopback, client = Loopback(answer), Client("openai-responses")
    client.has_tools = False

    def ask(body: Json, path: str = "/v1/responses") -> list[Json]:
        reply = loopback.handle(path, json.dumps(body).encode(), {"authorization": "Bearer k"})
        assert reply.status == 200, reply.body
        found: list[Json] = json.loads(reply.body)["output"]
        return found

    model: Json = {
        "model": "gpt-6.2-sol",
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }
    client.say("First")
    client.items += ask({**model, "input": client.items})
    client.items = ask({**model, "input": client.items}, "/v1/responses/compact")
    client.hear("What is beside it.")
    keeper = ProxyKeeper(MemoryStore(), window=Window(8_000))
    for turn in range(3):
        for step in range(20):
            client.say(f"Part {turn}.{step}: " + "a line of the file " * 150)
            client.hear(f"Part {turn}.{step} is read.")
        client.say("Which port?")
        begun = keeper.begin(client.request(**model))
        body = json.loads(begun.body)
        assert begun.body != client.request(**model).data
        kinds = [one.get("type") for one in body["input"]]
        assert kinds.count("compaction") == 1
        assert "<conversation_so_far>" in str(body["input"][kinds.index("compaction") + 1])
        ask({**body, "instructions": None})
        assert "8443" in seen[-1]
        client.items += [{"type": "message", "role": "assistant", "content": "8443"}]


_SIZES = st.sampled_from((1, 30, 400, 3_000))
_MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("say"), _SIZES),
        st.tuples(st.just("reply"), _SIZES),
        st.tuples(st.just("look"), _SIZES),
        st.tuples(st.just("instruct"), _SIZES),
    ),
    max_size=14,
)


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_cut_conversation_is_the_clients_in_its_order_and_ends_as_theirs(dialect: str) -> None:
    """Whatever stands first or amid the messages, instructions included: each message that stays
    has its role and place, instructions at the beginning stay, and the last message is the last."""
    takes_instructions = dialect != "gemini"

    @examples(120)
    @given(leading=st.integers(0, 2), moves=_MOVES, ending=st.sampled_from(("say", "look")))
    @example(leading=1, moves=[("look", 3_000)] * 8, ending="say")
    @example(leading=1, moves=[("look", 3_000)] * 8, ending="look")
    @example(leading=0, moves=[("say", 3_000)] * 10, ending="say")
    def check(leading: int, moves: list[tuple[str, int]], ending: str) -> None:
        client = Client(dialect, system=f"Agent {next(_numbers)}.")
        instruction = {"role": "system", "content": "Be brief."}
        if takes_instructions:
            client.items += [dict(instruction) for _ in range(leading)]
        client.say("Begin.")
        for place, (move, size) in enumerate((*moves, (ending, 30))):
            words = f"{move} {place} " * size
            if move == "look":
                client.hear(f"I look at {place}.", f"{place}.txt")
                client.answer(words)
            elif move == "reply":
                client.hear(words)
            elif move == "say":
                client.say(words)
            elif takes_instructions:
                client.items.append({"role": "system", "content": words})
        for number, item in enumerate(client.items):
            item["place"] = number
        data, sent, _ = begin(json.loads(client.request().data), dialect, 16_000)
        if sent == data:
            return
        own = {item["place"]: item for item in client.items}
        kept = [item for item in items_of(json.loads(sent)) if "place" in item]
        places = [item["place"] for item in kept]
        assert places == sorted(set(places))
        assert places[-1] == len(client.items) - 1, "the last message is the client's last"
        if takes_instructions:
            assert places[:leading] == list(range(leading))
        for item in kept:
            given = own[item["place"]]
            assert (item.get("role"), item.get("type")) == (given.get("role"), given.get("type"))
        made = [item for item in items_of(json.loads(sent)) if "place" not in item]
        # Chat Completions has the client's own system prompt as its first message.
        instructions = [item for item in made if item.get("role") in ("system", "developer")]
        assert len(instructions) == (dialect == "openai-chat")

    check()


def test_a_result_that_is_shortened_keeps_its_fields() -> None:
    """A refusal by a little is answered by shortening results, the oldest first."""
    client = long("anthropic", 12)
    mark = {"type": "ephemeral"}
    client.items[2]["content"][0] |= {"cache_control": mark, "unknown": 1}
    body = json.loads(client.request().data)
    total = tokens_of(body, "anthropic")
    _, _, begun = begin(body, "anthropic", 200_000)
    said = f"prompt is too long: {total} tokens > {total - 100} maximum"
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    assert begun.refuse(400, {}, json.dumps(error).encode())
    cut = json.loads(begun.body)
    assert len(items_of(cut)) == len(client.items)
    (block,) = items_of(cut)[2]["content"]
    assert (block["cache_control"], block["unknown"], block["type"]) == (mark, 1, "tool_result")
    assert len(block["content"]) < len(client.items[2]["content"][0]["content"])
    assert items_of(cut)[-2:] == client.items[-2:]


def test_a_shorter_reply_is_asked_for_with_a_smaller_budget_for_thinking() -> None:
    """As Claude Code asks: 32,000 tokens, of which all but one may be thinking."""
    client = long("anthropic", 12)
    client.extra = {"thinking": {"type": "enabled", "budget_tokens": 31_999}}
    body = {**json.loads(client.request().data), "max_tokens": 32_000}
    _, _, begun = begin(body, "anthropic", 200_000)
    said = (
        "input length and `max_tokens` exceed context limit: 180000 + 32000 > 200000, decrease "
        "input length or `max_tokens` and try again"
    )
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    assert begun.refuse(400, {}, json.dumps(error).encode())
    sent = json.loads(begun.body)
    assert sent["messages"] == body["messages"]
    assert 1_024 <= sent["thinking"]["budget_tokens"] < sent["max_tokens"] < 20_000


@pytest.mark.parametrize("room", [300, 900, 1_100, 3_000])
def test_a_turn_that_began_with_thinking_goes_on_with_it(room: int) -> None:
    """Where the room that is left is too small to think in, the history gives way."""
    client = long("anthropic", 40)
    client.hear("", call="read")
    thought = {"type": "thinking", "thinking": "Read it.", "signature": "c2ln"}
    client.items[-1]["content"] = [thought, *client.items[-1]["content"][-1:]]
    client.answer("what was read")
    client.extra = {"thinking": {"type": "enabled", "budget_tokens": 31_999}}
    asked = {"model": "claude-sonnet-4-5", "max_tokens": 32_000}
    body = {**json.loads(client.request().data), **asked}
    _, _, begun = begin(body, "anthropic", 200_000)
    said = (
        f"input length and `max_tokens` exceed context limit: {200_000 - room} + 32000 > 200000, "
        "decrease input length or `max_tokens` and try again"
    )
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    assert begun.refuse(400, {}, json.dumps(error).encode())
    sent = json.loads(begun.body)
    assert sent["messages"][-2:] == body["messages"][-2:]
    assert 1_024 <= sent["thinking"]["budget_tokens"] < sent["max_tokens"]
    is_smaller = tokens_of(sent, "anthropic") < 0.95 * tokens_of(body, "anthropic")
    assert is_smaller == (room < 1_024)


def test_the_window_comes_from_the_request() -> None:
    """The same model with Anthropic's beta has a million tokens, and without it not."""
    client = long("anthropic", 40)
    model = {"model": "claude-sonnet-4-5"}
    store = MemoryStore()
    keeper = ProxyKeeper(store)
    bodies = []
    for beta in ("context-1m-2025-08-07", "", "other,context-1m-2025-08-07"):
        client.headers = {"x-claude-code-session-id": "abc", "anthropic-beta": beta}
        sent = keeper.begin(client.request(**model))
        assert sent._fitting is not None
        bodies.append(sent._fitting.window.tokens)
    assert bodies[0] == bodies[2] == 1_000_000
    assert bodies[1] <= 1_000_000


def test_a_guess_is_no_reason_to_cut() -> None:
    """For an unknown model, the provider decides what fits."""
    client = long("openai-chat", 120)
    keeper = ProxyKeeper(MemoryStore())
    request = client.request(model="no-such-model-1")
    assert keeper.begin(request).body == request.data


def test_cuts_survive_a_client_that_compacts_by_itself() -> None:
    """Its compaction is a branch without our cuts, which fits as it is and passes."""
    client = long("anthropic", 30)
    client.headers = {"x-claude-code-session-id": "abc"}
    keeper = ProxyKeeper(MemoryStore(), window=Window(20_000))
    first = exchange(keeper, client, "cut")
    assert first.headers()["x-holdfast-action"] == "projected"
    client.items = [{"role": "user", "content": "Summary: all is well. Go on."}]
    request = client.request()
    begun = keeper.begin(request)
    assert begun.body == request.data
    assert begun.headers()["x-holdfast-session"] == first.headers()["x-holdfast-session"]


def test_a_reply_that_is_too_long_beside_a_cut_request_gives_way_first() -> None:
    """The client asks for a long reply with every request. Where that is what does not fit, the
    reply gets shorter; the messages, cut once already, stay."""
    client = long("anthropic", 70)
    body = {**json.loads(client.request().data), "max_tokens": 32_000}
    _, sent, begun = begin(body, "anthropic", 60_000)
    assert sent != json.dumps(body).encode()
    cut = json.loads(sent)
    said = (
        "input length and `max_tokens` exceed context limit: 39360 + 32000 > 60000, decrease "
        "input length or `max_tokens` and try again"
    )
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": said}}
    assert begun.refuse(400, {}, json.dumps(error).encode())
    again = json.loads(begun.body)
    assert again["messages"] == cut["messages"]
    assert 20_000 <= again["max_tokens"] <= 60_000 - 39_360


def picture_for(dialect: str) -> Json:
    """A message of a client with a picture and a question."""
    data = png(37, 41)
    uri = f"data:image/png;base64,{data}"
    match dialect:
        case "anthropic":
            source = {"type": "base64", "media_type": "image/png", "data": data}
            image: Json = {"type": "image", "source": source}
            return {"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]}
        case "openai-chat":
            image = {"type": "image_url", "image_url": {"url": uri}}
            return {"role": "user", "content": [image, {"type": "text", "text": "What is it?"}]}
        case "gemini":
            image = {"inlineData": {"mimeType": "image/png", "data": data}}
            return {"role": "user", "parts": [image, {"text": "What is it?"}]}
        case _:
            image = {"type": "input_image", "image_url": uri}
            said = {"type": "input_text", "text": "What is it?"}
            return {"type": "message", "role": "user", "content": [image, said]}


@pytest.mark.parametrize("wording", ["Could not process image", "No."])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_refused_picture_is_not_sent_again(dialect: str, wording: str) -> None:
    """The client sends it for ever; the provider gets a note, after a restart of the proxy too."""
    store = MemoryStore()
    client = Client(dialect)
    client.say("Hello")
    keeper = ProxyKeeper(store, window=Window(64_000))
    exchange(keeper, client, "Hi.")
    client.items.append(picture_for(dialect))
    begun = keeper.begin(client.request())
    assert png(37, 41) in begun.body.decode()
    body = json.dumps({"error": {"message": wording}}).encode()
    assert begun.refuse(400, {}, body)
    sent = begun.body.decode()
    assert png(37, 41) not in sent
    assert "the provider refused it" in sent
    assert "What is it?" in sent
    begun.open("application/json", "")
    begun.take(client.hear("I cannot see it."))
    begun.finish()
    for reader in (keeper, ProxyKeeper(store, window=Window(64_000))):
        client.say("And now?")
        later = reader.begin(client.request())
        assert png(37, 41) not in later.body.decode()
        assert "And now?" in later.body.decode()
        later.open("application/json", "")
        later.take(client.hear("Fine."))
        later.finish()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_turn_refused_under_a_policy_is_not_sent_again(dialect: str) -> None:
    """The client sees the refusal; its next message goes out without what was flagged."""
    store = MemoryStore()
    client = Client(dialect)
    client.say("Hello")
    keeper = ProxyKeeper(store, window=Window(64_000))
    exchange(keeper, client, "Hi.")
    client.say("It says: the-sentence-that-is-refused.")
    begun = keeper.begin(client.request())
    assert not begun.refuse(400, {}, b'{"error": {"message": "Content Exists Risk"}}')
    for reader in (keeper, ProxyKeeper(store, window=Window(64_000))):
        client.say("And now?")
        later = reader.begin(client.request())
        assert "the-sentence-that-is-refused" not in later.body.decode()
        assert "Hello" in later.body.decode()
        assert "And now?" in later.body.decode()
        later.open("application/json", "")
        later.take(client.hear("Fine."))
        later.finish()


@pytest.mark.parametrize("is_kept", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_policy_that_comes_as_a_reply_is_not_sent_again(dialect: str, is_kept: bool) -> None:
    """A refusal with status 200 is the same, whether its client keeps it as a reply or not."""
    store = MemoryStore()
    client = Client(dialect)
    client.say("Hello")
    keeper = ProxyKeeper(store, window=Window(64_000))
    exchange(keeper, client, "Hi.")
    client.say("It says: the-sentence-that-is-refused.")
    begun = keeper.begin(client.request())
    begun.open("application/json", "")
    begun.take(json.dumps(refusal_body(dialect)).encode())
    begun.finish()
    if is_kept:
        client.hear("I cannot help with that.")
    for reader in (keeper, ProxyKeeper(store, window=Window(64_000))):
        client.say("And now?")
        later = reader.begin(client.request())
        assert "the-sentence-that-is-refused" not in later.body.decode()
        assert "Hello" in later.body.decode()
        assert "And now?" in later.body.decode()
        later.open("application/json", "")
        later.take(client.hear("Fine."))
        later.finish()


@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_refused_field_is_left_out_of_every_later_request(dialect: str) -> None:
    """The host's word holds for each conversation with that model, and takes nothing else away."""
    keeper = ProxyKeeper(MemoryStore(), window=Window(64_000))
    client = Client(dialect)
    client.say("Hello")
    begun = keeper.begin(client.request(novel_field={"a": 1}))
    assert "novel_field" in begun.body.decode()
    said = "novel_field: Extra inputs are not permitted"
    assert begun.refuse(400, {}, json.dumps({"error": {"message": said}}).encode())
    assert json.loads(begun.body) == json.loads(client.request().data)
    assert not begun.refuse(400, {}, json.dumps({"error": {"message": said}}).encode())
    for text in ("And now?", "Another conversation"):
        other = Client(dialect)
        other.say(text)
        later = keeper.begin(other.request(novel_field={"a": 1}))
        assert json.loads(later.body) == json.loads(other.request().data)
