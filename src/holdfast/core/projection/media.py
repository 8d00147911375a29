"""Limits beside tokens: pictures by number and size, pages of PDFs, messages, bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.models.messages import Image, ToolAnswer
from holdfast.core.projection.draft import release
from holdfast.core.projection.sizes import bytes_of
from holdfast.core.projection.view import Form
from holdfast.core.tokens.images import image_size, payload_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.core.models.dialects import DialectVariant
    from holdfast.core.projection.draft import ViewDraft
    from holdfast.core.projection.policy import Policy
    from holdfast.core.projection.sizes import Scale
    from holdfast.core.projection.units import MessagePart
    from holdfast.core.window import Window

_BODY_SHARE: Final = 0.9
"""Of the provider's limit on bytes; the rest is for the shape of the request."""


def fit_media(draft: ViewDraft, scale: Scale, dialect: DialectVariant, window: Window) -> None:
    """Clear pictures and documents, oldest first, until their number, size, pages and the body are
    within limits."""
    if not draft.has_files:
        return
    parts = [
        part
        for unit in (*draft.opening, *draft.units[draft.start :])
        for part in unit.parts
        if scale.part(draft.shape(part)).files
    ]
    pictures = [(part, image) for part in parts for image in images_in(draft.shape(part))]
    for part, image in pictures:
        if _is_unfit(image, dialect, len(pictures)):
            _clear(draft, part, "a picture the provider would refuse")
    left = [(part, image) for part, image in pictures if not _is_cleared(draft, part)]
    if dialect.images_max is not None:
        while len(left) > dialect.images_max:
            _clear(draft, left[0][0], f"more than {dialect.images_max} pictures")
            left = [(part, image) for part, image in left if not _is_cleared(draft, part)]
    if dialect.pdf_pages and window.tokens <= dialect.pdf_window:
        pages = [(part, scale.part(draft.shape(part)).pages) for part in parts]
        _fit_pages(draft, pages, dialect.pdf_pages)
    room = int(dialect.body_bytes * _BODY_SHARE)
    if room:
        _fit_bytes(draft, parts, room)


def fit_count(draft: ViewDraft, dialect: DialectVariant, policy: Policy, room: int) -> None:
    """Cut to half of what the provider takes, where there are more messages than that."""
    most = dialect.messages_max
    units = (*draft.opening, *draft.units[draft.start :]) if most else ()
    if not most or sum([len(unit.parts) for unit in units]) + 4 <= most:
        return
    release(draft, 0)
    start, left = len(draft.units) - 1, most // 2
    while start > draft.start and left >= len(draft.units[start].parts):
        left -= len(draft.units[start].parts)
        start -= 1
    if len(draft.units[-1].parts) + 4 > most:
        start = len(draft.units)  # one step with more calls than that
    draft.reasons.append(f"more than {most:,} messages")
    draft.cut(start, policy.carry_cap(room))


def _fit_pages(draft: ViewDraft, pages: Sequence[tuple[MessagePart, int]], most: int) -> None:
    total = sum(number for _part, number in pages)
    for part, number in pages:
        if total <= most:
            return
        if number:
            _clear(draft, part, f"{total:,} pages of PDF, of {most} that the provider takes")
            total -= number


def _fit_bytes(draft: ViewDraft, parts: Sequence[MessagePart], room: int) -> None:
    total = sum(map(bytes_of, draft.shown()))
    for part in parts:
        if total <= room:
            return
        if not _is_cleared(draft, part):
            _clear(draft, part, f"a body of {total:,} bytes")
            total = sum(map(bytes_of, draft.shown()))


def _is_unfit(image: Image, dialect: DialectVariant, count: int) -> bool:
    if not image.data:
        return False
    if dialect.image_bytes and len(image.data) > dialect.image_bytes:
        return True
    if not payload_bytes(image.data):
        return True
    size = image_size(image)
    if size is None:
        return False
    longest = max(size.width, size.height)
    if dialect.image_pixels and longest > dialect.image_pixels:
        return True
    many = bool(dialect.many_images) and count > dialect.many_images
    return many and longest > dialect.many_image_pixels


def images_in(part: MessagePart) -> list[Image]:
    found: list[Image] = []
    for block in part.blocks:
        if type(block) is Image:
            found.append(block)
        elif type(block) is ToolAnswer:
            found += [piece for piece in block.content if type(piece) is Image]
    return found


def _is_cleared(draft: ViewDraft, part: MessagePart) -> bool:
    form = draft.forms.get(part.record)
    return form is not None and form.action == "clear"


def _clear(draft: ViewDraft, part: MessagePart, why: str) -> None:
    draft.show({part.record: Form("clear")})
    if why not in draft.reasons:
        draft.reasons.append(why)
