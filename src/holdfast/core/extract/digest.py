"""Digests: the part of each record that a carry-over can use. A digest depends on its record alone.

Computing digests once per record lets a projection try many cuts without reading records again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.extract import tasks
from holdfast.core.extract.names import identifiers, weigh
from holdfast.core.extract.outcomes import Attempt, ResultEnd, find_attempt, find_outcome
from holdfast.core.extract.statements import find_reasons, find_statements
from holdfast.core.extract.touched_files import Touch, find_touches
from holdfast.core.limits import REF_CHARS
from holdfast.core.log.records import Assistant, InjectedContext, ToolResult, ToolUse, User, text_of
from holdfast.core.log.speakers import user_text
from holdfast.core.models.messages import Text, ToolCall, read_blocks
from holdfast.core.text.cut import scrub
from holdfast.core.text.lazy_pattern import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from holdfast.core.log.records import Json, Record

_CALL_WEIGHT: Final = 3.0
"""A name in a call is used again far more often than one that a result mentions."""
_REPLY_WEIGHT: Final = 2.0
"""A name that the assistant itself wrote is needed again more often than one in a tool's output."""
_UNSAFE: Final = lazy_pattern(r"[^\w.:-]")


class Instructions(msgspec.Struct, frozen=True):
    """The user's instructions in their own words, newest last, and the number left out."""

    sentences: tuple[str, ...] = ()
    omitted: int = 0


class FileList(msgspec.Struct, frozen=True):
    """Paths, newest last, and the number of older ones left out."""

    paths: tuple[str, ...] = ()
    omitted: int = 0


class Digest(msgspec.Struct, frozen=True):
    """The content that one record can add to a carry-over."""

    record: str
    prose: str = ""
    said: str = ""
    rules: tuple[str, ...] = ()
    """The sentences of `said` that are instructions."""
    instructions: Instructions = Instructions()
    """Those that an earlier carry-over lists."""
    is_step: bool = False
    names: Mapping[str, float] = {}
    """Each name with its weight."""
    error: str = ""
    open_items: tuple[str, ...] | None = None
    """The unfinished tasks of a list, which replaces an older list; None where there is no list."""
    done_items: tuple[str, ...] = ()
    """Tasks that the record reports as finished or dropped."""
    calls: tuple[tuple[str, tuple[Touch, ...]], ...] = ()
    """The ids of its calls that name files, with those files."""
    attempts: tuple[Attempt, ...] = ()
    answers: str | None = None
    """The id of the call it is the result of."""
    is_failed: bool = False
    outcome: ResultEnd = ResultEnd()
    actions: tuple[str, ...] = ()
    """Lines of actions that an earlier carry-over has, like `reasons`."""
    reasons: tuple[str, ...] = ()
    """Sentences of a reply that say why."""
    changed: FileList = FileList()
    """Files that an earlier carry-over lists, like `read`."""
    read: FileList = FileList()
    outputs: tuple[str, ...] = ()
    """The output it holds by reference, or those that an earlier carry-over lists."""
    recent_replies: tuple[str, ...] = ()
    """Lines of a running summary that an earlier carry-over has."""


def digest_record(record: Record) -> Digest | None:
    """The content that a record can add; None for records that no model sees."""
    match record:
        case User():
            text = scrub(text_of(record.content)).strip()
            # With the line ends it will have when it is read back.
            said = "\n".join(user_text(record).splitlines())
            return Digest(
                record.id,
                said=said,
                rules=tuple(find_statements(said)),
                names=weigh(identifiers(text), 1.0),
            )
        case InjectedContext():
            return Digest(record.id, names=weigh(identifiers(scrub(record.text)), 1.0))
        case Assistant():
            return _digest_reply(record)
        case ToolUse():
            arguments = record.input if isinstance(record.input, dict) else {}
            listed = tasks.whole_list(arguments)
            calls, attempts = _work_of([(record.tool_use_id, record.name, arguments)])
            return Digest(
                record.id,
                is_step=True,
                names=weigh(identifiers(scrub(arguments_text(arguments))), _CALL_WEIGHT),
                open_items=None if listed is None else tasks.open_texts(listed),
                calls=calls,
                attempts=attempts,
            )
        case ToolResult():
            text = scrub(text_of(record.content))
            outcome = find_outcome(record)
            lines = text.strip().splitlines() if record.is_error else []
            return Digest(
                record.id,
                names=weigh(identifiers(text), 1.0),
                error=(outcome.line or lines[-1].strip()) if lines else "",
                answers=record.tool_use_id,
                is_failed=record.is_error,
                outcome=outcome,
                outputs=_output(record),
            )
        case _:  # boundaries, labels and notes hold nothing that is in the context
            return None


