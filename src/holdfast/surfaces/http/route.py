"""A route: its address, what it takes and gives, and who may use it. Every route is a row."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

import msgspec

from holdfast.core.log.ids import SessionKey, is_name
from holdfast.core.parameters import NAME_RULE
from holdfast.errors import HoldfastError, StoreError
from holdfast.surfaces.http.problems import REFUSALS, Problem, problem_of

if TYPE_CHECKING:
    from holdfast.core.history.access import Action, Right
    from holdfast.core.owners import OwnerFilter
    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.history.request import RequestRefused
    from holdfast.engine.operations.operation import Operation
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.ports import SessionStore
    from holdfast.surfaces.http.identity import Client

Method = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

_DEPTH_MAX: Final = 64
"""Levels of arrays and objects in the fields of a body."""


class HttpInput(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Something a client sends. Every field that is a `Name` is checked as one."""

    def __post_init__(self) -> None:
        for name in _name_fields(type(self)):
            value = getattr(self, name)
            if value is not None and not is_name(value):
                raise ValueError(
                    f"`{name}` may have letters, digits, `_` and `-`, and has to begin with a "
                    "letter or a digit"
                )


class HttpQuery(HttpInput, frozen=True):
    """Parameters after the question mark."""


class JsonBody(HttpInput, frozen=True):
    """A JSON body."""


@cache
def _name_fields(kind: type[HttpInput]) -> tuple[str, ...]:
    fields = msgspec.structs.fields(kind)
    return tuple(field.name for field in fields if _is_name(field.type))


def _is_name(kind: Any) -> bool:
    return kind is NAME_RULE or any(map(_is_name, get_args(kind)))


class Given(msgspec.Struct, frozen=True, rename="camel", omit_defaults=False):
    """An answer."""


class JsonObject(Given, frozen=True):
    """An object whose fields the page of the subject describes."""


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
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def store(self) -> SessionStore:
        return self.gateway.store

    @property
    def owner(self) -> OwnerFilter:
        """The owner whose things are listed."""
        return self.workspace.owner

    def session(self, *, to_change: bool = False) -> SessionKey:
        """Return the session in the address. Raises `RequestRefused`."""
        return self.workspace.resolve(self.session_name, to_change=to_change)[0]

    @property
    def session_name(self) -> str:
        """The session in the address, `agent/id`."""
        return f"{self.path['agent']}/{self.path['session']}"


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
    """Another status of an answer that is not an error."""
    action: Action | None = None
    """The word for the audit log; None where the workspace records the access itself."""
    in_headers: tuple[str, ...] = ()
    """Parameters of the operation that are headers."""
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
    and is not part of the API."""

    @property
    def is_page(self) -> bool:
        return self.problem_page is not None

    @property
    def tag(self) -> str:
        return self.path.removeprefix("/v1/").split("/")[0] if "/v1/" in self.path else "server"


def refusal(refused: RequestRefused, mask: Callable[[str], str]) -> Problem:
    """Return a refusal of the engine as an answer."""
    cause = refused.cause
    if refused.status == "forbidden":
        return no_session()
    if not isinstance(cause, HoldfastError):
        status, hint = REFUSALS[refused.status], refused.hint or None
        return Problem(status, refused.found, hint=hint, code=refused.code)
    found = problem_of(cause)
    if isinstance(cause, StoreError):  # what the caller may know of the store is in the sentence
        found.detail, found.hint = refused.error, None
    else:
        found.detail, found.hint = mask(found.detail), found.hint and mask(found.hint)
    return found


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
