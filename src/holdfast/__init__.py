"""Holdfast: durable sessions and a bounded context for LLM agents.

>>> from holdfast import Session
>>> session = Session.open("my-project", model="offline", tools=[read_file])
>>> reply = session.say("read README.md")

Names are loaded when they are first used, so that `import holdfast` costs next to nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from holdfast.core.access import OPERATOR, Access, Caller
    from holdfast.core.dialects import Target, target
    from holdfast.core.economy import Cache, Policy
    from holdfast.core.effects import Cancelled, Deny
    from holdfast.core.events import (
        CallFailed,
        CallFinished,
        CallStarted,
        CheckpointSaved,
        CompactionFinished,
        CompactionStarted,
        Event,
        FlushFinished,
        FlushStarted,
        Interrupted,
        MemoryRecalled,
        OffloadFailed,
        OutputOffloaded,
        Pruned,
        PruneStarted,
        SessionReset,
        ToolFinished,
        ToolStarted,
        TroubleNoticed,
        TurnCancelled,
        TurnFailed,
        TurnFinished,
        TurnStarted,
        WindowLearned,
    )
    from holdfast.core.excerpts import Excerpt
    from holdfast.core.failures import Failure, classify
    from holdfast.core.ids import SessionKey
    from holdfast.core.messages import Tool
    from holdfast.core.projection import Plan, project
    from holdfast.core.recalled import Hit
    from holdfast.core.records import (
        Assistant,
        Checkpoint,
        Compaction,
        Flush,
        Header,
        Label,
        Mode,
        Model,
        OutputRef,
        Prune,
        Record,
        Rewind,
        ToolResult,
        ToolUse,
        Undo,
        Unknown,
        User,
    )
    from holdfast.core.redaction import Redactor
    from holdfast.core.replies import Delta, Reply
    from holdfast.core.reseed import Reseed
    from holdfast.core.text import Cut, cut
    from holdfast.core.vault import Secret, Vault
    from holdfast.core.view import Remembered
    from holdfast.core.window import Window
    from holdfast.engine.async_session import AsyncSession
    from holdfast.engine.history import History
    from holdfast.engine.memory import Memory
    from holdfast.engine.memory_tool import memory_tool
    from holdfast.engine.memory_tools import memory_tools
    from holdfast.engine.outputs import Outputs, output_tool
    from holdfast.engine.prepare import Prepared, prepare
    from holdfast.engine.redacting import redactor
    from holdfast.engine.reseeding import reseed
    from holdfast.engine.session import Session
    from holdfast.engine.status import Status
    from holdfast.engine.tools import ToolOutput
    from holdfast.errors import CannotFit, ContextOverflow, HoldfastError, ModelError
    from holdfast.ports import ANY_HEAD, Audit, BlobStore, SessionStore
    from holdfast.providers.models import async_model, model
    from holdfast.stores.audit import FileAudit, MemoryAudit
    from holdfast.stores.blobs import FileBlobs
    from holdfast.stores.jsonl import JsonlStore
    from holdfast.stores.memory import MemoryBlobs, MemoryStore
    from holdfast.stores.notes import Note, NoteStore

_HOMES = {
    "holdfast.core.access": ("OPERATOR", "Access", "Caller"),
    "holdfast.core.dialects": ("Target", "target"),
    "holdfast.core.economy": ("Cache", "Policy"),
    "holdfast.core.effects": ("Cancelled", "Deny"),
    "holdfast.core.events": (
        *("CallFailed", "CallFinished", "CallStarted", "CompactionFinished", "CompactionStarted"),
        *("Event", "FlushFinished", "FlushStarted", "Interrupted", "OffloadFailed"),
        *("CheckpointSaved", "MemoryRecalled", "OutputOffloaded", "PruneStarted", "Pruned"),
        "SessionReset",
        *(
            "ToolFinished",
            "ToolStarted",
            "TroubleNoticed",
            "TurnCancelled",
            "TurnFailed",
            "TurnFinished",
            "TurnStarted",
        ),
        "WindowLearned",
    ),
    "holdfast.core.excerpts": ("Excerpt",),
    "holdfast.core.failures": ("Failure", "classify"),
    "holdfast.core.ids": ("SessionKey",),
    "holdfast.core.messages": ("Tool",),
    "holdfast.core.projection": ("Plan", "project"),
    "holdfast.core.records": (
        *("Assistant", "Checkpoint", "Compaction", "Flush", "Header", "Label", "Mode", "Model"),
        *("OutputRef", "Prune", "Record", "Rewind", "ToolResult", "ToolUse", "Undo", "Unknown"),
        "User",
    ),
    "holdfast.core.recalled": ("Hit",),
    "holdfast.core.redaction": ("Redactor",),
    "holdfast.core.replies": ("Delta", "Reply"),
    "holdfast.core.reseed": ("Reseed",),
    "holdfast.core.text": ("Cut", "cut"),
    "holdfast.core.vault": ("Secret", "Vault"),
    "holdfast.core.view": ("Remembered",),
    "holdfast.core.window": ("Window",),
    "holdfast.engine.async_session": ("AsyncSession",),
    "holdfast.engine.history": ("History",),
    "holdfast.engine.memory_tool": ("memory_tool",),
    "holdfast.engine.memory": ("Memory",),
    "holdfast.engine.memory_tools": ("memory_tools",),
    "holdfast.engine.outputs": ("Outputs", "output_tool"),
    "holdfast.engine.prepare": ("Prepared", "prepare"),
    "holdfast.engine.redacting": ("redactor",),
    "holdfast.engine.reseeding": ("reseed",),
    "holdfast.engine.session": ("Session",),
    "holdfast.engine.status": ("Status",),
    "holdfast.engine.tools": ("ToolOutput",),
    "holdfast.errors": ("CannotFit", "ContextOverflow", "HoldfastError", "ModelError"),
    "holdfast.ports": ("ANY_HEAD", "Audit", "BlobStore", "SessionStore"),
    "holdfast.providers.models": ("async_model", "model"),
    "holdfast.stores.audit": ("FileAudit", "MemoryAudit"),
    "holdfast.stores.blobs": ("FileBlobs",),
    "holdfast.stores.jsonl": ("JsonlStore",),
    "holdfast.stores.memory": ("MemoryBlobs", "MemoryStore"),
    "holdfast.stores.notes": ("Note", "NoteStore"),
}
_HOME_OF = {name: module for module, names in _HOMES.items() for name in names}

__all__ = [
    "ANY_HEAD",
    "OPERATOR",
    "Access",
    "Assistant",
    "AsyncSession",
    "Audit",
    "BlobStore",
    "Cache",
    "CallFailed",
    "CallFinished",
    "CallStarted",
    "Caller",
    "Cancelled",
    "CannotFit",
    "Checkpoint",
    "CheckpointSaved",
    "Compaction",
    "CompactionFinished",
    "CompactionStarted",
    "ContextOverflow",
    "Cut",
    "Delta",
    "Deny",
    "Event",
    "Excerpt",
    "Failure",
    "FileAudit",
    "FileBlobs",
    "Flush",
    "FlushFinished",
    "FlushStarted",
    "Header",
    "History",
    "Hit",
    "HoldfastError",
    "Interrupted",
    "JsonlStore",
    "Label",
    "Memory",
    "MemoryAudit",
    "MemoryBlobs",
    "MemoryRecalled",
    "MemoryStore",
    "Mode",
    "Model",
    "ModelError",
    "Note",
    "NoteStore",
    "OffloadFailed",
    "OutputOffloaded",
    "OutputRef",
    "Outputs",
    "Plan",
    "Policy",
    "Prepared",
    "Prune",
    "PruneStarted",
    "Pruned",
    "Record",
    "Redactor",
    "Remembered",
    "Reply",
    "Reseed",
    "Rewind",
    "Secret",
    "Session",
    "SessionKey",
    "SessionReset",
    "SessionStore",
    "Status",
    "Target",
    "Tool",
    "ToolFinished",
    "ToolOutput",
    "ToolResult",
    "ToolStarted",
    "ToolUse",
    "TroubleNoticed",
    "TurnCancelled",
    "TurnFailed",
    "TurnFinished",
    "TurnStarted",
    "Undo",
    "Unknown",
    "User",
    "Vault",
    "Window",
    "WindowLearned",
    "async_model",
    "classify",
    "cut",
    "memory_tool",
    "memory_tools",
    "model",
    "output_tool",
    "prepare",
    "project",
    "redactor",
    "reseed",
    "target",
]


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module `holdfast` has no `{name}`")
    return getattr(import_module(home), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
