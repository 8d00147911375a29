"""Every error of the engine is answered over HTTP as what it is, also from inside an operation."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.core.history.access import OPERATOR, Caller
from holdfast.core.owners import NamedOwner
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.workspace.workspace import CallerWorkspace
from holdfast.errors import AccessDenied, HoldfastError, NoSuchSession, StoreError
from holdfast.stores.in_memory import MemoryStore
from holdfast.surfaces.http.problems import problem_of
from holdfast.surfaces.http.route import refusal

if TYPE_CHECKING:
    from holdfast.engine.history.replies import GivenReply

ANN = Caller("main", None, owner=NamedOwner("ann"), visibility="all")


def kinds(base: type[HoldfastError]) -> list[type[HoldfastError]]:
    """Return an error and all that are derived from it, as Python knows them."""
    return [base, *(found for child in base.__subclasses__() for found in kinds(child))]


def an_error(kind: type[HoldfastError]) -> HoldfastError:
    """Return an error of a kind, whatever its own arguments are."""
    error = kind.__new__(kind)
    HoldfastError.__init__(error, "what was found", hint="what to do next")
    vars(error).setdefault("retry_seconds", 5.0)
    return error


@pytest.mark.parametrize("caller", [OPERATOR, ANN], ids=["operator", "owner"])
@pytest.mark.parametrize("kind", kinds(HoldfastError))
def test_an_operation_hides_no_status(kind: type[HoldfastError], caller: Caller) -> None:
    """The status, the code and `Retry-After` are those of the error; the hint says what to do
    next; only the operator learns what the store has to say."""
    error = an_error(kind)

    def fail() -> GivenReply[str]:
        raise error

    with MemoryStore() as store:
        workspace = CallerWorkspace(store, caller)
        with pytest.raises(RequestRefused) as refused:
            workspace.audit("read", "main/s", fail)
        (line,) = store.audit.entries().accesses
    assert not line.is_allowed
    found, told = refusal(refused.value, workspace.mask), problem_of(error)
    if isinstance(error, AccessDenied | NoSuchSession):
        assert (found.status, found.code) == (404, "no-such-session")
        return
    assert (found.status, found.code, found.headers) == (told.status, told.code, told.headers)
    shown = f"{found.detail} {found.hint}"
    if caller is OPERATOR:
        assert "what was found" in shown
        assert "what to do next" in shown
    elif isinstance(error, StoreError) and told.status not in (400, 409):
        assert "what to do next" not in shown
    else:
        assert "what was found" in found.detail
        assert "what to do next" in shown
