"""Everything Holdfast raises on purpose.

HoldfastError
├── UsageError              the caller asked for something impossible
│   ├── BadId               an id outside the allow-list
│   ├── BadRecord           a record that cannot be stored
│   │   └── BadItem         an item of another framework that cannot be stored
│   ├── AdapterClosed       an adapter was used after `close`
│   ├── NoSuchSession       nothing by that name; the nearest names are given
│   ├── NoSuchRecord        no such record in this session
│   ├── NoSuchOutput        a ref that this session does not hold
│   ├── NoSuchNote          no such file among the notes
│   ├── AmbiguousName       a prefix that fits several; all of them are named
│   ├── SessionExists       the id is taken
│   ├── KeyReused           the key of a message belongs to another one
│   └── BadSetting          a setting that makes no sense
├── CannotFit               no request within the window exists; the sums say why
├── InvalidRequest          a request that its provider would refuse
├── ModelError              a model that did not answer, and why
│   └── ContextOverflow     too large for the provider, however small it was made
├── TurnInProgress          another holder runs the session's turn
├── TooManyWaiting          a queue that has no room for another message
├── BudgetSpent             a budget leaves no room for another call
├── PriceUnknown            a call that cannot be counted in money
├── CallDenied              a listener said no to a call
├── AccessDenied            a session that this caller may not read
├── SecretLost              the value of a handle was found in another run, and never stored
├── ToolLoop                the same call with the same result, over and over
└── StoreError              the disk said no, or what is on it cannot be trusted
    ├── LogConflict         another writer got there first
    ├── LogGrown            a log ends elsewhere than a copy of it expected
    ├── LeaseLost           another holder took over the session's turn
    ├── LogBusy             another writer holds the lock for too long
    ├── NotDurable          the write or its sync failed; nothing is claimed
    ├── StoreUnavailable    read-only, full, forbidden, or locks not supported
    ├── ForeignLog          another tool's file, or a newer format: readable, not writable
    ├── NoteChanged         a file of notes is no longer what an edit was made for
    ├── PathRejected        a link, a device, or a way out of the root
    ├── BlobMissing         a ref whose payload is not there
    └── BlobDamaged         a payload that no longer matches its hash

A message says what was asked, what was found and which object; `hint` says what to do next.
`code` is a stable name for programs.
"""

from __future__ import annotations

import re
import time
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    Known: TypeAlias = Sequence[str] | Callable[[], Sequence[str]]
    """Names that an unknown one may have been meant to be."""


__all__ = [
    "AccessDenied",
    "AmbiguousName",
    "BadId",
    "BadRecord",
    "BadSetting",
    "BlobDamaged",
    "BlobMissing",
    "CannotFit",
    "ContextOverflow",
    "ForeignLog",
    "HoldfastError",
    "HoldfastWarning",
    "InvalidRequest",
    "LeaseLost",
    "LogBusy",
    "LogConflict",
    "ModelError",
    "NoSuchOutput",
    "NoSuchRecord",
    "NoSuchSession",
    "NotDurable",
    "PathRejected",
    "SecretLost",
    "SessionExists",
    "StoreError",
    "StoreUnavailable",
    "ToolLoop",
    "TurnInProgress",
    "UsageError",
]
"""The errors that a program tells apart; the others are caught as one of these."""


