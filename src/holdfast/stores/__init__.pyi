# isort: skip_file
# The public names of `holdfast.stores`; see `holdfast/__init__.pyi`.

from holdfast.core.history.access import Access as Access
from holdfast.core.log.batch import Batch as Batch
from holdfast.core.log.damage import Finding as Finding
from holdfast.core.log.replay import Live as Live
from holdfast.core.log.views import (
    LogEntry as LogEntry,
    LogReport as LogReport,
)
from holdfast.core.log.walk import (
    LogLine as LogLine,
    OpenLog as OpenLog,
)
from holdfast.core.memory.note_files import Note as Note
from holdfast.core.owners import (
    ANY_OWNER as ANY_OWNER,
    AnyOwner as AnyOwner,
    FoundOwner as FoundOwner,
    NO_OWNER as NO_OWNER,
    NamedOwner as NamedOwner,
    NoOwner as NoOwner,
    Owner as Owner,
    OwnerFilter as OwnerFilter,
    UNKNOWN_OWNER as UNKNOWN_OWNER,
    UnknownOwner as UnknownOwner,
    owner_of as owner_of,
    owner_text as owner_text,
)
from holdfast.core.window import (
    ANY_WINDOW as ANY_WINDOW,
    AnyWindow as AnyWindow,
    WindowFilter as WindowFilter,
)
from holdfast.ports import (
    ANY_HEAD as ANY_HEAD,
    Appended as Appended,
    Audit as Audit,
    AuditPage as AuditPage,
    BlobStore as BlobStore,
    Clock as Clock,
    CopiedMessages as CopiedMessages,
    CopiedNotes as CopiedNotes,
    CopiedSession as CopiedSession,
    CopyProgress as CopyProgress,
    CopyReport as CopyReport,
    Durability as Durability,
    Entropy as Entropy,
    ErasableSession as ErasableSession,
    FoundPassage as FoundPassage,
    IndexPassage as IndexPassage,
    IndexSource as IndexSource,
    LeaseHolder as LeaseHolder,
    Leases as Leases,
    Matches as Matches,
    Notes as Notes,
    PassageVectors as PassageVectors,
    RepairedSession as RepairedSession,
    RunningSummaries as RunningSummaries,
    SearchIndex as SearchIndex,
    SessionEraser as SessionEraser,
    SessionInfo as SessionInfo,
    SessionStore as SessionStore,
    SideStores as SideStores,
    StorePlace as StorePlace,
    Trashed as Trashed,
    find_trashed as find_trashed,
)
from holdfast.stores.audit import (
    FileAudit as FileAudit,
    MemoryAudit as MemoryAudit,
)
from holdfast.stores.blobs import FileBlobs as FileBlobs
from holdfast.stores.copying import copy_store as copy_store
from holdfast.stores.files import Disk as Disk
from holdfast.stores.in_memory import (
    MemoryBlobs as MemoryBlobs,
    MemoryStore as MemoryStore,
)
from holdfast.stores.jsonl.store import JsonlStore as JsonlStore
from holdfast.stores.notes.notes import (
    NoteStore as NoteStore,
    StoredNotes as StoredNotes,
)
from holdfast.stores.notes.table import (
    NoteRows as NoteRows,
    NoteTable as NoteTable,
    TableFiles as TableFiles,
)
from holdfast.stores.opening import (
    open_blobs as open_blobs,
    open_store as open_store,
)
from holdfast.stores.postgres.store import PostgresStore as PostgresStore
from holdfast.stores.s3 import S3Blobs as S3Blobs
from holdfast.stores.search import SqliteSearchIndex as SqliteSearchIndex
from holdfast.stores.summary_files import FileSidecars as FileSidecars

__all__: list[str]
