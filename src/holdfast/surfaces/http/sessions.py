"""Routes of sessions: make, list, read, label, fork, rewind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.log.ids import SessionKey, free_key, is_name
from holdfast.core.log.listing import check_label
from holdfast.core.log.records import Label
from holdfast.core.owners import AnyOwner, is_wanted, owner_of, row_text
from holdfast.engine.session.opening import find_session, new_key
from holdfast.engine.session.options import SessionOptions
from holdfast.engine.session.session import Session
from holdfast.errors import (
    AccessDenied,
    HoldfastError,
    NoSuchRecord,
    SessionExists,
    UsageError,
)
from holdfast.ports import ANY_HEAD, SessionInfo
from holdfast.providers.models import model as find_model
from holdfast.surfaces.http.problems import Problem
from holdfast.surfaces.http.route import (
    HttpAnswer,
    Route,
)
from holdfast.surfaces.http.session_types import (
    ForkBody,
    Labelled,
    NewSession,
    RewindBody,
    RewoundTo,
    SessionRow,
    SessionsPage,
    SessionsQuery,
    SessionState,
    UndoBody,
    read_cursor,
    write_cursor,
)

if TYPE_CHECKING:
    from holdfast.core.owners import Owner
    from holdfast.engine.session.rewinding import Undone
    from holdfast.surfaces.http.route import HttpCall

_SEARCHED_MAX: Final = 2_000
"""Sessions that a search of labels and first words looks at."""
_OPEN: Final = ("waiting", "running")


def list_sessions(call: HttpCall) -> HttpAnswer:
    """Pages go back in time; a session that is used meanwhile moves to the front."""
    query: SessionsQuery = call.query
    owner = call.owner
    if query.owner is not None:
        asked = owner_of(query.owner)
        if not is_wanted(asked, owner):
            return HttpAnswer(SessionsPage([]))
        owner = asked
    after = read_cursor(query.cursor) if query.cursor else None
    wanted = query.q.casefold().split()
    limit = query.limit if not wanted else _SEARCHED_MAX
    infos = call.store.sessions(
        agent=query.agent, owner=owner, label=query.label, after=after, limit=limit + 1
    )
    has_more = len(infos) > limit
    infos = infos[:limit]
    end = infos[-1] if infos and has_more else None
    if wanted:
        infos = [
            info
            for info in infos
            if all(word in f"{info.label} {info.title}".casefold() for word in wanted)
        ]
        if len(infos) > query.limit:
            infos = infos[: query.limit]
            end = infos[-1]
    states = session_states(call)
    rows = [row_of(info, call, states) for info in infos]
    return HttpAnswer(SessionsPage(rows, write_cursor(end) if end is not None else None))


def session_states(call: HttpCall) -> dict[str, list[str]]:
    """The states of the messages that are not done, by session."""
    found: dict[str, list[str]] = {}
    queues = call.store.queues
    for message in queues.messages("inbox", owner=call.owner, states=_OPEN, limit=1_000):
        found.setdefault(message.session, []).append(message.state)
    return found


def row_of(info: SessionInfo, call: HttpCall, states: dict[str, list[str]]) -> SessionRow:
    """A session for a listing, with its secrets masked."""
    mine = states.get(str(info.key), [])
    waiting = mine.count("waiting")
    state: SessionState = "running" if "running" in mine else "waiting" if waiting else "idle"
    mask = call.workspace.mask
    return SessionRow(
        agent=info.key.agent,
        id=info.key.session,
        label=mask(info.label),
        title=mask(info.title),
        owner=row_text(info.owner) or "",
        created=info.created,
        last_active=info.last_active,
        records=info.records,
        messages=info.messages,
        bytes=info.bytes,
        damaged=info.damaged,
        state=state,
        waiting=waiting,
        parent=info.parent_session,
        reason=info.reason,
    )


def create_session(call: HttpCall) -> HttpAnswer:
    body: NewSession = call.body
    owner = _owner_for(call, body.owner)
    key = SessionKey(body.agent, body.id) if body.id else new_key(body.agent)
    try:
        call.store.create(key, label=check_label(body.label), owner=owner)
    except SessionExists as error:
        raise _id_conflict(key, error) from error
    return HttpAnswer(row_of(call.store.info(key), call, {}), 201)


def _id_conflict(key: SessionKey, error: HoldfastError) -> Problem:
    """The same sentence for an id of one's own and of another owner."""
    return Problem(
        409,
        f"the id `{key.session}` is taken",
        hint="choose another, or leave `id` out for a new one; PUT the address of a session of "
        "your own to open it",
        code="session-exists" if isinstance(error, AccessDenied) else error.code,
    )


