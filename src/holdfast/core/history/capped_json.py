"""Replies within a cap, as compact JSON that states its own length.

For every cap from 0 up the text is within it: what there is no room for gives way in an order that
the caller sets, down to an empty object, and below two bytes to nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from holdfast.core.text.cut import cut

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from holdfast.core.log.records import Json

_ERROR_CHARS: Final = (600, 300, 150, 80, 40)


def first_within(replies: Iterable[bytes], cap: int) -> str:
    """The first of ever smaller replies that is within the cap."""
    assert cap >= 0, f"a cap cannot be negative: {cap}"
    found = next((reply for reply in replies if len(reply) <= cap), b"{}" if cap >= 2 else b"")
    assert len(found) <= cap
    return found.decode()


def encode_with_length(reply: Json, fields: Sequence[str] = ()) -> bytes:
    """A reply, or some fields of it, with its own length where `bytes` is among them."""
    kept = {name: item for name, item in reply.items() if not fields or name in fields}
    if fields and "bytes" not in fields:
        return msgspec.json.encode(kept)
    bare = len(msgspec.json.encode({**kept, "bytes": 0})) - 1
    total = bare
    while total != bare + len(str(total)):
        total = bare + len(str(total))
    data = msgspec.json.encode({**kept, "bytes": total})
    assert len(data) == total
    return data


def largest(most: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to `most` that fits, where smaller ones fit if larger ones do."""
    least = 0
    while least < most:
        middle = (least + most + 1) // 2
        least, most = (middle, most) if fits(middle) else (least, middle - 1)
    return least


def refusal(status: str, error: str, asked: str, cap: int, *, field: str = "sessionKey") -> str:
    """A refusal as data: what was asked for, and why it is not given."""
    short = [cut(error, chars).text for chars in _ERROR_CHARS]
    whole = ({"status": status, "error": item, field: asked} for item in (error, *short))
    bare = ({"status": status, "error": item} for item in short)
    return first_within(map(msgspec.json.encode, (*whole, *bare, {"status": status})), cap)


def fit_text(reply: Json, field: str, cap: int) -> str:
    """A reply whose text in `field` is shortened to fit; `truncated` says so."""
    text: str = reply[field]

    def encode(chars: int) -> bytes:
        shown = text if chars >= len(text) else cut(text, chars, keep="head").text
        is_cut = bool(reply.get("truncated")) or chars < len(text)
        return encode_with_length({**reply, field: shown, "truncated": is_cut})

    chars = largest(len(text), lambda count: len(encode(count)) <= cap)
    return first_within((encode(chars), msgspec.json.encode({"truncated": True})), cap)


def listing(
    rows: Sequence[Json], reply: Json, cap: int, *, unseen: int = 0, field: str = "sessions"
) -> str:
    """Rows in a reply, the first ones where not all fit."""
    encoded = [msgspec.json.encode(row) for row in rows]
    room, count = cap, 0
    while count < len(encoded) and room > len(encoded[count]):
        room -= len(encoded[count]) + 1
        count += 1

    def replies() -> Iterable[bytes]:
        for kept in range(count, -1, -1):
            left = len(rows) - kept + unseen
            yield encode_with_length(
                {
                    **reply,
                    field: [msgspec.Raw(item) for item in encoded[:kept]],
                    "count": kept,
                    "omittedCount": left,
                    "truncated": left > 0,
                }
            )
        yield msgspec.json.encode({field: [], "truncated": bool(rows) or unseen > 0})

    return first_within(replies(), cap)
