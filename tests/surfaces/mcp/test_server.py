"""The server through the SDK's client: two owners, attacks, limits, both protocol revisions."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import anyio
import anyio.to_thread
import msgspec
import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import PromptReference, ResourceTemplateReference
from tests.support.approvals import pay, paying
from tests.surfaces.mcp.owners import NEEDLE, Owned, ask, plant, server_for

from holdfast import Caller, Session, SessionKey, User
from holdfast.core.history.page import cursor
from holdfast.core.owners import NamedOwner, owner_of
from holdfast.engine.operations.tools import TOOLS
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import AccessDenied
from holdfast.ports import ANY_HEAD
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.mcp.resources import KINDS
from holdfast.surfaces.mcp.server import McpClient, build_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mcp import Client

    from holdfast.ports import SessionStore

MODES = {"auto": "2026-07-28", "legacy": "2025-11-25"}
GUESSES = (0, 1, 2, 3, 4, 7, 8, 9, 10)
"""The names of an owner that the other has not as well: both have notes of the same day."""
TRAVERSALS = ("../../of-bob", "main/../main/of-bob", "/etc/passwd", "..%2f..%2fof-bob", "\x00", "*")


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    with MemoryStore() as store:
        yield store


def ghost_of(owned: Owned) -> Owned:
    """Names of the same shape and length that nobody has."""
    key = SessionKey("main", owned.key.session[:-3] + "zoe")
    records = tuple("f" * len(record) for record in owned.records)
    return msgspec.structs.replace(owned, key=key, records=records, sha256="9" * 64)


def attempts(schema: dict[str, Any], own: str, value: str) -> Iterator[dict[str, Any]]:
    """Ways to call a tool with a value: in all required parameters, and in each other one."""
    texts = [name for name, each in schema["properties"].items() if _takes_text(each)]
    required = schema.get("required", [])
    if required:
        yield dict.fromkeys(required, value)
    for name in texts:
        if name not in required:
            yield {**dict.fromkeys(required, own), name: value}


def options(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """A schema, and those that it is any of."""
    return [schema, *schema.get("anyOf", ())]


def _takes_text(schema: dict[str, Any]) -> bool:
    return any(each.get("type") == "string" for each in options(schema))


async def call(client: Client, name: str, given: dict[str, Any]) -> str:
    """Everything that a call of a tool answers, also where it refuses."""
    try:
        result = await client.call_tool(name, given)
    except MCPError as error:
        return str(error)
    assert msgspec.json.decode(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.model_dump_json()


async def read(client: Client, uri: str) -> str:
    try:
        return (await client.read_resource(uri)).model_dump_json()
    except MCPError as error:
        return str(error)


async def resume(client: Client, session: str) -> str:
    try:
        return (await client.get_prompt("resume_session", {"session": session})).model_dump_json()
    except MCPError as error:
        return str(error)


async def lists(client: Client) -> str:
    """Everything that is listed or completed without a name."""
    found = [
        (await client.list_tools()).model_dump_json(),
        (await client.list_resources()).model_dump_json(),
        (await client.list_resource_templates()).model_dump_json(),
        (await client.list_prompts()).model_dump_json(),
    ]
    for kind in KINDS:
        reference = ResourceTemplateReference(uri=kind.template)
        for name in ("key", "path", "ref"):
            completed = await client.complete(reference, {"name": name, "value": ""})
            found.append(completed.model_dump_json())
    prompt = PromptReference(name="resume_session")
    found.append(
        (await client.complete(prompt, {"name": "session", "value": ""})).model_dump_json()
    )
    return "\n".join(found)


async def walk(client: Client, own: Owned, values: tuple[str, ...]) -> dict[str, str]:
    """The answer to every tool, resource and prompt with each value; by what was asked."""
    answers = {"lists": await lists(client)}
    tools = (await client.list_tools()).tools
    for tool in sorted(tools, key=lambda tool: not TOOLS[tool.name].is_reading):
        for value in values:
            for given in attempts(tool.input_schema, str(own.key), value):
                answers[f"{tool.name} {given}"] = await call(client, tool.name, given)
    for template in (await client.list_resource_templates()).resource_templates:
        scheme = template.uri_template.partition(":")[0]
        for value in values:
            answers[f"{scheme}://{value}"] = await read(client, f"{scheme}://{value}")
    for value in values:
        answers[f"prompt {value}"] = await resume(client, value)
    return answers


def state_of(store: SessionStore, owned: Owned) -> object:
    """Everything that is stored of an owner."""
    notes = store.notes("main", owner_of(owned.owner))
    files = {file.path: notes.data(file.path) for file in notes.files()}
    return b"".join(store.export(owned.key)), files


@pytest.mark.parametrize("mode", MODES)
def test_no_word_of_another_owner(store: MemoryStore, mode: str) -> None:
    """Every tool, resource, prompt and list, asked by one owner for everything of the other."""
    alice, bob = plant(store, "alice"), plant(store, "bob")
    before = state_of(store, bob)

    async def talk(client: Client) -> dict[str, str]:
        assert client.protocol_version == MODES[mode]
        return await walk(client, alice, (*bob.names, *TRAVERSALS, NEEDLE))

    answers = ask(server_for(store, "alice"), talk, mode)

    leaks = {asked: text for asked, text in answers.items() if any(w in text for w in bob.words)}
    assert leaks == {}
    assert "bob" not in answers["lists"]
    assert any(alice.words[1] in text for text in answers.values()), "nothing was read at all"
    assert not any("Traceback" in text for text in answers.values())
    assert state_of(store, bob) == before


def test_owner_reads_everything_of_its_own(store: MemoryStore) -> None:
    """The walk of the other tests finds each of the owner's words: it could find another's."""
    alice, _bob = plant(store, "alice"), plant(store, "bob")

    async def talk(client: Client) -> dict[str, str]:
        return await walk(client, alice, (*alice.names, NEEDLE))

    text = "\n".join(ask(server_for(store, "alice"), talk).values())
    assert [word for word in alice.words if word not in text] == []


@pytest.mark.parametrize("number", range(len(GUESSES)))
def test_asking_does_not_tell_what_exists(number: int) -> None:
    """What another owner has is answered like what nobody has."""
    theirs, nobodys = (answers_for(number, is_there=is_there) for is_there in (True, False))
    assert theirs.keys() == nobodys.keys()
    assert {key: (theirs[key], nobodys[key]) for key in theirs if theirs[key] != nobodys[key]} == {}


def answers_for(number: int, *, is_there: bool) -> dict[str, str]:
    """The answers to one owner about a name of another, or about one that nobody has."""
    with MemoryStore() as store:
        alice, bob = plant(store, "alice"), plant(store, "bob")
        asked = bob if is_there else ghost_of(bob)
        name = asked.names[GUESSES[number]]
        answers = ask(server_for(store, "alice"), lambda client: walk(client, alice, (name,)))
    del answers["lists"]
    return {_without_names(key, asked): _without_names(answers[key], asked) for key in answers}


def _without_names(text: str, asked: Owned) -> str:
    """A text without what has to differ: what was asked for, new ids, hashes and times, and the
    records of one's own that come nearest."""
    text = re.sub(r"; (did you mean [^?]*\?|list them with `[^`]*`)", "", text)
    for name in (*asked.names, asked.key.session, "ckpt_"):
        text = text.replace(name, "NAME")
    return re.sub(r"[0-9]{9,}[0-9._a-z]*|[0-9a-f]{8,}|[0-9]{4}-[0-9-]+T[0-9:]+Z", "N", text)