def glance(record: Record) -> Digest | None:
    """A cheaper digest for old records: only the user's words and the files find_touches."""
    match record:
        case User():
            return digest_record(record)
        case Assistant():
            blocks = (block for block in read_blocks(record.content) if type(block) is ToolCall)
            calls = _calls((block.id, block.name, block.arguments) for block in blocks)
            return Digest(record.id, is_step=True, calls=calls)
        case ToolUse():
            arguments = record.input if isinstance(record.input, dict) else {}
            calls = _calls([(record.tool_use_id, record.name, arguments)])
            return Digest(record.id, is_step=True, calls=calls)
        case ToolResult():
            return Digest(
                record.id,
                answers=record.tool_use_id,
                is_failed=record.is_error,
                outputs=_output(record),
            )
        case _:  # as in `digest_record`
            return None


def arguments_text(value: Any) -> str:
    """Every text in a call's arguments, without the escapes that JSON would add."""
    match value:
        case str():
            return value
        case dict():
            return "\n".join(filter(None, map(arguments_text, value.values())))
        case list():
            return "\n".join(filter(None, map(arguments_text, value)))
        case bool() | None:
            return ""
        case _:  # numbers
            return str(value)


def _digest_reply(record: Assistant) -> Digest:
    blocks = read_blocks(record.content)
    texts = [block.text for block in blocks if isinstance(block, Text)]
    calls = [block for block in blocks if isinstance(block, ToolCall)]
    names: dict[str, float] = {}
    for text in texts:
        names |= weigh(identifiers(text), _REPLY_WEIGHT)
    listed: tuple[tasks.Task, ...] | None = None
    for call in calls:
        for name, weight in weigh(
            identifiers(arguments_text(call.arguments)), _CALL_WEIGHT
        ).items():
            names[name] = max(names.get(name, 0.0), weight)
        written = tasks.whole_list(call.arguments)
        listed = listed if written is None else written
    touched, attempts = _work_of((call.id, call.name, call.arguments) for call in calls)
    boxes = tasks.checkboxes("\n".join(texts))
    open_boxes = tasks.open_texts(boxes)
    return Digest(
        record.id,
        is_step=True,
        names=names,
        # Ticked boxes alone are no list: they report on tasks that were listed before.
        open_items=tasks.open_texts(listed) if listed is not None else open_boxes or None,
        done_items=tuple(box.text for box in boxes if box.status == "done"),
        calls=touched,
        attempts=attempts,
        reasons=tuple(reason for text in texts for reason in find_reasons(text)),
    )


def _work_of(
    calls: Iterable[tuple[str, str, Json]],
) -> tuple[tuple[tuple[str, tuple[Touch, ...]], ...], tuple[Attempt, ...]]:
    """The files that each call names, and the calls that change files or run a command."""
    touched: list[tuple[str, tuple[Touch, ...]]] = []
    attempts: list[Attempt] = []
    for call_id, tool, arguments in calls:
        touches = find_touches(tool, arguments)
        if touches:
            touched.append((call_id, touches))
        attempt = find_attempt(call_id, tool, arguments, touches)
        if attempt is not None:
            attempts.append(attempt)
    return tuple(touched), tuple(attempts)


def _calls(
    calls: Iterable[tuple[str, str, Json]],
) -> tuple[tuple[str, tuple[Touch, ...]], ...]:
    found = ((call_id, find_touches(name, arguments)) for call_id, name, arguments in calls)
    return tuple((call_id, touches) for call_id, touches in found if touches)


def _output(record: ToolResult) -> tuple[str, ...]:
    ref = record.output_ref
    if ref is None:
        return ()
    name = _UNSAFE.sub("", record.name or "") or "a tool"
    return (f"{ref.sha256[:REF_CHARS]}: {name}, {ref.chars or ref.bytes:,} characters",)
