"""Every operation is found by its class, is complete, and is offered by the doors as it is."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import msgspec
import pytest

from holdfast.core.history.answers import Result
from holdfast.engine.operations.context import ReadContext
from holdfast.engine.operations.history import ListSessions, SearchSessions
from holdfast.engine.operations.operation import RIGHTS, Operation, describe
from holdfast.engine.operations.registry import OPERATIONS
from holdfast.surfaces.http import operations as http_operations
from holdfast.surfaces.http.route import NoQuery
from holdfast.surfaces.http.server import ROUTES
from holdfast.surfaces.mcp import tools as mcp_tools
from holdfast.surfaces.mcp.tools import TOOLS


def all_kinds(kind: type[Operation]) -> list[type[Operation]]:
    """Return the operations derived from a class, as Python knows them."""
    found = [each for child in kind.__subclasses__() for each in [child, *all_kinds(child)]]
    return [each for each in found if hasattr(each, "title")]


def schema_of(operation: type[Operation]) -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.schema(operation)["$defs"][operation.__name__]
    return found


def test_every_class_is_registered() -> None:
    assert set(all_kinds(Operation)) == set(OPERATIONS)  # type: ignore[type-abstract]
    tools = [operation.tool for operation in OPERATIONS if operation.tool]
    assert len(tools) == len(set(tools))


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_an_operation_is_complete(operation: type[Operation]) -> None:
    """A title, words, a typed answer, and help for every parameter; only what changes a thing may
    do more the second time."""
    assert operation.title[0].isupper()
    assert len(describe(operation)) > 30
    assert operation.right in RIGHTS
    assert operation.is_idempotent or operation.right != "read"
    assert issubclass(operation.result, Result)
    for name, schema in schema_of(operation)["properties"].items():
        assert schema.get("description"), name
    assert set(operation.place) <= set(operation.__struct_fields__)
    assert not inspect.isabstract(operation)


@pytest.mark.parametrize("operation", OPERATIONS, ids=lambda operation: operation.__name__)
def test_the_answer_is_the_stated_one(operation: type[Operation]) -> None:
    """The type that doors read is the one that the call is annotated with."""
    annotated = operation.call.__annotations__["return"]
    assert annotated == operation.result.__name__


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
        assert (tool.title, tool.description) == (operation.title, describe(operation))
        assert tool.is_reading == (operation.right == "read")
    assert len(TOOLS) == sum(bool(operation.tool) for operation in OPERATIONS)


def test_http_offers_just_the_parameters_of_the_operations() -> None:
    """Names, types, bounds, defaults and help: in the address, the query or the body."""
    made = [route for route in ROUTES if route.operation is not None]
    doors = {route.operation for route in made}
    only_tools = {ListSessions, ReadContext, SearchSessions}
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
        assert offered == {
            name: schema for name, schema in own["properties"].items() if name not in in_address
        }
        assert route.answer is route.operation.result
        assert route.scope == route.operation.right


def test_no_door_declares_what_an_operation_has() -> None:
    """The modules that make a door of operations hold no help, no bound and no default."""
    for module in (mcp_tools, http_operations):
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
