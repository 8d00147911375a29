"""Agents behind the APIs of model providers: what the log holds, and what the model saw."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.proxy.conversations import DIALECTS, Client
from tests.support.runs import examples
from tests.surfaces.http.chat_clients import (
    MODEL,
    Chat,
    agents,
    numbered,
    read_stream,
    read_text,
    request_of,
)
from tests.surfaces.http.servers import BASE, serving, token_for
from tests.surfaces.proxy.test_app_odd_shapes import change

from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import Assistant, User, text_of
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.engine.chats import agent_chats
from holdfast.stores.in_memory import MemoryStore
from holdfast.testing import Answer, Call

if TYPE_CHECKING:
    from collections.abc import Iterator

    import httpx2

    from holdfast.ports import SessionStore
    from holdfast.testing import Loopback
    from holdfast.testing.loopback import Asked

pytestmark = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)  # a server keeps the clients of its models for its whole life
ANN_TOKEN, ANN = token_for("ann", "write")
BOB_TOKEN, BOB = token_for("bob", "write")


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with closing(MemoryStore()) as found:
        yield found


def path_of(store: SessionStore, session: str, agent: str = "main") -> list[str]:
    """Return what was said on the path to the head."""
    said = [
        f"{record.kind[0]}: {text_of(record.content)}"
        for record in store.back(SessionKey(agent, session))
        if isinstance(record, User | Assistant)
    ]
    return said[::-1]


def all_of(store: SessionStore, session: str) -> list[str]:
    """Return everything that was said in a log, on whichever branch."""
    found = (entry.record for entry in store.read_all(SessionKey("main", session)))
    return [
        f"{record.kind[0]}: {text_of(record.content)}"
        for record in found
        if isinstance(record, User | Assistant)
    ]


def seen_by(provider: Loopback) -> list[str]:
    """Return the messages of the newest request to the model."""
    asked = provider.requests[-1].body["messages"]
    return [f"{item['role'][0]}: {_text(item['content'])}" for item in asked]


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(each["text"] for each in content)


def sessions_of(store: SessionStore) -> list[str]:
    return [info.key.session for info in store.sessions(owner=ANY_OWNER, limit=100)]


@pytest.mark.parametrize("is_streamed", [False, True])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_conversation_goes_on(store: MemoryStore, dialect: str, is_streamed: bool) -> None:
    """Each request brings the whole history, and the log has each message once."""

    async def scenario() -> None:
        async with agents(store, ANN) as (http, provider):
            chat = Chat(http, dialect, ANN_TOKEN, is_streamed=is_streamed)
            steps = []
            for number in range(4):
                assert await chat.say(f"question {number}") == f"Answer {number + 1}."
                steps.append(chat.step)
            assert steps == ["begin", "go-on", "go-on", "go-on"]
            said = path_of(store, chat.session)
            assert said == all_of(store, chat.session)
            assert said[-3:] == ["a: Answer 3.", "u: question 3", "a: Answer 4."]
            assert len(said) == 8
            assert seen_by(provider) == said[:-1]
            assert sessions_of(store) == [chat.session]
            assert store.info(SessionKey("main", chat.session)).owner == NamedOwner("ann")

    asyncio.run(scenario())


def test_a_chat_goes_on_in_another_dialect(store: MemoryStore) -> None:
    """A conversation is known by what was said, whatever the shapes are."""

    async def scenario() -> None:
        async with agents(store) as (http, _provider):
            said: list[tuple[str, str]] = []
            sessions = set()
            for number, dialect in enumerate((*DIALECTS, DIALECTS[0])):
                chat = Chat(http, dialect)
                for question, answer in said:
                    chat.client.say(question)
                    chat.client.hear(answer)
                said.append((f"q{number}", await chat.say(f"q{number}")))
                sessions.add(chat.session)
            assert len(sessions) == 1
            assert len(all_of(store, sessions.pop())) == 10

    asyncio.run(scenario())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_a_client_does_with_its_history(store: MemoryStore, dialect: str) -> None:
    """The table of docs/one-door.md, row by row: the log, and what the model saw."""

    async def scenario() -> None:
        async with agents(store) as (http, provider):
            chat = Chat(http, dialect)
            await chat.say("one")
            await chat.say("two")
            first = [*chat.items]
            size = len(first) // 2

            del chat.items[size + 1 :]  # regenerate: the same message again
            assert await chat.ask() == "Answer 3."
            assert chat.step == "regenerate"
            assert seen_by(provider) == ["u: one", "a: Answer 1.", "u: two"]
            again = [*chat.items]

            del chat.items[size:]  # edit: another message in its place
            await chat.say("TWO")
            assert chat.step == "edit"
            assert seen_by(provider) == ["u: one", "a: Answer 1.", "u: TWO"]

            for older, number in ((first, 2), (again, 3)):  # branch: back to what was left
                chat.items[:] = older
                await chat.say(f"three after {number}")
                assert chat.step == "edit"
                two = f"a: Answer {number}."
                wanted = ["u: one", "a: Answer 1.", "u: two", two, f"u: three after {number}"]
                assert seen_by(provider) == wanted
                assert path_of(store, chat.session)[:-1] == wanted

            await chat.say("four")  # and on
            assert chat.step == "go-on"

            assert len(sessions_of(store)) == 1
            questions = [said for said in all_of(store, chat.session) if said[0] == "u"]
            assert questions == [
                *("u: one", "u: two", "u: two", "u: TWO"),
                *("u: three after 2", "u: three after 3", "u: four"),
            ]

    asyncio.run(scenario())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_edited_reply_is_what_the_model_sees(store: MemoryStore, dialect: str) -> None:
    """A client may change what the agent said; the log has both."""

    async def scenario() -> None:
        async with agents(store) as (http, provider):
            chat = Chat(http, dialect)
            await chat.say("one")
            await chat.say("two")
            del chat.items[len(chat.items) * 3 // 4 :]
            chat.client.hear("What I never said.")
            await chat.say("three")
            wanted = ["u: one", "a: Answer 1.", "u: two", "a: What I never said.", "u: three"]
            assert seen_by(provider) == wanted
            assert "a: Answer 2." in all_of(store, chat.session)
            await chat.say("four")
            assert chat.step == "go-on"

    asyncio.run(scenario())


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_unknown_history_begins_a_session(store: MemoryStore, dialect: str) -> None:
    async def scenario() -> None:
        async with agents(store) as (http, provider):
            chat = Chat(http, dialect)
            chat.client.say("told elsewhere")
            chat.client.hear("answered elsewhere")
            await chat.say("and here")
            assert chat.step == "begin"
            wanted = ["u: told elsewhere", "a: answered elsewhere", "u: and here"]
            assert seen_by(provider) == wanted
            await chat.say("more")
            assert chat.step == "go-on"
            assert path_of(store, chat.session)[:3] == wanted
            assert len(sessions_of(store)) == 1

    asyncio.run(scenario())


def test_an_opening_alone_is_no_conversation(store: MemoryStore) -> None:
    """Two people who begin alike have a session each, and each history finds its own."""

    async def scenario() -> None:
        async with agents(store) as (http, _provider):
            chats = [Chat(http, DIALECTS[0]) for _ in range(3)]
            for chat in chats:
                await chat.say("hello")
            for chat in reversed(chats):
                before = chat.session
                await chat.say("again")
                assert (chat.step, chat.session) == ("go-on", before)
            assert len(sessions_of(store)) == 3

    asyncio.run(scenario())


@pytest.mark.parametrize("headers", [{"idempotency_key": "k1"}, {"x_stainless_retry_count": "1"}])
@pytest.mark.parametrize("is_first", [True, False])
@pytest.mark.parametrize("dialect", DIALECTS)
def test_a_repeated_request_is_answered_once(
    store: MemoryStore, headers: dict[str, str], is_first: bool, dialect: str
) -> None:
    """It says that it repeats: by its key, or as the providers' packages count."""

    async def scenario() -> None:
        async with agents(store) as (http, provider):
            chat = Chat(http, dialect)
            if not is_first:
                await chat.say("before", idempotency_key="k0")
            key = {name: value for name, value in headers.items() if "key" in name}
            text = await chat.say("one", **key)
            made = len(provider.requests)
            chat.items.pop()
            assert await chat.ask(**headers) == text
            assert chat.step in ("repeat", "regenerate")
            assert len(provider.requests) == made
            assert len(all_of(store, chat.session)) == len(chat.items)
            assert len(sessions_of(store)) == 1

    asyncio.run(scenario())


