"""Every error of the engine is answered over HTTP as what it is, also from inside an operation."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

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

ARGUMENTS: dict[str, Any] = {
    "str": "what was found",
    "int": 3,
    "float": 5.0,
    "Mapping[str, int]": {},
    "Sequence[str]": (),
    "Any": None,
}
"""A value for each type of what an error must be given."""
ANN = Caller("main", None, owner=NamedOwner("ann"), visibility="all")


def kinds(base: type[HoldfastError]) -> list[type[HoldfastError]]:
    """Return an error and all that are derived from it, as Python knows them."""
    return [base, *(found for child in base.__subclasses__() for found in kinds(child))]


def an_error(kind: type[HoldfastError]) -> HoldfastError:
    """Return an error of a kind from its own constructor, so that it has all of its fields."""
    given: dict[str, Any] = {
        parameter.name: ARGUMENTS[parameter.annotation]
        for parameter in inspect.signature(kind).parameters.values()
        if parameter.default is parameter.empty
    }
    if "hint" in inspect.signature(kind).parameters:
        given["hint"] = "what to do next"
    return kind(**given)


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
    shown, hint = f"{found.detail} {found.hint}", error.hint
    assert hint
    if caller is not OPERATOR and isinstance(error, StoreError) and told.status not in (400, 409):
        assert hint not in shown
    else:
        assert str(error) in found.detail
        assert hint in shown
