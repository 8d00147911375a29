"""The one table of slash commands, for every surface.

A command gets the desk and the words behind its name, and gives an `Answer`; what is unknown is
refused with what comes nearest, and never taken for something said to the model.
"""

from __future__ import annotations

import difflib
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from holdfast.core.checkpoint.render import render
from holdfast.core.checkpoint.state import State, read_state
from holdfast.core.limits import REF_CHARS
from holdfast.core.log.listing import checked_label, title_of
from holdfast.core.log.records import (
    Assistant,
    Checkpoint,
    Compaction,
    ToolResult,
    User,
    text_of,
    tool_calls,
)
from holdfast.core.text.cut import cut, ellipsis
from holdfast.errors import AmbiguousName, CannotFit, HoldfastError, NoSuchSession
from holdfast.providers.models import NAMES
from holdfast.surfaces.answers import Answer, Cell, Line, Table, bar, line, refused, said

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from holdfast.core.log.records import Record
    from holdfast.core.projection.ledger import Action
    from holdfast.core.projection.ledger import Line as Entry
    from holdfast.core.projection.project import Plan
    from holdfast.engine.session.status import Status
    from holdfast.stores.notes.notes import Note
    from holdfast.surfaces.answers import Row, Tone
    from holdfast.surfaces.chat_context import Desk

METER_CELLS: Final = 30
_BAR_CHARS: Final = 24
_LISTED_MAX: Final = 50
_LEDGER_MAX: Final = 40
_NOTES_MAX: Final = 30
_HISTORY_SHOWN: Final = 10
_OUTPUT_CHARS: Final = 4_000
_CHECKPOINT_CHARS: Final = 1_500
_RANGE: Final = re.compile(r"-?\d*:-?\d*|\d+")
_PREVIEW_CHARS: Final = 200
_RESULT_PREVIEW_CHARS: Final = 100
_TURNS_MAX: Final = 1_000
"""A number below this is turns; longer ones are the beginning of a record's id."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Something that can stand behind a command, and what it is."""

    text: str
    about: str = ""


def _no_choices(_desk: Desk) -> Iterable[Choice]:
    return ()


@dataclass(frozen=True, slots=True)
class Command:
    """One slash command."""

    name: str
    help: str
    run: Callable[[Desk, str], Answer]
    argument: str = ""
    aliases: tuple[str, ...] = ()
    choices: Callable[[Desk], Iterable[Choice]] = _no_choices
    """What may stand behind it, for completion."""

    @property
    def usage(self) -> str:
        return f"/{self.name} {self.argument}".rstrip()


# Asking


def is_command(text: str) -> bool:
    """Whether a person's words are for us, and not for the model."""
    words = text.strip()
    return (words.startswith("/") and not words.startswith("//")) or is_goodbye(words)


def is_goodbye(text: str) -> bool:
    return text.strip().casefold() in ("quit", "exit")


def as_message(text: str) -> str:
    """What is said to the model: a second slash keeps the first from being a command."""
    words = text.strip()
    return words[1:] if words.startswith("//") else words


def find(word: str) -> Command | None:
    """The command by a name or another name of it, in any case."""
    wanted = word.lstrip("/").casefold()
    return next((one for one in COMMANDS if wanted in (one.name, *one.aliases)), None)


def run(text: str, desk: Desk) -> Answer:
    """Carry out a command. What goes wrong is an answer; the current session stays as it is."""
    word, _, rest = text.strip().partition(" ")
    command = find(word)
    if command is None:
        return _unknown(word)
    try:
        return command.run(desk, rest.strip())
    except HoldfastError as error:
        return refused(f"Error: {error}", error.hint)
    except OSError as error:
        return refused(f"Error: {error}", "nothing was changed")


def _unknown(word: str) -> Answer:
    names = [name for one in COMMANDS for name in (one.name, *one.aliases)]
    near = difflib.get_close_matches(word.lstrip("/").casefold(), names, n=1, cutoff=0.5)
    guess = f"did you mean /{near[0]}?" if near else "/help lists them"
    return refused(
        f"Unknown command: {title_of(word)} ({guess})",
        "nothing was sent; to say something that begins with a slash, begin with two",
    )


# Sessions


