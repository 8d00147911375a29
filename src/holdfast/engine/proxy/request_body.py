"""The body of a client's request, parsed no further than a request before it had been."""

from __future__ import annotations

import json
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast.core.dialects.registry import all_dialects, find_dialect
from holdfast.core.proxy.endpoints import ProxyProblem
from holdfast.core.proxy.known_prefix import KnownPrefix  # noqa: TC001  (a struct's field)
from holdfast.core.text.cut import scrub_deep
from holdfast.core.text.strings import is_too_deep

if TYPE_CHECKING:
    from holdfast.core.log.records import Json


class RequestBody(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """The bytes that a client sent, and what they hold."""

    dialect: str
    data: bytes
    known: KnownPrefix | None = None
    """The beginning of the body, where a request before had it."""

    @cached_property
    def body(self) -> Json:
        """The JSON of the body. Raises `ProxyProblem` where it is none."""
        return _decode(self.data)

    @cached_property
    def short(self) -> tuple[int, Json]:
        """The number of messages that are known, and the body without them."""
        data = self.known.shorten(self.data, self.items_field) if self.known else None
        if self.known is not None and data is not None:
            try:
                return self.known.count, _decode(data)
            except ProxyProblem:  # the error of the whole body names its place
                pass
        return 0, self.body

    @property
    def items_field(self) -> str:
        return find_dialect(self.dialect).body.items_field

    @cached_property
    def items(self) -> list[Any]:
        """The whole conversation: messages, or items of the Responses API.

        Raises `ProxyProblem` where the body belongs to another dialect.
        """
        return self._items_of(self.body)

    @cached_property
    def new_items(self) -> tuple[int, list[Any]]:
        """The index of the first item that is not known, and the items from there on."""
        count, body = self.short
        return (count, self._items_of(body)) if count else (0, self.items)

    def items_from(self, index: int) -> list[Any]:
        """The items from an index on. Parses the whole body only where it has to."""
        first, items = self.new_items
        return items[index - first :] if index >= first else self.items[index:]

    @property
    def item_count(self) -> int:
        first, items = self.new_items
        return first + len(items)

    @property
    def leading(self) -> list[Any]:
        """The items at the beginning that are instructions."""
        if self.known is not None and self.short[0]:
            return self.known.leading
        return self.items[: find_dialect(self.dialect).items.count_leading(self.items)]

    def _items_of(self, body: Json) -> list[Any]:
        found = find_dialect(self.dialect).body.read_items(body)
        if found is not None:
            return found
        fields = (known.body.items_field for known in all_dialects())
        other = next((name for name in fields if name in body and name != self.items_field), "")
        raise ProxyProblem(
            400,
            f"the body has no list `{self.items_field}`, and this address takes requests of the "
            f"dialect `{self.dialect}`",
            f"it has `{other}`: send it to the address of that API"
            if other
            else f"send the messages as `{self.items_field}`",
            code="wrong_dialect",
        )

    @property
    def fields(self) -> Json:
        """The body, of which the messages may be missing."""
        return self.short[1]


def _parse(data: bytes) -> Any:
    """The JSON of some bytes. JavaScript writes halves of characters, which providers judge: they
    are read here as the mark for what is no character."""
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        try:
            return scrub_deep(json.loads(data, parse_constant=_refuse_constant))
        except ValueError:
            raise error from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"`{name}` is not JSON")


def _decode(data: bytes) -> Json:
    try:
        body = _parse(data)
    except (ValueError, RecursionError) as error:
        raise ProxyProblem(
            400, f"the body is not JSON: {error}", "send a JSON object", code="bad_json"
        ) from error
    if not isinstance(body, dict):
        raise ProxyProblem(400, "the body is not a JSON object", "send an object", code="bad_json")
    if is_too_deep(body):
        raise ProxyProblem(400, "the body is nested too deeply", "send it flatter", code="bad_json")
    return body
