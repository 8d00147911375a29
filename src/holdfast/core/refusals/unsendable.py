"""Files that every provider refuses, found by their bytes before they are sent.

A file that is cut off, empty, guarded by a password or not what it says is replaced by a note when
its record enters the view. What depends on the model (sizes, counts) is decided in
`projection/media.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, TypeVar

import msgspec

from holdfast.core.media.kinds import decode, kind_of
from holdfast.core.media.pdf import read_pdf
from holdfast.core.media.pictures import is_whole
from holdfast.core.models.messages import Image, Other
from holdfast.core.refusals.left_out import is_media, name_file
from holdfast.core.text.lazy_pattern import lazy_pattern
from holdfast.core.tokens.images import image_size, is_image

if TYPE_CHECKING:
    from holdfast.core.media.pdf import PdfFacts
    from holdfast.core.models.dialects import DialectVariant
    from holdfast.core.models.messages import Block

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
        return f"it is no PDF, but {kind or 'something else'}"
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