def _new(desk: Desk, label: str) -> Answer:
    session = desk.start(label)
    name = checked_label(label)
    return said(line("Created new session: ", Cell(session.id, "name"), f" ({name})" * bool(name)))


def _list(desk: Desk, argument: str) -> Answer:
    infos = desk.infos()
    if not infos:
        return said("No sessions found.")
    shown = infos if argument == "all" else infos[:_LISTED_MAX]
    lines = [
        line(
            "  ",
            Cell(info.key.session, "name"),
            f" ({title_of(info.label)})" if info.label else "",
            Cell(f"  msgs={info.messages:,}  last={_moment(info.last_active)}", "dim"),
            Cell(f"  {info.damaged} damaged", "bad") if info.damaged else "",
            Cell(" <-- current", "good") if info.key == desk.session.key else "",
        )
        for info in shown
    ]
    rest = len(infos) - len(shown)
    more = [line(Cell(f"  … and {rest:,} more: /list all", "dim"))] if rest else []
    return said("Sessions:", *lines, *more)


def _switch(desk: Desk, name: str) -> Answer:
    if not name:
        return refused("Usage: /switch <session_id>", "or the beginning of an id or a label")
    try:
        key = desk.find(name)
    except NoSuchSession as error:
        return refused(f"Session not found: {title_of(name)}", error.hint)
    except AmbiguousName as error:
        fitting = ", ".join(one.partition("/")[2] or one for one in error.candidates)
        return refused(f"Ambiguous prefix, matches: {fitting}", "give more characters")
    if key == desk.session.key:
        return said(f"Already in session: {key.session}")
    desk.open(key)
    return said(line("Switched to session: ", Cell(key.session, "name"), f" ({size_of(desk)})"))


def size_of(desk: Desk) -> str:
    """How much there is in the current session, in the view and in the log."""
    info = desk.info()
    in_log = info.messages if info is not None else 0
    try:
        # Not by the status, which adds up the whole log: a session is opened by its window.
        in_view = sum(len(unit.parts) for unit in desk.session.plan().kept)
    except CannotFit:  # nothing is in view then, and the next turn will say why
        return f"{in_log:,} messages in the log, which no request can hold"
    words = f"{in_view:,} message{'s' * (in_view != 1)}"
    return words if in_log <= in_view else f"{words} in view, {in_log:,} in the log"


def _label(desk: Desk, label: str) -> Answer:
    if not label:
        found = desk.label
        return said(f"Label: {found}" if found else "This session has no label: /label <words>")
    desk.session.rename(checked_label(label))
    return said(f"Session {desk.session.id} is now called: {checked_label(label)}")


def _reset(desk: Desk, label: str) -> Answer:
    old = desk.session
    fresh = desk.take(old.reset(checked_label(label)))
    seed = next((one for one in fresh.store.read(fresh.key) if isinstance(one, Compaction)), None)
    carried = f"{len(seed.summary):,} characters" if seed else "nothing: there was nothing to know"
    return said(
        line("Started fresh session: ", Cell(fresh.id, "name"), f" ({label})" * bool(label)),
        f"Carried over from {old.id}: {carried}",
        line(Cell(f"/switch {old.id} goes back", "dim")),
    )


def _model(desk: Desk, name: str) -> Answer:
    if name:
        desk.use(name)
    session = desk.session
    target = session.target
    return said(
        line("Model: ", Cell(target.model, "name"), f" ({target.provider})"),
        f"Window: {_window(session.window.tokens, session.window.source)}",
    )


def _window(tokens: int, source: str) -> str:
    return f"{tokens:,} tokens ({source})"


# How full it is


def _status(desk: Desk, _argument: str) -> Answer:
    status = desk.status()
    rows: list[tuple[str, str]] = [
        ("Session", _session(status)),
        ("Model", status.model),
        (
            "Window",
            f"{_window(status.window.tokens, status.window.source)}, {status.window.confidence}",
        ),
        (
            "Context",
            f"~{status.tokens:,} tokens, {status.share:.1%} of the window ({status.basis})",
        ),
        ("Messages", f"{status.messages:,} in view, {status.messages_tokens:,} tokens"),
        ("Compaction", _when_compacted(status)),
        (
            "So far",
            f"{_count(status.turns, 'turn')}, {_count(status.calls, 'call')}, "
            f"{_count(status.tools, 'tool result')}, {_count(status.compactions, 'compaction')}, "
            f"{_count(status.prunes, 'trim')}",
        ),
        ("Cost", _cost(status)),
        ("Cache", _cache(status)),
    ]
    width = max(len(name) for name, _ in rows)
    lines = [line(Cell(f"{name:<{width}}  ", "dim"), text) for name, text in rows]
    return said(*lines, *(line(Cell(one, "warn")) for one in status.warnings))


