"""Holdfast: durable sessions and a bounded context for LLM agents.

>>> from holdfast import JsonlStore, SessionKey, User, ANY_HEAD
>>> store = JsonlStore(".sessions")
>>> key = SessionKey("main", "my-project")
>>> head = store.create(key, label="My project")
>>> done = store.append(key, [User(content="hello")], expect=head)

Names are loaded when they are first used, so that `import holdfast` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from holdfast.core.dialects import Target, target
    from holdfast.core.economy import Cache, Policy
    from holdfast.core.ids import SessionKey
    from holdfast.core.messages import Tool
    from holdfast.core.projection import Plan, project
    from holdfast.core.records import (
        Assistant,
        Checkpoint,
        Compaction,
        Flush,
        Header,
        Label,
        Model,
        OutputRef,
        Prune,
        Record,
        Rewind,
        ToolResult,
        ToolUse,
        Unknown,
        User,
    )
    from holdfast.core.text import Cut, cut
    from holdfast.core.view import Memory
    from holdfast.core.window import Window
    from holdfast.engine.prepare import Prepared, prepare
    from holdfast.errors import CannotFit, HoldfastError
    from holdfast.ports import ANY_HEAD, BlobStore, SessionStore
    from holdfast.stores.blobs import FileBlobs
    from holdfast.stores.jsonl import JsonlStore
    from holdfast.stores.memory import MemoryBlobs, MemoryStore

_HOMES = {
    "holdfast.core.dialects": ("Target", "target"),
    "holdfast.core.economy": ("Cache", "Policy"),
    "holdfast.core.ids": ("SessionKey",),
    "holdfast.core.messages": ("Tool",),
    "holdfast.core.projection": ("Plan", "project"),
    "holdfast.core.records": (
        *("Assistant", "Checkpoint", "Compaction", "Flush", "Header", "Label", "Model"),
        *("OutputRef", "Prune", "Record", "Rewind", "ToolResult", "ToolUse", "Unknown", "User"),
    ),
    "holdfast.core.text": ("Cut", "cut"),
    "holdfast.core.view": ("Memory",),
    "holdfast.core.window": ("Window",),
    "holdfast.engine.prepare": ("Prepared", "prepare"),
    "holdfast.errors": ("CannotFit", "HoldfastError"),
    "holdfast.ports": ("ANY_HEAD", "BlobStore", "SessionStore"),
    "holdfast.stores.blobs": ("FileBlobs",),
    "holdfast.stores.jsonl": ("JsonlStore",),
    "holdfast.stores.memory": ("MemoryBlobs", "MemoryStore"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ANY_HEAD",
    "Assistant",
    "BlobStore",
    "Cache",
    "CannotFit",
    "Checkpoint",
    "Compaction",
    "Cut",
    "FileBlobs",
    "Flush",
    "Header",
    "HoldfastError",
    "JsonlStore",
    "Label",
    "Memory",
    "MemoryBlobs",
    "MemoryStore",
    "Model",
    "OutputRef",
    "Plan",
    "Policy",
    "Prepared",
    "Prune",
    "Record",
    "Rewind",
    "SessionKey",
    "SessionStore",
    "Target",
    "Tool",
    "ToolResult",
    "ToolUse",
    "Unknown",
    "User",
    "Window",
    "cut",
    "prepare",
    "project",
    "target",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module `holdfast` has no `{name}`")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