class HoldfastError(Exception):
    """Root of everything Holdfast raises on purpose."""

    def __init__(self, what: str, *, hint: str | Callable[[], str] | None = None) -> None:
        """A hint that takes work to make is a function; it is called when someone looks."""
        super().__init__(what)
        self._hint: str | None = None
        self._notes: list[str] = []
        self._make_hint = hint if callable(hint) else None
        if not callable(hint):
            self.hint = hint

    @property
    def hint(self) -> str | None:
        """The next thing to do. It is a note of the exception too, so that tracebacks show it."""
        make, self._make_hint = self._make_hint, None
        if make is not None:
            self.hint = make()
        return self._hint

    @hint.setter
    def hint(self, hint: str | None) -> None:
        self._make_hint = None
        if self._hint and (note := f"hint: {self._hint}") in self._notes:
            self._notes.remove(note)
        self._hint = hint
        if hint:
            self._notes.append(f"hint: {hint}")

    @property
    def __notes__(self) -> list[str]:  # type: ignore[override]
        """The notes of the exception, the hint among them; `add_note` adds to this list."""
        self.hint  # noqa: B018 - makes it
        return self._notes

    def __reduce__(self) -> Any:
        self.hint  # noqa: B018 - what makes it stays in this process
        return super().__reduce__()

    @property
    def code(self) -> str:
        """The class name in kebab case: a stable name for programs."""
        return re.sub(r"(?<!^)(?=[A-Z])", "-", type(self).__name__).lower()


class HoldfastWarning(UserWarning):
    """Something that works, but not as safely as it should."""


class UsageError(HoldfastError):
    """The caller asked for something impossible."""


class BadId(UsageError):
    """An agent, session or record id outside the allow-list."""

    def __init__(self, kind: str, value: str, rule: str) -> None:
        super().__init__(f"{kind} id {value[:80]!r} is not allowed", hint=f"use {rule}")
        self.value = value


class BadRecord(UsageError):
    """A record that cannot be stored as it is."""


class BadItem(BadRecord, TypeError):
    """An item of another framework that JSON cannot hold, or that a log holds in a shape that
    cannot be read. A `TypeError` too, as these raise it."""


class AdapterClosed(UsageError, RuntimeError):
    """An adapter was used after `close`. A `RuntimeError` too, as other frameworks raise it."""


class BadSetting(UsageError):
    """A setting, or a combination of settings, that makes no sense."""


class CannotFit(HoldfastError):
    """Nothing that could be sent fits. `parts` are the sums, in tokens, the largest named first."""

    def __init__(self, what: str, *, parts: Mapping[str, int], hint: str | None = None) -> None:
        super().__init__(what, hint=hint)
        self.parts = dict(parts)


class InvalidRequest(HoldfastError):
    """A request that breaks a rule of its provider; it was not sent."""


class ModelError(HoldfastError):
    """A model did not answer. `failure` (`core.failures.classify.Failure`) says of which class that
    is, and `__cause__` is what was raised.

    The session is intact: what was said is in the log, and the turn can be tried again.
    """

    def __init__(self, what: str, *, failure: Any, hint: str | None = None) -> None:
        super().__init__(what, hint=hint)
        self.failure = failure


class ContextOverflow(ModelError):
    """Still too large after everything that could be cut was cut; a larger model may take it.

    `parts` are the sums, in tokens.
    """

    def __init__(
        self, what: str, *, failure: Any, parts: Mapping[str, int], hint: str | None = None
    ) -> None:
        super().__init__(what, failure=failure, hint=hint)
        self.parts = dict(parts)


class CallDenied(HoldfastError):
    """A listener said no to a call. Nothing was sent."""


class TurnInProgress(HoldfastError):
    """Another holder runs the session's turn. Nothing was stored."""

    def __init__(self, session: str, holder: str, since: float, waited_seconds: float = 0) -> None:
        at = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(since))
        waited = f"; waited {waited_seconds:.3g} s" if waited_seconds > 0 else ""
        super().__init__(
            f"session `{session}` has a running turn: {holder}, since {at} UTC{waited}",
            hint="nothing was stored; try again when that turn is done. It also ends with its "
            "process",
        )
        self.session, self.holder, self.since = session, holder, since


class AccessDenied(HoldfastError):
    """The caller may not read that session. Nothing was read, and the refusal was recorded."""


