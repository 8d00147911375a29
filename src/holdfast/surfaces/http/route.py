"""A route: its address, what it takes and gives, and who may use it. Every route is a row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import msgspec

from holdfast.core.limits import ID_CHARS_MAX
from holdfast.core.log.ids import SessionKey, is_name
from holdfast.engine.history.request import RequestRefused
from holdfast.surfaces.http.problems import REFUSALS, Problem

if TYPE_CHECKING:
    from holdfast.core.history.access import Action
    from holdfast.core.owners import OwnerFilter
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.operations.operation import Operation, Right
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.ports import SessionStore
    from holdfast.surfaces.http.identity import Client

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

Name = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=ID_CHARS_MAX,
        # As text: msgspec would compile a pattern of its own at every start.
        extra_json_schema={"pattern": "^[A-Za-z0-9][A-Za-z0-9_-]*$"},
    ),
]
"""An id of an agent or a session. `HttpInput` checks its characters."""
_DEPTH_MAX: Final = 64
"""Levels of arrays and objects in the fields of a body."""


class HttpInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Something a client sends. Every field that is a `Name` is checked as one."""

    def __post_init__(self) -> None:
        for name in _name_fields(type(self)):
            value = getattr(self, name)
            if value is not None and not is_name(value):
                raise ValueError(
                    f"`{name}` has letters, digits, `_` and `-`, and begins with a letter or digit"
                )


class HttpQuery(HttpInput, frozen=True):
    """Parameters after the question mark."""


class JsonBody(HttpInput, frozen=True):
    """A JSON body."""


@cache
def _name_fields(kind: type[HttpInput]) -> tuple[str, ...]:
    fields = msgspec.structs.fields(kind)
    return tuple(field.name for field in fields if field.type in (Name, Name | None))


class Given(msgspec.Struct, frozen=True, rename="camel", omit_defaults=False):
    """An answer."""


class JsonObject(Given, frozen=True):
    """An object whose fields the page of the subject describes."""


class LoggedRecord(Given, frozen=True):
    """A record of a session. It has the other fields of its type, which docs/records.md lists."""

    type: str
    """The type of the record."""
    id: str
    """The id of the record."""
    ts: float | None = None
    """The time it was written, in seconds since 1970."""


class NoQuery(HttpQuery, frozen=True):
    """No parameters."""


@dataclass(frozen=True)
class HttpCall:
    """A request that was let in."""

    client: Client
    workspace: CallerWorkspace
    gateway: Gateway
    path: dict[str, str]
    query: Any
    body: Any
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def store(self) -> SessionStore:
        return self.gateway.store

    @property
    def owner(self) -> OwnerFilter:
        """The owner whose things are listed."""
        return self.client.owner

    def session(self, *, to_change: bool = False) -> SessionKey:
        """Return the session in the address. Raises `Problem` where the client may not use it."""
        agent, session = self.path["agent"], self.path["session"]
        if not (is_name(agent) and is_name(session)):
            raise no_session()
        asked = SessionKey(agent, session)
        try:
            found, _reason = self.workspace.resolve(str(asked), to_change=to_change)
        except RequestRefused as refused:
            if refused.status == "error":
                raise
            raise no_session() from refused  # also where it could be short for several
        if found != asked:
            raise no_session()
        return asked


@dataclass(frozen=True)
class HttpAnswer:
    """A response: a value for JSON, or bytes as they are."""

    value: Any = None
    status: int = 200
    media_type: str = "application/json"
    headers: dict[str, str] = field(default_factory=dict)


ProblemPage = Callable[[Problem, str], HttpAnswer]
"""From a problem and the address that was asked for."""
Handler = Callable[[HttpCall], HttpAnswer] | Callable[[HttpCall], Awaitable[Any]]


@dataclass(frozen=True)
class Route:
    """One method of one address."""

    method: Method
    path: str
    summary: str
    run: Handler
    """A plain function runs in a thread, a coroutine function on the event loop."""
    answer: Any
    """The type of the answer; a text is a media type."""
    scope: Right = "read"
    query: type[HttpQuery] = NoQuery
    body: type[JsonBody] | None = None
    status: int = 200
    other_status: int | None = None
    """Another status of an answer that is no error."""
    action: Action | None = None
    """The word for the audit log; None where the workspace records the access itself."""
    problems: tuple[int, ...] = ()
    """Statuses beside those that every route has."""
    events: Mapping[str, type] = field(default_factory=dict)
    """Of a stream: the type of the data of each event."""
    is_open: bool = False
    """Answered without a token, too."""
    is_stream: bool = False
    is_for_operator: bool = False
    """Shows what belongs to all owners: a token of one owner is refused, whatever its scope."""
    operation: type[Operation[Any]] | None = None
    """The operation that it is made from."""
    problem_page: ProblemPage | None = None
    """Shows a problem to a person. A route that has it is a page: it takes forms instead of JSON,
    and is no part of the API."""

    @property
    def is_page(self) -> bool:
        return self.problem_page is not None

    @property
    def tag(self) -> str:
        return self.path.removeprefix("/v1/").split("/")[0] if "/v1/" in self.path else "server"


def refusal(refused: RequestRefused) -> Problem:
    """Return a refusal of the engine as an answer."""
    if refused.status == "forbidden":
        return no_session()
    return Problem(REFUSALS[refused.status], refused.error)


def no_session() -> Problem:
    return Problem(
        404,
        "there is no such session here",
        hint="GET /v1/sessions lists those that you may use",
        code="no-such-session",
    )


def check_depth(body: Any) -> None:
    """Raise `RecursionError` for JSON that is nested too deeply to be stored and sent."""
    level = [getattr(body, name) for name in body.__struct_fields__]
    for _depth in range(_DEPTH_MAX):
        level = [
            child
            for value in level
            if isinstance(value, dict | list)
            for child in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return
    raise RecursionError(f"it is nested more than {_DEPTH_MAX} levels deep")
