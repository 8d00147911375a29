"""From records to units that cannot be taken apart, repaired where the log is not sound.

A unit is a user's message, or a step: an assistant message with the answers to all its calls. What
a provider would refuse (orphan, doubled, reused or missing ids, empty messages) is mended here, in
the copy that goes out; each repair is reported, and the log stays as it is.

A `Thread` takes records one at a time and never looks ahead, so that more records only ever add
units: what was sent stays the beginning of what will be sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

import msgspec

from holdfast.core.dialects.prefix import origin_of
from holdfast.core.extract.shell_commands import has_failed
from holdfast.core.limits import CONTEXT_CHARS
from holdfast.core.log.records import (
    Assistant,
    InjectedContext,
    Record,
    ToolResult,
    ToolsAdded,
    ToolUse,
    User,
)
from holdfast.core.log.replay import is_from_program
from holdfast.core.models.messages import (
    EMPTY_RESULT,
    INTERRUPTED,
    AddedTools,
    Block,
    Image,
    Other,
    Piece,
    Text,
    Thinking,
    ToolAnswer,
    ToolCall,
    read_blocks,
    read_pieces,
)
from holdfast.core.models.usage import read_usage
from holdfast.core.projection.payloads import has_payload, without_payloads
from holdfast.core.projection.prune import name_record
from holdfast.core.projection.units import ContextUnit, MessagePart, Source
from holdfast.core.refusals import as_sent, is_media, is_refusal, mend_file, write_note
from holdfast.core.text.cut import cut, has_lone_surrogates
from holdfast.core.text.fences import fence_context

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from holdfast.core.dialects.prefix import SentRequest
    from holdfast.core.models.usage import Usage
    from holdfast.core.refusals import LeftOut

Flaw = Literal[
    "orphan-result",
    "duplicate-result",
    "moved-result",
    "late-result",
    "interrupted-call",
    "blank-id",
    "reused-id",
    "blank-name",
    "empty-message",
    "empty-result",
    "merged-roles",
    "bad-unicode",
    "foreign-thinking",
    "payload-in-text",
    "refused",
    "unsendable",
    "no-opening",
    "no-question",
]
MEANING: Final[dict[str, str]] = {
    "orphan-result": "a result without its call was left out",
    "duplicate-result": "a second result of one call was left out",
    "moved-result": "a result was moved to its call",
    "late-result": "a result that came after the next reply is shown as a note",
    "interrupted-call": "a call without a result was answered as interrupted",
    "blank-id": "a call without an id got one",
    "reused-id": "a call whose id was taken got another",
    "blank-name": "a call without a tool's name got one",
    "empty-message": "a message without content was left out",
    "empty-result": "an empty result says that it is empty",
    "merged-roles": "two messages of one role in a row became one",
    "bad-unicode": "lone surrogates were replaced",
    "foreign-thinking": "thinking of another model, or without a signature, was left out",
    "payload-in-text": "a large data URI in a text became a note with a ref, or a picture",
    "refused": "what the provider refused is not sent again; a note has its place",
    "unsendable": "a file that every provider refuses became a note: cut off, empty, encrypted, or "
    "not what it says",
    "no-opening": "a note takes the place of the first user message",
    "no-question": "a note takes the place of a new user message",
}
"""Every repair by name."""

_B = TypeVar("_B", bound=Block)
UNNAMED_TOOL: Final = "unnamed_tool"


class ViewRepair(msgspec.Struct, frozen=True):
    """Something in the outgoing copy that is not as the log has it."""

    flaw: Flaw
    record: str
    detail: str = ""


_UNREAD: Final = object()


class _ReadRecord:
    """The contents of one record."""

    __slots__ = ("blocks", "origin", "part", "record", "usage")

    def __init__(self, record: Record) -> None:
        self.record = record
        """Kept, so that its address is not used again meanwhile."""
        self.blocks: tuple[Block, ...] | None = None
        self.origin: Any = _UNREAD
        self.usage: Any = _UNREAD
        self.part: MessagePart | None = None


class ReadRecords:
    """The contents of records by identity: a view that is read after a cut reads none again."""

    def __init__(self) -> None:
        self._known: dict[int, _ReadRecord] = {}

    def __len__(self) -> int:
        return len(self._known)

    def keep(self, records: Sequence[Record]) -> None:
        """Forget all but these records."""
        known = self._known
        self._known = {at: known[at] for at in map(id, records) if at in known}

    def blocks(self, record: User | Assistant) -> tuple[Block, ...]:
        """Return the blocks of a message. A call or thinking in a user's is data: no one made
        it."""
        found = self._of(record)
        if found.blocks is None:
            found.blocks = self._read(record)
        return found.blocks

    def origin(self, record: Assistant) -> SentRequest | None:
        """Return the request behind a reply."""
        found = self._of(record)
        if found.origin is _UNREAD:
            found.origin = origin_of(record)
        origin: SentRequest | None = found.origin
        return origin

    def usage(self, record: Assistant) -> Usage | None:
        """Return the usage that a reply reports."""
        found = self._of(record)
        if found.usage is _UNREAD:
            found.usage = read_usage(record.usage, record.provider or "")
        usage: Usage | None = found.usage
        return usage

    def part(self, record: Record, made: MessagePart) -> MessagePart:
        """Return the part that a record became; the same object while it is the same part."""
        found = self._of(record)
        if found.part is None or found.part != made:
            found.part = made
        return found.part

    def _of(self, record: Record) -> _ReadRecord:
        found = self._known.get(id(record))
        if found is None:
            found = self._known[id(record)] = _ReadRecord(record)
        return found

    def _read(self, record: User | Assistant) -> tuple[Block, ...]:
        if type(record) is not Assistant:
            return read_pieces(record.content)
        provider, model, sent = record.provider or "", record.model or "", self.origin(record)
        dialect = sent.dialect if sent is not None else ""
        return read_blocks(record.content, provider=provider, model=model, dialect=dialect)


class Thread:
    """Units in the making. Feed it records in order; `units` is the whole so far."""

    def __init__(
        self,
        admits: Callable[[Assistant, Thinking], bool] = lambda _reply, _thinking: True,
        maker: tuple[str, str] = ("", ""),
        barred: frozenset[str] = frozenset(),
        left_out: Mapping[str, LeftOut] | None = None,
        additions: frozenset[str] = frozenset(),
        known: ReadRecords | None = None,
    ) -> None:
        self._known = ReadRecords() if known is None else known
        self.repairs: list[ViewRepair] = []
        self._admits = admits
        """True if the target takes a piece of a reply's thinking back."""
        self._maker = maker
        """The provider and the model that are asked."""
        self._barred = barred
        """Replies of which no signature is sent again."""
        self._left_out = left_out or {}
        """The parts that the target refused, by record."""
        self._additions = additions
        """The records whose tools are added in their place."""
        self._added: set[str] = set()
        """The tools that were added so far."""
        self._closed: list[ContextUnit] = []
        self._step: _OpenStep | None = None
        self._waiting: list[ContextUnit] = []
        """The user's messages since the calls of the open step."""
        self._early: list[ToolResult] = []
        """Results whose call has not been seen; the next assistant message may have it."""
        self._order: dict[str, int] = {}
        """The place of each record among all that were fed."""
        self._ids: dict[str, int] = {}
        """The number of times each call id was given out."""
        self._answered: set[str] = set()
        self._interrupted: set[str] = set()
        """Calls whose result only stands in the place of one that was not known."""

    def feed(self, record: Record) -> None:
        self._order[record.id] = len(self._order)
        sent: Sequence[Record] = (record,)
        if record.id in self._left_out:
            self._repair("refused", record)
            sent = as_sent(sent, self._left_out)
        for record in sent:
            # By exact type: to ask a struct's class for its instances takes several times as long.
            kind = type(record)
            if kind is ToolResult:
                self._take_result(record)  # type: ignore[arg-type]
            elif kind is Assistant:
                self._take_assistant(record)  # type: ignore[arg-type]
            elif kind is User:
                self._take_user(record)  # type: ignore[arg-type]
            elif kind is ToolUse:
                self._take_call(record)  # type: ignore[arg-type]
            elif kind is ToolsAdded and record.id in self._additions:
                for part in _find_additions(record, self._added):  # type: ignore[arg-type]
                    self._add_said(part)
            elif kind is InjectedContext and (text := _context_text(record)):  # type: ignore[arg-type]
                self._add_said(MessagePart(record.id, "context", "user", (Text(text),)))

    def units(self, start: int = 0) -> list[ContextUnit]:
        """Everything fed so far; calls that are still open are answered as interrupted."""
        units = self._closed[start:]
        if self._step is not None:
            units.append(self._step.unit())
        units += self._waiting
        return units

    def seal(self) -> list[ContextUnit]:
        """Hand over everything fed so far. What follows starts new units, and takes no id twice."""
        if self._step is not None:
            self._close()
        self._lose_early()
        units, self._closed = self._closed, []
        return units

    @property
    def position(self) -> int:
        """The index of the unit that the newest assistant message is in."""
        return len(self._closed)

    def closed_units(self, start: int, end: int) -> list[ContextUnit]:
        """Units that nothing can be added to any more."""
        return self._closed[start:end]

    def all_repairs(self) -> list[ViewRepair]:
        """The repairs so far, with those of what is still open."""
        found = list(self.repairs)
        if self._step is not None:
            found += self._step.interruptions()
        found += [_orphan(result) for result in self._early]
        return found

    def _take_user(self, record: User) -> None:
        blocks = self._read(record)
        if not blocks:
            return
        answers = [block for block in blocks if _is_answer(block)]
        if answers:
            # A message in a provider's own shape: the results are blocks of it.
            for block in answers:
                assert isinstance(block, Other)
                self._take_result(_result_in(record, block))
            blocks = tuple(block for block in blocks if not _is_answer(block))
            if not blocks:
                return
        self._lose_early()
        source: Source = "program" if is_from_program(record) else "user"
        said = MessagePart(record.id, source, "user", blocks)
        self._add_said(self._known.part(record, said))

    def _take_assistant(self, record: Assistant) -> None:
        if is_refusal(record):
            self._repair("refused", record)
            return
        blocks = self._read(record)
        if not blocks:
            return
        step = self._open_for(record.id)
        self._move_unseen(record)
        blocks = self._with_sound_calls(record, blocks)
        said = MessagePart(record.id, "assistant", "assistant", blocks)
        step.add(self._known.part(record, said))
        early, self._early = self._early, []
        for result in early:
            if step.takes(result):
                self._repair("moved-result", result, "came before its call")
                self._take_result(result)
            else:
                self.repairs.append(_orphan(result))

    def _move_unseen(self, record: Assistant) -> None:
        """Put what was said while a reply was made behind it, where its model had not seen it."""
        sent = self._known.origin(record)
        seen = self._order.get(sent.seen) if sent is not None else None
        if seen is None:
            return
        start = len(self._closed)
        while start and self._is_said_after(self._closed[start - 1], seen):
            start -= 1
        self._waiting[:0] = self._closed[start:]
        del self._closed[start:]

    def _is_said_after(self, unit: ContextUnit, seen: int) -> bool:
        is_reply = unit.parts[0].source == "assistant"
        return not is_reply and self._order.get(unit.first, 0) > seen

    def _take_call(self, record: ToolUse) -> None:
        """A call that stands alone, as other writers leave it."""
        block = {"type": "tool_use", "id": record.tool_use_id, "name": record.name}
        calls = read_blocks([{**block, "input": record.input}])
        step = self._step
        if step is None or step.has_answers or self._waiting:
            step = self._open_for(record.id)
        blocks = self._with_sound_calls(record, calls)
        step.add(MessagePart(record.id, "assistant", "assistant", blocks))

    def _take_result(self, record: ToolResult) -> None:
        step = self._step
        if record.key is not None or step is None or not step.takes(record):
            self._take_stray(record)
            return
        content = self._lift_payloads(record, read_pieces(record.content))
        if has_lone_surrogates(record.content):
            self._repair("bad-unicode", record)
        if not content:
            self._repair("empty-result", record)
            content = (Text(EMPTY_RESULT),)
        if self._waiting:
            self._repair("moved-result", record, "came after a user message")
        call = step.answer(record, content, self._known)
        self._answered.add(record.tool_use_id)
        if _stands_in(record):
            self._interrupted.add(record.tool_use_id)
        if call.id != record.tool_use_id and not record.tool_use_id.strip():
            self._repair("blank-id", record, f"taken for the answer to `{call.name}`")

    def _take_stray(self, record: ToolResult) -> None:
        """A result that the open step did not ask for."""
        if record.key is not None:  # it says itself whose it is, once
            if record.key not in self._answered:
                self._answered |= set() if record.pending else {record.key}
                self._tell_late(record)
            else:
                self._repair("duplicate-result", record, record.tool_use_id)
        elif record.tool_use_id in self._interrupted and not _stands_in(record):
            # Someone took it for interrupted while it ran.
            self._interrupted.discard(record.tool_use_id)
            self._repair("late-result", record, record.tool_use_id)
            self._tell_late(record)
        elif record.tool_use_id in self._answered:
            self._repair("duplicate-result", record, record.tool_use_id)
        elif record.tool_use_id in self._ids:
            self._repair("late-result", record, record.tool_use_id)
            self._tell_late(record)
        else:
            self._early.append(record)

    def _tell_late(self, record: ToolResult) -> None:
        """The model was told that the call was interrupted; that stays, and this is news."""
        content = self._lift_payloads(record, read_pieces(record.content)) or (Text(EMPTY_RESULT),)
        if record.key is None:
            self._answered.add(record.tool_use_id)
            name = record.tool_use_id
            content = (
                Text(f"[The result of the interrupted call `{name}` arrived late:]"),
                *content,
            )
        self._add_said(MessagePart(record.id, "tool_result", "user", content))

    def _add_said(self, part: MessagePart) -> None:
        waiting = self._closed if self._step is None else self._waiting
        waiting.append(ContextUnit((part,)))

    def _open_for(self, record: str) -> _OpenStep:
        """The step that a new assistant message belongs to."""
        step = self._step
        if step is not None:
            if not step.has_answers and not self._waiting:
                self.repairs.append(ViewRepair("merged-roles", record, "assistant after assistant"))
                return step
            self._close()
        self._step = _OpenStep()
        return self._step

    def _close(self) -> None:
        assert self._step is not None
        self.repairs += self._step.interruptions()
        self._closed.append(self._step.unit())
        self._closed += self._waiting
        self._waiting.clear()
        self._step = None

    def _lose_early(self) -> None:
        self.repairs += [_orphan(result) for result in self._early]
        self._early.clear()

    def _read(self, record: User | Assistant) -> tuple[Block, ...]:
        is_reply = type(record) is Assistant
        blocks = self._read_reply(record) if is_reply else self._known.blocks(record)  # type: ignore[arg-type]
        blocks = self._lift_payloads(record, blocks)
        if not blocks:
            self._repair("empty-message", record)
        if has_lone_surrogates(record.content):
            self._repair("bad-unicode", record)
        return blocks

    def _read_reply(self, record: Assistant) -> tuple[Block, ...]:
        """The blocks of a reply, with the thinking that the target takes back."""
        provider, model = record.provider or "", record.model or ""
        blocks = self._known.blocks(record)
        kept = tuple(b for b in blocks if type(b) is not Thinking or self._admits(record, b))
        if len(kept) < len(blocks):
            self._repair("foreign-thinking", record, model)
        if (provider, model) != self._maker or record.id in self._barred:
            kept = tuple(map(_strip_signature, kept))
        return kept

    def _lift_payloads(
        self, record: Record, blocks: tuple[_B, ...]
    ) -> tuple[_B | Text | Image, ...]:
        """The blocks without large payloads in their texts: sent as text, a picture is thousands
        of tokens and shows nothing. A model's own message has no pictures. Media that the target
        refused are notes."""
        if any(map(has_payload, blocks)):
            self._repair("payload-in-text", record)
            may_show = type(record) is not Assistant
            blocks = tuple(
                lifted
                for block in blocks
                for lifted in without_payloads(block, record.id, may_show=may_show)
            )
        if record.id in self._left_out:
            return tuple(
                Text(write_note(block, record.id)) if is_media(block) else block for block in blocks
            )
        if any(map(is_media, blocks)) and type(record) is not Assistant:
            mended, flaws = _mend_files(blocks, record.id)
            for _flaw in range(flaws):
                self._repair("unsendable", record)
            return mended
        return blocks

    def _with_sound_calls(
        self, record: Assistant | ToolUse, blocks: tuple[Block, ...]
    ) -> tuple[Block, ...]:
        if not any(type(block) is ToolCall for block in blocks):
            return blocks
        return tuple(
            self._sound_call(record, block) if isinstance(block, ToolCall) else block
            for block in blocks
        )

    def _sound_call(self, record: Assistant | ToolUse, call: ToolCall) -> ToolCall:
        if not call.name.strip():
            self._repair("blank-name", record)
            call = msgspec.structs.replace(call, name=UNNAMED_TOOL)
        if not call.id.strip():
            number = self._ids[""] = self._ids.get("", 0) + 1
            call = msgspec.structs.replace(call, id=_free_id(self._ids, f"call_{number}"))
            self._repair("blank-id", record, call.id)
        elif call.id in self._ids:
            taken = call.id
            call = msgspec.structs.replace(call, id=_free_id(self._ids, taken))
            self._repair("reused-id", record, taken)
            # A result by this name is now for this call: pairs are by occurrence.
            self._answered.discard(taken)
            self._interrupted.discard(taken)
            assert self._step is not None
            self._step.alias(taken, call.id)
        self._ids.setdefault(call.id, 1)
        return call

    def _repair(self, flaw: Flaw, record: Record, detail: str = "") -> None:
        self.repairs.append(ViewRepair(flaw, record.id, detail))


