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
    from holdfast.core.failures.classify import Failure, classify
    from holdfast.core.flow.effects import Cancelled, Deny
    from holdfast.core.flow.events import (
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
    from holdfast.core.history.access import OPERATOR, Access, Caller
    from holdfast.core.history.reseed import Reseed
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.log.records import (
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
    from holdfast.core.memory.hits import Hit
    from holdfast.core.models.dialects import Target, target
    from holdfast.core.models.messages import Tool
    from holdfast.core.models.replies import Delta, Reply
    from holdfast.core.models.window import Window
    from holdfast.core.outputs.excerpts import Excerpt
    from holdfast.core.projection.policy import Cache, Policy
    from holdfast.core.projection.project import Plan, project
    from holdfast.core.projection.view import Remembered
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.core.secrets.vault import Secret, Vault
    from holdfast.core.text.cut import Cut, cut
    from holdfast.engine.history.history import History
    from holdfast.engine.history.reseed import reseed
    from holdfast.engine.memory.anthropic_tool import memory_tool
    from holdfast.engine.memory.search import Memory
    from holdfast.engine.memory.tools import memory_tools
    from holdfast.engine.outputs import Outputs, output_tool
    from holdfast.engine.redactor import redactor
    from holdfast.engine.session.async_session import AsyncSession
    from holdfast.engine.session.prepare import Prepared, prepare
    from holdfast.engine.session.session import Session
    from holdfast.engine.session.status import Status
    from holdfast.engine.tools import ToolOutput
    from holdfast.errors import CannotFit, ContextOverflow, HoldfastError, ModelError
    from holdfast.ports import ANY_HEAD, Audit, BlobStore, SessionStore
    from holdfast.providers.models import async_model, model
    from holdfast.stores.audit import FileAudit, MemoryAudit
    from holdfast.stores.blobs import FileBlobs
    from holdfast.stores.in_memory import MemoryBlobs, MemoryStore
    from holdfast.stores.jsonl.store import JsonlStore
    from holdfast.stores.notes.notes import Note, NoteStore

_HOMES = {
    "holdfast.core.history.access": ("OPERATOR", "Access", "Caller"),
    "holdfast.core.models.dialects": ("Target", "target"),
    "holdfast.core.projection.policy": ("Cache", "Policy"),
    "holdfast.core.flow.effects": ("Cancelled", "Deny"),
    "holdfast.core.flow.events": (
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
    "holdfast.core.outputs.excerpts": ("Excerpt",),
    "holdfast.core.failures.classify": ("Failure", "classify"),
    "holdfast.core.log.ids": ("SessionKey",),
    "holdfast.core.models.messages": ("Tool",),
    "holdfast.core.projection.project": ("Plan", "project"),
    "holdfast.core.log.records": (
        *("Assistant", "Checkpoint", "Compaction", "Flush", "Header", "Label", "Mode", "Model"),
        *("OutputRef", "Prune", "Record", "Rewind", "ToolResult", "ToolUse", "Undo", "Unknown"),
        "User",
    ),
    "holdfast.core.memory.hits": ("Hit",),
    "holdfast.core.secrets.redaction": ("Redactor",),
    "holdfast.core.models.replies": ("Delta", "Reply"),
    "holdfast.core.history.reseed": ("Reseed",),
    "holdfast.core.text.cut": ("Cut", "cut"),
    "holdfast.core.secrets.vault": ("Secret", "Vault"),
    "holdfast.core.projection.view": ("Remembered",),
    "holdfast.core.models.window": ("Window",),
    "holdfast.engine.session.async_session": ("AsyncSession",),
    "holdfast.engine.history.history": ("History",),
    "holdfast.engine.memory.anthropic_tool": ("memory_tool",),
    "holdfast.engine.memory.search": ("Memory",),
    "holdfast.engine.memory.tools": ("memory_tools",),
    "holdfast.engine.outputs": ("Outputs", "output_tool"),
    "holdfast.engine.session.prepare": ("Prepared", "prepare"),
    "holdfast.engine.redactor": ("redactor",),
    "holdfast.engine.history.reseed": ("reseed",),
    "holdfast.engine.session.session": ("Session",),
    "holdfast.engine.session.status": ("Status",),
    "holdfast.engine.tools": ("ToolOutput",),
    "holdfast.errors": ("CannotFit", "ContextOverflow", "HoldfastError", "ModelError"),
    "holdfast.ports": ("ANY_HEAD", "Audit", "BlobStore", "SessionStore"),
    "holdfast.providers.models": ("async_model", "model"),
    "holdfast.stores.audit": ("FileAudit", "MemoryAudit"),
    "holdfast.stores.blobs": ("FileBlobs",),
    "holdfast.stores.jsonl.store": ("JsonlStore",),
    "holdfast.stores.in_memory": ("MemoryBlobs", "MemoryStore"),
    "holdfast.stores.notes.notes": ("Note", "NoteStore"),
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
