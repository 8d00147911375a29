"""Finding or creating the session that a caller names."""

from __future__ import annotations

import os
import random
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
from holdfast.core.text.cut import cut
from holdfast.errors import AccessDenied, NoSuchSession, SessionExists
from holdfast.ports import SessionStore
from holdfast.stores.jsonl.store import JsonlStore

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.ports import AsyncModel, Model

_NEAR_RECORDS: Final = 50
"""A session that continues in another one says so near the end of its log; no more is searched."""
FIRST_LABEL: Final = "initial"
"""The label of a first session that got no other."""


def find_session(
    store: SessionStore,
    name: str | None,
    agent: str,
    *,
    create: bool,
    label: str = "",
    owner: str | None = None,
) -> SessionKey:
    """The session with that id or label, else a new one; without a name, the newest.

    With an `owner`, only the owner's sessions are considered; None is for callers without owners.
    """
    check_optional_text("name", name)
    check_text("label", label)
    check_optional_text("owner", owner)
    check_flag("create", create)
    if name is not None and is_name(name) and session_exists(store, SessionKey(agent, name)):
        key = SessionKey(agent, name)  # without listing all the others
        _check_owner(store, key, owner)
        return key
    infos = [info for info in store.sessions(agent=agent) if owner in (None, info.owner)]
    if name is None and infos:
        return infos[0].key
    for info in infos:
        if name == info.label and name:
            return info.key
    if not create:
        known = [text for info in infos for text in (info.label, info.key.session)]
        raise NoSuchSession(name or "(the newest)", known)
    return _create(store, name, agent, label, owner)


def follow_fresh_mode(store: SessionStore, key: SessionKey) -> SessionKey:
    """The session in which a session in fresh mode continues now: each one names the next."""
    seen = {key}
    while True:
        newest = islice(store.back(key), _NEAR_RECORDS)
        mode = next((record for record in newest if isinstance(record, Mode)), None)
        if mode is None or mode.mode != "fresh" or not is_name(mode.continued_in or ""):
            return key
        following = SessionKey(key.agent, mode.continued_in or "")
        if following in seen or not session_exists(store, following):
            return key
        seen.add(following)
        key = following


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


def open_store(
    store: SessionStore | None, root: str | None, agent: str | None
) -> tuple[SessionStore, str, bool]:
    """The store to use, the agent, and True if the store was opened here."""
    for argument, value in (("root", root), ("agent", agent)):
        check_argument(argument, value, str | os.PathLike | None, "a text, or None")
    if store is not None:
        check_argument("store", store, SessionStore, "a store, such as `JsonlStore(folder)`")
    settings = config.load(root=root, agent=agent)
    if store is not None:
        return store, settings.agent, False
    return JsonlStore(settings.root), settings.agent, True


@contextmanager
def close_on_error(store: SessionStore | None) -> Iterator[None]:
    """Close a store that was opened for a session which cannot be opened."""
    try:
        yield
    except BaseException:
        if store is not None:
            store.close()
        raise


def _check_owner(store: SessionStore, key: SessionKey, owner: str | None) -> None:
    if owner is None or store.header(key).owner == owner:
        return
    raise AccessDenied(
        f"session `{key}` does not belong to `{cut(owner, 80).text}`",
        hint="open it for its owner, or choose another id for a session of your own",
    )


def _create(
    store: SessionStore, name: str | None, agent: str, label: str, owner: str | None
) -> SessionKey:
    if name is not None and is_name(name):
        key = SessionKey(agent, name)
        try:
            store.create(key, label=label, owner=owner or "")
        except SessionExists:
            if not session_exists(store, key):
                raise  # a session whose id differs only in case
            _check_owner(store, key, owner)
        return key  # created by us, or by another process a moment ago
    key = new_key(agent)
    store.create(key, label=label or name or FIRST_LABEL, owner=owner or "")
    return key