def test_every_call_is_in_the_audit_log(store: MemoryStore) -> None:
    """Each tool, resource and prompt leaves a line with its caller, allowed or not."""
    alice, bob = plant(store, "alice"), plant(store, "bob")

    async def talk(client: Client) -> list[str]:
        silent = []
        ways = [
            (tool.name, given)
            for tool in (await client.list_tools()).tools
            for name in (str(alice.key), str(bob.key))
            for given in attempts(tool.input_schema, str(alice.key), name)
        ]
        for name, given in ways:
            count = len(audited(store))
            answer = await call(client, name, given)
            if len(audited(store)) <= count and "are invalid" not in answer:
                silent.append(f"{name} {given}")
        for uri in (f"{kind.scheme}://{alice.key}" for kind in KINDS):
            count = len(audited(store))
            await read(client, uri)
            silent += [uri] if len(audited(store)) <= count else []
        count = len(audited(store))
        await resume(client, str(bob.key))
        await client.list_resources()
        assert len(audited(store)) == count + 2
        return silent

    assert ask(server_for(store, "alice"), talk) == []
    accesses = audited(store)
    assert {access.owner for access in accesses} == {"alice"}
    denied = [access for access in accesses if str(bob.key) in access.target]
    assert denied
    own = ("search", "note")  # a name is a word to search for, or to note
    assert [access for access in denied if access.is_allowed and access.action not in own] == []