def _session(status: Status) -> str:
    label = f" ({title_of(status.label)})" if status.label else ""
    mode = ", a fresh session for each request" if status.mode == "fresh" else ""
    return f"{status.session}{label}, agent {status.agent}{mode}"


def _when_compacted(status: Status) -> str:
    at = f"at {status.compact_at:,} tokens of messages ({min(status.fill, 9.99):.0%} of the way)"
    if status.turns_left is None:
        return at
    if status.turns_left == 0:
        return f"{at}; due with the next turn"
    return f"{at}; about {_count(status.turns_left, 'more turn')} like these"


def _cost(status: Status) -> str:
    priced = status.calls + status.compactions - status.unpriced
    if status.unpriced and priced <= 0:
        return "not known: no list price for this model"
    without = f", without {_count(status.unpriced, 'call')} of unknown price"
    return f"{money(status.cost)}{without if status.unpriced else ''}"


def money(dollars: float) -> str:
    """An amount with as many digits as it needs to be seen."""
    return f"${dollars:,.2f}" if dollars >= 1 or not dollars else f"${dollars:.4f}"


def _cache(status: Status) -> str:
    sums = f"{status.prompt_tokens:,} input tokens, {status.output_tokens:,} output tokens"
    if status.cache_share is None:
        return "no usage reported yet"
    return f"{status.cache_share:.0%} of the input came from the cache ({sums})"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'s' * (number != 1)}"


def meter(share: float, cells: int = METER_CELLS) -> str:
    """The seed's bar: as full as the window, and never empty where something is in it."""
    filled = min(cells, max(int(cells * min(share, 1.0)), 1 if share > 0 else 0))
    return f"[{'#' * filled}{'-' * (cells - filled)}]"


def tone_of(share: float) -> Tone:
    return "good" if share < 0.5 else "warn" if share < 0.8 else "bad"


def _context(desk: Desk, argument: str) -> Answer:
    word, _, rest = argument.partition(" ")
    if word.casefold() == "list":
        return _ledger(desk.session.plan(), is_whole=rest.strip().casefold() == "all")
    if word:
        return refused(f"Usage: {_named('context').usage}", "/context list shows every record")
    return _usage(desk.session.plan(), desk.status())


def _usage(plan: Plan, status: Status) -> Answer:
    share = status.share
    window = plan.window.tokens
    rows = [_part_row(name, tokens, window, tone) for name, tokens, tone in parts_of(plan)]
    return said(
        f"Context usage: ~{status.tokens:,} / {window:,} tokens",
        line(Cell(meter(share), tone_of(share)), f" {100 * share:.1f}%"),
        f"Messages: {status.messages:,}",
        "",
        Table(("Part", ">Tokens", ">Share", ""), tuple(rows)),
        line(
            Cell(f"sizes are {status.basis}; window: {plan.window.source}. ", "dim"),
            Cell("/context list shows every record", "dim"),
        ),
    )


def parts_of(plan: Plan) -> list[tuple[str, int, Tone]]:
    """What the window is used for, part by part; together they are the window."""
    tokens, budget = plan.tokens, plan.budget
    sums: dict[str, int] = {}
    for entry in plan.ledger:
        name = _PART_NAMES.get(entry.kind, "other")
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
        ("kept for the reply", budget.output_reserve, "dim"),
        ("reserve", budget.dynamic_reserve, "dim"),
    ]
    used = sum(size for _name, size, _tone in parts)
    parts.append(("free", max(0, plan.window.tokens - used), "good"))
    return [part for part in parts if part[1] > 0]


_PART_NAMES: Final = {
    "summary": "summary",
    "user": "your words",
    "assistant": "replies and calls",
    "tool_use": "replies and calls",
    "tool_result": "tool results",
}


