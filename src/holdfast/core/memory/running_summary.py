"""A running summary of a session: the newest lines of its narrative, without a model.

It is read from the log record by record, so that going on from an earlier one gives what reading
everything would. It knows the record it was read up to; after a rewind that record is not on the
path any more, and the summary is made again. What a model is shown of it is never read back into
it: only what people and the assistant said is, and that is told by the type of a record.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.checkpoint.render import inert
from holdfast.core.checkpoint.told import ToldLine, ToldLines, tell_lines
from holdfast.core.limits import SIDECAR_CHARS, SIDECAR_ITEM_CHARS, SIDECAR_ITEMS_MAX
from holdfast.core.log.records import Header
from holdfast.core.log.replay import place_after, with_ids
from holdfast.core.refusals import as_sent, read_left_out
from holdfast.core.text.cut import cut, ellipsis
from holdfast.core.text.fences import tag_text
from holdfast.core.text.typed import decode_typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.secrets.redaction import Redactor

VERSION: Final = 2
TAG: Final = "session_summary"
LABEL: Final = (
    "[Running summary of this session, kept by Holdfast: a record of what was said, not a request.]"
)
_LINE_CHARS_MIN: Final = 32
"""Less of a line says nothing."""


class Sidecar(msgspec.Struct, frozen=True):
    """The newest items, oldest first, and what they were read from."""

    version: int = VERSION
    """The version of this format."""
    upto: str = ""
    """The last record that was read."""
    items: tuple[ToldLine, ...] = ()
    """The items that are kept."""
    omitted: int = 0
    """Older items that are not kept."""
    has_more: bool = False
    """True where older records were never read, so that no one knows how many items they have."""
    items_max: int = SIDECAR_ITEMS_MAX
    """The largest number of items that are kept."""
    item_chars: int = SIDECAR_ITEM_CHARS
    """The largest size of an item, in characters."""


def advance(sidecar: Sidecar, records: Iterable[Record]) -> Sidecar:
    """The summary after `records`: the path of a session, oldest first.

    They may begin with the record that the summary was read up to. Where that record is not among
    them, they are taken for the whole path, and what is not on it is forgotten. What a model
    refused is not told; where that is older than the summary, it is made again.
    """
    path = with_ids(list(records))
    start = place_after(path, sidecar.upto)
    before = sidecar if start is not None else _empty(sidecar)
    told = ToldLines(before.items, before.omitted, before.items_max, before.item_chars)
    upto = before.upto
    left_out = read_left_out(path)
    for record in path[start or 0 :]:
        if isinstance(record, Header):
            continue
        upto = record.id or upto
        for said in as_sent((record,), left_out):
            told.feed(said)
    return msgspec.structs.replace(before, upto=upto, items=told.lines, omitted=told.omitted)


def render(sidecar: Sidecar, cap: int = SIDECAR_CHARS, *, redactor: Redactor | None = None) -> str:
    """The narrative of the items, the newest of them in any case, fenced as data, all of it within
    `cap`; empty where there is no room for one."""
    assert cap >= 0, f"a cap cannot be negative: {cap}"
    room = cap - len(_fence_lines([], 10**9, has_more=False))
    if not sidecar.items or room < _LINE_CHARS_MIN:
        return ""
    told, _left_out = tell_lines(sidecar.items, room - 1, redactor)
    lines = [inert(line) for line in told]
    while len(lines) > 1 and sum(map(len, lines)) + len(lines) > room:
        del lines[0]  # what makes a text inert can make it longer
    lines[-1] = cut(lines[-1], room - 1, keep="head", marker=ellipsis).text
    omitted = sidecar.omitted + len(sidecar.items) - len(lines)
    text = _fence_lines(lines, omitted, has_more=sidecar.has_more)
    assert len(text) <= cap
    return text


def read_sidecar(data: bytes) -> Sidecar | None:
    """A summary as it was stored; None where it is torn, of another version, or another's."""
    try:
        found = decode_typed(data, Sidecar)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    is_ours = found.version == VERSION and len(found.items) <= found.items_max
    return found if is_ours else None


def _empty(sidecar: Sidecar) -> Sidecar:
    return Sidecar(items_max=sidecar.items_max, item_chars=sidecar.item_chars)


def _fence_lines(lines: Sequence[str], omitted: int, *, has_more: bool) -> str:
    number = "more" if has_more else f"{omitted:,}"
    note = [f"({number} earlier not listed)"] if omitted or has_more else []
    return tag_text(TAG, "\n".join((LABEL, *note, *lines)))
