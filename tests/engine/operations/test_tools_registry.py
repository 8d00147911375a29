"""Every operation is found by its class, is complete, and is offered by the doors as it is."""

from __future__ import annotations

import ast
import asyncio
import inspect
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from holdfast import surfaces
from holdfast.core.history.access import OPERATOR, RIGHTS, Action, Caller
from holdfast.core.history.answers import Result
from holdfast.core.log.ids import SessionKey
from holdfast.core.log.records import User
from holdfast.core.owners import ANY_OWNER, NamedOwner
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations import tools as model_tools
from holdfast.engine.operations.context import ReadContext, ResumeSession
from holdfast.engine.operations.history import ListSessions, SearchSessions
from holdfast.engine.operations.inbox import CancelTurn
from holdfast.engine.operations.operation import LiveOperation, Operation, describe
from holdfast.engine.operations.tools import OPERATIONS, TOOLS
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.http import operations as http_operations
from holdfast.surfaces.http.route import NoQuery
from holdfast.surfaces.http.server import ROUTES

SURFACES = Path(surfaces.__path__[0])
READS_JSON = {
    *(
        "cli/conversations.py",
        "cli/demo/demo.py",
        "cli/demo/replay.py",
        "cli/verbs/import_export.py",
        "cli/proxy.py",
    ),
    *(
        "slash_commands/command.py",  # an argument that a person writes
        "cli/verbs/approvals.py",
        "cli/verbs/classify.py",
        "cli/verbs/memory.py",
    ),
    *("console/session_pages/request.py", "console/waiting.py", "http/server.py"),
}
"""Modules that parse JSON: files and lines of stdin, bodies, cursors, blocks of a request."""


def all_kinds(kind: type[Operation[Any]]) -> list[type[Operation[Any]]]:
    """Return the operations derived from a class, as Python knows them."""
    found = [each for child in kind.__subclasses__() for each in [child, *all_kinds(child)]]
    return [each for each in found if hasattr(each, "title")]