def _part_row(name: str, tokens: int, window: int, tone: Tone) -> Row:
    share = tokens / window
    drawn = bar(share, _BAR_CHARS) or "▏"
    return (name, f"{tokens:,}", f"{share:.1%}", Cell(drawn, tone))


def _ledger(plan: Plan, *, is_whole: bool) -> Answer:
    entries = [entry for entry in plan.ledger if entry.action != "silent"]
    shown = entries if is_whole else entries[-_LEDGER_MAX:]
    parts: list[Line | Table | str] = []
    if len(shown) < len(entries):
        earlier = f"{len(entries) - len(shown):,} earlier records: /context list all"
        parts.append(line(Cell(earlier, "dim")))
    columns = ("Record", "Kind", "Action", ">Before", ">After", "Why")
    parts.append(Table(columns, tuple(map(_entry_row, shown))))
    if any(entry.back for entry in shown):
        back = "nothing is lost: `holdfast show RECORD` has each of them whole"
        parts.append(line(Cell(back, "dim")))
    sums = f"{plan.tokens.messages:,} tokens of messages ({plan.tokens.basis}), budget "
    parts.append(line(Cell(f"{sums}{plan.budget.tokens:,}", "dim")))
    return said(*parts)


def _entry_row(entry: Entry) -> Row:
    return (
        entry.record,
        title_of(f"{entry.kind} {entry.name}".strip()),
        Cell(entry.action, _ACTION_TONES[entry.action]),
        f"{entry.before:,}" if entry.before else "",
        f"{entry.after:,}" if entry.after else "",
        entry.why,
    )


_ACTION_TONES: Final[dict[Action, Tone]] = {
    "kept": "plain",
    "trimmed": "warn",
    "cleared": "warn",
    "summarised": "warn",
    "dropped": "bad",
    "injected": "good",
    "silent": "dim",
}


# Cutting and taking back


def _compact(desk: Desk, argument: str) -> Answer:
    words = argument.split()
    is_preview = "--preview" in words
    focus = " ".join(word for word in words if word != "--preview")
    before = desk.status().messages
    done = desk.session.compact(focus, preview=is_preview)
    if done.outcome == "skipped":
        return refused(f"{done.detail[:1].upper()}{done.detail[1:]}.")
    sizes = f"{done.tokens_before:,} -> {done.tokens_after:,} tokens"
    how = "written by the model" if done.method == "model" else "made by code, without a model"
    if is_preview:
        return said(
            f"Preview: {sizes}; nothing was changed",
            f"The summary, {how}:",
            *(line(Cell(f"  {one}", "dim")) for one in done.summary.splitlines()),
        )
    after = desk.status().messages
    cost = f", {money(done.cost)}" if done.cost else ""
    reason = done.detail.removeprefix("made by code: ")
    why = f" ({reason})" if reason else ""
    return said(
        line(
            Cell("[compact] ", "good"),
            f"{max(0, before - after):,} messages -> summary ({len(done.summary):,} chars)",
        ),
        f"{before:,} -> {after:,} messages",
        f"{sizes}; {how}{why}; {_count(done.calls, 'call')} to the model{cost}",
        line(Cell("nothing is lost: /undo takes it back", "dim")),
    )


def _rewind(desk: Desk, argument: str) -> Answer:
    if argument.isdecimal() and int(argument) < _TURNS_MAX:
        done = desk.session.rewind(turns=int(argument))
    else:
        done = desk.session.rewind(argument or None)
    return _took_back(desk, done.what, "/undo brings it back")


def _undo(desk: Desk, argument: str) -> Answer:
    done = desk.session.undo(argument or None)
    return _took_back(desk, done.what, "")


def _took_back(desk: Desk, what: str, hint: str) -> Answer:
    words = f"{what[:1].upper()}{what[1:]}; {size_of(desk)}"
    return said(words, *([line(Cell(hint, "dim"))] if hint else []))


def _checkpoint(desk: Desk, _argument: str) -> Answer:
    session = desk.session
    record = session.checkpoint()
    stored = session.store.find(session.key, record)
    state = read_state(stored.state) if isinstance(stored, Checkpoint) else ""
    text = render(state, _CHECKPOINT_CHARS) if isinstance(state, State) else ""
    return said(
        *(line(Cell(_printable(one), "dim")) for one in text.splitlines()),
        line("Checkpoint stored: ", Cell(record, "name")),
        line(Cell("/reset starts a fresh session that knows it", "dim")),
    )


