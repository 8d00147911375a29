"""Finding or creating the session that a caller names."""

from __future__ import annotations

import hashlib
import os
import random
import re
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from holdfast import config
from holdfast.core.flow.arguments import (
    check_argument,
    check_flag,
    check_optional_text,
    check_text,
)
from holdfast.core.log.ids import SessionKey, is_name, new_session_id
from holdfast.core.log.records import Mode
from holdfast.core.owners import NO_OWNER, AnyOwner, owner_of, owner_text
from holdfast.core.text.cut import cut
from holdfast.errors import AccessDenied, NoSuchSession, SessionExists, StoreError
from holdfast.ports import SessionStore
from holdfast.stores.opening import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.ports import AsyncModel, Model

_NEAR_RECORDS: Final = 50
"""A session that continues in another one says so near the end of its log; no more is searched."""
_SUGGESTED_MAX: Final = 200
"""The newest sessions, whose ids an unknown one is compared with for a suggestion."""
_WORDS_CHARS: Final = 40
"""Of a name in the id that is made from it; the digest alone makes it unique."""
FIRST_LABEL: Final = "initial"
"""The label of a first session that got no other."""


def find_session(
    store: SessionStore,
    name: str | None,
    agent: str,
    *,
    create: bool,
    label: str = "",
    owner: OwnerFilter,
) -> SessionKey:
    """The session with exactly that id, else a new one; without a name, the newest.

    Only sessions of `owner` are considered: `ANY_OWNER` is for an operator's tools, and a session
    that is made for it has no owner. Labels are never looked at: users set them.
    """
    check_optional_text("name", name)
    check_text("label", label)
    check_flag("create", create)
    maker = NO_OWNER if isinstance(owner, AnyOwner) else owner
    if name is None:
        newest = store.sessions(agent=agent, owner=owner, limit=1)
        if newest:
            return newest[0].key
        if not create:
            raise NoSuchSession("(the newest)")
        return _create(store, new_key(agent), label or FIRST_LABEL, maker)
    key = SessionKey(agent, session_id_of(name, maker))
    if session_exists(store, key):
        check_owner(store, key, owner)
        return key
    if not create:
        infos = store.sessions(agent=agent, owner=owner, limit=_SUGGESTED_MAX)
        raise NoSuchSession(name, [info.key.session for info in infos])
    return _create(store, key, label or ("" if is_name(name) else name), maker)


def session_id_of(name: str, owner: Owner) -> str:
    """The id of the session that `Session.open` opens by this name.

    A name that can be an id is one. Any other, such as `telegram:99`, has an id made from it and
    from its owner, so that it means one session whatever labels there are.
    """
    if is_name(name):
        return name
    words = "-".join(re.findall("[A-Za-z0-9]+", name))[:_WORDS_CHARS]
    digest = hashlib.sha256(
        f"{owner_text(owner)}\n{name}".encode("utf-8", "surrogatepass")
    ).hexdigest()
    return f"{words or 'session'}-{digest[:16]}"


def follow_continuation(store: SessionStore, key: SessionKey) -> SessionKey:
    """The session in which one continues now that its name has moved on, in fresh mode or after a
    reset: each one names the next."""
    seen = {key}
    while True:
        newest = islice(store.back(key), _NEAR_RECORDS)
        mode = next((record for record in newest if isinstance(record, Mode)), None)
        if mode is None or not is_name(mode.continued_in or ""):
            return key
        following = SessionKey(key.agent, mode.continued_in or "")
        if following in seen or not have_one_owner(store, key, following):
            return key
        seen.add(following)
        key = following


def have_one_owner(store: SessionStore, key: SessionKey, other: SessionKey) -> bool:
    """True where both sessions exist and belong to the same owner, or both to none.

    A session that a record names is followed to only then: records may come from anywhere.
    """
    try:
        return store.header(key).owner == store.header(other).owner
    except (NoSuchSession, StoreError):
        return False


def check_owner(store: SessionStore, key: SessionKey, owner: OwnerFilter) -> None:
    """Refuse a session of another owner."""
    if isinstance(owner, AnyOwner) or owner_of(store.header(key).owner) == owner:
        return
    name = owner_text(owner)
    whose = f"to `{cut(name, 80).text}`" if name else "to a caller without an owner"
    raise AccessDenied(
        f"session `{key}` does not belong {whose}",
        hint="open it for its owner (`owner=`), or choose another id for a session of your own; "
        "an operator's tool passes `owner=ANY_OWNER`",
    )


def session_exists(store: SessionStore, key: SessionKey) -> bool:
    try:
        store.head(key)
    except NoSuchSession:
        return False
    return True


def new_key(agent: str) -> SessionKey:
    """The key of a session that is yet to be created."""
    return SessionKey(agent, new_session_id(random.getrandbits(48)))


def created_here(*pairs: tuple[object, object]) -> list[Any]:
    """Of pairs of a given and a resulting object, the results that were created here."""
    return [made for given, made in pairs if made is not None and made is not given]


def check_ready(model: Model | AsyncModel) -> None:
    """Let a model raise that it cannot be reached before anything is stored for it."""
    ready = getattr(model, "ready", None)
    if ready is not None:
        ready()


def choose_store(
    store: str | os.PathLike[str] | SessionStore | None, agent: str | None
) -> tuple[SessionStore, str, bool]:
    """The store to use, the agent, and True if the store was opened here."""
    check_argument("agent", agent, str | os.PathLike | None, "a text, or None")
    kinds: Any = SessionStore | str | os.PathLike | None
    check_argument("store", store, kinds, "an address such as a path, or an open store")
    if store is not None and not isinstance(store, str | os.PathLike):
        return store, config.load(agent=agent).agent, False
    settings = config.load(root=None if store is None else os.fspath(store), agent=agent)
    return open_store(settings.root, blobs=settings.blobs), settings.agent, True


@contextmanager
def close_on_error(store: SessionStore | None) -> Iterator[None]:
    """Close a store that was opened for a session which cannot be opened."""
    try:
        yield
    except BaseException:
        if store is not None:
            store.close()
        raise


def _create(store: SessionStore, key: SessionKey, label: str, owner: Owner) -> SessionKey:
    try:
        store.create(key, label=label, owner=owner)
    except SessionExists:
        if not session_exists(store, key):
            raise  # a session whose id differs only in case
        check_owner(store, key, owner)
    return key  # created by us, or by another process a moment ago
