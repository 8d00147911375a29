"""`timer`: messages that a session gets at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar

from holdfast.engine.operations.timers import (
    CancelTimer,
    ChangeTimer,
    ListTimers,
    SetTimer,
    TimerList,
    TimerRow,
)
from holdfast.surfaces.answers import Cell
from holdfast.surfaces.cli.command import (
    Command,
    ResultCommand,
    SessionPlace,
    takes,
)
from holdfast.surfaces.formatting import local_time

if TYPE_CHECKING:
    from holdfast.surfaces.cli.app import App


class _OneTimer(ResultCommand, frozen=True, kw_only=True):
    """Works with one timer."""

    def show(self, found: TimerRow, app: App) -> None:
        app.out.line(found.name)
        app.out.note(f"next: {local_time(found.next)}, in session {found.session}")


class _SetTimer(_OneTimer, frozen=True, kw_only=True):
    """Send a session a message at a time."""

    session: SessionPlace
    timer: Annotated[
        SetTimer,
        takes("when", "text", "zone", "name", "hours", "missed", "jitter", "silent"),
    ]

    def run(self, app: App) -> TimerRow:
        return self.timer.set(app.store, app.session(self.session))

    def show(self, found: TimerRow, app: App) -> None:
        super().show(found, app)
        app.out.note("it is sent while `holdfast serve` runs over this store")


class _ListTimers(ResultCommand, frozen=True, kw_only=True):
    """List the timers, the next one first."""

    def run(self, app: App) -> TimerList:
        return ListTimers().ahead(app.store, app.owner)

    def show(self, found: TimerList, app: App) -> None:
        if not found.timers:
            app.out.note("no timers are set; set one with `holdfast timer add`")
        app.out.table(
            ("Name", "Next", "Times", "Zone", "Session", "Message"),
            (
                (
                    Cell(each.name, "name"),
                    local_time(each.next),
                    f"{each.when} {each.hours}".rstrip(),
                    each.zone,
                    each.session,
                    Cell(each.text.replace("\n", " "), "dim"),
                )
                for each in found.timers
            ),
        )


class _ChangeTimer(_OneTimer, frozen=True, kw_only=True):
    """Give a timer another time, other words, or both."""

    timer: Annotated[ChangeTimer, takes("name", "when", "text")]

    def run(self, app: App) -> TimerRow:
        return self.timer.change(app.store, app.owner)


class _CancelTimer(ResultCommand, frozen=True, kw_only=True):
    """Cancel a timer."""

    timer: Annotated[CancelTimer, takes("name")]

    def run(self, app: App) -> TimerRow:
        return self.timer.cancel(app.store, app.owner)

    def show(self, found: TimerRow, app: App) -> None:
        app.out.line(f"{found.name}: cancelled")


class TimerCommand(Command, frozen=True, kw_only=True):
    """Holds the commands on timers."""

    example = """examples:
  holdfast timer add main 2026-12-01T09:00 "Renew the certificate." --zone Europe/Berlin
  holdfast timer add main "0 9 * * 1-5" "What is due today?" --zone Asia/Tokyo
  holdfast timer add main R/PT30M "Look at the inbox." --hours 08:00-22:00 --silent
  holdfast timer list"""
    verbs: ClassVar[dict[str, type[Command]]] = {
        "add": _SetTimer,
        "list": _ListTimers,
        "change": _ChangeTimer,
        "cancel": _CancelTimer,
    }