def _continue(_desk: Desk, _argument: str) -> Answer:
    return Answer(then="resume")


# Looking back


def _memory(desk: Desk, query: str) -> Answer:
    found = desk.notes(query)
    if not found:
        about = f" about: {title_of(query)}" if query else ""
        hint = "notes are saved before a compaction; `holdfast memory add` writes one"
        return said(f"No notes{about}.", line(Cell(hint, "dim")))
    lines = [
        line(Cell(f"{note.path}#L{note.line}  ", "dim"), _one_line(note.text), _from(note))
        for note in found[:_NOTES_MAX]
    ]
    rest = len(found) - len(lines)
    more = [line(Cell(f"… and {rest:,} more: /memory <words> searches", "dim"))] if rest else []
    return said(*lines, *more)


def _from(note: Note) -> Cell:
    return Cell(f"  ({note.session})" if note.session else "", "dim")


def _mode(desk: Desk, argument: str) -> Answer:
    session = desk.session
    if argument in ("continue", "fresh"):
        session.set_mode("fresh" if argument == "fresh" else "continue")
    elif argument:
        return refused(f"Usage: {_named('mode').usage}")
    about = {
        "continue": "what you say next goes on in this session",
        "fresh": "what you say next starts a session that knows this one by its checkpoint",
    }
    return said(f"Mode: {session.mode} ({about[session.mode]})")


def _history(desk: Desk, argument: str) -> Answer:
    if argument and not (argument.isdecimal() and int(argument) > 0):
        return refused(f"Usage: {_named('history').usage}", "n is how many messages to show")
    records = desk.session.messages(int(argument or _HISTORY_SHOWN))
    if not records:
        return said("Nothing was said in this session yet.")
    return said(*map(_history_line, records))


def _history_line(record: Record) -> Line:
    head = Cell(f"{record.id}  ", "dim")
    match record:
        case User(content=content):
            return line(head, Cell("you        ", "name"), _one_line(text_of(content)))
        case Assistant(content=content):
            calls = "".join(f" [tool: {call.get('name')}]" for call in tool_calls(content))
            return line(
                head,
                Cell("assistant  ", "good"),
                _one_line(text_of(content)),
                Cell(calls, "dim"),
            )
        case ToolResult(content=content, is_error=is_error):
            text = _one_line(text_of(content), _RESULT_PREVIEW_CHARS)
            return line(head, Cell("result     ", "bad" if is_error else "dim"), Cell(text, "dim"))
        case _:
            return line(head, record.kind)


def _output(desk: Desk, argument: str) -> Answer:
    """An output that was moved out: its beginning, some lines, or the lines that match."""
    ref, _, part = argument.partition(" ")
    part = part.strip()
    if not ref:
        return refused(f"Usage: {_named('output').usage}", "/context list shows the records")
    is_range = _RANGE.fullmatch(part) is not None
    found = desk.session.output_read(
        ref,
        lines=part if is_range else None,
        pattern=part if part and not is_range else None,
        max_chars=_OUTPUT_CHARS,
    )
    shown = [line(_printable(text)) for text in found.text.splitlines()]
    return said(*shown, line(Cell(f"{found.kind}, ref {found.ref}: {found.note}", "dim")))


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


def _outputs(desk: Desk) -> Iterable[Choice]:
    """The newest outputs that were moved out."""
    for record in reversed(desk.session.store.last(desk.session.key, _LISTED_MAX)):
        if isinstance(record, ToolResult) and record.output_ref is not None:
            ref = record.output_ref
            about = f"{record.name or 'a tool'}, {ref.chars or ref.bytes:,} characters"
            yield Choice(ref.sha256[:REF_CHARS], about)


def _one_line(text: str, chars: int = _PREVIEW_CHARS) -> str:
    words = " ".join(text[: 4 * chars].split())
    plain = words if words.isprintable() else "".join(filter(str.isprintable, words))
    return cut(plain, chars, keep="head", marker=ellipsis).text


