"""Routes made from operations: an address for each of them, and nothing else.

A parameter is in the address where that names it; the others are in the query of a request that
reads or deletes, and in the body of any other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final, get_args

import msgspec

from holdfast.engine.operations import context, history, memory
from holdfast.surfaces.http.context import compact
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import HttpAnswer, HttpQuery, JsonBody, NoQuery, Route

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.engine.operations.operation import Operation
    from holdfast.surfaces.http.route import Handler, HttpCall, HttpInput, Method

_SESSION: Final = "/v1/sessions/{agent}/{session}"


def route_of(
    method: Method,
    path: str,
    operation: type[Operation[Any]],
    *,
    run: Handler | None = None,
    in_query: Sequence[str] = (),
    status: int = 200,
    problems: tuple[int, ...] = (),
) -> Route:
    """Make the route of an operation; `run` carries it out in place of its own call.

    `in_query` names the parameters of a request with a body that belong to its address.
    """
    named = {name for name in operation.__struct_fields__ if f"{{{name}}}" in path}
    named |= {"session_key"} if "{session}" in path else set()
    others = [name for name in operation.__struct_fields__ if name not in named]
    has_body = method not in ("GET", "DELETE")
    asked = [name for name in others if name in in_query or not has_body]
    sent = [name for name in others if name not in asked]
    return Route(
        method,
        path,
        operation.title,
        run or partial(_run, operation, frozenset(named), status),
        operation.result,
        scope=operation.right,
        query=query_of(operation, asked) if asked else NoQuery,
        body=body_of(operation, sent) if sent else None,
        status=status,
        problems=problems,
        operation=operation,
    )


def query_of(operation: type[Operation[Any]], names: Sequence[str]) -> type[HttpQuery]:
    """Return the parameters of an operation as those after a question mark."""
    query: type[HttpQuery] = _input_of(operation, names, HttpQuery, "Query")
    return query


def body_of(operation: type[Operation[Any]], names: Sequence[str]) -> type[JsonBody]:
    """Return the parameters of an operation as a body, or as a form."""
    body: type[JsonBody] = _input_of(operation, names, JsonBody, "Body")
    return body


def _input_of(
    operation: type[Operation[Any]], names: Sequence[str], base: type[HttpInput], suffix: str
) -> Any:
    found: Any = msgspec.defstruct(
        f"{operation.__name__}{suffix}",
        [_field_of(field) for field in msgspec.structs.fields(operation) if field.name in names],
        bases=(base,),
        frozen=True,
        kw_only=True,
        namespace={"__doc__": operation.title},
    )
    return found


def _field_of(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return field.name, field.type, msgspec.field(default_factory=field.default_factory)
    if field.default is not msgspec.NODEFAULT:
        return field.name, field.type, field.default
    return field.name, field.type


def _run(
    operation: type[Operation[Any]], named: frozenset[str], status: int, call: HttpCall
) -> HttpAnswer:
    given: dict[str, Any] = {}
    for part in (call.query, call.body):
        given |= msgspec.structs.asdict(part) if part is not None else {}
    for field in msgspec.structs.fields(operation):
        if field.name == "session_key" and field.name in named:
            given[field.name] = str(call.session(to_change=operation.right != "read"))
        elif field.name in named:
            given[field.name] = _part_of_address(call.path[field.name], field.type)
    return HttpAnswer(operation(**given).call(call.workspace), status)


def _part_of_address(text: str, kind: Any) -> str:
    bounds = next(meta for meta in get_args(kind) if isinstance(meta, msgspec.Meta))
    if len(text) > (bounds.max_length or len(text)):
        raise Problem(404, "there is nothing of that name", hint="a name is not that long")
    return text


ROUTES: Final = (
    route_of("GET", f"{_SESSION}/messages", history.ReadMessages),
    route_of("GET", f"{_SESSION}/status", context.ReadStatus, problems=(422,)),
    route_of("POST", f"{_SESSION}/compact", context.CompactContext, run=compact, problems=(409,)),
    route_of("GET", f"{_SESSION}/checkpoint", context.ReadCheckpoint),
    route_of(
        "POST",
        f"{_SESSION}/checkpoint",
        context.StoreCheckpoint,
        status=201,
        problems=(409,),
    ),
    route_of("GET", f"{_SESSION}/outputs/{{ref}}", context.ReadOutput),
    route_of("GET", "/v1/memory/search", memory.FindPassages),
    route_of("GET", "/v1/memory/passage", memory.ReadPassage),
    route_of("GET", "/v1/notes", memory.ListNoteFiles),
    route_of("POST", "/v1/notes", memory.SaveNote, status=201),
    route_of("GET", "/v1/notes/file", memory.ReadNoteFile),
    route_of(
        "PUT",
        "/v1/notes/file",
        memory.WriteNoteFile,
        in_query=("agent", "path"),
        problems=(409,),
    ),
    route_of("DELETE", "/v1/notes/file", memory.DeleteNoteFile, problems=(409,)),
)
"""The address of each operation."""
