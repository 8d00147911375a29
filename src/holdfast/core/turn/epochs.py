"""Which record begins an epoch, and the ones that nothing else accounts for.

Within an epoch a request is the one before it with something appended. Compactions, prunes and
undos begin one and state their reason. Whatever else changes what was sent before (another system
prompt, other tools, another API, a larger window) is found here, by comparing the next request
with the one that the newest reply was made from, and gets a record of its own. Tools that were
only added begin none where the provider takes them amid the conversation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.dialects.prefix import head_of, origin_of, prefixes_of
from holdfast.core.flow.effects import Append, Emit
from holdfast.core.flow.events import EpochBegun
from holdfast.core.log.records import (
    Assistant,
    Compaction,
    Epoch,
    Prune,
    ToolsAdded,
    Undo,
    User,
)
from holdfast.core.log.replay import additions
from holdfast.core.models.messages import AddedTools, read_tools
from holdfast.core.refusals import is_refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.flow.effects import Flow
    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Tool
    from holdfast.core.projection.project import Plan

DETAILS: Final = {
    "system": "the system prompt was changed",
    "tools": "the tools were changed",
    "dialect": "another API is asked",
    "window": "a larger window is in use",
    "refused": "the provider refused a part of it",
    "unanswered": "a call before it brought no reply, and nothing says what it began with",
    "upgrade": "the newest reply does not say what it was made from",
    "view": "earlier messages are not as they were sent",
}
"""Every cause of an epoch that is neither a compaction, a prune nor an undo."""


def begins_epoch(record: Record) -> bool:
    """Return whether requests after a record begin differently."""
    return isinstance(record, Compaction | Prune | Undo | Epoch)


def find_cause(records: Sequence[Record], plan: Plan) -> str:
    """Return why the request of a plan does not go on from the one before it; empty where it does,
    or where a record accounts for it."""
    newest = _newest_reply(records)
    first = 0 if newest is None else newest[0] + 1
    said = [at for at in range(first, len(records)) if isinstance(records[at], User)]
    is_unanswered = len(said) > 1
    begun = [at for at in range(first, len(records)) if begins_epoch(records[at])]
    if begun and (not is_unanswered or begun[-1] > said[-1]):
        return ""
    if newest is None:
        return "unanswered" if is_unanswered else ""
    sent, now = origin_of(newest[1]), plan.prefixes
    if begun and sent is not None and sent.dialect == now.dialect:
        # It accounts for a request that failed. What that began with is not known.
        is_same = (sent.system, sent.tools) == (now.system, now.tools)
        return "" if is_same else "unanswered"
    if sent is None:
        known = any(isinstance(rec, Epoch) and rec.cause == "upgrade" for rec in records)
        return "" if known else "upgrade"
    if sent.messages in now.before:
        return ""
    if sent.dialect != now.dialect:
        return "dialect"
    if sent.system != now.system:
        return "system"
    if sent.tools != now.tools or _lacks_added(records, plan):
        return "tools"
    tokens = plan.window.tokens
    is_larger = any(
        isinstance(record, Compaction | Prune) and record.window and record.window < tokens
        for record in records
    )
    return "window" if is_larger else "view"


def account_for(records: Sequence[Record], plan: Plan) -> Flow[bool]:
    """Store why requests begin differently from now on, where no record says so, or which tools
    were added. Returns True if the request is another one with that record."""
    cause = find_cause(records, plan)
    added = _find_added(records, plan) if cause == "tools" else ()
    if added:
        yield Append((ToolsAdded(tools=[msgspec.to_builtins(tool) for tool in added]),))
    elif cause:
        ended = _count_ended(records, plan)
        made = Epoch(cause=cause, detail=DETAILS[cause], reasoning=ended or None)
        stored = yield Append((made,))
        yield Emit(EpochBegun(stored[0].id, cause, DETAILS[cause], ended))
    return cause == "tools"


def _lacks_added(records: Sequence[Record], plan: Plan) -> bool:
    """Return whether a tool that was added in its place is gone, or is another one."""
    if not plan.target.adds_tools:
        return False
    added = [tool for record in additions(records) for tool in read_tools(record.tools)]
    return not all(tool in plan.prompt.tools for tool in added)


def _find_added(records: Sequence[Record], plan: Plan) -> tuple[Tool, ...]:
    """Return the tools without which a request goes on from the newest reply, where the provider
    takes them at the end: those that the caller put behind the others. `context` stays last."""
    newest = _newest_reply(records)
    sent = origin_of(newest[1]) if newest is not None else None
    if sent is None or not plan.target.adds_tools:
        return ()
    prompt, target = plan.prompt, plan.target
    *before, last = prompt.messages
    end = len(prompt.tools)
    for stop in (end - 1, end):
        for start in range(stop - 1, -1, -1):
            added = prompt.tools[start:stop]
            block = AddedTools(tuple(tool.name for tool in added))
            with_block = msgspec.structs.replace(last, blocks=(*last.blocks, block))
            messages = (*before, with_block)
            found = msgspec.structs.replace(prompt, messages=messages)
            if head_of(found, target) != (sent.system, sent.tools):
                continue
            prefixes = prefixes_of(messages, prompt.system, prompt.tools, target)
            return added if sent.messages in prefixes.before else ()
    return ()


def _newest_reply(records: Sequence[Record]) -> tuple[int, Assistant] | None:
    for place in range(len(records) - 1, -1, -1):
        record = records[place]
        if isinstance(record, Assistant) and not is_refusal(record):
            return place, record
    return None


def _count_ended(records: Sequence[Record], plan: Plan) -> int:
    """The replies in view that have reasoning and are sent without it."""
    shown = {message.record for message in plan.prompt.messages} - set(plan.reasoning)
    return sum(
        record.id in shown and _has_reasoning(record)
        for record in records
        if isinstance(record, Assistant)
    )


def _has_reasoning(record: Assistant) -> bool:
    kinds = ("thinking", "redacted_thinking", "reasoning")
    return any(
        block.get("type") in kinds for block in record.content or () if isinstance(block, dict)
    )