class SecretLost(HoldfastError):
    """A call names a secret that was found in another run and kept in its memory alone."""

    def __init__(self, handle: str) -> None:
        super().__init__(
            f"no process has the value of `{handle}`: it was found in a text, kept in the memory "
            "of the session object that found it, and never stored",
            hint="ask for the value again, or register it by name (`secrets=`, HOLDFAST_SECRETS)",
        )


class ToolLoop(HoldfastError):
    """After a compaction the model made the same call three times and got the same result."""


def _nearest(name: str, known: Known, otherwise: str) -> str:
    """The hint with the known names that are like an unknown one."""
    import difflib

    try:
        close = difflib.get_close_matches(name, known() if callable(known) else known, 3, 0.5)
    except Exception:  # anyone who looks at an error must not get another one
        close = []
    said = " or ".join(f"`{candidate}`" for candidate in close)
    return f"did you mean {said}?" if said else otherwise


class NoSuchSession(UsageError):
    """No session by that id, label or prefix."""

    def __init__(self, name: str, known: Known = ()) -> None:
        """`known` may be a function: many look for a session, few show that it is not there."""
        hint = "list them with `holdfast sessions`, or make one with `holdfast new`"
        super().__init__(f"no session `{name}`", hint=partial(_nearest, name, known, hint))
        self.name = name


class NoSuchRecord(UsageError):
    """No record by that id or prefix in the session."""

    def __init__(
        self, record: str, session: str, known: Sequence[str] = (), *, where: str = ""
    ) -> None:
        where = f"{where}session `{session}`" if session else "any session"
        hint = f"list them with `holdfast log {session or 'SESSION'} --all`"
        super().__init__(
            f"no record `{record}` in {where}", hint=partial(_nearest, record, known, hint)
        )
        self.record = record


class NoSuchOutput(UsageError):
    """A ref that no record of the session holds. Nothing was read."""

    def __init__(self, ref: str, session: str, why: str = "") -> None:
        where = f"session `{session}`" if session else "any session"
        what = f"no output {ref[:80]!r} in {where}"
        super().__init__(
            f"{what}: {why}" if why else what,
            hint="give the ref that the preview shows: the record's id, or its hash",
        )


class NoSuchNote(UsageError):
    """No file of notes by that path."""

    def __init__(self, path: str, known: Sequence[str] = ()) -> None:
        hint = "list them with `holdfast memory list`, or add one with `holdfast memory add`"
        super().__init__(f"no notes in {path[:80]!r}", hint=partial(_nearest, path, known, hint))


class AmbiguousName(UsageError):
    """A prefix that fits more than one thing."""

    def __init__(
        self, kind: str, name: str, candidates: Sequence[str], *, are_all: bool = True
    ) -> None:
        """`are_all`: nothing else fits; otherwise there may be more."""
        shown = ", ".join(f"`{candidate}`" for candidate in candidates[:8])
        more = f" and {len(candidates) - 8} more" if len(candidates) > 8 else ""
        more = more if are_all else " and more"
        super().__init__(
            f"{kind} `{name}` is ambiguous: it fits {shown}{more}", hint="give more characters"
        )
        self.candidates = tuple(candidates)


class SessionExists(UsageError):
    """The id is taken, or differs from a taken one only in case."""

    def __init__(self, session: str, taken_by: str) -> None:
        what = (
            f"session `{session}` exists already"
            if session == taken_by
            else f"session `{session}` differs from `{taken_by}` only in case"
        )
        super().__init__(what, hint="choose another id, or open the existing session")
        self.taken_by = taken_by


class TooManyWaiting(HoldfastError):
    """A queue has no room for another message. Nothing was stored."""

    def __init__(self, what: str, waiting: int, retry_seconds: float) -> None:
        super().__init__(
            f"{what} has {waiting:,} waiting messages, and takes no more for now",
            hint=f"nothing was stored; send the message again in {retry_seconds:g} s",
        )
        self.retry_seconds = retry_seconds


