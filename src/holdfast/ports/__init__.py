"""The ports: what a store or a model must implement to take the place of ours.

`JsonlStore` keeps sessions in plain files and `MemoryStore` in memory. A store of your own derives
from `SessionStore`, implements its abstract methods and passes `holdfast.testing.conformance`. No
path, handle or seek appears here.
"""

from holdfast.core.queues.messages import (
    FINISHED,
    MESSAGE_STATES,
    MessageState,
    NewMessage,
    QueuedMessage,
)
from holdfast.ports.copying import (
    CopiedMessages,
    CopiedNotes,
    CopiedSession,
    CopyProgress,
    CopyReport,
)
from holdfast.ports.erasing import ErasableSession, SessionEraser
from holdfast.ports.leases import LeaseHolder, Leases, awake_time, uptime
from holdfast.ports.models import AsyncModel, Model, OnDelta
from holdfast.ports.place import DiskUse, StorePlace
from holdfast.ports.queues import Queues
from holdfast.ports.reading import SessionReader
from holdfast.ports.search_index import (
    FoundPassage,
    IndexPassage,
    IndexSource,
    Matches,
    PassageVectors,
    SearchIndex,
)
from holdfast.ports.sessions import (
    ANY_HEAD,
    Appended,
    Clock,
    Durability,
    Entropy,
    RepairedSession,
    SessionCatalogue,
    SessionInfo,
    SessionStore,
    Trashed,
    find_trashed,
    page_of,
)
from holdfast.ports.side_stores import (
    Audit,
    AuditPage,
    BlobStore,
    Notes,
    RunningSummaries,
    SideStores,
)

__all__ = [
    "ANY_HEAD",
    "FINISHED",
    "MESSAGE_STATES",
    "Appended",
    "AsyncModel",
    "Audit",
    "AuditPage",
    "BlobStore",
    "Clock",
    "CopiedMessages",
    "CopiedNotes",
    "CopiedSession",
    "CopyProgress",
    "CopyReport",
    "DiskUse",
    "Durability",
    "Entropy",
    "ErasableSession",
    "FoundPassage",
    "IndexPassage",
    "IndexSource",
    "LeaseHolder",
    "Leases",
    "Matches",
    "MessageState",
    "Model",
    "NewMessage",
    "Notes",
    "OnDelta",
    "PassageVectors",
    "QueuedMessage",
    "Queues",
    "RepairedSession",
    "RunningSummaries",
    "SearchIndex",
    "SessionCatalogue",
    "SessionEraser",
    "SessionInfo",
    "SessionReader",
    "SessionStore",
    "SideStores",
    "StorePlace",
    "Trashed",
    "awake_time",
    "find_trashed",
    "page_of",
    "uptime",
]
