"""The form of an operation: a struct whose fields are its parameters.

A field has its help, bounds and default; the class has its name for models, its title, the right it
takes and the word of the audit log. Command line, HTTP, MCP and slash commands are made from that,
and declare nothing of their own. `call` answers with a value, or raises `RequestRefused`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Generic,
    ParamSpec,
    TypeVar,
    get_args,
)

import msgspec

from holdfast.core.history.access import OPERATOR, Action, Right
from holdfast.core.history.answers import Result
from holdfast.engine.history.request import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.engine.gateway.gateway import Gateway
    from holdfast.engine.history.replies import GivenReply
    from holdfast.engine.workspace.workspace import CallerWorkspace

R = TypeVar("R", bound=Result)
P = ParamSpec("P")
T = TypeVar("T")


class Operation(
    msgspec.Struct,
    Generic[R],
    frozen=True,
    kw_only=True,
    forbid_unknown_fields=True,
    rename="camel",
):
    """An operation with its arguments. The docstring says what it does, also to a model."""

    title: ClassVar[str]
    """A few words for people."""
    result: ClassVar[type[Result]]
    """The type of the answer, which the class is derived with: `Operation[SessionStatus]`."""
    audit: ClassVar[Action]
    """The word for the audit log."""
    tool: ClassVar[str] = ""
    """The name that models and clients of MCP call it by; empty where they are not offered it."""
    right: ClassVar[Right] = "read"
    """The right that it takes."""
    is_for_operator: ClassVar[bool] = False
    """It is about what belongs to all owners, and refused to anybody else at every door."""
    is_idempotent: ClassVar[bool] = True
    """The same call again changes nothing more."""
    place: ClassVar[tuple[str, ...]] = ()
    """Parameters that say whose things are meant. A door for one agent does not offer them."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for base in cls.__dict__.get("__orig_bases__", ()):
            for kind in get_args(base):
                if isinstance(kind, type):
                    cls.result = kind

    @property
    def word(self) -> Action:
        """The word for the audit log, of this call."""
        return self.audit

    @property
    def target(self) -> str:
        """The name of what is asked for, for the audit log."""
        return str(getattr(self, "session_key", ""))

    def call(self, workspace: CallerWorkspace) -> R:
        """Return the answer: decided, masked, bounded, and in the audit log. Raises
        `RequestRefused`."""

        def give() -> GivenReply[R]:
            self.check_caller(workspace)
            return self.answer(workspace)

        return workspace.audit(self.word, self.target, give)

    def check_caller(self, workspace: CallerWorkspace) -> None:
        """Raise `RequestRefused` for a caller that this is not for."""
        if self.is_for_operator and workspace.caller != OPERATOR:
            raise RequestRefused(
                "not_allowed", "only the operator of the store may do this, and no single owner"
            )

    @abstractmethod
    def answer(self, workspace: CallerWorkspace) -> GivenReply[R]:
        """Return the answer and the reason why the caller may have it."""


class OneOfSeveral(Operation[Result], frozen=True, kw_only=True):
    """An operation for models that stands for another one, by its arguments."""

    @abstractmethod
    def choose(self) -> Operation[Any]:
        """Return the operation that is meant. Raises `RequestRefused`."""

    def call(self, workspace: CallerWorkspace) -> Result:
        found: Result = self.choose().call(workspace)
        return found

    def answer(self, workspace: CallerWorkspace) -> GivenReply[Result]:
        return self.choose().answer(workspace)


async def run_in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do blocking work beside the event loop, which is loaded by those that have one alone."""
    from holdfast.engine.session.drivers.awaiting import run_in_thread

    return await run_in_thread(work, *args, **kwargs)


class LiveOperation(Operation[R], frozen=True, kw_only=True):
    """An operation that the gateway has a part in, on its event loop."""

    async def run(self, workspace: CallerWorkspace, gateway: Gateway) -> R:
        """Return the answer, which is in the audit log. Raises `RequestRefused`."""
        failure: Exception | None = None
        try:
            self.check_caller(workspace)
            found = await self.act(workspace, gateway)
        except Exception as error:  # raised again where it is explained and noted
            failure = error

        def give() -> GivenReply[R]:
            if failure is not None:
                raise failure
            return found

        return await run_in_thread(workspace.audit, self.word, self.target, give)

    async def act(self, workspace: CallerWorkspace, gateway: Gateway) -> GivenReply[R]:  # noqa: ARG002
        """Return the answer and the reason why the caller may have it."""
        return await run_in_thread(self.answer, workspace)

    def answer(self, workspace: CallerWorkspace) -> GivenReply[R]:  # noqa: ARG002
        """Refuse what takes a gateway."""
        raise RequestRefused("error", "this needs a gateway, and none runs here")


def describe(operation: type[Operation[Any]]) -> str:
    """Return what an operation does, without the line ends that only its source needs."""
    paragraphs = (operation.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
