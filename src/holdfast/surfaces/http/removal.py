"""Routes that take sessions away: into the trash and out of it, and for good."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from holdfast.core.owners import AnyOwner
from holdfast.engine.erasing import ErasureReport, erase
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import HttpAnswer, Route
from holdfast.surfaces.http.session_types import Removed, SessionRow, Trash
from holdfast.surfaces.http.sessions import row_of

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.engine.erasing import RemainingCopy
    from holdfast.surfaces.http.route import HttpCall


def _remove(call: HttpCall) -> HttpAnswer:
    key = call.session(to_change=True)
    trashed = call.store.remove(key)
    return HttpAnswer(Removed(trashed.name, key.agent, key.session, trashed.removed))


def _trash(call: HttpCall) -> HttpAnswer:
    found = [
        Removed(each.name, each.key.agent, each.key.session, each.removed)
        for each in call.store.trash()
    ]
    return HttpAnswer(Trash(found))


def _restore(call: HttpCall) -> HttpAnswer:
    name = call.path["name"]
    if name not in {trashed.name for trashed in call.store.trash()}:
        raise Problem(404, f"`{name[:200]}` is not in the trash", hint="GET /v1/trash lists it")
    key = call.store.restore(name)
    return HttpAnswer(row_of(call.store.info(key), call, {}))


def _erase(call: HttpCall) -> HttpAnswer:
    key = call.session(to_change=True)
    report = erase(call.store, key, owner=call.owner)
    remaining = [copy for copy in report.remaining if _may_know(call, key, copy)]
    return HttpAnswer(replace(report, remaining=tuple(remaining)))


def _may_know(call: HttpCall, erased: SessionKey, copy: RemainingCopy) -> bool:
    """Say whether a client may hear of a copy: also other owners may have read the session."""
    if isinstance(call.owner, AnyOwner) or copy.kind == "outside":
        return True
    if copy.kind == "notes":
        return copy.where == call.store.notes(erased.agent, call.owner).scope
    return any(str(info.key) == copy.where for info in call.store.sessions(owner=call.owner))


_SESSION: Final = "/v1/sessions/{agent}/{session}"
ROUTES: Final = (
    Route(
        "DELETE",
        _SESSION,
        "Move a session to the trash",
        _remove,
        Removed,
        scope="write",
        action="remove",
        problems=(409,),
    ),
    Route(
        "POST",
        f"{_SESSION}/erase",
        "Delete a session so that no file has its words",
        _erase,
        ErasureReport,
        scope="admin",
        action="erase",
        problems=(409,),
    ),
    Route(
        "GET",
        "/v1/trash",
        "List removed sessions",
        _trash,
        Trash,
        scope="admin",
        action="list",
        is_for_operator=True,
    ),
    Route(
        "POST",
        "/v1/trash/{name}/restore",
        "Take a session out of the trash",
        _restore,
        SessionRow,
        scope="admin",
        action="create",
        problems=(409,),
        is_for_operator=True,
    ),
)
