# isort: skip_file
# The public names of `holdfast.stores`; see `holdfast/__init__.pyi`.

from holdfast.core.log.damage import Finding as Finding
from holdfast.core.log.views import (
    Live as Live,
    LogEntry as LogEntry,
    LogReport as LogReport,
)
from holdfast.ports import (
    ANY_HEAD as ANY_HEAD,
    Appended as Appended,
    Audit as Audit,
    BlobStore as BlobStore,
    SessionInfo as SessionInfo,
    SessionStore as SessionStore,
    Trashed as Trashed,
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
from holdfast.stores.notes.notes import (
    Note as Note,
    NoteStore as NoteStore,
)
from holdfast.stores.search_index import (
    Passage as Passage,
    Recall as Recall,
)
from holdfast.stores.summary_files import FileSidecars as FileSidecars

__all__: list[str]
