"""Operations on timers: set, list, change, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from holdfast.core.history.answers import Result
from holdfast.core.owners import ANY_OWNER, owner_of, owner_text
from holdfast.core.parameters import SessionName
from holdfast.core.timers import JITTER_SECONDS_MAX, Missed, describe_schedule
from holdfast.engine.history.replies import GivenReply
from holdfast.engine.history.request import RequestRefused
from holdfast.engine.operations.operation import Operation
from holdfast.engine.timers import LOCAL_ZONE, NAME_CHARS_MAX, Timers
from holdfast.engine.workspace.workspace import MAY_READ
from holdfast.errors import UsageError

if TYPE_CHECKING:
    from holdfast.core.log.ids import SessionKey
    from holdfast.core.owners import Owner, OwnerFilter
    from holdfast.core.timers import Timer
    from holdfast.engine.workspace.workspace import CallerWorkspace
    from holdfast.ports import SessionStore

_TEXT_CHARS_MAX = 8_000
"""A reminder is a few lines; a document belongs in a file."""
_TIME = Meta(
    description="A date and time (2026-11-20T09:00), an hour (09:00), a duration (30m, PT30M), a "
    "repeated one (R/PT30M), or a cron expression (0 9 * * 1-5)."
)
_WORDS = Meta(description="The words of the message.")
_Time = Annotated[str, Meta(min_length=1, max_length=200)]
_Text = Annotated[str, Meta(min_length=1, max_length=_TEXT_CHARS_MAX)]
TimerName = Annotated[
    str, Meta(description="The name of the timer.", min_length=1, max_length=NAME_CHARS_MAX)
]


class TimerRow(Result, frozen=True):
    """A timer, and when it is due."""

    name: str
    """Unique among the timers of an owner."""
    session: str
    """The session that gets the message, as `agent/id`."""
    owner: str
    """The owner of the session; empty where it has none."""
    text: str
    """The words of the message."""
    when: str
    """The times, as they were given."""
    zone: str
    """The time zone of its dates."""
    next: float
    """The next time, in seconds since 1970."""
    sent: int
    """The messages that it has sent."""
    hours: str
    """The hours in which a repeated one is sent; empty for all."""
    missed: Missed
    """Of times that passed while nothing ran: one message for all of them, or none."""
    jitter: float
    """Seconds by which a message may be later."""
    silent: bool
    """The agent may have nothing to say, and then no one gets an answer."""


class TimerList(Result, frozen=True):
    """The timers ahead, the next one first."""

    timers: list[TimerRow]
    """The timers."""


class SetTimer(Operation[TimerRow], frozen=True):
    """Send the session a message at a time, once or again and again.

    It is kept until its time, over restarts, and comes as a message of the user's. The same timer
    under the same name is set once. Its times are those of the zone's wall clock; durations count
    from now.
    """

    title = "Set a timer"
    audit = "timer"
    tool = "timer_set"
    right = "write"
    when: Annotated[_Time, _TIME]
    text: Annotated[_Text, _WORDS]
    session_key: SessionName = "current"
    zone: Annotated[
        str,
        Meta(
            description="The time zone of the dates, as Europe/Berlin; the machine's unless given.",
            max_length=100,
        ),
    ] = LOCAL_ZONE
    name: Annotated[
        str, Meta(description="A name for it; made up unless given.", max_length=NAME_CHARS_MAX)
    ] = ""
    hours: Annotated[
        str,
        Meta(description="Only in these hours, as 08:00-22:00; of a repeated one.", max_length=50),
    ] = ""
    missed: Annotated[
        Missed,
        Meta(description="If its time passes while nothing runs: send it once, or skip it."),
    ] = "once"
    jitter: Annotated[
        float,
        Meta(
            description="Seconds by which it may be later, so that many do not come together.",
            ge=0,
            le=JITTER_SECONDS_MAX,
        ),
    ] = 0.0
    silent: Annotated[
        bool, Meta(description="With nothing to say, the answer is left out: for a heartbeat.")
    ] = False

    def answer(self, workspace: CallerWorkspace) -> GivenReply[TimerRow]:
        key, reason = workspace.resolve(self.session_key, to_change=True)
        return GivenReply(self.set(workspace.store, key), reason)

    def set(self, store: SessionStore, key: SessionKey) -> TimerRow:
        """Set it for a session that was found."""
        owner = owner_of(store.header(key).owner)
        timer = Timers(store).set(
            key,
            self.when,
            self.text,
            owner=owner,
            name=self.name,
            zone=self.zone,
            hours=self.hours,
            missed=self.missed,
            jitter=self.jitter,
            silent=self.silent,
        )
        return _show(timer, owner)


class ListTimers(Operation[TimerList], frozen=True):
    """List the timers ahead, the next one first."""

    title = "List the timers"
    audit = "list"
    tool = "timer_list"
    session_key: Annotated[
        str, Meta(description="Only those of this session; all, unless given.", max_length=300)
    ] = ""

    def answer(self, workspace: CallerWorkspace) -> GivenReply[TimerList]:
        asked = self.session_key or ("current" if workspace.caller.agent else "")
        if not asked:
            return GivenReply(self.ahead(workspace.store, workspace.owner), MAY_READ)
        key, reason = workspace.resolve(asked)
        return GivenReply(self.ahead(workspace.store, ANY_OWNER, key), reason)

    def ahead(
        self, store: SessionStore, of: OwnerFilter, session: SessionKey | None = None
    ) -> TimerList:
        """Return the timers of an owner, or of a session."""
        found = Timers(store).ahead(of, session=session)
        return TimerList(timers=[_show(timer, owner) for owner, timer in found])


class _TimerOperation(Operation[TimerRow], frozen=True, kw_only=True):
    """An operation on one timer."""

    name: TimerName

    @property
    def target(self) -> str:
        return self.name

    def find(self, workspace: CallerWorkspace) -> tuple[Owner, Timer]:
        """Return the timer and its owner. A caller that is an agent has those of its session."""
        timers, names = Timers(workspace.store), {self.name}
        if workspace.caller.agent:
            key, _ = workspace.resolve("current", to_change=True)
            owner: OwnerFilter = owner_of(workspace.store.header(key).owner)
            names &= {timer.name for _, timer in timers.ahead(owner, session=key)}
        else:
            owner = workspace.owner
        try:
            return timers.find(next(iter(names), ""), owner)
        except UsageError as error:
            raise RequestRefused("not_found", str(error), hint=error.hint or "") from error


class ChangeTimer(_TimerOperation, frozen=True):
    """Give a timer another time, other words, or both."""

    title = "Change a timer"
    audit = "timer"
    tool = "timer_change"
    right = "write"
    when: Annotated[_Time | None, _TIME] = None
    text: Annotated[_Text | None, _WORDS] = None

    def answer(self, workspace: CallerWorkspace) -> GivenReply[TimerRow]:
        owner, _ = self.find(workspace)
        return GivenReply(self.change(workspace.store, owner), MAY_READ)

    def change(self, store: SessionStore, of: OwnerFilter) -> TimerRow:
        """Change the timer of an owner."""
        timers = Timers(store)
        owner, _ = timers.find(self.name, of)
        timer = timers.change(self.name, owner, when=self.when or "", text=self.text or "")
        return _show(timer, owner)


class CancelTimer(_TimerOperation, frozen=True):
    """Cancel a timer. What it has sent already stays sent."""

    title = "Cancel a timer"
    audit = "timer"
    tool = "timer_cancel"
    right = "write"

    def answer(self, workspace: CallerWorkspace) -> GivenReply[TimerRow]:
        owner, _ = self.find(workspace)
        return GivenReply(self.cancel(workspace.store, owner), MAY_READ)

    def cancel(self, store: SessionStore, of: OwnerFilter) -> TimerRow:
        """Cancel the timer of an owner."""
        timers = Timers(store)
        owner, timer = timers.find(self.name, of)
        timers.cancel(self.name, owner)
        return _show(timer, owner)


def _show(timer: Timer, owner: Owner) -> TimerRow:
    """Return a timer for a client."""
    return TimerRow(
        name=timer.name,
        session=timer.session,
        owner=owner_text(owner),
        text=timer.text,
        when=describe_schedule(timer.schedule),
        zone=timer.zone,
        next=timer.next.at,
        sent=timer.number - 1,
        hours=timer.hours,
        missed=timer.missed,
        jitter=timer.jitter,
        silent=timer.silent,
    )
