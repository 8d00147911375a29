"""Every operation, found by its class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

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
from holdfast.engine.operations.operation import Operation

if TYPE_CHECKING:
    from types import ModuleType

_MODULES: Final[tuple[ModuleType, ...]] = (
    history,
    context,
    memory,
    sessions,
    upkeep,
    inbox,
    timers,
    approvals,
    links,
    own_loop,
    server,
)

OPERATIONS: Final[tuple[type[Operation[Any]], ...]] = tuple(
    kind
    for module in _MODULES
    for kind in vars(module).values()
    if isinstance(kind, type)
    and issubclass(kind, Operation)
    and kind.__module__ == module.__name__
    and hasattr(kind, "title")
)
"""In the order in which a door lists them."""