def _find_additions(record: ToolsAdded, known: set[str]) -> list[MessagePart]:
    """The tools that were added here, which are known from then on; two writers may have added the
    same ones."""
    named = (str(tool.get("name")) for tool in record.tools)
    names = tuple(name for name in dict.fromkeys(named) if name not in known)
    known.update(names)
    return [MessagePart(record.id, "tools", "user", (AddedTools(names),))] if names else []


def _mend_files(
    blocks: tuple[_B | Text | Image, ...], record: str
) -> tuple[tuple[_B | Text | Image, ...], int]:
    """Return blocks whose files can be sent, with notes, and how many files cannot."""
    mended: list[_B | Text | Image] = []
    flaws = 0
    for block in blocks:
        sound = mend_file(block, record)
        if isinstance(sound, str):
            flaws += 1
            mended.append(Text(sound))
            continue
        mended.append(sound)
        if isinstance(sound, Image) and sound.note:
            mended.append(Text(sound.note))
    return tuple(mended), flaws


class _OpenStep:
    """An assistant message whose answers are still coming in."""

    def __init__(self) -> None:
        self._said: list[MessagePart] = []
        self._calls: list[ToolCall] = []
        self._open: dict[str, ToolCall] = {}
        """Calls without an answer, by id."""
        self._answers: dict[str, MessagePart] = {}
        self._aliases: dict[str, list[str]] = {}
        self._finished: ContextUnit | None = None

    @property
    def has_answers(self) -> bool:
        return bool(self._answers)

    def add(self, part: MessagePart) -> None:
        self._finished = None
        self._said.append(part)
        calls = [block for block in part.blocks if isinstance(block, ToolCall)]
        self._calls += calls
        self._open.update((call.id, call) for call in calls)

    def alias(self, name: str, real: str) -> None:
        """Results by `name` are for the call that was renamed to `real`."""
        self._aliases.setdefault(name, []).append(real)

    def takes(self, record: ToolResult) -> bool:
        return self._call_for(record) is not None

    def answer(
        self, record: ToolResult, content: tuple[Piece, ...], known: ReadRecords
    ) -> ToolCall:
        call = self._call_for(record)
        assert call is not None
        del self._open[call.id]
        self._finished = None
        block = ToolAnswer(call.id, content, is_error=record.is_error, name=call.name)
        said = MessagePart(record.id, "tool_result", "user", (block,), is_failed=has_failed(record))
        self._answers[call.id] = known.part(record, said)
        return call

    def interruptions(self) -> list[ViewRepair]:
        said = self._said[-1].record if self._said else ""
        calls = self._open.values()
        return [ViewRepair("interrupted-call", said, f"{call.name} {call.id}") for call in calls]

    def unit(self) -> ContextUnit:
        """The step as it is now; the same object until something is added to it."""
        if self._finished is None:
            answers = (
                self._answers.get(call.id) or _interrupted_part(call) for call in self._calls
            )
            self._finished = ContextUnit((*self._said, *answers))
        return self._finished

    def _call_for(self, record: ToolResult) -> ToolCall | None:
        name = record.tool_use_id
        if not name.strip():
            # Nothing says whose it is; with one call open there is no doubt.
            return next(iter(self._open.values())) if len(self._open) == 1 else None
        names = (name, *self._aliases.get(name, ()))
        return next((self._open[name] for name in names if name in self._open), None)


