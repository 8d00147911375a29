"""Slash commands about sessions: which one is open, its label, its model, its mode."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.checkpoint.render import render_checkpoint
from holdfast.core.checkpoint.state import State, read_state
from holdfast.core.log.listing import check_label, title_of
from holdfast.core.log.records import Checkpoint
from holdfast.engine.history.lookup import NAMED_MAX
from holdfast.engine.operations.sessions import CreateSession, LabelSession
from holdfast.engine.session.base import target_of
from holdfast.errors import AmbiguousName, NoSuchSession
from holdfast.providers.models import NAMES
from holdfast.surfaces.answers import Cell, answer, dim, line, refuse
from holdfast.surfaces.chat_context import size_text
from holdfast.surfaces.formatting import local_time
from holdfast.surfaces.slash_commands.command import (
    AT_LENGTH,
    Choice,
    WrongArgument,
    choices,
    for_guest,
    for_operator,
    for_owner,
)
from holdfast.surfaces.slash_commands.turns import reset_now

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.surfaces.answers import CommandAnswer
    from holdfast.surfaces.chat_context import ChatContext

_LISTED_MAX: Final = 50
"""More sessions than this are listed by `/list all`."""


def _session_choices(chat: ChatContext) -> Iterable[Choice]:
    for info in chat.infos(NAMED_MAX):
        yield Choice(info.key.session, title_of(info.label or info.title))
        if info.label and len(info.label.split()) == 1:
            yield Choice(info.label, info.key.session)


@for_guest("new", CreateSession, "at once", "label")
def _new(chat: ChatContext, asked: CreateSession) -> CommandAnswer:
    name = check_label(asked.label)
    if chat.moves_name:  # during a turn: raises, for the turn would go on under the name
        session = chat.take(chat.session.reset(name, moves_name=True, carries=False, wait=0))
    else:
        session = chat.start(asked.label)
    suffix = f" ({name})" * bool(name)
    return answer(line("Created new session: ", Cell(session.key.session, "name"), suffix))


@for_owner(
    "list", "list the sessions, newest first", "at once", surfaces=AT_LENGTH, aliases=("sessions",)
)
def _list(chat: ChatContext, argument: str) -> CommandAnswer:
    infos = chat.infos(None if argument == "all" else _LISTED_MAX + 1)
    if not infos:
        return answer("No sessions found.")
    shown = infos if argument == "all" else infos[:_LISTED_MAX]
    lines = [
        line(
            "  ",
            Cell(info.key.session, "name"),
            f" ({title_of(info.label)})" if info.label else "",
            Cell(f"  msgs={info.messages:,}  last={local_time(info.last_active, 'T')}", "dim"),
            Cell(f"  {info.damaged} damaged", "bad") if info.damaged else "",
            Cell(" <-- current", "good") if info.key == chat.session.key else "",
        )
        for info in shown
    ]
    more = [dim("  … and more: /list all")] if len(infos) > len(shown) else []
    return answer("Sessions:", *lines, *more)


@for_owner(
    "switch",
    "open a session, by the beginning of its id or label",
    "at once",
    argument="<id or label>",
    surfaces=AT_LENGTH,
    choices=_session_choices,
)
def _switch(chat: ChatContext, name: str) -> CommandAnswer:
    if not name:
        return refuse("Usage: /switch <session_id>", "or the beginning of an id or a label")
    try:
        key = chat.find(name)
    except NoSuchSession as error:
        hint = error.hint or ""
        near = hint if hint.startswith("did you mean") else "/list shows them"
        return refuse(f"Session not found: {title_of(name)}", near)
    except AmbiguousName as error:
        matches = ", ".join(text.partition("/")[2] or text for text in error.candidates)
        return refuse(f"Ambiguous prefix, matches: {matches}", "type more characters")
    if key == chat.session.key:
        return answer(f"Already in session: {key.session}")
    chat.open(key)
    size = f" ({size_text(chat)})"
    return answer(line("Switched to session: ", Cell(key.session, "name"), size))


@for_guest(
    "label",
    LabelSession,
    "queued",
    "label",
    argument="[label]",
    surfaces=AT_LENGTH,
    aliases=("name",),
)
def _label(chat: ChatContext, asked: LabelSession) -> CommandAnswer:
    label = check_label(asked.label)
    if not label:
        known = chat.info().label
        return answer(f"Label: {known}" if known else "This session has no label: /label <words>")
    chat.session.rename(label)
    return answer(f"Session {chat.session.key.session} is now called: {label}")


@for_guest(
    "mode",
    "continue one session, or start a fresh one after each answer",
    "queued",
    argument="[continue or fresh]",
    choices=choices(Choice("continue", "one session"), Choice("fresh", "one per request")),
)
def _mode(chat: ChatContext, argument: str) -> CommandAnswer:
    session = chat.session
    if argument in ("continue", "fresh"):
        session.set_mode("fresh" if argument == "fresh" else "continue")
    elif argument:
        raise WrongArgument
    about = {
        "continue": "your next message continues this session",
        "fresh": "your next message starts a session that knows this one by its checkpoint",
    }
    mode = session.status().mode
    return answer(f"Mode: {mode} ({about[mode]})")


@for_guest(
    "reset",
    "start a fresh session that knows what this one was doing",
    "at once",
    argument="[label]",
)
def _reset(chat: ChatContext, label: str) -> CommandAnswer:
    old = chat.session
    fresh = reset_now(chat, check_label(label))
    records = fresh.store.read(fresh.key)
    states = (read_state(record.state) for record in records if isinstance(record, Checkpoint))
    text = next((render_checkpoint(state) for state in states if isinstance(state, State)), "")
    carried = f"{len(text):,} characters" if text else "nothing: the session was empty"
    return answer(
        line(
            "Started fresh session: ", Cell(fresh.key.session, "name"), f" ({label})" * bool(label)
        ),
        f"Carried over from {old.key.session}: {carried}",
        dim(f"/switch {old.key.session} goes back", needs="switch"),
    )


@for_operator(
    "model",
    "show the model, or change to another one",
    "refused",
    argument="[name]",
    surfaces=AT_LENGTH,
    choices=choices(*map(Choice, NAMES)),
)
def _model(chat: ChatContext, name: str) -> CommandAnswer:
    before = chat.tools
    if name:
        chat.use(name)
    target, window, tools = target_of(chat.session), chat.session.window, chat.tools
    names = ", ".join(tools) or f"none of this chat; {target.model} runs its own"
    return answer(
        line("Model: ", Cell(target.model, "name"), f" ({target.provider})"),
        f"Window: {window.tokens:,} tokens ({window.source})",
        *([f"Tools: {names}"] if tools != before else []),
    )


COMMANDS: Final = (
    _new,
    _list,
    _switch,
    _label,
    _mode,
    _reset,
    _model,
)
