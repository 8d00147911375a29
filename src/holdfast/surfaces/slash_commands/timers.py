"""Slash commands about timers: remind, list, change, cancel."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.core.owners import owner_of
from holdfast.engine.operations.timers import CancelTimer, ChangeTimer, ListTimers, SetTimer
from holdfast.errors import UsageError
from holdfast.surfaces.answers import Cell, answer, dim, line
from holdfast.surfaces.formatting import local_time
from holdfast.surfaces.slash_commands.command import Choice, for_guest

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.owners import Owner
    from holdfast.engine.operations.timers import TimerRow
    from holdfast.surfaces.answers import CommandAnswer
    from holdfast.surfaces.chat_context import ChatContext


def _ahead(chat: ChatContext) -> list[TimerRow]:
    """Return the timers of the chat's session."""
    return ListTimers().ahead(chat.store, _owner(chat), chat.session.key).timers


def _owner(chat: ChatContext) -> Owner:
    return owner_of(chat.store.header(chat.session.key).owner)


def _check_own(chat: ChatContext, name: str) -> None:
    if name not in {timer.name for timer in _ahead(chat)}:
        raise UsageError(f"this session has no timer `{name}`", hint="/timers lists them")


def _names(chat: ChatContext) -> Iterable[Choice]:
    return (Choice(timer.name, timer.text) for timer in _ahead(chat))


@for_guest("remind", SetTimer, "at once", "when", "text")
def _remind(chat: ChatContext, asked: SetTimer) -> CommandAnswer:
    timer = asked.set(chat.store, chat.session.key)
    at = local_time(timer.next)
    hint = dim("It is sent while `holdfast serve` or `holdfast telegram` runs.")
    set_ = line("Timer ", Cell(timer.name, "name"), f" is set: {at}")
    return answer(set_, hint) if chat.surface == "terminal" else answer(set_)


@for_guest("timers", ListTimers, "at once")
def _timers(chat: ChatContext, _asked: ListTimers) -> CommandAnswer:
    found = _ahead(chat)
    if not found:
        return answer("No timers are set: /remind sets one.")
    rows = (
        line("  ", Cell(each.name, "name"), f"  {local_time(each.next)}  {each.text}")
        for each in found
    )
    return answer("Timers:", *rows)


@for_guest("reschedule", ChangeTimer, "at once", "name", "when", choices=_names)
def _reschedule(chat: ChatContext, asked: ChangeTimer) -> CommandAnswer:
    _check_own(chat, asked.name)
    timer = asked.change(chat.store, _owner(chat))
    return answer(line("Timer ", Cell(timer.name, "name"), f": {local_time(timer.next)}"))


@for_guest("unremind", CancelTimer, "at once", "name", choices=_names)
def _unremind(chat: ChatContext, asked: CancelTimer) -> CommandAnswer:
    _check_own(chat, asked.name)
    asked.cancel(chat.store, _owner(chat))
    return answer(f"Timer {asked.name} is cancelled.")


COMMANDS = (_remind, _timers, _reschedule, _unremind)
"""In the order of `/help`."""