def _free_id(ids: dict[str, int], name: str) -> str:
    """An id that is not given out yet."""
    number, candidate = ids.get(name, 0), name
    while candidate in ids:
        number += 1
        candidate = f"{name}_{number}"
    ids[name] = number
    return candidate


def _interrupted_part(call: ToolCall) -> MessagePart:
    answer = ToolAnswer(call.id, (Text(INTERRUPTED),), is_error=True, name=call.name)
    return MessagePart("", "injected", "user", (answer,))


def _strip_signature(block: Block) -> Block:
    """A text or a call without the signature of a thought that is not the model's own."""
    match block:
        case Text(text, dict() as fields):
            kept = {name: item for name, item in fields.items() if name != "thought_signature"}
            return Text(text, kept or None)
        case ToolCall() if block.signature:
            return msgspec.structs.replace(block, signature="")
        case _:
            return block  # nothing else is signed apart from thinking


def _stands_in(record: ToolResult) -> bool:
    return record.pending or record.content == INTERRUPTED  # what versions before 0.2 stored


def _is_answer(block: Block) -> bool:
    return type(block) is Other and block.kind == "tool_result"


def _result_in(record: User, block: Other) -> ToolResult:
    name, content = block.raw.get("tool_use_id"), block.raw.get("content")
    return ToolResult(
        id=record.id,
        ts=record.ts,
        tool_use_id=name if isinstance(name, str) else "",
        content=content if isinstance(content, str | list) else None,
        is_error=block.raw.get("is_error") is True,
    )


def _orphan(result: ToolResult) -> ViewRepair:
    return ViewRepair("orphan-result", result.id, result.tool_use_id)


def _context_text(record: InjectedContext) -> str:
    """Injected context as a model reads it; empty where it says nothing."""
    if not record.text.strip():
        return ""
    text = cut(record.text, CONTEXT_CHARS, marker=name_record(record.id)).text
    return fence_context(text, record.source)