def test_equal_requests_at_once_are_one(store: MemoryStore) -> None:
    """Until the first of them is answered, an equal request waits for the same answer."""

    async def scenario() -> None:
        async with agents(store) as (http, provider):
            chats = [Chat(http, dialect) for dialect in DIALECTS * 2]
            assert len(set(await asyncio.gather(*(chat.say("one") for chat in chats)))) == 1
            assert len(provider.requests) == 1
            assert len({chat.session for chat in chats}) == 1

    asyncio.run(scenario())


def test_a_key_with_other_words_is_refused(store: MemoryStore) -> None:
    async def scenario() -> None:
        async with agents(store) as (http, provider):
            await Chat(http, DIALECTS[0]).say("one", idempotency_key="k")
            other = Chat(http, DIALECTS[0])
            other.client.say("two")
            answer = await other.send(idempotency_key="k")
            assert answer.status_code == 409
            assert len(provider.requests) == 1

    asyncio.run(scenario())


def test_a_client_that_hung_up_gets_the_answer_with_the_next_request(store: MemoryStore) -> None:
    """The turn goes on without it; the same request, without any key, has the answer."""

    async def scenario() -> None:
        async with agents(store) as (http, provider):
            chat = Chat(http, DIALECTS[1], is_streamed=True)
            chat.client.say("one")
            path, body = request_of(chat.client, is_streamed=True)
            await hang_up(http, path, body)
            while "answered" not in store.queues.counts("inbox", owner=ANY_OWNER):
                await asyncio.sleep(0.01)
            assert await chat.ask() == "Answer 1."
            assert len(provider.requests) == 1
            chat.items.pop()
            assert await chat.ask() == "Answer 2."  # it had the first: another one is wanted

    asyncio.run(scenario())