def _open(call: HttpCall) -> HttpAnswer:
    """Opens the session with exactly this id, or makes it: the same request twice is the same."""
    body: Labelled = call.body
    agent, session = call.path["agent"], call.path["session"]
    if not (is_name(agent) and is_name(session)):
        raise Problem(
            400, "an id has letters, digits, `_` and `-`, and begins with a letter or digit"
        )
    try:
        key = find_session(
            call.store,
            session,
            agent,
            create=True,
            label=check_label(body.label),
            owner=call.owner,
        )
    except (AccessDenied, SessionExists) as error:
        raise _id_conflict(SessionKey(agent, session), error) from error
    return HttpAnswer(row_of(call.store.info(key), call, session_states(call)))


def _owner_for(call: HttpCall, asked: str) -> Owner:
    if isinstance(call.owner, AnyOwner):
        return owner_of(asked)
    if asked and owner_of(asked) != call.owner:
        raise Problem(
            403,
            "a session can be made for its owner only",
            hint="leave `owner` out: it is the owner of your token",
        )
    return call.owner


def _read(call: HttpCall) -> HttpAnswer:
    key = call.session()
    return HttpAnswer(row_of(call.store.info(key), call, session_states(call)))


def _label(call: HttpCall) -> HttpAnswer:
    key = call.session(to_change=True)
    body: Labelled = call.body
    call.store.append(key, [Label(label=check_label(body.label))], expect=ANY_HEAD)
    return HttpAnswer(row_of(call.store.info(key), call, session_states(call)))


def _fork(call: HttpCall) -> HttpAnswer:
    key = call.session(to_change=True)
    body: ForkBody = call.body
    taken = {other.session.casefold() for other in call.store.keys(key.agent)}
    new = SessionKey(key.agent, body.id) if body.id else free_key(key, "fork", taken)
    try:
        call.store.fork(key, new, at=body.at, label=check_label(body.label))
    except SessionExists as error:
        raise _id_conflict(new, error) from error
    return HttpAnswer(row_of(call.store.info(new), call, {}), 201)


def rewind_session(call: HttpCall) -> HttpAnswer:
    body: RewindBody = call.body
    key = call.session(to_change=True)
    with _quiet_session(call, key) as session:
        try:
            return _undone(session.rewind(body.to, turns=body.turns, wait=0))
        except NoSuchRecord:
            raise
        except UsageError as error:  # it has fewer turns
            raise Problem(409, str(error), hint=error.hint, code=error.code) from error


def undo_change(call: HttpCall) -> HttpAnswer:
    body: UndoBody = call.body
    key = call.session(to_change=True)
    with _quiet_session(call, key) as session:
        return _undone(session.undo(body.record, wait=0))


def _quiet_session(call: HttpCall, key: SessionKey) -> Session:
    """A session for changes that need no model."""
    return Session(call.store, key, find_model("offline"), SessionOptions(notes="off"))


def _undone(undone: Undone) -> HttpAnswer:
    return HttpAnswer(RewoundTo(undone.record, undone.what))


_SESSION: Final = "/v1/sessions/{agent}/{session}"
ROUTES: Final = (
    Route(
        "GET",
        "/v1/sessions",
        "List sessions",
        list_sessions,
        SessionsPage,
        query=SessionsQuery,
        action="list",
    ),
    Route(
        "POST",
        "/v1/sessions",
        "Make a session",
        create_session,
        SessionRow,
        scope="write",
        body=NewSession,
        status=201,
        action="create",
        problems=(409,),
    ),
    Route("GET", _SESSION, "Read the facts of a session", _read, SessionRow, action="read"),
    Route(
        "PUT",
        _SESSION,
        "Open a session, or make it",
        _open,
        SessionRow,
        scope="write",
        body=Labelled,
        action="create",
        problems=(409,),
    ),
    Route(
        "PATCH",
        _SESSION,
        "Label a session",
        _label,
        SessionRow,
        scope="write",
        body=Labelled,
        action="label",
        problems=(409,),
    ),
    Route(
        "POST",
        f"{_SESSION}/fork",
        "Copy a session up to a record into a new one",
        _fork,
        SessionRow,
        scope="write",
        body=ForkBody,
        status=201,
        action="fork",
        problems=(409,),
    ),
    Route(
        "POST",
        f"{_SESSION}/rewind",
        "Move the head back; later records stay readable",
        rewind_session,
        RewoundTo,
        scope="write",
        body=RewindBody,
        action="rewind",
        problems=(409,),
    ),
    Route(
        "POST",
        f"{_SESSION}/undo",
        "Undo the newest compaction, trim or rewind",
        undo_change,
        RewoundTo,
        scope="write",
        body=UndoBody,
        action="undo",
        problems=(409,),
    ),
)