class BudgetSpent(HoldfastError):
    """A budget leaves no room for another call. The model was not called."""

    def __init__(
        self, sentence: str, resets: float, retry_seconds: float, *, is_held: bool = False
    ) -> None:
        moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(resets))
        hint = f"no model was called; the budget begins again at {moment}"
        if is_held:
            hint = (
                "no model was called; calls that still run may take the rest: try again in "
                f"{retry_seconds:g} s. The budget begins again at {moment}"
            )
        super().__init__(f"the budget is spent: {sentence}", hint=hint)
        self.resets = resets
        """The moment at which the budget begins again, in seconds since 1970."""
        self.retry_seconds = retry_seconds
        self.is_held = is_held
        """True where only calls that still run stand in the way."""


class PriceUnknown(HoldfastError):
    """A call cannot be counted in money: the price of its model is not known."""

    def __init__(self, model: str) -> None:
        super().__init__(
            f"cannot call `{model}`: a budget limits money, and the price of the model is not "
            "known",
            hint='no model was called; with `unpriced = "count"` in the table `budgets`, its '
            "tokens and requests are counted alone",
        )
        self.model = model


class KeyReused(UsageError):
    """A message has the key of another one."""

    def __init__(self, key: str, state: str, session: str = "") -> None:
        place = f" to session `{session}`" if session else ""
        super().__init__(
            f"the key `{key}` belongs to another message{place}, which is {state}",
            hint="nothing was stored; keys count for all sessions of an owner together: use a new "
            "key for a new message, and the old key only to send the same message again",
        )
        self.key = key


class StoreError(HoldfastError):
    """The disk or database said no."""


class LogConflict(StoreError):
    """The log has moved on since the caller looked. Nothing was written."""

    def __init__(self, session: str, expected: str, found: str, writer: str) -> None:
        super().__init__(
            f"session `{session}` has moved on: expected head `{expected}`, "
            f"found `{found}`, written by {writer}",
            hint="read the new records and decide again; nothing was written",
        )
        self.expected, self.found, self.writer = expected, found, writer


class LogGrown(StoreError):
    """A log ends elsewhere than a copy of it expected. Nothing was written."""

    def __init__(self, session: str, expected: int, found: int) -> None:
        super().__init__(
            f"cannot add lines to session `{session}` at byte {expected:,}: its log ends at byte "
            f"{found:,}",
            hint="another process writes there; nothing was written, compare the logs again",
        )
        self.expected, self.found = expected, found


class LeaseLost(StoreError):
    """The writer's lease ran out and another holder took the turn. Nothing was written."""

    def __init__(self, session: str, holder: str) -> None:
        super().__init__(
            f"the turn of session `{session}` was taken over by {holder or 'another holder'}",
            hint="this process was paused for too long; nothing was written. Open the session "
            "again to continue it",
        )
        self.holder = holder


class LogBusy(StoreError):
    """Another writer held the lock for longer than we were willing to wait."""

    def __init__(self, session: str, waited_seconds: float, writer: str) -> None:
        super().__init__(
            f"session `{session}` is locked: waited {waited_seconds:g} s for {writer}",
            hint="nothing was written; try again when that process has ended",
        )
        self.writer = writer


class NotDurable(StoreError):
    """The write or its sync failed. Nothing is acknowledged; nothing before it is lost."""


class StoreUnavailable(StoreError):
    """The file system refuses: read-only, full, forbidden, or without locks."""


class ForeignLog(StoreError):
    """Another tool's file or a newer format: it can be read, not appended to."""


class NoteChanged(StoreError):
    """A file of notes is not what it was when the edit was made. Nothing was written."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"`{path[:80]}` has changed since it was read",
            hint="read it again and repeat the edit; nothing was written",
        )


class PathRejected(StoreError):
    """A link, a device, or a way out of the root. Nothing was opened."""


class BlobMissing(StoreError):
    """A ref whose payload is not in the store."""


class BlobDamaged(StoreError):
    """A payload that does not match its hash. Nothing was delivered."""
