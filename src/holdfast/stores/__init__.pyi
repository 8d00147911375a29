# isort: skip_file
# The public names of `holdfast.stores`; see `holdfast/__init__.pyi`.

from holdfast.core.owners import (
    ANY_OWNER as ANY_OWNER,
    NO_OWNER as NO_OWNER,
    NamedOwner as NamedOwner,
    UNKNOWN_OWNER as UNKNOWN_OWNER,
)
from holdfast.ports import (
    ANY_HEAD as ANY_HEAD,
    BlobStore as BlobStore,
    SessionStore as SessionStore,
)
from holdfast.stores.copying import copy_store as copy_store
from holdfast.stores.in_memory import MemoryStore as MemoryStore
from holdfast.stores.opening import (
    open_blobs as open_blobs,
    open_store as open_store,
)

__all__: list[str]
