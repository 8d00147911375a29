"""The form of an operation: a struct whose fields are its parameters.

A field has its help, bounds and default; the class has its name for models, its title and the
right it takes. Command line, HTTP, MCP and slash commands are made from that, and declare nothing
of their own. `call` answers with a value, or raises `RequestRefused`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, Literal

import msgspec

from holdfast.core.history.answers import Result

if TYPE_CHECKING:
    from holdfast.engine.workspace.workspace import CallerWorkspace

Right = Literal["read", "write", "admin"]
RIGHTS: Final[tuple[Right, ...]] = ("read", "write", "admin")
"""`read` looks, `write` also sends and changes, `admin` also erases and sees the server itself.
Each includes those before it."""


class Operation(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"
):
    """An operation with its arguments. The docstring says what it does, also to a model."""

    title: ClassVar[str]
    """A few words for people."""
    result: ClassVar[type[Result]]
    """The type of the answer."""
    tool: ClassVar[str] = ""
    """The name that models and clients of MCP call it by; empty where they are not offered it."""
    right: ClassVar[Right] = "read"
    """The right that it takes."""
    is_idempotent: ClassVar[bool] = True
    """The same call again changes nothing more."""
    place: ClassVar[tuple[str, ...]] = ()
    """Parameters that say whose things are meant. A door for one agent does not offer them."""

    @abstractmethod
    def call(self, workspace: CallerWorkspace) -> Result:
        """Return the answer. Raises `RequestRefused`."""


def describe(operation: type[Operation]) -> str:
    """Return what an operation does, without the line ends that only its source needs."""
    paragraphs = (operation.__doc__ or "").split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
