"""Read from the log the parts of a session that providers refused.

Each repair after a refusal is an `epoch` record that names what was left out of which records. The
records themselves stay as they are; every reader that writes for a model takes `as_sent`, or
`as_told` where nobody knows which model reads it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import msgspec

from holdfast.core.log.records import Assistant, Epoch, InjectedContext, ToolResult, Undo, User
from holdfast.core.models.messages import Image, Other
from holdfast.core.tokens.images import payload_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.models.messages import Block

REFUSED: Final = "refused"
"""The cause of an epoch that begins with a repair after a refusal."""
REFUSAL: Final = "refusal"
"""The field of an `assistant` record that is true where a provider refused to answer."""
_NOTE: Final = {"meta": True, "injected": "refusal"}
"""Marks a note in the place of a message: nobody said it."""


class LeftOut(msgspec.Struct, frozen=True):
    """The part of one record that is not sent to a model again."""

    what: Literal["media", "all"] = "media"
    """`media` for its pictures and documents, `all` for everything that it says."""
    note: str = ""
    """The text that takes its place; with none, the record leaves the view."""


def refusals_in(
    records: Sequence[Record], provider: str | None = None, model: str | None = None
) -> list[Epoch]:
    """Return the repairs that hold for a model, oldest first; without one, those of all models."""
    found = [record for record in records if type(record) is Epoch and record.cause == REFUSED]
    if not found:
        return []
    undone = {record.target for record in records if type(record) is Undo}
    return [
        epoch
        for epoch in found
        if epoch.id not in undone
        and (provider is None or (epoch.provider or provider) == provider)
        and (model is None or (epoch.model or model) == model)
    ]


def read_left_out(
    records: Sequence[Record], provider: str | None = None, model: str | None = None
) -> dict[str, LeftOut]:
    """Return the parts that a model refused, by record; without one, what any model refused."""
    found: dict[str, LeftOut] = {}
    for epoch in refusals_in(records, provider, model):
        for record in epoch.media:
            found.setdefault(record, LeftOut())
        for record, note in epoch.left_out.items():
            found[record] = LeftOut("all", note)
    return found


def read_refused_fields(records: Sequence[Record], provider: str, model: str) -> tuple[str, ...]:
    """Return the fields beside the conversation that a model refused."""
    epochs = refusals_in(records, provider, model)
    return tuple(dict.fromkeys(field for epoch in epochs for field in epoch.fields))


def is_refusal(record: Record) -> bool:
    """Return whether a record is a refusal that was stored as the reply."""
    return type(record) is Assistant and record.extra.get(REFUSAL) is True


def as_sent(records: Iterable[Record], left_out: Mapping[str, LeftOut]) -> list[Record]:
    """Return records without what was refused as a whole: notes stand in its place, or nothing."""
    found: list[Record] = []
    for record in records:
        item = left_out.get(record.id)
        if is_refusal(record):
            continue
        if item is None or item.what != "all":
            found.append(record)
        elif item.note:
            found.append(_as_note(record, item.note))
    return found


def as_told(records: Sequence[Record]) -> list[Record]:
    """Return records, oldest first, as a text from them may tell them: without the words that any
    model refused. Which model will read it is not known when it is made."""
    return as_sent(records, read_left_out(records))


def tell_back(newest_first: Iterable[Record], newer: Sequence[Record] = ()) -> Iterator[Record]:
    """Yield `as_told` of records that come newest first. A repair is newer than what it is about;
    `newer` are the records behind the first one, oldest first, as far as they may have one."""
    undone: set[str] = set()
    left_out: dict[str, LeftOut] = {}

    def learn(record: Record) -> None:
        if type(record) is Undo:
            undone.add(record.target)
        elif type(record) is Epoch and record.id not in undone:
            for epoch in refusals_in((record,)):
                for name, note in epoch.left_out.items():
                    left_out.setdefault(name, LeftOut("all", note))

    for record in reversed(newer):
        learn(record)
    for record in newest_first:
        learn(record)
        yield from as_sent((record,), left_out)


def reaches_back(fresh: Sequence[Record]) -> bool:
    """Return whether records leave out, or bring back, something that was said before them: what
    was made from the older ones is made anew then."""
    ids = {record.id for record in fresh}
    return any(
        (type(record) is Undo and record.target not in ids)
        or (type(record) is Epoch and not ids.issuperset(record.left_out))
        for record in fresh
    )


def _as_note(record: Record, note: str) -> Record:
    if isinstance(record, User):
        return msgspec.structs.replace(record, content=note, extra={**record.extra, **_NOTE})
    if isinstance(record, Assistant | ToolResult):
        return msgspec.structs.replace(record, content=note)
    if isinstance(record, InjectedContext):
        return msgspec.structs.replace(record, text=note)
    return record


_MEDIA: Final = frozenset(
    (
        *("image", "image_url", "input_image", "document", "file", "input_file", "file_data"),
        *("audio", "input_audio", "video", "video_url", "media", "inline_data", "container_upload"),
    )
)
"""Kinds of blocks that are a file and no words."""


def is_media(block: Block) -> bool:
    """Return whether a block is a picture, a document or another file."""
    return isinstance(block, Image) or (isinstance(block, Other) and block.kind in _MEDIA)


def write_note(block: Block, record: str) -> str:
    """Return the text in the place of a file that the provider refused."""
    return f"[{name_file(block)} left out: the provider refused it; record {record} has it]"


def name_file(block: Block) -> str:
    """Return the media type and the size of a file."""
    if isinstance(block, Image):
        size = f", {payload_bytes(block.data):,} bytes" if block.data else ""
        return f"{block.media_type or 'picture'}{size}"
    return block.kind if isinstance(block, Other) else "file"
