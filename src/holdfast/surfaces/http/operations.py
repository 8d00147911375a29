"""Routes made from operations: an address for each of them, and nothing else.

A parameter is in the address where that names it; the others are in the query of a request that
reads or deletes, and in the body of any other.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.text.typed import convert_typed
from holdfast.engine.operations import (
    approvals,
    context,
    history,
    inbox,
    links,
    memory,
    own_loop,
    server,
    sessions,
    timers,
    upkeep,
)
from holdfast.engine.operations.operation import LiveOperation
from holdfast.engine.session.drivers.awaiting import run_in_thread
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import HttpAnswer, HttpQuery, JsonBody, NoQuery, Route

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from holdfast.core.log.records import Json
    from holdfast.engine.operations.operation import Operation
    from holdfast.surfaces.http.route import HttpCall, HttpInput, Method

_SESSION: Final = "/v1/sessions/{agent}/{session}"


def route_of(
    method: Method,
    path: str,
    operation: type[Operation[Any]],
    *,
    in_query: Sequence[str] = (),
    in_headers: tuple[str, ...] = (),
    status: int = 200,
    status_of: Callable[[Any], int] | None = None,
    other_status: int | None = None,
    problems: tuple[int, ...] = (),
) -> Route:
    """Make the route of an operation.

    `in_query` and `in_headers` name the parameters of a request with a body that are elsewhere.
    """
    named = {name for name in operation.__struct_fields__ if f"{{{name}}}" in path}
    named |= {"session_key"} if "{session}" in path else set()
    others = [name for name in operation.__struct_fields__ if name not in (*named, *in_headers)]
    has_body = method not in ("GET", "DELETE")
    asked = [name for name in others if name in in_query or not has_body]
    sent = [name for name in others if name not in asked]
    return Route(
        method,
        path,
        operation.title,
        partial(_run, operation, status_of or (lambda _found: status)),
        operation.result,
        scope=operation.right,
        query=query_of(operation, asked) if asked else NoQuery,
        body=body_of(operation, sent) if sent else None,
        in_headers=in_headers,
        status=status,
        other_status=other_status,
        problems=(*problems, *([] if method == "GET" else [409])),
        is_for_operator=operation.is_for_operator,
        operation=operation,
    )


def query_of(
    operation: type[Operation[Any]], names: Sequence[str], base: type[HttpQuery] = HttpQuery
) -> type[HttpQuery]:
    """Return the parameters of an operation as those after a question mark, behind others."""
    query: type[HttpQuery] = _input_of(operation, names, base, "Query")
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


async def _run(
    operation: type[Operation[Any]], status_of: Callable[[Any], int], call: HttpCall
) -> HttpAnswer:
    found = await operate(operation, call)
    return HttpAnswer(found, status_of(found))


async def operate(operation: type[Operation[Any]], call: HttpCall, **changed: Any) -> Any:
    """Carry out an operation with the arguments of a request. Raises `RequestRefused`."""
    asked = _read(operation, call, changed)
    if isinstance(asked, LiveOperation):
        return await asked.run(call.workspace, call.gateway)
    return await run_in_thread(asked.call, call.workspace)


def _read(operation: type[Operation[Any]], call: HttpCall, changed: Json) -> Operation[Any]:
    given: Json = {}
    for part in (call.query, call.body):
        given |= msgspec.structs.asdict(part) if part is not None else {}
    for field in msgspec.structs.fields(operation):
        if field.name == "session_key" and "session" in call.path:
            given[field.name] = call.session_name
        elif field.name in call.path:
            given[field.name] = _part_of_address(call.path[field.name], field.type)
        elif field.name == "idempotency_key" and field.name not in given:
            given[field.name] = call.headers.get("idempotency-key", "")
    known = {name: value for name, value in given.items() if name in operation.__struct_fields__}
    return operation(**{**known, **changed})  # a form may have more than its operation


def _part_of_address(text: str, kind: Any) -> Any:
    try:
        return convert_typed(text, kind, strict=False)
    except (msgspec.ValidationError, UnicodeError):
        raise Problem(404, "nothing here has that name") from None


ROUTES: Final = (
    route_of("GET", "/v1/sessions", sessions.FindSessions),
    route_of("POST", "/v1/sessions", sessions.CreateSession, status=201),
    route_of("GET", _SESSION, sessions.ReadSession),
    route_of("PUT", _SESSION, sessions.OpenSession),
    route_of("PATCH", _SESSION, sessions.LabelSession),
    route_of("POST", f"{_SESSION}/fork", sessions.ForkSession, status=201),
    route_of("POST", f"{_SESSION}/rewind", sessions.RewindSession),
    route_of("POST", f"{_SESSION}/undo", sessions.UndoChange),
    route_of("DELETE", _SESSION, upkeep.RemoveSession),
    route_of("POST", f"{_SESSION}/erase", sessions.EraseSession),
    route_of("GET", "/v1/trash", upkeep.ListTrash),
    route_of("DELETE", "/v1/trash", upkeep.EmptyTrash),
    route_of("POST", "/v1/trash/{name}/restore", upkeep.RestoreSession),
    route_of("POST", "/v1/retention", upkeep.RetireSessions),
    route_of("GET", f"{_SESSION}/verify", upkeep.VerifySession),
    route_of("POST", f"{_SESSION}/records", upkeep.AppendRecords, status=201),
    route_of("GET", f"{_SESSION}/records/{{record}}", sessions.ReadRecord),
    route_of(
        "POST",
        f"{_SESSION}/messages",
        inbox.SendMessage,
        in_query=("wait",),
        in_headers=("idempotency_key",),
        status=202,
        status_of=lambda message: 200 if message.state == "answered" else 202,
        other_status=200,
    ),
    route_of("POST", f"{_SESSION}/cancel", inbox.CancelTurn),
    route_of("GET", f"{_SESSION}/loop", own_loop.ReadLoop),
    route_of(
        "POST",
        f"{_SESSION}/loop/messages",
        own_loop.AddLoopMessage,
        in_headers=("idempotency_key",),
        status=201,
    ),
    route_of("POST", f"{_SESSION}/loop/prepare", own_loop.PrepareCall, problems=(422,)),
    route_of(
        "POST",
        f"{_SESSION}/loop/replies",
        own_loop.RecordReply,
        in_headers=("idempotency_key",),
        status=201,
    ),
    route_of("POST", f"{_SESSION}/loop/results", own_loop.AddCallResult, status=201),
    route_of("GET", "/v1/approvals", approvals.ListWaitingCalls),
    route_of("POST", f"{_SESSION}/approvals/{{key}}/approve", approvals.ApproveCall),
    route_of("POST", f"{_SESSION}/approvals/{{key}}/deny", approvals.DenyCall),
    route_of("POST", f"{_SESSION}/approvals/{{key}}/links", links.LinkCall, status=201),
    route_of("DELETE", f"{_SESSION}/approvals/{{key}}/links", links.RevokeLinks),
    route_of("POST", "/v1/approvals/rotate-key", links.RotateLinkKey),
    route_of("GET", "/v1/inbox", inbox.ListInbox),
    route_of("GET", "/v1/outbox", inbox.ListOutbox),
    route_of("GET", "/v1/inbox/{message}", inbox.ReadInboxMessage),
    route_of("POST", "/v1/inbox/{message}/retry", inbox.RetryMessage),
    route_of("POST", "/v1/inbox/{message}/drop", inbox.DropMessage),
    route_of("GET", "/v1/timers", timers.ListTimers),
    route_of("POST", f"{_SESSION}/timers", timers.SetTimer, status=201),
    route_of("PATCH", "/v1/timers/{name}", timers.ChangeTimer),
    route_of("DELETE", "/v1/timers/{name}", timers.CancelTimer),
    route_of("GET", f"{_SESSION}/messages", history.ReadMessages),
    route_of("GET", f"{_SESSION}/status", context.ReadStatus, problems=(422,)),
    route_of("GET", f"{_SESSION}/context", context.ReadRequest, problems=(422,)),
    route_of("POST", f"{_SESSION}/compact", context.CompactContext),
    route_of("GET", f"{_SESSION}/checkpoint", context.ReadCheckpoint),
    route_of("POST", f"{_SESSION}/checkpoint", context.StoreCheckpoint, status=201),
    route_of("GET", f"{_SESSION}/outputs/{{ref}}", context.ReadOutput),
    route_of("GET", "/v1/memory/search", memory.FindPassages),
    route_of("GET", "/v1/memory/passage", memory.ReadPassage),
    route_of("GET", "/v1/notes", memory.ListNoteFiles),
    route_of("POST", "/v1/notes", memory.SaveNote, status=201),
    route_of("GET", "/v1/notes/file", memory.ReadNoteFile),
    route_of("PUT", "/v1/notes/file", memory.WriteNoteFile, in_query=("agent", "path")),
    route_of("DELETE", "/v1/notes/file", memory.DeleteNoteFile),
    route_of("POST", "/v1/settings/reload", server.ReloadSettings),
    route_of("GET", "/v1/tokens", server.ListTokens),
    route_of("POST", "/v1/tokens", server.CreateToken, status=201),
    route_of("DELETE", "/v1/tokens/{name}", server.RevokeToken),
)
"""The address of each operation."""