async def hang_up(http: httpx2.AsyncClient, path: str, body: Any) -> None:
    """Send a request, and go away with the first bytes of its answer."""
    app = http._transport.app  # type: ignore[attr-defined]
    data = json.dumps(body).encode()
    began = asyncio.Event()
    given = iter([{"type": "http.request", "body": data, "more_body": False}])

    async def receive() -> Any:
        if (message := next(given, None)) is not None:
            return message
        await began.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        if message.get("body"):
            began.set()

    scope = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [(b"host", BASE.removeprefix("http://").encode())],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8484),
    }
    await app(scope, receive, send)


def with_tools(asked: Asked) -> Answer:
    """Two rounds of a tool, with words before each."""
    round_ = asked.number % 3
    if round_:
        return Answer(f"Round {round_}.", (Call("mark", {"name": f"n{asked.number}"}),))
    return Answer("Done.")


@pytest.mark.parametrize("dialect", DIALECTS)
def test_an_agent_uses_its_own_tools(
    store: MemoryStore, dialect: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    """The client gets the words of all rounds, the same streamed or not, and goes on from them."""
    monkeypatch.setenv("MARKS", str(tmp_path / "marks"))

    async def scenario() -> None:
        tools = ["tests.surfaces.http.kill_tools:mark"]
        async with agents(store, brain=with_tools, tools=tools) as (http, provider):
            texts, chat = [], Chat(http, dialect)
            for is_streamed in (False, True, False):
                chat.is_streamed = is_streamed
                texts.append(await chat.say("go"))
            assert set(texts) == {"Round 1.\n\nRound 2.\n\nDone."}
            assert len(provider.requests) == 9
            assert len(sessions_of(store)) == 1
            assert chat.step == "go-on"

    asyncio.run(scenario())


def test_usage_is_that_of_the_whole_turn(store: MemoryStore) -> None:
    async def scenario() -> None:
        async with agents(store) as (http, provider):
            answer = await http.post(
                "/v1/chat/completions",
                json={"model": MODEL, "messages": [{"role": "user", "content": "hello"}]},
            )
            usage = answer.json()["usage"]
            assert usage["prompt_tokens"] == provider.requests[0].tokens
            assert usage["total_tokens"] > usage["prompt_tokens"]

    asyncio.run(scenario())


def package(kind: Any, http: httpx2.AsyncClient, token: str = ANN_TOKEN) -> Any:
    """Return the client of a provider's package, which sends to the server."""
    bases = {openai.AsyncOpenAI: f"{BASE}/v1", anthropic.AsyncAnthropic: BASE}
    return kind(api_key=token, base_url=bases[kind], http_client=http, max_retries=0)


def test_the_openai_package(store: MemoryStore) -> None:
    """Chat and Responses, whole and streamed, a conversation by response ids, and the models."""

    async def scenario() -> None:
        async with agents(store, ANN) as (http, _provider):
            client = package(openai.AsyncOpenAI, http)
            ids = [model.id async for model in await _listed(client)]
            assert ids == [MODEL, "holdfast/other"]
            assert (await client.models.retrieve(MODEL)).id == MODEL
            messages: list[Any] = [{"role": "user", "content": "one"}]
            made = await client.chat.completions.create(model=MODEL, messages=messages)
            assert made.choices[0].message.content == "Answer 1."
            messages += [made.choices[0].message.model_dump(), {"role": "user", "content": "two"}]
            options = {"include_usage": True}
            stream = await client.chat.completions.create(
                model=MODEL, messages=messages, stream=True, stream_options=options
            )
            chunks = [chunk async for chunk in stream]
            said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            assert said == "Answer 2."
            assert chunks[-1].usage.total_tokens > 0
            begun = await client.responses.create(model=MODEL, input="three")
            assert begun.output_text == "Answer 3."
            async with client.responses.stream(
                model=MODEL, input="four", previous_response_id=begun.id
            ) as events:
                final = await events.get_final_response()
            assert final.output_text == "Answer 4."
            assert final.usage.total_tokens > 0
            session = next(name for name in sessions_of(store) if len(all_of(store, name)) == 4)
            assert path_of(store, session)

    asyncio.run(scenario())


async def _listed(client: Any) -> Any:
    return await client.models.list()


def test_the_anthropic_package(store: MemoryStore) -> None:
    async def scenario() -> None:
        async with agents(store, ANN) as (http, _provider):
            client = package(anthropic.AsyncAnthropic, http)
            assert next(model.id for model in (await client.models.list()).data) == MODEL
            messages: list[Any] = [{"role": "user", "content": "one"}]
            made = await client.messages.create(model=MODEL, messages=messages, max_tokens=100)
            assert made.content[0].text == "Answer 1."
            messages += [
                {"role": "assistant", "content": made.content},
                {"role": "user", "content": "two"},
            ]
            async with client.messages.stream(
                model=MODEL, messages=messages, max_tokens=100
            ) as stream:
                said = "".join([text async for text in stream.text_stream])
                final = await stream.get_final_message()
            assert said == final.content[0].text == "Answer 2."
            assert final.stop_reason == "end_turn"
            assert final.usage.output_tokens > 0
            assert len(sessions_of(store)) == 1

    asyncio.run(scenario())


MISTAKES: dict[str, tuple[dict[str, Any], int, str]] = {
    "model": ({"model": "gpt-9"}, 404, "no model `gpt-9`"),
    "agent": ({"model": "holdfast/nobody"}, 404, "no agent `nobody`"),
    "field": ({"frobnicate": 1}, 400, "`frobnicate`"),
    "tools": ({"tools": [{"type": "function"}]}, 400, "`tools`"),
    "format": ({"response_format": {"type": "json_object"}}, 400, "`response_format`"),
    "message": ({"messages": []}, 400, "no message"),
    "last": ({"messages": [{"role": "assistant", "content": "x"}]}, 400, "not the user's"),
    "dialect": ({"messages": None, "input": "x"}, 400, "has no list `messages`"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_the_packages_show_the_refusal(store: MemoryStore, name: str) -> None:
    """The error of the client's own package says what was asked, and what to do."""
    changes, status, words = MISTAKES[name]

    async def scenario() -> None:
        async with agents(store, ANN) as (http, provider):
            given: dict[str, Any] = {
                "model": MODEL,
                "messages": [{"role": "user", "content": "x"}],
                "extra_body": changes,
            }
            chat = package(openai.AsyncOpenAI, http).chat.completions
            messages = package(anthropic.AsyncAnthropic, http).messages
            for create, more in ((chat.create, {}), (messages.create, {"max_tokens": 9})):
                with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as caught:
                    await create(**given, **more)
                error: Any = caught.value
                assert error.status_code == status
                assert words in str(error)
                body = error.body
                said = body.get("error", body)["message"]
                assert said.startswith("Holdfast: ")
                assert said.endswith(")")
            assert len(provider.requests) == 0
            assert sessions_of(store) == []

    asyncio.run(scenario())


def test_a_system_prompt_is_refused_and_tuning_is_named(store: MemoryStore) -> None:
    async def scenario() -> None:
        async with agents(store) as (http, _provider):
            user = {"role": "user", "content": "x"}
            body = {"model": MODEL, "messages": [user], "temperature": 0.1, "seed": 3, "n": 1}
            answer = await http.post("/v1/chat/completions", json=body)
            assert answer.headers["x-holdfast-ignored"] == "temperature, seed"
            for messages in (
                [{"role": "system", "content": "Be a pirate."}, user],
                [user, {"role": "developer", "content": "Be a pirate."}, user],
            ):
                answer = await http.post(
                    "/v1/chat/completions", json={**body, "messages": messages}
                )
                assert answer.status_code == 400
                assert "instructions" in answer.json()["error"]["message"]

    asyncio.run(scenario())


def test_the_token_is_where_the_dialect_has_its_key(store: MemoryStore) -> None:
    """A wrong one, none, or one that may only read, is refused in the client's words."""
    read_token, read = token_for("ann", "read")

    async def scenario() -> None:
        async with agents(store, ANN, read) as (http, _provider):
            for dialect in DIALECTS:
                chat = Chat(http, dialect, ANN_TOKEN)
                assert await chat.say("x")
                for token, status in (("", 401), ("y" * 40, 401), (read_token, 403)):
                    chat = Chat(http, dialect, token)
                    chat.client.say("x")
                    answer = await chat.send()
                    assert answer.status_code == status
                    assert "Holdfast: " in json.dumps(answer.json()["error"])

    asyncio.run(scenario())


def test_nothing_crosses_owners(store: MemoryStore) -> None:
    """Equal words, a named session, a key and a response of another owner lead nowhere."""

    async def scenario() -> None:
        async with agents(store, ANN, BOB) as (http, _provider):
            ann, bob = (Chat(http, DIALECTS[1], token) for token in (ANN_TOKEN, BOB_TOKEN))
            await ann.say("hello", idempotency_key="same")
            assert await bob.say("hello", idempotency_key="same") == "Answer 2."
            await ann.say("my panda")
            bob.items[:] = ann.items  # he knows every word, and still has a session of his own
            await bob.say("what next?")
            assert bob.step == "begin"
            assert bob.session != ann.session
            chat = Chat(http, DIALECTS[1], BOB_TOKEN)
            chat.client.say("x")
            taken = await chat.send(x_holdfast_session=ann.session)
            assert taken.status_code == 409
            body = {"model": MODEL, "input": "mine"}
            made = await http.post("/v1/responses", json=body, headers=ann.key())
            stolen = {**body, "previous_response_id": made.json()["id"]}
            answers = [
                await http.post(
                    "/v1/responses",
                    json={**stolen, "previous_response_id": name},
                    headers=bob.key(),
                )
                for name in (stolen["previous_response_id"], "resp_1")
            ]
            assert {answer.status_code for answer in answers} == {404}
            owners = {
                info.owner: all_of(store, info.key.session)
                for info in store.sessions(owner=ANY_OWNER)
            }
            assert set(owners) == {NamedOwner("ann"), NamedOwner("bob")}

    asyncio.run(scenario())


def test_a_session_can_be_named(store: MemoryStore) -> None:
    """By a header or the path: also a session that another surface began."""

    async def scenario() -> None:
        async with agents(store, ANN) as (http, provider):
            bearer = {"Authorization": f"Bearer {ANN_TOKEN}"}
            made = await http.put(
                "/v1/sessions/main/begun", json={"label": "begun"}, headers=bearer
            )
            assert made.status_code == 200
            sent = await http.post(
                "/v1/sessions/main/begun/messages?wait=30",
                json={"content": "from the console"},
                headers=bearer,
            )
            reply = sent.json()["reply"]
            chat = Chat(http, DIALECTS[0], ANN_TOKEN)
            chat.client.say("from the console")
            chat.client.hear(reply)
            await chat.say("from the client", x_holdfast_session="begun")
            assert (chat.step, chat.session) == ("go-on", "begun")
            assert len(seen_by(provider)) == 3
            body = {"model": MODEL, "messages": chat.items, "max_tokens": 5}
            body["messages"] = [*chat.items, {"role": "user", "content": "by path"}]
            answer = await http.post(
                "/holdfast/session/begun/v1/messages", json=body, headers=chat.key()
            )
            assert answer.headers["x-holdfast-session"] == "begun"

    asyncio.run(scenario())


def test_a_cancelled_turn_is_said(store: MemoryStore) -> None:
    """The message is kept, and what came of its answer, which no request gets as a whole one."""
    is_asked, may_answer = threading.Event(), threading.Event()

    def brain(asked: Asked) -> Answer:
        is_asked.set()
        assert may_answer.wait(20)
        return numbered(asked)

    async def scenario() -> None:
        async with agents(store, brain=brain) as (http, _provider):
            chat = Chat(http, DIALECTS[0])
            chat.client.say("one")
            named = {"x_holdfast_session": "named"}
            sent = asyncio.create_task(chat.send(**named))
            assert await asyncio.to_thread(is_asked.wait, 20)
            assert (await http.post("/v1/sessions/main/named/cancel")).json()["cancelled"]
            answer = await sent
            assert answer.status_code == 409
            assert "cancelled" in answer.text
            assert answer.headers["x-should-retry"] == "false"
            may_answer.set()
            again = await chat.send(**named)
            assert (again.status_code, "before its answer was whole" in again.text) == (409, True)
            assert len(store.queues.messages("inbox", owner=ANY_OWNER)) == 1
            said = store.read(SessionKey("main", "named"))
            assert len([record for record in said if isinstance(record, User)]) == 1

    asyncio.run(scenario())


@pytest.mark.timeout(600)
@given(seed=st.integers(0, 2**32))
@examples(60)
def test_odd_requests_are_refused_or_answered(seed: int) -> None:
    """Something of a wrong kind anywhere in a body is never a mistake of ours."""

    async def scenario() -> None:
        luck = random.Random(seed)
        dialect = luck.choice(DIALECTS)
        client = Client(dialect)
        for turn in range(luck.choice([1, 2])):
            client.say(f"q{turn}")
            client.hear(f"a{turn}", luck.choice(["", "read"]))
            client.answer("out")
        client.say("last")
        is_streamed = luck.random() < 0.5
        path, body = request_of(client, is_streamed=is_streamed)
        for _ in range(luck.choice([0, 1, 1, 2])):
            body = change(body, luck)
        with closing(MemoryStore()) as store:
            async with serving(store) as http:
                data = json.dumps(body).encode()
                answer = await http.post(path, content=data)
                assert answer.status_code < 500, answer.text
                if answer.status_code != 200:
                    assert "Holdfast: " in json.dumps(answer.json()["error"])
                elif "text/event-stream" in answer.headers["content-type"]:
                    read_stream(dialect, answer.content)
                else:
                    read_text(dialect, answer.content, is_streamed=False)

    asyncio.run(scenario())


def test_the_table_notices_a_history_that_is_not_matched(
    store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the matching broken, a conversation does not go on in its session."""
    monkeypatch.setattr(agent_chats, "_has_reply", lambda _request, _known: False)
    with pytest.raises(AssertionError):
        test_a_conversation_goes_on(store, DIALECTS[0], is_streamed=False)


ROWS: dict[str, Any] = {
    "begins a conversation": test_a_conversation_goes_on,
    "goes on": test_a_conversation_goes_on,
    "edits a message and sends it": test_what_a_client_does_with_its_history,
    "asks for another reply": test_what_a_client_does_with_its_history,
    "goes back to an older version": test_what_a_client_does_with_its_history,
    "changes a reply and goes on": test_an_edited_reply_is_what_the_model_sees,
    "brings a history that the log does not have": test_an_unknown_history_begins_a_session,
    "repeats a request": test_a_repeated_request_is_answered_once,
}


def test_each_row_of_the_table_is_tried_in_every_dialect() -> None:
    """What the page says of a client's history, a test shows: in the log, and at the model."""
    page = (Path(__file__).parents[3] / "docs/one-door.md").read_text()
    table = page.partition("| the client |")[2].partition("\n\n")[0].splitlines()[2:]
    assert [row.split("|")[1].strip() for row in table] == [*ROWS]
    for test in ROWS.values():
        marks = {mark.args[0]: mark.args[1] for mark in test.pytestmark}
        assert marks["dialect"] == DIALECTS
    assert {"anthropic", "openai-chat", "openai-responses", "gemini"} == {*DIALECTS}
