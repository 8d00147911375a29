# isort: skip_file
# The public names of `holdfast.stores`; see `holdfast/__init__.pyi`.

from holdfast.core.log.batch import Batch as Batch
from holdfast.core.log.damage import Finding as Finding
from holdfast.core.log.views import (
    Live as Live,
    LogEntry as LogEntry,
    LogReport as LogReport,
)
from holdfast.core.log.walk import (
    LogLine as LogLine,
    OpenLog as OpenLog,
)
from holdfast.core.memory.note_types import Note as Note
from holdfast.ports import (
    ANY_HEAD as ANY_HEAD,
    Appended as Appended,
    Audit as Audit,
    AuditPage as AuditPage,
    BlobStore as BlobStore,
    Clock as Clock,
    Durability as Durability,
    Entropy as Entropy,
    ErasableSession as ErasableSession,
    LeaseHolder as LeaseHolder,
    Leases as Leases,
    Notes as Notes,
    RunningSummaries as RunningSummaries,
    SessionEraser as SessionEraser,
    SessionInfo as SessionInfo,
    SessionStore as SessionStore,
    Trashed as Trashed,
    find_trashed as find_trashed,
)
from holdfast.stores.audit import (
    FileAudit as FileAudit,
    MemoryAudit as MemoryAudit,
)
from holdfast.stores.blobs import FileBlobs as FileBlobs
from holdfast.stores.files import Disk as Disk
from holdfast.stores.in_memory import (
    MemoryBlobs as MemoryBlobs,
    MemoryStore as MemoryStore,
)
from holdfast.stores.jsonl.store import JsonlStore as JsonlStore
from holdfast.stores.notes.notes import NoteStore as NoteStore
from holdfast.stores.search.index import (
    IndexPassage as IndexPassage,
    SearchIndex as SearchIndex,
)
from holdfast.stores.summary_files import FileSidecars as FileSidecars

__all__: list[str]