def _moment(ts: float) -> str:
    try:
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(ts)) if ts > 0 else "-"
    except (OverflowError, ValueError, OSError):
        return f"{ts:g}"


# Help


def _help(_desk: Desk, argument: str) -> Answer:
    if argument:
        command = find(argument)
        if command is None:
            return _unknown(argument)
        names = ", ".join(f"/{one}" for one in command.aliases)
        return said(
            line(Cell(command.usage, "name"), f"  {command.help}"),
            *([f"also: {names}"] if names else []),
        )
    width = max(len(one.usage) for one in COMMANDS)
    return said(
        "Commands:",
        *(line("  ", Cell(f"{one.usage:<{width}}", "name"), f"  {one.help}") for one in COMMANDS),
    )


def _quit(_desk: Desk, _argument: str) -> Answer:
    return said("Goodbye.", then="quit")


def _named(name: str) -> Command:
    command = find(name)
    assert command is not None
    return command


# What may stand behind a command


def _sessions(desk: Desk) -> Iterable[Choice]:
    for info in desk.infos():
        about = info.label or info.title
        yield Choice(info.key.session, title_of(about))
        if info.label and len(info.label.split()) == 1:
            yield Choice(info.label, info.key.session)


def _records(desk: Desk) -> Iterable[Choice]:
    for record in reversed(desk.session.messages(_LISTED_MAX)):
        if isinstance(record, User | Assistant):
            yield Choice(record.id, f"{record.kind}: {_one_line(text_of(record.content), 60)}")


def _cuts(desk: Desk) -> Iterable[Choice]:
    for record in desk.session.store.last(desk.session.key, _LISTED_MAX):
        if record.kind in ("compaction", "prune"):
            yield Choice(record.id, record.kind)


def _models(_desk: Desk) -> Iterable[Choice]:
    return (Choice(name) for name in NAMES)


def _names(_desk: Desk) -> Iterable[Choice]:
    return (Choice(one.name, one.help) for one in COMMANDS)


def _of(*choices: Choice) -> Callable[[Desk], Iterable[Choice]]:
    return lambda _desk: choices


COMMANDS: Final = (
    Command("new", "start another session", _new, "[label]"),
    Command("list", "the sessions, newest first", _list, aliases=("sessions",)),
    Command(
        "switch",
        "go to a session, by the beginning of its id or label",
        _switch,
        "<id or label>",
        choices=_sessions,
    ),
    Command("label", "name this session", _label, "[words]", aliases=("name",)),
    Command("status", "window, tokens, compactions, cost, cache", _status),
    Command(
        "context",
        "what the window is used for; `list`: every record and what became of it",
        _context,
        "[list [all]]",
        choices=_of(Choice("list", "every record")),
    ),
    Command(
        "compact",
        "shorten the history now, with a focus if you like",
        _compact,
        "[--preview] [focus]",
        choices=_of(Choice("--preview", "only say what it would do")),
    ),
    Command(
        "rewind", "go back n turns, or to a record", _rewind, "[n or record]", choices=_records
    ),
    Command(
        "undo", "take back the last rewind, compaction or turn", _undo, "[record]", choices=_cuts
    ),
    Command("checkpoint", "store what a fresh session would have to know", _checkpoint),
    Command(
        "mode",
        "go on in one session, or in a fresh one after each answer",
        _mode,
        "[continue or fresh]",
        choices=_of(Choice("continue", "one session"), Choice("fresh", "one for each request")),
    ),
    Command("reset", "a fresh session that knows what this one was doing", _reset, "[label]"),
    Command(
        "memory",
        "notes of all sessions, the newest first",
        _memory,
        "[words]",
        aliases=("notes",),
    ),
    Command("history", "the last messages", _history, "[n]"),
    Command(
        "output",
        "read an output that was moved out: its beginning, lines, or what matches",
        _output,
        "<ref> [a:b or pattern]",
        choices=_outputs,
    ),
    Command("continue", "answer what was interrupted", _continue),
    Command("model", "which model, or another one", _model, "[name]", choices=_models),
    Command("help", "this list", _help, "[command]", choices=_names),
    Command("quit", "leave; everything is stored already", _quit, aliases=("exit",)),
)
"""Every command of every surface."""