def audited(store: SessionStore) -> list[Any]:
    return list(store.audit.entries().accesses)


def test_a_read_only_server_changes_nothing(store: MemoryStore) -> None:
    """Tools that change something are not listed and not callable; the others change nothing."""
    alice = plant(store, "alice")
    before = state_of(store, alice)
    changing = {name for name, tool in TOOLS.items() if not tool.is_reading}
    assert changing == {
        *(
            "memory_write",
            "context_compact",
            "checkpoint_create",
            "timer_set",
            "timer_change",
            "timer_cancel",
        ),
        *("approval_approve", "approval_deny"),
    }

    async def talk(client: Client) -> None:
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert listed == set(TOOLS) - changing
        for name in changing:
            with pytest.raises(MCPError, match="this server only reads"):
                await client.call_tool(name, {"sessionKey": str(alice.key), "text": "x"})
        await walk(client, alice, (*alice.names, NEEDLE))

    ask(server_for(store, "alice", read_only=True), talk)
    assert state_of(store, alice) == before


def test_a_client_decides_only_in_the_name_of_a_person(store: MemoryStore) -> None:
    """Whoever runs the server states the person; a model that says so itself decides nothing."""
    options: Any = {"model": pay(5), "store": store, "owner": "alice", "tools": [paying()]}
    with Session.open("s", **options) as session:
        session.say("pay")
    agent = Caller("main", None, owner=NamedOwner("alice"), visibility="agent")

    def server(person: str) -> Any:
        client = McpClient(agent, person=person)
        return build_server(lambda _request: client, lambda one: CallerWorkspace(store, one))

    async def decide(client: Client, said: str) -> None:
        listed = await client.call_tool("approval_list", {})
        [found] = listed.structured_content["calls"]
        assert found["arguments"] == {"amount": 5}
        assert said in await call(client, "approval_approve", {"key": found["key"]})

    ask(server(""), lambda client: decide(client, "only a person may decide"))
    ask(server("ann"), lambda client: decide(client, '"by":"ann"'))


def test_tools_that_change_say_so(store: MemoryStore) -> None:
    """The hints agree with what the tools do: one that claims to read stores nothing."""
    alice = plant(store, "alice")

    async def talk(client: Client) -> None:
        for tool in (await client.list_tools()).tools:
            assert tool.annotations is not None
            before = state_of(store, alice)
            required = dict.fromkeys(tool.input_schema.get("required", []), str(alice.key))
            await client.call_tool(tool.name, required)
            if tool.annotations.read_only_hint:
                assert state_of(store, alice) == before, tool.name

    ask(server_for(store, "alice"), talk)


