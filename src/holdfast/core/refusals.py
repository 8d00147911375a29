"""Refusals of providers, as a session knows them.

The parts that were refused are read from the log. Suspects of a refusal are what no answered
request had, whatever its wording. Files that every provider refuses are found by their bytes before
they are sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal, TypeVar

import msgspec

from holdfast.core.dialects.prefix import origin_of
from holdfast.core.log.records import Assistant, Epoch, InjectedContext, ToolResult, Undo, User
from holdfast.core.media import decode, is_whole, kind_of, read_pdf
from holdfast.core.models.messages import Image, Other
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.tokens.images import image_size, is_image, payload_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from holdfast.core.log.records import Record
    from holdfast.core.media import PdfFacts
    from holdfast.core.models.dialects import DialectVariant, Target
    from holdfast.core.models.messages import Block


REFUSED: Final = "refused"
"""The cause of an epoch that begins with a repair after a refusal."""
REFUSAL: Final = "refusal"
"""The field of an `assistant` record that is true where a provider refused to answer."""
_NOTE: Final = {"meta": True, "injected": "refusal"}
"""Marks a note in the place of a message: no one said it."""


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
    was made from the older ones is made again then."""
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


def new_records(records: Sequence[Record], target: Target) -> set[str]:
    """Return the records that were in no request which this model answered."""
    return _after(records, (target.provider, target.model))


def find_unanswered(records: Sequence[Record]) -> set[str]:
    """Return the records that were in no request which any model answered."""
    return _after(records, None)


def find_given_up(records: Sequence[Record]) -> set[str]:
    """Return the unanswered records of earlier messages that no repair could get answered: all
    that was tried for them was taken back."""
    unanswered = find_unanswered(records)
    repairs = {rec.id for rec in records if type(rec) is Epoch and rec.cause == REFUSED}
    found: set[str] = set()
    is_before = is_earlier = False
    for record in reversed(records):
        if record.id not in unanswered:
            break
        is_before = is_before or (is_earlier and type(record) is Undo and record.target in repairs)
        is_earlier = is_earlier or type(record) is User
        if is_before:
            found.add(record.id)
    return found


def _after(records: Sequence[Record], maker: tuple[str, str] | None) -> set[str]:
    found: set[str] = set()
    seen = ""
    for record in reversed(records):
        if record.id == seen:
            break
        if isinstance(record, Assistant) and not seen and not is_refusal(record):
            is_it = maker is None or (record.provider or "", record.model or "") == maker
            if is_it:
                sent = origin_of(record)
                seen = sent.seen if sent is not None else ""
                if not seen:
                    break
                continue
        found.add(record.id)
    return found


def turn_of(records: Sequence[Record], shown: set[str], why: str) -> dict[str, str]:
    """Return the records of the newest turn with the notes in their place: one for all of them."""
    turn: list[str] = []
    for record in reversed(records):
        if isinstance(record, Assistant) and not _has_calls(record):
            break
        if record.id in shown:
            turn.append(record.id)
    turn.reverse()
    if not turn:
        return {}
    note = (
        f"[A turn of {len(turn)} {'record' if len(turn) == 1 else 'records'} was left out: the "
        f"provider refused it under its policy ({why}). It is in the log from record {turn[0]} on.]"
    )
    return {name: "" if place else note for place, name in enumerate(turn)}


def _has_calls(record: Assistant) -> bool:
    return isinstance(record.content, list) and any(
        block.get("type") == "tool_use" for block in record.content
    )


_B = TypeVar("_B", bound="Block")

_HOLDERS: Final = ("source", "file", "inlineData", "inline_data")
"""Fields of a block that hold the file; it may also be the block itself."""
_DATA_URI: Final = lazy_pattern(
    r"data:([\w.+-]{1,64}/[\w.+-]{1,64})?(?:;[\w=.+-]{1,64}){0,4};base64,"
)
_SPACE: Final = lazy_pattern(r"\s+")
_PDF: Final = "application/pdf"


class File(msgspec.Struct, frozen=True):
    """The payload of a block, with the media type that it claims."""

    data: str
    media_type: str = ""


def file_in(block: Block) -> File | None:
    """Return the payload that a block carries; None where it has none, or only an address."""
    if isinstance(block, Image):
        return None if block.url else File(block.data, block.media_type)
    if not isinstance(block, Other) or not is_media(block):
        return None
    for name in ("", *_HOLDERS):
        holder = block.raw.get(name) if name else block.raw
        if not isinstance(holder, dict) or holder.get("type") in ("text", "url", "file"):
            continue
        data = next(
            (said for key in ("data", "file_data") if (said := holder.get(key)) is not None), None
        )
        if not isinstance(data, str):
            continue
        kinds = (holder.get(key) for key in ("media_type", "mimeType", "mime_type"))
        media_type = next((kind for kind in kinds if isinstance(kind, str)), "")
        uri = _DATA_URI.match(data)
        return File(data[uri.end() :], uri[1] or media_type) if uri else File(data, media_type)
    return None


def pages_of(block: Block) -> int:
    """Return the number of pages of a PDF; 0 for everything else, and where it is not known."""
    file = file_in(block) if isinstance(block, Other) else None
    if file is None or kind_of(file.data) != _PDF:
        return 0
    facts = _read_pdf(file.data)
    return facts.pages if facts is not None else 0


def mend_file(block: _B, record: str) -> _B | Image | str:
    """Return a block as it can be sent, or the note that takes its place."""
    file = file_in(block)
    if file is None:
        return block
    flaw = _find_flaw(file)
    if flaw:
        return f"[{name_file(block)} left out: {flaw}; record {record} has it]"
    if isinstance(block, Image) and _SPACE.search(file.data):
        return msgspec.structs.replace(block, data=_SPACE.sub("", file.data))
    return block


def is_above_limits(image: Image, dialect: DialectVariant) -> bool:
    """Return whether a picture has to be smaller, or of another kind, before it is stored.

    It must fit at any number of pictures: later, it could not be made smaller without changing
    what was sent."""
    if not image.data or dialect.images_max == 0:
        return False
    if dialect.image_bytes and len(image.data) > dialect.image_bytes:
        return True
    kind = kind_of(image.data)
    if kind not in dialect.image_types:
        return kind.startswith("image/")
    size, edge = image_size(image), dialect.many_image_pixels or dialect.image_pixels
    return size is not None and edge > 0 and max(size.width, size.height) > edge


def _find_flaw(file: File) -> str:
    kind = kind_of(file.data)
    is_pdf = file.media_type.lower() == _PDF
    if not file.data.strip():
        return "it is empty"
    if is_pdf and kind != _PDF:
        return f"it is not a PDF but {kind or 'something else'}"
    if kind == _PDF:
        return _find_pdf_flaw(file)
    if not is_image(file.data):
        return ""  # nothing is known of it: what its provider does not take is said elsewhere
    data = decode(file.data)
    if data is None:
        return "its base64 is damaged"
    return "" if is_whole(data, kind) else "it is cut off"


def _find_pdf_flaw(file: File) -> str:
    facts = _read_pdf(file.data)
    if facts is None:
        return "its base64 is damaged"
    if facts.is_encrypted:
        return "it is encrypted"
    return "" if facts.is_whole else "it is cut off"


def _read_pdf(data: str) -> PdfFacts | None:
    decoded = decode(data)
    return None if decoded is None else read_pdf(decoded)