def schema_of(operation: type[Operation[Any]]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.schema(operation)["$defs"][operation.__name__]
    return found


def test_every_class_is_registered() -> None:
    assert set(all_kinds(Operation)) == set(OPERATIONS)  # type: ignore[type-abstract]
    tools = [operation.tool for operation in OPERATIONS if operation.tool]
    assert len(tools) == len(set(tools))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_an_operation_is_complete(operation: type[Operation[Any]]) -> None:
    """A title, words, a typed answer, a word for the audit log, and help for every parameter; only
    what changes a thing may do more the second time."""
    assert operation.title[0].isupper()
    assert len(describe(operation)) > 30
    assert operation.right in RIGHTS
    assert operation.audit in get_args(Action)
    assert operation.is_idempotent or operation.right != "read"
    assert issubclass(operation.result, Result)
    for name, schema in schema_of(operation)["properties"].items():
        assert schema.get("description"), name
    assert set(operation.place) <= set(operation.__struct_fields__)
    assert not inspect.isabstract(operation)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_the_answer_is_the_stated_one(operation: type[Operation[Any]]) -> None:
    """The type that doors read is the one that the call is annotated with."""
    answer: Any = operation.answer
    if issubclass(operation, LiveOperation) and answer is LiveOperation.answer:
        answer = operation.act
    annotated = answer.__annotations__["return"]
    assert annotated == f"GivenReply[{operation.result.__name__}]"


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_an_answer_is_a_value_and_no_json(operation: type[Operation[Any]]) -> None:
    """Doors write JSON; inside the process an answer has fields."""
    assert issubclass(operation.result, msgspec.Struct)
    for field in msgspec.structs.fields(operation.result):
        assert field.type is not msgspec.Raw, field.name
        assert "json" not in field.name, field.name


def test_no_door_reads_an_answer_back_from_json() -> None:
    """What surfaces parse is what somebody sent, or a file: each place is known."""
    found = set()
    for path in sorted(SURFACES.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if name in ("json.loads", "msgspec.json.decode", "decode_typed", "json.load"):
                found.add(path.relative_to(SURFACES).as_posix())
    assert found == READS_JSON


def test_mcp_offers_just_the_parameters_of_the_operations() -> None:
    """Names, types, bounds, defaults and help."""
    for operation in OPERATIONS:
        if not operation.tool:
            continue
        tool, own = TOOLS[operation.tool], schema_of(operation)
        expected = {
            name: schema
            for name, schema in own["properties"].items()
            if name not in operation.place
        }
        assert tool.schema["properties"] == expected
        assert tool.schema.get("required", []) == own.get("required", [])
        assert tool.operation is operation
        assert tool.is_reading == (operation.right == "read")
    assert len(TOOLS) == sum(bool(operation.tool) for operation in OPERATIONS)


def test_http_offers_just_the_parameters_of_the_operations() -> None:
    """Names, types, bounds, defaults and help: in the address, the query or the body."""
    made = [route for route in ROUTES if route.operation is not None]
    doors = {route.operation for route in made}
    only_tools = {ListSessions, ReadContext, ResumeSession, SearchSessions}
    assert doors == set(OPERATIONS) - only_tools
    for route in made:
        assert route.operation is not None
        own = schema_of(route.operation)
        offered: dict[str, Any] = {}
        for kind in (route.query, route.body):
            if kind is not None and kind is not NoQuery:
                schema = msgspec.json.schema(kind)["$defs"][kind.__name__]
                required = set(schema.get("required", []))
                assert required == set(own.get("required", [])) & set(schema["properties"])
                offered |= schema["properties"]
        in_address = {name for name in own["properties"] if f"{{{name}}}" in route.path}
        in_address |= {"sessionKey"} if "{session}" in route.path else set()
        in_address |= {"idempotencyKey"} if route.in_headers else set()
        assert offered == {
            name: schema for name, schema in own["properties"].items() if name not in in_address
        }
        assert route.answer is route.operation.result
        assert route.scope == route.operation.right


def test_no_door_declares_what_an_operation_has() -> None:
    """The modules that make a door of operations hold no help, no bound and no default."""
    for module in (model_tools, http_operations):
        tree = ast.parse(inspect.getsource(module))
        names = {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        names |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        calls = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "Meta"
        ]
        assert calls == [], module.__name__
        assert not names & {"ArgumentParser", "add_argument", "Annotated"}, module.__name__


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_what_is_for_the_operator_is_refused_to_all_others(operation: type[Operation[Any]]) -> None:
    """Whichever door asks: an owner, an agent, and one who sees every agent of an owner."""
    required = [
        field.name for field in msgspec.structs.fields(operation) if field.required
    ]  # what they hold is not looked at
    asked = operation(**dict.fromkeys(required, "x"))
    callers = [
        Caller("main", "s"),
        Caller("", None, visibility="all", agents=("*",)),
        Caller("", None, owner=NamedOwner("ann"), visibility="all", agents=("*",)),
        Caller("main", "s", visibility="all", agents=("*",), owners=ANY_OWNER),
    ]
    no_gateway: Any = None
    with MemoryStore() as store:
        for caller in callers if operation.is_for_operator else ():
            workspace = CallerWorkspace(store, caller)
            with pytest.raises(RequestRefused, match="only the operator") as refused:  # noqa: PT012
                if isinstance(asked, LiveOperation):
                    asyncio.run(asked.run(workspace, no_gateway))
                else:
                    asked.call(workspace)
            assert refused.value.status == "not_allowed"
        lines = store.audit.entries().accesses
    assert [line.is_allowed for line in lines] == [False] * 4 * operation.is_for_operator


@pytest.mark.parametrize("given", [{"limit": "soon"}, {"colour": "red"}, {"limit": 0}])
def test_arguments_that_cannot_be_meant_are_in_the_audit_log(given: dict[str, Any]) -> None:
    """Whoever asks is noted, also where nothing could be asked."""
    with MemoryStore() as store:
        workspace = CallerWorkspace(store, OPERATOR)
        reply = TOOLS["sessions_history"].data(workspace, {"sessionKey": "main/s", **given})
        assert reply["status"] == "invalid"
        (line,) = store.audit.entries().accesses
    assert (line.action, line.target, line.is_allowed) == ("read", "main/s", False)


def test_a_model_may_write_numbers_as_texts_and_leave_texts_blank() -> None:
    """A number above its bound is the bound; a blank text is one that was left out."""
    with MemoryStore() as store:
        key = SessionKey("main", "s")
        store.create(key)
        store.append(key, [User(content=f"heron {number}") for number in range(3)], expect=None)
        workspace = CallerWorkspace(store, OPERATOR)
        asked = {"sessionKey": "main/s", "limit": "50000", "cursor": " ", "around": ""}
        reply = TOOLS["sessions_history"].data(workspace, asked)
    assert len(reply["messages"]) == 3


def test_a_live_operation_that_meets_the_system_is_answered_and_noted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A full disk is an answer, and in the audit log, as for every other operation."""

    async def act(*_args: Any) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(CancelTurn, "act", act)
    with MemoryStore() as store:
        workspace, asked = CallerWorkspace(store, OPERATOR), CancelTurn(session_key="main/s")
        no_gateway: Any = None
        with pytest.raises(RequestRefused, match="no space left"):
            asyncio.run(asked.run(workspace, no_gateway))
        (line,) = store.audit.entries().accesses
    assert (line.action, line.is_allowed) == ("cancel", False)