@pytest.mark.parametrize("cap", [0, 1, 2, 40, 300, 1_500, 8_000])
def test_no_answer_is_longer_than_the_cap(store: MemoryStore, cap: int) -> None:
    """Whatever is asked, the text of an answer has at most as many bytes as the server allows."""
    alice = plant(store, "alice")
    caller = Caller("main", None, owner=NamedOwner("alice"), visibility="agent")
    server = build_server(
        lambda _request: McpClient(caller),
        lambda caller: CallerWorkspace(store, caller, max_bytes=cap),
    )

    async def talk(client: Client) -> None:
        for tool in (await client.list_tools()).tools:
            for given in attempts(tool.input_schema, str(alice.key), alice.names[0]):
                result = await client.call_tool(tool.name, given)
                text = result.content[0].text  # type: ignore[union-attr]
                if "are invalid" not in text:
                    assert len(text.encode()) <= cap, (tool.name, given)

    ask(server, talk)


def test_bad_arguments_are_tool_errors(store: MemoryStore) -> None:
    """Unknown, missing and wrong arguments are refused in words that a model can act on."""
    alice = plant(store, "alice")

    async def talk(client: Client) -> None:
        for tool in (await client.list_tools()).tools:
            required = dict.fromkeys(tool.input_schema.get("required", []), str(alice.key))
            wrong = [{**required, "surprise": 1}]
            wrong += [
                {**required, name: {"a": []}}
                for name, schema in tool.input_schema["properties"].items()
                if not any(each.get("type") == "object" for each in options(schema))
            ]
            wrong += [{}] if required else []
            for given in wrong:
                result = await client.call_tool(tool.name, given)
                assert result.is_error, (tool.name, given)
                reply = result.structured_content or {}
                assert reply["status"] == "invalid", (tool.name, given, reply)
                assert len(reply["error"]) > 20

    ask(server_for(store, "alice"), talk)


def test_cursors_are_of_their_list_and_session(store: MemoryStore) -> None:
    """A cursor of another session, an altered one and an invented one are refused."""
    alice, bob = plant(store, "alice"), plant(store, "bob")
    other = SessionKey("main", "other")
    store.create(other, owner=NamedOwner("alice"))
    head = store.append(other, [User(content="x")], expect=ANY_HEAD).ids[0]

    async def talk(client: Client) -> None:
        for value in (cursor(other, head), cursor(bob.key, bob.records[0]), "hc1.00.00", "7"):
            given = {"sessionKey": str(alice.key), "cursor": value}
            result = await client.call_tool("sessions_history", given)
            assert (result.structured_content or {})["status"] == "invalid", value
        for value in ("session://main/of-bob", "7", ""):
            with pytest.raises(MCPError, match="cursor"):
                await client.list_resources(cursor=value)
        with pytest.raises(MCPError, match="one page"):
            await client.list_tools(cursor="7")

    ask(server_for(store, "alice"), talk)


def test_every_parameter_is_described(store: MemoryStore) -> None:
    """A tool has a title and a description; so has each parameter, prompt and template."""

    async def talk(client: Client) -> None:
        for tool in (await client.list_tools()).tools:
            assert tool.title, tool.name
            assert len(tool.description or "") > 40, tool.name
            assert tool.input_schema["additionalProperties"] is False
            for name, schema in tool.input_schema["properties"].items():
                assert schema.get("description"), (tool.name, name)
        for prompt in (await client.list_prompts()).prompts:
            assert prompt.title
            assert prompt.description
            assert all(each.description for each in prompt.arguments or [])
        for template in (await client.list_resource_templates()).resource_templates:
            assert template.title
            assert template.description

    ask(server_for(store, "alice"), talk)


