"""The promises of the ports, as small checks that every store must pass.

Each check gets an empty store of its own and says in its docstring what it expects. Checks use the
ports and nothing else, so they apply to a store in files, in memory or in a database:

    @pytest.mark.parametrize("check", SESSION_CHECKS, ids=lambda check: check.__name__)
    def test_my_store_keeps_the_promises(check):
        check(MyStore())

`check_session_store`, `check_blob_store` and `check_audit` run them without a test framework. The
modules hold the checks by subject: every public function in them is a check. `PROCESS_CHECKS` need
more than one process: each gets a function that opens the same store wherever it is called, which
can be pickled (`functools.partial(MyStore, url)`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from holdfast.ports import Audit, BlobStore, SessionStore
from holdfast.testing.conformance import (
    appending,
    audit,
    blobs,
    branching,
    leasing,
    listing,
    notes,
    owning,
    processes,
    queueing,
    reading,
    searching,
    spending,
    trash,
)

if TYPE_CHECKING:
    from types import ModuleType

SessionCheck = Callable[[SessionStore], None]
"""One promise of `SessionStore`; raises where a store breaks it."""
BlobCheck = Callable[[BlobStore], None]
"""One promise of `BlobStore`."""
AuditCheck = Callable[[Audit], None]
"""One promise of `Audit`."""
ProcessCheck = Callable[[Callable[[], SessionStore]], None]
"""One promise of `SessionStore` between processes."""


def _checks_in(*modules: ModuleType) -> tuple[Callable[[Any], None], ...]:
    """Return the public functions that these modules define, in the order they are written."""
    return tuple(
        member
        for module in modules
        for name, member in vars(module).items()
        if inspect.isfunction(member)
        and member.__module__ == module.__name__
        and not name.startswith("_")
    )


SESSION_CHECKS: Final[tuple[SessionCheck, ...]] = _checks_in(
    *(appending, leasing, reading, branching, listing, trash),
    *(notes, searching, queueing, owning, spending),
)
"""Every promise of `SessionStore`, except those of its `blobs` and its `audit`."""
BLOB_CHECKS: Final[tuple[BlobCheck, ...]] = _checks_in(blobs)
"""Every promise of `BlobStore`."""
AUDIT_CHECKS: Final[tuple[AuditCheck, ...]] = _checks_in(audit)
"""Every promise of `Audit`."""
PROCESS_CHECKS: Final[tuple[ProcessCheck, ...]] = _checks_in(processes)
"""Every promise of `SessionStore` that takes several processes to keep or break."""


def check_session_store(make_store: Callable[[], SessionStore]) -> None:
    """Run every check, each on a new and empty store; the first broken promise raises.

    Its blobs and its audit log are checked as well.
    """
    for check in SESSION_CHECKS:
        with make_store() as store:
            check(store)
    for blob_check in BLOB_CHECKS:
        with make_store() as store:
            blob_check(store.blobs)
    for audit_check in AUDIT_CHECKS:
        with make_store() as store:
            audit_check(store.audit)


def check_blob_store(make_store: Callable[[], BlobStore]) -> None:
    """Run every check, each on a new and empty store; the first broken promise raises."""
    for check in BLOB_CHECKS:
        check(make_store())


def check_audit(make_audit: Callable[[], Audit]) -> None:
    """Run every check, each on a new and empty audit log; the first broken promise raises."""
    for check in AUDIT_CHECKS:
        check(make_audit())
