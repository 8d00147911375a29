"""Every operation is found by its class, is complete, and is offered by the doors as it is."""

from __future__ import annotations

import inspect
from typing import Any

import msgspec
import pytest

from holdfast.core.history.answers import Result
from holdfast.engine.operations.operation import RIGHTS, Operation, describe
from holdfast.engine.operations.registry import OPERATIONS
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