def test_unknown_names_are_protocol_errors(store: MemoryStore) -> None:
    """An unknown tool, prompt or resource is refused with what there is."""

    async def talk(client: Client) -> None:
        with pytest.raises(MCPError, match="tools: sessions_list"):
            await client.call_tool("nothing", {})
        with pytest.raises(MCPError, match="there is `resume_session`"):
            await client.get_prompt("nothing", {})
        with pytest.raises(MCPError, match="takes one argument"):
            await client.get_prompt("resume_session", {})
        for uri in ("nothing://x", "session://", "x", "session:main/work"):
            with pytest.raises(MCPError, match="not a resource of this server"):
                await client.read_resource(uri)

    ask(server_for(store, "alice"), talk)


def test_an_unknown_client_gets_nothing(store: MemoryStore) -> None:
    """Where the application does not know who asks, every request is refused, in its words."""
    plant(store, "alice")

    def refuse(_request: object) -> McpClient:
        raise AccessDenied("the token is unknown", hint="ask for another")

    async def talk(client: Client) -> None:
        asked = (
            client.list_tools,
            client.list_resources,
            client.list_prompts,
            client.list_resource_templates,
            lambda: client.call_tool("sessions_list", {}),
            lambda: client.read_resource("session://main/of-alice"),
            lambda: client.get_prompt("resume_session", {"session": "of-alice"}),
        )
        for request in asked:
            with pytest.raises(MCPError, match="the token is unknown; ask for another"):
                await request()

    ask(build_server(refuse, lambda caller: CallerWorkspace(store, caller)), talk)


def test_a_mistake_of_ours_is_told_without_its_words(
    store: MemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    """An unexpected failure is an error of the protocol; its text goes to the log alone."""

    def fail(_caller: Caller) -> CallerWorkspace:
        raise KeyError("the-inner-words")

    caller = Caller("main", None)

    async def talk(client: Client) -> None:
        with pytest.raises(MCPError, match=r"failed inside Holdfast \(KeyError\)") as found:
            await client.call_tool("sessions_list", {})
        assert "inner-words" not in str(found.value)

    ask(build_server(lambda _request: McpClient(caller), fail), talk)
    assert "the-inner-words" in caplog.text


def test_a_slow_call_holds_up_no_other(store: MemoryStore) -> None:
    """While one caller's work blocks, another request is answered: work runs in threads."""
    plant(store, "alice")
    caller = Caller("main", None, owner=NamedOwner("alice"), visibility="agent")
    begun, let_go = threading.Event(), threading.Event()

    def workspace_of(caller: Caller) -> CallerWorkspace:
        if not begun.is_set():
            begun.set()
            assert let_go.wait(60)
        return CallerWorkspace(store, caller)

    async def talk(client: Client) -> list[str]:
        order = []

        async def slow() -> None:
            await client.call_tool("sessions_list", {})
            order.append("slow")

        async with anyio.create_task_group() as group:
            group.start_soon(slow)
            await anyio.to_thread.run_sync(begun.wait)
            await client.call_tool("sessions_list", {})
            order.append("quick")
            let_go.set()
        return order

    server = build_server(lambda _request: McpClient(caller), workspace_of)
    assert ask(server, talk) == ["quick", "slow"]


def test_lists_of_resources_have_pages(store: MemoryStore) -> None:
    """All sessions of the owner come, each once, in pages; a completion says how many there are."""
    for number in range(230):
        store.create(SessionKey("main", f"s{number:03}"), owner=NamedOwner("alice"))

    async def talk(client: Client) -> list[str]:
        uris: list[str] = []
        cursor = None
        while True:
            page = await client.list_resources(cursor=cursor)
            uris += [resource.uri for resource in page.resources]
            cursor = page.next_cursor
            if cursor is None:
                break
            assert len(page.resources) == 100
        completed = await client.complete(
            PromptReference(name="resume_session"), {"name": "session", "value": "s1"}
        )
        assert completed.completion.total == 100
        return uris

    uris = ask(server_for(store, "alice"), talk)
    assert len(uris) == len(set(uris)) == 230
