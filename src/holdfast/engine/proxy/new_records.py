"""The new part of a request as records, each with the chain of the conversation up to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from holdfast.core.dialects.common.client import is_reply
from holdfast.core.dialects.registry import find_dialect
from holdfast.core.log.records import Assistant, ToolResult
from holdfast.core.proxy.branches import CHAIN_FIELD
from holdfast.importers.apis.item_readers import ITEM_READERS
from holdfast.importers.common.base import Draft

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.dialects.common.digests import Atom
    from holdfast.core.log.records import Record
    from holdfast.engine.proxy.request import ClientRequest


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
    dialect = find_dialect(request.dialect)
    reader = ITEM_READERS[dialect.name](draft, request.provider, request.model)
    for item in dialect.items.join_replies(request.items_from(before)[: first - before]):
        if isinstance(item, dict):
            reader.item(item)
    reader.end()
    seeded = len(draft.records)
    chained: list[Record] = []
    at = next(place for place, atom in enumerate(atoms) if atom.item == first)
    for item in dialect.items.join_replies(request.items_from(first)):
        if isinstance(item, dict):
            reader.item(item)
    reader.end()
    for record in draft.records[seeded:]:
        at = _end_of(record, atoms, at, is_one_item=dialect.items.is_reply_one_item)
        if at > known:
            chains = [request.chains[at - 1].hex()]
            chained.append(_with_chains(record, chains))
    return chained


def _start_of_step(request: ClientRequest, first: int) -> int:
    """The index at which the reply before an item begins."""
    start = request.atoms[0].item
    index = max(start, first - 1)
    while index > start and not is_reply(request.items_from(index)[0]):
        index -= 1
    while index > start and is_reply(request.items_from(index - 1)[0]):
        index -= 1
    return min(index, first)


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
