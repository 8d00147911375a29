"""The terms of requests: what comes with every call, and is logged where it changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from holdfast.core.log.records import ModelChange
from holdfast.core.models.messages import read_tools
from holdfast.core.proxy.branches import CHAIN_FIELD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.core.log.records import Json, Record
    from holdfast.core.models.messages import Tool

REQUEST_FIELD: Final = "request"
"""The field of a `model` record that holds the terms which changed, as the client sent them."""


def text_of_system(value: object) -> str:
    """The text of a system prompt: a string, blocks, or a content of Gemini's."""
    if isinstance(value, str):
        return value
    if isinstance(value, dict):
        parts = value.get("parts")
        value = parts if isinstance(parts, list) else [parts]
    blocks = value if isinstance(value, list) else ()
    texts = (block.get("text") for block in blocks if isinstance(block, dict))
    return "\n".join(text for text in texts if isinstance(text, str))


def is_proxied(records: Iterable[Record]) -> bool:
    """True where the proxy logged some of the records."""
    return any(CHAIN_FIELD in record.extra for record in records)


def newest_terms(newest: Iterable[Record]) -> tuple[str, tuple[Tool, ...]]:
    """The system prompt and the tools of the last request on a path; shown the path backwards.

    Reads no further than to the records that state both.
    """
    terms: Json = {}
    for record in newest:
        if isinstance(record, ModelChange):
            changed = record.extra.get(REQUEST_FIELD)
            terms = {**(changed if isinstance(changed, dict) else {}), **terms}
            if "tools" in terms and ("system" in terms or "instructions" in terms):
                break
    system = terms.get("system", terms.get("instructions"))
    return text_of_system(system), read_tools(terms.get("tools"))
