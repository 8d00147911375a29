"""A stored session as text for a backend that lost its own; and for no one else's backend.

The text goes into the session of another program, which works for someone. A session that belongs
to an owner is retold for that owner only. Each request is recorded, a refused one too, before
anything is handed out.
"""

from __future__ import annotations

import time
import warnings
from typing import TYPE_CHECKING

from holdfast.core.history import reseed as core
from holdfast.core.history.access import OPERATOR, Access, Caller, Subject, decide, subject_of
from holdfast.core.limits import RESEED_MESSAGES_MAX
from holdfast.core.owners import UNKNOWN_OWNER, owner_argument, owner_of, owner_text
from holdfast.core.window import Window, window_argument
from holdfast.engine.redactor import redactor as usual_redactor
from holdfast.errors import AccessDenied, HoldfastWarning, NoSuchSession, StoreError, UsageError
from holdfast.providers.tokenizers import counter_for

if TYPE_CHECKING:
    from holdfast.core.history.access import AccessDecision
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.secrets.redaction import Redactor
    from holdfast.core.tokens.counting import Counter
    from holdfast.core.window import GivenWindow
    from holdfast.ports import Audit, Clock, SessionStore


def reseed(
    store: SessionStore,
    key: SessionKey,
    *,
    identity: str | Caller = "",
    cap: int | None = None,
    tokens: int | None = None,
    window: GivenWindow = None,
    counter: Counter | None = None,
    messages_max: int = RESEED_MESSAGES_MAX,
    redactor: Redactor | None = None,
    audit: Audit | None = None,
    clock: Clock = time.time,
) -> core.Reseed:
    """A session from its newest compaction on, within `cap` characters or `tokens`.

    With neither, a share of the `window` of the backend that will read it. `identity` is whom that
    backend works for: the name of an owner, or a `Caller` such as `OPERATOR`. Raises
    `AccessDenied` where the session is another's.
    """
    size = window.tokens if isinstance(window, Window) else window
    _check(cap=cap, tokens=tokens, window=size)
    caller = identity if isinstance(identity, Caller) else _owner(key, identity)
    verdict = decide(caller, _subject(store, key, caller), lambda one: _subject(store, one, caller))
    if not verdict.is_allowed:
        _record(audit, caller, _access(key, caller, clock(), verdict))
        raise _denial(key, caller)
    if tokens is None:
        counter = None
        cap = core.cap_for(window_argument(size or None)) if cap is None else cap
    else:
        counter = counter or counter_for()
        cap = tokens
    told = core.reseed(
        store.live(key).records,
        cap,
        counter=counter,
        source=str(key),
        messages_max=messages_max,
        redactor=usual_redactor() if redactor is None else redactor,
    )
    _record(audit, caller, _access(key, caller, clock(), verdict, told.text))
    return told


def _check(**given: int | None) -> None:
    named = {name: value for name, value in given.items() if value is not None}
    if len(named) > 1:
        raise UsageError(
            f"the size of a reseed was given as {' and as '.join(named)}",
            hint="give one of cap (characters), tokens and window (the backend's, in tokens)",
        )
    for name, value in named.items():
        if value < 0:
            raise UsageError(f"{name} cannot be {value}", hint="give a number from 0 up")


def _owner(key: SessionKey, name: str) -> Caller:
    """An owner who asks for one session and sees no other."""
    return Caller(key.agent, key.session, owner=owner_argument(name), visibility="self")


def _denial(key: SessionKey, caller: Caller) -> AccessDenied:
    name = owner_text(caller.owner)
    whom = f"`{name}`" if name else "a caller without an owner"
    return AccessDenied(
        f"session `{key}` cannot be reseeded for {whom}: it does not exist, or belongs to another "
        "owner",
        hint="name its owner as `identity` (`--for OWNER`), or start the backend without it",
    )


def _subject(store: SessionStore, key: SessionKey, caller: Caller) -> Subject | None:
    """The session of that key. Only the operator is told that there is none."""
    try:
        header = store.header(key)
        return subject_of(key, header, owner_of(header.owner))
    except StoreError:
        return Subject(key, UNKNOWN_OWNER)  # damaged: its owner is unknown
    except NoSuchSession:
        if caller == OPERATOR:
            raise
        return None


def _access(
    key: SessionKey, caller: Caller, now: float, verdict: AccessDecision, given: str = ""
) -> Access:
    return Access(
        ts=now,
        action="reseed",
        agent=caller.agent,
        session=caller.session,
        owner=owner_text(caller.owner),
        target=str(key),
        is_allowed=verdict.is_allowed,
        reason=verdict.reason,
        bytes=len(given.encode()),
    )


def _record(audit: Audit | None, caller: Caller, access: Access) -> None:
    """Nothing is handed out that cannot be recorded; but who has the files in hand has them."""
    if audit is None:
        return
    try:
        audit.note(access)
    except StoreError as error:
        if caller != OPERATOR:
            raise
        warnings.warn(f"not in the audit log: {error}", HoldfastWarning, stacklevel=3)
