"""Slash commands that look back: messages, outputs, notes, checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.checkpoint.render import render_checkpoint
from holdfast.core.checkpoint.state import State, read_state
from holdfast.core.limits import REF_CHARS
from holdfast.core.log.listing import title_of
from holdfast.core.log.records import Assistant, Checkpoint, ToolResult, User, text_of, tool_calls
from holdfast.core.owners import UnknownOwner
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.engine.memory.notes import newest
from holdfast.engine.operations.context import ReadOutput, StoreCheckpoint
from holdfast.engine.operations.history import ReadMessages
from holdfast.surfaces.answers import SHELL, Cell, answer, dim, line
from holdfast.surfaces.formatting import one_line, printable
from holdfast.surfaces.slash_commands.command import (
    AT_LENGTH,
    Choice,
    for_guest,
    for_owner,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.memory.note_files import Note
    from holdfast.surfaces.answers import CommandAnswer, StyledLine
    from holdfast.surfaces.chat_context import ChatContext

_NOTES_MAX: Final = 30
_CHOICES_MAX: Final = 50
_CHECKPOINT_CHARS: Final = 1_500
_RESULT_PREVIEW_CHARS: Final = 100
"""Sizes that fill about a screen."""
_RANGE: Final = lazy_pattern(r"-?\d*:-?\d*|\d+")


def _output_choices(chat: ChatContext) -> Iterable[Choice]:
    """Offer the newest offloaded outputs."""
    for record in reversed(chat.session.store.last(chat.session.key, _CHOICES_MAX)):
        if isinstance(record, ToolResult) and record.output_ref is not None:
            ref = record.output_ref
            about = f"{record.name or 'a tool'}, {ref.chars or ref.bytes:,} characters"
            yield Choice(ref.sha256[:REF_CHARS], about)


@for_guest("checkpoint", StoreCheckpoint, "queued")
def _checkpoint(chat: ChatContext, _asked: StoreCheckpoint) -> CommandAnswer:
    session = chat.session
    record = session.checkpoint()
    stored = session.store.find(session.key, record)
    state = read_state(stored.state) if isinstance(stored, Checkpoint) else ""
    text = render_checkpoint(state, _CHECKPOINT_CHARS) if isinstance(state, State) else ""
    return answer(
        *(dim(printable(each, " ")) for each in text.splitlines()),
        line("Checkpoint stored: ", Cell(record, "name")),
        dim("/reset starts a fresh session from it"),
    )


@for_guest(
    "memory",
    "show the notes of all sessions, newest first",
    "at once",
    argument="[words]",
    aliases=("notes",),
)
def _memory(chat: ChatContext, query: str) -> CommandAnswer:
    session, owner = chat.session, chat.info().owner
    notes: Sequence[Note] = ()
    if not isinstance(owner, UnknownOwner):
        notes = newest(session.store.notes(session.key.agent, owner).notes(), words=query)
    if not notes:
        about = f" about: {title_of(query)}" if query else ""
        return answer(
            f"No notes{about}.",
            dim('people write notes; with `notes="model"` the model does, before a compaction'),
            dim("`holdfast memory add` writes one", needs=SHELL),
        )
    lines = [
        line(
            Cell(f"{note.path}#L{note.line}  ", "dim"),
            one_line(note.text),
            Cell(f"  ({note.session})" if note.session else "", "dim"),
        )
        for note in notes[:_NOTES_MAX]
    ]
    rest = len(notes) - len(lines)
    more = [dim(f"… and {rest:,} more: /memory <words> searches")] if rest else []
    return answer(*lines, *more)


@for_guest("history", ReadMessages, "at once", "limit", screen={"limit": 10}, surfaces=AT_LENGTH)
def _history(chat: ChatContext, asked: ReadMessages) -> CommandAnswer:
    records = chat.session.messages(asked.limit)
    if not records:
        return answer("This session has no messages yet.")
    return answer(*map(_history_line, records))


def _history_line(record: Record) -> StyledLine:
    head = Cell(f"{record.id}  ", "dim")
    match record:
        case User(content=content):
            return line(head, Cell("you        ", "name"), one_line(text_of(content)))
        case Assistant(content=content):
            calls = "".join(f" [tool: {call.get('name')}]" for call in tool_calls(content))
            text = one_line(text_of(content))
            return line(head, Cell("assistant  ", "good"), text, Cell(calls, "dim"))
        case ToolResult(content=content, is_error=is_error):
            text = one_line(text_of(content), _RESULT_PREVIEW_CHARS)
            return line(head, Cell("result     ", "bad" if is_error else "dim"), Cell(text, "dim"))
        case _:  # `messages` returns no other kind; an unknown record is named by its kind
            return line(head, record.kind)


@for_owner(
    "output",
    ReadOutput,
    "at once",
    "ref",
    "search",
    argument="<ref> [lines or search]",
    screen={"max_chars": 4_000},
    surfaces=AT_LENGTH,
    choices=_output_choices,
)
def _output(chat: ChatContext, asked: ReadOutput) -> CommandAnswer:
    is_range = _RANGE.fullmatch(asked.search or "") is not None
    excerpt = chat.session.own_loop.read_output(
        asked.ref,
        lines=asked.search if is_range else None,
        pattern=None if is_range else asked.search,
        max_chars=asked.max_chars,
    )
    shown = [line(printable(text, " ")) for text in excerpt.text.splitlines()]
    return answer(*shown, dim(f"{excerpt.kind}, ref {excerpt.ref}: {excerpt.note}"))


COMMANDS: Final = (
    _checkpoint,
    _memory,
    _history,
    _output,
)
