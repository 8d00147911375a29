"""The new part of a request as records, each with the chain of the conversation up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.core.log.records import Assistant, ToolResult
from holdfast.core.proxy.branches import CHAIN_FIELD
from holdfast.importers.apis import anthropic, chat, gemini
from holdfast.importers.apis.responses import ResponseReply
from holdfast.importers.common.base import Draft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.proxy.digests import Atom
    from holdfast.engine.proxy.request import ClientRequest

_ONE_ITEM: Final = ("anthropic", "openai-chat")
"""Dialects in which a reply is one message."""


def new_records(request: ClientRequest, known: int) -> list[Record]:
    """The records of the atoms after the first `known`, which the log has.

    A message of which the log has a part is read whole, and the known part left out.
    """
    atoms = request.atoms
    if known >= len(atoms):
        return []
    first = atoms[known].item
    draft = Draft()
    # The step before tells the names of the calls that results answer, and that an instruction
    # stands amid a conversation.
    before = _start_of_step(request, first)
    reply = ResponseReply(draft, provider=request.provider)
    reply.model = request.model or None
    for item in _join_replies(request, request.items_from(before)[: first - before]):
        _carry(request, item, draft, reply)
    reply.end()
    seeded = len(draft.records)
    chained: list[Record] = []
    at = next(place for place, atom in enumerate(atoms) if atom.item == first)
    for item in _join_replies(request, request.items_from(first)):
        _carry(request, item, draft, reply)
    reply.end()
    for record in draft.records[seeded:]:
        at = _end_of(record, atoms, at, is_one_item=request.dialect in _ONE_ITEM)
        if at > known:
            chains = [request.chains[at - 1].hex()]
            chained.append(_with_chains(record, chains))
    return chained


def _start_of_step(request: ClientRequest, first: int) -> int:
    """The index at which the reply before an item begins."""
    start = request.atoms[0].item
    index = max(start, first - 1)
    while index > start and not _is_reply(request.items_from(index)[0]):
        index -= 1
    while index > start and _is_reply(request.items_from(index - 1)[0]):
        index -= 1
    return min(index, first)


def _join_replies(request: ClientRequest, items: list[Any]) -> list[Any]:
    """Gemini's packages keep a streamed reply as several contents; in the log it is one."""
    if request.dialect != "gemini":
        return items
    joined: list[Any] = []
    for item in items:
        last: Any = joined[-1] if joined else {}
        if _is_reply(last) and _is_reply(item):
            parts = [*(last.get("parts") or ()), *(item.get("parts") or ())]
            joined[-1] = {**last, "parts": parts}
        else:
            joined.append(item)
    return joined


def _is_reply(item: Any) -> bool:
    return isinstance(item, dict) and (
        item.get("role") in ("assistant", "model") or str(item.get("type")).endswith("_call")
    )


def _carry(request: ClientRequest, item: Any, draft: Draft, reply: ResponseReply) -> None:
    if not isinstance(item, dict):
        return
    if request.dialect == "anthropic":
        anthropic.carry_message(draft, item, provider=request.provider, model=request.model)
    elif request.dialect == "openai-chat":
        chat.carry_message(draft, item, provider=request.provider, model=request.model or None)
    elif request.dialect == "gemini":
        gemini.carry_content(
            draft,
            item.get("role"),
            item.get("parts"),
            provider=request.provider,
            model=request.model or None,
        )
    else:
        reply.item(item)


def _end_of(record: Record, atoms: Sequence[Atom], at: int, *, is_one_item: bool) -> int:
    """The number of atoms up to the end of a record that begins at the atom `at`. A reply of the
    Responses API, or one of Gemini that was streamed, is several items."""
    if at >= len(atoms):
        return at
    if isinstance(record, ToolResult):
        return at + 1 if atoms[at].kind == "result" else at
    wanted = ("assistant",) if isinstance(record, Assistant) else ("user", "system")
    end, item = at, atoms[at].item
    is_one_item = is_one_item or not isinstance(record, Assistant)
    while end < len(atoms) and atoms[end].kind in wanted:
        if is_one_item and atoms[end].item != item:
            break
        end += 1
    return end


def _with_chains(record: Record, chains: list[str]) -> Record:
    # Ids of the client's are not ours: a retry would bring them twice.
    return msgspec.structs.replace(record, id="", extra={**record.extra, CHAIN_FIELD: chains})
