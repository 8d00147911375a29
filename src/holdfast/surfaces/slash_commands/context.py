"""Slash commands about the context: its size, its parts, and how to shorten or restore it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.log.listing import title_of
from holdfast.core.log.records import Assistant, User, text_of
from holdfast.engine.operations.context import CompactContext, ReadStatus
from holdfast.engine.operations.sessions import RewindSession, UndoChange
from holdfast.surfaces.answers import (
    SHELL,
    Cell,
    StyledLine,
    StyledTable,
    answer,
    dim,
    ledger_row,
    line,
    refuse,
)
from holdfast.surfaces.chat_context import size_text
from holdfast.surfaces.formatting import bar, capitalise, count, meter, money, one_line, tone_of
from holdfast.surfaces.slash_commands.command import (
    AT_LENGTH,
    Choice,
    WrongArgument,
    choices,
    for_guest,
    for_owner,
)
from holdfast.surfaces.slash_commands.turns import describe_turn, running_turn

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.projection.project import Plan
    from holdfast.core.window import Window
    from holdfast.engine.session.status import Status
    from holdfast.surfaces.answers import CommandAnswer, Row
    from holdfast.surfaces.chat_context import ChatContext
    from holdfast.surfaces.formatting import Tone

_BAR_CHARS: Final = 24
_LEDGER_MAX: Final = 40
_CHOICES_MAX: Final = 50
_CHOICE_CHARS: Final = 60
_FILL_MAX: Final = 9.99
"""A session far past its limit shows 999 %, which keeps the line short."""
_TURNS_MAX: Final = 1_000
"""A smaller number is a number of turns; a longer one is the beginning of a record id."""


# Status


def _record_choices(chat: ChatContext) -> Iterable[Choice]:
    for record in reversed(chat.session.messages(_CHOICES_MAX)):
        if isinstance(record, User | Assistant):
            words = one_line(text_of(record.content), _CHOICE_CHARS)
            yield Choice(record.id, f"{record.kind}: {words}")


def _cut_choices(chat: ChatContext) -> Iterable[Choice]:
    for record in chat.session.store.last(chat.session.key, _CHOICES_MAX):
        if record.kind in ("compaction", "prune"):
            yield Choice(record.id, record.kind)


@for_guest("status", ReadStatus, "at once")
def _status(chat: ChatContext, _asked: ReadStatus) -> CommandAnswer:
    status = chat.session.status()
    window = status.window
    rows: list[tuple[str, str]] = [
        ("Session", _session(status)),
        ("Model", status.model),
        ("Window", f"{window.tokens:,} tokens ({window.source}), {window.confidence}"),
        (
            "Context",
            f"~{status.tokens:,} tokens, {status.share:.1%} of the window ({status.basis})",
        ),
        ("Messages", f"{status.messages:,} in view, {status.messages_tokens:,} tokens"),
        ("Compaction", _next_compaction(status)),
        (
            "So far",
            f"{count(status.turns, 'turn')}, {count(status.calls, 'call')}, "
            f"{count(status.tools, 'tool result')}, {count(status.compactions, 'compaction')}, "
            f"{count(status.prunes, 'trim')}",
        ),
        ("Cost", _cost(status)),
        ("Cache", _cache(status)),
    ]
    running = running_turn(chat)
    if running is not None:
        rows.append(("Turn", describe_turn(chat, running)))
    width = max(len(name) for name, _ in rows)
    lines = [line(Cell(f"{name:<{width}}  ", "dim"), text) for name, text in rows]
    return answer(*lines, *(line(Cell(warning, "warn")) for warning in status.warnings))


def _session(status: Status) -> str:
    label = f" ({title_of(status.label)})" if status.label else ""
    mode = ", a fresh session for each request" if status.mode == "fresh" else ""
    return f"{status.session}{label}, agent {status.agent}{mode}"


def _next_compaction(status: Status) -> str:
    fill = min(status.fill, _FILL_MAX)
    at = f"at {status.compact_at:,} tokens of messages ({fill:.0%} of the way)"
    if status.turns_left is None:
        return at
    if status.turns_left == 0:
        return f"{at}; due with the next turn"
    return f"{at}; about {count(status.turns_left, 'more turn')} like these"


def _cost(status: Status) -> str:
    priced = status.calls - status.unpriced
    if status.unpriced and priced <= 0:
        return "unknown: no list price for this model"
    without = f", without {count(status.unpriced, 'call')} of unknown price"
    return f"{money(status.cost)}{without if status.unpriced else ''}"


def _cache(status: Status) -> str:
    if status.cache_share is None:
        return "no usage reported yet"
    sums = f"{status.prompt_tokens:,} input tokens, {status.output_tokens:,} output tokens"
    return f"{status.cache_share:.0%} of the input came from the cache ({sums})"


@for_owner(
    "window",
    "show the window and its source; `forget` drops one that a provider stated",
    "queued",
    argument="[forget]",
    surfaces=AT_LENGTH,
    choices=choices(Choice("forget", "go back to the stated or known window")),
)
def _window(chat: ChatContext, argument: str) -> CommandAnswer:
    if argument and argument.casefold() != "forget":
        raise WrongArgument("/window forget goes back to the stated or known window")
    was_forgotten = bool(argument) and chat.session.forget_window()
    window = chat.session.window
    text = f"{window.tokens:,} tokens ({window.source}), {window.confidence}"
    if argument and not was_forgotten:
        return answer(f"No window was learned. Window: {text}")
    way = dim("/window forget goes back to the stated or known one")
    return answer(f"Window: {text}", *([way] if window.confidence == "learned" else []))


# Context


@for_guest(
    "context",
    "show what the window is used for; `list` shows every record and its fate",
    "at once",
    argument="[list [all]]",
    choices=choices(Choice("list", "every record")),
)
def _context(chat: ChatContext, argument: str) -> CommandAnswer:
    word, _, rest = argument.partition(" ")
    if word.casefold() == "list":
        return _ledger(chat.session.plan(is_held=True), is_whole=rest.strip().casefold() == "all")
    if word:
        raise WrongArgument("/context list shows every record")
    return _usage(chat.session.plan(is_held=True))


def _usage(plan: Plan) -> CommandAnswer:
    window = plan.window
    share = plan.tokens.total / window.tokens
    messages = sum(len(unit.parts) for unit in plan.units_kept)
    rows = [_part_row(name, tokens, window, tone) for name, tokens, tone in parts_of(plan)]
    return answer(
        f"Context usage: ~{plan.tokens.total:,} / {window.tokens:,} tokens",
        line(Cell(meter(share), tone_of(share)), f" {100 * share:.1f}%"),
        *_due(plan),
        f"Messages: {messages:,}",
        "",
        StyledTable(("Part", ">Tokens", ">Share", ""), tuple(rows)),
        dim(
            f"sizes are {plan.tokens.basis}; window: {plan.window.source}. "
            "/context list shows every record"
        ),
    )


def parts_of(plan: Plan) -> list[tuple[str, int, Tone]]:
    """Split the window into its parts: name, tokens and tone. They add up to the window."""
    tokens, budget = plan.tokens, plan.budget
    sums: dict[str, int] = {}
    for entry in plan.ledger:
        name = _PART_NAMES.get(entry.speaker or entry.kind, "other")
        sums[name] = sums.get(name, 0) + entry.after
    sums["other"] = max(0, tokens.messages - sum(sums.values()) + sums.get("other", 0))
    parts: list[tuple[str, int, Tone]] = [
        ("system prompt", tokens.system, "name"),
        ("tools", tokens.tools, "name"),
        *(
            (name, sums.get(name, 0), "name")
            for name in (*dict.fromkeys(_PART_NAMES.values()), "other")
        ),
        ("added by the provider", tokens.hidden, "name"),
        ("reserved for the reply", budget.output_reserve, "dim"),
        ("reserve", budget.dynamic_reserve, "dim"),
    ]
    used = sum(size for _name, size, _tone in parts)
    parts.append(("free", max(0, plan.window.tokens - used), "good"))
    return [part for part in parts if part[1] > 0]


_PART_NAMES: Final = {
    "summary": "summary",
    "user": "your messages",
    "program": "added by programs",
    "assistant": "replies and calls",
    "tool_use": "replies and calls",
    "tool_result": "tool results",
}


def _part_row(name: str, tokens: int, window: Window, tone: Tone) -> Row:
    share = tokens / window.tokens
    return (name, f"{tokens:,}", f"{share:.1%}", Cell(bar(share, _BAR_CHARS) or "▏", tone))


def _ledger(plan: Plan, *, is_whole: bool) -> CommandAnswer:
    entries = [entry for entry in plan.ledger if entry.action != "silent"]
    shown = entries if is_whole else entries[-_LEDGER_MAX:]
    parts: list[StyledLine | StyledTable | str] = []
    if len(shown) < len(entries):
        parts.append(dim(f"{len(entries) - len(shown):,} earlier records: /context list all"))
    columns = ("Record", "Kind", "Action", ">Before", ">After", "Why")
    parts.append(StyledTable(columns, tuple(map(ledger_row, shown))))
    if any(entry.back for entry in shown):
        way = "nothing is lost: `holdfast show RECORD` prints each of them in full"
        parts.append(dim(way, needs=SHELL))
    sums = f"{plan.tokens.messages:,} tokens of messages ({plan.tokens.basis})"
    parts.append(dim(f"{sums}, budget {plan.budget.tokens:,}"))
    return answer(*parts, *_due(plan))


def _due(plan: Plan) -> list[StyledLine]:
    """Say that the view is too large for a request, and is cut before the one that is shown."""
    if not plan.decisions:
        return []
    text = f"the view takes {plan.tokens_before:,} tokens of messages; the next turn cuts it first"
    return [line(Cell(text, "warn"))]


# Compact, rewind, undo


@for_guest(
    "compact",
    CompactContext,
    "queued",
    "preview",
    "focus",
    choices=choices(Choice("--preview", "show the result, change nothing")),
)
def _compact(chat: ChatContext, asked: CompactContext) -> CommandAnswer:
    before = chat.session.status().messages
    done = chat.session.compact(asked.focus, preview=asked.preview)
    if done.outcome == "skipped":
        return refuse(f"{capitalise(done.detail)}.")
    sizes = f"{done.tokens_before:,} -> {done.tokens_after:,} tokens"
    how = "written by the model" if done.method == "model" else "made by code, without a model"
    if asked.preview:
        return answer(
            f"Preview: {sizes}; nothing was changed",
            f"The summary, {how}:",
            *(dim(f"  {text}") for text in done.summary.splitlines()),
        )
    after = chat.session.status().messages
    cost = f", {money(done.cost)}" if done.cost else ""
    reason = done.detail.removeprefix("made by code: ")
    why = f" ({reason})" if reason else ""
    return answer(
        line(
            Cell("[compact] ", "good"),
            f"{max(0, before - after):,} messages -> summary ({len(done.summary):,} chars)",
        ),
        f"{before:,} -> {after:,} messages",
        f"{sizes}; {how}{why}; {count(done.calls, 'call')} to the model{cost}",
        dim("nothing is lost: /undo takes it back", needs="undo"),
    )


@for_guest(
    "rewind",
    RewindSession,
    "refused",
    "to",
    argument="[turns or record]",
    surfaces=AT_LENGTH,
    choices=_record_choices,
)
def _rewind(chat: ChatContext, asked: RewindSession) -> CommandAnswer:
    to = asked.to or str(asked.turns)
    if to.isdecimal() and int(to) < _TURNS_MAX:
        done = chat.session.rewind(turns=int(to))
    else:
        done = chat.session.rewind(to)
    return answer(
        f"{capitalise(done.what)}; {size_text(chat)}", dim("/undo brings it back", needs="undo")
    )


@for_guest("undo", UndoChange, "refused", "record", surfaces=AT_LENGTH, choices=_cut_choices)
def _undo(chat: ChatContext, asked: UndoChange) -> CommandAnswer:
    done = chat.session.undo(asked.record)
    return answer(f"{capitalise(done.what)}; {size_text(chat)}")


COMMANDS: Final = (
    _status,
    _window,
    _context,
    _compact,
    _rewind,
    _undo,
)
